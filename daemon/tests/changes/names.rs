//! Names: made, linked, renamed, removed.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, RenameFlags, link, linkat, makedev, mkdir, mknodat, open, rename,
    renameat_with, rmdir, stat, symlink, unlink,
};

use crate::pair::{Case, ROOT, USER, all, compare, outcome};

const CASES: &[Case] = &[
    ("create", |d| {
        let make = |name: &str, flags, mode: u32| {
            outcome(open(d.join(name), OFlags::CREATE | OFlags::CLOEXEC | flags, Mode::from_raw_mode(mode)).map(drop))
        };
        all([
            make("new", OFlags::WRONLY, 0o666),
            make("new", OFlags::WRONLY | OFlags::EXCL, 0o666),
            make("file", OFlags::RDWR | OFlags::EXCL, 0o600),
            make("exclusive", OFlags::RDWR | OFlags::EXCL, 0o640),
            make("other", OFlags::RDWR | OFlags::TRUNC, 0o600),
            make("dir", OFlags::WRONLY, 0o600),
            make("absent/x", OFlags::WRONLY, 0o600),
            make("file/x", OFlags::WRONLY, 0o600),
            make("dangling", OFlags::WRONLY, 0o600),
            make("dangling", OFlags::WRONLY | OFlags::EXCL, 0o600),
            make(&"n".repeat(255), OFlags::WRONLY, 0o600),
            make(&"n".repeat(256), OFlags::WRONLY, 0o600),
            make("dir/sub/deep", OFlags::WRONLY, 0o604),
        ])
    }),
    ("make_and_look", |d| {
        let before = outcome(stat(d.join("made")).map(drop));
        fs::create_dir(d.join("made")).unwrap();
        let inside = outcome(stat(d.join("made/x")).map(drop));
        fs::write(d.join("made/x"), "x").unwrap();
        let names: Vec<_> = fs::read_dir(d.join("made")).unwrap().map(|e| e.unwrap().file_name()).collect();
        all([before, inside, format!("{names:?} {:?}", fs::read(d.join("made/x")))])
    }),
    ("mkdir", |d| {
        let make = |name: &str, mode: u32| outcome(mkdir(d.join(name), Mode::from_raw_mode(mode)));
        all([make("new", 0o777), make("new", 0o777), make("file", 0o777), make("new/a", 0o700), make("x/y", 0o700)])
    }),
    ("mknod", |d| {
        let make =
            |name: &str, kind, device| outcome(mknodat(CWD, d.join(name), kind, Mode::from_raw_mode(0o640), device));
        all([
            make("fifo", FileType::Fifo, 0),
            make("socket", FileType::Socket, 0),
            make("plain", FileType::RegularFile, 0),
            make("device", FileType::CharacterDevice, makedev(1, 3)),
            make("large", FileType::BlockDevice, makedev(259, 70_000)),
            make("fifo", FileType::Fifo, 0),
        ])
    }),
    ("symlink", |d| {
        let make = |target: &str, name: &str| outcome(symlink(target, d.join(name)));
        let made =
            all([make("file", "a"), make("/absolute/target", "b"), make("x", "file"), make(&"t".repeat(4000), "c")]);
        all([made, format!("{:?} {:?}", fs::read(d.join("a")), fs::read_link(d.join("b")))])
    }),
    ("link", |d| {
        let results = all([
            outcome(link(d.join("other"), d.join("dir/second"))),
            outcome(link(d.join("other"), d.join("file"))),
            outcome(link(d.join("dir"), d.join("x"))),
            outcome(link(d.join("absent"), d.join("x"))),
            outcome(linkat(CWD, d.join("link"), CWD, d.join("link2"), AtFlags::empty())),
            outcome(linkat(CWD, d.join("link"), CWD, d.join("third"), AtFlags::SYMLINK_FOLLOW)),
        ]);
        fs::write(d.join("dir/second"), "through the second name").unwrap();
        let ino = |name: &str| fs::symlink_metadata(d.join(name)).unwrap().ino();
        let same = (ino("other") == ino("dir/second"), ino("file") == ino("third"), ino("link") == ino("link2"));
        all([results, format!("{same:?} {:?}", fs::read(d.join("other")))])
    }),
    ("unlink", |d| {
        let remove = |name: &str| outcome(unlink(d.join(name)));
        let gone =
            all([remove("file"), remove("file"), remove("dir"), remove("link"), remove("absent"), remove("dir/inner")]);
        all([gone, format!("{:?} {:?}", fs::read(d.join("same")), fs::metadata(d.join("same")).unwrap().nlink())])
    }),
    ("rmdir", |d| {
        let remove = |name: &str| outcome(rmdir(d.join(name)));
        all([remove("empty"), remove("empty"), remove("dir"), remove("file"), remove("dir/sub"), remove("absent")])
    }),
    ("remove_all", |d| {
        for number in 0..700 {
            fs::write(d.join(format!("empty/{number}")), "x").unwrap();
        }
        let result = fs::remove_dir_all(d.join("empty")).and_then(|()| fs::remove_dir_all(d.join("dir")));
        format!("{:?} {}", result.map_err(|e| e.kind()), d.join("dir").exists())
    }),
    ("rename", |d| {
        let mv = |from: &str, to: &str| outcome(rename(d.join(from), d.join(to)));
        let moved = all([
            mv("file", "moved"),
            mv("file", "x"),
            mv("moved", "dir/inner"),
            mv("dir", "dir/sub/x"),
            mv("dir", "other"),
            mv("other", "dir"),
            mv("dir", "empty"),
            mv("empty/sub", "empty"),
            mv("link", "dangling"),
            mv("other", "absent/x"),
            mv("same", "empty/inner"),
        ]);
        all([moved, format!("{:?} {:?}", fs::read(d.join("empty/inner")), fs::read(d.join("empty/sub/leaf")))])
    }),
    ("rename_flags", |d| {
        let mv = |from: &str, to: &str, flags| outcome(renameat_with(CWD, d.join(from), CWD, d.join(to), flags));
        let moved = all([
            mv("file", "other", RenameFlags::NOREPLACE),
            mv("file", "fresh", RenameFlags::NOREPLACE),
            mv("fresh", "dir", RenameFlags::EXCHANGE),
            mv("fresh", "absent", RenameFlags::EXCHANGE),
            mv("tool", "other", RenameFlags::EXCHANGE),
            mv("tool", "other", RenameFlags::EXCHANGE | RenameFlags::NOREPLACE),
        ]);
        all([moved, format!("{:?} {:?}", fs::read(d.join("fresh/sub/leaf")), fs::read(d.join("dir")))])
    }),
    ("rename_and_make_again", |d| {
        let mut seen = Vec::new();
        for round in 0..5 {
            fs::write(d.join("file.new"), format!("round {round}")).unwrap();
            fs::rename(d.join("file.new"), d.join("file")).unwrap();
            fs::rename(d.join("other"), d.join("other.bak")).unwrap();
            fs::write(d.join("other"), format!("again {round}")).unwrap();
            let read = |name: &str| String::from_utf8(fs::read(d.join(name)).unwrap()).unwrap();
            seen.push((read("file"), read("other"), read("other.bak"), d.join("file.new").exists()));
        }
        format!("{seen:?}")
    }),
    ("rename_directory_in_use", |d| {
        let file = File::open(d.join("dir/sub/leaf")).unwrap();
        let directory = File::open(d.join("dir/sub")).unwrap();
        fs::rename(d.join("dir"), d.join("elsewhere")).unwrap();
        fs::create_dir_all(d.join("dir/sub")).unwrap();
        fs::write(d.join("dir/sub/leaf"), "another leaf").unwrap();
        let by_directory = outcome(
            rustix::fs::openat(&directory, "leaf", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
                .map(|fd| std::io::read_to_string(File::from(fd)).unwrap()),
        );
        let made = outcome(rustix::fs::mkdirat(&directory, "made", Mode::from_raw_mode(0o755)));
        all([
            format!("{:?}", std::io::read_to_string(file).unwrap()),
            by_directory,
            made,
            format!("{:?} {}", fs::read(d.join("dir/sub/leaf")), d.join("elsewhere/sub/made").is_dir()),
        ])
    }),
    ("rename_over_open", |d| {
        let file = File::open(d.join("other")).unwrap();
        fs::rename(d.join("tool"), d.join("other")).unwrap();
        let nlink = file.metadata().unwrap().nlink();
        format!("{:?} {nlink} {:?}", std::io::read_to_string(&file).unwrap(), fs::read(d.join("other")))
    }),
    ("socket", |d| {
        use std::io::{Read, Write};
        use std::os::unix::net::{UnixListener, UnixStream};
        // Socket paths are short, so the working directory is the socket's.
        let directory = File::open(d).unwrap();
        let path = format!("/proc/self/fd/{}/s", std::os::fd::AsRawFd::as_raw_fd(&directory));
        let listener = UnixListener::bind(Path::new(&path)).unwrap();
        UnixStream::connect(&path).unwrap().write_all(b"hello").unwrap();
        let mut text = String::new();
        listener.accept().unwrap().0.read_to_string(&mut text).unwrap();
        text
    }),
    ("fifo", |d| {
        mknodat(CWD, d.join("f"), FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        let path = d.join("f");
        let writer = std::thread::spawn(move || fs::write(path, "through the fifo").unwrap());
        let text = fs::read_to_string(d.join("f")).unwrap();
        writer.join().unwrap();
        text
    }),
];

#[test]
fn names_change_as_in_a_plain_tree() {
    compare(CASES, ROOT, |_| {});
}

#[test]
fn names_change_as_in_a_plain_tree_for_another_user() {
    compare(CASES, USER, |_| {});
}

#[test]
fn a_directory_can_be_emptied_while_it_is_listed() {
    let case: Case = ("empty", |d| {
        let removed =
            fs::read_dir(d.join("many")).unwrap().map(|entry| fs::remove_file(entry.unwrap().path()).unwrap());
        all([removed.count().to_string(), outcome(rmdir(d.join("many")))])
    });
    compare(&[case], ROOT, |d| {
        fs::create_dir(d.join("many")).unwrap();
        (0..1500).for_each(|number| fs::write(d.join(format!("many/file number {number}")), "").unwrap());
    });
}
