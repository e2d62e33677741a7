//! Calls of `<headwater.h>`: served by each mechanism, and the C library's without a session.

use std::path::{Path, PathBuf};

use headwater_tests::counting_fs::{Caching, Mounted};
use headwater_tests::harness::{Fixture, Mechanism, Program, has_program, headwater_binary, skipped};

/// What each compiler must accept without a warning.
const STRICT: [&str; 2] = ["-pedantic", "-I{include}"];

/// Files on a shared file system that counts what is opened.
pub struct Site {
    mounted: Mounted,
    fixture: Fixture,
    /// A directory of them that the sessions leave out.
    excluded: Option<String>,
}

impl Site {
    /// `None`, with the reason on standard output, where nothing can be mounted.
    pub fn new() -> Option<Site> {
        let fixture = Fixture::new("interface");
        for name in ["one", "two"] {
            fixture.file(&format!("files/{name}"), name, 0o644);
        }
        fixture.link("one", "files/link");
        let mounted = Mounted::new(&fixture.shared(), 1, Caching { ttl_ms: 60_000, pages: true });
        Some(Site { mounted: mounted.map_err(skipped).ok()?, fixture, excluded: None })
    }

    /// Builds a program of `tests/programs/interface` outside of the shared file system.
    pub fn build(&self, source: &str, flags: &[&str]) -> PathBuf {
        let include = headwater_tests::prefix().join("include").display().to_string();
        let flags: Vec<String> = STRICT.iter().chain(flags).map(|flag| flag.replace("{include}", &include)).collect();
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let name = format!("../{}", source.replace('.', "-")) + if flags.contains(&"-shared") { ".so" } else { "" };
        self.fixture.build(&format!("interface/{source}"), &name, &flags)
    }

    /// The path of a file on the shared file system.
    pub fn path(&self, name: &str) -> String {
        self.mounted.path().join("files").join(name).display().to_string()
    }

    /// Runs a program in a session, or without one. Returns its output, with `@` for the directory of the files, and how
    /// often `one` and `two` were opened and absent names were looked up.
    pub fn run(&mut self, via: Option<Mechanism>, program: &Path, arguments: &[&str]) -> (Vec<String>, [u64; 3]) {
        let files = self.path("");
        let arguments = arguments.iter().map(|argument| argument.replace("@/", &files));
        let mut program = Program::new(program).args(arguments);
        if let Some(via) = via {
            let shared = self.mounted.path().display().to_string();
            let binary = headwater_binary().display().to_string();
            program = program.behind([&binary, "run", "--quiet", "--via", via.name(), "--shared", &shared, "--"]);
            program = self.excluded.iter().fold(program, |program, path| program.env("HEADWATER_EXCLUDE", path));
        }
        self.mounted.reset();
        let output = program.run();
        assert!(output.status == 0 && output.stderr.is_empty(), "{via:?}: {output:?}");
        let counts = self.mounted.counts();
        let opens = |name: &str| counts["paths"][format!("files/{name}")]["open"].as_u64().unwrap_or(0);
        let lines = output.stdout.lines().map(|line| line.replace(&files, "@/").trim_end().to_owned());
        (lines.collect(), [opens("one"), opens("two"), counts["total"]["failed_lookup"].as_u64().unwrap_or(0)])
    }
}

/// Checks the results of calls, which are joined by spaces, and the numbers that [`Site::run`] returns.
fn check(
    site: &mut Site,
    via: Option<Mechanism>,
    program: &Path,
    calls: &[(&str, &str)],
    numbers: impl Into<Option<[u64; 3]>>,
) {
    let arguments: Vec<&str> = calls.iter().map(|(call, _)| *call).collect();
    let expected: Vec<String> = calls
        .iter()
        .filter(|(_, result)| !result.is_empty())
        .map(|(call, result)| format!("{call}: {result}"))
        .collect();
    let (lines, counted) = site.run(via, program, &arguments);
    assert_eq!(lines, expected, "{via:?}");
    if let Some(numbers) = numbers.into() {
        assert_eq!(counted, numbers, "{via:?}: openings of one and of two, absent names");
    }
}

/// Calls whose results are the same with and without a session.
const CALLS: [(&str, &str); 14] = [
    ("open=@/one", "one"),
    ("fopen=@/one", "one"),
    ("open=@/../files/one", "one"),
    ("stat=@/two", "3"),
    ("stat=@/link", "3"),
    ("lstat=@/link", "3"),
    ("readlink=@/link", "3"),
    ("open=@/absent", "-1 No such file or directory"),
    ("stat=@/absent", "-1 No such file or directory"),
    ("readlink=@/one", "-1 Invalid argument"),
    ("open=@/one/two", "-1 Not a directory"),
    ("stat=/", "STAT"),
    ("served=/proc/self/maps", "0"),
    ("served=@/absent", "0"),
];

/// [`CALLS`], with what depends on the machine.
fn calls() -> Vec<(&'static str, String)> {
    let root = std::fs::metadata("/").expect("the root can be read").len().to_string();
    CALLS.iter().map(|&(call, result)| (call, result.replace("STAT", &root))).collect()
}

fn check_all(site: &mut Site, via: Option<Mechanism>, program: &Path, is_served: bool) {
    let served = if is_served { "1" } else { "0" };
    let calls = calls();
    let more = [("session", served), ("served=@/one", served), ("served=@/link", served), ("served=@/", served)];
    let all: Vec<(&str, &str)> =
        more.into_iter().chain(calls.iter().map(|(call, text)| (*call, text.as_str()))).collect();
    check(site, via, program, &all, is_served.then_some([1, 0, 0]));
}

#[test]
fn files_are_served_by_each_mechanism() {
    let Some(mut site) = Site::new() else { return };
    for program in [site.build("calls.c", &[]), site.build("calls.cpp", &["-std=c++98"])] {
        check_all(&mut site, None, &program, false);
        for via in Mechanism::ALL {
            check_all(&mut site, Some(via), &program, true);
        }
    }
}

#[test]
fn a_static_program_is_served_by_mounts() {
    let Some(mut site) = Site::new() else { return };
    let program = site.build("calls.c", &["-static", "-DSTATIC"]);
    check_all(&mut site, None, &program, false);
    check_all(&mut site, Some(Mechanism::Audit), &program, false);
    check_all(&mut site, Some(Mechanism::Namespace), &program, true);
    check_all(&mut site, Some(Mechanism::Mount), &program, true);
}

#[test]
fn strict_compilers_accept_the_headers() {
    let Some(site) = Site::new() else { return };
    for (compiler, language, standards) in [
        ("gcc", "c", ["c99", "gnu17"]),
        ("clang", "c", ["c99", "gnu17"]),
        ("g++", "c++", ["c++98", "c++20"]),
        ("clang++", "c++", ["c++98", "c++20"]),
    ] {
        if !has_program(compiler) {
            continue;
        }
        let include = headwater_tests::prefix().join("include");
        for standard in standards {
            for (header, posix) in [
                ("headwater.h", "-DPLAIN"),
                ("headwater/spindle/spindle.h", "-DPLAIN"),
                ("headwater-launch.h", "-D_POSIX_C_SOURCE=200809L"),
            ] {
                let empty = site.fixture.file("empty", "", 0o644);
                let program = Program::new(compiler)
                    .args(["-Wall", "-Wextra", "-pedantic", "-Werror", "-fsyntax-only", "-x", language])
                    .args([format!("-std={standard}"), format!("-I{}", include.display())])
                    .args([posix, "-include", header])
                    .arg(empty);
                let output = program.run();
                assert_eq!(output.status, 0, "{compiler} {standard} {header}: {output:?}");
            }
        }
    }
}

#[test]
fn a_thread_switches_its_ordinary_calls_off() {
    let Some(mut site) = Site::new() else { return };
    let program = site.build("calls.c", &[]);
    let calls = [
        ("plain=@/one", "one"),
        ("disable", "0"),
        ("plain=@/one", "one"), // the second opening
        ("open=@/one", "one"),
        ("fopen=@/one", "one"),
        ("served=@/one", "1"),
        ("thread", ""),
        ("plain=@/one", "one"),
        ("end", ""),
        ("fork", ""),
        ("plain=@/one", "one"), // the third
        ("enable", "0"),
        ("plain=@/one", "one"),
        ("end", ""),
        ("plain=@/one", "one"), // the fourth
        ("disable", "0"),
        ("enable", "0"),
        ("plain=@/one", "one"), // the fifth
        ("enable", "0"),
        ("plain=@/one", "one"),
        // As programs of Spindle's do.
        ("enable", "0"),
        ("disable", "0"),
        ("plain=@/one", "one"),
    ];
    check(&mut site, Some(Mechanism::Audit), &program, &calls, [5, 0, 0]);
    let plain: Vec<_> =
        calls.map(|(call, result)| (call, if call.starts_with("served") { "0" } else { result })).into();
    check(&mut site, None, &program, &plain, None);
}

#[test]
fn a_thread_that_ends_leaves_nothing_to_the_next() {
    let Some(mut site) = Site::new() else { return };
    let program = site.build("calls.c", &[]);
    let off = [("thread", ""), ("disable", "0"), ("plain=@/two", "two"), ("end", "")];
    let next = [("thread", ""), ("plain=@/one", "one"), ("end", "")];
    let calls: Vec<_> = [off, off].concat().into_iter().chain([next, next].concat()).collect();
    check(&mut site, Some(Mechanism::Audit), &program, &calls, [1, 2, 0]);
}

#[test]
fn a_library_and_its_program_share_the_switch() {
    let Some(mut site) = Site::new() else { return };
    let program = site.build("calls.c", &[]);
    let library = site.build("calls.c", &["-shared", "-fPIC", "-DLIBRARY"]);
    let load = format!("library={}", library.display());
    let calls = [
        ("disable", "0"),
        (load.as_str(), ""),
        ("open=@/one", "one"),
        ("plain=@/one", "one"), // the second opening
        ("enable", "0"),
        ("plain=@/one", "one"),
        ("end", ""),
        ("plain=@/one", "one"),
    ];
    check(&mut site, Some(Mechanism::Audit), &program, &calls, [2, 0, 0]);
}

#[test]
fn what_the_kernel_serves_cannot_be_switched_off() {
    let Some(mut site) = Site::new() else { return };
    let program = site.build("calls.c", &[]);
    for via in [Mechanism::Namespace, Mechanism::Mount] {
        let calls = [("disable", "-1 Operation not supported"), ("enable", "0"), ("open=@/one", "one")];
        check(&mut site, Some(via), &program, &calls, [1, 0, 0]);
    }
}

#[test]
fn what_is_written_or_excluded_is_not_served() {
    let Some(mut site) = Site::new() else { return };
    let program = site.build("calls.c", &[]);
    for via in [Mechanism::Audit, Mechanism::Namespace] {
        let calls = [
            ("served=@/two", "1"),
            ("write=@/two", "two"),
            ("served=@/two", "0"),
            ("open=@/two", "two"),
            ("disable", if via == Mechanism::Audit { "0" } else { "-1 Operation not supported" }),
            // Changes are announced all the same.
            ("write=@/one", "one"),
            ("served=@/one", "0"),
        ];
        check(&mut site, Some(via), &program, &calls, None);
    }
    site.fixture.file("files/out/three", "three", 0o644);
    site.excluded = Some(site.path("out"));
    for via in Mechanism::ALL {
        let calls = [("served=@/out/three", "0"), ("open=@/out/three", "three"), ("served=@/two", "1")];
        check(&mut site, Some(via), &program, &calls, None);
    }
}
