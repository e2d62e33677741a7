//! A program's observations of itself, when it comes from a zygote and when it is executed: the same but for the list
//! of differences, which the header and the documents have too.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use headwater_tests::harness::{Fixture, no_early_stop, skipped};
use headwater_tests::workspace;

use super::{by_rank, command, seen};

/// Processes of each mechanism; so many values of one kind show which are alike in all and which are each one's own.
const PROCESSES: usize = 4;
/// The beginnings of the list in each file, and of its second part.
const LISTS: [(&str, &str, &str, &str); 2] = [
    ("spawn/include/pspawn.h", "How a process from a zygote differs", "With PSPAWN_STOP_MAIN, besides:", "*/"),
    ("docs/guide/spawning.md", "### What is different", "With `--stop main`, besides:", "A Python interpreter"),
];

/// For each observation, the value of each process.
type Observed = BTreeMap<String, Vec<String>>;
/// The affected observation, and how it differs, at the first stop and from the second on.
type Differences = [BTreeMap<String, String>; 2];

/// Reads a list of lines `- NAME: TEXT`.
fn list(text: &str) -> BTreeMap<String, String> {
    let plain = text.lines().map(|line| line.trim_start().trim_start_matches("* ").trim_start_matches('*'));
    let joined = plain.collect::<Vec<_>>().join(" ").replace("**", "");
    let items = joined.split(" - ").skip(1).map(|item| item.split_once(": ").expect("a name and a text"));
    items.map(|(name, text)| (name.to_owned(), text.split_whitespace().collect::<Vec<_>>().join(" "))).collect()
}

fn differences((file, begin, middle, end): (&str, &str, &str, &str)) -> Differences {
    let text = fs::read_to_string(workspace().join(file)).expect("a file of the project");
    let (_, rest) = text.split_once(begin).unwrap_or_else(|| panic!("{file}: {begin}"));
    let (rest, _) = rest.split_once(end).unwrap_or_else(|| panic!("{file}: {end}"));
    let (load, main) = rest.split_once(middle).unwrap_or_else(|| panic!("{file}: {middle}"));
    [list(load), list(main)]
}

/// Starts the program with these options, and returns what its processes have observed.
fn observe(fixture: &Fixture, program: &Path, options: &[&str]) -> Observed {
    let output = fixture.path("out.{rank}").display().to_string();
    let count = PROCESSES.to_string();
    let program = program.to_str().expect("an own path");
    let args = [&["-n", &count, "--output", &output], options, &["--", program, "x{rank}"]].concat();
    let seen = seen(command(&args).env("OBSERVED", fixture.shared()));
    assert_eq!((seen.status, seen.err.as_str()), (Some(0), ""), "{options:?}");
    let mut observed = Observed::new();
    for rank in 0..PROCESSES {
        let text = fs::read_to_string(fixture.path(&format!("out.{rank}"))).expect("its output");
        for (what, value) in text.lines().filter_map(|line| line.split_once(": ")) {
            observed.entry(what.to_owned()).or_default().push(value.to_owned());
        }
    }
    observed
}

/// True if a process from a zygote has what one that was executed would have: the same, or one of its own.
fn is_alike(executed: [Option<&Vec<String>>; 2], made: Option<&Vec<String>>) -> bool {
    let [first, second] = executed;
    let values = |list: Option<&Vec<String>>| list.map(|list| list.iter().collect::<BTreeSet<_>>().len());
    first == made || (first != second && values(first) == values(made))
}

/// The groups of differences.
fn differing(executed: &[Observed; 2], made: &Observed) -> BTreeSet<String> {
    let all = executed[0].keys().chain(made.keys());
    let differ = all.filter(|what| !is_alike([executed[0].get(*what), executed[1].get(*what)], made.get(*what)));
    differ.map(|what| what.split('.').next().unwrap_or(what).to_owned()).collect()
}

fn names(lists: &[BTreeMap<String, String>]) -> BTreeSet<String> {
    lists.iter().flat_map(|list| list.keys().cloned()).collect()
}

#[test]
fn the_list_is_the_same_everywhere() {
    let [header, document] = LISTS.map(differences);
    assert!(header.iter().all(|list| list.len() >= 3), "{header:?}");
    assert_eq!(header, document);
}

#[test]
fn a_process_differs_only_as_listed() {
    let random = fs::read_to_string("/proc/sys/kernel/randomize_va_space");
    if random.is_ok_and(|text| text.trim() != "2") {
        return skipped("the kernel chooses no addresses here");
    }
    if let Some(reason) = no_early_stop() {
        return skipped(reason);
    }
    let listed = differences(LISTS[0]);
    let fixture = Fixture::new("spawn-same");
    for (name, flags, stop, expected) in [
        ("all", &["-DALL", "-pthread"][..], "load", names(&listed[..1])),
        ("plain", &["-pthread"][..], "load", names(&listed[..1])),
        ("plain", &["-pthread"][..], "main", names(&listed)),
    ] {
        let program = fixture.build("spawn/observed.cpp", name, flags);
        let executed = [(); 2].map(|()| observe(&fixture, &program, &["--from", "exec"]));
        let made = observe(&fixture, &program, &["--from", "zygote", "--stop", stop]);
        assert!(executed[0].len() > 80, "{executed:?}");
        let found = differing(&executed, &made);
        assert_eq!(found, expected, "{name}, stopped at {stop}: {executed:#?} {made:#?}");
    }
}

/// Libraries that begin before the zygote can stop.
#[test]
fn what_begins_before_all_others_means_exec() {
    if let Some(reason) = no_early_stop() {
        return skipped(reason);
    }
    let fixture = Fixture::new("spawn-early");
    let library = ["-shared", "-fPIC", "-pthread", "-DWHAT=\"nothing\"", "-Wl,-z,initfirst"];
    let library = fixture.build("spawn/library.c", "libearly.so", &library);
    let flags = ["-Wl,--no-as-needed", "-L{shared}", "-learly", "-Wl,-rpath,{shared}"];
    let (linked, plain) = (fixture.build("spawned.c", "linked", &flags), fixture.build("spawned.c", "plain", &[]));
    for (program, audit, reason) in [
        (&linked, None, Some("begins before all others")),
        (&plain, Some(&library), Some("audits the loader")),
        (&plain, None, None),
    ] {
        let run = |args: &[&str]| {
            let mut command = command(&[args, &["--", program.to_str().expect("an own path")]].concat());
            if let Some(library) = audit {
                command.env("LD_AUDIT", library);
            }
            seen(&mut command)
        };
        let seen = run(&["--check"]);
        assert_eq!(seen.status, Some(u8::from(reason.is_some()).into()), "{}{}", seen.out, seen.err);
        assert!(seen.out.contains(reason.unwrap_or("can come")), "{}", seen.out);
        assert_eq!(by_rank(&run(&["-n", "4"]).out).len(), 4, "{reason:?}");
    }
}

#[test]
fn a_check_prints_all_that_it_saw() {
    let fixture = Fixture::new("spawn-check");
    let build = |name: &str, flags: &[&str]| fixture.build("spawn/observed.cpp", name, flags).display().to_string();
    let (plain, all) = (build("plain", &["-pthread"]), build("all", &["-DALL", "-pthread"]));
    let fixed = build("static", &["-static", "-pthread", "-Wno-error"]);
    fs::set_permissions(&fixed, std::os::unix::fs::PermissionsExt::from_mode(0o4755)).expect("an own file");
    let missing = fixture.path("missing").display().to_string();
    let chooses = ["the program chooses functions"];
    for (args, status, parts) in [
        (
            &["--check", "--", &plain][..],
            0,
            &[&["can come", "before its first constructor"][..], &chooses].concat()[..],
        ),
        (&["--check", "--", &all], 0, &chooses),
        (&["--check", "--stop", "main", "--", &plain], 0, &["can come", "not noticed", "random numbers"]),
        (
            &["--check", "--stop", "main", "--", &all],
            1,
            &["can't come", "its umask", "its limits", "its environment", "its timers", "opened /proc/version", "SYSV"],
        ),
        (&["--check", "--", &fixed], 1, &["linked statically", "other privileges"]),
        (&["--check", "--", &missing], 127, &[]),
    ] {
        if no_early_stop().is_some() && status == 0 {
            continue;
        }
        // The program makes files in its directory.
        let seen = seen(command(args).current_dir(fixture.shared()));
        assert_eq!(seen.status, Some(status), "{args:?}: {}{}", seen.out, seen.err);
        for part in parts {
            assert!(seen.out.contains(part), "{args:?}: {part}: {}", seen.out);
        }
    }
}
