//! Large files of a file system that is faster than the trees: nodes read them directly. Whatever they decide, programs
//! read the right bytes.

use std::path::Path;

use headwater_tests::counting_fs::{Caching, Mounted};
use headwater_tests::harness::{Fixture, Headwater, Mechanism, Program, Session, skipped};
use headwater_tests::model::Content;

const NODES: usize = 3;
const FILES: [&str; 3] = ["a", "b", "c"];
const FILE_BYTES: u64 = 24 << 20;
/// On a machine that stalls, a session may decide otherwise.
const SESSIONS_MAX: usize = 10;
/// What all nodes together read of a file to compare, at most.
const SAMPLED_BYTES_MAX: u64 = NODES as u64 * (15 << 18);
/// Operations in a second of a slow file system.
const SLOW: u64 = 400;

fn fixture() -> Fixture {
    let fixture = Fixture::new("direct");
    for (seed, name) in FILES.into_iter().enumerate() {
        fixture.file(name, Content::noise(seed as u64, FILE_BYTES).read(0, FILE_BYTES), 0o644);
    }
    fixture
}

/// Has all nodes read the files, and checks what they read. `plain` is what a program reads without Headwater.
fn read_all(at: &Path, via: Mechanism, plain: &[&str]) -> Session {
    let program = Program::new("cksum").args(FILES.map(|name| at.join(name)));
    let session = Headwater::new(at).via(via).on(NODES, 1).run(&program);
    assert_eq!(session.output.status, 0, "{:?}", session.output);
    for sum in plain {
        assert_eq!(session.output.stdout.matches(sum).count(), NODES, "{sum}: {:?}", session.output);
    }
    session
}

/// Returns the sums of the files.
fn sums(fixture: &Fixture) -> Vec<String> {
    let plain = Program::new("cksum").args(FILES.map(|name| fixture.path(name))).run();
    plain.stdout.lines().map(|line| line.split('/').next().expect("a sum").to_owned()).collect()
}

fn what_is_faster(via: Mechanism) {
    if let Err(reason) = via.check() {
        return skipped(reason);
    }
    let fixture = fixture();
    let sums = sums(&fixture);
    let plain: Vec<&str> = sums.iter().map(String::as_str).collect();
    let decides = || {
        let session = read_all(&fixture.shared(), via, &plain);
        let (files, stored) = (session.number("large.files"), session.number("memory.store_bytes"));
        // The first file may have come before the decision.
        assert!(files < 2 || session.number("large.direct_bytes_per_ms") > session.number("large.trees_bytes_per_ms"));
        assert!(files > 0 || stored >= 3 * FILE_BYTES, "{:#}", session.summary);
        files >= 2
    };
    assert!((0..SESSIONS_MAX).any(|_| decides()), "no session has read a local disk directly");
}

fn what_is_slower(via: Mechanism) {
    if let Err(reason) = via.check() {
        return skipped(reason);
    }
    let fixture = fixture();
    let sums = sums(&fixture);
    let plain: Vec<&str> = sums.iter().map(String::as_str).collect();
    let mut mounted = match Mounted::new(&fixture.shared(), 1, Caching::NONE) {
        Ok(mounted) => mounted,
        Err(reason) => return skipped(reason),
    };
    mounted.set_rate(SLOW);
    let decides = || {
        let session = read_all(mounted.path(), via, &plain);
        let is_stored = session.number("large.files") == 0;
        let read = session.number("shared_fs.bytes_read");
        assert!(!is_stored || read <= 3 * FILE_BYTES + SAMPLED_BYTES_MAX, "{:#}", session.summary);
        is_stored
    };
    assert!((0..SESSIONS_MAX).any(|_| decides()), "each session has read a slow file system directly");
}

#[test]
fn of_a_fast_file_system_by_audit() {
    what_is_faster(Mechanism::Audit);
}

#[test]
fn of_a_fast_file_system_by_namespace() {
    what_is_faster(Mechanism::Namespace);
}

#[test]
fn of_a_slow_file_system_by_audit() {
    what_is_slower(Mechanism::Audit);
}

#[test]
fn of_a_slow_file_system_by_namespace() {
    what_is_slower(Mechanism::Namespace);
}
