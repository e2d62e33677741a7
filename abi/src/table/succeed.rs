//! Making a later generation's table of a copy of a table.
//!
//! Paths that have not changed have the same records and numbers in it. No other process may know the copy
//! yet.

use alloc::vec::Vec;

use super::layout::{Geometry, State, word};
use super::reader::Record;
use super::sync::{AtomicU64, Ordering};
use super::writer::{TableError, Writer, aux_bytes};
use crate::attr::Kind;
use crate::path::Path;

/// Copies a table, as far as it is in use, into zeroed words of the same geometry. No process may write to it
/// meanwhile, or count references.
pub fn copy(from: &[AtomicU64], to: &[AtomicU64], geometry: Geometry) {
    let used = from.get(word::HEAP_USED).map_or(0, |used| used.load(Ordering::Relaxed).min(geometry.heap_bytes));
    let words = ((geometry.heap_at() + used) / 8) as usize;
    for (from, to) in from.iter().zip(to).take(words) {
        let value = from.load(Ordering::Relaxed);
        if value != 0 {
            to.store(value, Ordering::Relaxed);
        }
    }
}

impl<R: FnMut(u64) -> bool> Writer<'_, R> {
    /// Makes this the table of `generation`, whose copies are below `store` and whose processes count in
    /// `counters`.
    pub fn begin_generation(&mut self, generation: u64, store: &[u8], counters: &[u8]) -> Result<(), TableError> {
        for (at, bytes) in [(word::STORE_AT, store), (word::COUNTERS_AT, counters)] {
            let old = (self.load(at), aux_bytes(self.load(at + 1)));
            let offset = self.put_bytes(bytes)?;
            self.put(at, offset);
            self.put(at + 1, bytes.len() as u64);
            self.free.add(old.0, old.1);
        }
        self.put(word::GENERATION, generation);
        Ok(())
    }

    /// Sets and clears these bits of all records.
    pub fn mark_all(&mut self, set: State, clear: State) {
        let records: Vec<usize> = self.paths().all(self.words).map(|(record, _)| record).collect();
        for record in records.into_iter().filter_map(|at| Record::at(self.words, at)) {
            let state = (record.state | set) - clear;
            if state != record.state {
                self.set_state(record.index() as usize, state, record.kind, record.errno);
            }
        }
    }

    /// Clears the record of `path`, so that it can be published again. False if there is none.
    pub fn renew(&mut self, path: &Path) -> bool {
        let Some(record) = self.find(path).and_then(|at| Record::at(self.words, at)) else { return false };
        let at = record.index() as usize;
        let aux = self.record_extents(&record).and_then(|mut extents| extents.nth(1));
        self.unindex(at, |_| true);
        self.set_state(at, State::empty(), Kind::Unknown, 0);
        if let Some((at, bytes)) = aux {
            self.free.add(at, bytes);
        }
        true
    }

    /// Makes the record of `path` unreachable. While the kernel refers to it, its number stays in use and is
    /// returned.
    pub fn supersede(&mut self, path: &Path) -> Option<u64> {
        let record = self.find(path).and_then(|at| Record::at(self.words, at))?;
        if record.lookups() > 0 {
            self.retire(path);
            return Some(record.index());
        }
        let state = record.state - State::CONTENT;
        self.set_state(record.index() as usize, state, record.kind, record.errno);
        self.reclaim(path);
        None
    }

    fn load(&self, at: usize) -> u64 {
        self.words[at].load(Ordering::Relaxed)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::attr::{Attr, mode};
    use crate::listing::{Builder, Name};
    use crate::table::{Fact, Header, Reader, View};

    const GEOMETRY: Geometry = Geometry { slot_count: 64, ino_slot_count: 64, heap_bytes: 32 << 10 };

    fn words() -> Vec<AtomicU64> {
        (0..GEOMETRY.total_bytes() / 8).map(|_| AtomicU64::new(0)).collect()
    }

    fn path(text: &str) -> Path {
        Path::new(text.as_bytes()).unwrap()
    }

    fn attr(kind: u32, ino: u64) -> Attr {
        Attr { mode: kind | 0o644, ino, ..Attr::default() }
    }

    fn fill(words: &[AtomicU64]) {
        let header = Header {
            generation: 1,
            scope: Vec::from([(true, b"/sw".to_vec())]),
            store: b"/store/1".to_vec(),
            socket: b"/socket".to_vec(),
            counters: b"/counters".to_vec(),
            store_dev: (0, 1),
            view: View::default(),
            stored_file_bytes_max: None,
            follows_fork: true,
        };
        let mut writer = Writer::create(words, GEOMETRY, &header, |_| true).unwrap();
        let mut listing = Builder::default();
        assert!(listing.push(Name { ino: 2, d_type: 8, name: b"file" }));
        writer.publish(&path("/sw"), &Fact::Listing(attr(mode::DIR, 1), &listing.finish())).unwrap();
        for (name, ino) in [("/sw/kept", 2), ("/sw/held", 3), ("/sw/free", 4), ("/sw/live", 5)] {
            writer.publish(&path(name), &Fact::Attr(attr(mode::FILE, ino))).unwrap();
            writer.index_inode(&path(name), 100 + ino).unwrap();
            writer.mark(&path(name), State::WHOLE | State::LOADABLE, State::empty()).unwrap();
        }
        writer.mark(&path("/sw/live"), State::PASSTHROUGH, State::empty()).unwrap();
        let reader = Reader::open(words).unwrap();
        for (name, lookups) in [("/sw", 2), ("/sw/kept", 3), ("/sw/held", 1), ("/sw/live", 1)] {
            reader.find(name.as_bytes()).unwrap().pin(lookups);
        }
    }

    #[test]
    fn what_has_not_changed_is_the_same_record() {
        let (old, new) = (words(), words());
        fill(&old);
        copy(&old, &new, GEOMETRY);
        let mut writer = Writer::attach(&new, GEOMETRY, |_| true).unwrap();
        writer.begin_generation(2, b"/store/2/is/longer", b"/c").unwrap();
        let (before, after) = (Reader::open(&old).unwrap(), Reader::open(&new).unwrap());
        let number = |reader: &Reader<'_>, name: &str| reader.find(name.as_bytes()).map(|record| record.index());

        let pinned = number(&before, "/sw/held").unwrap();
        assert_eq!(writer.supersede(&path("/sw/held")), Some(pinned));
        assert_eq!((writer.supersede(&path("/sw/free")), writer.supersede(&path("/sw/free"))), (None, None));
        assert_eq!(
            after.find(b"/sw/live").unwrap().state,
            State::PASSTHROUGH | State::WHOLE | State::LOADABLE | State::ATTR
        );
        writer.mark_all(State::empty(), State::ANY_PASSTHROUGH);
        assert!(writer.renew(&path("/sw")) && !writer.renew(&path("/sw/nothing")));

        for name in ["/sw", "/sw/kept", "/sw/live"] {
            assert_eq!(number(&before, name), number(&after, name), "{name}");
        }
        let retained = after.find(b"/sw/kept").unwrap();
        assert_eq!((retained.lookups(), retained.store_ino(), retained.attr().unwrap().ino), (3, 102, 2));
        assert!(after.find_inode(102).is_some() && after.find_inode(103).is_none());
        assert!(after.find(b"/sw/held").is_none() && after.record(pinned).is_none() && before.record(pinned).is_some());
        let directory = after.find(b"/sw").unwrap();
        assert_eq!((directory.kind, directory.lookups(), directory.state), (Kind::Unknown, 2, State::empty()));
        assert_eq!(after.find(b"/sw/live").unwrap().state, State::WHOLE | State::LOADABLE | State::ATTR);
        assert_eq!(after.header_bytes(word::STORE_AT).unwrap(), b"/store/2/is/longer");
        assert_eq!(after.header_bytes(word::COUNTERS_AT).unwrap(), b"/c");
        assert_eq!(before.header_bytes(word::STORE_AT).unwrap(), b"/store/1");

        writer.publish(&path("/sw/held"), &Fact::Attr(attr(mode::FILE, 33))).unwrap();
        writer.publish(&path("/sw"), &Fact::Attr(attr(mode::DIR, 1))).unwrap();
        let anew = after.find(b"/sw/held").unwrap();
        assert_eq!((anew.attr().unwrap().ino, anew.lookups()), (33, 0));
        assert!(anew.index() != pinned);
        assert_eq!(number(&before, "/sw"), number(&after, "/sw"));
        assert_eq!(before.find(b"/sw/held").unwrap().attr().unwrap().ino, 3);
        // Everything is found again by a writer that goes on.
        let again = Writer::attach(&new, GEOMETRY, |_| true).unwrap();
        assert_eq!((again.records(), again.heap_bytes()), (writer.records(), writer.heap_bytes()));

        writer.mark_all(State::PASSTHROUGH, State::empty());
        let is_passed = |name: &str| after.find(name.as_bytes()).unwrap().state.contains(State::PASSTHROUGH);
        assert!(["/sw", "/sw/kept", "/sw/live", "/sw/held"].iter().all(|name| is_passed(name)));
        assert_eq!(after.find(b"/sw/held").unwrap().attr().unwrap().ino, 33);
    }
}
