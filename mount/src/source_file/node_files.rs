//! Which original a node of a writable mount stands for.
//!
//! In the snapshot a node is a path. What the job changes it also renames, replaces and removes, while
//! programs have it open; to them a node is a file, whatever its name. So the node of an original is
//! found by what identifies the file, and keeps its number under a new name. A name whose own number
//! is still another file's gets a spare one: the record of a path that nobody can mean. Where the table
//! has no room for that, or nobody writes it any more, it gets a number that is no record's, which a
//! successor reads in the journal.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use headwater_abi::{Attr, Path};
use headwater_fuse::NodeId;

use super::files::Files;
use super::identity::Identity;
use super::journal::Journal;
use super::served::ServedNodes;
use crate::state::tables::Tables;

/// Spare numbers of one path.
const SPARES_MAX: u32 = 64;
/// The bit of numbers that are no record's; records' numbers are below it.
const UNRECORDED: u64 = 1 << 62;
/// More than the kernel can give back: who does not know how many there are keeps what they are of.
const LOOKUPS_OF_PREDECESSORS: u64 = u64::MAX / 2;

/// What the places of originals need of the mounted tree.
pub(crate) trait Records {
    /// Writing goes to the originals.
    fn is_writable(&self) -> bool;
    /// Looks into the table, without waiting for anything.
    fn table<T>(&self, read: impl FnOnce(&Tables) -> T) -> T;
    /// The node of a path, if it has a record.
    fn node_of(&self, path: &Path) -> Option<NodeId>;
    /// Counts a look-up that the kernel will forget, and gives the path's node, if it has a record.
    fn count_lookup(&self, path: &Path) -> Option<NodeId>;
}

/// What is known of the originals behind nodes.
#[derive(Debug)]
pub(crate) struct SourceFiles {
    node_files: Mutex<NodeFiles>,
    /// The table once had no room for a record.
    lacks_records: AtomicBool,
    /// Open ones.
    pub(crate) files: Files,
    /// Those that take the place of what nobody has read.
    pub(crate) served: ServedNodes,
}

#[derive(Debug, Default)]
struct NodeFiles {
    by_node: HashMap<NodeId, NodeFile>,
    by_identity: HashMap<Identity, NodeId>,
    /// Nodes so far that have no record.
    unrecorded: u64,
    journal: Journal,
}

#[derive(Debug)]
struct NodeFile {
    identity: Identity,
    path: Path,
    /// Its only hold, once it has lost the name that it was known by.
    pin: Option<Arc<OwnedFd>>,
    /// The kernel's references, where no record counts them; of those that a predecessor gave out only
    /// that there are some.
    lookups: u64,
    /// A successor would find it in the journal.
    is_noted: bool,
}

impl SourceFiles {
    /// Keeps at most `open_max` originals open.
    pub(crate) fn new(open_max: usize) -> SourceFiles {
        SourceFiles {
            node_files: Mutex::default(),
            lacks_records: AtomicBool::new(false),
            files: Files::new(open_max),
            served: ServedNodes::default(),
        }
    }

    /// Where the original of `node` stands, if that can differ from its record's path.
    pub(crate) fn path_of(&self, node: NodeId) -> Option<Path> {
        self.lock().by_node.get(&node).map(|file| file.path.clone())
    }

    /// Notes in the file `path` what a successor must know, and goes on with what a predecessor noted.
    pub(crate) fn note_in(&self, view: &impl Records, path: &std::path::Path) -> std::io::Result<()> {
        let (journal, known) = Journal::open(path)?;
        let mut node_files = self.lock();
        node_files.journal = journal;
        for (node, (identity, path)) in known {
            let is_unrecorded = node.0 & UNRECORDED != 0;
            if is_unrecorded || view.table(|reader| reader.record(node.0).is_some_and(|record| record.lookups() > 0)) {
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

    /// The table has no room for a record.
    pub(crate) fn note_full_table(&self) {
        self.lacks_records.store(true, Ordering::Relaxed);
    }

    /// True once the table had no room for a record: then one question for each is enough.
    pub(crate) fn lacks_records(&self) -> bool {
        self.lacks_records.load(Ordering::Relaxed)
    }

    /// The path of a node that has no record.
    pub(crate) fn unrecorded(&self, node: NodeId) -> Option<Path> {
        if node.0 & UNRECORDED == 0 { None } else { self.path_of(node) }
    }

    /// The node of the original at `path`; counts as a look-up. Otherwise the path of which there has
    /// to be a record first, unless `is_last`: then there can't be one.
    pub(crate) fn claim(&self, view: &impl Records, path: &Path, attr: &Attr, is_last: bool) -> Result<NodeId, Path> {
        let (identity, is_alone) = (Identity::of(attr), attr.nlink == 1);
        // What lies too deep for a path has no record.
        let is_last = is_last || path.is_deep();
        let mut node_files = self.lock();
        if let Some(&node) = node_files.by_identity.get(&identity) {
            node_files.found(node, path, is_alone);
            node_files.count_lookup(view, node);
            return Ok(node);
        }
        if !view.is_writable() {
            match view.count_lookup(path) {
                Some(node) => return Ok(node),
                None if !is_last => return Err(path.clone()),
                None => {}
            }
        }
        let node = match node_files.free(view, path, Some(identity)) {
            Free::Node(node) => {
                // Whoever has the name's own number is to be known by more than that.
                node_files.note(view.node_of(path).filter(|own| *own != node));
                node
            }
            Free::Needs(record) if !is_last => return Err(record),
            _ => node_files.unrecorded(),
        };
        node_files.insert(node, identity, path);
        if node.0 & UNRECORDED != 0 {
            node_files.note([node]);
        }
        node_files.count_lookup(view, node);
        Ok(node)
    }

    /// The path of which there has to be a record, so that a new file at `path` will have a node.
    pub(crate) fn wanted_for(&self, view: &impl Records, path: &Path) -> Option<Path> {
        match self.lock().free(view, path, None) {
            Free::Needs(record) => Some(record).filter(|record| !record.is_deep()),
            _ => None,
        }
    }

    /// Says which original `node` stands for, unless that is known.
    pub(crate) fn settle(&self, node: NodeId, path: &Path, identity: Identity) {
        let mut node_files = self.lock();
        if node != NodeId::ROOT
            && !node_files.by_node.contains_key(&node)
            && !node_files.by_identity.contains_key(&identity)
        {
            node_files.insert(node, identity, path);
        }
    }

    /// Says that `node`, of which that was not settled, stands for another original now. False if it stands for
    /// one already that is not this.
    pub(super) fn adopt(&self, node: NodeId, path: &Path, identity: Identity) -> bool {
        let mut node_files = self.lock();
        if let Some(file) = node_files.by_node.get(&node) {
            return file.identity == identity;
        }
        // The name may have been looked up since, and have a node of its own.
        let known = node_files.by_identity.get(&identity).copied();
        node_files.insert(node, identity, path);
        if let Some(known) = known {
            node_files.by_identity.insert(identity, known);
        }
        node_files.note([node]);
        true
    }

    /// What must stand where `node` is, if that is known.
    pub(crate) fn expected(&self, view: &impl Records, node: NodeId) -> Option<Identity> {
        if !view.is_writable() || node == NodeId::ROOT {
            return None;
        }
        if let Some(file) = self.lock().by_node.get(&node) {
            return Some(file.identity);
        }
        view.table(|reader| reader.record(node.0)?.attr()).map(|attr| Identity::of(&attr))
    }

    /// The descriptor of an original that has lost its name.
    pub(crate) fn pinned(&self, node: NodeId) -> Option<Arc<OwnedFd>> {
        self.lock().by_node.get(&node).and_then(|file| file.pin.clone())
    }

    /// The node that the kernel has for what stands at `path`, and may go on using without its name.
    pub(crate) fn used(&self, view: &impl Records, path: &Path, identity: Identity) -> Option<NodeId> {
        let node_files = self.lock();
        if let Some(&node) = node_files.by_identity.get(&identity) {
            return Some(node);
        }
        let node = view.table(|reader| {
            let record = reader.find(path.as_bytes())?;
            (record.lookups() > 0).then(|| NodeId(record.index()))
        });
        node.filter(|node| !node_files.by_node.contains_key(node))
    }

    /// The original of `node` loses its name at `path`, and is kept by `fd` until the kernel forgets it.
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

    /// What stood at `from`, and with it all below, stands at `to` now; `identity` is what has moved.
    pub(crate) fn moved(&self, view: &impl Records, identity: Identity, from: &Path, to: &Path) {
        self.settle_tree(view, from, identity);
        self.rewrite(|path| moved_path(path, from, to));
    }

    /// What stood at two paths has changed places, with all that is below.
    pub(crate) fn exchanged(&self, view: &impl Records, one: (&Path, Identity), other: (&Path, Identity)) {
        self.settle_tree(view, one.0, one.1);
        self.settle_tree(view, other.0, other.1);
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

    /// Notes what the kernel has of `path` and, if that is a directory, of all below it: so far these
    /// nodes were what their paths say.
    fn settle_tree(&self, view: &impl Records, path: &Path, identity: Identity) {
        if let Some(node) = self.used(view, path, identity) {
            self.settle(node, path, identity);
        }
        if !identity.is_directory() {
            return;
        }
        let below: Vec<(NodeId, Path, Identity)> = view.table(|reader| {
            let used = reader.records().filter(|record| record.lookups() > 0);
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

    /// The kernel has forgotten `lookups` references to a node that has no record.
    pub(crate) fn release(&self, view: &impl Records, node: NodeId, lookups: u64) {
        if let Some(file) = self.lock().by_node.get_mut(&node) {
            file.lookups = file.lookups.saturating_sub(lookups);
        }
        self.forget(view, node);
    }

    /// The kernel has forgotten `node`.
    pub(crate) fn forget(&self, view: &impl Records, node: NodeId) {
        let mut node_files = self.lock();
        // A look-up may have come in between.
        if node_files.by_node.get(&node).is_some_and(|file| file.lookups > 0)
            || view.table(|reader| reader.record(node.0).is_some_and(|record| record.lookups() > 0))
        {
            return;
        }
        let file = node_files.by_node.remove(&node);
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
        self.files.close(node);
    }

    fn lock(&self) -> MutexGuard<'_, NodeFiles> {
        self.node_files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl NodeFiles {
    fn insert(&mut self, node: NodeId, identity: Identity, path: &Path) {
        self.by_node.insert(node, NodeFile { identity, path: path.clone(), pin: None, lookups: 0, is_noted: false });
        self.by_identity.insert(identity, node);
    }

    /// The original of `node` was found at `path`, which is its only name if it `is_alone`.
    fn found(&mut self, node: NodeId, path: &Path, is_alone: bool) {
        let Some(file) = self.by_node.get_mut(&node).filter(|file| file.path != *path) else { return };
        file.path = path.clone();
        if is_alone || file.is_noted {
            self.note([node]);
        }
    }

    /// Notes where the originals of `nodes` stand.
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

    /// Counts a look-up.
    fn count_lookup(&mut self, view: &impl Records, node: NodeId) {
        match self.by_node.get_mut(&node).filter(|_| node.0 & UNRECORDED != 0) {
            Some(file) => file.lookups += 1,
            None => view.table(|reader| reader.record(node.0).iter().for_each(|record| record.pin(1))),
        }
    }

    /// A number that stands for nothing else than what is to be at `path`.
    fn free(&self, view: &impl Records, path: &Path, identity: Option<Identity>) -> Free {
        for candidate in (0..SPARES_MAX).map_while(|number| spare(path, number)) {
            let found = view.table(|reader| {
                let record = reader.find(candidate.as_bytes())?;
                // The kernel may have the snapshot's file of this path, which can be another one.
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

/// What there is to number a path with.
enum Free {
    Node(NodeId),
    /// A record, once there is one of this path.
    Needs(Path),
    None,
}

/// The path whose record lends its number to `path`: the path itself first, then ones that start with
/// `/..`, which no cleaned walk of the tree gives.
fn spare(path: &Path, number: u32) -> Option<Path> {
    if number == 0 {
        return Some(path.clone());
    }
    Path::new(&[format!("/../{number}").as_bytes(), path.as_bytes()].concat())
}

/// The path that a record stands for: [`spare`] undone.
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
