//! A RAM disk that is mounted nowhere. Processes reach it by a descriptor, their own or another's in `/proc`. The
//! kernel frees it with the last descriptor and open file.

use std::os::fd::{AsFd, OwnedFd};
use std::process::Stdio;

use anyhow::{Context, Result, anyhow, bail, ensure};
use headwater_supervisor::namespace::{Channel, Progress};
use rustix::io::Errno;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsconfig_set_string, fsmount, fsopen};

use super::make;
use crate::self_exec;

/// Makes a disk of `bytes`; returns the descriptor of its private root directory.
///
/// # Errors
/// The kernel refuses.
pub fn make(bytes: u64) -> Result<OwnedFd> {
    match make_here(bytes) {
        Ok(root) => Ok(root),
        Err(Errno::NOSYS) => bail!("this kernel can't make a detached mount (before Linux 5.2)"),
        Err(Errno::PERM) => make_elsewhere(bytes),
        Err(errno) => Err(errno).context("a RAM disk can't be made"),
    }
}

/// Makes it in another process, which has a user namespace.
fn make_elsewhere(bytes: u64) -> Result<OwnedFd> {
    let (channel, end) = Channel::pair()?;
    let mut command = self_exec::command();
    command.args(["namespace", "--disk", &bytes.to_string()]).stdin(end).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().context("headwater can't start itself")?;
    // Closes this process's copy of the child's end.
    drop(command);
    let answer = channel.receive::<Progress>();
    let _ = child.wait();
    match answer.context("the process that makes a RAM disk has ended")? {
        (Progress::Mounted, descriptors) => descriptors.into_iter().next().context("a RAM disk has no descriptor"),
        (Progress::Failed(why), _) => Err(anyhow!(why)),
        (Progress::Bound, _) => bail!("a RAM disk was not made"),
    }
}

/// `headwater namespace --disk`: makes it in a user namespace, and sends its descriptor over standard input.
///
/// # Errors
/// The receiver is gone.
pub fn answer(bytes: u64) -> Result<()> {
    let starter = Channel::of_stdin()?;
    let made = make::user_namespace().and_then(|_| {
        make::mount_namespace()?;
        make_here(bytes).context("a RAM disk can't be made")
    });
    match made {
        Ok(root) => starter.send(&Progress::Mounted, &[root.as_fd()])?,
        Err(error) => starter.send(&Progress::Failed(format!("{error:#}")), &[])?,
    }
    Ok(())
}

fn make_here(bytes: u64) -> Result<OwnedFd, Errno> {
    let context = fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    let set = |key: &str, value: &str| fsconfig_set_string(context.as_fd(), key, value);
    set("source", "headwater")?;
    set("size", &bytes.to_string())?;
    // Only bytes are limited.
    set("nr_inodes", "0")?;
    set("mode", "0700")?;
    // Huge pages would make small files larger. Not every kernel has the option.
    let _ = set("huge", "never");
    fsconfig_create(context.as_fd())?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes)
}

/// Checks that libraries can be loaded from the disk.
///
/// # Errors
/// The mount is noexec, as on some systems for all mounts of users.
pub fn check(root: &OwnedFd) -> Result<()> {
    let status = rustix::fs::fstatvfs(root)?;
    ensure!(
        !status.f_flag.contains(rustix::fs::StatVfsMountFlags::NOEXEC),
        "the kernel mounts it noexec, so no library could be loaded from it"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::fd::AsRawFd;

    #[test]
    fn a_disk_is_seen_by_its_descriptor_alone_and_has_its_size() {
        let root = match make_here(1 << 20) {
            Ok(root) => root,
            Err(errno) => return println!("skipped: this process may not mount: {errno}"),
        };
        check(&root).unwrap();
        let path = format!("/proc/self/fd/{}", root.as_raw_fd());
        fs::create_dir_all(format!("{path}/s/n0")).unwrap();
        fs::write(format!("{path}/s/n0/f"), vec![1; 1 << 20]).unwrap();
        assert!(fs::write(format!("{path}/s/n0/g"), b"x").is_err());
        assert!(!fs::read_to_string("/proc/self/mountinfo").unwrap().contains(" headwater "));
        let open = fs::File::open(format!("{path}/s/n0/f")).unwrap();
        drop(root);
        assert_eq!(open.metadata().unwrap().len(), 1 << 20, "what is open stays");
    }
}
