//! Makes a node's namespaces: a mount namespace, and a user namespace if mounting needs one.

use std::fs;
use std::os::fd::{AsFd, OwnedFd};

use anyhow::{Context, Result, anyhow, ensure};
use headwater_fuse::Device;
use headwater_fuse::mount::{Options, READ_AHEAD_KIB, mount, set_read_ahead};
use headwater_supervisor::namespace::Task;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, StatxFlags};
use rustix::mount::{MountPropagationFlags, mount_change};
use rustix::process::{getegid, geteuid};
use rustix::thread::{
    CapabilitySet, LinkNameSpaceType, UnshareFlags, capabilities, move_into_link_name_space, unshare_unsafe,
};

use super::obstacles;

/// The subtype in mount tables.
pub const SUBTYPE: &str = "headwater";

/// The namespaces of a node, with the view mounted in them.
#[derive(Debug)]
pub struct Namespaces {
    /// The view's connection.
    pub device: Device,
    /// The mount namespace.
    pub mount: OwnedFd,
    /// The user namespace, if mounting needed one.
    pub user: Option<OwnedFd>,
}

/// Moves this process into a new mount namespace, before that into a new user namespace if the task
/// wants one, and mounts a FUSE file system there. Neither is visible outside.
///
/// The user namespace maps only this process's user and group, to themselves.
///
/// # Errors
/// The kernel refuses; the error names the next step.
pub fn make(task: &Task) -> Result<Namespaces> {
    let made = make_as_allowed(task);
    // A trial covers /proc, which must not be read then.
    if made.is_err() && task.has_user_namespace && obstacles::user_namespaces_forbidden() {
        // A user namespace may be created and have no rights.
        return made.with_context(|| format!("user namespaces can't be used: {}", obstacles::user_namespaces()));
    }
    made
}

fn make_as_allowed(task: &Task) -> Result<Namespaces> {
    let user = task.has_user_namespace.then(user_namespace).transpose()?;
    let mount_namespace = mount_namespace()?;
    let device = Device::open().map_err(|e| anyhow!(obstacles::device(&e)))?;
    let options = Options {
        source: task.source.clone(),
        subtype: SUBTYPE.into(),
        is_read_only: false,
        allows_others: task.allows_others,
        read_bytes_max: task.read_bytes_max,
    };
    mount(&device, &task.view, &options)
        .with_context(|| format!("a FUSE file system can't be mounted at {}", task.view.display()))?;
    // Only root may set it.
    let _ = set_read_ahead(&task.view, READ_AHEAD_KIB);
    Ok(Namespaces { device, mount: mount_namespace, user })
}

/// Returns whether this process may mount in a new mount namespace without a user namespace.
pub fn may_mount() -> bool {
    capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::SYS_ADMIN))
}

pub(super) fn mount_namespace() -> Result<OwnedFd> {
    // SAFETY: the descriptor table stays shared.
    unsafe { unshare_unsafe(UnshareFlags::NEWNS) }
        .context("the kernel refuses a mount namespace to this process. A container's profile may forbid it")?;
    // Later mounts outside are visible here, and mounts here are not visible outside.
    mount_change("/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)
        .context("the mounts of the new namespace can't be made its own")?;
    let namespace = open("/proc/self/ns/mnt")?;
    check_root(&namespace)?;
    Ok(namespace)
}

/// Enters a new user namespace, in which this process has all capabilities, and only its user and group are mapped.
pub(super) fn user_namespace() -> Result<OwnedFd> {
    let (uid, gid) = (geteuid(), getegid());
    // SAFETY: the descriptor table stays shared.
    unsafe { unshare_unsafe(UnshareFlags::NEWUSER) }.map_err(|errno| anyhow!(obstacles::user_namespace(errno)))?;
    let write = |name: &str, text: String| {
        let path = format!("/proc/self/{name}");
        fs::write(&path, text).with_context(|| format!("{path} can't be written: {}", obstacles::user_namespaces()))
    };
    // An unprivileged process may map its group only once it can no longer drop groups.
    write("setgroups", "deny".into())?;
    write("uid_map", format!("{0} {0} 1", uid.as_raw()))?;
    write("gid_map", format!("{0} {0} 1", gid.as_raw()))?;
    open("/proc/self/ns/user")
}

/// Checks that this process's root directory is the namespace's. In a `chroot`, entering the namespace would change it.
fn check_root(mount_namespace: &OwnedFd) -> Result<()> {
    let root = || rustix::fs::statx(CWD, "/", AtFlags::empty(), StatxFlags::INO | StatxFlags::MNT_ID);
    let identity = |s: rustix::fs::Statx| (s.stx_mnt_id, s.stx_dev_major, s.stx_dev_minor, s.stx_ino);
    let before = root().map(identity).context("the root directory can't be examined")?;
    move_into_link_name_space(mount_namespace.as_fd(), Some(LinkNameSpaceType::Mount))
        .context("the new mount namespace can't be entered")?;
    let after = root().map(identity).context("the root directory can't be examined")?;
    ensure!(before == after, "this process has another root directory than the system (chroot)");
    Ok(())
}

fn open(path: &str) -> Result<OwnedFd> {
    rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
        .with_context(|| format!("{path} can't be opened"))
}
