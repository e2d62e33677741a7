//! Open files that other nodes, or other descriptors, change.

use std::path::Path;

use headwater_tests::harness::{Fixture, Mechanism, Program};

/// Whatever another node does to the names of open files and of directories, processes see what they see without
/// Headwater.
pub fn what_is_open_stays_the_same_file(via: Mechanism) {
    let fixture = Fixture::new("others");
    let program = fixture.outside("others.py");
    std::fs::write(&program, include_str!("../../../programs/changes/others.py")).expect("an own directory");
    let prepare = |tree: &str| {
        let signals = fixture.outside(tree);
        std::fs::create_dir(&signals).expect("an own directory");
        for state in ["unread", "read", "appended", "written"] {
            for change in ["renamed", "replaced", "removed", "moved", "rotated"] {
                fixture.file(&format!("{tree}/{state}/{change}/file"), "as it was\n".repeat(800), 0o644);
            }
        }
        for what in ["rmdir", "rename over", "rename"] {
            fixture.file(&format!("{tree}/directories/{what}/kept"), "kept", 0o644);
            fixture.file(&format!("{tree}/directories/{what}/sub/one"), "", 0o644);
        }
        fixture.dir(&format!("{tree}/empty"));
        fixture.file(&format!("{tree}/given"), "the file", 0o644);
        (fixture.path(tree), signals)
    };
    let reports = |signals: &Path| {
        let read = |node| std::fs::read_to_string(signals.join(format!("report.{node}"))).expect("it was written");
        [read(0), read(1)]
    };
    let (tree, signals) = prepare("plain");
    let both = "HEADWATER_NODE=0 python3 \"$@\" & HEADWATER_NODE=1 python3 \"$@\"; wait";
    let plain = Program::shell(both).arg("sh").arg(&program).arg(tree).arg(&signals).run();
    assert_eq!(plain.status, 0, "{plain:?}");
    let expected = reports(&signals);
    let (tree, signals) = prepare("session");
    let program = Program::new("python3").arg(&program).arg(tree).arg(&signals);
    let output = fixture.headwater().via(via).on(2, 1).run(&program).output;
    assert_eq!(output.status, 0, "{output:?}");
    assert_eq!(reports(&signals), expected);
}

/// Reads by one descriptor what was written by another, also where several share one offset, and copies from it.
const READER_AND_WRITER: &str = r#"
import os, sys
name = sys.argv[1]
reader = os.open(name, os.O_RDONLY)
same = os.dup(reader)
print(os.read(reader, 2))
writer = os.open(name, os.O_WRONLY)
for number in range(20):
    os.pwrite(writer, b"%03d" % number, 4)
    assert os.pread(reader, 3, 4) == b"%03d" % number, number
print(os.read(same, 2), os.read(reader, 3))
os.truncate(name, 5)
print(os.fstat(reader).st_size)
other = os.open(name + ".copy", os.O_RDWR | os.O_CREAT)
print(os.copy_file_range(os.open(name + ".original", os.O_RDONLY), other, 1000))
"#;

pub fn a_process_reads_what_it_writes(via: Mechanism) {
    let fixture = Fixture::new("itself");
    let run = |directory: &str, how: &dyn Fn(&Program) -> String| {
        let file = fixture.file(&format!("{directory}/file"), "0123456789", 0o644);
        fixture.file(&format!("{directory}/file.original"), "something", 0o644);
        let queue = fixture.file(&format!("{directory}/queue"), "1\n", 0o644);
        let script = "while read n; do [ $n -ge 20 ] || echo $((n+1)) >>\"$1\"; last=$n; done <\"$1\"; echo $last";
        let programs = [
            Program::new("python3").args(["-c", READER_AND_WRITER]).arg(file),
            Program::new("bash").args(["-c", script, "bash"]).arg(queue),
        ];
        programs.map(|program| how(&program))
    };
    let plain = run("plain", &|program| program.run().stdout);
    assert_eq!(plain[1], "20\n");
    assert_eq!(run("session", &|program| fixture.headwater().via(via).run(program).output.stdout), plain);
}
