//! The store's copies of files, some of them open.

use std::collections::{HashMap, VecDeque};
use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use headwater_abi::Path;
use headwater_fuse::{NodeId, Pipe};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::state::tables::OlderTable;

/// Copies that stay open.
const OPEN_COPIES_MAX: usize = 128;

/// Bytes of buffers that are cached for further reads.
const BUFFER_BYTES_MAX: usize = 1 << 20;

/// Pipes that are cached for further reads.
const PIPES_MAX: usize = 4;

/// The store's copies, some open between reads, and the state of passthrough openings.
#[derive(Debug)]
pub(crate) struct Contents {
    roots: RwLock<Roots>,
    open: Mutex<OpenCopies>,
    buffers: Mutex<Vec<Vec<u8>>>,
    pipes: Mutex<Vec<Pipe>>,
    /// Locked while passthrough openings change. True once one has failed; then no other is tried, because the kernel
    /// does not mix both openings of one file.
    passing: Mutex<bool>,
}

/// The mirrors that copies are in.
#[derive(Debug)]
struct Roots {
    newest: Arc<PathBuf>,
    /// Nodes of which the newest generation has another version: their copies are in an older mirror.
    superseded: HashMap<NodeId, Arc<PathBuf>>,
}

#[derive(Debug, Default)]
struct OpenCopies {
    by_node: HashMap<NodeId, Arc<OwnedFd>>,
    /// In the order in which they are closed.
    order: VecDeque<NodeId>,
}

impl Contents {
    /// Creates the set for the copies below `store` and those of older generations.
    pub(crate) fn new(store: PathBuf, older: Vec<OlderTable>) -> Contents {
        let mut roots = Roots { newest: Arc::new(store), superseded: HashMap::new() };
        for OlderTable { root, pinned, .. } in older {
            let root = Arc::new(root);
            roots.superseded.extend(pinned.into_iter().map(|node| (node, Arc::clone(&root))));
        }
        Contents {
            roots: RwLock::new(roots),
            open: Mutex::default(),
            buffers: Mutex::default(),
            pipes: Mutex::default(),
            passing: Mutex::default(),
        }
    }

    /// Uses copies below `newest` from now on, except for these nodes, whose copies stay.
    pub(crate) fn begin_generation(&self, newest: PathBuf, superseded: impl IntoIterator<Item = NodeId>) {
        let mut roots = self.roots.write().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut roots.newest, Arc::new(newest));
        for node in superseded {
            roots.superseded.entry(node).or_insert_with(|| Arc::clone(&before));
        }
    }

    /// Drops nodes whose generation has ended.
    pub(crate) fn forget(&self, superseded: impl IntoIterator<Item = NodeId>) {
        let mut roots = self.roots.write().unwrap_or_else(PoisonError::into_inner);
        for node in superseded {
            roots.superseded.remove(&node);
        }
    }

    /// Returns the path of the copy of `path`, the path of `node`.
    pub(crate) fn path(&self, node: NodeId, path: &Path) -> PathBuf {
        let roots = self.roots.read().unwrap_or_else(PoisonError::into_inner);
        let root = roots.superseded.get(&node).unwrap_or(&roots.newest);
        let mut copy = root.as_os_str().to_owned();
        copy.push(OsStr::from_bytes(path.as_bytes()));
        copy.into()
    }

    /// Closes the copy of a node, so that it can be evicted.
    pub(crate) fn close(&self, node: NodeId) {
        let mut open = self.open();
        if open.by_node.remove(&node).is_some() {
            open.order.retain(|other| *other != node);
        }
    }

    /// Closes all copies.
    pub(crate) fn close_all(&self) {
        *self.open() = OpenCopies::default();
    }

    /// Opens the copy of `path`; with `caches`, it stays open for further reads.
    pub(crate) fn copy(&self, node: NodeId, path: &Path, caches: bool) -> Result<Arc<OwnedFd>, Errno> {
        if let Some(copy) = self.open().by_node.get(&node) {
            return Ok(Arc::clone(copy));
        }
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NOATIME;
        let copy = Arc::new(rustix::fs::open(self.path(node, path), flags, Mode::empty())?);
        if caches {
            let mut open = self.open();
            if open.order.len() >= OPEN_COPIES_MAX
                && let Some(oldest) = open.order.pop_front()
            {
                open.by_node.remove(&oldest);
            }
            if open.by_node.insert(node, Arc::clone(&copy)).is_none() {
                open.order.push_back(node);
            }
        }
        Ok(copy)
    }

    /// Returns a buffer of at least `bytes` bytes.
    pub(crate) fn take_buffer(&self, bytes: usize) -> Vec<u8> {
        let mut buffer = self.buffers().pop().unwrap_or_default();
        if buffer.len() < bytes {
            buffer.resize(bytes, 0);
        }
        buffer
    }

    /// Caches a buffer for further reads.
    pub(crate) fn return_buffer(&self, buffer: Vec<u8>) {
        let mut buffers = self.buffers();
        let cached: usize = buffers.iter().map(Vec::capacity).sum();
        if cached + buffer.capacity() <= BUFFER_BYTES_MAX {
            buffers.push(buffer);
        }
    }

    /// Returns a pipe; `None` if the process, or the user, may have no more.
    pub(crate) fn take_pipe(&self) -> Option<Pipe> {
        let cached = self.pipes().pop();
        cached.or_else(|| Pipe::new().ok())
    }

    /// Caches an empty pipe for further reads.
    pub(crate) fn return_pipe(&self, pipe: Pipe) {
        let mut pipes = self.pipes();
        if pipes.len() < PIPES_MAX {
            pipes.push(pipe);
        }
    }

    fn pipes(&self) -> MutexGuard<'_, Vec<Pipe>> {
        self.pipes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn buffers(&self) -> MutexGuard<'_, Vec<Vec<u8>>> {
        self.buffers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open(&self) -> MutexGuard<'_, OpenCopies> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the state of passthrough openings.
    pub(crate) fn passing(&self) -> MutexGuard<'_, bool> {
        self.passing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
