//! A program that confines itself makes no system calls that it did not expect.

use headwater_tests::harness::{Fixture, Program};

#[test]
fn a_confined_program_is_left_alone() {
    let fixture = Fixture::new("confined");
    fixture.file("data/text", "text\n", 0o644);
    let program = Program::new(fixture.build("audit/confined.c", "bin/confined", &[]));
    for method in ["prctl", "seccomp"] {
        let session = fixture.headwater().same_output(&program.clone().arg(method).arg(fixture.path("data")));
        assert_eq!(session.output.status, 0, "{:?}", session.output);
    }
}

/// Nor does a program that it executes.
#[test]
fn what_a_confined_program_executes_is_left_alone() {
    let fixture = Fixture::new("confiner");
    let text = fixture.file("data/text", "text\n", 0o644);
    let confiner = fixture.build("audit/confiner.c", "bin/confiner", &[]);
    let cat = fixture.file("bin/cat", std::fs::read("/bin/cat").expect("a program of the system"), 0o755);
    for program in ["cat".as_ref(), cat.as_path()] {
        let session = fixture.headwater().same_output(&Program::new(&confiner).arg(program).arg(&text));
        assert_eq!(session.output.status, 0, "{:?}", session.output);
    }
}
