//! Records that processes append.

use headwater_tests::harness::{Fixture, Mechanism, Program, has_program, is_root, skipped};

/// Appends records of several sizes, by `write` and `writev`, to a file that all nodes append to, and checks under a lock
/// that a record is where the position says.
const APPEND: &str = r#"
import fcntl, os, sys
node, directory = os.environ["HEADWATER_NODE"], sys.argv[1]
for size, count in ((40, 300), (100, 300), (5000, 100), (70000, 20), (1500000, 3)):
    fd = os.open(os.path.join(directory, str(size)), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    record = (node * (size - 1)).encode() + b"\n"
    for number in range(count):
        assert (os.write(fd, record) if number % 2 else os.writev(fd, [record[:7], record[7:]])) == size
log = os.open(os.path.join(directory, "log"), os.O_RDWR | os.O_APPEND)
for number in range(100):
    record = ("%s-%d;" % (node, number)).encode()
    fcntl.flock(log, fcntl.LOCK_EX)
    os.write(log, record)
    end = os.lseek(log, 0, os.SEEK_CUR)
    assert os.pread(log, len(record), end - len(record)) == record, number
    fcntl.flock(log, fcntl.LOCK_UN)
"#;

pub fn records_of_several_nodes_stay_whole(via: Mechanism) {
    const NODES: usize = 3;
    let fixture = Fixture::new("records");
    fixture.file("pkg/log", "", 0o644);
    let program = Program::new("python3").args(["-c", APPEND]).arg(fixture.path("pkg"));
    let output = fixture.headwater().via(via).on(NODES, 1).run(&program).output;
    assert_eq!(output.status, 0, "{output:?}");
    for (size, count) in [(40, 300), (100, 300), (5000, 100), (70_000, 20), (1_500_000, 3)] {
        let text = std::fs::read(fixture.path(&format!("pkg/{size}"))).expect("it was made");
        let records: Vec<&[u8]> = text.split_inclusive(|byte| *byte == b'\n').collect();
        assert_eq!(records.len(), NODES * count, "of {size} bytes");
        let is_whole =
            |record: &&[u8]| record.len() == size && record[..size - 1].iter().all(|byte| *byte == record[0]);
        assert!(records.iter().all(is_whole), "of {size} bytes");
    }
}

/// A process of the first node appends to a file under a lock. Those of the others read it to its end, as it is by
/// then, under a lock that several of them have at once.
const READ_UNDER_A_LOCK: &str = r#"
import fcntl, os, sys, time
path = sys.argv[1]
file, end = os.open(path, os.O_RDWR), time.time() + 5
while time.time() < end:
    if os.environ["HEADWATER_RANK"] == "0":
        fcntl.lockf(file, fcntl.LOCK_EX)
        os.pwrite(file, b"x" * 64, os.fstat(file).st_size)
        fcntl.lockf(file, fcntl.LOCK_UN)
        time.sleep(0.002)
    elif os.environ["HEADWATER_NODE"] != "0":
        fcntl.lockf(file, fcntl.LOCK_SH)
        bytes = os.pread(file, 1 << 20, 0)
        size = os.fstat(file).st_size
        assert bytes == b"x" * size, (len(bytes), size)
        fcntl.lockf(file, fcntl.LOCK_UN)
"#;

pub fn a_growing_file_is_read_to_its_end_under_a_lock(via: Mechanism) {
    let fixture = Fixture::new("growing");
    let file = fixture.file("pkg/file", "", 0o644);
    let program = Program::new("python3").args(["-c", READ_UNDER_A_LOCK]).arg(&file);
    let output = fixture.headwater().via(via).on(2, 3).run(&program).output;
    assert_eq!(output.status, 0, "{output:?}");
    assert!(std::fs::metadata(&file).is_ok_and(|file| file.len() > 0));
}

/// A file to which the file system lets nothing but records be appended.
pub fn a_file_that_only_grows(via: Mechanism) {
    let fixture = Fixture::new("grows");
    let file = fixture.file("pkg/log", "first\n", 0o644);
    let change = |flag: &str| Program::new("chattr").arg(flag).arg(&file).run().status;
    if !is_root() || !has_program("chattr") || change("+a") != 0 {
        return skipped("chattr +a needs its program, root, and a file system that knows it");
    }
    let append = |text: &str| Program::shell(&format!("echo {text} >>\"$1\"")).arg("sh").arg(&file);
    let plain = append("second").run();
    let output = fixture.headwater().via(via).run(&append("third")).output;
    let overwritten = fixture.headwater().via(via).run(&Program::shell("echo >\"$1\"").arg("sh").arg(&file)).output;
    let text = std::fs::read_to_string(&file);
    assert_eq!(change("-a"), 0);
    output.assert_same(&plain);
    assert_ne!(overwritten.status, 0, "{overwritten:?}");
    assert_eq!(text.expect("an own file"), "first\nsecond\nthird\n");
}
