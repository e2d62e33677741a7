//! A RAM disk that is mounted nowhere: whoever has its descriptor, or comes to that in `/proc`, sees it, and it goes
//! with the last descriptor and the last file that is open.

use std::os::fd::{AsFd, OwnedFd};
use std::process::Stdio;

use anyhow::{Context, Result, anyhow, bail, ensure};
use headwater_supervisor::namespace::{Channel, Progress};
use rustix::io::Errno;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsconfig_set_string, fsmount, fsopen};

use super::make;
use crate::own;

/// Makes a disk of so many bytes; the descriptor of its root directory, which is this user's alone.
///
/// # Errors
/// What the kernel does not allow.
pub fn make(bytes: u64) -> Result<OwnedFd> {
    match make_here(bytes) {
        Ok(root) => Ok(root),
        Err(Errno::NOSYS) => bail!("this kernel mounts nothing apart from the tree (before Linux 5.2)"),
        Err(Errno::PERM) => make_elsewhere(bytes),
        Err(errno) => Err(errno).context("a RAM disk can't be made"),
    }
}

/// In a process with a user namespace of its own, in which it may.
fn make_elsewhere(bytes: u64) -> Result<OwnedFd> {
    let (channel, end) = Channel::pair()?;
    let mut command = own::again();
    command.args(["namespace", "--disk", &bytes.to_string()]).stdin(end).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().context("headwater can't start itself")?;
    // The child's end is the child's alone.
    drop(command);
    let heard = channel.receive::<Progress>();
    let _ = child.wait();
    match heard.context("the process that makes a RAM disk has ended")? {
        (Progress::Mounted, descriptors) => descriptors.into_iter().next().context("a RAM disk has no descriptor"),
        (Progress::Failed(why), _) => Err(anyhow!(why)),
        (Progress::Bound, _) => bail!("a RAM disk was not made"),
    }
}

/// `headwater namespace --disk`: makes it in a user namespace, and gives its descriptor to standard input.
///
/// # Errors
/// Nobody listens.
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
    // Bytes are what is bounded.
    set("nr_inodes", "0")?;
    set("mode", "0700")?;
    // Not each kernel has huge pages, by which files would take more than they have.
    let _ = set("huge", "never");
    fsconfig_create(context.as_fd())?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes)
}

/// Whether files on the disk can be run.
///
/// # Errors
/// It is without `exec`, as some systems have all that users mount.
pub fn check(root: &OwnedFd) -> Result<()> {
    let status = rustix::fs::fstatvfs(root)?;
    ensure!(!status.f_flag.contains(rustix::fs::StatVfsMountFlags::NOEXEC), "no library could be loaded from there");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::fd::AsRawFd;

    #[test]
    fn a_disk_is_seen_by_its_descriptor_alone_and_no_larger_than_asked() {
        let root = match make_here(1 << 20) {
            Ok(root) => root,
            Err(errno) => return println!("skipped: this process may not mount: {errno}"),
        };
        check(&root).unwrap();
        let way = format!("/proc/self/fd/{}", root.as_raw_fd());
        fs::create_dir_all(format!("{way}/s/n0")).unwrap();
        fs::write(format!("{way}/s/n0/f"), vec![1; 1 << 20]).unwrap();
        assert!(fs::write(format!("{way}/s/n0/g"), b"x").is_err());
        assert!(!fs::read_to_string("/proc/self/mountinfo").unwrap().contains(" headwater "));
        let open = fs::File::open(format!("{way}/s/n0/f")).unwrap();
        drop(root);
        assert_eq!(open.metadata().unwrap().len(), 1 << 20, "what is open stays");
    }
}
