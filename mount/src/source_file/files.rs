//! Source files that stay open between requests, because without OPEN and RELEASE the kernel does not report when it
//! opens and closes a file.
//!
//! Closing can take as long as the file system needs, so no lock is held meanwhile.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use headwater_fuse::NodeId;
use rustix::fs::fstatfs;

use super::identity::Identity;

/// How long a file stays open for writing after the last write. While it is open, it can't be executed, and its file
/// system may deny others access.
const WRITER_IDLE_MAX: Duration = Duration::from_secs(1);
/// How long a file stays open for reading after the last read. While it is open, its file system may be unable to free
/// its space or to be unmounted.
const READER_IDLE_MAX: Duration = Duration::from_secs(10);

/// Open source files by node; beyond a limit, those unused for longest are closed.
#[derive(Debug)]
pub(crate) struct Files {
    open: Mutex<HashMap<NodeId, File>>,
    pub(super) files_max: usize,
}

#[derive(Debug)]
struct File {
    identity: Identity,
    reader: Option<Arc<OwnedFd>>,
    writer: Option<Writer>,
    read_at: Instant,
    written_at: Instant,
    /// It can't be opened again, so it is not closed for being idle.
    is_retained: bool,
}

/// A source file that is open for writing.
#[derive(Clone, Debug)]
pub(crate) struct Writer {
    pub(crate) fd: Arc<OwnedFd>,
    /// Other nodes see written data only after a close, which is not reported: each write is flushed by itself.
    pub(crate) hands_over: bool,
}

impl Files {
    pub(super) fn new(files_max: usize) -> Files {
        Files { open: Mutex::default(), files_max }
    }

    /// Returns the cached descriptor for reading.
    pub(crate) fn reader(&self, node: NodeId) -> Option<Arc<OwnedFd>> {
        let mut open = self.lock();
        let file = open.get_mut(&node)?;
        file.read_at = Instant::now();
        file.reader.clone()
    }

    /// Returns the cached descriptor for writing.
    pub(crate) fn writer(&self, node: NodeId) -> Option<Writer> {
        let mut open = self.lock();
        let file = open.get_mut(&node)?;
        file.written_at = Instant::now();
        file.writer.clone()
    }

    /// Caches a descriptor for reading.
    pub(crate) fn cache_reader(&self, node: NodeId, identity: Identity, fd: OwnedFd) -> Arc<OwnedFd> {
        let fd = Arc::new(fd);
        self.cache(node, identity, |file| {
            file.reader = Some(Arc::clone(&fd));
            file.read_at = Instant::now();
        });
        fd
    }

    /// Caches a descriptor for writing. With `opens_again`, the file can be opened again.
    pub(crate) fn cache_writer(&self, node: NodeId, identity: Identity, fd: Arc<OwnedFd>, opens_again: bool) -> Writer {
        let writer = Writer { hands_over: !is_coherent(&fd), fd };
        self.cache(node, identity, |file| {
            file.writer = Some(writer.clone());
            file.written_at = Instant::now();
            file.is_retained |= !opens_again;
        });
        writer
    }

    /// Closes the descriptors of `node` unless they belong to the file `identity`.
    pub(crate) fn confirm(&self, node: NodeId, identity: Identity) {
        let mut open = self.lock();
        let is_another = open.get(&node).is_some_and(|file| file.identity != identity);
        let closed = if is_another { open.remove(&node) } else { None };
        drop(open);
        drop(closed);
    }

    /// Exempts the file from idle closing, because it has lost its name.
    pub(super) fn retain(&self, node: NodeId) {
        if let Some(file) = self.lock().get_mut(&node) {
            file.is_retained = true;
        }
    }

    /// Closes the descriptors of a node.
    pub(crate) fn close(&self, node: NodeId) {
        let closed = self.lock().remove(&node);
        drop(closed);
    }

    /// Closes idle descriptors. Returns the time until the next ones may be idle.
    pub(crate) fn close_idle(&self, now: Instant) -> Option<Duration> {
        let mut open = self.lock();
        let (mut next, mut closed) = (None, Vec::new());
        let mut is_idle = |used_at: Instant, idle_max: Duration| {
            let left = (used_at + idle_max).saturating_duration_since(now);
            if !left.is_zero() {
                next = Some(next.map_or(left, |next: Duration| next.min(left)));
            }
            left.is_zero()
        };
        for file in open.values_mut().filter(|file| !file.is_retained) {
            if file.writer.is_some() && is_idle(file.written_at, WRITER_IDLE_MAX) {
                closed.extend(file.writer.take().map(|writer| writer.fd));
            }
            if file.reader.is_some() && is_idle(file.read_at, READER_IDLE_MAX) {
                closed.extend(file.reader.take());
            }
        }
        open.retain(|_, file| file.reader.is_some() || file.writer.is_some());
        drop(open);
        drop(closed);
        next
    }

    fn cache(&self, node: NodeId, identity: Identity, update: impl FnOnce(&mut File)) {
        let mut open = self.lock();
        let now = Instant::now();
        let new = File { identity, reader: None, writer: None, read_at: now, written_at: now, is_retained: false };
        let known = open.remove(&node);
        let (mut file, mut closed) = match known {
            Some(file) if file.identity == identity => (file, Vec::new()),
            other => (new, other.into_iter().collect()),
        };
        update(&mut file);
        open.insert(node, file);
        if open.len() > self.files_max {
            // An eighth at a time, so that the search costs little for each file.
            let mut uses: Vec<Instant> = open.values().map(File::used_at).collect();
            let (_, &mut newest_closed, _) = uses.select_nth_unstable(self.files_max / 8);
            closed.extend(open.extract_if(|_, file| file.used_at() <= newest_closed).map(|(_, file)| file));
        }
        drop(open);
        drop(closed);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<NodeId, File>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl File {
    fn used_at(&self) -> Instant {
        self.read_at.max(self.written_at)
    }
}

/// Returns true if written data is visible to all nodes at once. Network file systems with close-to-open consistency
/// (NFS, SMB, AFS, 9P, FUSE) are recognised by their numbers in linux/magic.h.
fn is_coherent(file: &OwnedFd) -> bool {
    const CLOSE_TO_OPEN: [u32; 8] =
        [0x6969, 0x517b, 0xff53_4d42, 0xfe53_4d42, 0x5346_414f, 0x6b41_4653, 0x0102_1997, 0x6573_5546];
    fstatfs(file).is_ok_and(|statfs| !CLOSE_TO_OPEN.contains(&(statfs.f_type as u32)))
}

#[cfg(test)]
mod tests {
    use headwater_abi::Attr;

    use super::*;

    fn fd() -> OwnedFd {
        std::fs::File::open("/dev/null").unwrap().into()
    }

    fn identity(ino: u64) -> Identity {
        Identity::of(&Attr { ino, ..Attr::default() })
    }

    #[test]
    fn the_longest_unused_are_closed() {
        let files = Files::new(16);
        for number in 1..=17 {
            files.cache_reader(NodeId(number), identity(number), fd());
            files.reader(NodeId(1));
        }
        assert!(files.reader(NodeId(1)).is_some() && files.reader(NodeId(17)).is_some());
        assert!(files.reader(NodeId(2)).is_none() && files.reader(NodeId(3)).is_none());
        assert!(files.reader(NodeId(8)).is_some());
    }

    #[test]
    fn idle_files_are_closed_unless_they_could_not_be_opened_again() {
        let files = Files::new(16);
        files.cache_writer(NodeId(1), identity(1), fd().into(), true);
        files.cache_writer(NodeId(2), identity(2), fd().into(), false);
        let now = Instant::now();
        assert!(files.close_idle(now).is_some_and(|left| left <= WRITER_IDLE_MAX));
        files.cache_reader(NodeId(1), identity(1), fd());
        assert!(files.close_idle(now + WRITER_IDLE_MAX).is_some_and(|left| left > WRITER_IDLE_MAX));
        assert!(files.writer(NodeId(1)).is_none() && files.writer(NodeId(2)).is_some());
        assert!(files.reader(NodeId(1)).is_some());
        assert_eq!(files.close_idle(Instant::now() + READER_IDLE_MAX), None);
        assert!(files.reader(NodeId(1)).is_none() && files.writer(NodeId(2)).is_some());
    }

    #[test]
    fn another_file_is_not_taken_for_the_one_that_is_open() {
        let files = Files::new(16);
        files.cache_reader(NodeId(1), identity(1), fd());
        files.confirm(NodeId(1), identity(1));
        assert!(files.reader(NodeId(1)).is_some());
        files.confirm(NodeId(1), identity(2));
        assert!(files.reader(NodeId(1)).is_none());
    }
}
