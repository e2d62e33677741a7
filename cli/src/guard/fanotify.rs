//! Notifications of opens on a whole file system (fanotify(7)).
//!
//! They have the files' identities, and the kernel opens nothing. Of file systems without an identity (`f_fsid` is 0 on
//! NFS and FUSE), they have descriptors: the kernel opens the file when a notification is read. So only a few are read
//! of these, and the others are counted.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{AtFlags, FileType, StatxFlags, statx};
use rustix::io::Errno;

/// Events that are read by one system call, in bytes; an event has about 60.
const BUFFER_BYTES: usize = 64 << 10;
/// Events with descriptors that are read by one system call.
const DESCRIPTORS_MAX: usize = 8;
/// Bytes of an event before its records.
const METADATA_BYTES: usize = size_of::<libc::fanotify_event_metadata>();
/// From a record's beginning to the file's handle: the record's head, and the file system's identity.
const HANDLE_OFFSET: usize = 4 + 8;
/// A handle's two numbers, before its bytes.
const HANDLE_HEAD_BYTES: usize = 8;
/// The longest handle, with its head.
const HANDLE_BYTES_MAX: usize = HANDLE_HEAD_BYTES + libc::MAX_HANDLE_SZ as usize;

/// How notifications name files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Naming {
    /// By identities.
    Identity,
    /// By descriptors: each notification that is read opens its file.
    Descriptor,
}

/// A group: its marks, and the queue of their events. The queue has the kernel's limit.
#[derive(Debug)]
pub struct Group {
    descriptor: OwnedFd,
    naming: Naming,
    buffer: Vec<u8>,
}

/// An open of a file or directory.
#[derive(Debug)]
pub struct Opened<'a> {
    /// The process that opened it; 0 if it is in no PID namespace that this process sees.
    pub pid: i32,
    /// The file's handle: `struct file_handle`; empty if there is a descriptor.
    handle: &'a [u8],
    descriptor: Option<OwnedFd>,
}

/// What the queue had.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drained {
    /// Opens.
    pub opens: u64,
    /// Opens of files that could not be opened for the notification.
    pub lost: u64,
    /// Whether the queue was full, so that opens are missing.
    pub has_overflowed: bool,
}

impl Group {
    /// Makes a group without marks.
    ///
    /// # Errors
    /// EPERM without CAP_SYS_ADMIN, EINVAL for identities before Linux 5.1, ENOSYS without fanotify.
    pub fn new(naming: Naming) -> io::Result<Group> {
        let (kind, bytes) = match naming {
            Naming::Identity => (libc::FAN_REPORT_FID, BUFFER_BYTES),
            Naming::Descriptor => (0, DESCRIPTORS_MAX * METADATA_BYTES),
        };
        let flags = libc::FAN_CLASS_NOTIF | kind | libc::FAN_CLOEXEC | libc::FAN_NONBLOCK;
        let of_files = libc::O_RDONLY | libc::O_LARGEFILE | libc::O_CLOEXEC | libc::O_NONBLOCK | libc::O_NOATIME;
        // SAFETY: it reads nothing but its arguments.
        let made = unsafe { libc::fanotify_init(flags, of_files as u32) };
        if made < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call above made the descriptor, and nothing else has it.
        let descriptor = unsafe { OwnedFd::from_raw_fd(made) };
        Ok(Group { descriptor, naming, buffer: vec![0; bytes] })
    }

    /// Returns how its notifications name files.
    pub fn naming(&self) -> Naming {
        self.naming
    }

    /// Has opens on the file system at `point` reported from now on, by whichever path they are made.
    ///
    /// # Errors
    /// The mount point is gone, or the file system's files have no identities.
    pub fn mark(&self, point: &Path) -> io::Result<()> {
        let point = CString::new(point.as_os_str().as_bytes())?;
        let flags = libc::FAN_MARK_ADD | libc::FAN_MARK_FILESYSTEM | libc::FAN_MARK_ONLYDIR;
        let mask = libc::FAN_OPEN | libc::FAN_ONDIR;
        // SAFETY: the path is a C string that outlives the call.
        let done =
            unsafe { libc::fanotify_mark(self.descriptor.as_raw_fd(), flags, mask, libc::AT_FDCWD, point.as_ptr()) };
        if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Has nothing reported from now on. What is queued stays. No path is resolved.
    pub fn unmark(&self) {
        let flags = libc::FAN_MARK_FLUSH | libc::FAN_MARK_FILESYSTEM;
        // SAFETY: the path is a constant C string.
        unsafe { libc::fanotify_mark(self.descriptor.as_raw_fd(), flags, 0, libc::AT_FDCWD, c"/".as_ptr()) };
    }

    /// Waits until something is queued. Returns whether it is, or the time has passed.
    pub fn wait(&self, timeout: Timespec) -> bool {
        let mut waited = [PollFd::new(&self.descriptor, PollFlags::IN)];
        poll(&mut waited, Some(&timeout)).is_ok_and(|count| count > 0)
    }

    /// Returns how many notifications with descriptors are queued.
    pub fn queued(&self) -> u64 {
        let bytes = rustix::io::ioctl_fionread(&self.descriptor).unwrap_or_default();
        bytes / METADATA_BYTES as u64
    }

    /// Takes what is queued, about `opens_max` notifications at most, and calls `each` with each open.
    pub fn drain(&mut self, opens_max: u64, mut each: impl FnMut(Opened<'_>)) -> Drained {
        let mut drained = Drained::default();
        while drained.opens + drained.lost < opens_max {
            match rustix::io::read(&self.descriptor, &mut self.buffer) {
                Ok(0) | Err(Errno::AGAIN) => break,
                Ok(bytes) => parse(&self.buffer[..bytes], &mut drained, &mut each),
                Err(Errno::INTR) => {}
                // Root can't open it, or it is gone.
                Err(_) => drained.lost += 1,
            }
        }
        drained
    }
}

/// Calls `each` with each open in `bytes`, and counts them.
fn parse(mut bytes: &[u8], drained: &mut Drained, each: &mut impl FnMut(Opened<'_>)) {
    while let Some((event, rest)) = event_of(bytes) {
        bytes = rest;
        let mask = number(event, 8, u64::from_ne_bytes);
        if mask.is_some_and(|mask| mask & libc::FAN_Q_OVERFLOW != 0) {
            drained.has_overflowed = true;
            continue;
        }
        let pid = number(event, 20, i32::from_ne_bytes).unwrap_or_default();
        let descriptor = number(event, 16, i32::from_ne_bytes).filter(|number| *number >= 0);
        // SAFETY: the kernel made the descriptor for this event, and each event is parsed once.
        let descriptor = descriptor.map(|number| unsafe { OwnedFd::from_raw_fd(number) });
        let metadata_bytes = number(event, 6, u16::from_ne_bytes).map_or(METADATA_BYTES, usize::from);
        let handle = event.get(metadata_bytes + HANDLE_OFFSET..).unwrap_or_default();
        drained.opens += 1;
        each(Opened { pid, handle, descriptor });
    }
}

/// Returns the first event, and what follows it.
fn event_of(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let length = number(bytes, 0, u32::from_ne_bytes)? as usize;
    let is_known = bytes.get(4) == Some(&libc::FANOTIFY_METADATA_VERSION);
    (length >= METADATA_BYTES && is_known).then(|| bytes.split_at_checked(length)).flatten()
}

fn number<const N: usize, T>(bytes: &[u8], at: usize, read: fn([u8; N]) -> T) -> Option<T> {
    Some(read(bytes.get(at..at + N)?.try_into().ok()?))
}

impl Opened<'_> {
    /// Returns the present path of the file's directory, or of the directory that was opened. `mount` is a directory of
    /// its file system, which identities need. No file is opened, and nothing is asked that the kernel does not know.
    pub fn directory(&self, mount: Option<&File>) -> Option<PathBuf> {
        let resolved = if self.descriptor.is_none() { Some(self.resolve(mount?)?) } else { None };
        let opened = self.descriptor.as_ref().or(resolved.as_ref())?;
        let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
        let mode = statx(opened, c"", flags, StatxFlags::TYPE).ok()?.stx_mode;
        let path = std::fs::read_link(format!("/proc/self/fd/{}", opened.as_raw_fd())).ok()?;
        let is_directory = FileType::from_raw_mode(mode.into()) == FileType::Directory;
        if is_directory { Some(path) } else { path.parent().map(Path::to_owned) }
    }

    /// Returns a descriptor of the file with this handle.
    fn resolve(&self, mount: &File) -> Option<OwnedFd> {
        let bytes = HANDLE_HEAD_BYTES + number(self.handle, 0, u32::from_ne_bytes)? as usize;
        let handle = self.handle.get(..bytes).filter(|_| bytes <= HANDLE_BYTES_MAX)?;
        // The kernel's structure is aligned like its numbers.
        let mut aligned = [0u32; HANDLE_BYTES_MAX.div_ceil(4)];
        for (word, part) in aligned.iter_mut().zip(handle.chunks(4)) {
            let mut full = [0; 4];
            full[..part.len()].copy_from_slice(part);
            *word = u32::from_ne_bytes(full);
        }
        // SAFETY: the array begins with the number of bytes that follow the head, and has them.
        let opened = unsafe {
            libc::open_by_handle_at(
                mount.as_raw_fd(),
                aligned.as_mut_ptr().cast(),
                libc::O_PATH | libc::O_NOFOLLOW | libc::O_CLOEXEC,
            )
        };
        if opened < 0 {
            return None;
        }
        // SAFETY: the call above made the descriptor, and nothing else has it.
        Some(unsafe { OwnedFd::from_raw_fd(opened) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns an event with a handle of `handle` bytes.
    fn event(mask: u64, pid: i32, handle: &[u8]) -> Vec<u8> {
        let length = (METADATA_BYTES + HANDLE_OFFSET + HANDLE_HEAD_BYTES + handle.len()) as u32;
        let head = [&length.to_ne_bytes()[..], &[libc::FANOTIFY_METADATA_VERSION, 0], &24u16.to_ne_bytes()].concat();
        let metadata = [&head[..], &mask.to_ne_bytes(), &(-1i32).to_ne_bytes(), &pid.to_ne_bytes()].concat();
        let head = [&(handle.len() as u32).to_ne_bytes()[..], &1i32.to_ne_bytes()].concat();
        [&metadata[..], &[1, 0, 24, 0], &[7; 8], &head, handle].concat()
    }

    fn parsed(bytes: &[u8]) -> (Drained, Vec<(i32, usize)>) {
        let (mut drained, mut opens) = (Drained::default(), Vec::new());
        parse(bytes, &mut drained, &mut |opened| opens.push((opened.pid, opened.handle.len())));
        (drained, opens)
    }

    #[test]
    fn events_are_read_one_by_one() {
        let bytes = [event(libc::FAN_OPEN, 12, &[1; 8]), event(libc::FAN_OPEN, 13, &[2; 12])].concat();
        let expected = Drained { opens: 2, ..Drained::default() };
        assert_eq!(parsed(&bytes), (expected, vec![(12, 16), (13, 20)]));
        let bytes = [event(libc::FAN_Q_OVERFLOW, 0, &[]), event(libc::FAN_OPEN, 13, &[])].concat();
        assert_eq!(parsed(&bytes), (Drained { opens: 1, lost: 0, has_overflowed: true }, vec![(13, 8)]));
    }

    #[test]
    fn cut_events_end_the_reading() {
        let bytes = event(libc::FAN_OPEN, 12, &[1; 8]);
        for length in 0..bytes.len() {
            assert_eq!(parsed(&bytes[..length]).1, [], "{length}");
        }
        let mut endless = bytes.clone();
        endless[..4].fill(0);
        assert_eq!(parsed(&endless).1, []);
    }
}
