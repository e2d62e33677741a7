//! Notifications of opens on a whole file system (fanotify(7)), by the identities of files: the kernel opens nothing.

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
/// Bytes of an event before its records.
const METADATA_BYTES: usize = size_of::<libc::fanotify_event_metadata>();
/// From a record's beginning to the file's handle: the record's head, and the file system's identity.
const HANDLE_OFFSET: usize = 4 + 8;
/// A handle's two numbers, before its bytes.
const HANDLE_HEAD_BYTES: usize = 8;
/// The longest handle, with its head.
const HANDLE_BYTES_MAX: usize = HANDLE_HEAD_BYTES + libc::MAX_HANDLE_SZ as usize;

/// A group: its marks, and the queue of their events. The queue has the kernel's limit.
#[derive(Debug)]
pub struct Group {
    descriptor: OwnedFd,
    buffer: Vec<u8>,
}

/// An open of a file or directory.
#[derive(Clone, Copy, Debug)]
pub struct Opened<'a> {
    /// The process that opened it; 0 if it is in no PID namespace that this process sees.
    pub pid: i32,
    /// The file's handle: `struct file_handle`.
    handle: &'a [u8],
}

/// What the queue had.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drained {
    /// Opens.
    pub opens: u64,
    /// Whether the queue was full, so that opens are missing.
    pub has_overflowed: bool,
}

impl Group {
    /// Makes a group without marks.
    ///
    /// # Errors
    /// EPERM without CAP_SYS_ADMIN, EINVAL before Linux 5.1, ENOSYS without fanotify.
    pub fn new() -> io::Result<Group> {
        let flags = libc::FAN_CLASS_NOTIF | libc::FAN_REPORT_FID | libc::FAN_CLOEXEC | libc::FAN_NONBLOCK;
        // SAFETY: it reads nothing but its arguments.
        let made = unsafe { libc::fanotify_init(flags, libc::O_RDONLY as u32) };
        if made < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call above made the descriptor, and nothing else has it.
        let descriptor = unsafe { OwnedFd::from_raw_fd(made) };
        Ok(Group { descriptor, buffer: vec![0; BUFFER_BYTES] })
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

    /// Takes what is queued, and calls `each` with each open.
    pub fn drain(&mut self, mut each: impl FnMut(Opened<'_>)) -> Drained {
        let mut drained = Drained::default();
        loop {
            match rustix::io::read(&self.descriptor, &mut self.buffer) {
                Ok(0) | Err(Errno::AGAIN) => return drained,
                Ok(bytes) => parse(&self.buffer[..bytes], &mut drained, &mut each),
                Err(Errno::INTR) => {}
                // An event that can't be delivered is lost.
                Err(_) => {
                    drained.has_overflowed = true;
                    return drained;
                }
            }
        }
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
        let metadata_bytes = number(event, 6, u16::from_ne_bytes).map_or(METADATA_BYTES, usize::from);
        let handle = event.get(metadata_bytes + HANDLE_OFFSET..).unwrap_or_default();
        drained.opens += 1;
        each(Opened { pid, handle });
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
    /// its file system. No file is opened, and nothing is asked that the kernel does not know.
    pub fn directory(&self, mount: &File) -> Option<PathBuf> {
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
        let opened = unsafe { OwnedFd::from_raw_fd(opened) };
        let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
        let mode = statx(&opened, c"", flags, StatxFlags::TYPE).ok()?.stx_mode;
        let path = std::fs::read_link(format!("/proc/self/fd/{}", opened.as_raw_fd())).ok()?;
        let is_directory = FileType::from_raw_mode(mode.into()) == FileType::Directory;
        if is_directory { Some(path) } else { path.parent().map(Path::to_owned) }
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
        let expected = Drained { opens: 2, has_overflowed: false };
        assert_eq!(parsed(&bytes), (expected, vec![(12, 16), (13, 20)]));
        let bytes = [event(libc::FAN_Q_OVERFLOW, 0, &[]), event(libc::FAN_OPEN, 13, &[])].concat();
        assert_eq!(parsed(&bytes), (Drained { opens: 1, has_overflowed: true }, vec![(13, 8)]));
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
