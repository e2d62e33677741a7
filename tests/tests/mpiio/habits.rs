//! What programs do with files beside the plain patterns, and what is known of them in the next run.

use std::fs;
use std::process::Command;

use headwater_tests::harness::mpi::{Library, Mpi};
use headwater_tests::harness::skipped;

use crate::all;
use crate::job::{Job, differences};
use crate::programs::{checksum, make_input};
use crate::report::{report, transformed};

/// A habit of `c/habits.c`, and the pattern of which some are transformed; empty if none is.
const HABITS: &[(&str, &str)] = &[
    ("map-scatter", "read+scatter"),
    ("map-private", "read+scatter"),
    ("map-send", "read+send"),
    ("map-written", "read+scatter"),
    ("map-replaced", "read+send"),
    ("map-changed", "read+scatter"),
    ("map-renamed", ""),
    ("sendrecv", "read+send"),
    ("sendrecv-replace", "read+send"),
    ("sendrecv-from", "read+send"),
    ("kinds", "read+send"),
    ("packed", ""),
    ("header-one", "gather+write"),
    ("header-two", "gather+write"),
    ("header-vector", "gather+write"),
    ("header-later", "gather+write"),
    ("persistent-write", ""),
];

/// Each habit does the same with the library, and those that can be are transformed.
fn habits(mpi: &Mpi) {
    let Ok(library) = Library::find(mpi) else { return skipped("the library is not built") };
    let program = mpi.build("c/habits.c").unwrap();
    let modes = if all() { &["auto", "verify", "observe", "off"][..] } else { &["auto", "verify"] };
    for (habit, pattern) in HABITS {
        // The input lies in the directory of each run: some habits change it.
        let script = format!(
            "[ \"${{PMIX_RANK:-$PMI_RANK}}\" = 0 ] && cp {{in}} {{dir}}/part && mv {{dir}}/part {{dir}}/in; \
             until [ -f {{dir}}/in ]; do :; done; exec {} --what {habit} --in {{dir}}/in --out {{dir}}/out",
            program.display()
        );
        let scratch = headwater_tests::scratch("mpiio-habits");
        let input = scratch.path().join("in");
        make_input(&input, 2_000_003);
        let script = script.replace("{in}", &input.display().to_string());
        let arguments = vec!["-c".to_owned(), script];
        let job = Job { mpi, ranks: 3, program: "/bin/sh".as_ref(), arguments, variables: vec![] };
        let plain = job.run(None);
        assert_eq!(plain.output.status, 0, "{habit}: {}", plain.output.stderr);
        for mode in modes {
            let served = job.run(Some(&library.clone().with("HEADWATER_IO", mode)));
            assert_eq!(served.output.status, 0, "{habit} {mode}: {}", served.output.stderr);
            assert_eq!(checksum(&served.output), checksum(&plain.output), "{habit} {mode}");
            assert_eq!(differences(&plain.files, &served.files), Vec::<String>::new(), "{habit} {mode}");
            let of_it = report(&served.report).into_iter().any(|line| line.pattern == *pattern && line.transformed > 0);
            let is_expected = !pattern.is_empty() && matches!(*mode, "auto" | "verify");
            assert!(of_it || !is_expected, "{habit} {mode}: nothing was transformed: {}", served.report);
        }
    }
}

/// What one run has found out is known to the next, whatever else is in the file; and a place that lost is tried again.
fn known(mpi: &Mpi) {
    let Ok(library) = Library::find(mpi) else { return skipped("the library is not built") };
    let program = mpi.build("c/call_sites.c").unwrap();
    let scratch = headwater_tests::scratch("mpiio-known");
    let profile = scratch.path().join("profile");
    fs::write(&profile, "headwater-io-profile 1\noff 0 another+0x1\n\0\0no line\n").unwrap();
    let library = library.with("HEADWATER_IO_PROFILE", &profile.display().to_string());
    let job = Job { mpi, ranks: 2, program: &program, arguments: vec!["{dir}".into()], variables: vec![] };
    let lines = |word: &str| -> Vec<String> {
        let text = fs::read_to_string(&profile).unwrap();
        assert!(text.starts_with("headwater-io-profile 2\n"), "{text}");
        text.lines().filter(|line| line.starts_with(word)).map(str::to_owned).collect()
    };
    // A seed for which the first trial comes after all operations of the program, and none begins the run.
    let never = library.clone().with("HEADWATER_TEST_TRIALS", "1");
    let first = job.run(Some(&never));
    assert!(transformed(&first.report) > 0, "{}", first.report);
    let (off, useful) = (lines("off "), lines("useful "));
    assert!(off.iter().any(|line| line.ends_with("another+0x1")) && off.len() > 1, "{off:?}");
    assert!(!useful.is_empty(), "what gained is saved as well");
    job.run(Some(&never));
    let again = lines("useful ");
    assert_eq!(again.len(), useful.len(), "{useful:?} {again:?}");
    let runs = |line: &String| line.split(' ').nth(3).map(str::to_owned);
    assert_eq!(again.first().and_then(runs).as_deref(), Some("2"), "{again:?}");
    let left = fs::read_dir(scratch.path()).unwrap().count();
    assert_eq!(left, 1, "no partial file is left");
}

/// A program that contains its MPI is left alone, and a line reports it.
fn contained(mpi: &Mpi) {
    let Ok(library) = Library::find(mpi) else { return skipped("the library is not built") };
    let scratch = headwater_tests::scratch("mpiio-contained");
    let (source, program) = (scratch.path().join("a.c"), scratch.path().join("a"));
    let text = "int MPI_Init(int *c, char ***v) { return !c || !v; }\n\
                int main(int c, char **v) { return MPI_Init(&c, &v); }\n";
    fs::write(&source, text).unwrap();
    for (flag, lines) in [("-O1", 1), ("-s", 0)] {
        let made = Command::new("cc").args([flag, "-o"]).args([&program, &source]).status().unwrap();
        assert!(made.success());
        let done = Command::new(&program)
            .env("LD_PRELOAD", library.directory().join("libheadwater-mpiio.so"))
            .env("PMI_RANK", "0")
            .output()
            .unwrap();
        let stderr = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{stderr}");
        assert_eq!(stderr.matches("its MPI is linked into it").count(), lines, "{flag}: {stderr}");
    }
}

#[test]
fn with_open_mpi() {
    crate::with_first(crate::OPEN_MPI, habits);
}

#[test]
fn with_mpich() {
    crate::with_first(crate::MPICH, habits);
}

#[test]
fn are_known_in_the_next_run() {
    crate::with_first(crate::OPEN_MPI, known);
    crate::with_first(crate::MPICH, known);
}

#[test]
fn of_a_program_that_contains_its_mpi() {
    crate::with_first(crate::MPICH, contained);
}
