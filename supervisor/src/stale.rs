//! Stale mounts: their server is dead, every access fails, and they block their mount points.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use headwater_fuse::mount::{Mounted, mounted, unmount};
use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;

use crate::abandoned::is_abandoned;
use crate::config::SUBTYPE;

/// How long a mount may take to fail as dead. A living one may take longer to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(500);

/// Shows that a mount's supervisor lives to processes that know only the mount's source: an abstract socket, which
/// exists while it is open.
#[derive(Debug)]
pub(crate) struct SignOfLife {
    _socket: UnixDatagram,
}

impl SignOfLife {
    /// Creates it for the mount with this source.
    pub(crate) fn bind(source: &str) -> io::Result<SignOfLife> {
        let _socket = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(source)?)?;
        Ok(SignOfLife { _socket })
    }
}

/// Returns this user's Headwater mounts in this mount namespace that have no server. Mounts with a living supervisor
/// are not accessed, because their server may be slow.
///
/// # Errors
/// The mount table can't be read.
pub fn stale_mounts() -> io::Result<Vec<PathBuf>> {
    let all = mounted(SUBTYPE)?;
    let stale = all.into_iter().filter(is_stale).map(|mounted| mounted.mount_point);
    // Mounts on top of others are last in the table and must be removed first.
    let mut stale: Vec<PathBuf> = stale.collect();
    stale.reverse();
    Ok(stale)
}

/// Removes a stale mount. Open files on it keep failing.
///
/// # Errors
/// The kernel's or `fusermount3`'s.
pub fn remove_stale(mount_point: &Path) -> io::Result<()> {
    // Forced, so that requests that hang in the kernel fail first.
    match rustix::mount::unmount(mount_point, UnmountFlags::FORCE | UnmountFlags::DETACH | UnmountFlags::NOFOLLOW) {
        Err(Errno::PERM) => unmount(mount_point, true),
        // It has been unmounted by another process.
        Err(Errno::INVAL | Errno::NOENT) => Ok(()),
        result => Ok(result?),
    }
}

/// Removes the mounts of Headwater at or below `directory`, served or not.
///
/// # Errors
/// One of them can't be removed.
pub fn remove_mounts_below(directory: &Path) -> io::Result<()> {
    let all = mounted(SUBTYPE)?.into_iter().map(|mounted| mounted.mount_point);
    let below: Vec<PathBuf> = all.filter(|mount_point| mount_point.starts_with(directory)).collect();
    below.iter().rev().try_for_each(|mount_point| unmount(mount_point, true))
}

/// Removes a stale mount at `mount_point`, and refuses any other one.
pub(crate) fn clear(mount_point: &Path) -> Result<(), String> {
    let shown = mount_point.display();
    let Ok(all) = mounted(SUBTYPE) else { return Ok(()) };
    let here = all.iter().filter(|mounted| mounted.mount_point == mount_point);
    for mounted in here {
        if !is_stale(mounted) {
            return Err(format!(
                "{shown} shows the files of another session ({}). Unmount it with `headwater unmount {shown}`, or name another directory",
                mounted.source
            ));
        }
        remove_stale(mount_point).map_err(|error| {
            format!(
                "{shown} holds a mount whose daemon is dead, and it can't be removed: {error}. Try `umount -l {shown}`"
            )
        })?;
    }
    Ok(())
}

/// Returns true if this mount's server is dead. Without its supervisor the daemon may still live and be slow, so
/// another thread accesses the root, bypassing the kernel's cached attributes.
fn is_stale(mounted: &Mounted) -> bool {
    let lives = || UnixDatagram::unbound()?.connect_addr(&SocketAddr::from_abstract_name(&mounted.source)?);
    if lives().is_ok() {
        return false;
    }
    let (sender, receiver) = mpsc::channel();
    let mount_point = mounted.mount_point.clone();
    let probe = move || {
        let answer =
            statx(CWD, &mount_point, AtFlags::SYMLINK_NOFOLLOW | AtFlags::STATX_FORCE_SYNC, StatxFlags::BASIC_STATS);
        // The receiver is gone after the timeout.
        let _ = sender.send(matches!(answer, Err(Errno::NOTCONN)));
    };
    let probing = thread::Builder::new().name("probe".into()).spawn(probe);
    let answer = probing.ok().and_then(|_| receiver.recv_timeout(ANSWER_TIMEOUT).ok());
    answer.unwrap_or_else(|| is_abandoned(&mounted.mount_point))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sign_of_life_spares_a_mount() {
        let source = format!("{SUBTYPE}:test-{}/n0", std::process::id());
        let nowhere = Mounted {
            mount_point: "/nonexistent".into(),
            source: source.clone(),
            subtype: SUBTYPE.into(),
            root: "/".into(),
        };
        let sign = SignOfLife::bind(&source).unwrap();
        assert!(SignOfLife::bind(&source).is_err() && !is_stale(&nowhere));
        drop(sign);
        assert!(SignOfLife::bind(&source).is_ok());
    }
}
