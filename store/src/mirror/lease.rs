//! Detects whether a stored file is open or mapped.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// Takes a write lease on `file`, which ends when `file` is closed. The kernel grants it only if no other descriptor or
/// mapping of the file exists. Meanwhile, processes that open the file wait.
///
/// The kernel announces a waiting process by SIGIO, which the daemon ignores. Fails with `EAGAIN`
/// ([`io::ErrorKind::WouldBlock`]) if the file is in use.
pub fn take(file: &File) -> io::Result<()> {
    // SAFETY: fcntl with F_SETLEASE takes an integer and touches no memory of this process.
    let result = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, libc::F_WRLCK) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Returns true if another process has this file open or mapped.
pub fn is_in_use(file: &std::path::Path) -> io::Result<bool> {
    match take(&File::open(file)?) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(true),
        result => result.map(|()| false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_in_use_is_not_leased() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        std::fs::write(&path, b"x").unwrap();
        let other = File::open(&path).unwrap();
        let mine = File::open(&path).unwrap();
        assert_eq!(take(&mine).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        drop(other);
        take(&mine).unwrap();
    }
}
