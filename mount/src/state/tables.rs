//! The tables in which nodes are found: the newest generation's, and older ones for nodes that the kernel still uses
//! although their paths have changed.

use std::ops::Deref;
use std::path::PathBuf;
use std::sync::{PoisonError, RwLock, RwLockWriteGuard};

use headwater_abi::Path;
use headwater_abi::table::{Reader, Record};
use headwater_fuse::NodeId;

/// The tables of a mounted tree.
pub(crate) struct TreeTables {
    /// Locked shared while records are read, exclusively while records are reclaimed.
    tables: RwLock<Tables>,
    /// The directory that the mount shows.
    pub(crate) root: Path,
}

/// The newest table, and older ones.
#[derive(Debug)]
pub(crate) struct Tables {
    newest: Reader<'static>,
    /// By generation, the newest last.
    older: Vec<(u64, Reader<'static>)>,
}

/// A predecessor's older generation.
#[derive(Debug)]
pub struct OlderTable {
    /// Its number.
    pub generation: u64,
    /// Its table.
    pub reader: Reader<'static>,
    /// Its mirror.
    pub root: PathBuf,
    /// The nodes that only this table has.
    pub pinned: Vec<NodeId>,
}

/// A node's record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Own {
    pub(crate) record: Record<'static>,
    /// The newest generation has another version of its path.
    pub(crate) is_superseded: bool,
}

impl TreeTables {
    /// Creates the set; `older` is in the order of generations.
    pub(crate) fn new(root: Path, newest: Reader<'static>, older: &[OlderTable]) -> TreeTables {
        let older = older.iter().map(|older| (older.generation, older.reader)).collect();
        TreeTables { tables: RwLock::new(Tables { newest, older }), root }
    }

    /// Runs `read` on the tables. It must not block, because reclaiming waits for it.
    pub(crate) fn read<T>(&self, read: impl FnOnce(&Tables) -> T) -> T {
        read(&self.tables.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Locks the tables exclusively, to reclaim records or to replace the newest.
    pub(crate) fn reclaiming(&self) -> RwLockWriteGuard<'_, Tables> {
        self.tables.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the node of a path that has a record.
    pub(crate) fn node_of(&self, path: &Path) -> Option<NodeId> {
        if *path == self.root {
            return Some(NodeId::ROOT);
        }
        self.read(|tables| tables.find(path.as_bytes()).map(|record| NodeId(record.index())))
    }

    /// Counts a look-up that the kernel will forget, and returns the path's node. `None` if it has no record yet: see
    /// [`Demand::Record`](crate::call::Demand::Record).
    pub(crate) fn count_lookup(&self, path: &Path) -> Option<NodeId> {
        self.read(|tables| {
            let record = tables.find(path.as_bytes())?;
            record.pin(1);
            Some(NodeId(record.index()))
        })
    }
}

impl Tables {
    /// Returns the record with this number.
    pub(crate) fn own(&self, number: u64) -> Option<Own> {
        if let Some(record) = self.newest.record(number) {
            return Some(Own { record, is_superseded: false });
        }
        let record = self.older.iter().rev().find_map(|(_, reader)| reader.record(number))?;
        Some(Own { record, is_superseded: true })
    }

    /// As [`Tables::own`], without the generation.
    pub(crate) fn record(&self, number: u64) -> Option<Record<'static>> {
        self.own(number).map(|own| own.record)
    }

    /// Makes `newest` the newest table; the present one belongs to `generation`.
    pub(crate) fn succeed(&mut self, generation: u64, newest: Reader<'static>) {
        self.older.push((generation, std::mem::replace(&mut self.newest, newest)));
    }

    /// Drops the table of an older generation.
    pub(crate) fn forget(&mut self, generation: u64) {
        self.older.retain(|(older, _)| *older != generation);
    }
}

impl Deref for Tables {
    type Target = Reader<'static>;

    /// The newest table.
    fn deref(&self) -> &Reader<'static> {
        &self.newest
    }
}
