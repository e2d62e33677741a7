//! Continuing a table that another process wrote, and removing records from it.
//!
//! A writer may die between any two stores. What it had announced is complete, because each announcement (a
//! slot, a state) is a store with release order after everything that it announces; the rest is unreachable.
//! So the heap consists of what can be reached, and all between is free, whatever the header contains:
//! records and listings that were never announced, and records that were removed. A kill stops a process
//! between two instructions and loses no store, and a process that waits for its end sees all of them.

use alloc::vec::Vec;

use super::free::Free;
use super::layout::{Geometry, MAGIC, State, word};
use super::reader::Record;
use super::slots::{Slots, VACATED, retired};
use super::sync::{AtomicU64, Ordering};
use super::writer::{TableError, Writer, aux_bytes, record_bytes};
use crate::attr::Kind;
use crate::hash;
use crate::path::Path;

impl<'a, R: FnMut(u64) -> bool> Writer<'a, R> {
    /// Continues a table whose writer has ended in any way. What it had published is there, under the same
    /// record numbers; what it was about to publish is not.
    ///
    /// # Errors
    /// [`TableError::Foreign`] if the words are no table of this version and `geometry`,
    /// [`TableError::NoMemory`] if `reserve` fails for what is in use.
    pub fn attach(words: &'a [AtomicU64], geometry: Geometry, mut reserve: R) -> Result<Self, TableError> {
        let header = |number: usize| words[number].load(Ordering::Relaxed);
        if (words.len() as u64) * 8 < geometry.total_bytes()
            || words[word::MAGIC].load(Ordering::Acquire) != MAGIC
            || geometry.constants().iter().any(|&(number, value)| header(number) != value)
        {
            return Err(TableError::Foreign);
        }
        let in_use = header(word::HEAP_USED).min(geometry.heap_bytes);
        if !reserve(geometry.heap_at() + in_use) {
            return Err(TableError::NoMemory);
        }
        let mut writer =
            Writer { words, geometry, heap_used: 0, free: Free::default(), records: 0, inodes: 0, reserve };
        let mut extents = writer.header_extents();
        writer.records = writer.check_slots(writer.paths(), |record, slot| {
            let belongs = record.path_hash().is_some_and(|hash| [0, hash::tag(hash)].contains(&tag_of(slot)));
            belongs && writer.record_extents(record).map(|more| extents.extend(more)).is_some()
        });
        writer.inodes = writer.check_slots(writer.inodes(), |record, slot| {
            let ino = record.load(word::RECORD_STORE_INO);
            let is_reached = |hash| writer.paths().find(words, hash, |at| at as u64 == record.index()).is_some();
            ino != 0 && tag_of(slot) == hash::tag(hash::inode(ino)) && record.path_hash().is_some_and(is_reached)
        });
        writer.count_records(writer.records);
        writer.lay_out(extents);
        Ok(writer)
    }

    /// Removes the record of `path`, and its listing or target. False if that is impossible: the kernel
    /// refers to it, or it has a state that must not be lost (a copy in the store, a passthrough path).
    ///
    /// The space is reused, so no process may read the table meanwhile, or have a [`Record`].
    pub fn reclaim(&mut self, path: &Path) -> bool {
        let durable = State::CONTENT | State::ANY_PASSTHROUGH;
        let Some(at) = self.find(path) else { return true };
        let Some(record) = Record::at(self.words, at) else { return false };
        if record.lookups() > 0 || record.state.intersects(durable) {
            return false;
        }
        let extents = self.record_extents(&record);
        self.unindex(at, |_| true);
        self.vacate(self.paths(), path.hash(), at);
        self.count_records(self.records - 1);
        for (at, bytes) in extents.into_iter().flatten() {
            self.free.add(at, bytes);
        }
        true
    }

    /// Makes the record of `path` unreachable, as if the path were unknown. Its number is not reused in this
    /// table or in one that continues it. False if there is none.
    pub fn retire(&mut self, path: &Path) -> bool {
        let Some(record) = self.find(path) else { return false };
        self.unindex(record, |_| true);
        self.replace(self.paths(), path.hash(), record, retired(record));
        self.count_records(self.records - 1);
        true
    }

    /// Returns the bytes of the heap that are in use.
    pub fn heap_bytes(&self) -> u64 {
        self.heap_used - self.free.bytes()
    }

    /// Counts the slots of records that `fits` accepts, without retired ones, and empties the other slots.
    fn check_slots(&self, slots: Slots, mut fits: impl FnMut(&Record<'a>, u64) -> bool) -> u64 {
        let mut count = 0;
        for place in slots.base..slots.base + slots.count as usize {
            let slot = self.words[place].load(Ordering::Acquire);
            if matches!(slot, 0 | VACATED) {
                continue;
            }
            match Record::at(self.words, slot as u32 as usize) {
                Some(record) if fits(&record, slot) => count += u64::from(tag_of(slot) != 0),
                _ => self.put(place, VACATED),
            }
        }
        count
    }

    fn header_extents(&self) -> Vec<(u64, u64)> {
        let strings = [word::SCOPE_AT, word::STORE_AT, word::SOCKET_AT, word::COUNTERS_AT, word::MOUNT_AT];
        let load = |number: usize| self.words[number].load(Ordering::Relaxed);
        strings.into_iter().filter_map(|at| self.in_heap(load(at), aux_bytes(load(at + 1)))).collect()
    }

    /// Returns the extents of a record in the heap; `None` if it is damaged.
    pub(super) fn record_extents(&self, record: &Record<'_>) -> Option<impl Iterator<Item = (u64, u64)> + use<R>> {
        let own = self.in_heap(record.index() * 8, record_bytes(u64::from(record.load(word::RECORD_PATH) as u32)))?;
        let has_aux = match record.kind {
            Kind::Link => record.state.contains(State::ATTR),
            Kind::Dir => record.state.contains(State::LISTED),
            _ => false,
        };
        let aux = || {
            let bytes = record.load(word::RECORD_AUX_BYTES);
            self.in_heap(record.load(word::RECORD_AUX_AT), aux_bytes(bytes.min(self.geometry.heap_bytes)))
        };
        let aux = if has_aux { Some(aux()?) } else { None };
        Some([own].into_iter().chain(aux))
    }

    fn in_heap(&self, at: u64, bytes: u64) -> Option<(u64, u64)> {
        let end = at.checked_add(bytes)?;
        let is_inside = at.is_multiple_of(8) && at >= self.geometry.heap_at() && end <= self.geometry.total_bytes();
        is_inside.then_some((at, bytes))
    }

    /// Frees the space between the extents.
    fn lay_out(&mut self, mut extents: Vec<(u64, u64)>) {
        extents.sort_unstable();
        let heap_at = self.geometry.heap_at();
        let mut end = heap_at;
        for (at, bytes) in extents {
            self.free.add(end, at.saturating_sub(end));
            end = end.max(at + bytes);
        }
        self.heap_used = end - heap_at;
        self.put(word::HEAP_USED, self.heap_used);
    }
}

fn tag_of(slot: u64) -> u32 {
    (slot >> 32) as u32
}

#[cfg(all(test, not(loom)))]
pub(super) mod tests {
    extern crate std;

    use std::cell::Cell;
    use std::format;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;
    use crate::attr::{Attr, mode};
    use crate::listing::{Builder, Listing, Name};
    use crate::table::{Fact, Header, Reader, View};

    const GEOMETRY: Geometry = Geometry { slot_count: 64, ino_slot_count: 64, heap_bytes: 32 << 10 };

    std::thread_local! {
        /// Stores after which this thread's writers die.
        static STORES_LEFT: Cell<Option<u64>> = const { Cell::new(None) };
    }

    /// Counts the writer's stores; it dies before the last one.
    pub(in super::super) fn before_store() {
        match STORES_LEFT.get() {
            Some(0) => std::panic::resume_unwind(std::boxed::Box::new("killed")),
            left => STORES_LEFT.set(left.map(|left| left - 1)),
        }
    }

    type AnyWriter<'a> = Writer<'a, fn(u64) -> bool>;
    type Step = fn(&mut AnyWriter<'_>);

    fn header() -> Header {
        Header {
            generation: 1,
            scope: Vec::from([(true, b"/sw".to_vec())]),
            store: b"/store".to_vec(),
            socket: b"/socket".to_vec(),
            counters: Vec::new(),
            store_dev: (0, 1),
            view: View::default(),
            stored_file_bytes_max: None,
            follows_fork: true,
        }
    }

    fn words() -> Vec<AtomicU64> {
        (0..GEOMETRY.total_bytes() / 8).map(|_| AtomicU64::new(0)).collect()
    }

    fn create(words: &[AtomicU64]) -> AnyWriter<'_> {
        Writer::create(words, GEOMETRY, &header(), (|_| true) as fn(u64) -> bool).unwrap()
    }

    fn attach(words: &[AtomicU64]) -> AnyWriter<'_> {
        Writer::attach(words, GEOMETRY, (|_| true) as fn(u64) -> bool).unwrap()
    }

    fn path(text: &str) -> Path {
        Path::new(text.as_bytes()).unwrap()
    }

    fn attr(kind: u32) -> Attr {
        Attr { mode: kind | 0o755, ino: 77, mnt_id: 99, ..Attr::default() }
    }

    fn listing() -> Listing {
        let mut builder = Builder::default();
        (0..9).for_each(|n| assert!(builder.push(Name { ino: n, d_type: 8, name: format!("name{n}").as_bytes() })));
        builder.finish()
    }

    const STEPS: &[Step] = &[
        |w| w.publish(&path("/sw"), &Fact::Attr(attr(mode::DIR))).unwrap(),
        |w| w.publish(&path("/sw"), &Fact::Listing(attr(mode::DIR), &listing())).unwrap(),
        |w| w.publish(&path("/sw/link"), &Fact::Link(attr(mode::LINK), b"a/target")).unwrap(),
        |w| w.publish(&path("/sw/file"), &Fact::Attr(attr(mode::FILE))).unwrap(),
        |w| w.index_inode(&path("/sw/file"), 5).unwrap(),
        |w| w.mark(&path("/sw/file"), State::WHOLE | State::LOADABLE, State::empty()).unwrap(),
        |w| w.mark(&path("/sw/live"), State::PASSTHROUGH, State::empty()).unwrap(),
        |w| assert!(w.reclaim(&path("/sw/link"))),
        |w| w.publish(&path("/sw/lonk"), &Fact::Absent).unwrap(),
        |w| w.mark(&path("/sw/file"), State::empty(), State::WHOLE | State::LOADABLE).unwrap(),
        |w| w.forget_inode(&path("/sw/file")).unwrap(),
        |w| assert!(w.reclaim(&path("/sw/file"))),
        |w| w.publish(&path("/sw/other"), &Fact::Link(attr(mode::LINK), b"elsewhere")).unwrap(),
        |w| {
            // Done already if the writer died after it.
            let _ = w.retire(&path("/sw/lonk"));
        },
        |w| w.publish(&path("/sw/l"), &Fact::Error(13)).unwrap(),
    ];

    /// Returns all that a reader can see, by path.
    fn seen(words: &[AtomicU64]) -> std::string::String {
        let reader = Reader::open(words).unwrap();
        let mut seen = std::string::String::new();
        for name in ["/sw", "/sw/link", "/sw/file", "/sw/live", "/sw/lonk", "/sw/other", "/sw/l"] {
            let Some(record) = reader.find(name.as_bytes()) else { continue };
            assert_eq!(reader.record(record.index()).unwrap().index(), record.index());
            let (kind, errno, state) = (record.kind, record.errno, record.state);
            seen += &format!("{name} {kind:?} {errno} {state:?} {:?} {:?}\n", record.attr(), record.aux());
        }
        seen + &format!("{:?}", reader.find_inode(5).map(|record| record.path()))
    }

    /// Checks that nothing overlaps, and that all other space is free.
    fn check_heap(writer: &AnyWriter<'_>) {
        let mut extents = writer.header_extents();
        writer.check_slots(writer.paths(), |record, _| {
            extents.extend(writer.record_extents(record).unwrap());
            true
        });
        extents.sort_unstable();
        assert!(extents.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0));
        assert_eq!(writer.heap_bytes(), extents.iter().map(|extent| extent.1).sum());
    }

    #[test]
    fn a_writer_may_die_at_any_store() {
        // What is visible after each step.
        let whole = words();
        let mut writer = create(&whole);
        let after: Vec<_> = STEPS.iter().map(|step| (step(&mut writer), seen(&whole)).1).collect();
        let mut deaths = 0;
        for stores in 0.. {
            let words = words();
            let mut writer = create(&words);
            let mut done = 0usize;
            STORES_LEFT.set(Some(stores));
            let died = catch_unwind(AssertUnwindSafe(|| {
                for step in STEPS {
                    step(&mut writer);
                    done += 1;
                }
            }));
            STORES_LEFT.set(None);
            let mut writer = attach(&words);
            check_heap(&writer);
            let now = seen(&words);
            let last = done.checked_sub(1).map_or("None", |step| &after[step][..]);
            if died.is_ok() {
                assert_eq!(now, last);
                break;
            }
            deaths += 1;
            for line in last.lines() {
                // A step changes one path; all others are as they were.
                let is_changed = !after[done].contains(line);
                assert!(is_changed || now.contains(line), "after {stores} stores: {line}\n{now}");
            }
            STEPS[done..].iter().for_each(|step| step(&mut writer));
            assert_eq!(&seen(&words), after.last().unwrap(), "after {stores} stores");
            assert_eq!(writer.records(), 4);
            check_heap(&attach(&words));
        }
        assert!(deaths > 100, "{deaths}");
    }

    #[test]
    fn record_numbers_and_references_stay() {
        let words = words();
        let mut writer = create(&words);
        STEPS[..7].iter().for_each(|step| step(&mut writer));
        let reader = Reader::open(&words).unwrap();
        let number = reader.find(b"/sw/link").unwrap().index();
        reader.record(number).unwrap().pin(2);
        let mut successor = attach(&words);
        assert_eq!((successor.records(), successor.heap_bytes()), (writer.records(), writer.heap_bytes()));
        assert!(!successor.reclaim(&path("/sw/link")), "the kernel refers to it");
        successor.publish(&path("/sw/new"), &Fact::Absent).unwrap();
        assert_eq!(reader.find(b"/sw/link").map(|record| (record.index(), record.lookups())), Some((number, 2)));
        reader.record(number).unwrap().release(2);
        assert!(successor.reclaim(&path("/sw/link")) && successor.reclaim(&path("/sw/link")));
        assert!(reader.record(number).is_none());
        for retained in ["/sw/file", "/sw/live"] {
            assert!(!successor.reclaim(&path(retained)), "{retained}");
        }
    }

    #[test]
    fn space_is_used_again_but_never_that_of_what_was_retired() {
        let words = words();
        let mut writer = create(&words);
        let used = writer.heap_bytes();
        for round in 0..1000 {
            let directory = path(&format!("/sw/directory{}", round % 7));
            writer.publish(&directory, &Fact::Listing(attr(mode::DIR), &listing())).unwrap();
            assert!(writer.reclaim(&directory));
        }
        assert_eq!((writer.heap_bytes(), writer.records()), (used, 0));
        let in_use = |word: &&AtomicU64| word.load(Ordering::Relaxed) != 0;
        let slots = writer.paths();
        assert_eq!(words[slots.base..][..slots.count as usize].iter().filter(in_use).count(), 0, "no marks are left");

        writer.publish(&path("/sw/gone"), &Fact::Absent).unwrap();
        let number = Reader::open(&words).unwrap().find(b"/sw/gone").unwrap().index();
        assert!(writer.retire(&path("/sw/gone")) && !writer.retire(&path("/sw/gone")));
        let mut successor = attach(&words);
        for round in 0..30 {
            successor.publish(&path(&format!("/sw/{round}")), &Fact::Absent).unwrap();
        }
        let reader = Reader::open(&words).unwrap();
        assert!(reader.find(b"/sw/gone").is_none() && reader.record(number).is_none());
    }

    #[test]
    fn only_a_table_of_these_sizes_is_taken_on() {
        let words = words();
        let foreign = |geometry| Writer::attach(&words, geometry, |_| true).err() == Some(TableError::Foreign);
        assert!(foreign(GEOMETRY));
        create(&words);
        assert!(!foreign(GEOMETRY));
        assert!(foreign(Geometry { slot_count: 32, ..GEOMETRY }));
        assert!(Writer::attach(&words[..99], GEOMETRY, |_| true).is_err());
        assert_eq!(Writer::attach(&words, GEOMETRY, |_| false).err(), Some(TableError::NoMemory));
    }
}
