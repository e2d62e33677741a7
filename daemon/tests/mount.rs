//! A tree through a real mount, compared with its source.

mod support;

use std::io::{Read, Seek, SeekFrom};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use headwater_daemon::{Config, MountConfig, Preload, PreloadList, Report};
use headwater_fuse::init::Opening;
use support::mounted::{Mounted, assert_same};
use support::{CHAIN, Cluster, eventually, stats};

/// Daemons of which each but the first has the one before it as its parent.
fn chain(config: &mut Config) {
    config.shape = CHAIN;
}

/// A tree with one of everything.
fn plant(cluster: &Cluster) {
    cluster.write("bin/tool", b"#!/bin/sh\necho \"$0 $@\"\n");
    std::fs::set_permissions(cluster.shared("bin/tool"), std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::hard_link(cluster.shared("bin/tool"), cluster.shared("bin/same")).unwrap();
    cluster.write("lib/empty", b"");
    cluster.write("lib/small", b"small");
    cluster.write("lib/page", &[7; 4096]);
    cluster.write("lib/large", &(0..700_001u32).map(|n| (n / 3) as u8).collect::<Vec<u8>>());
    cluster.write("lib/deep/er/and/deeper/leaf", b"leaf");
    std::fs::create_dir_all(cluster.shared("lib/nothing")).unwrap();
    std::fs::write(cluster.shared("lib").join(std::ffi::OsStr::from_bytes(b"n\xff\xfe\n")), b"x").unwrap();
    cluster.write(&format!("lib/{}", "x".repeat(255)), b"long");
    symlink("small", cluster.shared("lib/relative")).unwrap();
    symlink(cluster.shared("lib/small"), cluster.shared("lib/absolute")).unwrap();
    symlink("nowhere", cluster.shared("lib/dangling")).unwrap();
    symlink("deep/er", cluster.shared("lib/way")).unwrap();
    let sparse = std::fs::File::create(cluster.shared("lib/sparse")).unwrap();
    sparse.set_len(1 << 20).unwrap();
    sparse.write_all_at(b"middle", 512 << 10).unwrap();
    drop(UnixListener::bind(cluster.shared("lib/socket")).unwrap());
    let mknod = |name: &str, kind, device| {
        let path = cluster.shared(name);
        rustix::fs::mknodat(rustix::fs::CWD, &path, kind, rustix::fs::Mode::from(0o640), device).unwrap();
    };
    mknod("lib/fifo", rustix::fs::FileType::Fifo, 0);
    mknod("lib/null", rustix::fs::FileType::CharacterDevice, rustix::fs::makedev(1, 3));
    for number in 0..300 {
        cluster.write(&format!("many/{number}"), format!("{number}").as_bytes());
    }
    let flags = rustix::fs::XattrFlags::empty();
    let _ = rustix::fs::setxattr(cluster.shared("lib/small"), "user.note", b"a note", flags);
}

/// Runs `ranks` daemons in a chain with a mount each, if the machine allows it.
fn run(cluster: &mut Cluster, ranks: u32, opening: Opening) -> Option<Vec<Mounted>> {
    let (root, dir) = (cluster.shared("").components().as_path().to_owned(), cluster.dir.path().to_owned());
    let mounts = std::cell::RefCell::new(Vec::new());
    cluster.run(ranks, |config| {
        chain(config);
        let at = dir.join(format!("mount{}", config.rank));
        mounts.borrow_mut().push(Mounted::new(config, &at, &root, opening));
    });
    mounts.into_inner().into_iter().collect()
}

/// Ends a session: first the mounts, then the daemons.
fn end(mut cluster: Cluster, mounts: Vec<Mounted>) -> Vec<Report> {
    drop(mounts);
    cluster.stop()
}

#[test]
fn a_tree_looks_like_its_source() {
    for opening in [Opening::None, Opening::Cached, Opening::Passthrough] {
        let mut cluster = Cluster::prepare();
        plant(&cluster);
        let Some(mounts) = run(&mut cluster, 1, opening) else { return };
        assert_same(&cluster.shared(""), &mounts[0].at);
        assert_same(&cluster.shared(""), &mounts[0].at);
        let report = end(cluster, mounts).swap_remove(0);
        assert!(report.shared_fs.files_read < 320, "{report:?}");
    }
}

#[test]
fn every_node_of_a_chain_shows_it_and_the_second_time_asks_nothing() {
    let mut cluster = Cluster::prepare();
    plant(&cluster);
    let Some(mounts) = run(&mut cluster, 3, Opening::None) else { return };
    for mount in mounts.iter().rev() {
        assert_same(&cluster.shared(""), &mount.at);
    }
    let reports = end(cluster, mounts);
    assert_eq!(reports[1].shared_fs.files_read, 0);
    assert_eq!(reports[0].shared_fs.directories_read, 9, "each once, for all nodes");
}

#[test]
fn absent_names_are_absent_and_need_no_file_system() {
    let mut cluster = Cluster::prepare();
    plant(&cluster);
    let Some(mounts) = run(&mut cluster, 1, Opening::None) else { return };
    for name in ["lib/absent", "absent", "lib/deep/absent/x", "lib/small/x"] {
        let (source, shown) = (std::fs::metadata(cluster.shared(name)), std::fs::metadata(mounts[0].path(name)));
        assert_eq!(shown.unwrap_err().raw_os_error(), source.unwrap_err().raw_os_error(), "{name}");
    }
    let report = end(cluster, mounts).swap_remove(0);
    assert_eq!((report.shared_fs.files_read, report.mount.from_original), (0, 0));
}

#[test]
fn programs_and_maps_work() {
    let mut cluster = Cluster::prepare();
    plant(&cluster);
    std::fs::copy("/bin/ls", cluster.shared("bin/ls")).unwrap();
    let Some(mounts) = run(&mut cluster, 1, Opening::None) else { return };
    let tool = Command::new(mounts[0].path("bin/tool")).arg("x").output().unwrap();
    assert_eq!(String::from_utf8(tool.stdout).unwrap(), format!("{} x\n", mounts[0].path("bin/tool").display()));
    let listed = Command::new(mounts[0].path("bin/ls")).arg(mounts[0].path("bin")).output().unwrap();
    assert_eq!(String::from_utf8(listed.stdout).unwrap(), "ls\nsame\ntool\n");

    let mut large = std::fs::File::open(mounts[0].path("lib/large")).unwrap();
    let expected = std::fs::read(cluster.shared("lib/large")).unwrap();
    let mut tail = Vec::new();
    large.seek(SeekFrom::Start(699_000)).unwrap();
    large.read_to_end(&mut tail).unwrap();
    assert_eq!(tail, expected[699_000..]);
    let mut byte = [0];
    assert_eq!(large.read_at(&mut byte, 700_001).unwrap(), 0);
    end(cluster, mounts);
}

#[test]
fn errors_are_those_of_the_source() {
    let mut cluster = Cluster::prepare();
    plant(&cluster);
    cluster.write("lib/vanishing", b"soon gone");
    let Some(mounts) = run(&mut cluster, 1, Opening::None) else { return };
    assert_eq!(std::fs::metadata(mounts[0].path("lib/vanishing")).unwrap().len(), 9);
    std::fs::remove_file(cluster.shared("lib/vanishing")).unwrap();
    let error = std::fs::read(mounts[0].path("lib/vanishing")).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::NOENT.raw_os_error()), "never an empty file");
    for write in [std::fs::write(mounts[0].path("lib/small"), b"x"), std::fs::remove_file(mounts[0].path("lib/page"))] {
        assert_eq!(write.unwrap_err().kind(), std::io::ErrorKind::ReadOnlyFilesystem);
    }
    end(cluster, mounts);
}

#[test]
fn paths_outside_of_the_scope_come_from_the_source() {
    let mut cluster = Cluster::prepare();
    plant(&cluster);
    let (root, lib) = (cluster.shared(""), cluster.shared("lib").to_str().unwrap().to_owned());
    let dir = cluster.dir.path().to_owned();
    let mounts = std::cell::RefCell::new(Vec::new());
    cluster.run(1, |config| {
        config.scope = vec![(true, lib.clone())];
        mounts.borrow_mut().push(Mounted::new(config, &dir.join("mount"), Path::new(&root), Opening::None));
    });
    let Some(mounts) = mounts.into_inner().into_iter().collect::<Option<Vec<_>>>() else { return };
    assert_same(&root, &mounts[0].at);
    cluster.write("bin/new", b"new");
    assert_eq!(std::fs::read(mounts[0].path("bin/new")).unwrap(), b"new");
    let report = end(cluster, mounts).swap_remove(0);
    assert!(report.mount.from_original > 0);
}

/// Starts one daemon with a mount that `change` has configured.
fn run_one(cluster: &mut Cluster, change: impl Fn(&mut MountConfig)) -> Option<Vec<Mounted>> {
    let root = cluster.shared("").components().as_path().to_owned();
    let dir = cluster.dir.path().to_owned();
    let mounts = std::cell::RefCell::new(Vec::new());
    cluster.run(1, |config| {
        mounts.borrow_mut().push(Mounted::new(config, &dir.join("mount"), &root, Opening::None));
        if let Some(mount) = &mut config.mount {
            change(mount);
        }
    });
    mounts.into_inner().into_iter().collect()
}

#[test]
fn links_stay_inside_of_a_mount_that_is_no_namespace() {
    let mut cluster = Cluster::prepare();
    plant(&cluster);
    symlink("/etc", cluster.shared("lib/out")).unwrap();
    symlink(cluster.shared(""), cluster.shared("lib/deep/er/top")).unwrap();
    let Some(mounts) = run_one(&mut cluster, |mount| mount.keeps_links_inside = true) else { return };
    for (link, target) in [
        ("lib/absolute", "../lib/small"),
        ("lib/deep/er/top", "../../../"),
        ("lib/out", "/etc"),
        ("lib/relative", "small"),
    ] {
        let path = mounts[0].path(link);
        assert_eq!(std::fs::read_link(&path).unwrap().to_str(), Some(target), "{link}");
        assert_eq!(std::fs::symlink_metadata(&path).unwrap().len(), target.len() as u64, "{link}");
    }
    assert!(std::fs::canonicalize(mounts[0].path("lib/absolute")).unwrap().starts_with(&mounts[0].at));
    assert_eq!(std::fs::read(mounts[0].path("lib/deep/er/top/lib/small")).unwrap(), b"small");
    end(cluster, mounts);
}

#[test]
fn hidden_directories_are_empty() {
    let mut cluster = Cluster::prepare();
    plant(&cluster);
    let deep = cluster.shared("lib/deep").to_str().unwrap().to_owned();
    let Some(mounts) = run_one(&mut cluster, |mount| mount.hidden = vec![deep.clone()]) else { return };
    let shown = mounts[0].path("lib/deep");
    assert_eq!(std::fs::read_dir(&shown).unwrap().count(), 0);
    assert!(std::fs::metadata(&shown).unwrap().is_dir());
    assert_eq!(std::fs::metadata(shown.join("er")).unwrap_err().kind(), std::io::ErrorKind::NotFound);
    assert!(std::fs::read_dir(mounts[0].path("lib")).unwrap().any(|entry| entry.unwrap().file_name() == "deep"));
    assert_eq!(std::fs::read(mounts[0].path("lib/small")).unwrap(), b"small");
    end(cluster, mounts);
}

/// Starts a daemon whose parent never connects, and a process that waits for its answer.
fn waiting_reader(cluster: &mut Cluster, reader: &mut Command) -> Option<(Vec<Mounted>, std::process::Child)> {
    plant(cluster);
    let (root, dir) = (cluster.shared("").components().as_path().to_owned(), cluster.dir.path().to_owned());
    let mounts = std::cell::RefCell::new(Vec::new());
    cluster.start(1, 2, |config| {
        mounts.borrow_mut().push(Mounted::new(config, &dir.join("mount"), &root, Opening::None));
    });
    let mounts = mounts.into_inner().into_iter().collect::<Option<Vec<_>>>()?;
    let reader = reader.arg(mounts[0].path("lib/small")).stdout(Stdio::null()).spawn().unwrap();
    support::eventually("waiting", || {
        let wait = std::fs::read_to_string(format!("/proc/{}/wchan", reader.id())).unwrap();
        wait.contains("request_wait_answer") || wait.contains("fuse")
    });
    Some((mounts, reader))
}

#[test]
fn a_process_that_waits_for_an_answer_can_be_killed() {
    // The second one received another signal before, which it handles.
    let handling = "import signal, sys\nsignal.signal(signal.SIGUSR1, lambda *_: 0)\nopen(sys.argv[1])";
    let mut python = Command::new("python3");
    for (reader, handled) in [(&mut Command::new("cat"), false), (python.args(["-c", handling]), true)] {
        let mut cluster = Cluster::prepare();
        let Some((mounts, mut reader)) = waiting_reader(&mut cluster, reader) else { return };
        if handled {
            let pid = rustix::process::Pid::from_child(&reader);
            rustix::process::kill_process(pid, rustix::process::Signal::USR1).unwrap();
            std::thread::sleep(Duration::from_millis(600));
            assert_eq!(reader.try_wait().unwrap(), None, "it still waits");
        }
        let killed_at = Instant::now();
        reader.kill().unwrap();
        reader.wait().unwrap();
        assert!(killed_at.elapsed() < Duration::from_secs(2), "{:?}", killed_at.elapsed());
        drop(mounts);
        cluster.nodes[0].orphan();
    }
}

#[test]
fn any_number_that_waits_can_be_killed() {
    let mut cluster = Cluster::prepare();
    // Each thread waits for another name; one of them receives the handled signal first.
    let script = "import os, signal, sys, threading\n\
        signal.signal(signal.SIGUSR1, lambda *_: 0)\n\
        def wait(number): os.stat(f'{sys.argv[1]}{number}')\n\
        for number in range(200): threading.Thread(target=wait, args=[number]).start()\n\
        wait('')\n";
    let Some((mounts, mut reader)) = waiting_reader(&mut cluster, Command::new("python3").args(["-c", script])) else {
        return;
    };
    let tasks = format!("/proc/{}/task", reader.id());
    let waits = |task: std::io::Result<std::fs::DirEntry>| {
        let at = std::fs::read_to_string(task.unwrap().path().join("wchan")).unwrap();
        at.contains("request_wait_answer") || at.contains("fuse")
    };
    support::eventually("all wait", || {
        std::fs::read_dir(&tasks).unwrap().map(waits).filter(|waits| *waits).count() == 201
    });
    rustix::process::kill_process(rustix::process::Pid::from_child(&reader), rustix::process::Signal::USR1).unwrap();
    let killed_at = Instant::now();
    reader.kill().unwrap();
    reader.wait().unwrap();
    assert!(killed_at.elapsed() < Duration::from_secs(2), "{:?}", killed_at.elapsed());
    drop(mounts);
    cluster.nodes[0].orphan();
}

#[test]
fn signals_that_are_ignored_interrupt_nothing() {
    let mut cluster = Cluster::prepare();
    plant(&cluster);
    let Some(mounts) = run(&mut cluster, 2, Opening::None) else { return };
    // A child that ends while its parent's thread has all signals blocked sends SIGCHLD to another thread: the first.
    let script = "import os, subprocess, sys, threading\n\
        def spawn():\n\
        \twhile not ended:\n\
        \t\ttry: subprocess.Popen(['/nonexistent'])\n\
        \t\texcept FileNotFoundError: pass\n\
        ended = []\n\
        threads = [threading.Thread(target=spawn) for _ in range(3)]\n\
        for thread in threads: thread.start()\n\
        try: print(sum(os.stat(f'{sys.argv[1]}/{number}').st_size for number in range(300)))\n\
        finally: ended.append(True)\n";
    let output = Command::new("python3").args(["-c", script]).arg(mounts[1].path("many")).output().unwrap();
    assert_eq!(
        (String::from_utf8_lossy(&output.stdout).trim(), String::from_utf8_lossy(&output.stderr).trim()),
        ("790", "")
    );
    end(cluster, mounts);
}

#[test]
fn many_readers_at_once_get_their_own_answers() {
    let mut cluster = Cluster::prepare();
    plant(&cluster);
    let Some(mounts) = run(&mut cluster, 2, Opening::None) else { return };
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let mount = &mounts[1];
            scope.spawn(move || {
                for number in (0..300).map(|n| (n * 7 + thread * 37) % 300) {
                    let content = std::fs::read_to_string(mount.path(&format!("many/{number}"))).unwrap();
                    assert_eq!(content, number.to_string());
                }
            });
        }
    });
    let reports = end(cluster, mounts);
    assert_eq!((reports[0].shared_fs.files_read, reports[1].mount.from_original), (300, 0));
}

#[test]
fn of_large_files_only_what_is_read_travels() {
    let mut cluster = Cluster::prepare();
    let content: Vec<u8> = (0..45 << 20).map(|n: u32| (n / 1000) as u8 ^ n as u8).collect();
    cluster.write("large", &content);
    let (root, dir) = (cluster.shared("").components().as_path().to_owned(), cluster.dir.path().to_owned());
    let mounts = std::cell::RefCell::new(Vec::new());
    cluster.run(2, |config| {
        config.whole_file_bytes_max = 1 << 20;
        let at = dir.join(format!("mount{}", config.rank));
        mounts.borrow_mut().push(Mounted::new(config, &at, &root, Opening::None));
    });
    let Some(mounts) = mounts.into_inner().into_iter().collect::<Option<Vec<_>>>() else { return };
    let file = std::fs::File::open(mounts[1].path("large")).unwrap();
    let mut piece = vec![0; 1 << 20];
    // Across the border between two blocks, from the middle.
    file.read_exact_at(&mut piece, (20 << 20) - 1000).unwrap();
    assert!(piece == content[(20 << 20) - 1000..][..1 << 20]);
    let stored = |rank: usize| support::allocated(&cluster.nodes[rank].copy(&cluster.shared("large")));
    assert!(stored(1) <= 16 << 20, "{} bytes for two blocks and what is read ahead", stored(1));
    assert!(std::fs::read(mounts[1].path("large")).unwrap() == content);
    assert!(std::fs::read(mounts[0].path("large")).unwrap() == content);
    let reports = end(cluster, mounts);
    assert_eq!(reports[0].shared_fs.bytes_read, content.len() as u64, "each byte once");
    assert_eq!((reports[1].shared_fs.bytes_read, reports[1].mount.from_original), (0, 0));
}

#[test]
fn a_node_that_is_alone_reads_large_files_from_their_source() {
    let mut cluster = Cluster::prepare();
    let content: Vec<u8> = (0..6 << 20).map(|n: u32| (n / 1000) as u8).collect();
    cluster.write("large", &content);
    cluster.write("small", b"small");
    let large = cluster.shared("large");
    let (root, dir) = (cluster.shared("").components().as_path().to_owned(), cluster.dir.path().to_owned());
    let own = tempfile::tempdir().unwrap();
    let recorded = own.path().join("recorded");
    let mounts = std::cell::RefCell::new(Vec::new());
    cluster.run(1, |config| {
        config.whole_file_bytes_max = 1 << 20;
        config.record_to = Some(recorded.clone());
        mounts.borrow_mut().push(Mounted::new(config, &dir.join("mount"), &root, Opening::None));
    });
    let Some(mounts) = mounts.into_inner().into_iter().collect::<Option<Vec<_>>>() else { return };
    assert_eq!(std::fs::read(mounts[0].path("small")).unwrap(), b"small");
    let file = std::fs::File::open(mounts[0].path("large")).unwrap();
    let mut piece = vec![0; 1 << 20];
    file.read_exact_at(&mut piece, 1 << 20).unwrap();
    assert!(piece == content[1 << 20..2 << 20]);
    // In place, behind what the kernel has: the path is served from its source file from now on.
    let writer = std::fs::OpenOptions::new().write(true).open(&large).unwrap();
    writer.write_all_at(&[7; 100], 5 << 20).unwrap();
    file.read_exact_at(&mut piece, 5 << 20).unwrap();
    assert!(piece[..100] == [7; 100] && piece[100..] == content[(5 << 20) + 100..]);
    let reports = end(cluster, mounts);
    assert_eq!(reports[0].shared_fs.bytes_read, 5, "of the small file");
    assert!(reports[0].mount.from_original > 0);
    let text = std::fs::read_to_string(recorded).unwrap();
    assert!(!text.contains(" /large"), "{text}");
}

#[test]
fn recorded_blocks_are_fetched_ahead_and_recorded_again() {
    let mut cluster = Cluster::prepare();
    let content: Vec<u8> = (0..6 << 20).map(|n: u32| (n / 1000) as u8).collect();
    cluster.write("large", &content);
    let large = cluster.shared("large");
    let status = large.metadata().unwrap();
    let line =
        format!("blocks {} {}.{:09} 1-2,5 {}", status.len(), status.mtime(), status.mtime_nsec(), large.display());
    let (root, dir) = (cluster.shared("").components().as_path().to_owned(), cluster.dir.path().to_owned());
    let preload =
        PreloadList { name: "app.closure".into(), is_learnt: true, is_complete: false, entries: vec![line.clone()] };
    let own = tempfile::tempdir().unwrap();
    let recorded = own.path().join("recorded");
    let mounts = std::cell::RefCell::new(Vec::new());
    cluster.run(2, |config| {
        config.whole_file_bytes_max = 1 << 20;
        config.preload = Some(Preload::List(preload.clone()));
        config.record_to = (config.rank == 1).then(|| recorded.clone());
        let at = dir.join(format!("mount{}", config.rank));
        mounts.borrow_mut().push(Mounted::new(config, &at, &root, Opening::None));
    });
    let Some(mounts) = mounts.into_inner().into_iter().collect::<Option<Vec<_>>>() else { return };
    eventually("the end of preloading", || cluster.nodes.iter().all(|node| stats(node).preload.has_ended));
    let stored = |rank: usize| support::allocated(&cluster.nodes[rank].copy(&large));
    assert_eq!((stored(0), stored(1)), (3 << 20, 3 << 20), "three blocks, and nothing is read ahead of them");
    let mut piece = vec![0; 1 << 20];
    std::fs::File::open(mounts[1].path("large")).unwrap().read_exact_at(&mut piece, 1 << 20).unwrap();
    assert!(piece == content[1 << 20..2 << 20]);
    let reports = end(cluster, mounts);
    assert_eq!((reports[0].shared_fs.bytes_read, reports[1].preload.files), (3 << 20, 1));
    let text = std::fs::read_to_string(recorded).unwrap();
    assert_eq!(text.lines().find(|line| line.starts_with("blocks ")), Some(&*line), "{text}");
}
