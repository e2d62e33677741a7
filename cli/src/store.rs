//! Where the stores of this machine's nodes are, and how much they may hold.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use headwater_closure::scope::network_file_system;
use rustix::fs::{Access, StatVfsMountFlags};

/// `f_type` of tmpfs and ramfs.
const MEMORY: [u64; 2] = [0x0102_1994, 0x8584_58f6];
/// The most that a node's store holds unless the user says otherwise, in bytes.
const STORE_BYTES_MAX: u64 = 4 << 30;

/// A place for stores.
#[derive(Debug)]
pub struct Store {
    /// The directory, without links.
    pub directory: PathBuf,
    /// The most that one node's store may hold.
    pub bytes_max: u64,
    /// Whether it is in memory, not on a disk.
    pub is_in_memory: bool,
}

/// The directory that the user names, or the first in memory that will do, or else the first on a
/// local disk.
pub fn choose(named: Option<&Path>, bytes_max: Option<u64>, nodes: u32) -> Result<Store> {
    let directory = match named {
        Some(directory) => usable(directory).context("the store can't be there")?,
        None => default_directory()?,
    };
    let free = rustix::fs::statvfs(&directory).map(|s| s.f_bavail.saturating_mul(s.f_frsize)).unwrap_or(0);
    let share = (free / 2 / u64::from(nodes)).clamp(1, STORE_BYTES_MAX);
    let is_in_memory = is_memory(&directory);
    Ok(Store { directory, bytes_max: bytes_max.unwrap_or(share), is_in_memory })
}

/// Where stores can be: in the directory that the user names, or in one of several.
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
            bail!("no directory will do as a store ({})", failures.collect::<Vec<_>>().join("; "))
        }
    }
}

/// The directory without links, if files can be made there and libraries loaded from there.
fn usable(directory: &Path) -> Result<PathBuf> {
    let shown = directory.display();
    let canonical = directory.canonicalize().with_context(|| format!("{shown} can't be used"))?;
    ensure!(canonical.is_dir(), "{shown} is not a directory");
    rustix::fs::access(&canonical, Access::WRITE_OK | Access::EXEC_OK)
        .with_context(|| format!("{shown} can't be written to"))?;
    let status = rustix::fs::statvfs(&canonical).with_context(|| format!("{shown} can't be used"))?;
    ensure!(
        !status.f_flag.contains(StatVfsMountFlags::NOEXEC),
        "{shown} is mounted noexec, so no library could be loaded from there. Name another directory with --store"
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
