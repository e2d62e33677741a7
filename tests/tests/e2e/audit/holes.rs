//! A copy has the holes of its source file.

use std::fs::File;
use std::os::unix::fs::FileExt;

use headwater_tests::harness::{Fixture, Program};

#[test]
fn holes_are_found() {
    let fixture = Fixture::new("holes");
    let path = fixture.file("sparse", "", 0o644);
    let file = File::options().write(true).open(&path).expect("an own file");
    file.set_len(3 << 20).expect("an own file");
    for at in [0, 1 << 20, (2 << 20) + 40_000] {
        file.write_all_at(&[7; 9000], at).expect("an own file");
    }
    let script = "
import os, sys
file, at = os.open(sys.argv[1], os.O_RDONLY), 0
try:
    while True:
        data = os.lseek(file, at, os.SEEK_DATA)
        at = os.lseek(file, data, os.SEEK_HOLE)
        print(data, at)
except OSError as error:
    print(error.errno, len(os.pread(file, 1 << 22, 0).strip(b'\\0')))
";
    let session = fixture.headwater().same_output(&Program::new("python3").args(["-c", script]).arg(&path));
    assert_eq!(session.fallbacks(), 0, "{session:?}");
}
