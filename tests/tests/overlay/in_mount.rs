//! Large files that processes under audit read in their node's mount: only what they touch is fetched.

use std::time::Duration;

use headwater_tests::harness::{self, Fixture, Headwater, Mechanism, Program, Session, skipped};
const NODES: usize = 3;
const MIB: u64 = 1 << 20;
/// What a program may touch of its libraries.
const TOUCHED_BYTES_MAX: u64 = 12 * MIB;

/// A library with 64 MiB of data of which a call touches little, under two names, and a program of 24 MiB.
fn fixture() -> Fixture {
    let fixture = Fixture::new("in-mount");
    let data = |mib: u64| {
        let file = fixture.outside(&format!("data-{mib}.c"));
        let text = format!("__attribute__((used)) static const char data[{mib} << 20] = {{1}};\n");
        std::fs::write(&file, text).expect("an own file");
        file.display().to_string()
    };
    fixture.library("lib/liblarge.so", "large", &[&data(64)]);
    std::fs::hard_link(fixture.path("lib/liblarge.so"), fixture.path("lib/libtwin.so")).expect("an own directory");
    fixture.build("loader.c", "bin/next", &[&data(24)]);
    fixture
}

fn headwater(fixture: &Fixture) -> Headwater {
    // A local disk would be read directly.
    fixture.headwater().via(Mechanism::Audit).on(NODES, 1).option("--stored-file-max=1G")
}

fn lines(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

/// Runs the program on all nodes, and compares what it prints.
fn run(fixture: &Fixture, program: &Program) -> Option<Session> {
    if let Err(reason) = Mechanism::Mount.check() {
        skipped(reason);
        return None;
    }
    let (session, plain) = (headwater(fixture).run(program), program.run());
    assert_eq!(lines(&session.output.stdout), lines(&plain.stdout.repeat(NODES)), "{:?}", session.output);
    assert_eq!((session.output.status, &*session.messages), (plain.status, ""));
    assert_eq!(session.fallbacks(), 0, "{:#}", session.summary);
    Some(session)
}

#[test]
fn what_is_touched_is_fetched() {
    let fixture = fixture();
    let open = |name: &str| format!("open={}", fixture.path(&format!("lib/{name}")).display());
    let stat = format!("stat={}", fixture.path("lib/liblarge.so").display());
    let (large, twin) = (open("liblarge.so"), open("libtwin.so"));
    let app = fixture.build("loader.c", "bin/app", &[]);
    let program =
        Program::new(app).args([&*large, "call=large", "origin", &*twin, "open=nothing.so", "objects", &*stat]);
    let Some(session) = run(&fixture, &program) else { return };
    let read = session.number("shared_fs.bytes_read");
    assert!((MIB..TOUCHED_BYTES_MAX).contains(&read), "{read}");
    assert!(session.number("mount.reads") > 0, "{:#}", session.summary);
}

#[test]
fn what_is_executed_is_stored() {
    let fixture = fixture();
    let next = format!("exec={}", fixture.path("bin/next").display());
    let program = Program::new(fixture.build("loader.c", "bin/app", &[])).args([&*next, "origin"]);
    let Some(session) = run(&fixture, &program) else { return };
    assert!(session.number("memory.store_bytes") >= 24 * MIB, "{:#}", session.summary);
}

#[test]
fn a_daemon_that_dies_is_replaced() {
    if let Err(reason) = Mechanism::Mount.check() {
        return skipped(reason);
    }
    let fixture = fixture();
    let reached = fixture.outside("reached");
    let library = fixture.path("lib/liblarge.so").display().to_string();
    let args = [format!("open={library}"), format!("pause={}", reached.display()), "call=large".into()];
    let program = Program::new(fixture.build("loader.c", "bin/app", &[])).args(args).arg(format!("stat={library}"));
    let started = headwater(&fixture).start(&program);
    assert!(harness::wait_until(Duration::from_secs(20), || reached.exists()), "a program has opened the library");
    let daemons = started.daemons();
    assert_eq!((daemons.len(), started.supervisors().len()), (NODES, NODES));
    daemons.into_iter().for_each(harness::kill);
    std::fs::write(reached.with_extension("go"), "").expect("an own file");
    let session = started.finish();
    let plain = program.run();
    assert_eq!(lines(&session.output.stdout), lines(&plain.stdout.repeat(NODES)), "{:?}", session.output);
    assert_eq!(session.output.status, plain.status);
}
