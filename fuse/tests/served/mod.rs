//! A small tree served through a real mount, with every request counted.
//!
//! ```text
//! /hello          6 bytes, with the extended attribute user.note
//! /link           -> hello
//! /sub/f00 … f99  their own names
//! /big            3 MiB
//! ```

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use headwater_abi::Attr;
use headwater_fuse::init::{Locks, Opening, flag, negotiate};
use headwater_fuse::mount::{self, Options};
use headwater_fuse::reply::{FOREVER, open_flag};
use headwater_fuse::{Device, Directory, Entry, Negotiated, NodeId, Operation, Reply, Request};
use rustix::io::Errno;

pub const HELLO: NodeId = NodeId(2);
const LINK: NodeId = NodeId(3);
pub const SUB: NodeId = NodeId(4);
pub const BIG: NodeId = NodeId(5);
const FILES: std::ops::Range<u64> = 100..200;
pub const BIG_BYTES: u64 = 3 << 20;
pub const BTIME: (i64, u32) = (12345, 678);

/// The server's deviations, and what it has counted.
#[derive(Default)]
pub struct Tree {
    counts: Mutex<BTreeMap<String, usize>>,
    /// READ requests are taken and never answered.
    pub is_deaf: AtomicBool,
    pub resent: AtomicUsize,
    opening: Option<Opening>,
    /// The backing file of `hello`, and its number.
    backing: Mutex<Option<u32>>,
}

/// A mount; unmounted when dropped.
pub struct Mounted {
    pub root: PathBuf,
    pub device: Arc<Device>,
    pub negotiated: Negotiated,
    pub tree: Arc<Tree>,
    threads: Vec<JoinHandle<()>>,
    _directory: tempfile::TempDir,
}

/// Prints why the machine allows no mount. False if it allows one.
pub fn skipped() -> bool {
    let result = Device::open();
    if let Err(error) = &result {
        println!("skipped: /dev/fuse: {error}");
    }
    result.is_err()
}

pub fn options() -> Options {
    Options {
        source: "test tree, with a comma".into(),
        subtype: "headwater-test".into(),
        is_read_only: false,
        allows_others: false,
        read_bytes_max: 1 << 20,
    }
}

impl Mounted {
    /// Mounts and serves with one thread.
    pub fn new(opening: Opening) -> Mounted {
        let directory = tempfile::tempdir().unwrap();
        let device = Device::open().unwrap();
        mount::mount(&device, directory.path(), &options()).unwrap();
        Mounted::serve(directory, device, opening)
    }

    /// Serves a mounted connection.
    pub fn serve(directory: tempfile::TempDir, device: Device, opening: Opening) -> Mounted {
        let negotiated = negotiate(&device, opening, Locks::InKernel).unwrap();
        let tree = Arc::new(Tree { opening: Some(opening), ..Tree::default() });
        let mut mounted = Mounted {
            root: directory.path().to_owned(),
            device: Arc::new(device),
            negotiated,
            tree,
            threads: Vec::new(),
            _directory: directory,
        };
        mounted.start(mounted.device.clone());
        mounted
    }

    /// Starts one more thread, over this descriptor.
    pub fn start(&mut self, device: Arc<Device>) {
        let (tree, bytes_max) = (self.tree.clone(), self.negotiated.transfer_bytes_max);
        self.threads.push(thread::spawn(move || tree.serve(&device, bytes_max)));
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    pub fn count(&self, operation: &str) -> usize {
        self.tree.counts.lock().unwrap().get(operation).copied().unwrap_or(0)
    }

    /// Returns the number of requests so far, by operation.
    pub fn counts(&self) -> BTreeMap<String, usize> {
        self.tree.counts.lock().unwrap().clone()
    }

    /// Waits until `condition` holds.
    pub fn wait_for(&self, what: &str, condition: impl Fn(&Mounted) -> bool) {
        let start = std::time::Instant::now();
        while !condition(self) {
            assert!(start.elapsed() < Duration::from_secs(10), "waited for: {what}");
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Makes this file the backing file of `hello`.
    pub fn pass_through(&self, file: impl AsFd) -> io::Result<()> {
        *self.tree.backing.lock().unwrap() = Some(self.device.open_backing(file.as_fd())?);
        Ok(())
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        mount::unmount(&self.root, true).unwrap();
        for thread in self.threads.drain(..) {
            thread.join().unwrap();
        }
    }
}

/// Serves a connection by two descriptors, the second of which is made here, until it is unmounted.
pub fn serve_with_clones(device: Device, opening: Opening) {
    let negotiated = negotiate(&device, opening, Locks::InKernel).unwrap();
    let tree = Tree { opening: Some(opening), ..Tree::default() };
    let clone = device.clone_queue().unwrap();
    thread::scope(|scope| {
        for device in [device, clone] {
            let tree = &tree;
            scope.spawn(move || tree.serve(&device, negotiated.transfer_bytes_max));
        }
    });
}

/// Returns a second descriptor of the same open device.
pub fn duplicate(device: &Device) -> Arc<Device> {
    let fd: OwnedFd = device.as_fd().try_clone_to_owned().unwrap();
    Arc::new(Device::from_fd(fd))
}

impl Tree {
    fn serve(&self, device: &Device, transfer_bytes_max: u32) {
        let mut buffer = vec![0; Device::request_bytes_max(transfer_bytes_max)];
        loop {
            let bytes = device.read(&mut buffer).unwrap();
            if bytes == 0 {
                return;
            }
            let request = Request::decode(&buffer[..bytes]).unwrap();
            let name = format!("{:?}", request.operation);
            let name = name.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
            *self.counts.lock().unwrap().entry(name.to_owned()).or_default() += 1;
            self.resent.fetch_add(usize::from(request.is_resent()), Ordering::SeqCst);
            if matches!(request.operation, Operation::Read { .. }) && self.is_deaf.load(Ordering::SeqCst) {
                // As a server that dies over the request: this descriptor is not read any more.
                return;
            }
            match self.answer(&request, Reply { device, unique: request.unique }) {
                Err(error) if error.raw_os_error() != Some(Errno::NOENT.raw_os_error()) => {
                    panic!("{request:?}: {error}")
                }
                _ => {}
            }
        }
    }

    fn answer(&self, request: &Request, reply: Reply) -> io::Result<()> {
        let node = request.node;
        match request.operation {
            Operation::Lookup { name } => reply.entry(&lookup(node, name)),
            Operation::Getattr => reply.attr(&attr(node), FOREVER),
            Operation::Statx => reply.statx(&attr(node), FOREVER),
            Operation::Readlink => reply.data(b"hello"),
            Operation::Open { .. } => self.open(node, reply),
            Operation::Opendir => reply.error(Errno::NOSYS.raw_os_error()),
            Operation::Read { offset, bytes, .. } => {
                let content = content(node);
                let rest = content.get(offset as usize..).unwrap_or_default();
                reply.data(&rest[..rest.len().min(bytes as usize)])
            }
            Operation::Readdir { offset, bytes, plus } => reply.data(list(node, offset, bytes, plus).as_bytes()),
            Operation::Getxattr { name: b"user.note", bytes: 0 } if node == HELLO => reply.count(3),
            Operation::Getxattr { name: b"user.note", .. } if node == HELLO => reply.data(b"abc"),
            Operation::Getxattr { .. } => reply.error(Errno::NODATA.raw_os_error()),
            Operation::Listxattr { bytes: 0 } => reply.count(10),
            Operation::Listxattr { .. } => reply.data(b"user.note\0"),
            // All data, and a hole at the end.
            Operation::Lseek { offset, whence: 3, .. } => reply.offset(offset),
            Operation::Lseek { .. } => reply.offset(attr(node).size),
            Operation::Statfs => reply.statfs(&rustix::fs::statvfs("/")?),
            Operation::Forget { .. } | Operation::BatchForget(_) | Operation::Interrupt { .. } => Ok(()),
            Operation::Release { .. } | Operation::Destroy => reply.ok(),
            _ => reply.error(Errno::NOSYS.raw_os_error()),
        }
    }

    fn open(&self, node: NodeId, reply: Reply) -> io::Result<()> {
        match self.opening {
            Some(Opening::Passthrough) if node == HELLO => reply.open(0, 0, *self.backing.lock().unwrap()),
            Some(Opening::None) => reply.error(Errno::NOSYS.raw_os_error()),
            _ => reply.open(0, open_flag::KEEP_CACHE, None),
        }
    }
}

fn lookup(directory: NodeId, name: &[u8]) -> Entry {
    let found = names(directory).into_iter().find(|(known, _)| known.as_bytes() == name);
    entry(found.map(|(_, node)| node))
}

fn entry(node: Option<NodeId>) -> Entry {
    Entry { node, attr: node.map(attr).unwrap_or_default(), entry_ttl: FOREVER, attr_ttl: FOREVER }
}

fn names(directory: NodeId) -> Vec<(String, NodeId)> {
    match directory {
        NodeId::ROOT => [("hello", HELLO), ("link", LINK), ("sub", SUB), ("big", BIG)]
            .map(|(name, node)| (name.to_owned(), node))
            .into(),
        SUB => FILES.map(|number| (format!("f{:02}", number - 100), NodeId(number))).collect(),
        _ => Vec::new(),
    }
}

fn content(node: NodeId) -> Vec<u8> {
    match node {
        HELLO => b"hello\n".to_vec(),
        BIG => (0..BIG_BYTES).map(|at| (at / 4096) as u8).collect(),
        NodeId(number) => format!("f{:02}", number.saturating_sub(100)).into_bytes(),
    }
}

fn attr(node: NodeId) -> Attr {
    let (mode, size) = match node {
        NodeId::ROOT | SUB => (0o040_755, 4096),
        LINK => (0o120_777, 5),
        _ => (0o100_644, content(node).len() as u64),
    };
    Attr {
        mode,
        nlink: 1,
        // Not the node's number.
        ino: node.0 + 1_000_000,
        size,
        blocks: size.div_ceil(512),
        blksize: 4096,
        mask: 0xfff,
        mtime: (1_700_000_000, 123_456_789),
        btime: BTIME,
        ..Attr::default()
    }
}

fn list(directory: NodeId, offset: u64, bytes: u32, with_entries: bool) -> Directory {
    let mut listing = Directory::new(bytes as usize, with_entries);
    for (next, (name, node)) in (1..).zip(names(directory)).skip(offset as usize) {
        let (ino, d_type) = (attr(node).ino, (attr(node).mode >> 12) as u8);
        if !listing.name(ino, next, d_type, name.as_bytes(), Some(&entry(Some(node)))) {
            break;
        }
    }
    listing
}

/// Returns whether the two sides agreed on this; prints it if not.
pub fn can(mounted: &Mounted, flag: u64, what: &str) -> bool {
    let can = mounted.negotiated.has(flag);
    if !can {
        println!("skipped: this kernel has no {what}");
    }
    can
}

pub fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

pub const RESEND: u64 = flag::HAS_RESEND;
