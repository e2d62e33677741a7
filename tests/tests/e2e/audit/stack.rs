//! A call of an audited program takes little more stack than without Headwater: threads may have 16 KiB, and the stack of
//! a crash handler 8 KiB.

use std::collections::BTreeMap;
use std::os::unix::fs::symlink;

use headwater_tests::harness::{Fixture, Program, glibc_is_before, skipped};

/// The stack that a call may need beyond the original's.
const MORE_BYTES_MAX: usize = 1024;

/// For each call, the bytes of stack that it took. What the programs print that it executes is none of it.
fn used(output: &str) -> BTreeMap<String, usize> {
    let lines = output.lines().filter_map(|line| line.split_once(' '));
    lines.filter_map(|(call, bytes)| Some((call.to_owned(), bytes.parse().ok()?))).collect()
}

#[test]
fn a_call_takes_little_stack() {
    if glibc_is_before(2, 35) {
        return skipped("before glibc 2.35, audited programs call functions by a trampoline with much stack");
    }
    let fixture = Fixture::new("stack");
    let app = fixture.build("audit/stack.c", "bin/stack", &[]);
    let program = fixture.build("spawned.c", "bin/program", &[]);
    let deep = ["a-name-of-thirty-two-characters!"; 12].join("/");
    for directory in ["data", &deep] {
        fixture.file(&format!("{directory}/text"), "text\n", 0o644);
        fixture.file(&format!("{directory}/script"), "#!/bin/true\n", 0o755);
        symlink("text", fixture.path(&format!("{directory}/link"))).expect("an own directory");
        std::fs::copy(&program, fixture.path(&format!("{directory}/program"))).expect("an own directory");
        let program = Program::new(&app).arg(fixture.path(directory));
        let plain = program.run();
        let session = fixture.headwater().run(&program);
        session.assert_served();
        assert_eq!((plain.status, session.output.status), (0, 0), "{:?}", session.output);
        let (plain, audited) = (used(&plain.stdout), used(&session.output.stdout));
        assert!(plain.len() > 30 && plain.len() == audited.len(), "{plain:?} {audited:?}");
        let more = audited.iter().filter(|(call, bytes)| **bytes > plain[*call] + MORE_BYTES_MAX);
        let more: Vec<String> = more.map(|(call, bytes)| format!("{call}: {bytes}, not {}", plain[call])).collect();
        assert!(more.is_empty(), "{directory}: {more:#?}");
    }
}
