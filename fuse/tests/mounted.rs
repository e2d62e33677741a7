//! Tests of the crate against the kernel: a small tree through real mounts.

use std::fs;
use std::io::{BufRead, BufReader, Write, stdin};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::MetadataExt;
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::thread;

use headwater_fuse::init::{Opening, flag};
use headwater_fuse::{Device, NodeId, mount};
use rustix::fs::{AtFlags, CWD, SeekFrom, StatxFlags, seek, statx};

use served::{BIG_BYTES, BTIME, HELLO, Mounted, RESEND, can, duplicate, options, read, skipped};

mod served;

#[test]
fn programs_see_what_the_server_replies() {
    if skipped() {
        return;
    }
    let mounted = Mounted::new(Opening::None);
    assert_eq!(read(&mounted.path("hello")), "hello\n");
    assert_eq!(read(&mounted.path("link")), "hello\n");
    assert_eq!(fs::read_link(mounted.path("link")).unwrap().as_os_str(), "hello");
    let metadata = fs::metadata(mounted.path("hello")).unwrap();
    assert_eq!((metadata.ino(), metadata.mode(), metadata.size()), (1_000_002, 0o100_644, 6));
    assert_eq!((metadata.mtime(), metadata.mtime_nsec()), (1_700_000_000, 123_456_789));
    let big = fs::read(mounted.path("big")).unwrap();
    assert!(big.len() as u64 == BIG_BYTES && big.iter().zip(0u64..).all(|(&byte, at)| byte == (at / 4096) as u8));
    let mut names: Vec<_> =
        fs::read_dir(mounted.path("sub")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!((names.len(), names[7].to_str()), (100, Some("f07")));
    for (name, kind) in [("hello", 8), ("link", 10), ("sub", 4)] {
        let entry = fs::read_dir(&mounted.root).unwrap().map(Result::unwrap).find(|e| e.file_name() == name);
        let kinds = entry.unwrap().file_type().map(|t| (t.is_file(), t.is_symlink(), t.is_dir())).unwrap();
        assert_eq!(kinds, (kind == 8, kind == 10, kind == 4), "{name}");
    }
    let mut value = [0; 8];
    let bytes = rustix::fs::getxattr(mounted.path("hello"), "user.note", &mut value).unwrap();
    assert_eq!(&value[..bytes], b"abc");
    assert_eq!(rustix::fs::getxattr_query(mounted.path("hello"), "user.note"), Ok(3));
    let bytes = rustix::fs::listxattr(mounted.path("hello"), &mut [0u8; 32]).unwrap();
    assert_eq!(bytes, 10);
    let file = fs::File::open(mounted.path("hello")).unwrap();
    assert_eq!(seek(&file, SeekFrom::Hole(0)), Ok(6));
    assert_eq!(seek(&file, SeekFrom::Data(2)), Ok(2));
    let seen = rustix::fs::statvfs(&mounted.root).unwrap();
    let original = rustix::fs::statvfs("/").unwrap();
    assert_eq!(
        (seen.f_blocks, seen.f_files, seen.f_namemax),
        (original.f_blocks, original.f_files, original.f_namemax)
    );
}

#[test]
fn the_time_of_birth_is_shown() {
    if skipped() {
        return;
    }
    let mounted = Mounted::new(Opening::None);
    let shown =
        statx(CWD, mounted.path("hello"), AtFlags::empty(), StatxFlags::BTIME | StatxFlags::BASIC_STATS).unwrap();
    if mounted.count("Statx") == 0 {
        println!("skipped: this kernel never asks for STATX");
        return;
    }
    assert!(StatxFlags::from_bits_retain(shown.stx_mask).contains(StatxFlags::BTIME));
    assert_eq!((shown.stx_btime.tv_sec, shown.stx_btime.tv_nsec), BTIME);
}

#[test]
fn nothing_is_asked_twice() {
    if skipped() {
        return;
    }
    let mounted = Mounted::new(Opening::None);
    let walk = || {
        assert_eq!(read(&mounted.path("link")), "hello\n");
        assert!(fs::metadata(mounted.path("absent")).is_err());
        assert_eq!(fs::read_dir(mounted.path("sub")).unwrap().count(), 100);
        for number in 0..100 {
            let name = format!("f{number:02}");
            assert_eq!(read(&mounted.path("sub").join(&name)), name);
        }
    };
    walk();
    assert_eq!((mounted.count("Open"), mounted.count("Opendir")), (1, 1));
    // READDIRPLUS returned the attributes of all names.
    assert_eq!(mounted.count("Lookup"), 4, "link, hello, absent, sub");
    walk();
    let before = mounted.counts();
    walk();
    assert_eq!(mounted.counts(), before);
}

#[test]
fn cached_opening_asks_for_opens_alone() {
    if skipped() {
        return;
    }
    let mounted = Mounted::new(Opening::Cached);
    for _ in 0..3 {
        assert_eq!(read(&mounted.path("hello")), "hello\n");
    }
    assert_eq!((mounted.count("Open"), mounted.count("Read")), (3, 1));
}

#[test]
fn a_successor_answers_what_its_predecessor_left() {
    if skipped() {
        return;
    }
    let mut mounted = Mounted::new(Opening::None);
    if !can(&mounted, RESEND, "FUSE_NOTIFY_RESEND") {
        return;
    }
    // The predecessor's second queue; this descriptor of it is the supervisor's.
    let queue = duplicate(&mounted.device.clone_queue().unwrap());
    let successors = [duplicate(&mounted.device), duplicate(&queue)];
    mounted.start(queue);
    mounted.tree.is_deaf.store(true, Ordering::SeqCst);
    let paths = [mounted.path("hello"), mounted.path("sub/f07")];
    let readers = paths.map(|path| thread::spawn(move || read(&path)));
    mounted.wait_for("both predecessors to have died", |mounted| mounted.count("Read") == 2);
    mounted.tree.is_deaf.store(false, Ordering::SeqCst);
    successors[0].resend().unwrap();
    for successor in successors {
        mounted.start(successor);
    }
    assert_eq!(readers.map(|reader| reader.join().unwrap()), ["hello\n", "f07"]);
    assert_eq!(mounted.tree.resent.load(Ordering::SeqCst), 2);
    assert_eq!(read(&mounted.path("sub/f08")), "f08");
}

#[test]
fn pages_are_forgotten() {
    if skipped() {
        return;
    }
    let mounted = Mounted::new(Opening::None);
    for _ in 0..2 {
        assert_eq!(read(&mounted.path("hello")), "hello\n");
    }
    assert_eq!(mounted.count("Read"), 1);
    let before = mounted.count("Getattr");
    mounted.device.invalidate_node(HELLO, 0, 0).unwrap();
    assert_eq!(read(&mounted.path("hello")), "hello\n");
    assert_eq!(mounted.count("Read"), 2);
    assert!(mounted.count("Getattr") > before, "the attributes were forgotten too");
    // Unknown nodes are no error.
    mounted.device.invalidate_node(NodeId(77), 0, 0).unwrap();
    mounted.device.invalidate_name(NodeId(77), b"x", false).unwrap();
}

#[test]
fn names_are_forgotten() {
    if skipped() {
        return;
    }
    let mounted = Mounted::new(Opening::None);
    let looked_up = |expected: usize| {
        fs::metadata(mounted.path("hello")).unwrap();
        assert_eq!(mounted.count("Lookup"), expected);
    };
    looked_up(1);
    looked_up(1);
    mounted.device.invalidate_name(NodeId::ROOT, b"hello", false).unwrap();
    looked_up(2);
    mounted.wait_for("the kernel to forget", |m| m.count("Forget") + m.count("BatchForget") > 0);
    if mounted.negotiated.has(flag::HAS_EXPIRE_ONLY) {
        mounted.device.invalidate_name(NodeId::ROOT, b"hello", true).unwrap();
        looked_up(3);
    }
    if mounted.negotiated.minor >= 44 {
        mounted.device.expire_all_names().unwrap();
        looked_up(4);
    }
}

#[test]
fn unused_nodes_are_pruned() {
    if skipped() {
        return;
    }
    let mounted = Mounted::new(Opening::None);
    if mounted.negotiated.minor < 45 {
        println!("skipped: this kernel has no FUSE_NOTIFY_PRUNE");
        return;
    }
    assert_eq!(fs::read_dir(mounted.path("sub")).unwrap().count(), 100);
    mounted.device.prune(&(100..200).map(NodeId).collect::<Vec<_>>()).unwrap();
    mounted.wait_for("the kernel to forget", |m| m.count("Forget") + m.count("BatchForget") > 0);
    let before = mounted.count("Lookup");
    assert_eq!(read(&mounted.path("sub/f07")), "f07");
    assert!(mounted.count("Lookup") > before);
}

#[test]
fn files_pass_through() {
    if skipped() {
        return;
    }
    let mounted = Mounted::new(Opening::Passthrough);
    if !can(&mounted, flag::PASSTHROUGH, "FUSE_PASSTHROUGH") {
        return;
    }
    let mut backing = tempfile::tempfile_in("/dev/shm").unwrap();
    std::io::Write::write_all(&mut backing, b"BEHIND").unwrap();
    if let Err(error) = mounted.pass_through(&backing) {
        println!("skipped: passing through: {error}");
        return;
    }
    assert_eq!(read(&mounted.path("hello")), "BEHIND");
    assert_eq!(mounted.count("Read"), 0);
    assert_eq!(read(&mounted.path("sub/f07")), "f07");
}

#[test]
fn mounts_are_listed_and_unmounted() {
    if skipped() {
        return;
    }
    let mounted = Mounted::new(Opening::None);
    let found = || mount::mounted("headwater-test").unwrap().into_iter().find(|m| m.mount_point == mounted.root);
    let listed = found().unwrap();
    assert_eq!((listed.source.as_str(), listed.root.to_str()), ("test tree, with a comma", Some("/")));
    let busy = fs::File::open(mounted.path("hello")).unwrap();
    let error = mount::unmount(&mounted.root, false).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ResourceBusy);
    drop(busy);
    let root = mounted.root.clone();
    drop(mounted);
    assert!(mount::mounted("headwater-test").unwrap().iter().all(|mounted| mounted.mount_point != root));
}

#[test]
fn the_helper_mounts_for_ordinary_users() {
    if skipped() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let device = match mount::mount_by_helper(directory.path(), &options()) {
        Ok(device) => device,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return println!("skipped: {error}"),
        Err(error) => panic!("{error}"),
    };
    let mounted = Mounted::serve(directory, device, Opening::None);
    assert_eq!(read(&mounted.path("hello")), "hello\n");
    let error = mount::mount_by_helper(&mounted.path("absent"), &options()).unwrap_err();
    assert!(error.to_string().contains("refused"), "{error}");
}

#[test]
fn read_ahead_has_the_size_that_is_set() {
    if skipped() {
        return;
    }
    let requests = |kib: Option<u32>| {
        let mounted = Mounted::new(Opening::None);
        let set = kib.map_or(Ok(()), |kib| mount::set_read_ahead(&mounted.root, kib));
        set.map(|()| {
            assert_eq!(fs::read(mounted.path("big")).unwrap().len() as u64, BIG_BYTES);
            mounted.count("Read")
        })
    };
    match requests(Some(1024)) {
        Ok(few) => assert!(few * 2 < requests(None).unwrap(), "{few}"),
        Err(error) => println!("skipped: {error}"),
    }
}

#[test]
fn a_fresh_device_joins_a_connection() {
    if skipped() {
        return;
    }
    let mut mounted = Mounted::new(Opening::None);
    let fresh = Device::open().unwrap();
    fresh.join(&mounted.device).unwrap();
    assert!(fresh.join(&mounted.device).is_err(), "it has a connection now");
    mounted.start(fresh.into());
    assert_eq!(read(&mounted.path("hello")), "hello\n");
}

/// Set for the part of a test that runs in a user namespace: its mount point.
const INSIDE: &str = "HEADWATER_TEST_MOUNT_POINT";

#[test]
fn a_user_namespace_is_served_from_outside() {
    if skipped() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount"]).arg(std::env::current_exe().unwrap());
    command.args(["--exact", "inside_a_user_namespace", "--nocapture"]).env(INSIDE, directory.path());
    let Ok(mut inside) = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn() else {
        return println!("skipped: no unshare(1)");
    };
    let mut lines = BufReader::new(inside.stdout.take().unwrap()).lines().map(Result::unwrap);
    let Some(fd) = lines.by_ref().find_map(|line| line.strip_prefix("device ")?.parse().ok()) else {
        let _ = inside.wait();
        return println!("skipped: no user namespaces");
    };
    let process = rustix::process::Pid::from_child(&inside);
    let process = rustix::process::pidfd_open(process, rustix::process::PidfdFlags::empty()).unwrap();
    let device = rustix::process::pidfd_getfd(&process, fd, rustix::process::PidfdGetfdFlags::empty()).unwrap();
    let server = thread::spawn({
        let device = Device::from_fd(device);
        move || served::serve_with_clones(device, Opening::None)
    });
    inside.stdin.take().unwrap().write_all(b"serving\n").unwrap();
    assert!(inside.wait().unwrap().success(), "{:?}", lines.collect::<Vec<_>>());
    // The mount ended with the namespace, and with it the servers' connection.
    server.join().unwrap();
}

/// The other half of [`a_user_namespace_is_served_from_outside`].
#[test]
fn inside_a_user_namespace() {
    let Some(mount_point) = std::env::var_os(INSIDE).map(std::path::PathBuf::from) else { return };
    let device = Device::open().unwrap();
    mount::mount(&device, &mount_point, &options()).unwrap();
    println!("\ndevice {}", device.as_fd().as_raw_fd());
    stdin().read_line(&mut String::new()).unwrap();
    assert_eq!(read(&mount_point.join("hello")), "hello\n");
    assert_eq!(read(&mount_point.join("sub/f07")), "f07");
    let fresh = Device::open().unwrap();
    fresh.join(&device).unwrap();
    mount::unmount(&mount_point, true).unwrap();
}
