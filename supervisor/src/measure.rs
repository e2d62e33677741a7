//! Measures, before the mount, which opening of files is faster on this machine.
//!
//! With no-open the kernel sends no OPEN, and reads pages by READ, once. With passthrough it sends OPEN each time, and
//! reads the copy itself. A connection supports one or the other. Each is measured for some milliseconds on its own
//! connection, with a detached mount and a few files like those of a software tree.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::thread;
use std::time::{Duration, Instant};

use headwater_abi::attr::{Attr, mode};
use headwater_fuse::init::{Locks, Opening, flag, negotiate};
use headwater_fuse::mount::{Options, mount_detached};
use headwater_fuse::reply::{FOREVER, open_flag};
use headwater_fuse::{Device, Entry, NodeId, Operation, Reply, Request};
use rustix::fs::{MemfdFlags, Mode, OFlags, memfd_create, openat};
use rustix::io::{Errno, pread, read, retry_on_intr, write};

/// The average of what programs read of one file of a software tree, in bytes: of the thousand files of a large Python
/// import, most have some kilobytes and the libraries some megabytes.
const FILE_BYTES: usize = 128 << 10;
/// The expected openings of a file in a session: one by each of a node's processes.
const OPENS_EXPECTED: u64 = 16;
/// The first file's node.
const NODE_MIN: u64 = NodeId::ROOT.0 + 1;
/// Files that are measured.
const FILES: usize = 24;
/// The most time for both measurements; beyond it there is no result.
const TIME_MAX: Duration = Duration::from_millis(40);

/// The kernel's read-ahead where it can be set, in KiB (its default is 128). Reading and mapping a big file is then a
/// third faster. A large Python import sends a quarter fewer requests, and reads a third more; beyond this only the
/// waste grows.
pub const READ_AHEAD_KIB: u32 = 512;

/// The time to open a file of 128 KiB, read all of it and close it.
#[derive(Clone, Copy, Debug)]
struct Cost {
    /// The first time, in nanoseconds.
    first_ns: u64,
    /// Each further time, in nanoseconds.
    again_ns: u64,
}

/// Chooses the opening. Takes at most about 50 ms, less than 1 ms if this user can't use passthrough, and leaves
/// nothing behind.
pub(crate) fn choose() -> Opening {
    match measure_both() {
        Ok((no_open, passthrough)) if passes(no_open, passthrough) => Opening::Passthrough,
        Ok(_) | Err(_) => Opening::None,
    }
}

/// Returns the costs of no-open and of passthrough.
///
/// # Errors
/// Files can't be passed through here, or the measurement took too long.
fn measure_both() -> io::Result<(Cost, Cost)> {
    let deadline = Instant::now() + TIME_MAX;
    let passthrough = measure(Opening::Passthrough, deadline)?;
    Ok((measure(Opening::None, deadline)?, passthrough))
}

impl Cost {
    /// Returns the cost of a file in a session, in nanoseconds.
    fn expected(&self) -> u64 {
        self.first_ns + self.again_ns * (OPENS_EXPECTED - 1)
    }
}

/// Returns true if passthrough is worth it. It must be a third cheaper: with many processes, which are not measured,
/// each open waits for the daemon, and a busy machine distorts the times.
fn passes(no_open: Cost, passthrough: Cost) -> bool {
    passthrough.expected() * 3 < no_open.expected() * 2
}

/// Measures one opening on its own connection.
fn measure(opening: Opening, deadline: Instant) -> io::Result<Cost> {
    let device = Device::open()?;
    let options = Options {
        source: "headwater-measure".into(),
        subtype: "headwater".into(),
        is_read_only: true,
        allows_others: false,
        read_bytes_max: 1 << 20,
    };
    let root = mount_detached(&device, &options)?;
    let copies = (0..FILES).map(|_| copy()).collect::<io::Result<Vec<OwnedFd>>>()?;
    let server = thread::Builder::new().name("measure".into()).spawn(move || serve(&device, opening, &copies))?;
    let cost = try_files(&root, deadline);
    // The connection ends with the mount, and so does the thread.
    drop(root);
    let served = server.join().unwrap_or_else(|_| Err(io::Error::other("the server of the measurement failed")));
    // The server's error explains the reader's. Its last replies fail when the mount ends, which is no error.
    cost.map_err(|error| if error.kind() == io::ErrorKind::TimedOut { error } else { served.err().unwrap_or(error) })
}

/// Creates a file of its own for each copy, because one file would stay in the processor's caches. The store's copies
/// are in memory as well.
fn copy() -> io::Result<OwnedFd> {
    let copy = memfd_create("headwater-measure", MemfdFlags::CLOEXEC)?;
    retry_on_intr(|| write(&copy, &[1; FILE_BYTES]))?;
    Ok(copy)
}

fn try_files(root: &OwnedFd, deadline: Instant) -> io::Result<Cost> {
    let mut buffer = vec![0; FILE_BYTES];
    // The median, because a busy machine makes some times long.
    let mut pass = || {
        let mut times = [0; FILES];
        for (number, time) in times.iter_mut().enumerate() {
            let start = Instant::now();
            try_file(root, number, &mut buffer)?;
            *time = start.elapsed().as_nanos() as u64;
            if Instant::now() > deadline {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "the measurement took too long"));
            }
        }
        times.sort_unstable();
        Ok(times[FILES / 2])
    };
    Ok(Cost { first_ns: pass()?, again_ns: pass()? })
}

fn try_file(root: &OwnedFd, number: usize, buffer: &mut [u8]) -> io::Result<()> {
    let file = openat(root, number.to_string(), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let mut done = 0;
    while done < buffer.len() {
        match retry_on_intr(|| read(&file, &mut buffer[done..]))? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            bytes => done += bytes,
        }
    }
    Ok(())
}

/// Serves files named by numbers from these copies until the mount ends.
fn serve(device: &Device, opening: Opening, copies: &[OwnedFd]) -> io::Result<()> {
    let negotiated = negotiate(device, opening, Locks::InKernel)?;
    if opening == Opening::Passthrough && !negotiated.has(flag::PASSTHROUGH) {
        return Err(io::Error::new(io::ErrorKind::Unsupported, "the kernel can't (it needs Linux 6.9 or later)"));
    }
    if opening == Opening::None && negotiated.opening(opening) != opening {
        return Err(io::Error::new(io::ErrorKind::Unsupported, "the kernel asks on every open"));
    }
    let mut buffer = vec![0; Device::request_bytes_max(negotiated.transfer_bytes_max)];
    let mut content = vec![0; FILE_BYTES];
    loop {
        let bytes = device.read(&mut buffer)?;
        if bytes == 0 {
            return Ok(());
        }
        let request = Request::decode(&buffer[..bytes]).map_err(io::Error::other)?;
        let reply = Reply { device, unique: request.unique };
        let copy = || copies.get(request.node.0.wrapping_sub(NODE_MIN) as usize).ok_or(io::ErrorKind::NotFound);
        match request.operation {
            Operation::Open { .. } if opening == Opening::Passthrough => {
                let backing = device.open_backing(copy()?.as_fd())?;
                reply.open(u64::from(backing), open_flag::NOFLUSH, Some(backing))?;
            }
            Operation::Release { handle } => {
                device.close_backing(handle as u32)?;
                reply.ok()?;
            }
            Operation::Read { offset, bytes } => {
                let bytes = content.len().min(bytes as usize);
                let bytes = pread(copy()?, &mut content[..bytes], offset)?;
                reply.data(&content[..bytes])?;
            }
            operation => answer(request.node, &operation, reply)?,
        }
    }
}

fn answer(node: NodeId, operation: &Operation<'_>, reply: Reply<'_>) -> io::Result<()> {
    match operation {
        Operation::Lookup { name } => {
            let number = str::from_utf8(name).ok().and_then(|name| name.parse::<u64>().ok());
            let node = number.map(|number| NodeId(NODE_MIN + number));
            reply.entry(&Entry {
                node,
                attr: attr(node.unwrap_or(NodeId::ROOT)),
                entry_ttl: FOREVER,
                attr_ttl: FOREVER,
            })
        }
        Operation::Getattr => reply.attr(&attr(node), FOREVER),
        Operation::Forget { .. } | Operation::BatchForget(_) | Operation::Interrupt { .. } => Ok(()),
        _ => reply.error(Errno::NOSYS.raw_os_error()),
    }
}

fn attr(node: NodeId) -> Attr {
    let (mode, size) =
        if node == NodeId::ROOT { (mode::DIR | 0o700, 0) } else { (mode::FILE | 0o600, FILE_BYTES as u64) };
    Attr {
        mode,
        nlink: 1,
        uid: rustix::process::geteuid().as_raw(),
        gid: rustix::process::getegid().as_raw(),
        ino: node.0,
        size,
        blksize: 4096,
        ..Attr::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cheaper_opening_is_chosen() {
        let cost = |first_ns, again_ns| Cost { first_ns, again_ns };
        assert_eq!(cost(300, 10).expected(), 300 + 15 * 10);
        assert!(!passes(cost(80_000, 10_000), cost(40_000, 25_000)));
        assert!(!passes(cost(80_000, 10_000), cost(40_000, 9_000)), "a little is not enough");
        assert!(passes(cost(800_000, 10_000), cost(40_000, 12_000)), "reading the first time costs most");
    }

    #[test]
    fn this_machine_is_measured_or_says_why_not() {
        let costs = measure_both();
        let mounts = headwater_fuse::mount::mounted("headwater").unwrap();
        assert!(mounts.iter().all(|mount| mount.source != "headwater-measure"), "{mounts:?}");
        match costs {
            Err(why) => {
                println!("skipped: files can't be passed through: {why}");
                assert_eq!(choose(), Opening::None);
            }
            Ok((no_open, passthrough)) => {
                assert!(no_open.again_ns > 0 && passthrough.again_ns > 0, "{no_open:?}, {passthrough:?}");
            }
        }
    }

    #[test]
    fn what_takes_too_long_is_given_up() {
        let past = Instant::now();
        let Err(error) = measure(Opening::None, past) else { panic!("it took no time at all") };
        if !matches!(error.kind(), io::ErrorKind::TimedOut) {
            println!("skipped: {error}");
        }
    }
}
