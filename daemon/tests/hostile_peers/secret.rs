//! The key is only in the memory of processes that need it, and other users have no access to a session's
//! files on a node.

use std::fs;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use headwater_abi::client::Status;
use headwater_daemon::SessionKey;
use headwater_fuse::init::Opening;
use headwater_supervisor::{MountVia, SupervisorConfig, Via};
use rustix::process::{Pid, Signal, kill_process};

use crate::process::Session;
use crate::support::eventually;

/// Returns a key that nothing else on this machine has, without zeros.
fn new_key() -> [u8; 32] {
    let mut key = [0; 32];
    fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut key)).unwrap();
    key.map(|byte| byte.max(1))
}

/// Returns the notations of one half of a key.
fn forms(key: [u8; 32]) -> Vec<Vec<u8>> {
    let half = &key[..16];
    let hexadecimal: String = half.iter().map(|byte| format!("{byte:02x}")).collect();
    let numbers: Vec<String> = half.iter().map(u8::to_string).collect();
    let spaced = numbers.join(", ");
    [half.to_vec(), hexadecimal.to_uppercase().into(), hexadecimal.into(), numbers.join(",").into(), spaced.into()]
        .into()
}

fn holds(content: &[u8], forms: &[Vec<u8>]) -> bool {
    // Much of a table is empty.
    let starts = content.iter().enumerate().filter(|(_, byte)| **byte != 0).map(|(at, _)| &content[at..]);
    starts.into_iter().any(|rest| forms.iter().any(|form| rest.starts_with(form)))
}

/// Lists everything at and below `path`, but not other mounts.
fn everything(path: &Path) -> Vec<PathBuf> {
    let (mut found, mut todo) = (Vec::new(), vec![path.to_path_buf()]);
    let device = fs::metadata(path).unwrap().dev();
    while let Some(path) = todo.pop() {
        let metadata = fs::symlink_metadata(&path).unwrap();
        if metadata.is_dir() && metadata.dev() == device {
            todo.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
        found.push(path);
    }
    found
}

/// Lists files, command lines and environments that contain the key.
fn where_it_is(session: &Session, forms: &[Vec<u8>]) -> Vec<PathBuf> {
    let mut places = everything(session.cluster.dir.path());
    let processes = fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path());
    for process in processes.filter(|path| path.join("cmdline").exists()) {
        places.extend(["cmdline", "environ"].map(|name| process.join(name)));
    }
    // Processes end meanwhile, sockets are no files, and not every user may read everything.
    let may_be_read =
        |path: &PathBuf| path.starts_with("/proc") || fs::symlink_metadata(path).is_ok_and(|m| m.is_file());
    places.retain(|path| may_be_read(path) && fs::read(path).is_ok_and(|content| holds(&content, forms)));
    places
}

/// Lists the files of the session's directory that another user could open.
fn open_to_others(session: &Session) -> Vec<PathBuf> {
    let (mut open, mut todo) = (Vec::new(), vec![session.dir()]);
    while let Some(directory) = todo.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let metadata = fs::symlink_metadata(&path).unwrap();
            if metadata.is_symlink() || metadata.permissions().mode() & 0o077 == 0 {
                continue;
            }
            open.push(path.clone());
            if metadata.is_dir() {
                todo.push(path);
            }
        }
    }
    // The tests create it themselves.
    open.retain(|path| !path.ends_with("session/lock"));
    open
}

fn check(session: &Session, key: [u8; 32]) {
    let forms = forms(key);
    assert_eq!(where_it_is(session, &forms), Vec::<PathBuf>::new(), "the key is there");
    assert_eq!(open_to_others(session), Vec::<PathBuf>::new(), "others have access");
    // The search must be able to find a key.
    let planted: Vec<PathBuf> = (0..forms.len()).map(|number| session.dir().join(format!("planted{number}"))).collect();
    for (path, form) in planted.iter().zip(&forms) {
        fs::write(path, [b"x", &form[..], b"y"].concat()).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o640)).unwrap();
    }
    for mut found in [where_it_is(session, &forms), open_to_others(session)] {
        found.sort();
        assert_eq!(found, planted);
    }
    planted.iter().for_each(|path| fs::remove_file(path).unwrap());
}

#[test]
fn the_key_is_in_no_file_command_or_environment() {
    let mut session = Session::prepare(2);
    let key = new_key();
    session.start(2, |config| config.key = SessionKey(key));
    assert_eq!(session.ask(1, 0), Some(Status::Done));
    check(&session, key);
}

#[test]
fn the_key_is_not_seen_with_supervisors_either() {
    let mut session = Session::prepare(1);
    let key = new_key();
    let mount_point = session.cluster.dir.path().join("mounted");
    fs::create_dir(&mount_point).unwrap();
    if !rustix::process::geteuid().is_root() || fs::File::open("/dev/fuse").is_err() {
        return println!("skipped: mounting needs root and /dev/fuse");
    }
    let root = session.cluster.shared("").to_str().unwrap().trim_end_matches('/').to_owned();
    session.start_supervisor(|mut daemon| {
        daemon.key = SessionKey(key);
        let via = MountVia {
            mount_point: mount_point.clone(),
            root,
            hidden: Vec::new(),
            allows_others: false,
            is_beside_audit: false,
            is_own_directory: false,
        };
        SupervisorConfig { daemon, via: Via::Mount(via), opening: Opening::None, workers: 2 }
    });
    assert_eq!(fs::read(mount_point.join("f7")).unwrap(), b"7");
    check(&session, key);
    // A successor receives it in the same way.
    let daemons = || {
        let tasks = fs::read_dir(format!("/proc/{}/task", session.nodes[0].id())).unwrap();
        let of_task = tasks.filter_map(|task| fs::read_to_string(task.unwrap().path().join("children")).ok());
        of_task.flat_map(|text| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>()).collect::<Vec<_>>()
    };
    let first = daemons();
    assert_eq!(first.len(), 1);
    kill_process(Pid::from_raw(first[0].parse().unwrap()).unwrap(), Signal::KILL).unwrap();
    eventually("a successor", || daemons().len() == 1 && daemons() != first);
    assert_eq!(fs::read(mount_point.join("f8")).unwrap(), b"8");
    check(&session, key);
}
