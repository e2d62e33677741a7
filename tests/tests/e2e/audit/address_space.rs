//! A program that may have so much address space has nearly all of it.

use headwater_tests::harness::{Fixture, Program};

#[test]
fn a_limited_address_space_is_the_programs() {
    let fixture = Fixture::new("address-space");
    let text = fixture.file("data/text", "text\n", 0o644);
    let script = "import sys; memory = bytearray(int(sys.argv[1]) << 20); print(len(memory), open(sys.argv[2]).read())";
    for (limit_mb, program_mb) in [(120, 60), (250, 180), (600, 500)] {
        let limit = format!("--as={}", limit_mb << 20);
        let program = Program::new("prlimit").args([&*limit, "/usr/bin/python3", "-c", script]);
        let session = fixture.headwater().same_output(&program.arg(program_mb.to_string()).arg(&text));
        assert_eq!(session.output.status, 0, "{limit_mb}: {:?}", session.output);
    }
}
