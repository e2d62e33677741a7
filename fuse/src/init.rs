//! The first exchange on a connection.

use std::io;

use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use zerocopy::IntoBytes;

use crate::request::Init;
use crate::wire::{InitOut, MAJOR, MINOR, MINOR_MIN};
use crate::{Device, Operation, Reply, Request};

/// The settings of a connection. They never change, and a process that takes the connection over needs them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Negotiated {
    /// The kernel's minor version of the protocol.
    pub minor: u32,
    /// What both sides support: the bits of [`flag`].
    pub flags: u64,
    /// The largest WRITE and READ, in bytes.
    pub transfer_bytes_max: u32,
}

/// How the kernel opens files on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Opening {
    /// The kernel opens files by itself (OPEN is answered ENOSYS).
    None,
    /// Each OPEN is answered; pages stay cached.
    Cached,
    /// Each OPEN names a backing file, whose pages the kernel then uses.
    Passthrough,
}

/// Bits of INIT, as in linux/fuse.h.
#[allow(missing_docs, reason = "named as in linux/fuse.h")]
pub mod flag {
    pub const ASYNC_READ: u64 = 1;
    pub const POSIX_LOCKS: u64 = 1 << 1;
    pub const ATOMIC_O_TRUNC: u64 = 1 << 3;
    pub const EXPORT_SUPPORT: u64 = 1 << 4;
    pub const BIG_WRITES: u64 = 1 << 5;
    pub const DONT_MASK: u64 = 1 << 6;
    pub const FLOCK_LOCKS: u64 = 1 << 10;
    pub const AUTO_INVAL_DATA: u64 = 1 << 12;
    pub const DO_READDIRPLUS: u64 = 1 << 13;
    pub const READDIRPLUS_AUTO: u64 = 1 << 14;
    pub const NO_OPEN_SUPPORT: u64 = 1 << 17;
    pub const PARALLEL_DIROPS: u64 = 1 << 18;
    pub const HANDLE_KILLPRIV: u64 = 1 << 19;
    pub const MAX_PAGES: u64 = 1 << 22;
    pub const CACHE_SYMLINKS: u64 = 1 << 23;
    pub const NO_OPENDIR_SUPPORT: u64 = 1 << 24;
    pub const INIT_EXT: u64 = 1 << 30;
    pub const HAS_EXPIRE_ONLY: u64 = 1 << 35;
    pub const PASSTHROUGH: u64 = 1 << 37;
    pub const HAS_RESEND: u64 = 1 << 39;
}

/// The largest WRITE and READ that is requested, in bytes.
const TRANSFER_BYTES_MAX: u32 = 512 << 10;
/// The same if the kernel lacks MAX_PAGES.
const TRANSFER_BYTES_OLD: u32 = 128 << 10;
/// Requests in flight without a waiting process (above all read-ahead), at most.
const BACKGROUND_MAX: u16 = 64;
/// The protocol that has FUSE_NOTIFY_INC_EPOCH.
const MINOR_EXPIRE_ALL: u32 = 44;

/// The flags requested for every mode of opening. Without EXPORT_SUPPORT the kernel requests no node that it
/// has forgotten, whose number may be in use again: a file handle leads to a cached node. HANDLE_KILLPRIV:
/// the source's file system clears set-user-ID bits on writes. DONT_MASK: new files in a directory with default entries
/// of access control lists have these, whatever the caller's umask.
const WANTED: u64 = flag::ASYNC_READ
    | flag::BIG_WRITES
    | flag::DONT_MASK
    | flag::AUTO_INVAL_DATA
    | flag::DO_READDIRPLUS
    | flag::READDIRPLUS_AUTO
    | flag::PARALLEL_DIROPS
    | flag::HANDLE_KILLPRIV
    | flag::MAX_PAGES
    | flag::CACHE_SYMLINKS
    | flag::INIT_EXT
    | flag::HAS_EXPIRE_ONLY
    | flag::HAS_RESEND;

/// Where the locks of a connection's files are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Locks {
    /// The kernel has them, for this machine's processes.
    InKernel,
    /// The server gets GETLK, SETLK and SETLKW.
    AtServer,
}

/// Waits for the kernel's INIT on a new connection and answers it with the flags for `opening` and `locks`. Unsupported
/// ones are missing in [`Negotiated::flags`].
///
/// # Errors
/// The first request is not INIT, the kernel's protocol is too old (before 7.31), or the device
/// fails.
pub fn negotiate(device: &Device, opening: Opening, locks: Locks) -> io::Result<Negotiated> {
    let mut buffer = vec![0; Device::request_bytes_max(0)];
    loop {
        let bytes = device.read(&mut buffer)?;
        if bytes == 0 {
            return Err(io::Error::new(io::ErrorKind::NotConnected, "the file system was unmounted before INIT"));
        }
        let request = Request::decode(&buffer[..bytes]).map_err(io::Error::other)?;
        let Operation::Init(init) = request.operation else {
            return Err(io::Error::other("the kernel's first request is not INIT"));
        };
        let reply = Reply { device, unique: request.unique };
        match agree(&init, flags_for(opening) | flags_of(locks)) {
            Agreement::Reached(negotiated, out) => return reply.data(out.as_bytes()).map(|()| negotiated),
            Agreement::AskAgain(out) => reply.data(out.as_bytes())?,
            Agreement::TooOld => {
                reply.error(Errno::PROTO.raw_os_error())?;
                let (major, minor) = (init.major, init.minor);
                let text = format!("the kernel's FUSE protocol {major}.{minor} is older than {MAJOR}.{MINOR_MIN}");
                return Err(io::Error::new(io::ErrorKind::Unsupported, text));
            }
        }
    }
}

enum Agreement {
    Reached(Negotiated, InitOut),
    /// A newer kernel gets our version, and repeats INIT in that.
    AskAgain(InitOut),
    TooOld,
}

fn agree(init: &Init, flags: u64) -> Agreement {
    let version = InitOut { major: MAJOR, minor: MINOR, ..InitOut::default() };
    match (init.major, init.minor) {
        (major, _) if major > MAJOR => return Agreement::AskAgain(version),
        (major, minor) if major < MAJOR || minor < MINOR_MIN => return Agreement::TooOld,
        _ => {}
    }
    let flags = init.flags & (WANTED | flags);
    let transfer_bytes_max = if flags & flag::MAX_PAGES != 0 { TRANSFER_BYTES_MAX } else { TRANSFER_BYTES_OLD };
    let out = InitOut {
        // The kernel uses the smaller of this and the mount's setting.
        max_readahead: init.readahead_bytes_max.max(TRANSFER_BYTES_MAX),
        flags: flags as u32,
        max_background: BACKGROUND_MAX,
        congestion_threshold: BACKGROUND_MAX / 4 * 3,
        max_write: transfer_bytes_max,
        time_gran: 1,
        max_pages: (transfer_bytes_max as usize / rustix::param::page_size()) as u16,
        flags2: (flags >> 32) as u32,
        // The backing file is on a file system that is not stacked on another.
        max_stack_depth: u32::from(flags & flag::PASSTHROUGH != 0),
        ..version
    };
    Agreement::Reached(Negotiated { minor: init.minor, flags, transfer_bytes_max }, out)
}

fn flags_for(opening: Opening) -> u64 {
    match opening {
        Opening::None => flag::NO_OPEN_SUPPORT | flag::NO_OPENDIR_SUPPORT,
        Opening::Cached => flag::NO_OPENDIR_SUPPORT,
        Opening::Passthrough => flag::NO_OPENDIR_SUPPORT | flag::PASSTHROUGH,
    }
}

fn flags_of(locks: Locks) -> u64 {
    match locks {
        Locks::InKernel => 0,
        Locks::AtServer => flag::POSIX_LOCKS | flag::FLOCK_LOCKS,
    }
}

impl Negotiated {
    /// Returns whether [`Device::expire_all_names`](crate::Device::expire_all_names) is supported.
    pub fn can_expire_all_names(&self) -> bool {
        self.minor >= MINOR_EXPIRE_ALL
    }

    /// Returns whether both sides support a bit of [`flag`].
    pub fn has(&self, flag: u64) -> bool {
        self.flags & flag == flag
    }

    /// Returns the mode of opening on this connection, if `wanted` is requested.
    pub fn opening(&self, wanted: Opening) -> Opening {
        let needed = match wanted {
            Opening::None => flag::NO_OPEN_SUPPORT,
            Opening::Cached => 0,
            Opening::Passthrough => flag::PASSTHROUGH,
        };
        if self.has(needed) { wanted } else { Opening::Cached }
    }
}

#[cfg(test)]
mod tests {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    use zerocopy::FromBytes;

    use super::*;
    use crate::wire::{InHeader, InitIn, opcode};

    fn init(major: u32, minor: u32, flags: u64) -> Init {
        Init { major, minor, readahead_bytes_max: 128 << 10, flags }
    }

    fn reached(init: &Init, opening: Opening) -> (Negotiated, InitOut) {
        match agree(init, flags_for(opening)) {
            Agreement::Reached(negotiated, out) => (negotiated, out),
            _ => panic!("no agreement with {init:?}"),
        }
    }

    #[test]
    fn only_supported_flags_are_requested() {
        let (negotiated, out) = reached(&init(7, 31, flag::ASYNC_READ | flag::POSIX_LOCKS), Opening::None);
        assert_eq!(negotiated, Negotiated { minor: 31, flags: flag::ASYNC_READ, transfer_bytes_max: 128 << 10 });
        assert_eq!((out.flags, out.flags2, out.max_write, out.time_gran), (1, 0, 128 << 10, 1));
        assert_eq!((out.major, out.minor, out.max_readahead, out.max_stack_depth), (7, 45, TRANSFER_BYTES_MAX, 0));
        assert!(negotiated.has(flag::ASYNC_READ) && !negotiated.has(flag::NO_OPEN_SUPPORT));
        assert_eq!(negotiated.opening(Opening::None), Opening::Cached);
    }

    #[test]
    fn a_new_kernel_grants_all_that_serves() {
        let (negotiated, out) = reached(&init(7, 45, u64::MAX), Opening::None);
        assert_eq!(negotiated.transfer_bytes_max, TRANSFER_BYTES_MAX);
        assert_eq!(usize::from(out.max_pages) * rustix::param::page_size(), TRANSFER_BYTES_MAX as usize);
        assert!(negotiated.has(WANTED | flag::NO_OPEN_SUPPORT | flag::NO_OPENDIR_SUPPORT));
        assert_eq!((u64::from(out.flags) | u64::from(out.flags2) << 32), negotiated.flags);
        let unwanted = [flag::POSIX_LOCKS, flag::PASSTHROUGH, flag::EXPORT_SUPPORT, flag::ATOMIC_O_TRUNC];
        assert!(unwanted.iter().all(|&flag| !negotiated.has(flag)));
        let (negotiated, out) = reached(&init(7, 45, u64::MAX), Opening::Passthrough);
        assert!(negotiated.has(flag::PASSTHROUGH) && !negotiated.has(flag::NO_OPEN_SUPPORT));
        assert_eq!(negotiated.opening(Opening::Passthrough), Opening::Passthrough);
        assert_eq!(out.max_stack_depth, 1);
        assert!(!reached(&init(7, 45, u64::MAX), Opening::Cached).0.has(flag::NO_OPEN_SUPPORT));
    }

    /// Returns an INIT of the kernel.
    fn packet(major: u32, minor: u32, flags: u32) -> Vec<u8> {
        let init = InitIn { major, minor, max_readahead: 0, flags };
        let len = (size_of::<InHeader>() + size_of::<InitIn>()) as u32;
        let header = InHeader { len, opcode: opcode::INIT, unique: 2, ..InHeader::default() };
        [header.as_bytes(), init.as_bytes()].concat()
    }

    #[test]
    fn a_kernel_of_a_later_major_version_gets_ours() {
        let (kernel, server) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        for packet in [packet(8, 1, 0), packet(7, 45, flag::ASYNC_READ as u32)] {
            rustix::io::write(&kernel, &packet).unwrap();
        }
        let negotiated = negotiate(&Device::from_fd(server), Opening::None, Locks::InKernel).unwrap();
        assert_eq!((negotiated.minor, negotiated.flags), (45, flag::ASYNC_READ));
        let mut reply = [0; 256];
        for flags in [0, flag::ASYNC_READ as u32] {
            assert_eq!(rustix::io::read(&kernel, &mut reply), Ok(16 + size_of::<InitOut>()));
            let out = InitOut::read_from_prefix(&reply[16..]).unwrap().0;
            assert_eq!((out.major, out.flags), (7, flags));
        }
    }

    #[test]
    fn what_can_not_be_agreed_on_is_an_error() {
        let mut unmounted = packet(7, 45, 0);
        unmounted.clear();
        let lookup = [&[44, 0, 0, 0, 1][..], &[0; 35], b"lib\0"].concat();
        for (packet, why) in [(packet(7, 30, 0), "older"), (unmounted, "unmounted"), (lookup, "not INIT")] {
            let (kernel, server) =
                socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
            rustix::io::write(&kernel, &packet).unwrap();
            rustix::net::shutdown(&kernel, rustix::net::Shutdown::Write).unwrap();
            let error = negotiate(&Device::from_fd(server), Opening::None, Locks::InKernel).unwrap_err();
            assert!(error.to_string().contains(why), "{error}");
        }
    }

    #[test]
    fn versions_are_settled_first() {
        assert!(matches!(agree(&init(8, 0, 0), 0), Agreement::AskAgain(out) if out.major == 7));
        assert!(matches!(agree(&init(7, 30, 0), 0), Agreement::TooOld));
        assert!(matches!(agree(&init(6, 50, 0), 0), Agreement::TooOld));
    }
}
