//! Generations: running processes continue with the generation that they began with; new ones use the newest.
//!
//! A generation has a table, a mirror and a counters file. Its table is a copy of the previous one without the changed
//! paths. So the kernel's references to all other paths, and its caches for them, stay valid. A process under audit has
//! the counters file of its generation mapped while it lives, which a lease on that file shows.

use std::collections::BTreeMap;
use std::io;

use headwater_abi::Path;
use headwater_abi::table::Reader;
use headwater_fuse::NodeId;
use headwater_mount::OlderTable;
use headwater_proto::{ClientId, Time};
use headwater_store::Table;
use headwater_store::layout::NodeDir;

use crate::report::Clients;
use crate::session::read_counters;

/// The least time for which a generation is retained, in milliseconds: a process that has read its name may be about to
/// open its table.
pub(crate) const RETAINED_MS_MIN: Time = 5_000;

/// Generations before the newest.
#[derive(Default)]
pub(crate) struct Generations {
    pub(crate) older: Vec<Older>,
    /// The counters of ended generations.
    pub(crate) ended: Clients,
    pub(crate) next_check: Option<Time>,
    /// Directories that are being listed, each with its request. The kernel caches absent names, and must be notified
    /// of each that exists now; the directory's listing shows these. So changed directories that the kernel knows are
    /// listed at once.
    pub(crate) settling: BTreeMap<Path, ClientId>,
}

pub(crate) struct Older {
    pub(crate) dir: NodeDir,
    pub(crate) table: Table,
    /// Records that the newer tables lack although the kernel refers to them.
    pub(crate) pinned: Vec<u64>,
    pub(crate) since: Time,
}

impl Generations {
    /// Finds those of a predecessor in `dir`, whose newest has this table; removes an unfinished one.
    pub(crate) fn find(dir: &NodeDir, table: &Table) -> Generations {
        let entries = std::fs::read_dir(dir.path()).into_iter().flatten().flatten();
        let mut numbers: Vec<u64> = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
        numbers.sort_unstable_by(|a, b| b.cmp(a));
        let newest = dir.generation();
        let (mut older, mut newer) = (Vec::new(), vec![table.reader()]);
        for dir in numbers.into_iter().map(|generation| dir.of_generation(generation)) {
            let generation = dir.generation();
            if generation > newest {
                let _ = dir.remove_generation();
            } else if generation < newest {
                match Table::attach(&dir.table(), table.geometry()) {
                    Ok(table) => {
                        let pinned = pinned(&table.reader(), &newer);
                        newer.push(table.reader());
                        older.push(Older { dir, table, pinned, since: 0 });
                    }
                    Err(error) => {
                        tracing::warn!(generation, %error, "the table of an older generation can't be read; its files stay until the session ends");
                    }
                }
            }
        }
        older.reverse();
        let next_check = (!older.is_empty()).then_some(RETAINED_MS_MIN);
        Generations { older, next_check, ..Generations::default() }
    }

    /// Returns their tables for a mount, in their order.
    pub(crate) fn tables(&self) -> Vec<OlderTable> {
        let table = |older: &Older| OlderTable {
            generation: older.dir.generation(),
            reader: older.table.reader(),
            root: older.dir.root(),
            pinned: older.pinned.iter().copied().map(NodeId).collect(),
        };
        self.older.iter().map(table).collect()
    }

    /// Returns the sum of all processes' counters, with those of the newest generation in `dir`.
    pub(crate) fn clients(&self, dir: &NodeDir) -> io::Result<Clients> {
        let mut sum = read_counters(&dir.counters())?.plus(&self.ended);
        for older in &self.older {
            sum = sum.plus(&read_counters(&older.dir.counters())?);
        }
        Ok(sum)
    }

    /// Removes an answered request from `settling`. Returns false if it is none of these.
    pub(crate) fn settled(&mut self, client: ClientId) -> bool {
        self.settling.extract_if(.., |_, of| *of == client).count() > 0
    }

    /// Notes that the copy of `path` with this inode number has been evicted.
    pub(crate) fn evicted(&mut self, path: &Path, ino: Option<u64>) {
        for older in self.older.iter_mut().filter(|older| ino.is_some() && older.table.copy_of(path) == ino) {
            older.table.evicted(path);
        }
    }

    /// Makes a path, with `tree` all below it, passthrough in all older tables.
    pub(crate) fn set_passthrough(&mut self, path: &Path, tree: bool) {
        for older in &mut self.older {
            older.table.set_passthrough(path, tree);
        }
    }

    /// Notes in all older tables that programs run without audit.
    pub(crate) fn unaudited(&mut self) {
        self.older.iter_mut().for_each(|older| older.table.unaudited());
    }

    /// Marks all older tables as closed.
    pub(crate) fn close(&mut self) {
        for older in &mut self.older {
            older.table.close();
        }
    }
}

/// Returns the tables of the generations before that of `table`, for a mount, in their order.
pub fn older_tables(dir: &NodeDir, table: &Table) -> Vec<OlderTable> {
    Generations::find(dir, table).tables()
}

/// Returns the records of an older table that the kernel refers to and the newer ones lack.
pub(crate) fn pinned(older: &Reader<'static>, newer: &[Reader<'static>]) -> Vec<u64> {
    let is_lacking = |number: &u64| newer.iter().all(|newer| newer.record(*number).is_none());
    older.records().filter(|record| record.lookups() > 0).map(|record| record.index()).filter(is_lacking).collect()
}
