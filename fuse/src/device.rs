//! One descriptor of `/dev/fuse`.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::{Errno, read, writev};
use zerocopy::IntoBytes;

use crate::wire::{NotifyInvalEntry, NotifyInvalInode, NotifyPrune, NotifyStore, OutHeader, notify};
use crate::{NodeId, ioctl};

/// A descriptor of a connection, or one without a connection yet. A reply is written to the descriptor that
/// its request was read from, or to a duplicate of it.
///
/// A notification to the kernel (`invalidate_…`) may wait for a lock whose
/// holder waits for a reply; that wait can't be interrupted, not even by killing the process. So no thread
/// that replies may notify. If all repliers are killed then, only aborting the connection frees the notifying
/// thread.
#[derive(Debug)]
pub struct Device(OwnedFd);

/// Slices that a message has after its header, at most.
const PARTS_MAX: usize = 2;

#[allow(clippy::missing_errors_doc, reason = "those of the system calls")]
impl Device {
    /// Opens `/dev/fuse`, for a mount by this user namespace.
    pub fn open() -> io::Result<Device> {
        let fd = open("/dev/fuse", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Device(fd))
    }

    /// Makes a device of an inherited or received descriptor.
    pub fn from_fd(fd: OwnedFd) -> Device {
        Device(fd)
    }

    /// Returns a second descriptor of the same connection, with its own queue of read requests.
    pub fn clone_queue(&self) -> io::Result<Device> {
        let device = Device::open()?;
        device.join(self)?;
        Ok(device)
    }

    /// Makes this descriptor, just opened, one of `connection`'s connection.
    pub fn join(&self, connection: &Device) -> io::Result<()> {
        Ok(ioctl::clone(self.as_fd(), connection.as_fd())?)
    }

    /// Returns false once its file system is gone.
    pub fn is_connected(&self) -> bool {
        let mut polled = [PollFd::new(self, PollFlags::empty())];
        let none = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        !matches!(poll(&mut polled, Some(&none)), Ok(1..) if polled[0].revents().contains(PollFlags::ERR))
    }

    /// Waits for a request and returns its size, 0 once the file system is unmounted. `buffer` has at least
    /// [`request_bytes_max`](Device::request_bytes_max) bytes.
    pub fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match read(self, &mut *buffer) {
                Ok(bytes) => return Ok(bytes),
                Err(Errno::NODEV) => return Ok(0),
                // ENOENT: the request was interrupted before it was read.
                Err(Errno::NOENT | Errno::INTR) => {}
                Err(Errno::AGAIN) => self.wait()?,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Returns the size of a buffer for requests whose writes have at most `transfer_bytes_max` bytes.
    pub fn request_bytes_max(transfer_bytes_max: u32) -> usize {
        (transfer_bytes_max as usize).max(8 << 10) + 4096
    }

    /// Makes the kernel resend what was read and not answered, by any descriptor of this connection. EINVAL
    /// before Linux 6.9.
    pub fn resend(&self) -> io::Result<()> {
        self.notify(notify::RESEND, &[])
    }

    /// Makes the kernel drop a node's cached attributes and pages from `offset` on (`bytes` 0: to the end;
    /// offset -1: attributes alone). An unknown node is not an error.
    pub fn invalidate_node(&self, node: NodeId, offset: i64, bytes: i64) -> io::Result<()> {
        let what = NotifyInvalInode { ino: node.0, off: offset, len: bytes };
        known_or_not(self.notify(notify::INVAL_INODE, &[what.as_bytes()]))
    }

    /// Makes the kernel take a file to be at least so long. Its pages stay as they are. An unknown node is not an error.
    pub fn lengthen(&self, node: NodeId, size: u64) -> io::Result<()> {
        let Some(last) = size.checked_sub(1) else { return Ok(()) };
        let what = NotifyStore { nodeid: node.0, offset: last, size: 1, padding: 0 };
        let len = (size_of::<OutHeader>() + size_of::<NotifyStore>() + 1) as u32;
        let header = OutHeader { len, error: notify::STORE, unique: 0 };
        let part = |bytes: &[u8]| libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
        // The kernel notes the length and then fails to read the byte. One that was read from the file could take the
        // place of what a process has written meanwhile.
        let nothing = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 1 };
        let parts = [part(header.as_bytes()), part(what.as_bytes()), nothing];
        // SAFETY: the kernel only reads, and finds nothing at the null pointer.
        let written = unsafe { libc::writev(self.0.as_raw_fd(), parts.as_ptr(), parts.len() as i32) };
        let error = io::Error::last_os_error();
        let is_noted = written >= 0 || error.raw_os_error() == Some(Errno::FAULT.raw_os_error());
        known_or_not(if is_noted { Ok(()) } else { Err(error) })
    }

    /// Makes the kernel drop a cached name. `expire`: the next use looks it up again, but present users
    /// retain it (needs HAS_EXPIRE_ONLY). A thread that answers a request about the directory must not call
    /// this. An unknown name is not an error.
    pub fn invalidate_name(&self, directory: NodeId, name: &[u8], expire: bool) -> io::Result<()> {
        let flags = if expire { notify::EXPIRE_ONLY } else { 0 };
        let what = NotifyInvalEntry { parent: directory.0, namelen: name.len() as u32, flags };
        // The kernel expects the NUL, but does not count it.
        let name = [name, b"\0"].concat();
        known_or_not(self.notify(notify::INVAL_ENTRY, &[what.as_bytes(), &name]))
    }

    /// Makes the kernel look up every name again before its next use. EINVAL before protocol 7.44.
    pub fn expire_all_names(&self) -> io::Result<()> {
        self.notify(notify::INC_EPOCH, &[])
    }

    /// Makes the kernel drop the unused ones of these nodes with their names, for which it then sends FORGET.
    /// EINVAL before protocol 7.45.
    pub fn prune(&self, nodes: &[NodeId]) -> io::Result<()> {
        let count = u32::try_from(nodes.len()).map_err(|_| Errno::TOOBIG)?;
        let numbers: Vec<u64> = nodes.iter().map(|node| node.0).collect();
        let what = NotifyPrune { count, ..NotifyPrune::default() };
        self.notify(notify::PRUNE, &[what.as_bytes(), numbers.as_bytes()])
    }

    /// Registers a backing file and returns its number. Needs CAP_SYS_ADMIN.
    pub fn open_backing(&self, file: BorrowedFd<'_>) -> io::Result<u32> {
        Ok(ioctl::backing_open(self.as_fd(), file)?)
    }

    /// Undoes [`Device::open_backing`].
    pub fn close_backing(&self, number: u32) -> io::Result<()> {
        Ok(ioctl::backing_close(self.as_fd(), number)?)
    }

    /// Writes a message: a header and at most [`PARTS_MAX`] parts.
    pub(crate) fn send(&self, unique: u64, error: i32, parts: &[&[u8]]) -> io::Result<()> {
        let bytes = size_of::<OutHeader>() + parts.iter().map(|part| part.len()).sum::<usize>();
        let len = u32::try_from(bytes).map_err(|_| Errno::TOOBIG)?;
        let header = OutHeader { len, error, unique };
        let mut slices = [IoSlice::new(&[]); PARTS_MAX + 1];
        slices[0] = IoSlice::new(header.as_bytes());
        for (slice, part) in slices[1..].iter_mut().zip(parts) {
            *slice = IoSlice::new(part);
        }
        loop {
            match writev(self, &slices[..=parts.len()]) {
                Err(Errno::INTR) => {}
                result => return result.map(drop).map_err(io::Error::from),
            }
        }
    }

    fn notify(&self, code: i32, parts: &[&[u8]]) -> io::Result<()> {
        self.send(0, code, parts)
    }

    fn wait(&self) -> io::Result<()> {
        match poll(&mut [PollFd::new(self, PollFlags::IN)], None) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

impl AsFd for Device {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Accepts the error for what the kernel has not cached.
fn known_or_not(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.raw_os_error() == Some(Errno::NOENT.raw_os_error()) => Ok(()),
        result => result,
    }
}
