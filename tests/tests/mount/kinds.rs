//! Every kind of file.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;

use headwater_tests::harness::{Fixture, Program, View, is_root, skipped};
use headwater_tests::model::{Action, Content, Kind, Node, Tree};

use crate::assert_alike;
use headwater_tests::{needs_mounts, needs_root};

const CHECKS: [Action; 6] = [
    Action::Stat { follows: false },
    Action::Stat { follows: true },
    Action::Identity,
    Action::Readlink,
    Action::Access { mode: 5 },
    Action::Xattrs,
];

fn made(fixture: &Fixture, nodes: Vec<(&str, Kind, u32)>) {
    let nodes = nodes.into_iter().map(|(path, kind, mode)| (path.into(), Node::new(kind, mode)));
    Tree { nodes: nodes.collect() }.make(&fixture.shared()).expect("a fresh directory");
}

#[test]
fn fifos_sockets_and_devices_are_seen_and_not_opened_through() {
    needs_root!();
    let fixture = Fixture::new("special");
    let kinds = vec![("fifo", Kind::Fifo, 0o640), ("socket", Kind::Socket, 0o755), ("null", Kind::Device, 0o666)];
    made(&fixture, kinds);
    let view = View::of(&fixture.shared());
    assert_alike(&fixture.shared(), view.path(), &["fifo", "socket", "null"], &CHECKS);
    assert_alike(&fixture.shared(), view.path(), &[""], &[Action::List]);
    let error = |path: &Path| File::open(path).expect_err("must not be opened").raw_os_error();
    assert_eq!(error(&view.join("null")), Some(13), "no device is opened: the mount is nodev");
    assert_eq!(error(&view.join("socket")), Some(6));
    assert!(std::os::unix::net::UnixStream::connect(view.join("socket")).is_err());
    // A FIFO of the view is the kernel's own, as on any file system of the network.
    let exchange = format!("cat {0} & echo through > {0}; wait", view.join("fifo").display());
    let output = Program::shell(&exchange).start().finish_within(Duration::from_secs(10));
    assert!(output.stdout == "through\n" || output.stderr.contains("Read-only"), "{output:?}");
    view.unmount();
}

#[test]
fn hard_links_share_number_and_count() {
    needs_mounts!();
    let fixture = Fixture::new("hard");
    fixture.file("a/one", "shared", 0o644);
    fixture.dir("b");
    for other in ["a/two", "b/three"] {
        fs::hard_link(fixture.path("a/one"), fixture.path(other)).expect("an own directory");
    }
    let view = View::of(&fixture.shared());
    let paths = ["a/one", "a/two", "b/three"];
    assert_alike(&fixture.shared(), view.path(), &paths, &CHECKS);
    assert_alike(&fixture.shared(), view.path(), &paths, &[Action::ReadAll { piece: 4096 }]);
    let metadata = paths.map(|path| fs::metadata(view.join(path)).expect("it is there"));
    assert!(metadata.iter().all(|other| other.ino() == metadata[0].ino() && other.nlink() == 3));
    view.unmount();
}

#[test]
fn sparse_and_empty_files() {
    needs_mounts!();
    let fixture = Fixture::new("sparse");
    let sparse = |runs: &[(bool, u64)]| Kind::File(Content { seed: 5, runs: runs.to_vec() });
    made(
        &fixture,
        vec![
            ("empty", sparse(&[]), 0o644),
            ("hole", sparse(&[(true, 1 << 20)]), 0o644),
            ("tail", sparse(&[(false, 5000), (true, 3 << 20)]), 0o644),
            ("middle", sparse(&[(true, 2 << 20), (false, 4097), (true, 1 << 20), (false, 1)]), 0o644),
            ("large", sparse(&[(false, 100), (true, 30 << 20), (false, 100)]), 0o644),
        ],
    );
    let view = View::of(&fixture.shared());
    let paths = ["empty", "hole", "tail", "middle", "large"];
    let seeks = [0, 1, 4096, 5000, 1 << 20, 2 << 20, 31 << 20, 40 << 20].map(|offset| Action::Seek { offset });
    assert_alike(&fixture.shared(), view.path(), &paths, &CHECKS);
    assert_alike(&fixture.shared(), view.path(), &paths, &seeks);
    assert_alike(&fixture.shared(), view.path(), &paths, &[Action::ReadAll { piece: 1 << 17 }]);
    // Once read, there is a copy, which has no holes.
    assert_alike(&fixture.shared(), view.path(), &paths, &seeks);
    view.unmount();
}

#[test]
fn reads_at_every_edge() {
    needs_mounts!();
    let fixture = Fixture::new("edges");
    let sizes = [1u64, 4095, 4096, 4097, 131_072, (1 << 20) - 1, (1 << 20) + 1, (16 << 20) + 5];
    let names: Vec<String> = sizes.iter().map(|size| format!("file-{size}")).collect();
    let nodes = names.iter().zip(sizes).map(|(name, size)| (&**name, Kind::File(Content::noise(size, size)), 0o644));
    made(&fixture, nodes.collect());
    let view = View::of(&fixture.shared());
    for (name, size) in names.iter().zip(sizes) {
        let offsets = [0, 1, 4095, 4096, size.saturating_sub(1), size, size + 1, 1 << 40];
        for offset in offsets {
            let reads = [1, 4096, 1 << 17, 3 << 20].map(|bytes| Action::Read { offset, bytes });
            assert_alike(&fixture.shared(), view.path(), &[name], &reads);
        }
        let direct = format!("dd if={} iflag=direct bs=4096 status=none | cksum", view.join(name).display());
        let plain = format!("cksum < {}", fixture.path(name).display());
        assert_eq!(Program::shell(&direct).run(), Program::shell(&plain).run(), "O_DIRECT of {name}");
    }
    view.unmount();
}

#[test]
fn extended_attributes() {
    needs_mounts!();
    let fixture = Fixture::new("xattr");
    for name in ["with", "without"] {
        fixture.file(name, "text", 0o644);
    }
    let value: Vec<u8> = (0..=255).collect();
    for (name, value) in [("user.a", &value[..]), ("user.empty", b""), ("user.\u{e4}", b"\xff")] {
        rustix::fs::setxattr(fixture.path("with"), name, value, rustix::fs::XattrFlags::empty()).expect("own");
    }
    let view = View::of(&fixture.shared());
    assert_alike(&fixture.shared(), view.path(), &["with", "without", "", "none"], &[Action::Xattrs]);
    assert_eq!(rustix::fs::getxattr_query(view.join("with"), "user.a"), Ok(256));
    let mut short = [0u8; 10];
    let requested = rustix::fs::getxattr(view.join("with"), "user.a", &mut short);
    assert_eq!(requested, Err(rustix::io::Errno::RANGE));
    view.unmount();
}

#[test]
fn the_file_system_has_its_size() {
    needs_mounts!();
    let fixture = Fixture::new("statfs");
    fixture.file("file", "x", 0o644);
    let view = View::of(&fixture.shared());
    let ours = rustix::fs::statvfs(view.join("file")).expect("mounted");
    let plain = rustix::fs::statvfs(fixture.shared()).expect("a directory");
    assert_eq!((ours.f_blocks * ours.f_frsize, ours.f_namemax), (plain.f_blocks * plain.f_frsize, plain.f_namemax));
    view.unmount();
}

#[test]
fn programs_of_every_kind_are_executed() {
    needs_mounts!();
    let fixture = Fixture::new("execs");
    let tool = fixture.build("tool.c", "bin/tool", &[]);
    fixture.build("tool.c", "bin/static", &["-static"]);
    fixture.file("bin/script", format!("#!{}\n", tool.display()), 0o755);
    fixture.file("bin/shell", "#!/bin/sh\nexec $(dirname $0)/tool \"$@\"\n", 0o755);
    fixture.file("bin/forbidden", "#!/bin/sh\n", 0o644);
    fixture.file("bin/no-program", "text", 0o755);
    fixture.link("static", "bin/link");
    let view = View::of(&fixture.shared());
    for name in ["tool", "static", "script", "shell", "link"] {
        let program = Program::shell(&format!("cd {} && bin/{name} a 'b c'", fixture.shared().display()));
        let mut ours = view.program(&program).run();
        ours.stdout = ours.stdout.replace(&*view.path().to_string_lossy(), &fixture.shared().to_string_lossy());
        ours.assert_same(&program.run());
    }
    for name in ["forbidden", "no-program", "none"] {
        let failure = |dir: &Path| {
            let error = std::process::Command::new(dir.join("bin").join(name)).spawn().expect_err("can't be run");
            error.raw_os_error()
        };
        assert_eq!(failure(view.path()), failure(&fixture.shared()), "{name}");
    }
    view.unmount();
}

#[test]
fn locks_are_answered_locally() {
    needs_mounts!();
    let fixture = Fixture::new("locks");
    fixture.file("file", "x", 0o644);
    let view = View::of(&fixture.shared());
    let (one, two) =
        (File::open(view.join("file")).expect("it is there"), File::open(view.join("file")).expect("again"));
    one.lock().expect("flock is local");
    assert!(two.try_lock().is_err(), "and it excludes");
    one.unlock().expect("open");
    two.lock_shared().expect("free again");
    rustix::fs::fcntl_lock(&one, rustix::fs::FlockOperation::LockShared).expect("a POSIX lock is local, too");
    drop((one, two));
    view.unmount();
}

#[test]
fn setuid_bits_are_seen_and_have_no_effect() {
    if !is_root() {
        return skipped("a set-user-ID program needs root to make it");
    }
    needs_mounts!();
    let fixture = Fixture::new("nosuid");
    let tool = fixture.build("tool.c", "bin/tool", &[]);
    fs::set_permissions(&tool, fs::Permissions::from_mode(0o4755)).expect("an own file");
    let view = View::of(&fixture.shared());
    assert_alike(&fixture.shared(), view.path(), &["bin/tool"], &CHECKS);
    let flags = rustix::fs::statvfs(view.path()).expect("mounted").f_flag;
    let hardened = rustix::fs::StatVfsMountFlags::NOSUID | rustix::fs::StatVfsMountFlags::NODEV;
    assert!(flags.contains(hardened | rustix::fs::StatVfsMountFlags::RDONLY), "{flags:?}");
    view.unmount();
}

#[test]
fn a_file_opened_twice_and_read_at_two_offsets() {
    needs_mounts!();
    let fixture = Fixture::new("twice");
    let content = Content::noise(8, 300_000);
    fixture.file("file", content.read(0, 300_000), 0o644);
    let view = View::of(&fixture.shared());
    let (one, two) =
        (File::open(view.join("file")).expect("it is there"), File::open(view.join("file")).expect("again"));
    let read = |file: &File, offset: u64| -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; 1000];
        file.read_exact_at(&mut bytes, offset).map(|()| bytes)
    };
    for (at, other) in [(0, 299_000), (4096, 1), (150_000, 150_001)] {
        assert_eq!(read(&one, at).expect("read"), content.read(at, 1000));
        assert_eq!(read(&two, other).expect("read"), content.read(other, 1000));
    }
    drop((one, two));
    view.unmount();
}
