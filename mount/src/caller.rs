//! Acting as the calling user.
//!
//! A daemon of an ordinary user serves that user alone and acts as itself. Root's daemon serves all users that the
//! kernel lets in. Files that they create must belong to them, count towards their quotas and obey the file server's
//! rules and those for set-user-ID files.

use std::cell::Cell;
use std::sync::OnceLock;

use headwater_fuse::Request;
use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::process::{Gid, Signal, Uid, getgid, getgroups, getuid, umask};
use rustix::thread::{UnshareFlags, set_thread_groups, set_thread_res_gid, set_thread_res_uid, unshare_unsafe};

/// Runs `work` on this thread as the caller, with all of its groups.
///
/// # Errors
/// EPERM if this process may not act for others; otherwise those of `work`.
pub(crate) fn as_caller<T>(request: &Request<'_>, work: impl FnOnce() -> Result<T, Errno>) -> Result<T, Errno> {
    let _acting = Acting::start(request, true)?;
    work()
}

/// As [`as_caller`], for files that are open already: groups don't matter.
pub(crate) fn as_writer<T>(request: &Request<'_>, work: impl FnOnce() -> Result<T, Errno>) -> Result<T, Errno> {
    let _acting = Acting::start(request, false)?;
    work()
}

/// As [`as_caller`], for new files: with the caller's umask.
pub(crate) fn as_maker<T>(
    request: &Request<'_>,
    mask: u32,
    work: impl FnOnce() -> Result<T, Errno>,
) -> Result<T, Errno> {
    own_mask()?;
    let own = umask(Mode::from_raw_mode(mask & 0o777));
    let result = as_caller(request, work);
    umask(own);
    result
}

/// Gives this thread its own umask, once.
fn own_mask() -> Result<(), Errno> {
    thread_local! {
        static HAS_MASK: Cell<bool> = const { Cell::new(false) };
    }
    if !HAS_MASK.get() {
        // SAFETY: the thread gets its own working directory, root and mask; descriptors stay shared.
        unsafe { unshare_unsafe(UnshareFlags::FS)? };
        HAS_MASK.set(true);
    }
    Ok(())
}

/// While it lives, this thread acts as another user.
struct Acting {
    has_groups: bool,
}

impl Acting {
    /// Switches to the caller. Returns `None` if this process acts as the caller already, or can't switch users.
    fn start(request: &Request<'_>, with_groups: bool) -> Result<Option<Acting>, Errno> {
        let (uid, gid) = (Uid::from_raw(request.uid), Gid::from_raw(request.gid));
        if !getuid().is_root() || (uid.is_root() && gid == own_gid()) {
            return Ok(None);
        }
        let acting = Acting { has_groups: with_groups };
        if with_groups {
            set_thread_groups(&groups_of(request).unwrap_or_default())?;
        }
        set_thread_res_gid(None, gid, None)?;
        set_thread_res_uid(None, uid, None)?;
        Ok(Some(acting))
    }
}

impl Drop for Acting {
    fn drop(&mut self) {
        let restored = set_thread_res_uid(None, Uid::ROOT, None)
            .and_then(|()| set_thread_res_gid(None, own_gid(), None))
            .and_then(|()| if self.has_groups { set_thread_groups(own_groups()) } else { Ok(()) });
        // Continuing as the wrong user would be worse than ending.
        assert_eq!(restored, Ok(()), "a thread could not become root again");
    }
}

fn own_gid() -> Gid {
    static GID: OnceLock<Gid> = OnceLock::new();
    *GID.get_or_init(getgid)
}

fn own_groups() -> &'static [Gid] {
    static GROUPS: OnceLock<Vec<Gid>> = OnceLock::new();
    GROUPS.get_or_init(|| getgroups().unwrap_or_default())
}

/// Returns the caller's supplementary groups; `None` if its process has ended or its PID is reused.
fn groups_of(request: &Request<'_>) -> Option<Vec<Gid>> {
    own_groups();
    if request.pid == 0 {
        return None;
    }
    let status = std::fs::read_to_string(format!("/proc/{}/status", request.pid)).ok()?;
    groups_in(&status, request.uid)
}

/// Returns true if a signal is about to end the thread `pid`: the kernel queues SIGKILL to each thread of such a
/// process. An ended thread counts as well.
pub(crate) fn is_dying(pid: u32) -> bool {
    // 0 is a thread of another PID namespace.
    pid != 0 && std::fs::read_to_string(format!("/proc/{pid}/status")).map_or(true, |status| takes_kill(&status))
}

fn takes_kill(status: &str) -> bool {
    let pending = status.lines().find_map(|line| line.strip_prefix("SigPnd:"));
    let pending = pending.and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok());
    pending.is_some_and(|signals| signals & 1 << (Signal::KILL.as_raw() - 1) != 0)
}

/// The groups in the text of `/proc/PID/status`, if the process acts as `uid` on files; see proc(5).
fn groups_in(status: &str, uid: u32) -> Option<Vec<Gid>> {
    let numbers = |key: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(key))?;
        Some(line.split_whitespace().filter_map(|number| number.parse::<u32>().ok()))
    };
    let fsuid = numbers("Uid:")?.nth(3)?;
    (fsuid == uid).then_some(())?;
    Some(numbers("Groups:")?.map(Gid::from_raw).collect())
}

/// Runs `work` as the daemon; if the daemon may not, as the caller, because some file systems squash root. The kernel
/// has checked the caller's permission.
pub(crate) fn as_either<T>(request: &Request<'_>, work: impl Fn() -> Result<T, Errno>) -> Result<T, Errno> {
    match work() {
        Err(Errno::ACCESS | Errno::PERM) => as_caller(request, work),
        result => result,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATUS: &str = "Name:\tcat\nUid:\t0\t1000\t0\t1000\nGid:\t100\t100\t100\t100\nGroups:\t4 24 1000 \n";

    #[test]
    fn groups_are_those_of_the_acting_user() {
        let groups = groups_in(STATUS, 1000).unwrap();
        assert_eq!(groups, [4, 24, 1000].map(Gid::from_raw));
        assert_eq!(groups_in(STATUS, 0), None);
        assert_eq!(groups_in("Uid:\t1\t1\t1\t1\nGroups:\t\n", 1), Some(Vec::new()));
        assert_eq!(groups_in("", 1), None);
    }

    #[test]
    fn a_killed_thread_is_dying() {
        assert!(takes_kill("SigPnd:\t0000000000000100\nShdPnd:\t0000000000000000\n"));
        assert!(!takes_kill("SigPnd:\t0000000000000000\nShdPnd:\t0000000000010000\n"));
        assert!(!is_dying(std::process::id()) && !is_dying(0));
        assert!(is_dying(u32::MAX));
    }

    #[test]
    fn a_thread_acts_as_another_user_and_returns() {
        if !getuid().is_root() {
            eprintln!("skipped: only root can act as others");
            return;
        }
        let operation = headwater_fuse::Operation::Destroy;
        let request =
            Request { unique: 1, node: headwater_fuse::NodeId::ROOT, uid: 65534, gid: 65534, pid: 0, operation };
        let dir = tempfile::TempDir::new().unwrap();
        let path = dir.path().join("secret");
        std::fs::write(&path, b"x").unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        let attempt = || std::fs::read(&path).map_err(|error| Errno::from_io_error(&error).unwrap());
        assert_eq!(as_caller(&request, attempt), Err(Errno::ACCESS));
        assert_eq!(attempt(), Ok(b"x".to_vec()));
    }
}
