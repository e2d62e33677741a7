//! Every interleaving of the table's writer with its readers, as the memory model allows them:
//! `RUSTFLAGS="--cfg loom" cargo test -p headwater-abi --release --test loom`.
//!
//! A reader sees nothing of a path, or a record in full; and a state bit only with the data that it
//! announces.
#![cfg(loom)]

use headwater_abi::attr::mode;
use headwater_abi::table::{AtomicU64, Fact, Geometry, Header, Named, Reader, State, View, Writer};
use headwater_abi::{Attr, Kind, Listing, Name, Path};
use loom::sync::Arc;
use loom::thread;

/// As small as it can be: loom tracks every word.
const GEOMETRY: Geometry = Geometry { slot_count: 4, ino_slot_count: 4, heap_bytes: 512 };

type Table = Arc<Vec<AtomicU64>>;
type TableWriter<'a> = Writer<'a, fn(u64) -> bool>;

fn table() -> Table {
    Arc::new((0..GEOMETRY.total_bytes() / 8).map(|_| AtomicU64::new(0)).collect())
}

fn writer(words: &Table) -> TableWriter<'_> {
    let header = Header {
        generation: 1,
        scope: Vec::new(),
        store: Vec::new(),
        socket: Vec::new(),
        counters: Vec::new(),
        store_dev: (0, 0),
        view: View::default(),
        stored_file_bytes_max: None,
        follows_fork: true,
    };
    Writer::create(words, GEOMETRY, &header, (|_| true) as fn(u64) -> bool).unwrap()
}

fn path() -> Path {
    Path::new(b"/a").unwrap()
}

fn attr(kind: u32) -> Attr {
    Attr { mode: kind | 0o755, ino: 77, mnt_id: 99, ..Attr::default() }
}

/// Runs `write` against `readers` threads that each `look` at the table once.
fn check(readers: usize, write: fn(&mut TableWriter<'_>), look: fn(&Reader<'_>)) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(move || {
        let words = table();
        let mut writer = writer(&words);
        let threads: Vec<_> = (0..readers)
            .map(|_| {
                let words = words.clone();
                thread::spawn(move || look(&Reader::open(&words).expect("the table is laid out")))
            })
            .collect();
        write(&mut writer);
        for thread in threads {
            thread.join().unwrap();
        }
    });
}

/// The writer's first write is seen as nothing or as all of it.
#[test]
fn absent_names() {
    check(
        2,
        |writer| writer.publish(&path(), &Fact::Absent).unwrap(),
        |reader| {
            if let Some(record) = reader.find(b"/a") {
                assert!(matches!(record.kind, Kind::Unknown | Kind::Absent));
                assert_eq!(record.path().as_deref(), Some(&b"/a"[..]));
            }
        },
    );
}

#[test]
fn attributes_then_a_listing() {
    check(
        1,
        |writer| {
            let names = Listing::from_iter([Name { ino: 1, d_type: 8, name: b"n" }]);
            writer.publish(&path(), &Fact::Attr(attr(mode::DIR))).unwrap();
            writer.publish(&path(), &Fact::Listing(attr(mode::DIR), &names)).unwrap();
        },
        |reader| {
            let Some(record) = reader.find(b"/a") else { return };
            assert!(!record.state.contains(State::LISTED) || record.state.contains(State::ATTR));
            assert_eq!(record.kind == Kind::Dir, record.state.contains(State::ATTR));
            assert_eq!(record.attr(), record.state.contains(State::ATTR).then(|| attr(mode::DIR)));
            if record.state.contains(State::LISTED) {
                assert_eq!(record.names().unwrap().find(b"n"), Some(Some(Named { ino: 1, d_type: 8 })));
            }
        },
    );
}

#[test]
fn a_link_is_published_with_its_target() {
    check(
        1,
        |writer| writer.publish(&path(), &Fact::Link(attr(mode::LINK), b"../target")).unwrap(),
        |reader| {
            let Some(record) = reader.find(b"/a").filter(|r| r.kind == Kind::Link) else { return };
            assert_eq!(record.aux().as_deref(), Some(&b"../target"[..]));
            assert_eq!(record.attr(), Some(attr(mode::LINK)));
        },
    );
}

#[test]
fn content_is_marked_and_cleared() {
    check(
        1,
        |writer| {
            writer.publish(&path(), &Fact::Attr(attr(mode::FILE))).unwrap();
            writer.index_inode(&path(), 5).unwrap();
            writer.mark(&path(), State::LOADABLE, State::empty()).unwrap();
            writer.mark(&path(), State::empty(), State::LOADABLE).unwrap();
            writer.mark(&path(), State::PASSTHROUGH, State::empty()).unwrap();
        },
        |reader| {
            let Some(record) = reader.find(b"/a") else { return };
            if record.state.intersects(State::LOADABLE | State::PASSTHROUGH) {
                assert_eq!(record.attr(), Some(attr(mode::FILE)));
                let by_inode = reader.find_inode(5).expect("content is found by its inode");
                assert_eq!(by_inode.path().as_deref(), Some(&b"/a"[..]));
            }
            assert!(!record.state.contains(State::LOADABLE | State::PASSTHROUGH));
        },
    );
}

/// A record's number leads to it while others are added, and references that several threads add at once are
/// all counted.
#[test]
fn records_by_their_numbers() {
    check(
        2,
        |writer| writer.publish(&path(), &Fact::Attr(attr(mode::FILE))).unwrap(),
        |reader| {
            let Some(record) = reader.find(b"/a") else { return };
            let again = reader.record(record.index()).expect("a record stays");
            assert_eq!(again.path().as_deref(), Some(&b"/a"[..]));
            assert!(reader.record(record.index() + 1).is_none());
            again.pin(2);
            assert!(record.lookups() >= 2);
            record.release(1);
            assert!(again.lookups() >= 1);
        },
    );
}
