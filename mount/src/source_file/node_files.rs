//! Which source file each node of a writable mount represents.
//!
//! In the snapshot a node is a path. A job renames, replaces and removes files while programs have them open; for these
//! a node is a file, whatever its name. So a source file's node is found by the file's identity, and keeps its number
//! under a new name. If a name's own number still belongs to another file, the name gets a spare number: that of a path
//! that can't occur. If the table has no room or no writer, the node gets a number without a record, which a successor
//! finds in the journal.

use std::collections::{HashMap, VecDeque};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use headwater_abi::{Attr, Path};
use headwater_fuse::NodeId;
use rustix::fs::{Mode, OFlags, fcntl_getfl};
use rustix::io::Errno;

use super::files::Files;
use super::identity::Identity;
use super::journal::Journal;
use super::kept::KeptPages;
use super::locks::queue::Locks;
use super::served::ServedNodes;
use crate::state::tables::TreeTables;

/// Spare numbers for one path.
const SPARES_MAX: u32 = 64;
/// Set in numbers without a record; records' numbers are smaller.
const UNRECORDED: u64 = 1 << 62;
/// More look-ups than the kernel can forget: their number is unknown, so the node is never released by count.
const LOOKUPS_OF_PREDECESSORS: u64 = u64::MAX / 2;

/// Nodes without an anchor any more that are not searched for.
const ANCHORED_MIN: usize = 1024;

/// The source files of nodes.
#[derive(Debug)]
pub(crate) struct SourceFiles {
    /// Writing goes to the source files.
    is_writable: bool,
    node_files: Mutex<NodeFiles>,
    /// The table has once had no room for a record.
    lacks_records: AtomicBool,
    /// The open ones.
    pub(crate) files: Files,
    /// Nodes of which the kernel may have content.
    pub(crate) served: ServedNodes,
    /// Files of which the kernel has pages.
    pub(crate) kept: KeptPages,
    /// Those that are locked.
    pub(crate) locks: Arc<Locks>,
    /// Threads that drop a directory's names.
    pub(super) dropping: AtomicUsize,
}

#[derive(Debug, Default)]
struct NodeFiles {
    by_node: HashMap<NodeId, NodeFile>,
    by_identity: HashMap<Identity, NodeId>,
    /// Nodes with an anchor, the first ones first.
    anchored: VecDeque<NodeId>,
    /// The number of nodes without a record so far.
    unrecorded: u64,
    journal: Journal,
}

#[derive(Debug)]
struct NodeFile {
    identity: Identity,
    path: Path,
    /// Keeps the file reachable after it has lost its name.
    pin: Option<Arc<OwnedFd>>,
    /// Leads to the file whatever other nodes do to its name.
    anchor: Option<Arc<OwnedFd>>,
    /// The anchor was used since the set of anchors was last searched for one that can be dropped.
    is_anchor_used: bool,
    /// The kernel's references to a node without a record. For a predecessor's node the exact number is unknown.
    lookups: u64,
    /// The journal has it.
    is_noted: bool,
}

impl SourceFiles {
    /// Creates the set, with at most `open_max` open source files. With `is_writable`, writing goes to them.
    pub(crate) fn new(open_max: usize, is_writable: bool) -> SourceFiles {
        SourceFiles {
            is_writable,
            node_files: Mutex::default(),
            lacks_records: AtomicBool::new(false),
            files: Files::new(open_max),
            served: ServedNodes::default(),
            kept: KeptPages::default(),
            locks: Arc::default(),
            dropping: AtomicUsize::new(0),
        }
    }

    /// Returns the path of the source file of `node`, if it may differ from its record's.
    pub(crate) fn path_of(&self, node: NodeId) -> Option<Path> {
        self.lock().by_node.get(&node).map(|file| file.path.clone())
    }

    /// Returns the node of the source file at this path, if its record does not have it.
    pub(crate) fn node_at(&self, path: &Path) -> Option<NodeId> {
        self.lock().by_node.iter().find_map(|(node, file)| (file.path == *path).then_some(*node))
    }

    /// Returns the nodes of source files below this path.
    pub(crate) fn nodes_below(&self, path: &Path) -> Vec<(Path, NodeId)> {
        let node_files = self.lock();
        let below = node_files.by_node.iter().filter(|(_, file)| file.path.is_within(path) && file.path != *path);
        below.map(|(node, file)| (file.path.clone(), *node)).collect()
    }

    /// Opens the journal at `path` and restores a predecessor's entries.
    pub(crate) fn note_in(&self, tables: &TreeTables, path: &std::path::Path) -> std::io::Result<()> {
        let (journal, known) = Journal::open(path)?;
        let mut node_files = self.lock();
        node_files.journal = journal;
        for (node, (identity, path)) in known {
            let is_unrecorded = node.0 & UNRECORDED != 0;
            if is_unrecorded || tables.read(|tables| tables.record(node.0).is_some_and(|record| record.lookups() > 0)) {
                node_files.insert(node, identity, &path);
                let lookups = if is_unrecorded { LOOKUPS_OF_PREDECESSORS } else { 0 };
                node_files.by_node.entry(node).and_modify(|file| (file.is_noted, file.lookups) = (true, lookups));
            }
            if is_unrecorded {
                node_files.unrecorded = node_files.unrecorded.max(node.0 & !UNRECORDED);
            }
        }
        Ok(())
    }

    /// Notes that the table has no room for a record.
    pub(crate) fn note_full_table(&self) {
        self.lacks_records.store(true, Ordering::Relaxed);
    }

    /// Returns true once the table had no room for a record: then each request asks only once.
    pub(crate) fn lacks_records(&self) -> bool {
        self.lacks_records.load(Ordering::Relaxed)
    }

    /// Returns the path of a node without a record.
    pub(crate) fn unrecorded(&self, node: NodeId) -> Option<Path> {
        if node.0 & UNRECORDED == 0 { None } else { self.path_of(node) }
    }

    /// Returns the node of the source file at `path` and counts a look-up. Otherwise returns the path that needs a
    /// record first, unless `is_last`: then there can't be one.
    pub(crate) fn claim(&self, tables: &TreeTables, path: &Path, attr: &Attr, is_last: bool) -> Result<NodeId, Path> {
        let (identity, is_alone) = (Identity::of(attr), attr.nlink == 1);
        // A path that is too deep has no record.
        let is_last = is_last || path.is_deep();
        let mut node_files = self.lock();
        if let Some(&node) = node_files.by_identity.get(&identity) {
            node_files.found(node, path, is_alone);
            node_files.count_lookup(tables, node);
            return Ok(node);
        }
        if !self.is_writable {
            match tables.count_lookup(path) {
                Some(node) => return Ok(node),
                None if !is_last => return Err(path.clone()),
                None => {}
            }
        }
        let node = match node_files.free(tables, path, Some(identity)) {
            Free::Node(node) => {
                // The journal must also identify the owner of the name's own number.
                node_files.note(tables.node_of(path).filter(|own| *own != node));
                node
            }
            Free::Needs(record) if !is_last => return Err(record),
            _ => node_files.unrecorded(),
        };
        node_files.insert(node, identity, path);
        if node.0 & UNRECORDED != 0 {
            node_files.note([node]);
        }
        node_files.count_lookup(tables, node);
        Ok(node)
    }

    /// Returns the path that needs a record before a new file at `path` can have a node.
    pub(crate) fn wanted_for(&self, tables: &TreeTables, path: &Path) -> Option<Path> {
        match self.lock().free(tables, path, None) {
            Free::Needs(record) => Some(record).filter(|record| !record.is_deep()),
            _ => None,
        }
    }

    /// Binds `node` to this source file, unless it or the file is bound.
    pub(crate) fn settle(&self, node: NodeId, path: &Path, identity: Identity) {
        let mut node_files = self.lock();
        if node != NodeId::ROOT
            && !node_files.by_node.contains_key(&node)
            && !node_files.by_identity.contains_key(&identity)
        {
            node_files.insert(node, identity, path);
        }
    }

    /// Binds `node`, which was not bound, to another source file. Returns false if it is bound to a different one.
    pub(super) fn adopt(&self, node: NodeId, path: &Path, identity: Identity) -> bool {
        let mut node_files = self.lock();
        if let Some(file) = node_files.by_node.get(&node) {
            return file.identity == identity;
        }
        // A look-up of the name may have given the file its own node in between.
        let known = node_files.by_identity.get(&identity).copied();
        node_files.insert(node, identity, path);
        if let Some(known) = known {
            node_files.by_identity.insert(identity, known);
        }
        node_files.note([node]);
        true
    }

    /// Returns the identity of the source file that `node` is bound to.
    pub(crate) fn bound(&self, node: NodeId) -> Option<Identity> {
        self.lock().by_node.get(&node).map(|file| file.identity)
    }

    /// Returns the identity that the source file of `node` must have, if it is known.
    pub(crate) fn expected(&self, tables: &TreeTables, node: NodeId) -> Option<Identity> {
        if !self.is_writable || node == NodeId::ROOT {
            return None;
        }
        if let Some(file) = self.lock().by_node.get(&node) {
            return Some(file.identity);
        }
        tables.read(|tables| tables.record(node.0)?.attr()).map(|attr| Identity::of(&attr))
    }

    /// Returns the descriptor that leads to the source file of `node` without its name, if there is one.
    pub(crate) fn anchor(&self, node: NodeId) -> Option<Arc<OwnedFd>> {
        let mut node_files = self.lock();
        let file = node_files.by_node.get_mut(&node)?;
        file.is_anchor_used = true;
        file.pin.clone().or_else(|| file.anchor.clone())
    }

    /// Keeps a descriptor of the source file of `node`, until the kernel forgets the node or others need the space.
    /// Another node may rename, remove or replace the file while a process here has it open, which the kernel does not
    /// report. Directories are found by their names, so that a name that was moved away leads nowhere.
    pub(crate) fn set_anchor(&self, node: NodeId, identity: Identity, fd: &Arc<OwnedFd>) {
        let is_wanted = |file: &NodeFile| file.identity == identity && file.pin.is_none() && file.anchor.is_none();
        if !self.is_writable || !identity.is_file() || !self.lock().by_node.get(&node).is_some_and(is_wanted) {
            return;
        }
        if let Ok(anchor) = without_access(fd) {
            let dropped = self.lock().set_anchor(node, identity, anchor, self.files.files_max);
            drop(dropped);
        }
    }

    /// Returns the node that the kernel has for the file at `path` and may continue to use.
    pub(crate) fn used(&self, tables: &TreeTables, path: &Path, identity: Identity) -> Option<NodeId> {
        let node_files = self.lock();
        if let Some(&node) = node_files.by_identity.get(&identity) {
            return Some(node);
        }
        let node = tables.read(|tables| {
            let record = tables.find(path.as_bytes())?;
            (record.lookups() > 0).then(|| NodeId(record.index()))
        });
        node.filter(|node| !node_files.by_node.contains_key(node))
    }

    /// Pins the source file of `node`, which loses its name at `path`, by `fd` until the kernel forgets the node.
    pub(crate) fn pin(&self, node: NodeId, path: &Path, identity: Identity, fd: Arc<OwnedFd>) {
        let mut node_files = self.lock();
        if !node_files.by_node.contains_key(&node) {
            node_files.insert(node, identity, path);
        }
        if let Some(file) = node_files.by_node.get_mut(&node)
            && file.path == *path
        {
            file.pin = Some(fd);
            self.files.retain(node);
        }
        node_files.note([node]);
    }

    /// Records that the file `identity` moved from `from` to `to`, with all below it.
    pub(crate) fn moved(&self, tables: &TreeTables, identity: Identity, from: &Path, to: &Path) {
        self.settle_tree(tables, from, identity);
        self.rewrite(|path| moved_path(path, from, to));
    }

    /// Records that two paths were exchanged, with all below them.
    pub(crate) fn exchanged(&self, tables: &TreeTables, one: (&Path, Identity), other: (&Path, Identity)) {
        self.settle_tree(tables, one.0, one.1);
        self.settle_tree(tables, other.0, other.1);
        self.rewrite(|path| moved_path(path, one.0, other.0).or_else(|| moved_path(path, other.0, one.0)));
    }

    fn rewrite(&self, path: impl Fn(&Path) -> Option<Path>) {
        let mut node_files = self.lock();
        let mut changed = Vec::new();
        for (node, file) in node_files.by_node.iter_mut().filter(|(_, file)| file.pin.is_none()) {
            if let Some(path) = path(&file.path) {
                file.path = path;
                changed.push(*node);
            }
        }
        node_files.note(changed);
    }

    /// Binds the kernel's node for `path` and, for a directory, those of all paths below it; so far their records
    /// identified them.
    fn settle_tree(&self, tables: &TreeTables, path: &Path, identity: Identity) {
        if let Some(node) = self.used(tables, path, identity) {
            self.settle(node, path, identity);
        }
        if !identity.is_directory() {
            return;
        }
        let below: Vec<(NodeId, Path, Identity)> = tables.read(|tables| {
            let used = tables.records().filter(|record| record.lookups() > 0);
            let used = used.filter_map(|record| {
                let path = Path::new(&record.path()?)?;
                Some((NodeId(record.index()), path, Identity::of(&record.attr()?)))
            });
            used.filter(|(_, below, _)| below.is_within(path) && below != path).collect()
        });
        for (node, path, identity) in below {
            self.settle(node, &path, identity);
        }
    }

    /// Drops `lookups` references of the kernel to a node without a record.
    pub(crate) fn release(&self, tables: &TreeTables, node: NodeId, lookups: u64) {
        if let Some(file) = self.lock().by_node.get_mut(&node) {
            file.lookups = file.lookups.saturating_sub(lookups);
        }
        self.forget(tables, node);
    }

    /// Releases a node that the kernel has forgotten.
    pub(crate) fn forget(&self, tables: &TreeTables, node: NodeId) {
        let mut node_files = self.lock();
        // A look-up may have happened in between.
        if node_files.by_node.get(&node).is_some_and(|file| file.lookups > 0)
            || tables.read(|tables| tables.record(node.0).is_some_and(|record| record.lookups() > 0))
        {
            return;
        }
        let file = node_files.by_node.remove(&node);
        if node_files.anchored.len() > 2 * node_files.by_node.len() + ANCHORED_MIN {
            let NodeFiles { by_node, anchored, .. } = &mut *node_files;
            anchored.retain(|node| by_node.get(node).is_some_and(|file| file.anchor.is_some()));
        }
        if let Some(file) = &file {
            if node_files.by_identity.get(&file.identity) == Some(&node) {
                node_files.by_identity.remove(&file.identity);
            }
            if file.is_noted {
                node_files.log(&[(node, None)]);
            }
        }
        drop(node_files);
        drop(file);
        self.served.forget(node);
        self.kept.forget(node);
        self.locks.forget(node);
        self.files.close(node);
    }

    fn lock(&self) -> MutexGuard<'_, NodeFiles> {
        self.node_files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl NodeFiles {
    fn insert(&mut self, node: NodeId, identity: Identity, path: &Path) {
        let file = NodeFile {
            identity,
            path: path.clone(),
            pin: None,
            anchor: None,
            is_anchor_used: false,
            lookups: 0,
            is_noted: false,
        };
        self.by_node.insert(node, file);
        self.by_identity.insert(identity, node);
    }

    /// Sets an anchor. Beyond `anchors_max`, returns those that were not used for longest, to be closed.
    fn set_anchor(
        &mut self,
        node: NodeId,
        identity: Identity,
        anchor: Arc<OwnedFd>,
        anchors_max: usize,
    ) -> Vec<Arc<OwnedFd>> {
        match self.by_node.get_mut(&node) {
            Some(file) if file.identity == identity && file.anchor.is_none() => {
                file.anchor = Some(anchor);
                self.anchored.push_back(node);
            }
            _ => return Vec::new(),
        }
        let mut dropped = Vec::new();
        while self.anchored.len() > anchors_max
            && let Some(oldest) = self.anchored.pop_front()
        {
            let Some(file) = self.by_node.get_mut(&oldest).filter(|file| file.anchor.is_some()) else { continue };
            if std::mem::take(&mut file.is_anchor_used) {
                self.anchored.push_back(oldest);
            } else {
                dropped.extend(file.anchor.take());
            }
        }
        dropped
    }

    /// Records that the source file of `node` is at `path`, which is its only name if `is_alone`.
    fn found(&mut self, node: NodeId, path: &Path, is_alone: bool) {
        let Some(file) = self.by_node.get_mut(&node).filter(|file| file.path != *path) else { return };
        file.path = path.clone();
        if is_alone || file.is_noted {
            self.note([node]);
        }
    }

    /// Writes the paths of the source files of `nodes` to the journal.
    fn note(&mut self, nodes: impl IntoIterator<Item = NodeId>) {
        let mut entries = Vec::new();
        for node in nodes {
            if let Some(file) = self.by_node.get_mut(&node) {
                file.is_noted = true;
                entries.push((node, Some((file.identity, file.path.clone()))));
            }
        }
        self.log(&entries);
    }

    fn log(&mut self, entries: &[(NodeId, Option<(Identity, Path)>)]) {
        let noted = self.by_node.iter().filter(|(_, file)| file.is_noted);
        let all = noted.map(|(node, file)| (*node, Some((file.identity, &file.path))));
        let entries =
            entries.iter().map(|(node, file)| (*node, file.as_ref().map(|(identity, path)| (*identity, path))));
        self.journal.note(entries, || all);
    }

    fn unrecorded(&mut self) -> NodeId {
        self.unrecorded += 1;
        NodeId(UNRECORDED | self.unrecorded)
    }

    fn count_lookup(&mut self, tables: &TreeTables, node: NodeId) {
        match self.by_node.get_mut(&node).filter(|_| node.0 & UNRECORDED != 0) {
            Some(file) => file.lookups += 1,
            None => tables.read(|tables| tables.record(node.0).iter().for_each(|record| record.pin(1))),
        }
    }

    /// Returns a free number for the file that is, or will be, at `path`.
    fn free(&self, tables: &TreeTables, path: &Path, identity: Option<Identity>) -> Free {
        for candidate in (0..SPARES_MAX).map_while(|number| spare(path, number)) {
            let found = tables.read(|tables| {
                let record = tables.find(candidate.as_bytes())?;
                // The kernel may use the snapshot's file of this path, which can be another file.
                let other = record.attr().is_some_and(|attr| Some(Identity::of(&attr)) != identity);
                Some((NodeId(record.index()), other && record.lookups() > 0))
            });
            match found {
                None => return Free::Needs(candidate),
                Some((node, is_taken)) if is_taken || self.by_node.contains_key(&node) => {}
                Some((node, _)) => return Free::Node(node),
            }
        }
        Free::None
    }
}

/// Returns a descriptor of the same file that gives no access: what is open for writing can't be executed.
fn without_access(fd: &Arc<OwnedFd>) -> Result<Arc<OwnedFd>, Errno> {
    if fcntl_getfl(fd)?.contains(OFlags::PATH) {
        return Ok(Arc::clone(fd));
    }
    let link = format!("/proc/self/fd/{}", fd.as_raw_fd());
    rustix::fs::open(link, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).map(Arc::new)
}

/// A number for a path.
enum Free {
    Node(NodeId),
    /// The path whose record would supply one.
    Needs(Path),
    None,
}

/// Returns the path whose record supplies number `number` for `path`: the path itself, then paths that start with
/// `/..`, which a cleaned path never does.
fn spare(path: &Path, number: u32) -> Option<Path> {
    if number == 0 {
        return Some(path.clone());
    }
    Path::new(&[format!("/../{number}").as_bytes(), path.as_bytes()].concat())
}

/// Returns the path that a record represents; the inverse of [`spare`].
pub(crate) fn path_of_spare(raw: &[u8]) -> &[u8] {
    let Some(rest) = raw.strip_prefix(b"/../") else { return raw };
    rest.iter().position(|&byte| byte == b'/').map_or(raw, |slash| &rest[slash..])
}

fn moved_path(path: &Path, from: &Path, to: &Path) -> Option<Path> {
    let below = path.is_within(from).then(|| &path.as_bytes()[from.as_bytes().len()..])?;
    Path::deep(&[to.as_bytes(), below].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> Path {
        Path::new(text.as_bytes()).unwrap()
    }

    #[test]
    fn spare_paths_lead_back() {
        for number in [0, 1, 63] {
            let spare = spare(&path("/sw/lib/x"), number).unwrap();
            assert_eq!(path_of_spare(spare.as_bytes()), b"/sw/lib/x");
        }
        assert_ne!(spare(&path("/a"), 1), spare(&path("/a"), 2));
        assert_eq!(path_of_spare(b"/.."), b"/..");
    }

    #[test]
    fn what_lies_below_moves_too() {
        let cases = [("/a", Some("/x/y")), ("/a/b", Some("/x/y/b")), ("/ab", None), ("/", None)];
        for (given, expected) in cases {
            assert_eq!(moved_path(&path(given), &path("/a"), &path("/x/y")), expected.map(path), "{given}");
        }
    }
}
