//! Paths that can't be run: the error is that of `execve`.

use std::fs;

use headwater_tests::harness::{Fixture, Program};

use super::{TRIAL_MAX, build_caller, build_exiting};

#[test]
fn errors_are_those_of_exec() {
    let fixture = Fixture::new("bad-input");
    let calls = build_caller(&fixture, "calls");
    let good = build_exiting(&fixture, "good", 0, &[]);
    let elf = fs::read(&good).expect("an own file");
    let mut no_segments = elf.clone();
    no_segments[32..40].fill(0xff);
    let mut no_count = elf.clone();
    no_count[56..58].fill(0);
    let loader = fixture.file("ld-linux-text.so", "text", 0o755);
    build_exiting(&fixture, "without-loader", 0, &["-Wl,--dynamic-linker=/no/such/ld-linux.so"]);
    let flag = format!("-Wl,--dynamic-linker={}", loader.display());
    build_exiting(&fixture, "with-bad-loader", 0, &[&flag]);
    build_exiting(&fixture, "object", 0, &["-c"]);
    fixture.dir("directory");
    let files: [(&str, &[u8], u32); 9] = [
        ("not-executable", &elf, 0o644),
        ("missing-interpreter", b"#!/no/such\n", 0o755),
        ("directory-interpreter", b"#!/tmp\n", 0o755),
        ("empty-interpreter", b"#!\n", 0o755),
        ("text", b"text\n", 0o755),
        ("empty", b"", 0o755),
        ("header-cut-off", &elf[..40], 0o755),
        ("no-segments", &no_segments, 0o755),
        ("no-count", &no_count, 0o755),
    ];
    files.iter().for_each(|(name, content, mode)| drop(fixture.file(name, content, *mode)));
    let names = files.iter().map(|(name, _, _)| *name);
    for name in names.chain(["missing", "text/below", "directory", "without-loader", "with-bad-loader", "object"]) {
        let output = Program::new(&calls).arg("bad_path").arg(fixture.path(name)).start().finish_within(TRIAL_MAX);
        assert_eq!(output.status, 0, "{name}: {output:?}");
    }
}
