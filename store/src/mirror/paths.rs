//! Paths in a mirror, and access to its directories.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path as FsPath, PathBuf};

use headwater_abi::Path;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

/// The flags for opening a directory on the way to a file.
pub(super) const DIRECTORY: OFlags =
    OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Returns true if the longest entry that contains `path` includes it.
pub fn in_scope(scope: &[(bool, Path)], path: &Path) -> bool {
    let entries = scope.iter().filter(|(_, directory)| path.is_within(directory));
    entries.max_by_key(|(_, directory)| directory.as_bytes().len()).is_some_and(|(included, _)| *included)
}

/// Opens the directory at `path` below `root`, creating it if necessary. Follows no link.
pub(super) fn descend(root: &OwnedFd, path: &Path) -> io::Result<OwnedFd> {
    let mut directory = root.try_clone()?;
    for name in path.components() {
        directory = step(&directory, name)?;
    }
    Ok(directory)
}

/// Opens the directory `name` in `directory`, creating it if necessary.
pub(super) fn step(directory: impl AsFd + Copy, name: &[u8]) -> io::Result<OwnedFd> {
    if name == b".." {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    match rustix::fs::openat(directory, name, DIRECTORY, Mode::empty()) {
        Err(Errno::NOENT) => {}
        result => return Ok(result?),
    }
    match rustix::fs::mkdirat(directory, name, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(rustix::fs::openat(directory, name, DIRECTORY, Mode::empty())?)
}

/// Returns the path of `path` in the mirror below `prefix`.
pub(super) fn below(prefix: &FsPath, path: &Path) -> PathBuf {
    let mut file = prefix.as_os_str().to_owned();
    file.push(OsStr::from_bytes(path.as_bytes()));
    file.into()
}

/// Returns the prefix of a domain's mirror.
pub(super) fn of_domain(prefix: &FsPath, domain: u32) -> PathBuf {
    let mut name = prefix.as_os_str().to_owned();
    name.push(domain.to_string());
    name.into()
}
