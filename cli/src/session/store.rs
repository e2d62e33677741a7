//! The location and limit of this machine's stores.
//!
//! A session's files lie in a shared directory, mostly `/dev/shm`. Its content, which is almost all of it, lies on a
//! RAM disk of its own, unless the user names a directory or the kernel refuses the disk.

use std::env;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail, ensure};
use headwater_closure::scope::network_file_system;
use headwater_daemon::memory_free;
use rustix::fs::{Access, StatVfsMountFlags};

use crate::namespace::disk;
use crate::namespace::keeper::Keeper;

/// `f_type` of tmpfs and ramfs.
const MEMORY: [u64; 2] = [0x0102_1994, 0x8584_58f6];
/// The default limit of a node's store, in bytes.
const STORE_BYTES_MAX: u64 = 4 << 30;
/// The divisor of free memory for the default limit of all stores together.
const FREE_SHARE: u64 = 2;

/// The location of stores.
#[derive(Debug)]
pub struct Store {
    /// The directory, without links.
    pub directory: PathBuf,
    /// The limit of one node's store, in bytes.
    pub bytes_max: u64,
    /// Whether it is in memory, not on a disk.
    pub is_in_memory: bool,
    /// The RAM disk for content.
    pub disk: Option<Disk>,
    /// The reason why there is no RAM disk, if the user named no directory.
    pub why_shared: Option<String>,
}

/// A RAM disk for content.
#[derive(Debug)]
pub struct Disk {
    root: OwnedFd,
    keeper: Option<Keeper>,
}

/// The readers of content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadBy {
    /// The daemon alone.
    Daemon,
    /// Processes, by its path.
    Processes,
}

/// As [`choose`], with a RAM disk for content if the user names no directory and the kernel allows it.
pub fn open(named: Option<&Path>, bytes_max: Option<u64>, nodes: u32, read_by: ReadBy) -> Result<Store> {
    let mut store = choose(named, bytes_max, nodes)?;
    if named.is_some() {
        return Ok(store);
    }
    let free = memory_free().unwrap_or_else(|| free_bytes(&store.directory));
    let of_memory = bytes_max.unwrap_or_else(|| share(free, nodes));
    match Disk::make(of_memory.saturating_mul(u64::from(nodes)), read_by) {
        Ok(disk) => (store.disk, store.bytes_max, store.is_in_memory) = (Some(disk), of_memory, true),
        Err(error) => store.why_shared = Some(format!("{error:#}")),
    }
    Ok(store)
}

impl Disk {
    fn make(bytes: u64, read_by: ReadBy) -> Result<Disk> {
        let root = disk::make(bytes)?;
        let keeper = match read_by {
            ReadBy::Daemon => None,
            ReadBy::Processes => {
                disk::check(&root)?;
                Some(Keeper::start(root.as_fd())?)
            }
        };
        Ok(Disk { root, keeper })
    }

    /// Returns the descriptor of its root directory, for a daemon to inherit.
    pub fn root(&self) -> BorrowedFd<'_> {
        self.root.as_fd()
    }

    /// Returns the configuration for a daemon.
    pub fn config(&self) -> headwater_daemon::Disk {
        let shown_at = self.keeper.as_ref().map(|keeper| keeper.root().clone());
        headwater_daemon::Disk { fd: self.root.as_raw_fd(), shown_at }
    }
}

impl Store {
    /// Returns the location of content as text.
    pub fn location(&self) -> String {
        match (&self.disk, &self.why_shared) {
            (Some(_), _) => "on a RAM disk of its own".into(),
            (None, Some(why)) => format!("in {}, which other programs use, too: {why}", self.directory.display()),
            (None, None) => format!("in {}", self.directory.display()),
        }
    }
}

/// Returns the user's directory, or the first usable one in memory, or the first usable one on a local disk.
pub fn choose(named: Option<&Path>, bytes_max: Option<u64>, nodes: u32) -> Result<Store> {
    let directory = match named {
        Some(directory) => usable(directory).map_err(|error| anyhow!("--store: {error:#}; name another directory"))?,
        None => default_directory()?,
    };
    let bytes_max = bytes_max.unwrap_or_else(|| share(free_bytes(&directory), nodes));
    let is_in_memory = is_memory(&directory);
    Ok(Store { directory, bytes_max, is_in_memory, disk: None, why_shared: None })
}

/// Returns a node's default limit.
fn share(free: u64, nodes: u32) -> u64 {
    (free / FREE_SHARE / u64::from(nodes)).clamp(1, STORE_BYTES_MAX)
}

fn free_bytes(directory: &Path) -> u64 {
    rustix::fs::statvfs(directory).map_or(0, |s| s.f_bavail.saturating_mul(s.f_frsize))
}

/// Returns the directories where stores can be: the user's, or the default ones.
pub fn candidates(named: Option<&Path>) -> Vec<PathBuf> {
    if let Some(named) = named {
        return vec![named.to_owned()];
    }
    let variables = ["XDG_RUNTIME_DIR", "TMPDIR"].into_iter().filter_map(env::var_os).map(PathBuf::from);
    [PathBuf::from("/dev/shm")].into_iter().chain(variables).chain([PathBuf::from("/tmp")]).collect()
}

fn default_directory() -> Result<PathBuf> {
    let (usable, failures): (Vec<_>, Vec<_>) = candidates(None).iter().map(|c| usable(c)).partition(Result::is_ok);
    let usable: Vec<PathBuf> =
        usable.into_iter().flatten().filter(|directory| network_file_system(directory).is_none()).collect();
    let in_memory = usable.iter().find(|directory| is_memory(directory));
    match in_memory.or(usable.first()) {
        Some(directory) => Ok(directory.clone()),
        None => {
            let failures = failures.into_iter().filter_map(Result::err).map(|e| format!("{e:#}"));
            bail!(
                "no directory is usable as a store ({}). Name one with --store",
                failures.collect::<Vec<_>>().join("; ")
            )
        }
    }
}

/// Returns the directory without links, if files can be made there and libraries loaded from there.
fn usable(directory: &Path) -> Result<PathBuf> {
    let shown = directory.display();
    let canonical = directory.canonicalize().with_context(|| format!("{shown} can't be used"))?;
    ensure!(canonical.is_dir(), "{shown} is not a directory");
    rustix::fs::access(&canonical, Access::WRITE_OK | Access::EXEC_OK)
        .with_context(|| format!("{shown} can't be written to"))?;
    let status = rustix::fs::statvfs(&canonical).with_context(|| format!("{shown} can't be used"))?;
    ensure!(
        !status.f_flag.contains(StatVfsMountFlags::NOEXEC),
        "{shown} is mounted noexec, so no library could be loaded from there"
    );
    Ok(canonical)
}

fn is_memory(directory: &Path) -> bool {
    rustix::fs::statfs(directory).is_ok_and(|s| MEMORY.contains(&(s.f_type as u64 & 0xffff_ffff)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_users_directory_and_size_are_taken() {
        let directory = tempfile::tempdir().unwrap();
        let chosen = choose(Some(directory.path()), Some(7), 3).unwrap();
        assert_eq!((chosen.directory, chosen.bytes_max), (directory.path().canonicalize().unwrap(), 7));
        let whole = choose(Some(directory.path()), None, 1).unwrap().bytes_max;
        assert!(whole > 0 && choose(Some(directory.path()), None, 1000).unwrap().bytes_max <= whole);
    }

    #[test]
    fn what_will_not_do_is_refused() {
        assert!(choose(Some(Path::new("/nonexistent")), None, 1).is_err());
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = format!("{:#}", choose(Some(file.path()), None, 1).unwrap_err());
        assert!(error.contains("is not a directory"), "{error}");
    }
}
