//! What everything that serves the mount shares: the table seen as a tree of nodes, and what is served
//! from where.
//!
//! A node's number is the number of its record in the table, so it outlives the daemon that gave it
//! out. The root is the exception: it is 1, and stands for the record of the mount's root path.

use std::borrow::Cow;
use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock, RwLockWriteGuard};
use std::time::Duration;

use headwater_abi::path::PATH_BYTES_MAX;
use headwater_abi::table::{Reader, Record, State};
use headwater_abi::{Attr, Path};
use headwater_fuse::init::Opening;
use headwater_fuse::reply::FOREVER;
use headwater_fuse::{Entry, Negotiated, NodeId};
use headwater_store::{Blocks, in_scope};
use rustix::fs::StatVfs;
use rustix::io::Errno;
use thiserror::Error;

use crate::config::MountConfig;
use crate::source_file::node_files::{Records, SourceFiles, path_of_spare};
use crate::state::contents::Contents;
use crate::state::counters::Counters;
use crate::state::notices::Notices;
use crate::state::tables::{OlderTable, Own, Tables};

/// Names of more bytes fail as they do in the original.
pub(crate) const NAME_BYTES_MAX: usize = 255;
/// How long names are believed where the kernel can't be told that all of them may have changed, and the
/// mount is to outlive many such changes.
const NAMES_TTL: Duration = Duration::from_secs(10);

/// A mounted tree.
pub(crate) struct View {
    /// Held shared while records are looked at, exclusively while some are reclaimed.
    tables: RwLock<Tables>,
    /// The directory that the mount shows.
    pub(crate) root: Path,
    scope: Vec<(bool, Path)>,
    hidden: HashSet<Path>,
    own_groups: Vec<u32>,
    own_gid: u32,
    /// The device whose inode numbers are shown as they are; see [`View::ino`].
    base_device: OnceLock<(u32, u32)>,
    statfs: OnceLock<StatVfs>,
    /// How files are opened.
    pub(crate) opening: Opening,
    /// What was agreed on in INIT.
    pub(crate) negotiated: Negotiated,
    /// Writing goes to the original; otherwise it is refused.
    pub(crate) is_writable: bool,
    /// Absolute link targets within the view are shown as relative ones.
    pub(crate) keeps_links_inside: bool,
    /// Open copies.
    pub(crate) contents: Contents,
    /// Files of which some blocks are in the store.
    pub(crate) blocks: Arc<Blocks>,
    /// Larger files are fetched in blocks.
    pub(crate) whole_file_bytes_max: u64,
    /// False where this machine has no way to the originals, or only through the mount itself.
    pub(crate) has_source: bool,
    /// How long the kernel may believe names.
    pub(crate) names_ttl: Duration,
    /// Where the size of the file system is asked for.
    sized_as: PathBuf,
    /// What is behind the nodes that originals serve.
    pub(crate) source_files: SourceFiles,
    /// True once everything below some directory has gone live.
    pub(crate) has_passthrough_trees: AtomicBool,
    /// What was served.
    pub(crate) counters: Counters,
    /// What the kernel is to be told.
    pub(crate) notices: Notices,
}

/// What a [`View`] is made of.
pub(crate) struct Parts {
    /// The node's table.
    pub(crate) reader: Reader<'static>,
    /// Tables of older generations that the kernel may still use nodes of, in order.
    pub(crate) older: Vec<OlderTable>,
    /// The mirror's prefix.
    pub(crate) store: PathBuf,
    /// Included and excluded directories.
    pub(crate) scope: Vec<(bool, Path)>,
    /// Files of which some blocks are in the store.
    pub(crate) blocks: Arc<Blocks>,
    /// Larger files are fetched in blocks.
    pub(crate) whole_file_bytes_max: u64,
    /// Whether this machine has the originals.
    pub(crate) has_source: bool,
    /// Originals that may be open at once.
    pub(crate) descriptors_max: usize,
}

/// A directory of the mount is no absolute path.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("the mount names \"{0}\", which is not an absolute path")]
pub(crate) struct NotAbsolute(String);

/// Who answers for a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServedBy {
    /// The session's snapshot.
    Snapshot,
    /// The original: the path is live or outside of the scope.
    SourceFile,
    /// Nobody: an empty directory is shown.
    Hidden,
}

/// A node as the table has it at one moment. The kernel refers to it, so its record stays.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    /// Its number.
    pub(crate) node: NodeId,
    /// Its path.
    pub(crate) path: Path,
    /// What the table says of it.
    pub(crate) record: Record<'static>,
}

impl View {
    /// The tree that `config` describes.
    ///
    /// # Errors
    /// A directory is no absolute path.
    pub(crate) fn new(config: &MountConfig, parts: Parts) -> Result<View, NotAbsolute> {
        let clean = |text: &String| Path::new(text.as_bytes()).ok_or_else(|| NotAbsolute(text.clone()));
        Ok(View {
            tables: RwLock::new(Tables::new(parts.reader, &parts.older)),
            root: clean(&config.root)?,
            sized_as: if parts.has_source { config.root.clone().into() } else { parts.store.clone() },
            has_source: parts.has_source,
            names_ttl: names_ttl(&config.negotiated, parts.has_source),
            scope: parts.scope,
            hidden: config.hidden.iter().map(clean).collect::<Result<_, _>>()?,
            own_groups: config.shown_as_own_group.clone(),
            own_gid: rustix::process::getegid().as_raw(),
            base_device: OnceLock::new(),
            statfs: OnceLock::new(),
            opening: config.opening,
            negotiated: config.negotiated,
            is_writable: config.is_writable,
            keeps_links_inside: config.keeps_links_inside,
            contents: Contents::new(parts.store, parts.older),
            blocks: parts.blocks,
            whole_file_bytes_max: parts.whole_file_bytes_max,
            source_files: SourceFiles::new(parts.descriptors_max),
            has_passthrough_trees: AtomicBool::new(true),
            counters: Counters::default(),
            notices: Notices::default(),
        })
    }

    /// Looks into the table. `read` must not wait for anything: whoever reclaims records waits for it.
    pub(crate) fn table<T>(&self, read: impl FnOnce(&Tables) -> T) -> T {
        read(&self.tables.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Keeps everybody out of the table, so that records can be reclaimed or another table takes its
    /// place.
    pub(crate) fn reclaiming(&self) -> RwLockWriteGuard<'_, Tables> {
        self.tables.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the table says of a node; `None` if there is no such node (any more).
    pub(crate) fn known(&self, node: NodeId) -> Option<Known> {
        if node == NodeId::ROOT {
            let record = self.table(|reader| reader.find(self.root.as_bytes()))?;
            return Some(Known { node, path: self.root.clone(), record });
        }
        let moved = self.source_files.path_of(node);
        self.table(|reader| {
            let Own { record: own, is_superseded } = reader.own(node.0)?;
            let path = moved.map_or_else(|| Path::new(path_of_spare(&own.path()?)), Some)?;
            let newest = reader.find(path.as_bytes()).filter(|_| !is_superseded);
            Some(Known { node, record: newest.unwrap_or(own), path })
        })
    }

    /// The path of a node.
    pub(crate) fn path_of(&self, node: NodeId) -> Option<Path> {
        if node == NodeId::ROOT {
            return Some(self.root.clone());
        }
        let moved = self.source_files.path_of(node);
        moved.or_else(|| self.table(|reader| Path::new(path_of_spare(&reader.own(node.0)?.record.path()?))))
    }

    /// The node of a path, if it has a record.
    pub(crate) fn node_of(&self, path: &Path) -> Option<NodeId> {
        if *path == self.root {
            return Some(NodeId::ROOT);
        }
        self.table(|reader| reader.find(path.as_bytes()).map(|record| NodeId(record.index())))
    }

    /// Counts a look-up that the kernel will forget, and gives the path's node; `None` if it has no
    /// record yet: ask for [`Demand::Record`].
    pub(crate) fn count_lookup(&self, path: &Path) -> Option<NodeId> {
        self.table(|reader| {
            let record = reader.find(path.as_bytes())?;
            record.pin(1);
            Some(NodeId(record.index()))
        })
    }

    /// Takes back look-ups that the kernel has forgotten, or never heard of.
    pub(crate) fn release(&self, node: NodeId, lookups: u64) {
        if self.source_files.unrecorded(node).is_some() {
            self.source_files.release(self, node, lookups);
        } else if node != NodeId::ROOT
            && self.table(|reader| reader.own(node.0).map(|own| own.record.release(lookups))) == Some(0)
        {
            self.source_files.forget(self, node);
        }
    }

    /// Who answers for this path, whose record has these bits.
    pub(crate) fn served_by(&self, path: &Path, state: State) -> ServedBy {
        if self.hidden.contains(path) {
            ServedBy::Hidden
        } else if state.intersects(State::PASSTHROUGH | State::TREE_PASSTHROUGH | State::LISTING_PASSTHROUGH)
            || path.is_deep()
            || !self.in_scope(path)
            || self.has_passthrough_trees.load(Ordering::Relaxed) && self.table(|reader| is_in_tree(reader, path))
        {
            ServedBy::SourceFile
        } else {
            ServedBy::Snapshot
        }
    }

    /// True if the original alone tells what `path` is, and with `tree` all that is below it: the job
    /// changes it, or it is outside of the scope.
    pub(crate) fn is_passthrough(&self, path: &Path, tree: bool) -> bool {
        let bits = if tree { State::TREE_PASSTHROUGH } else { State::PASSTHROUGH | State::TREE_PASSTHROUGH };
        !self.in_scope(path)
            || self.table(|reader| {
                reader.find(path.as_bytes()).is_some_and(|record| record.state.intersects(bits))
                    || self.has_passthrough_trees.load(Ordering::Relaxed) && is_in_tree(reader, path)
            })
    }

    /// True if the session answers for the path as far as it knows it.
    pub(crate) fn in_scope(&self, path: &Path) -> bool {
        in_scope(&self.scope, path)
    }

    /// True if an empty directory is shown at this path.
    pub(crate) fn is_hidden(&self, path: &Path) -> bool {
        self.hidden.contains(path)
    }

    /// True for a directory outside of the scope on the way to what is inside: as lasting as the
    /// session.
    pub(crate) fn leads_to_scope(&self, path: &Path) -> bool {
        self.scope.iter().any(|(included, directory)| *included && directory != path && directory.is_within(path))
    }

    /// An original's attributes as the mount shows them.
    pub(crate) fn shown(&self, attr: &Attr) -> Attr {
        let gid = if self.own_groups.contains(&attr.gid) { self.own_gid } else { attr.gid };
        Attr { gid, ino: self.ino((attr.dev_major, attr.dev_minor), attr.ino), ..*attr }
    }

    /// The inode number that stands for one of `device`. A mount that is no namespace is one device
    /// to its users, so where it spans several file systems the numbers of those other than the
    /// root's are set apart; otherwise a walk of the tree would take two directories for one.
    pub(crate) fn ino(&self, device: (u32, u32), ino: u64) -> u64 {
        if !self.keeps_links_inside || self.base_device() == Some(device) {
            return ino;
        }
        ino ^ (u64::from(device.0 & 0xff) << 56 | u64::from(device.1 & 0xff) << 48)
    }

    fn base_device(&self) -> Option<(u32, u32)> {
        if let Some(&known) = self.base_device.get() {
            return Some(known);
        }
        let device = if self.in_scope(&self.root) {
            let attr = self.table(|reader| reader.find(self.root.as_bytes())?.attr())?;
            (attr.dev_major, attr.dev_minor)
        } else {
            let device = rustix::fs::lstat(self.root.as_bytes()).ok()?.st_dev;
            (rustix::fs::major(device), rustix::fs::minor(device))
        };
        Some(*self.base_device.get_or_init(|| device))
    }

    /// A link's target as the mount shows it; `path` is the link's.
    pub(crate) fn shown_target<'a>(&self, path: &Path, target: &'a [u8]) -> Cow<'a, [u8]> {
        let inside = || {
            let absolute = Path::new(target).filter(|_| self.keeps_links_inside)?;
            let is_hidden = self.hidden.iter().any(|hidden| absolute.is_within(hidden));
            if is_hidden || !absolute.is_within(&self.root) {
                return None;
            }
            let depth = |path: &Path| path.components().count();
            let up = depth(path).checked_sub(depth(&self.root) + 1)?;
            let mut relative = b"../".repeat(up);
            let below: Vec<&[u8]> = absolute.components().skip(depth(&self.root)).collect();
            relative.extend_from_slice(&below.join(&b'/'));
            if relative.is_empty() {
                relative.push(b'.');
            }
            (relative.len() <= PATH_BYTES_MAX).then_some(relative)
        };
        inside().map_or(Cow::Borrowed(target), Cow::Owned)
    }

    /// What the original's file system says of its size, or the store's where there are no originals; asked
    /// once.
    pub(crate) fn statfs(&self) -> Result<&StatVfs, Errno> {
        if let Some(known) = self.statfs.get() {
            return Ok(known);
        }
        let statfs = rustix::fs::statvfs(&self.sized_as)?;
        Ok(self.statfs.get_or_init(|| statfs))
    }

    /// A name's node and attributes for the kernel; counts as a look-up. `None` if the path has no
    /// record yet: ask for [`Demand::Record`].
    pub(crate) fn entry(&self, path: &Path, attr: &Attr, ttl: Duration) -> Option<Entry> {
        let node = self.count_lookup(path)?;
        Some(Entry { node: Some(node), attr: self.shown(attr), entry_ttl: ttl.min(self.names_ttl), attr_ttl: ttl })
    }
}

impl Records for View {
    fn is_writable(&self) -> bool {
        self.is_writable
    }

    fn table<T>(&self, read: impl FnOnce(&Tables) -> T) -> T {
        View::table(self, read)
    }

    fn node_of(&self, path: &Path) -> Option<NodeId> {
        View::node_of(self, path)
    }

    fn count_lookup(&self, path: &Path) -> Option<NodeId> {
        View::count_lookup(self, path)
    }
}

/// How long the kernel may believe names. A session that has its originals ends with its job.
fn names_ttl(negotiated: &Negotiated, has_source: bool) -> Duration {
    if has_source || negotiated.can_expire_all_names() { FOREVER } else { NAMES_TTL }
}

/// True if everything below some directory above `path` is live.
fn is_in_tree(reader: &Reader<'_>, path: &Path) -> bool {
    let is_tree = |above: Path| {
        reader.find(above.as_bytes()).is_some_and(|record| record.state.contains(State::TREE_PASSTHROUGH))
    };
    std::iter::successors(path.parent(), Path::parent).any(is_tree)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_last_where_the_kernel_can_be_told_that_they_do_not() {
        let check = |minor, has_source, expected| {
            let negotiated = Negotiated { minor, flags: 0, transfer_bytes_max: 0 };
            assert_eq!(names_ttl(&negotiated, has_source), expected, "{minor} {has_source}");
        };
        check(44, false, FOREVER);
        check(43, false, NAMES_TTL);
        check(31, true, FOREVER);
    }
}
