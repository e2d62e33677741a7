//! TAP devices: network devices whose frames a program reads and writes.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

use rustix::fs::OFlags;
use rustix::ioctl::{IntegerSetter, Opcode, Updater, ioctl, opcode};

/// The file by which devices are made.
const CLONE_DEVICE: &str = "/dev/net/tun";
/// Limit of a frame, in bytes: `virtio_net_hdr`, the Ethernet header, and the largest TCP segment for offloading.
pub const FRAME_BYTES_MAX: usize = 68 << 10;

const TUNSETIFF: Opcode = opcode::write::<i32>(b'T', 202);
const TUNSETOFFLOAD: Opcode = opcode::write::<u32>(b'T', 208);
const IFF_TAP: u16 = 0x0002;
const IFF_NO_PI: u16 = 0x1000;
const IFF_VNET_HDR: u16 = 0x4000;
const TUN_F_CSUM: usize = 1;
const TUN_F_TSO4: usize = 2;
const TUN_F_TSO6: usize = 4;

/// The kernel's `ifreq`, as TUNSETIFF reads it.
#[repr(C)]
struct Request {
    name: [u8; 16],
    flags: u16,
    rest: [u8; 22],
}

/// A device, which is removed when this is dropped.
#[derive(Debug)]
pub struct Tap {
    file: File,
}

/// Checks that devices can be made.
pub fn check() -> io::Result<()> {
    open().map(|_| ()).map_err(|error| io::Error::other(format!("{CLONE_DEVICE}: {error}")))
}

impl Tap {
    /// Makes a device of this name in the calling thread's network namespace. The namespace lives at least as long as
    /// the device. A device that was moved is removed with its new namespace.
    pub fn make(name: &str) -> io::Result<Tap> {
        let file = open()?;
        let mut request = Request { name: [0; 16], flags: IFF_TAP | IFF_NO_PI | IFF_VNET_HDR, rest: [0; 22] };
        // The last byte ends the name.
        let place = request.name[..15].get_mut(..name.len()).ok_or(io::ErrorKind::InvalidFilename)?;
        place.copy_from_slice(name.as_bytes());
        // SAFETY: TUNSETIFF reads an `ifreq` and writes one back. `Request` is one on 64-bit machines, where it
        // has 40 bytes, and is longer than the 32 that others have; any bytes are a valid one.
        unsafe { ioctl(&file, Updater::<TUNSETIFF, Request>::new(&mut request))? };
        // Frames only pass to other devices of this machine, so checksums and segmentation can be offloaded.
        let offload = TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6;
        // SAFETY: TUNSETOFFLOAD takes flags by value.
        unsafe { ioctl(&file, IntegerSetter::<TUNSETOFFLOAD>::new_usize(offload))? };
        Ok(Tap { file })
    }

    /// Reads the next frame that the device sends. An error other than `WouldBlock` means that the device is gone.
    pub fn take(&self, frame: &mut [u8]) -> io::Result<usize> {
        (&self.file).read(frame)
    }

    /// Passes a frame to the device, which may drop it.
    pub fn give(&self, frame: &[u8]) {
        let _ = (&self.file).write(frame);
    }
}

impl AsFd for Tap {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

fn open() -> io::Result<File> {
    let flags = OFlags::NONBLOCK.bits().try_into().expect("flags are small");
    File::options().read(true).write(true).custom_flags(flags).open(CLONE_DEVICE)
}
