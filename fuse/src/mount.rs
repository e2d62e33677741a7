//! Mounting and unmounting.

use std::ffi::{CString, OsString};
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags, open, statx};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use rustix::process::{getgid, getuid};

use crate::Device;

/// The kernel's read-ahead where it can be set, in KiB (its default is 128). Reading and mapping a big file is then a
/// third faster. A large Python import sends a quarter fewer requests, and reads a third more; beyond this only the
/// waste grows.
pub const READ_AHEAD_KIB: u32 = 512;

/// The options of a mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The source that the mount table shows.
    pub source: String,
    /// The type's suffix: `fuse.SUBTYPE`.
    pub subtype: String,
    /// Writing is refused.
    pub is_read_only: bool,
    /// Users other than the mounting one have access (as far as the files' modes allow).
    pub allows_others: bool,
    /// The largest READ, in bytes.
    pub read_bytes_max: u32,
}

/// One FUSE mount in `/proc/self/mountinfo`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields' names are the documentation")]
pub struct Mounted {
    pub mount_point: PathBuf,
    pub source: String,
    pub subtype: String,
    /// The root of the mount within the file system; `/` unless it was bound.
    pub root: PathBuf,
}

/// Mounts at `mount_point` with `device`, which was opened for it in this user namespace. Always `nosuid`,
/// `nodev` and `default_permissions`.
///
/// # Errors
/// The kernel's; EPERM if only `fusermount3` may mount: see [`mount_by_helper`].
pub fn mount(device: &Device, mount_point: &Path, options: &Options) -> io::Result<()> {
    let mut flags = MountFlags::NOSUID | MountFlags::NODEV;
    flags.set(MountFlags::RDONLY, options.is_read_only);
    let (fd, uid, gid) = (device.as_fd().as_raw_fd(), getuid().as_raw(), getgid().as_raw());
    let mut data = format!(
        "fd={fd},rootmode=40000,user_id={uid},group_id={gid},default_permissions,max_read={}",
        options.read_bytes_max
    );
    if options.allows_others {
        data.push_str(",allow_other");
    }
    let file_system = format!("fuse.{}", options.subtype);
    Ok(rustix::mount::mount(&options.source, mount_point, file_system, flags, &*CString::new(data)?)?)
}

/// Mounts by the set-user-ID program `fusermount3`, for ordinary users. Returns the device.
///
/// # Errors
/// The program is missing, or refuses; then its message.
pub fn mount_by_helper(mount_point: &Path, options: &Options) -> io::Result<Device> {
    // Its end of the socket is its standard input: so no other child can inherit it.
    let (ours, theirs) = UnixStream::pair()?;
    let escape = |text: &str| text.replace('\\', "\\\\").replace(',', "\\,");
    let mut list = format!(
        "fsname={},subtype={},nosuid,nodev,default_permissions,max_read={}",
        escape(&options.source),
        escape(&options.subtype),
        options.read_bytes_max
    );
    list.push_str(if options.is_read_only { ",ro" } else { ",rw" });
    if options.allows_others {
        list.push_str(",allow_other");
    }
    let mut command = helper();
    command.env("_FUSE_COMMFD", "0").stdin(OwnedFd::from(theirs)).arg("-o").arg(list).arg("--").arg(mount_point);
    let child = command.spawn().map_err(missing_helper)?;
    // Our copy of its end is closed with the command, so that the wait ends if it dies.
    drop(command);
    let received = receive_fd(&ours);
    let output = child.wait_with_output()?;
    match received? {
        Some(fd) if output.status.success() => Ok(Device::from_fd(fd)),
        _ => Err(refusal(&output)),
    }
}

/// Unmounts, by `fusermount3` if this user may not. `lazily`: the mount vanishes from the tree at once and
/// ends with its last user.
///
/// # Errors
/// EBUSY if it is in use and `lazily` is false.
pub fn unmount(mount_point: &Path, lazily: bool) -> io::Result<()> {
    let mut flags = UnmountFlags::NOFOLLOW;
    flags.set(UnmountFlags::DETACH, lazily);
    match rustix::mount::unmount(mount_point, flags) {
        Err(Errno::PERM) => unmount_by_helper(mount_point, lazily),
        result => Ok(result?),
    }
}

/// Sets the kernel's read-ahead for files of the file system mounted at `mount_point`. Only root may.
///
/// # Errors
/// EACCES for other users; those of finding the file system.
pub fn set_read_ahead(mount_point: &Path, kib: u32) -> io::Result<()> {
    let (major, minor) = device_of(mount_point)?;
    std::fs::write(format!("/sys/class/bdi/{major}:{minor}/read_ahead_kb"), kib.to_string())
}

/// Returns the device, major and minor, of the file system mounted at `mount_point`. The kernel sends the server no
/// request for this, which may not be running yet.
///
/// # Errors
/// Those of finding the file system.
pub fn device_of(mount_point: &Path) -> io::Result<(u32, u32)> {
    let root = open(mount_point, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let status = statx(&root, c"", AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC, StatxFlags::empty())?;
    Ok((status.stx_dev_major, status.stx_dev_minor))
}

/// Returns the FUSE mounts of this mount namespace with this subtype.
///
/// # Errors
/// `/proc` can't be read.
pub fn mounted(subtype: &str) -> io::Result<Vec<Mounted>> {
    let text = std::fs::read("/proc/self/mountinfo")?;
    let lines = text.split(|&byte| byte == b'\n');
    Ok(lines.filter_map(parse).filter(|mounted| mounted.subtype == subtype).collect())
}

fn unmount_by_helper(mount_point: &Path, lazily: bool) -> io::Result<()> {
    let mut command = helper();
    command.stdin(Stdio::null()).arg(if lazily { "-uz" } else { "-u" }).arg("--").arg(mount_point);
    let output = command.output().map_err(missing_helper)?;
    match output.status.success() {
        true => Ok(()),
        false if output.stderr.windows(4).any(|word| word == b"busy") => Err(Errno::BUSY.into()),
        false => Err(refusal(&output)),
    }
}

fn helper() -> Command {
    let mut command = Command::new("fusermount3");
    command.env("LC_ALL", "C").stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

fn missing_helper(error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("fusermount3 can't be run ({error}): install the package fuse3"))
}

fn refusal(output: &Output) -> io::Error {
    let message = String::from_utf8_lossy(&output.stderr);
    let message = message.trim().trim_start_matches("fusermount3: ");
    io::Error::other(format!("fusermount3 refused ({}): {message}", output.status))
}

/// Returns the descriptor that arrives over a socket; none if the socket closes before.
fn receive_fd(socket: &UnixStream) -> io::Result<Option<OwnedFd>> {
    let mut byte = [0];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [IoSliceMut::new(&mut byte)];
    loop {
        match recvmsg(socket, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC) {
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
            Ok(_) => break,
        }
    }
    let fds = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(fds) => Some(fds),
        _ => None,
    });
    Ok(fds.flatten().next())
}

/// Parses one line of `mountinfo`: proc_pid_mountinfo(5).
fn parse(line: &[u8]) -> Option<Mounted> {
    let mut fields = line.split(|&byte| byte == b' ');
    let root = fields.nth(3)?;
    let mount_point = fields.next()?;
    fields.find(|field| *field == b"-")?;
    let subtype = fields.next()?.strip_prefix(b"fuse.")?;
    let source = fields.next()?;
    let path = |field: &[u8]| PathBuf::from(OsString::from_vec(unescape(field)));
    let text = |field: &[u8]| String::from_utf8_lossy(&unescape(field)).into_owned();
    Some(Mounted { mount_point: path(mount_point), source: text(source), subtype: text(subtype), root: path(root) })
}

/// Undoes the kernel's `\NNN` for blanks and backslashes in a field of `mountinfo`.
pub fn unescape(field: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&first, after)) = rest.split_first() {
        let digits = after.get(..3).filter(|digits| first == b'\\' && digits.iter().all(|d| (b'0'..=b'7').contains(d)));
        bytes.push(digits.map_or(first, |digits| digits.iter().fold(0, |value, digit| value << 3 | (digit - b'0'))));
        rest = digits.map_or(after, |_| &after[3..]);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mountinfo_is_parsed() {
        let line =
            b"77 29 0:52 /sw/a\\040b /mnt/x\\134y\\012 ro,nosuid shared:9 master:2 - fuse.hw /l\\011t ro,user_id=0";
        let mounted = Mounted {
            mount_point: "/mnt/x\\y\n".into(),
            source: "/l\tt".into(),
            subtype: "hw".into(),
            root: "/sw/a b".into(),
        };
        assert_eq!(parse(line), Some(mounted));
        let bare = b"77 29 0:52 / /m rw - fuse.s source rw";
        assert_eq!(parse(bare).unwrap().mount_point, Path::new("/m"));
        for other in [&b"77 29 0:52 / /m rw - tmpfs none rw"[..], b"77 29 0:52 / /m rw - fuse.s", b"", b"1 2 3 4"] {
            assert_eq!(parse(other), None);
        }
    }

    #[test]
    fn escapes_are_octal_and_nothing_else() {
        assert_eq!(unescape(b"a\\040b"), b"a b");
        assert_eq!(unescape(b"\\1348\\9\\12"), b"\\8\\9\\12");
        assert_eq!(unescape(b"\\777"), [0xff]);
    }
}
