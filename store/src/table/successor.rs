//! The table of the next generation.

use std::io;
use std::os::unix::ffi::OsStrExt;

use headwater_abi::table::{Geometry, Record, Writer, copy};
use headwater_abi::wire::Change;
use headwater_abi::{Kind, Path};

use super::{Table, mapping};
use crate::layout::NodeDir;

impl Table {
    /// A copy of this table for the generation that `dir` means, in which nothing is known of what
    /// has changed; without `changes`, nothing of anything. No path is live in it. Other paths keep the numbers of their
    /// records. Returns the numbers of those that were taken out while the kernel refers to them:
    /// they are found in this table alone.
    ///
    /// Nobody may write to this table or count references meanwhile.
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
        table.writer.forget_passthrough();
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

    /// The sizes of its parts.
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// How often the kernel refers to a record.
    pub fn lookups(&self, number: u64) -> u64 {
        self.reader.record(number).map_or(0, |record| record.lookups())
    }

    /// The inode number of the copy of `path`, if the table says that there is one.
    pub fn copy_of(&self, path: &Path) -> Option<u64> {
        self.reader.find(path.as_bytes()).map(|record| record.store_ino()).filter(|ino| *ino != 0)
    }

    /// Gives the table's memory back. Nobody looks into it any more.
    pub fn release(self) {
        self.backing.borrow_mut().release();
    }

    /// Forgets what is known of a path. A directory keeps its number, under which the kernel finds what
    /// it is now.
    fn forget(&mut self, path: &Path, is_directory: bool) -> Option<u64> {
        if is_directory {
            self.writer.renew(path);
            return None;
        }
        self.writer.supersede(path)
    }
}
