//! Holes of files, and the files of file handles.

use std::fs::File;
use std::os::unix::fs::FileExt;

use headwater_tests::harness::{Fixture, has_program, skipped};

use crate::writing::check;
use headwater_tests::needs_mounts;

const MAP: &str = r#"
import os, sys
for name in sys.argv[1:]:
    fd = os.open(name, os.O_RDONLY); found = []; at = 0; size = os.fstat(fd).st_size
    try:
        while at < size:
            data = os.lseek(fd, at, os.SEEK_DATA); at = os.lseek(fd, data, os.SEEK_HOLE); found.append((data, at))
    except OSError as error: found.append(error.strerror)
    print(name, found, size, os.fstat(fd).st_blocks, os.lseek(fd, 0, os.SEEK_HOLE) if size else None)
"#;

/// Files of which some have holes; the last one is too large to be fetched as a whole.
fn sparse(fixture: &Fixture) {
    let path = fixture.dir("tree");
    let make = |name: &str, bytes: u64, data: &[(u64, usize)]| {
        let file = File::create(path.join(name)).expect("an own directory");
        file.set_len(bytes).expect("a file system with holes");
        data.iter().for_each(|&(at, bytes)| file.write_all_at(&vec![b'x'; bytes], at).expect("room"));
    };
    make("hole", 1 << 20, &[]);
    make("tail", 3 << 20, &[(0, 5000)]);
    make("middle", 3 << 20, &[(1 << 20, 4096), (2 << 20, 1)]);
    make("full", 300_000, &[(0, 300_000)]);
    make("zeros", 0, &[]);
    std::fs::write(path.join("zeros"), vec![0; 100_000]).expect("an own directory");
    make("huge", 5 << 30, &[(4_900_000_000, 7)]);
}

#[test]
fn holes_are_those_of_the_source_file() {
    needs_mounts!();
    if !has_program("python3") {
        return skipped("python3 is not installed");
    }
    let map = format!("python3 -c '{MAP}' hole tail middle full zeros huge");
    check(
        sparse,
        &format!(
            "{map}; cat hole tail middle full zeros | cksum; {map}; tail -c 500000000 huge | cksum; \
             cp middle copied; cp --sparse=never tail filled; tar cSf all.tar hole tail middle; stat -c %s all.tar; \
             rm -f all.tar huge; python3 -c '{MAP}' copied filled; printf y | dd of=tail bs=1 seek=2000000 conv=notrunc \
             status=none; fallocate -p -o 0 -l 8192 full; python3 -c '{MAP}' tail full"
        ),
    );
}

#[test]
fn a_file_handle_leads_to_its_file() {
    needs_mounts!();
    if !has_program("python3") {
        return skipped("python3 is not installed");
    }
    // Without the right to open by handle, it is refused alike.
    let script = r#"
import ctypes, errno, os
class Handle(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint), ("type", ctypes.c_int), ("bytes", ctypes.c_ubyte * 128)]
libc = ctypes.CDLL(None, use_errno=True)
here = os.open(".", os.O_RDONLY)
for name in ["file", "dir/file", "dir", "new", "absent"]:
    if name == "new": open(name, "w").write("new\n")
    handle, mount = Handle(128), ctypes.c_int()
    if libc.name_to_handle_at(-100, name.encode(), ctypes.byref(handle), ctypes.byref(mount), 0):
        print(name, errno.errorcode[ctypes.get_errno()])
        continue
    opened = os.open(name, os.O_RDONLY)
    fd = libc.open_by_handle_at(here, ctypes.byref(handle), os.O_RDONLY)
    if fd < 0: print(name, errno.errorcode[ctypes.get_errno()])
    else: print(name, sorted(os.listdir(fd)) if name == "dir" else os.read(fd, 100), os.path.samestat(os.fstat(fd), os.fstat(opened)))
"#;
    let fill = |fixture: &Fixture| {
        fixture.file("tree/file", "content\n", 0o644);
        fixture.file("tree/dir/file", "other\n", 0o644);
    };
    check(fill, &format!("python3 -c '{}'", script.replace('\'', "\"")));
}
