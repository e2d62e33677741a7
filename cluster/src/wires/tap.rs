//! TAP devices: network devices whose frames a program takes and gives.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

use rustix::fs::OFlags;
use rustix::ioctl::{IntegerSetter, Opcode, Updater, ioctl, opcode};

/// Where devices are made.
const CLONE_DEVICE: &str = "/dev/net/tun";
/// The most bytes of a frame, with what stands before it: `virtio_net_hdr`, the Ethernet header, and as
/// much as TCP leaves to a device to cut up.
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

/// A device, which goes when this value does.
#[derive(Debug)]
pub struct Tap {
    file: File,
}

/// Whether devices can be made here.
pub fn check() -> io::Result<()> {
    open().map(|_| ()).map_err(|error| io::Error::other(format!("{CLONE_DEVICE}: {error}")))
}

impl Tap {
    /// A device of this name in the calling thread's network namespace. That namespace stays as long as the
    /// device, also when the device has been moved to another, with which it then goes.
    pub fn make(name: &str) -> io::Result<Tap> {
        let file = open()?;
        let mut request = Request { name: [0; 16], flags: IFF_TAP | IFF_NO_PI | IFF_VNET_HDR, rest: [0; 22] };
        // The last byte ends the name.
        let place = request.name[..15].get_mut(..name.len()).ok_or(io::ErrorKind::InvalidFilename)?;
        place.copy_from_slice(name.as_bytes());
        // SAFETY: TUNSETIFF reads an `ifreq` and writes one back. `Request` is one on 64-bit machines, where it
        // has 40 bytes, and is longer than the 32 that others have; any bytes are a valid one.
        unsafe { ioctl(&file, Updater::<TUNSETIFF, Request>::new(&mut request))? };
        // What leaves here enters another such device of this machine, so sums and cutting up can be left to
        // whoever needs them.
        let offload = TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6;
        // SAFETY: TUNSETOFFLOAD takes flags by value.
        unsafe { ioctl(&file, IntegerSetter::<TUNSETOFFLOAD>::new_usize(offload))? };
        Ok(Tap { file })
    }

    /// The next frame that the device sends, if there is one; an error other than `WouldBlock` if the device
    /// is gone.
    pub fn take(&self, frame: &mut [u8]) -> io::Result<usize> {
        (&self.file).read(frame)
    }

    /// Has the device receive a frame. Like any device it may lose it.
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
