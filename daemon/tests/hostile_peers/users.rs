//! Two users of one node: one has a session, and the other one attacks it.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use headwater_abi::client::Status;
use rustix::fs::{Gid, Uid};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

use crate::peer::{Secrets, TRUE, answer, connect, rest, shake_hands};
use crate::process::Session;
use crate::support::SESSION;

/// The session's owner, and the attacker.
const USER: u32 = 1;
const OTHER_USER: u32 = 7;

/// Runs a function as this user: for the kernel, credentials belong to threads.
fn by<T: Send>(user: u32, act: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let acting = scope.spawn(|| {
            let (group, user) = (Gid::from_raw(user), Uid::from_raw(user));
            set_thread_groups(&[]).unwrap();
            set_thread_res_gid(group, group, group).unwrap();
            set_thread_res_uid(user, user, user).unwrap();
            act()
        });
        acting.join().unwrap()
    })
}

/// Lists all files of the session, as root sees them.
fn everything(session: &Session) -> Vec<PathBuf> {
    let (mut found, mut todo) = (Vec::new(), vec![session.dir().join("n0"), session.dir().join("n1")]);
    while let Some(path) = todo.pop() {
        if fs::symlink_metadata(&path).unwrap().is_dir() {
            todo.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
        found.push(path);
    }
    found
}

/// Lists the operations that a path permits.
fn possible(path: &Path) -> Vec<(&'static str, PathBuf)> {
    let tries: [(&str, bool); 6] = [
        ("read", File::open(path).is_ok()),
        ("written", File::options().append(true).open(path).is_ok()),
        ("listed", fs::read_dir(path).is_ok()),
        ("examined", !path.parent().is_some_and(|parent| parent.ends_with("session")) && fs::metadata(path).is_ok()),
        ("connected to", UnixStream::connect(path).is_ok()),
        ("removed", fs::rename(path, path.with_extension("gone")).is_ok()),
    ];
    tries.into_iter().filter(|(_, done)| *done).map(|(what, _)| (what, path.to_path_buf())).collect()
}

#[test]
fn a_second_user_neither_enters_nor_disturbs() {
    if !rustix::process::geteuid().is_root() {
        return println!("skipped: only root can be two other users");
    }
    let mut session = Session::prepare(2).belong_to(USER);
    let executable = std::env::current_exe().unwrap();
    if by(USER, || std::process::Command::new(&executable).arg("--list").output()).is_err() {
        return println!("skipped: another user can't run this test");
    }
    session.start(2, |_| ());
    let ask = |rank, number| by(USER, || session.ask(rank, number));
    for rank in 0..2 {
        assert_eq!(ask(rank, 0), Some(Status::Done), "the owner is served");
    }
    let paths = everything(&session);
    for name in ["sock", "control", "table", "counters", "f0"] {
        assert!(paths.iter().any(|path| path.ends_with(name)), "{name}: {paths:?}");
    }
    let own: usize = paths.iter().map(|path| by(USER, || usize::from(fs::metadata(path).is_ok()))).sum();
    assert_eq!(own, paths.len(), "the owner may do what others are refused below");
    for path in &paths {
        assert_eq!(by(OTHER_USER, || possible(path)), [], "by a second user");
    }
    for node in &session.nodes {
        let pid = Pid::from_raw(node.id() as i32).unwrap();
        for name in ["environ", "maps", "mem", "fd", "root", "cwd/", "auxv", "stack"] {
            let path = format!("/proc/{}/{name}", node.id());
            assert!(by(OTHER_USER, || File::open(&path).is_err() && fs::read_dir(&path).is_err()), "{path}");
        }
        // Not even other processes of the same user may read the memory.
        assert!(by(USER, || File::open(format!("/proc/{}/mem", node.id())).is_err()));
        for signal in [Signal::KILL, Signal::TERM, Signal::STOP, Signal::INT] {
            assert_eq!(by(OTHER_USER, || kill_process(pid, signal)), Err(Errno::PERM));
        }
        assert_eq!(by(OTHER_USER, || test_kill_process(pid)), Err(Errno::PERM));
    }
    by(OTHER_USER, || join_the_overlay(&session));
    for (rank, number) in [(0, 1), (1, 2), (1, 3)] {
        assert_eq!(ask(rank, number), Some(Status::Done), "the owner is still served");
    }
    assert_eq!(session.nodes[0].logged("a link ended") + session.nodes[1].logged("a link ended"), 0);
}

/// Every user of the node can connect to the TCP port, but only the key opens a link.
fn join_the_overlay(session: &Session) {
    for rank in 0..2 {
        let address = session.address(rank);
        // The session's number is in the name of its directory; it isn't secret.
        for secrets in [Secrets { key: [0; 32], ..TRUE }, Secrets { key: [1; 32], session: SESSION.0, ..TRUE }] {
            assert!(shake_hands(address, &secrets).is_none());
        }
        assert_eq!(answer(address, b"GET / HTTP/1.1\r\n\r\n"), b"");
    }
    // More than the daemon has room for: it closes some of them and answers none.
    let streams: Vec<_> = (0..100).map(|_| connect(session.address(0))).collect();
    assert_eq!(rest(&streams[0]), b"");
}

#[test]
fn what_a_session_makes_is_its_users_alone() {
    let mut session = Session::prepare(1);
    session.start(1, |_| ());
    assert_eq!(session.ask(0, 0), Some(Status::Done));
    let mode = |path: &Path| fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777;
    let dir = &session.nodes[0].dir;
    assert_eq!(mode(dir.path()), 0o700);
    assert_eq!(mode(&dir.generation_dir()), 0o700);
    assert_eq!(mode(&dir.table()), 0o600);
    for socket in [dir.socket(), dir.control()] {
        assert_eq!(mode(&socket) & 0o077, 0, "{}", socket.display());
    }
}
