//! A session on this machine: its directory, its lock and its secrets.
//!
//! `STORE/headwater-UID/SESSION/` holds all files of a session on this machine. This process and every daemon hold a
//! shared lock on its lock file: a session without a locked file is dead, and the next start removes it.
//! `STORE/headwater-UID` is locked while a session is made or removed, so no half-made session is taken for dead. If
//! another user has made that directory in a public place, one with a random name takes its place.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use headwater_daemon::{SOCKET_PATH_BYTES_MAX, SessionId, SessionKey};
use headwater_report::job::NodePart;
use headwater_store::layout::NodeDir;
use headwater_supervisor::remove_mounts_below;
use rustix::fs::{FileType, FlockOperation, Mode, OFlags, flock};

use crate::session::stale_mounts::remove_stale_mounts;

/// Retries to make a directory that is removed before it is locked.
const RETRIES_MAX: usize = 16;
/// Limit of attempts to start a node's daemon. Each has a directory of its own.
pub const NODES_TRIED_MAX: u32 = 4;

/// A session. Its directory on this machine is removed when it is dropped.
#[derive(Debug)]
pub struct Session {
    base: PathBuf,
    directory: PathBuf,
    lock: Option<[File; 2]>,
    /// The session's identity.
    pub id: SessionId,
    /// The key by which its daemons authenticate each other.
    pub key: SessionKey,
}

/// Returns the directory of this user's sessions below a store directory, unless another user has taken it.
fn base_directory(store: &Path) -> PathBuf {
    store.join(base_name())
}

fn base_name() -> String {
    format!("headwater-{}", rustix::process::getuid().as_raw())
}

/// Returns all directories of this user's sessions below a store directory.
pub fn base_directories(store: &Path) -> Vec<PathBuf> {
    let usual = [base_directory(store)].into_iter().filter(|base| is_own(base));
    usual.chain(evasive_bases(store)).collect()
}

/// Returns this user's directories with random names.
fn evasive_bases(store: &Path) -> impl Iterator<Item = PathBuf> {
    let start = base_name() + "-";
    let entries = fs::read_dir(store).into_iter().flatten().flatten();
    let named = entries.filter(move |entry| entry.file_name().as_bytes().starts_with(start.as_bytes()));
    named.map(|entry| entry.path()).filter(|path| is_own(path))
}

/// Returns a directory for sessions with a random name: an existing one, or a new path.
fn evasive_base(store: &Path) -> Result<PathBuf> {
    let known = evasive_bases(store).min();
    let new = || Ok(store.join(format!("{}-{:016x}", base_name(), u64::from_le_bytes(random()?))));
    known.map_or_else(new, Ok)
}

impl Session {
    /// Draws a session's identity and key.
    pub fn draw() -> Result<(SessionId, SessionKey)> {
        Ok((SessionId(u128::from_le_bytes(random()?)), SessionKey(random()?)))
    }

    /// Makes a session with `nodes` nodes below `store`, and removes dead sessions.
    pub fn create(store: &Path, nodes: u32) -> Result<Session> {
        let (id, key) = Session::draw()?;
        Session::make(store, nodes, id, key)?.context("a session of that name exists already; try again")
    }

    /// Makes this machine's directory of a session of several machines; `None` if it exists.
    pub fn join(store: &Path, id: SessionId, key: SessionKey) -> Result<Option<Session>> {
        Session::make(store, NODES_TRIED_MAX, id, key)
    }

    fn make(store: &Path, nodes: u32, id: SessionId, key: SessionKey) -> Result<Option<Session>> {
        let name = name_of(id);
        let lock_in = |base: PathBuf| -> Result<(PathBuf, OwnedFd)> {
            check_socket_paths(&base.join(&name), nodes)?;
            let locked = lock_base(&base)?;
            Ok((base, locked))
        };
        let base = base_directory(store);
        let (base, base_lock) = match lock_in(base.clone()) {
            Err(_) if is_anothers(&base) => lock_in(evasive_base(store)?)?,
            locked => locked?,
        };
        let directory = base.join(&name);
        sweep(&base, &base_lock);
        remove_stale_mounts();
        match rustix::fs::mkdirat(&base_lock, &name, Mode::RWXU) {
            Err(rustix::io::Errno::EXIST) => return Ok(None),
            made => made.with_context(|| format!("{} can't be made", directory.display()))?,
        }
        let lock = make_lock(&directory).inspect_err(|_| remove(&directory))?;
        Ok(Some(Session { base, directory, lock: Some(lock), id, key }))
    }

    /// Returns the session's name: 16 hexadecimal digits.
    pub fn name(&self) -> String {
        self.directory.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Returns its directory on this machine.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns the directory of all sessions of this user.
    pub fn base(&self) -> &Path {
        &self.base
    }

    /// Returns where the daemon of a node writes at its end what processes used.
    pub fn recorded_path(&self, node: u32) -> PathBuf {
        self.directory.join(format!("recorded-{node}"))
    }

    /// Returns what the daemon of a node has written there: lines of a closure.
    pub fn recorded(&self, node: u32) -> Vec<String> {
        let text = fs::read_to_string(self.recorded_path(node)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// Returns where the daemon of a node writes at its end what it did.
    pub fn part_path(&self, node: u32) -> PathBuf {
        self.directory.join(format!("part-{node}"))
    }

    /// Returns what the daemon of a node has written there, if it has.
    pub fn part(&self, node: u32) -> Option<NodePart> {
        serde_json::from_slice(&fs::read(self.part_path(node)).ok()?).ok()
    }

    /// Returns the lock file's path.
    pub fn lock_path(&self) -> PathBuf {
        self.directory.join("lock")
    }

    /// Returns the directory of the node with this number.
    pub fn node(&self, node: u32) -> NodeDir {
        NodeDir::new(self.directory.join(format!("n{node}")))
    }
}

impl Session {
    /// Leaves the session to its daemons. The last one removes it.
    pub fn detach(mut self) {
        drop(self.lock.take());
        std::mem::forget(self);
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let locked = lock_base(&self.base);
        remove(&self.directory);
        if locked.is_ok() {
            // Fails if another session exists.
            let _ = fs::remove_dir(&self.base);
        }
    }
}

/// Returns a session's name: 16 hexadecimal digits.
pub fn name_of(id: SessionId) -> String {
    format!("{:016x}", (id.0 >> 64) as u64)
}

/// Returns random bytes for keys and names.
///
/// # Errors
/// The kernel provides none.
pub fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    let mut filled = 0;
    while filled < N {
        filled += rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty())
            .context("the kernel provides no random numbers")?;
    }
    Ok(bytes)
}

fn check_socket_paths(directory: &Path, nodes: u32) -> Result<()> {
    let longest = NodeDir::new(directory.join(format!("n{}", nodes - 1))).supervisor();
    let excess = longest.as_os_str().len().saturating_sub(SOCKET_PATH_BYTES_MAX);
    ensure!(
        excess == 0,
        "the store's path is {excess} bytes too long for a socket ({}). Name a shorter one with --store",
        longest.display()
    );
    Ok(())
}

/// Locks the user's directory; makes it if needed, and checks that it is private.
fn lock_base(base: &Path) -> Result<OwnedFd> {
    for _ in 0..RETRIES_MAX {
        match rustix::fs::mkdir(base, Mode::RWXU) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => {}
            Err(e) => {
                let e = io::Error::from(e);
                bail!("{} can't be made: {e}. Name another directory with --store", base.display())
            }
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = match rustix::fs::open(base, flags, Mode::empty()) {
            Err(rustix::io::Errno::NOENT) => continue,
            opened => opened.with_context(|| format!("{} can't be opened", base.display()))?,
        };
        let status = rustix::fs::fstat(&opened)?;
        let private = status.st_uid == rustix::process::getuid().as_raw() && status.st_mode & 0o077 == 0;
        ensure!(
            private,
            "{} is not private to this user. Remove it, or name another directory with --store",
            base.display()
        );
        flock(&opened, FlockOperation::LockExclusive)?;
        // A session's end may have removed it before it was locked.
        if rustix::fs::lstat(base).is_ok_and(|now| (now.st_dev, now.st_ino) == (status.st_dev, status.st_ino)) {
            return Ok(opened);
        }
    }
    bail!("{} is removed again and again. Name another directory with --store", base.display())
}

/// Takes two shared locks: one of the lock file, and one of the directory, which makes systemd-tmpfiles keep it.
fn make_lock(directory: &Path) -> Result<[File; 2]> {
    let path = directory.join("lock");
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let lock = rustix::fs::open(&path, flags, Mode::RUSR | Mode::WUSR)
        .with_context(|| format!("{} can't be made", path.display()))?;
    let locks =
        [lock.into(), File::open(directory).with_context(|| format!("{} can't be opened", directory.display()))?];
    for lock in &locks {
        flock(lock, FlockOperation::LockShared).with_context(|| format!("{} can't be locked", path.display()))?;
    }
    Ok(locks)
}

/// Removes dead sessions. The base is locked, so none is half made.
fn sweep(base: &Path, _locked: &OwnedFd) -> Vec<PathBuf> {
    let dead: Vec<PathBuf> = sessions(base).filter(|session| is_dead(session)).collect();
    dead.iter().for_each(|session| remove(session));
    dead.into_iter().filter(|session| !session.exists()).collect()
}

/// Returns the directories of dead sessions of this user below `store`. A half-made one may be among them.
pub fn dead(store: &Path) -> Vec<PathBuf> {
    base_directories(store).iter().flat_map(|base| sessions(base)).filter(|session| is_dead(session)).collect()
}

/// Removes the dead sessions of this user below `store`; returns their directories.
pub fn remove_dead(store: &Path) -> Vec<PathBuf> {
    base_directories(store).iter().flat_map(|base| remove_dead_in(base)).collect()
}

fn remove_dead_in(base: &Path) -> Vec<PathBuf> {
    let Ok(locked) = lock_base(base) else { return Vec::new() };
    let removed = sweep(base, &locked);
    // Fails if a session exists.
    let _ = fs::remove_dir(base);
    removed
}

/// Returns the directories of live sessions of this user below `store`.
pub fn living(store: &Path) -> Vec<PathBuf> {
    base_directories(store).iter().flat_map(|base| sessions(base)).filter(|session| !is_dead(session)).collect()
}

/// Returns whether this is a private directory of this user.
fn is_own(base: &Path) -> bool {
    rustix::fs::lstat(base).is_ok_and(|status| {
        let is_directory = FileType::from_raw_mode(status.st_mode) == FileType::Directory;
        is_directory && status.st_uid == rustix::process::getuid().as_raw() && status.st_mode & 0o077 == 0
    })
}

/// Returns whether the path belongs to another user.
fn is_anothers(path: &Path) -> bool {
    rustix::fs::lstat(path).is_ok_and(|status| status.st_uid != rustix::process::getuid().as_raw())
}

fn sessions(base: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(base).into_iter().flatten().flatten();
    entries.filter(|entry| is_session_name(&entry.file_name())).map(|entry| entry.path())
}

/// Returns whether this has the form of a session's name.
pub fn is_session_name(name: &OsStr) -> bool {
    name.len() == 16 && name.as_bytes().iter().all(u8::is_ascii_hexdigit)
}

fn is_dead(session: &Path) -> bool {
    match File::open(session.join("lock")) {
        Ok(lock) => flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok(),
        Err(e) => e.kind() == io::ErrorKind::NotFound,
    }
}

/// Removes a tree. Mirrored directories in it may be read-only, and files may vanish meanwhile. Mounts in it are
/// unmounted first, since they must not be walked.
fn remove(directory: &Path) {
    let _ = remove_mounts_below(directory);
    if fs::remove_dir_all(directory).is_ok() || !directory.exists() {
        return;
    }
    make_writable(directory);
    let _ = fs::remove_dir_all(directory);
}

fn make_writable(directory: &Path) {
    let _ = rustix::fs::chmod(directory, Mode::RWXU);
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.flatten().filter(|e| e.file_type().is_ok_and(|t| t.is_dir())) {
        make_writable(&entry.path());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_session_leaves_nothing() {
        let store = tempfile::tempdir().unwrap();
        let first = Session::create(store.path(), 2).unwrap();
        let second = Session::create(store.path(), 1).unwrap();
        let read_only = first.node(0).root().join("bin");
        fs::create_dir_all(read_only.join("deep")).unwrap();
        fs::set_permissions(&read_only, fs::Permissions::from_mode(0o555)).unwrap();
        drop(first);
        assert!(second.lock_path().exists());
        drop(second);
        assert_eq!(fs::read_dir(store.path()).unwrap().count(), 0);
    }

    #[test]
    fn dead_sessions_are_swept_and_living_ones_are_not() {
        let store = tempfile::tempdir().unwrap();
        let living = Session::create(store.path(), 1).unwrap();
        let base = base_directory(store.path());
        for (name, lock) in [("00000000000000aa", true), ("00000000000000bb", false), ("not-a-session", true)] {
            fs::create_dir_all(base.join(name).join("n0/1/root")).unwrap();
            if lock {
                fs::write(base.join(name).join("lock"), "").unwrap();
            }
        }
        let next = Session::create(store.path(), 1).unwrap();
        let left = |name: &str| base.join(name).exists();
        assert!(left(&living.name()) && left(&next.name()) && left("not-a-session"));
        let mut names: Vec<PathBuf> = super::living(store.path());
        names.sort();
        let mut expected = [living.name(), next.name()].map(|name| base.join(name));
        expected.sort();
        assert_eq!(names, expected);
        assert!(!left("00000000000000aa") && !left("00000000000000bb"));
    }

    #[test]
    fn what_others_can_enter_is_refused() {
        let store = tempfile::tempdir().unwrap();
        let base = base_directory(store.path());
        fs::create_dir(&base).unwrap();
        fs::set_permissions(&base, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(Session::create(store.path(), 1).unwrap_err().to_string().contains("not private"));
    }

    #[test]
    fn a_link_in_place_of_the_directory_is_refused() {
        let store = tempfile::tempdir().unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(elsewhere.path(), base_directory(store.path())).unwrap();
        assert!(Session::create(store.path(), 1).is_err());
    }

    #[test]
    fn another_user_is_not_in_the_way() {
        if !rustix::process::geteuid().is_root() {
            return println!("skipped: only root can make directories of others");
        }
        for make in [|path: &Path| fs::create_dir(path), |path: &Path| std::os::unix::fs::symlink("/tmp", path)] {
            let store = tempfile::tempdir().unwrap();
            let taken = base_directory(store.path());
            make(&taken).unwrap();
            std::os::unix::fs::lchown(&taken, Some(7), Some(7)).unwrap();
            let first = Session::create(store.path(), 1).unwrap();
            let second = Session::create(store.path(), 1).unwrap();
            assert!(first.base() != taken && first.base() == second.base(), "{}", first.base().display());
            assert!(is_own(first.base()));
            assert_eq!(living(store.path()).len(), 2);
            fs::create_dir_all(first.base().join("00000000000000aa")).unwrap();
            assert_eq!(
                (dead(store.path()).len(), remove_dead(store.path()).len(), dead(store.path()).len()),
                (1, 1, 0)
            );
            drop((first, second));
            assert_eq!(fs::read_dir(store.path()).unwrap().count(), 1, "the other user's directory stays");
        }
    }

    #[test]
    fn long_paths_are_refused() {
        let store = Path::new("/tmp").join("x".repeat(100));
        assert!(Session::create(&store, 1).unwrap_err().to_string().contains("too long"));
    }
}
