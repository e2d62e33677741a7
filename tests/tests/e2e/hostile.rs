//! A neighbour that is broken, hostile or dead: the program continues with the source files.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use headwater_tests::counting_fs::{Caching, Mounted};
use headwater_tests::harness::{
    Fixture, Headwater, Mechanism, Program, Session, Starting, is_root, skipped, wait_until,
};
use rustix::process::{Pid, Signal, kill_process};

/// A program that uses one library, waits, and then needs more of everything.
fn program(fixture: &Fixture) -> Program {
    for name in ["one", "two", "three"] {
        fixture.library(&format!("lib/lib{name}.so"), name, &[]);
    }
    fixture.file("tool", "#!/bin/sh\necho tool\n", 0o755);
    fixture.build("tool.c", "bin/tool", &[]);
    let app = fixture.build("loader.c", "bin/app", &["-Wl,-rpath,$ORIGIN/../lib"]);
    let tool = format!("exec={}", fixture.path("bin/tool").display());
    let again = format!("spawn={}", app.display());
    let pause = format!("pause={}", fixture.outside("reached").display());
    let verbs =
        ["open=libone.so", &pause, "open=libtwo.so", "call=two", "open=libone.so", "open=libabsent.so", &tool, "x"];
    Program::new(app).args(verbs).args([&again, "open=libthree.so call=three self", "objects"])
}

/// Runs it with something done to the session while it waits, and checks that it did the same as
/// without Headwater.
fn interfered(fixture: &Fixture, headwater: &Headwater, interfere: impl FnOnce(&Starting)) -> Session {
    let program = program(fixture);
    let go = fixture.outside("reached.go");
    fs::write(&go, "").expect("an own directory");
    let plain = program.run();
    fs::remove_file(&go).expect("an own file");
    fs::remove_file(fixture.outside("reached")).expect("the program made it");
    let started = headwater.start(&program);
    assert!(wait_until(Duration::from_secs(20), || fixture.outside("reached").exists()), "the program starts");
    interfere(&started);
    fs::write(&go, "").expect("an own directory");
    let session = started.finish();
    session.output.assert_same(&plain);
    session
}

fn signal_daemons(started: &Starting, signal: Signal) {
    let daemons = started.daemons();
    assert!(!daemons.is_empty(), "a daemon runs");
    for pid in daemons {
        kill_process(Pid::from_raw(pid).expect("a process ID is positive"), signal).expect("the daemon runs");
    }
}

#[test]
fn the_daemon_is_killed() {
    let fixture = Fixture::new("hkill");
    interfered(&fixture, &fixture.headwater(), |started| signal_daemons(started, Signal::KILL));
}

#[test]
fn the_daemon_hangs() {
    let fixture = Fixture::new("hstop");
    let mut stopped = Vec::new();
    let session = interfered(&fixture, &fixture.headwater(), |started| {
        stopped = started.daemons();
        signal_daemons(started, Signal::STOP);
        let pids = stopped.clone();
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_secs(12));
            for pid in pids.into_iter().filter_map(Pid::from_raw) {
                let _ = kill_process(pid, Signal::CONT);
            }
        });
    });
    if !session.summary.is_null() {
        assert!(session.number("clients.fallbacks") > 0, "{:#}", session.summary);
    }
}

#[test]
fn a_daemon_is_killed_in_the_middle_of_a_request() {
    let fixture = Fixture::new("hmid");
    fixture.library("lib/libslow.so", "slow", &[]);
    let app = fixture.build("loader.c", "bin/app", &["-Wl,-rpath,$ORIGIN/../lib"]);
    let relative = |path: &Path| path.strip_prefix(fixture.shared()).expect("below it").to_path_buf();
    let mut mounted = match Mounted::new(&fixture.shared(), 1, Caching::NONE) {
        Ok(mounted) => mounted,
        Err(reason) => return skipped(reason),
    };
    let verbs =
        [format!("pause={}", fixture.outside("reached").display()), "open=libslow.so".into(), "call=slow".into()];
    let program = Program::new(mounted.path().join(relative(&app))).args(verbs);
    for nodes in [1, 2] {
        for name in ["reached", "reached.go"] {
            let _ = fs::remove_file(fixture.outside(name));
        }
        mounted.set_delay("open", Duration::ZERO);
        let started = Headwater::new(mounted.path()).on(nodes, 1).start(&program);
        assert!(wait_until(Duration::from_secs(20), || fixture.outside("reached").exists()), "the program starts");
        mounted.set_delay("open", Duration::from_millis(1500));
        fs::write(fixture.outside("reached.go"), "").expect("an own directory");
        std::thread::sleep(Duration::from_millis(700));
        signal_daemons(&started, Signal::KILL);
        let session = started.finish();
        assert_eq!(session.output.stdout.matches("slow() = slow").count(), nodes, "{:?}", session.output);
        assert_eq!(session.output.status, 0);
    }
}

#[test]
fn the_socket_is_gone() {
    let fixture = Fixture::new("hsock");
    let session = interfered(&fixture, &fixture.headwater(), |started| {
        fs::remove_file(started.node_dir(0).join("sock")).expect("the daemon made it");
    });
    assert!(session.number("clients.fallbacks") > 0, "{:#}", session.summary);
}

#[test]
fn the_socket_answers_nonsense() {
    let fixture = Fixture::new("hnonsense");
    let session = interfered(&fixture, &fixture.headwater(), |started| {
        let socket = started.node_dir(0).join("sock");
        fs::remove_file(&socket).expect("the daemon made it");
        let listener = std::os::unix::net::UnixListener::bind(&socket).expect("the name is free");
        std::thread::spawn(move || {
            for connection in listener.incoming().take(50).flatten() {
                let _ = std::io::Write::write_all(&mut &connection, b"HTTP/1.1 400 Bad Request\r\n\r\n");
            }
        });
    });
    assert!(session.number("clients.fallbacks") > 0, "{:#}", session.summary);
}

/// Bytes drawn from a seed.
fn noise(seed: u64, count: usize) -> Vec<u8> {
    let mut state = seed | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..count).map(|_| next()).collect()
}

#[test]
fn the_table_is_garbage() {
    for (seed, from, bytes) in [(1, 4096, 8 << 20), (2, 0, 4096), (3, 8, 400), (4, 64, 64 << 10)] {
        let fixture = Fixture::new("hnoise");
        interfered(&fixture, &fixture.headwater(), |started| {
            let path = started.node_dir(0).join("1/table");
            let table = File::options().write(true).open(&path).expect("the daemon made it");
            let room = table.metadata().expect("an open file").len().saturating_sub(from) as usize;
            table.write_all_at(&noise(seed, room.min(bytes)), from).expect("an own file");
        });
    }
}

#[test]
fn random_words_of_the_table_are_changed() {
    for seed in 1..=4 {
        let fixture = Fixture::new("hflip");
        interfered(&fixture, &fixture.headwater(), |started| {
            let path = started.node_dir(0).join("1/table");
            let table = File::options().read(true).write(true).open(&path).expect("the daemon made it");
            let mut bytes = fs::read(&path).expect("the daemon made it");
            let used: Vec<usize> = (0..bytes.len()).filter(|&at| bytes[at] != 0).collect();
            for pair in noise(seed, 512 * 4).chunks(4) {
                let at = used[u32::from_le_bytes([pair[0], pair[1], pair[2], 0]) as usize % used.len()];
                bytes[at] ^= pair[3];
                table.write_all_at(&bytes[at..=at], at as u64).expect("an own file");
            }
        });
    }
}

#[test]
fn the_session_is_of_another_version() {
    let fixture = Fixture::new("hversion");
    interfered(&fixture, &fixture.headwater(), |started| {
        // The view of a process that takes its environment into a session of another version.
        let node = started.node_dir(0);
        let copy = fixture.outside("table");
        fs::copy(node.join("1/table"), &copy).expect("the daemon made it");
        let program = Program::new(fixture.path("bin/app")).args(["open=libthree.so", "call=three", "self", "objects"]);
        let plain = program.run();
        let audited = program.env("LD_AUDIT", node.join("lib/libheadwater-audit.so")).env("HEADWATER_TABLE", &copy);
        audited.run().assert_same(&plain);
        for (word, value) in [(0, 999), (1, 999), (2, 16), (4, u64::MAX)] {
            let table = File::options().write(true).open(&copy).expect("copied above");
            table.write_all_at(&u64::to_le_bytes(value), word * 8).expect("an own file");
            audited.run().assert_same(&plain);
        }
        fs::write(&copy, "").expect("an own file");
        audited.run().assert_same(&plain);
    });
}

#[test]
fn the_session_is_removed_under_its_programs() {
    let fixture = Fixture::new("hremoved");
    interfered(&fixture, &fixture.headwater(), |started| {
        let _ = fs::remove_dir_all(started.node_dir(0).join("1"));
    });
}

#[test]
fn the_store_is_full() {
    let fixture = Fixture::new("hfull");
    fixture.file("big", noise(9, 3 << 20), 0o644);
    let limited = fixture.headwater().option("--store-max").option("1M");
    let session = limited.same_output(&Program::shell(&format!("cksum {0} {0}", fixture.path("big").display())));
    assert!(session.number("clients.fallbacks") > 0, "{:#}", session.summary);
    assert!(session.number("memory.store_bytes") <= 1 << 20, "{:#}", session.summary);
    let warnings: Vec<&str> = session.messages.lines().filter(|line| line.contains("store")).collect();
    assert!(warnings.len() == 1 && warnings[0].starts_with("headwater: warning: "), "{warnings:?}");
    assert!(warnings[0].contains("A larger --store-max helps"), "{warnings:?}");
    interfered(&fixture, &limited, |_| ());
}

#[test]
fn the_stores_file_system_is_full() {
    if !is_root() {
        return skipped("mounting a small file system needs root");
    }
    let fixture = Fixture::new("htiny");
    fixture.file("big", noise(9, 3 << 20), 0o644);
    let store =
        tempfile::Builder::new().prefix("hwt-tiny-").tempdir_in("/dev/shm").expect("/dev/shm takes a directory");
    for size in ["64k", "2m", "96m"] {
        let mount =
            Program::new("mount").args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"]).arg(store.path()).run();
        if mount.status != 0 {
            return skipped(format!("tmpfs can't be mounted: {}", mount.stderr));
        }
        let filler = store.path().join("filler");
        let script = format!(
            "cksum {}; head -c 200m /dev/zero > {} 2>/dev/null; cksum {}; rm {1}",
            fixture.path("bin/app").display(),
            filler.display(),
            fixture.path("big").display()
        );
        let program = program(&fixture);
        fs::write(fixture.outside("reached.go"), "").expect("an own directory");
        let headwater = fixture.headwater().store(store.path());
        let plain = program.run();
        let session = headwater.run(&program);
        let filled =
            (size == "96m").then(|| (Program::shell(&script).run(), headwater.run(&Program::shell(&script)).output));
        Program::new("umount").arg(store.path()).run();
        assert_eq!(
            (session.output.status, &session.output.stdout),
            (plain.status, &plain.stdout),
            "{size}: {:?}",
            session.output
        );
        if let Some((plain, ours)) = filled {
            ours.assert_same(&plain);
        }
    }
}

#[test]
fn limits_of_the_user() {
    let fixture = Fixture::new("limits");
    for number in 0..60 {
        fixture.file(&format!("data/{}/{number}", number % 20), format!("{number}\n"), 0o644);
    }
    let data = fixture.path("data").display().to_string();
    let program = Program::shell(&format!("find {data} -type f | sort | xargs cat | md5sum"));
    let plain = program.run();
    let files = ["20", "32", "127", "150"].map(|most| format!("--nofile={most}:{most}"));
    let sizes = ["4096", "100000", "5000000", "200000000", "500000000"].map(|most| format!("--fsize={most}:{most}"));
    for limit in files.into_iter().chain(sizes) {
        let output = fixture.headwater().behind(&["prlimit", &limit]).run(&program).output;
        assert_eq!((output.status, &output.stdout), (0, &plain.stdout), "{limit}: {output:?}");
    }
    if is_root() {
        // Root itself has no limit of processes, and all of a user's processes count.
        let own_user = format!("--reuid={}", 50_000 + std::process::id() % 10_000);
        let user = ["setpriv", &own_user, "--clear-groups", "prlimit"];
        let can_mount = Mechanism::Namespace.check().is_ok();
        for most in 1..16 {
            let limit = format!("--nproc={most}:{most}");
            let behind: Vec<&str> = user.into_iter().chain([&*limit]).collect();
            let check = |headwater: Headwater| {
                let output = headwater.run(&Program::new("cat").arg(fixture.path("data/7/27"))).output;
                assert_eq!((output.status, &*output.stdout), (0, "27\n"), "{limit}: {output:?}");
            };
            check(fixture.headwater().behind(&behind));
            if can_mount {
                check(fixture.headwater().via(Mechanism::Namespace).behind(&fixture.commands_of(&behind)));
            }
        }
    }
}
