//! The tables in which nodes are found: the newest generation's, and older ones for nodes that the kernel still uses
//! although their paths have changed.

use std::ops::Deref;
use std::path::PathBuf;

use headwater_abi::table::{Reader, Record};
use headwater_fuse::NodeId;

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
    /// The record.
    pub(crate) record: Record<'static>,
    /// The newest generation has another version of its path.
    pub(crate) is_superseded: bool,
}

impl Tables {
    /// Creates the set; `older` is in the order of generations.
    pub(crate) fn new(newest: Reader<'static>, older: &[OlderTable]) -> Tables {
        Tables { newest, older: older.iter().map(|older| (older.generation, older.reader)).collect() }
    }

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
