//! `--serve` and `--level`: which kinds of files come from the store, and which from the source files.

use headwater_tests::counting_fs::{Caching, Mounted};
use headwater_tests::harness::{Fixture, Headwater, Mechanism, Program, Session, skipped};
use serde_json::Value;

const NODES: usize = 2;
const PROCESSES: usize = 2;
const DATA_BYTES: u64 = 300_000;
/// A file of each kind, in the order of `--serve`.
const FILES: [&str; 4] = ["lib/libx.so", "pkg/module.py", "bin/tool", "data"];

fn fixture() -> Fixture {
    let fixture = Fixture::new("kinds");
    fixture.library("lib/libx.so", "x", &[]);
    fixture.file("pkg/module.py", "print('module')\n", 0o644);
    fixture.file("bin/tool", "#!/bin/sh\necho tool\n", 0o755);
    fixture.file("data", vec![b'd'; DATA_BYTES as usize], 0o644);
    fixture
}

/// Uses a file of each kind, and a library and files that are not there.
fn program(fixture: &Fixture, mounted: &Mounted) -> Program {
    let app = fixture.build("loader.c", "../app", &[]);
    let [lib, pkg, tool, data] = FILES.map(|name| mounted.path().join(name).display().to_string());
    let script = format!(
        "LD_LIBRARY_PATH={lib} {app} open=libx.so call=x open=libnope.so; cat {pkg}; {tool}; cksum {data}; \
         stat -c %s {data} {pkg} {lib}/libx.so {tool}; test -e {pkg}.none -o -e {data}.none || echo absent",
        lib = lib.trim_end_matches("/libx.so"),
        app = app.display(),
    );
    Program::shell(&script)
}

fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

fn opens(counts: &Value, name: &str) -> u64 {
    counts["paths"][name]["open"].as_u64().unwrap_or(0)
}

/// Runs the program with these options; checks its output, and which files were read once.
fn check(via: Mechanism, options: &[&str], served: [bool; 4]) -> Option<Session> {
    let fixture = fixture();
    let mut mounted = match via.check().and_then(|()| Mounted::new(&fixture.shared(), 1, Caching::NONE)) {
        Ok(mounted) => mounted,
        Err(reason) => {
            skipped(reason);
            return None;
        }
    };
    let program = program(&fixture, &mounted);
    let plain = program.run();
    mounted.reset();
    let headwater = Headwater::new(mounted.path()).via(via).on(NODES, PROCESSES);
    let session = options.iter().fold(headwater, |headwater, option| headwater.option(*option)).run(&program);
    let counts = mounted.counts();
    let all = plain.stdout.repeat(NODES * PROCESSES);
    assert_eq!(sorted(&session.output.stdout), sorted(&all), "{options:?} {:?}", session.output);
    for (name, is_served) in FILES.into_iter().zip(served) {
        let opens = opens(&counts, name);
        assert!(if is_served { opens == 1 } else { opens >= NODES as u64 }, "{options:?} {name}: {opens} {counts:#}");
    }
    assert_eq!(counts["total"]["failed_lookup"], 0, "{options:?} {counts:#}");
    assert_eq!(session.number("clients.fallbacks"), 0, "{options:?} {:#}", session.summary);
    let stored = session.number("memory.store_bytes");
    assert_eq!(stored >= DATA_BYTES, served[3], "{options:?} stores {stored} bytes");
    Some(session)
}

fn each_kind(via: Mechanism) {
    check(via, &[], [true; 4]);
    check(via, &["--serve", "libraries,python,executables,data"], [true; 4]);
    check(via, &["--serve", "libraries"], [true, false, false, false]);
    check(via, &["--serve", "python,data"], [false, true, false, true]);
    check(via, &["--serve", "executables"], [false, false, true, false]);
}

fn nothing(via: Mechanism) {
    if let Some(session) = check(via, &["--serve", "none"], [false; 4]) {
        assert_eq!(session.number("memory.store_bytes"), 0, "{:#}", session.summary);
    }
}

fn each_level(via: Mechanism) {
    check(via, &["--level", "low"], [true, false, false, false]);
    check(via, &["--level", "medium"], [true, true, true, false]);
    check(via, &["--level", "high"], [true; 4]);
    check(via, &["--level", "low", "--serve", "data"], [false, false, false, true]);
}

#[test]
fn each_kind_by_audit() {
    each_kind(Mechanism::Audit);
}

#[test]
fn each_kind_by_namespace() {
    each_kind(Mechanism::Namespace);
}

#[test]
fn with_nothing_served_absent_names_are_answered_by_audit() {
    nothing(Mechanism::Audit);
}

#[test]
fn with_nothing_served_absent_names_are_answered_by_namespace() {
    nothing(Mechanism::Namespace);
}

#[test]
fn each_level_by_audit() {
    each_level(Mechanism::Audit);
}

#[test]
fn each_level_by_namespace() {
    each_level(Mechanism::Namespace);
}

/// What is not served and changes is read as it is, however it was changed.
fn what_changes(via: Mechanism) {
    if let Err(reason) = via.check() {
        return skipped(reason);
    }
    let fixture = Fixture::new("changing");
    let file = fixture.file("file", "first\n", 0o644).display().to_string();
    let of_host = fixture.outside("of-host");
    // Changed from outside of the session, and by a program of it.
    let script = format!(
        "stat -c %s {file}; touch {wait}; while test -e {wait}; do sleep 0.05; done; cat {file}; echo third longer >{file}; \
         cat {file}; stat -c %s {file}",
        wait = of_host.display(),
    );
    let starting = fixture.headwater().via(via).option("--serve").option("none").start(&Program::shell(&script));
    assert!(headwater_tests::harness::wait_until(std::time::Duration::from_secs(30), || of_host.exists()));
    std::fs::write(&file, "the second one\n").expect("an own file");
    std::fs::remove_file(&of_host).expect("an own file");
    let session = starting.finish();
    assert_eq!(session.output.stdout, "6\nthe second one\nthird longer\n13\n", "{session:#?}");
}

#[test]
fn what_changes_by_audit() {
    what_changes(Mechanism::Audit);
}

#[test]
fn what_changes_by_namespace() {
    what_changes(Mechanism::Namespace);
}
