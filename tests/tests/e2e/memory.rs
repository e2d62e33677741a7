//! Processes that map files, share memory, and read one another's.

use headwater_tests::harness::{Fixture, Mechanism, Program};

pub fn maps_and_direct_reads(via: Mechanism) {
    let fixture = Fixture::new("emaps");
    let content: Vec<u8> = (0..100_001u32).map(|n| n.wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect();
    fixture.file("data/file", content, 0o644);
    let program = Program::new(fixture.build("maps.c", "bin/maps", &[])).arg(fixture.path("data/file"));
    fixture.headwater().via(via).same(&program);
}

/// Two processes of one node that started apart from one another, as the ranks of an MPI job: each
/// reads the other's memory and writes into a segment that they share.
pub fn siblings_share_memory_and_read_each_others(via: Mechanism) {
    let fixture = Fixture::new("siblings");
    fixture.file("data/file", "from the scope\n", 0o644);
    let meeting = fixture.outside("meeting");
    std::fs::create_dir(&meeting).expect("an own directory");
    let segment = format!("/hwt-siblings-{}-{}", via.name(), std::process::id());
    let program = Program::new(fixture.build("siblings.c", "bin/siblings", &[]))
        .arg(&meeting)
        .arg(&segment)
        .arg(fixture.path("data/file"));
    let plain = program.behind(["sh", "-c", "\"$0\" \"$@\" & \"$0\" \"$@\"; wait"]).run();
    assert_eq!(plain.stdout, "read, shared, from the scope\n".repeat(2), "{plain:?}");
    std::fs::remove_dir_all(&meeting).and_then(|()| std::fs::create_dir(&meeting)).expect("an own directory");
    let session = fixture.headwater().via(via).on(1, 2).run(&program);
    session.output.assert_same(&plain);
    session.assert_served();
}
