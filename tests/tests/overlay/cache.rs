//! Content that outlives a session: the next one asks the shared file system for attributes only.

use std::time::Duration;

use headwater_tests::counting_fs::{Caching, Mounted};
use headwater_tests::harness::{Fixture, Headwater, Mechanism, Program, skipped};

const NODES: usize = 3;
/// Of changes that are younger than two seconds nothing is kept.
const AGE: Duration = Duration::from_millis(2100);

fn check(via: Mechanism) {
    if let Err(reason) = via.check() {
        return skipped(reason);
    }
    let fixture = Fixture::new("cache");
    let rpath = "-Wl,-rpath,$ORIGIN/../lib";
    fixture.library("lib/libdep.so", "dep", &[]);
    fixture.library("lib/libtop.so", "top", &["-L{shared}/lib", "-ldep", rpath]);
    fixture.file("data/table.txt", "rows\n".repeat(100_000), 0o644);
    fixture.build("loader.c", "bin/app", &["-Wl,--no-as-needed", "-L{shared}/lib", "-ltop", rpath]);
    let mut mounted = match Mounted::new(&fixture.shared(), 1, Caching { ttl_ms: 0, pages: false }) {
        Ok(mounted) => mounted,
        Err(reason) => return skipped(reason),
    };
    std::thread::sleep(AGE);
    let at = |name: &str| mounted.path().join(name);
    let program = Program::new(at("bin/app")).args(["call=top", "exec=/usr/bin/cksum"]).arg(at("data/table.txt"));
    let mut cache = std::ffi::OsString::from("--cache=");
    cache.push(fixture.outside("cache"));
    let headwater = Headwater::new(mounted.path()).via(via).on(NODES, 1).option(cache);
    let plain = program.run();
    let mut run = || {
        mounted.reset();
        let session = headwater.run(&program);
        assert_eq!(session.output.status, plain.status, "{:?}", session.output);
        assert_eq!(sorted(&session.output.stdout), sorted(&plain.stdout.repeat(NODES)), "{:?}", session.output);
        assert_eq!(session.messages, "");
        session.assert_served();
        (session.number("shared_fs.bytes_read"), session.number("shared_fs.files_read"), session)
    };
    let (bytes, files, _) = run();
    assert!(bytes > 500_000 && files >= 4, "{bytes} {files}");
    let (bytes, files, session) = run();
    assert_eq!((bytes, files), (0, 0), "{:#}", session.summary);
    assert!(session.number("cached.bytes") > 500_000 * NODES as u64, "{:#}", session.summary);
    std::fs::write(fixture.path("data/table.txt"), "more\n".repeat(100_000)).expect("an own file");
    mounted.reset();
    let session = headwater.run(&program);
    assert_eq!(sorted(&session.output.stdout), sorted(&program.run().stdout.repeat(NODES)), "the changed file");
    assert_eq!(session.number("shared_fs.files_read"), 1, "{:#}", session.summary);
}

/// The processes write at the same time.
fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

#[test]
fn a_second_session_reads_attributes_by_audit() {
    check(Mechanism::Audit);
}

#[test]
fn a_second_session_reads_attributes_by_namespace() {
    check(Mechanism::Namespace);
}
