//! Contents: written, cut, mapped, shared by several descriptors.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::process::Command;

use rustix::fs::{FallocateFlags, Mode, OFlags, fallocate, open};

use crate::pair::{Case, ROOT, USER, all, compare, outcome, truncate};

fn text(path: impl AsRef<Path>) -> String {
    format!("{:?}", fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).map_err(|e| e.kind()))
}

fn edit(path: impl AsRef<Path>) -> File {
    OpenOptions::new().read(true).write(true).open(path).unwrap()
}

const CASES: &[Case] = &[
    ("write", |d| {
        let file = edit(d.join("file"));
        file.write_all_at(b"CON", 0).unwrap();
        file.write_all_at(b"beyond", 10_000).unwrap();
        let large: Vec<u8> = (0..3_000_000u32).map(|n| (n / 7) as u8).collect();
        fs::write(d.join("large"), &large).unwrap();
        let same = fs::read(d.join("large")).unwrap() == large;
        format!("{} {} {same}", file.metadata().unwrap().len(), text(d.join("file")).len())
    }),
    ("append", |d| {
        let (mut one, mut two) = (append(&d.join("file")), append(&d.join("file")));
        for round in 0..20 {
            write!(one, "one {round};").unwrap();
            write!(two, "two {round};").unwrap();
        }
        one.write_all_at(b"positions do not matter", 0).unwrap();
        text(d.join("file"))
    }),
    ("append_by_two_processes", |d| {
        let writer = |name: &str| {
            let script = format!("i=0; while [ $i -lt 200 ]; do echo {name}; i=$((i+1)); done >> file");
            Command::new("/bin/sh").arg("-c").arg(script).current_dir(d).spawn().unwrap()
        };
        let writers = [writer("one"), writer("two")];
        let ended = writers.map(|mut writer| writer.wait().unwrap().success());
        let lines = fs::read_to_string(d.join("file")).unwrap();
        let count = |name: &str| lines.matches(name).count();
        fs::write(d.join("file"), "in any order").unwrap();
        format!("{ended:?} {} {} {}", count("one"), count("two"), lines.len())
    }),
    ("truncate", |d| {
        let file = edit(d.join("file"));
        file.set_len(3).unwrap();
        let short = text(d.join("file"));
        file.set_len(5000).unwrap();
        let long = fs::metadata(d.join("same")).unwrap().len();
        fs::write(d.join("other"), "x").unwrap();
        let by_path = truncate(&d.join("tool"), 2);
        let refused = truncate(&d.join("dir"), 2);
        drop(OpenOptions::new().write(true).truncate(true).open(d.join("dir/inner")).unwrap());
        all([short, format!("{long}"), text(d.join("other")), by_path, refused, text(d.join("tool"))])
    }),
    ("new_files_that_nobody_could_open", |d| {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC;
        let new = |name: &str, mode: u32| File::from(open(d.join(name), flags, Mode::from_raw_mode(mode)).unwrap());
        let (mut unwritable, mut unreadable, mut nameless) =
            (new("new", 0o444), new("none", 0), new("temporary", 0o600));
        fs::remove_file(d.join("temporary")).unwrap();
        for file in [&mut unwritable, &mut unreadable, &mut nameless] {
            file.write_all(b"still writable").unwrap();
        }
        // Longer than the mount caches descriptors of files that it can open again.
        std::thread::sleep(std::time::Duration::from_millis(1300));
        for file in [&mut unwritable, &mut unreadable, &mut nameless] {
            file.write_all(b" after a while").unwrap();
            file.set_len(20).unwrap();
        }
        nameless.rewind().unwrap();
        let nameless = std::io::read_to_string(&nameless).unwrap();
        all([text(d.join("new")), format!("{} {nameless}", unreadable.metadata().unwrap().len())])
    }),
    ("unlinked_but_open", |d| {
        let mut file = edit(d.join("other"));
        let unread = File::open(d.join("tool")).unwrap();
        fs::remove_file(d.join("other")).unwrap();
        fs::remove_file(d.join("tool")).unwrap();
        fs::write(d.join("other"), "the next one").unwrap();
        file.seek(SeekFrom::End(0)).unwrap();
        file.write_all(b" and more").unwrap();
        file.rewind().unwrap();
        let mut all_of_it = String::new();
        file.read_to_string(&mut all_of_it).unwrap();
        file.set_len(4).unwrap();
        let m = file.metadata().unwrap();
        let chmod = outcome(rustix::fs::fchmod(&file, Mode::from_raw_mode(0o600)));
        let sync = outcome(rustix::fs::fsync(&file));
        let unread = std::io::read_to_string(unread).unwrap();
        all([all_of_it, format!("{} {} {unread}", m.len(), m.nlink()), chmod, sync, text(d.join("other"))])
    }),
    ("renamed_while_open", |d| {
        let mut file = edit(d.join("other"));
        fs::rename(d.join("other"), d.join("dir/elsewhere")).unwrap();
        fs::write(d.join("other"), "a new one").unwrap();
        file.write_all(b"WRITTEN").unwrap();
        fs::rename(d.join("dir"), d.join("moved")).unwrap();
        file.write_all(b" after the move").unwrap();
        all([text(d.join("moved/elsewhere")), text(d.join("other")), format!("{}", file.metadata().unwrap().len())])
    }),
    ("fallocate", |d| {
        let file = edit(d.join("file"));
        let grow = outcome(fallocate(&file, FallocateFlags::empty(), 0, 8192));
        let keep = outcome(fallocate(&file, FallocateFlags::KEEP_SIZE, 0, 1 << 20));
        let punch = outcome(fallocate(&file, FallocateFlags::KEEP_SIZE | FallocateFlags::PUNCH_HOLE, 0, 4096));
        let zero = outcome(fallocate(&file, FallocateFlags::ZERO_RANGE, 4096, 100));
        all([grow, keep, punch, zero, format!("{} {}", file.metadata().unwrap().len(), text(d.join("file")).len())])
    }),
    ("holes", |d| {
        let file = File::create(d.join("sparse")).unwrap();
        file.set_len(1 << 20).unwrap();
        file.write_all_at(b"data", 512 << 10).unwrap();
        file.sync_all().unwrap();
        let seek = |position| outcome(rustix::fs::seek(&file, position));
        use rustix::fs::SeekFrom::{Data, Hole};
        all([seek(Data(0)), seek(Hole(512 << 10)), seek(Data(600 << 10)), seek(Hole(0)), seek(Data(2 << 20))])
    }),
    ("direct_and_synchronous", |d| {
        let open = |flags| OpenOptions::new().write(true).custom_flags(flags).open(d.join("file")).unwrap();
        // `dd` has the aligned memory that direct I/O needs.
        let dd =
            ["if=/dev/zero", "of=file", "bs=4096", "seek=1", "count=1", "oflag=direct", "conv=notrunc", "status=none"];
        let direct = Command::new("dd").args(dd).current_dir(d).status().unwrap();
        open(libc::O_SYNC).write_all_at(b"sync", 10_000).unwrap();
        open(libc::O_DSYNC).write_all_at(b"data", 10_010).unwrap();
        let file = edit(d.join("file"));
        file.write_all_at(b"later", 10_020).unwrap();
        let synced = all([outcome(rustix::fs::fsync(&file)), outcome(rustix::fs::fdatasync(&file))]);
        let directory = outcome(rustix::fs::fsync(File::open(d.join("dir")).unwrap()));
        all([format!("{direct:?}"), synced, directory, format!("{}", text(d.join("file")).len())])
    }),
    ("maps", |d| {
        let script = "import mmap, os\n\
            f = os.open('map', os.O_RDWR | os.O_CREAT, 0o644)\n\
            os.ftruncate(f, 20000)\n\
            m = mmap.mmap(f, 20000)\n\
            m[0:5] = b'first'; m[15000:15004] = b'last'\n\
            m.flush()\n\
            print(os.pread(f, 5, 0), open('map', 'rb').read()[15000:15004])\n\
            os.pwrite(f, b'WRITE', 2)\n\
            print(m[0:8])\n\
            m[19990:20000] = b'unsynced!!'\n\
            m.close(); os.close(f)\n\
            p = mmap.mmap(os.open('file', os.O_RDONLY), 7, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE)\n\
            p[0:3] = b'own'\n\
            print(p[:], open('file').read())\n";
        let output = Command::new("python3").arg("-c").arg(script).current_dir(d).output().unwrap();
        format!("{output:?} {}", text(d.join("map")).len())
    }),
    ("copy_file_range", |d| {
        let (from, to) = (File::open(d.join("file")).unwrap(), File::create(d.join("copied")).unwrap());
        let copied = outcome(rustix::fs::copy_file_range(&from, None, &to, None, 100));
        all([copied, text(d.join("copied"))])
    }),
    ("executed_after_writing", |d| {
        // Separate processes write them: a process that this test forks meanwhile would hold them open.
        let script = "printf '#!/bin/sh\necho it runs\n' > script && chmod 755 script && cp /bin/true binary";
        let written = Command::new("/bin/sh").args(["-c", script]).current_dir(d).status().unwrap();
        let first = Command::new(d.join("script")).output().unwrap();
        let second = Command::new(d.join("binary")).status().unwrap();
        format!("{written} {:?} {second}", String::from_utf8(first.stdout))
    }),
    ("hard_links_show_the_same", |d| {
        let (one, mut other) = (edit(d.join("file")), append(&d.join("same")));
        let before = text(d.join("same"));
        one.write_all_at(b"C", 0).unwrap();
        other.write_all(b" more").unwrap();
        all([before, text(d.join("same")), text(d.join("file")), format!("{}", one.metadata().unwrap().len())])
    }),
];

fn append(path: &Path) -> File {
    OpenOptions::new().append(true).open(path).unwrap()
}

#[test]
fn contents_change_as_in_a_plain_tree() {
    compare(CASES, ROOT, |_| {});
}

#[test]
fn contents_change_as_in_a_plain_tree_for_another_user() {
    compare(CASES, USER, |_| {});
}
