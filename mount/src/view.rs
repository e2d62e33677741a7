//! The state that all workers of the mount share: the table as a tree of nodes, and what serves each path.
//!
//! A node's number is that of its record in the table, so it survives the daemon that assigned it. The root is the
//! exception: it is 1 and stands for the record of the mount's root path.

use std::borrow::Cow;
use std::collections::HashMap;
use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use headwater_abi::path::PATH_BYTES_MAX;
use headwater_abi::table::{Reader, Record, State};
use headwater_abi::{Attr, Kind, Path};
use headwater_fuse::reply::FOREVER;
use headwater_fuse::{Entry, Negotiated, NodeId};
use headwater_proto::Stored;
use headwater_store::{Blocks, in_scope};
use rustix::fs::StatVfs;
use rustix::io::Errno;
use thiserror::Error;

use crate::change::append::Appended;
use crate::config::{MountConfig, Start};
use crate::owner::Owner;
use crate::source_file::node_files::{SourceFiles, path_of_spare};
use crate::state::absent::AbsentNames;
use crate::state::contents::Contents;
use crate::state::counters::Counters;
use crate::state::file_systems::FileSystems;
use crate::state::notices::Notices;
use crate::state::polls::Polls;
use crate::state::tables::{Own, TreeTables};

/// The beginning of the names of access control lists' attributes.
pub(crate) const ACL_PREFIX: &[u8] = b"system.posix_acl_";
/// Longer names fail with the source file's own error.
pub(crate) const NAME_BYTES_MAX: usize = 255;
/// Source files may use this part of the process's descriptors.
const DESCRIPTORS_SHARE: usize = 8;
/// How long the kernel caches names if it can't be notified that all of them may have changed, and the mount outlives
/// many such changes.
const NAMES_TTL: Duration = Duration::from_secs(10);

/// A mounted tree.
pub(crate) struct View {
    pub(crate) tables: TreeTables,
    scope: Vec<(bool, Path)>,
    hidden: HashSet<Path>,
    owner: Owner,
    file_systems: FileSystems,
    statfs: OnceLock<StatVfs>,
    pub(crate) config: MountConfig,
    /// Open copies.
    pub(crate) contents: Contents,
    pub(crate) blocks: Arc<Blocks>,
    pub(crate) whole_file_bytes_max: u64,
    pub(crate) stored: Stored,
    /// False if this machine can't reach the source files, or only through the mount itself.
    pub(crate) has_source: bool,
    /// How long the kernel may cache names.
    pub(crate) names_ttl: Duration,
    /// The path whose file system's size is shown.
    sized_as: PathBuf,
    /// The source files behind nodes.
    pub(crate) source_files: SourceFiles,
    /// True once a directory with all below it has become passthrough.
    pub(crate) has_passthrough_trees: AtomicBool,
    pub(crate) counters: Counters,
    /// Notifications to the kernel.
    pub(crate) notices: Notices,
    pub(crate) polls: Polls,
    /// Names that the kernel knows to be absent.
    pub(crate) absent: AbsentNames,
    /// The session has other nodes, whose processes change files too.
    pub(crate) has_other_nodes: bool,
    /// Parts of records that were appended before they came.
    pub(crate) appended: Appended,
}

/// A directory of the mount is no absolute path.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("the mount names \"{0}\", which is not an absolute path")]
pub(crate) struct NotAbsolute(String);

/// What serves a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServedBy {
    /// The session's snapshot.
    Snapshot,
    /// The source file: the path is passthrough or outside of the scope.
    SourceFile,
    /// An empty directory is shown.
    Hidden,
}

/// A node as the table had it at one moment. The kernel refers to it, so its record is pinned.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub(crate) node: NodeId,
    pub(crate) path: Path,
    pub(crate) record: Record<'static>,
}

impl View {
    /// Creates the tree that `start` describes, of which `reader` reads the newest table.
    ///
    /// # Errors
    /// A directory is no absolute path.
    pub(crate) fn new(start: Start<'_>, reader: Reader<'static>) -> Result<View, NotAbsolute> {
        let mount = start.mount;
        let polls = Polls::new(mount.is_writable && start.has_source);
        let clean = |text: &String| Path::new(text.as_bytes()).ok_or_else(|| NotAbsolute(text.clone()));
        let root = clean(&mount.root)?;
        Ok(View {
            file_systems: FileSystems::of(shown_directories(mount, &root, &start.scope)),
            tables: TreeTables::new(root, reader, &start.older),
            sized_as: if start.has_source { mount.root.clone().into() } else { start.store.clone() },
            has_source: start.has_source,
            names_ttl: names_ttl(&mount.negotiated, start.has_source),
            scope: start.scope,
            hidden: mount.hidden.iter().map(clean).collect::<Result<_, _>>()?,
            owner: Owner::of(mount),
            statfs: OnceLock::new(),
            config: mount.clone(),
            contents: Contents::new(start.store, start.older),
            blocks: start.blocks,
            whole_file_bytes_max: start.whole_file_bytes_max,
            stored: start.stored,
            source_files: SourceFiles::new(start.descriptors_max / DESCRIPTORS_SHARE, mount.is_writable),
            has_passthrough_trees: AtomicBool::new(true),
            counters: Counters::default(),
            notices: Notices::default(),
            absent: AbsentNames::new(polls.ttl(true)),
            has_other_nodes: start.has_other_nodes,
            appended: Appended::default(),
            polls,
        })
    }

    /// Returns the path and record of a node; `None` if there is no such node, or no longer.
    pub(crate) fn known(&self, node: NodeId) -> Option<Known> {
        if node == NodeId::ROOT {
            let record = self.tables.read(|reader| reader.find(self.tables.root.as_bytes()))?;
            return Some(Known { node, path: self.tables.root.clone(), record });
        }
        let moved = self.source_files.path_of(node);
        self.tables.read(|reader| {
            let Own { record: own, is_superseded } = reader.own(node.0)?;
            let path = moved.map_or_else(|| Path::new(path_of_spare(&own.path()?)), Some)?;
            let newest = reader.find(path.as_bytes()).filter(|_| !is_superseded);
            Some(Known { node, record: newest.unwrap_or(own), path })
        })
    }

    /// Returns the path of a node.
    pub(crate) fn path_of(&self, node: NodeId) -> Option<Path> {
        if node == NodeId::ROOT {
            return Some(self.tables.root.clone());
        }
        let moved = self.source_files.path_of(node);
        moved.or_else(|| self.tables.read(|reader| Path::new(path_of_spare(&reader.own(node.0)?.record.path()?))))
    }

    /// Returns the node of a name, if the kernel may have one.
    pub(crate) fn child_of(&self, directory: NodeId, name: &[u8]) -> Option<NodeId> {
        let path = self.path_of(directory)?.join_deep(name)?;
        self.source_files.node_at(&path).or_else(|| self.tables.node_of(&path))
    }

    /// Returns the paths below this one of which the kernel may have nodes. It has some only if it has one of this path.
    pub(crate) fn nodes_below(&self, path: &Path) -> HashMap<Path, NodeId> {
        let is_used = |record: Record<'_>| record.lookups() > 0;
        let has_own = self.tables.read(|tables| tables.find(path.as_bytes()).is_some_and(is_used));
        if !has_own && self.source_files.node_at(path).is_none() {
            return HashMap::new();
        }
        let mut found: HashMap<Path, NodeId> = self.tables.read(|tables| {
            let used = tables.records().filter(|record| record.lookups() > 0);
            let used = used.filter_map(|record| Some((Path::new(&record.path()?)?, NodeId(record.index()))));
            used.filter(|(below, _)| below.is_within(path) && below != path).collect()
        });
        found.extend(self.source_files.nodes_below(path));
        found
    }

    /// Takes back look-ups that the kernel has forgotten or never accepted.
    pub(crate) fn release(&self, node: NodeId, lookups: u64) {
        if self.source_files.unrecorded(node).is_some() {
            self.source_files.release(&self.tables, node, lookups);
        } else if node != NodeId::ROOT
            && self.tables.read(|reader| reader.own(node.0).map(|own| own.record.release(lookups))) == Some(0)
        {
            self.source_files.forget(&self.tables, node);
        }
    }

    /// Returns what serves this path, whose record has these bits.
    pub(crate) fn served_by(&self, path: &Path, state: State) -> ServedBy {
        if self.hidden.contains(path) {
            ServedBy::Hidden
        } else if state.intersects(State::ANY_PASSTHROUGH)
            || path.is_deep()
            || !self.in_scope(path)
            || self.has_passthrough_trees.load(Ordering::Relaxed) && self.tables.read(|reader| is_in_tree(reader, path))
        {
            ServedBy::SourceFile
        } else {
            ServedBy::Snapshot
        }
    }

    /// Returns true if the source file serves `path`, and with `tree` all below it: the job changes it, or it is
    /// outside of the scope.
    pub(crate) fn is_passthrough(&self, path: &Path, tree: bool) -> bool {
        let bits = if tree { State::TREE_PASSTHROUGH } else { State::PASSTHROUGH | State::TREE_PASSTHROUGH };
        !self.in_scope(path)
            || self.tables.read(|reader| {
                reader.find(path.as_bytes()).is_some_and(|record| record.state.intersects(bits))
                    || self.has_passthrough_trees.load(Ordering::Relaxed) && is_in_tree(reader, path)
            })
    }

    /// Returns true if the mount is in a user namespace, whose users are others than those of access control lists.
    pub(crate) fn has_user_namespace(&self) -> bool {
        self.config.other_groups.is_some()
    }

    /// Returns true if the path is in the scope.
    pub(crate) fn in_scope(&self, path: &Path) -> bool {
        in_scope(&self.scope, path)
    }

    /// Returns true if an empty directory is shown at this path.
    pub(crate) fn is_hidden(&self, path: &Path) -> bool {
        self.hidden.contains(path)
    }

    /// Returns true for a directory that is outside of the scope but contains part of it: it is as permanent as the
    /// session.
    pub(crate) fn leads_to_scope(&self, path: &Path) -> bool {
        self.scope.iter().any(|(included, directory)| *included && directory != path && directory.is_within(path))
    }

    /// Returns the attributes of the source file at `path` as the mount shows them.
    pub(crate) fn shown(&self, path: &Path, attr: &Attr) -> Attr {
        let (uid, gid) = self.owner.shown(attr);
        let ino = self.file_systems.ino(path, attr.kind() == Kind::Dir, attr.ino);
        Attr { uid, gid, ino, ..*attr }
    }

    /// Returns the shown inode number of a name in this directory.
    pub(crate) fn ino_in(&self, directory: &Path, ino: u64) -> u64 {
        self.file_systems.ino(directory, false, ino)
    }

    /// Returns a link's target as the mount shows it; `path` is the link's.
    pub(crate) fn shown_target<'a>(&self, path: &Path, target: &'a [u8]) -> Cow<'a, [u8]> {
        let inside = || {
            let absolute = Path::new(target).filter(|_| self.config.keeps_links_inside)?;
            let is_hidden = self.hidden.iter().any(|hidden| absolute.is_within(hidden));
            if is_hidden || !absolute.is_within(&self.tables.root) {
                return None;
            }
            let depth = |path: &Path| path.components().count();
            let up = depth(path).checked_sub(depth(&self.tables.root) + 1)?;
            let mut relative = b"../".repeat(up);
            let below: Vec<&[u8]> = absolute.components().skip(depth(&self.tables.root)).collect();
            relative.extend_from_slice(&below.join(&b'/'));
            if relative.is_empty() {
                relative.push(b'.');
            }
            (relative.len() <= PATH_BYTES_MAX).then_some(relative)
        };
        inside().map_or(Cow::Borrowed(target), Cow::Owned)
    }

    /// Returns the size of the source's file system, or of the store's without source files; read once.
    pub(crate) fn statfs(&self) -> Result<&StatVfs, Errno> {
        if let Some(known) = self.statfs.get() {
            return Ok(known);
        }
        let statfs = rustix::fs::statvfs(&self.sized_as)?;
        Ok(self.statfs.get_or_init(|| statfs))
    }

    /// Returns a name's node and attributes for the kernel, counted as a look-up. `None` if the path has no record yet:
    /// see [`Demand::Record`].
    pub(crate) fn entry(&self, path: &Path, attr: &Attr, ttl: Duration) -> Option<Entry> {
        let node = self.tables.count_lookup(path)?;
        Some(Entry {
            node: Some(node),
            attr: self.shown(path, attr),
            entry_ttl: ttl.min(self.names_ttl),
            attr_ttl: ttl,
        })
    }
}

/// Returns the directories of the source that processes see. A namespace shows those of the scope at their own paths.
fn shown_directories(mount: &MountConfig, root: &Path, scope: &[(bool, Path)]) -> Vec<Path> {
    if mount.keeps_links_inside {
        return vec![root.clone()];
    }
    scope.iter().filter(|(is_included, _)| *is_included).map(|(_, directory)| directory.clone()).collect()
}

/// Returns how long the kernel may cache names. A session with source files ends with its job.
fn names_ttl(negotiated: &Negotiated, has_source: bool) -> Duration {
    if has_source || negotiated.can_expire_all_names() { FOREVER } else { NAMES_TTL }
}

/// Returns true if a directory above `path` is passthrough with all below it.
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
    fn names_are_cached_for_ever_if_the_kernel_can_expire_them() {
        let check = |minor, has_source, expected| {
            let negotiated = Negotiated { minor, flags: 0, transfer_bytes_max: 0 };
            assert_eq!(names_ttl(&negotiated, has_source), expected, "{minor} {has_source}");
        };
        check(44, false, FOREVER);
        check(43, false, NAMES_TTL);
        check(31, true, FOREVER);
    }
}
