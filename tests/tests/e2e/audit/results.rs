//! A job that writes its results beside what it reads is served nevertheless.

use headwater_tests::harness::{Fixture, Program};

#[test]
fn what_lies_below_a_directory_that_changes_is_served() {
    let fixture = Fixture::new("results");
    for number in 0..20 {
        fixture.file(&format!("software/lib/{number}"), "text\n", 0o644);
    }
    let script = "echo started >log.txt; cat software/lib/* && cat software/lib/* | wc -l; ls software/none/x 2>&1";
    let session = fixture.headwater().run(&Program::shell(script).in_dir(fixture.shared()));
    assert!(session.output.stdout.contains("\n20\n"), "{session:?}");
    assert_eq!(session.number("shared_fs.files_read"), 20, "{session:?}");
}
