//! The tables that nodes are found in: the newest generation's, and older ones for the nodes that the
//! kernel still uses though what they stand for has changed since.

use std::ops::Deref;
use std::path::PathBuf;

use headwater_abi::table::{Reader, Record};
use headwater_fuse::NodeId;

/// The newest table, and older ones.
#[derive(Debug)]
pub(crate) struct Tables {
    newest: Reader<'static>,
    /// By generation, the newest of them last.
    older: Vec<(u64, Reader<'static>)>,
}

/// What a predecessor left of an older generation.
#[derive(Debug)]
pub struct OlderTable {
    /// Its number.
    pub generation: u64,
    /// Its table.
    pub reader: Reader<'static>,
    /// Its mirror.
    pub root: PathBuf,
    /// The nodes that are found in this table alone.
    pub pinned: Vec<NodeId>,
}

/// A node's record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Own {
    /// The record.
    pub(crate) record: Record<'static>,
    /// The newest generation knows something else of its path.
    pub(crate) is_superseded: bool,
}

impl Tables {
    /// These tables; the older ones in the order of their generations.
    pub(crate) fn new(newest: Reader<'static>, older: &[OlderTable]) -> Tables {
        Tables { newest, older: older.iter().map(|older| (older.generation, older.reader)).collect() }
    }

    /// The record with this number.
    pub(crate) fn own(&self, number: u64) -> Option<Own> {
        if let Some(record) = self.newest.record(number) {
            return Some(Own { record, is_superseded: false });
        }
        let record = self.older.iter().rev().find_map(|(_, reader)| reader.record(number))?;
        Some(Own { record, is_superseded: true })
    }

    /// As [`Tables::own`], whichever table it is in.
    pub(crate) fn record(&self, number: u64) -> Option<Record<'static>> {
        self.own(number).map(|own| own.record)
    }

    /// `newest` takes the place of the table of `generation`.
    pub(crate) fn succeed(&mut self, generation: u64, newest: Reader<'static>) {
        self.older.push((generation, std::mem::replace(&mut self.newest, newest)));
    }

    /// Looks into the table of this older generation no more.
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
