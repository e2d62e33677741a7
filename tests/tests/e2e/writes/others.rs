//! Open files that other nodes, or other descriptors, change.

use std::path::Path;

use headwater_tests::harness::{Fixture, Mechanism, Program, is_root, skipped};

/// Runs a Python program on so many nodes, and as so many processes without Headwater, each time in a tree that `fill`
/// makes. Each process writes a report of what it sees; all have to see the same.
fn compare(fixture: &Fixture, via: Mechanism, nodes: usize, text: &str, fill: impl Fn(&str), arguments: &[&str]) {
    let program = fixture.outside("program.py");
    std::fs::write(&program, text).expect("an own directory");
    let prepare = |tree: &str| {
        let signals = fixture.outside(tree);
        std::fs::create_dir(&signals).expect("an own directory");
        fixture.dir(tree);
        fill(tree);
        (fixture.path(tree), signals)
    };
    let reports = |signals: &Path| -> Vec<String> {
        let read = |node| std::fs::read_to_string(signals.join(format!("report.{node}"))).expect("it was written");
        (0..nodes).map(read).collect()
    };
    let (tree, signals) = prepare("plain");
    let all: String = (0..nodes).map(|node| format!("HEADWATER_NODE={node} python3 \"$@\" & ")).collect();
    let plain = Program::shell(&(all + "wait")).arg("sh").arg(&program).arg(tree).arg(&signals).args(arguments).run();
    assert_eq!(plain.status, 0, "{plain:?}");
    let expected = reports(&signals);
    let (tree, signals) = prepare("session");
    let program = Program::new("python3").arg(&program).arg(tree).arg(&signals).args(arguments);
    let output = fixture.headwater().via(via).on(nodes, 1).run(&program).output;
    assert_eq!(output.status, 0, "{output:?}");
    for (node, (seen, expected)) in reports(&signals).iter().zip(&expected).enumerate() {
        let different = seen.lines().zip(expected.lines()).position(|(seen, expected)| seen != expected);
        let line = |text: &str| different.and_then(|at| text.lines().nth(at)).unwrap_or_default().to_owned();
        assert!(seen == expected, "node {node}, line {different:?}: {:?}, plain {:?}", line(seen), line(expected));
    }
}

/// Whatever another node does to the names of open files and of directories, processes see what they see without
/// Headwater.
pub fn what_is_open_stays_the_same_file(via: Mechanism) {
    let fixture = Fixture::new("others");
    let fill = |tree: &str| {
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
    };
    compare(&fixture, via, 2, include_str!("../../../programs/changes/others.py"), fill, &[]);
}

/// Some calls have no function in the C library.
pub fn changes_by_number_are_seen(via: Mechanism) {
    let fixture = Fixture::new("by-number");
    let fill = |tree: &str| {
        let names =
            ["shortened", "written", "linked", "removed", "renamed", "mode", "times", "by descriptor", "unnoted"];
        names.iter().for_each(|name| drop(fixture.file(&format!("{tree}/{name}"), "as it was\n", 0o644)));
    };
    compare(&fixture, via, 1, include_str!("../../../programs/changes/by_number.py"), fill, &[]);
}

/// Three nodes change a tree at random.
pub fn random_changes_are_seen_by_all(via: Mechanism) {
    // Under audit, what was open before follows a moment later.
    let keeps = if via == Mechanism::Namespace { "1" } else { "0" };
    for seed in ["1", "2"] {
        let fixture = Fixture::new("model");
        let fill = |tree: &str| {
            for name in ["a", "b", "d/a", "d/e/c", "f/x"] {
                fixture.file(&format!("{tree}/{name}"), name.repeat(20), 0o644);
            }
        };
        let program = include_str!("../../../programs/changes/model.py");
        compare(&fixture, via, 3, program, fill, &[seed, "60", keeps]);
    }
}

/// Reads by one descriptor what was written by another, also where several share one offset. Reads by
/// a mapping that is longer than its file what a child has written. A change of nothing has its time.
const READER_AND_WRITER: &str = r#"
import ctypes, os, subprocess, sys, time
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
before = os.stat(name).st_ctime_ns
time.sleep(0.05)
os.chown(name, -1, -1)
print(os.stat(name).st_ctime_ns > before)
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
mapped = libc.mmap(None, 1 << 20, 1, 1, os.open(name + ".mapped", os.O_RDONLY), 0)
print(ctypes.string_at(mapped, 3))
grow = "import sys; open(sys.argv[1], 'r+b').write(b'z' * 200000)"
subprocess.run([sys.executable, "-c", grow, name + ".mapped"], check=True)
print(ctypes.string_at(mapped, 3), ctypes.string_at(mapped + 199990, 3))
"#;

pub fn a_process_reads_what_it_writes(via: Mechanism) {
    let fixture = Fixture::new("itself");
    let run = |directory: &str, how: &dyn Fn(&Program) -> String| {
        let file = fixture.file(&format!("{directory}/file"), "0123456789", 0o644);
        fixture.file(&format!("{directory}/file.mapped"), "mapped", 0o644);
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

/// What is open for writing can't be executed: not for longer than a process has it open.
pub fn a_program_that_is_made_can_be_executed(via: Mechanism) {
    let fixture = Fixture::new("made");
    let script = "n=$HEADWATER_NODE; cp /bin/echo made$n && sleep 2 && ./made$n one && \
                  printf '#!/bin/sh\\necho two\\n' >script$n && chmod +x script$n && sleep 2 && ./script$n";
    let program = Program::shell(script).in_dir(fixture.shared());
    for nodes in [1, 2] {
        let output = fixture.headwater().via(via).on(nodes, 1).run(&program).output;
        assert!(output.status == 0 && output.stdout.matches("two\n").count() == nodes, "{output:?}");
    }
}

/// Reads and sets access control lists of files and directories, and prints what becomes of them.
const LISTS: &str = r#"
import os, shutil, struct, sys
os.chdir(sys.argv[1])
LIST = "system.posix_acl_access"
def entries(name, which=LIST):
    try:
        text = os.getxattr(name, which)
    except OSError as error:
        return error.strerror
    return [struct.unpack_from("HHI", text, at) for at in range(4, len(text), 8)]
def encode(user):
    anyone = 0xffffffff
    parts = (1, 6, anyone), (2, user, 65534), (4, 4, anyone), (16, 6, anyone), (32, 0, anyone)
    return struct.pack("I", 2) + b"".join(struct.pack("HHI", *part) for part in parts)
print(entries("listed"), entries("plain"))
os.setxattr("plain", LIST, encode(6))
shutil.copy2("listed", "copied")
os.mkdir("directory")
os.setxattr("directory", "system.posix_acl_default", encode(4))
open("directory/made", "w").close()
os.chmod("plain", 0o600)
for name in "plain", "copied", "directory/made":
    print(name, oct(os.stat(name).st_mode), entries(name))
os.removexattr("copied", LIST)
print(entries("copied"), entries("directory", "system.posix_acl_default"))
"#;

pub fn access_control_lists_are_those_of_the_source_file(via: Mechanism) {
    let fixture = Fixture::new("lists");
    let program = |directory: &str| {
        let listed = fixture.file(&format!("{directory}/listed"), "", 0o640);
        fixture.file(&format!("{directory}/plain"), "", 0o640);
        let set = "import os, sys; exec(sys.argv[1].split('print')[0].replace('sys.argv[1]', 'sys.argv[2]')); \
                   os.setxattr('listed', LIST, encode(6))";
        let directory = fixture.path(directory);
        let prepared = Program::new("python3").args(["-c", set, LISTS]).arg(&directory).run();
        assert!(listed.exists());
        (prepared.status == 0).then(|| Program::new("python3").args(["-c", LISTS]).arg(directory))
    };
    let Some(plain) = program("plain") else {
        return skipped("the file system has no access control lists");
    };
    if !is_root() && via == Mechanism::Namespace {
        return skipped("a user namespace has no other users, and so no such lists");
    }
    let plain = plain.run();
    assert_eq!(plain.status, 0, "{plain:?}");
    let program = program("session").expect("as before");
    fixture.headwater().via(via).run(&program).output.assert_same(&plain);
}
