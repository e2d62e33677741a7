//! The table of the next generation.

use std::io;
use std::os::unix::ffi::OsStrExt;

use headwater_abi::table::{Geometry, Record, State, Writer, copy};
use headwater_abi::wire::Change;
use headwater_abi::{Kind, Path};

use super::{Table, mapping};
use crate::layout::NodeDir;

impl Table {
    /// Creates a copy of this table for the generation selected in `dir`, without the facts of changed paths; without
    /// `changes`, without any. It has no passthrough path. Other paths keep their records' numbers. Returns the numbers
    /// of removed records that the kernel refers to, which only this table has.
    ///
    /// Meanwhile, no thread may write to this table or count references.
    pub fn successor(&self, dir: &NodeDir, changes: Option<&[Change]>) -> io::Result<(Table, Vec<u64>)> {
        let geometry = self.geometry;
        let (words, backing) = mapping::create(&dir.table(), geometry.total_bytes())?;
        let mut table = Table::over(words, backing, geometry, |mut reserve| {
            if reserve(self.writer.used_bytes()) {
                copy(self.words, words, geometry);
            }
            Writer::attach(words, geometry, reserve)
        })?;
        let (store, counters) = (dir.shown(&dir.root()), dir.counters());
        let (store, counters) = (store.as_os_str().as_bytes(), counters.as_os_str().as_bytes());
        table.writer.begin_generation(dir.generation(), store, counters).map_err(io::Error::other)?;
        table.writer.mark_all(State::empty(), State::ANY_PASSTHROUGH);
        let pinned = match changes {
            Some(changes) => {
                changes.iter().filter_map(|change| table.forget(&change.path, change.is_same_directory)).collect()
            }
            None => {
                let known = self.reader.records().filter(|record| record.kind != Kind::Unknown);
                let path = |record: Record<'_>| Some((Path::new(&record.path()?)?, record.kind == Kind::Dir));
                let all: Vec<(Path, bool)> = known.filter_map(path).collect();
                all.iter().filter_map(|(path, is_directory)| table.forget(path, *is_directory)).collect()
            }
        };
        Ok((table, pinned))
    }

    /// Returns the sizes of its parts.
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// Returns how often the kernel refers to a record.
    pub fn lookups(&self, number: u64) -> u64 {
        self.reader.record(number).map_or(0, |record| record.lookups())
    }

    /// Returns the inode number of the copy of `path`, if the table has one.
    pub fn copy_of(&self, path: &Path) -> Option<u64> {
        self.reader.find(path.as_bytes()).map(|record| record.store_ino()).filter(|ino| *ino != 0)
    }

    /// Frees the table's memory; no reader may use it any longer.
    pub fn release(self) {
        self.backing.borrow_mut().release();
    }

    /// Drops the facts of a path. A directory keeps its number, under which the kernel finds the new directory.
    fn forget(&mut self, path: &Path, is_directory: bool) -> Option<u64> {
        if is_directory {
            self.writer.renew(path);
            return None;
        }
        self.writer.supersede(path)
    }
}
