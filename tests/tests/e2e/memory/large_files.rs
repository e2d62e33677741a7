//! Large files that are not stored: processes read the source files.

use headwater_tests::harness::{Fixture, Headwater, Mechanism, Program, Session, skipped};

/// A program, one that it executes, a library that is linked and one that is opened, each with 2 MiB of data, and a
/// small library.
fn program(fixture: &Fixture) -> Program {
    let data = fixture.outside("data.c");
    std::fs::write(&data, "__attribute__((used)) static const char data[2 << 20] = {1};\n").expect("an own file");
    let data = data.to_str().expect("a path in ASCII");
    fixture.library("lib/libsmall.so", "small", &[]);
    fixture.library("lib/liblarge.so", "large", &[data]);
    fixture.library("lib/libplug.so", "plug", &[data]);
    let rpath = "-Wl,--no-as-needed,-rpath,$ORIGIN/../lib";
    let link = [data, rpath, "-L{shared}/lib", "-llarge", "-lsmall"];
    fixture.build("loader.c", "bin/next", &link);
    let plug = format!("open={}", fixture.path("lib/libplug.so").display());
    let exec = format!("exec={}", fixture.path("bin/next").display());
    let args = ["call=large", "call=small", &plug, "call=plug", &exec, "call=large", "call=small"];
    Program::new(fixture.build("loader.c", "bin/app", &link)).args(args)
}

/// Runs it with and without Headwater. Returns how many bytes were read for the stores.
fn bytes_read(via: Mechanism, nodes: usize, options: &[&str]) -> u64 {
    let fixture = Fixture::new("large");
    let program = program(&fixture);
    let headwater = fixture.headwater().via(via).on(nodes, 1).option("--whole-file-max=1M");
    let headwater = options.iter().fold(headwater, |headwater: Headwater, option| headwater.option(*option));
    let session = headwater.run(&program);
    let plain = program.run();
    let sorted = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(String::from).collect();
        lines.sort_unstable();
        lines
    };
    assert_eq!(sorted(&session.output.stdout), sorted(&plain.stdout.repeat(nodes)), "{:?}", session.output);
    assert_eq!((session.output.status, &*session.messages), (plain.status, ""));
    served(&session, via);
    session.number("shared_fs.bytes_read")
}

fn served(session: &Session, via: Mechanism) {
    session.assert_served();
    if via == Mechanism::Audit {
        assert_eq!(session.fallbacks(), 0, "{:#}", session.summary);
    }
}

#[test]
fn a_node_that_is_alone_stores_no_large_files() {
    for via in [Mechanism::Audit, Mechanism::Namespace] {
        if let Err(reason) = via.check() {
            skipped(reason);
            continue;
        }
        let bytes = bytes_read(via, 1, &[]);
        assert!((1..1 << 20).contains(&bytes), "{} {bytes}", via.name());
        let bytes = bytes_read(via, 1, &["--stored-file-max=1G"]);
        assert!(bytes > 3 << 20, "{} {bytes}", via.name());
    }
}

#[test]
fn several_nodes_store_large_files_up_to_a_limit() {
    for via in [Mechanism::Audit, Mechanism::Namespace] {
        if let Err(reason) = via.check() {
            skipped(reason);
            continue;
        }
        assert!(bytes_read(via, 3, &[]) > 3 << 20, "{}", via.name());
        let bytes = bytes_read(via, 3, &["--stored-file-max=1M"]);
        assert!((1..1 << 20).contains(&bytes), "{} {bytes}", via.name());
    }
}
