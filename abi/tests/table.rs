//! The table against a map: random publications, marks and look-ups; full tables; damaged ones.
#![cfg(not(loom))]

use std::collections::BTreeMap;

use headwater_abi::attr::mode;
use headwater_abi::table::{
    AtomicU64, Fact, Geometry, Header, MAGIC, Ordering, Reader, Record, State, TableError, VERSION, View, Writer, word,
};
use headwater_abi::{Attr, Kind, Listing, Name, Path};
use proptest::prelude::*;

const GEOMETRY: Geometry = Geometry { slot_count: 64, ino_slot_count: 64, heap_bytes: 64 << 10 };

fn words(geometry: Geometry) -> Vec<AtomicU64> {
    (0..geometry.total_bytes() / 8).map(|_| AtomicU64::new(0)).collect()
}

fn header() -> Header {
    Header {
        generation: 3,
        scope: vec![(true, b"/sw".to_vec()), (false, b"/sw/tmp".to_vec())],
        store: b"/dev/shm/x".to_vec(),
        socket: b"/run/s".to_vec(),
        counters: b"/run/c".to_vec(),
        store_dev: (0, 21),
        view: View::default(),
        stored_file_bytes_max: None,
        follows_fork: true,
    }
}

fn path(number: u8) -> Path {
    Path::new(format!("/sw/{}", "x".repeat(number as usize % 24 + 1)).as_bytes()).unwrap()
}

fn attr(kind: u32, ino: u64) -> Attr {
    Attr { mode: kind | 0o644, ino, size: ino * 3, mtime: (-1, 5), ..Attr::default() }
}

#[derive(Clone, Debug)]
enum Operation {
    Publish(u8, u8),
    Mark(u8, u64, u64),
    Index(u8, u64),
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        (any::<u8>(), 0..7u8).prop_map(|(p, f)| Operation::Publish(p, f)),
        (any::<u8>(), any::<u64>(), any::<u64>()).prop_map(|(p, set, clear)| Operation::Mark(p, set, clear)),
        (any::<u8>(), 1..1000u64).prop_map(|(p, ino)| Operation::Index(p, ino)),
    ]
}

/// The model's record of a path.
#[derive(Clone, Debug, Default, PartialEq)]
struct Known {
    kind: Option<Kind>,
    errno: u16,
    state: State,
    attr: Option<Attr>,
    target: Option<Vec<u8>>,
    names: Option<Vec<u8>>,
    ino: Option<u64>,
}

/// The bits that change in place.
fn changeable(bits: u64) -> State {
    let set =
        State::LOADABLE | State::WHOLE | State::PASSTHROUGH | State::LISTING_PASSTHROUGH | State::TREE_PASSTHROUGH;
    State::from_bits_truncate(bits) & set
}

fn listing() -> Listing {
    let names: [&[u8]; 3] = [b".", b"..", b"libz.so"];
    names.iter().map(|name| Name { ino: 4, d_type: 8, name }).collect()
}

fn publish(model: &mut Known, number: u8) -> (Fact<'static>, Result<(), TableError>) {
    static LISTING: std::sync::LazyLock<Listing> = std::sync::LazyLock::new(listing);
    let fact = match number {
        0 => Fact::Absent,
        1 => Fact::Error(13),
        2 => Fact::Attr(attr(mode::FILE, 7)),
        3 => Fact::Attr(attr(mode::DIR, 8)),
        4 => Fact::Link(attr(mode::LINK, 9), b"../target"),
        5 => Fact::Listing(attr(mode::DIR, 10), &LISTING),
        _ => Fact::Unlistable(attr(mode::DIR, 11)),
    };
    let (kind, bits) = match &fact {
        Fact::Absent => (Kind::Absent, State::empty()),
        Fact::Error(_) => (Kind::Error, State::empty()),
        Fact::Attr(attr) => (attr.kind(), State::ATTR),
        Fact::Link(..) => (Kind::Link, State::ATTR),
        Fact::Listing(..) => (Kind::Dir, State::ATTR | State::LISTED),
        Fact::Unlistable(_) => (Kind::Dir, State::ATTR | State::UNLISTABLE),
    };
    if model.kind.is_some_and(|known| known != kind) {
        return (fact, Err(TableError::Known));
    }
    model.kind = Some(kind);
    model.state |= bits;
    match &fact {
        Fact::Error(errno) => model.errno = *errno,
        Fact::Attr(attr) | Fact::Link(attr, _) | Fact::Listing(attr, _) | Fact::Unlistable(attr) => {
            model.attr.get_or_insert(*attr);
        }
        Fact::Absent => {}
    }
    match &fact {
        Fact::Link(_, target) => model.target = Some(target.to_vec()),
        Fact::Listing(_, listing) => model.names = Some(listing.blob().to_vec()),
        _ => {}
    }
    (fact, Ok(()))
}

fn check(record: &Record<'_>, path: &Path, model: &Known) {
    assert_eq!(record.path().as_deref(), Some(path.as_bytes()));
    assert_eq!((record.kind, record.errno), (model.kind.unwrap_or(Kind::Unknown), model.errno));
    assert_eq!(record.state, model.state);
    assert_eq!(record.attr(), model.attr);
    assert_eq!(record.aux(), model.target.clone().or(model.names.clone()));
}

proptest! {
    #[test]
    fn as_a_map(operations in prop::collection::vec(operation(), 1..100)) {
        let words = words(GEOMETRY);
        let mut writer = Writer::create(&words, GEOMETRY, &header(), |_| true).unwrap();
        let reader = Reader::open(&words).unwrap();
        let mut model: BTreeMap<Path, Known> = BTreeMap::new();
        let mut inodes = 0;
        for operation in operations {
            match operation {
                Operation::Publish(number, fact) => {
                    let known = model.entry(path(number)).or_default();
                    let (fact, result) = publish(known, fact);
                    prop_assert_eq!(writer.publish(&path(number), &fact), result);
                }
                Operation::Mark(number, set, clear) => {
                    let (set, clear) = (changeable(set), changeable(clear));
                    prop_assert_eq!(writer.mark(&path(number), set, clear), Ok(()));
                    let known = model.entry(path(number)).or_default();
                    known.state = (known.state - clear) | set;
                }
                Operation::Index(number, ino) if inodes < 32 => {
                    prop_assert_eq!(writer.index_inode(&path(number), ino), Ok(()));
                    model.entry(path(number)).or_default().ino = Some(ino);
                    inodes += 1;
                }
                Operation::Index(..) => {}
            }
            for number in 0..24 {
                match (reader.find(path(number).as_bytes()), model.get(&path(number))) {
                    (Some(record), Some(known)) => check(&record, &path(number), known),
                    (record, known) => prop_assert!(record.is_none() && known.is_none()),
                }
            }
            for (path, ino) in model.iter().filter_map(|(path, known)| Some((path, known.ino?))) {
                let found = reader.find_inode(ino).and_then(|r| r.path());
                let same = model.iter().filter(|(_, k)| k.ino == Some(ino)).any(|(p, _)| found.as_deref() == Some(p.as_bytes()));
                prop_assert!(same, "inode {} of {} is not found", ino, path);
            }
        }
        prop_assert_eq!(writer.records(), model.len() as u64);
    }

    #[test]
    fn any_words_are_survived(mut garbage in prop::collection::vec(any::<u64>(), 0..400), tidy: bool, seed: u8) {
        if tidy && garbage.len() > 64 {
            // A header that opens, over garbage.
            let slots = [word::SLOTS_AT, word::INO_SLOTS_AT];
            (garbage[word::MAGIC], garbage[word::VERSION]) = (MAGIC, VERSION);
            for at in slots {
                (garbage[at], garbage[at + 1]) = (u64::from(seed) / 8 * 8, 16);
            }
            // Slots that name records inside, with the tag that is looked for.
            let tag = headwater_abi::hash::tag(headwater_abi::hash::bytes(path(seed).as_bytes()));
            for (number, word) in garbage.iter_mut().enumerate().skip(64) {
                *word = u64::from(tag) << 32 | (number as u64 * 7 % 400);
            }
        }
        survive(&garbage, seed);
    }

    #[test]
    fn damage_is_survived(flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u64>()), 1..20), keep: u16) {
        let words = words(GEOMETRY);
        let mut writer = Writer::create(&words, GEOMETRY, &header(), |_| true).unwrap();
        for number in 0..24u8 {
            let (fact, _) = publish(&mut Known::default(), number % 7);
            writer.publish(&path(number), &fact).unwrap();
            writer.index_inode(&path(number), number.into()).unwrap();
        }
        let mut damaged: Vec<u64> = words.into_iter().map(AtomicU64::into_inner).collect();
        let used = (writer_end(&damaged) / 8) as usize;
        for (at, value) in flips {
            damaged[at.index(used)] = value;
        }
        damaged.truncate(used.saturating_sub(keep as usize % 200));
        for number in 0..24 {
            survive(&damaged, number);
        }
    }
}

fn writer_end(words: &[u64]) -> u64 {
    words[word::HEAP_AT] + words[word::HEAP_USED]
}

/// Does everything that a reader can do.
fn survive(words: &[u64], seed: u8) {
    let words: Vec<AtomicU64> = words.iter().copied().map(AtomicU64::new).collect();
    let Some(reader) = Reader::open(&words) else { return };
    reader.is_serving();
    for at in [word::SCOPE_AT, word::STORE_AT, word::SOCKET_AT, word::COUNTERS_AT] {
        reader.header_bytes(at);
    }
    let by_number = (0..words.len() as u64 + 2).filter_map(|index| reader.record(index));
    let found = [reader.find(path(seed).as_bytes()), reader.find_inode(seed.into())];
    for record in found.into_iter().flatten().chain(by_number) {
        record.path();
        record.attr();
        record.aux();
        if let Some(names) = record.names() {
            names.find(b"libz.so");
        }
    }
}

#[test]
fn a_table_that_is_cut_off_is_no_table_or_survived() {
    let words = words(GEOMETRY);
    Writer::create(&words, GEOMETRY, &header(), |_| true).unwrap();
    let words: Vec<u64> = words.into_iter().map(AtomicU64::into_inner).collect();
    for end in 0..300 {
        survive(&words[..end], 0);
    }
}

#[test]
fn a_full_table_reports_it_and_retains_its_records() {
    let words = words(GEOMETRY);
    let mut writer = Writer::create(&words, GEOMETRY, &header(), |_| true).unwrap();
    let name = |n: u32| Path::new(format!("/{n}").as_bytes()).unwrap();
    let full = (0..).find(|&n| writer.publish(&name(n), &Fact::Absent) == Err(TableError::Full)).unwrap();
    assert_eq!(full, 32, "half of the slots");
    let reader = Reader::open(&words).unwrap();
    assert!((0..full).all(|n| reader.find(name(n).as_bytes()).is_some_and(|r| r.kind == Kind::Absent)));
    assert!(reader.find(name(full).as_bytes()).is_none());
    assert_eq!(writer.mark(&name(0), State::PASSTHROUGH, State::empty()), Ok(()));
    assert!(reader.find(name(0).as_bytes()).unwrap().state.contains(State::PASSTHROUGH));
}

#[test]
fn a_record_is_found_again_by_its_number_and_by_no_other() {
    let words = words(GEOMETRY);
    let mut writer = Writer::create(&words, GEOMETRY, &header(), |_| true).unwrap();
    writer.publish(&path(0), &Fact::Absent).unwrap();
    // A name that looks like a record must not be taken for one.
    let first = Reader::open(&words).unwrap().find(path(0).as_bytes()).unwrap().index() as usize;
    let copied = &words[first..first + word::RECORD_NAME + 1];
    let copied: Vec<u8> = copied.iter().flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes()).collect();
    let names = Listing::from_iter([Name { ino: 3, d_type: 8, name: &copied }]);
    writer.publish(&path(23), &Fact::Listing(attr(mode::DIR, 1), &names)).unwrap();
    (1..20).for_each(|number| writer.publish(&path(number), &Fact::Absent).unwrap());
    let reader = Reader::open(&words).unwrap();
    let mut numbers: Vec<u64> = (0..20).map(|number| reader.find(path(number).as_bytes()).unwrap().index()).collect();
    numbers.insert(1, reader.find(path(23).as_bytes()).unwrap().index());
    let all: Vec<u64> = (0..words.len() as u64 * 2).filter(|&index| reader.record(index).is_some()).collect();
    assert_eq!(all, numbers);
    assert!(numbers.iter().all(|&index| reader.record(index).unwrap().index() == index));
    let mut listed: Vec<u64> = reader.records().map(|record| record.index()).collect();
    listed.sort_unstable();
    assert_eq!(listed, numbers);
    assert!(reader.record(u64::MAX).is_none() && reader.record(numbers[3] | 1 << 32).is_none());
}

#[test]
fn references_are_counted_and_never_below_none() {
    let words = words(GEOMETRY);
    let mut writer = Writer::create(&words, GEOMETRY, &header(), |_| true).unwrap();
    writer.publish(&path(1), &Fact::Absent).unwrap();
    let reader = Reader::open(&words).unwrap();
    let record = reader.find(path(1).as_bytes()).unwrap();
    assert_eq!(record.lookups(), 0);
    record.pin(2);
    reader.record(record.index()).unwrap().pin(1);
    assert_eq!((record.lookups(), record.release(2), record.release(5), record.lookups()), (3, 1, 0, 0));
}

#[test]
fn memory_that_cannot_be_had_leaves_the_path_unknown() {
    let words = words(GEOMETRY);
    let mut left = 20;
    let mut writer = Writer::create(&words, GEOMETRY, &header(), |_| {
        left -= 1;
        left > 0
    })
    .unwrap();
    let name = |n: u32| Path::new(format!("/{n}").as_bytes()).unwrap();
    let failed = (0..).find(|&n| writer.publish(&name(n), &Fact::Absent) == Err(TableError::NoMemory)).unwrap();
    let reader = Reader::open(&words).unwrap();
    assert!(reader.find(name(failed).as_bytes()).is_none() && reader.find(name(failed - 1).as_bytes()).is_some());
}

#[test]
fn the_header_is_read_back_and_closing_is_seen() {
    let words = words(GEOMETRY);
    let mut writer = Writer::create(&words, GEOMETRY, &header(), |_| true).unwrap();
    let reader = Reader::open(&words).unwrap();
    assert_eq!(reader.header_bytes(word::SCOPE_AT).unwrap(), b"+/sw\0-/sw/tmp\0");
    assert_eq!(reader.header_bytes(word::STORE_AT).unwrap(), b"/dev/shm/x");
    assert!(reader.is_serving());
    writer.close();
    assert!(!reader.is_serving());
    assert!(matches!(Writer::create(&words[..100], GEOMETRY, &header(), |_| true), Err(TableError::TooSmall)));
}
