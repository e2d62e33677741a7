//! Inputs that several targets share: a small table, well-formed, into which the fuzzer writes.

use headwater_abi::Path;
use headwater_abi::attr::{Attr, mode};
use headwater_abi::listing::{Listing, Name, d_type};
use headwater_abi::table::{AtomicU64, Fact, Geometry, Header, Ordering, View, Writer};

/// The paths that a table has records of, before it is damaged.
pub const PATHS: [&str; 5] = ["/sw", "/sw/lib", "/sw/lib/liba.so", "/sw/lib/liba.so.1", "/sw/none"];
/// The inode number of the one file that is in the store.
pub const STORE_INO: u64 = 42;

const GEOMETRY: Geometry = Geometry { slot_count: 32, ino_slot_count: 16, heap_bytes: 4096 };
const EDIT_BYTES: usize = 10;

/// A table with these edits, ten bytes each: a word's number and its new value. The remaining bytes are the number of
/// tenths of the table that exist; none: all of it exists.
pub fn damaged_table(edits: &[u8]) -> Vec<AtomicU64> {
    let mut words: Vec<AtomicU64> = (0..GEOMETRY.total_bytes() / 8).map(|_| AtomicU64::new(0)).collect();
    write_table(&words);
    for edit in edits.chunks_exact(EDIT_BYTES) {
        let at = usize::from(u16::from_le_bytes([edit[0], edit[1]])) % words.len();
        let value = u64::from_le_bytes(edit[2..].try_into().expect("eight bytes are left"));
        words[at].store(value, Ordering::Relaxed);
    }
    if !edits.len().is_multiple_of(EDIT_BYTES) {
        words.truncate(edits.len() % EDIT_BYTES * words.len() / EDIT_BYTES);
    }
    words
}

fn write_table(words: &[AtomicU64]) {
    let header = Header {
        generation: 1,
        scope: vec![(true, b"/sw".to_vec()), (false, b"/sw/data".to_vec())],
        store: b"/dev/shm/store".to_vec(),
        socket: b"/dev/shm/sock".to_vec(),
        counters: b"/dev/shm/counters".to_vec(),
        store_dev: (0, 25),
        view: View::default(),
        stored_file_bytes_max: None,
        follows_fork: true,
    };
    let mut writer = Writer::create(words, GEOMETRY, &header, |_| true).expect("the slice fits the geometry");
    let path = |number: usize| Path::new(PATHS[number].as_bytes()).expect("the paths are absolute");
    let attr = |mode| Attr { mode, ..Attr::default() };
    let listing = |name: &str, d_type| Listing::from_iter([Name { ino: 7, d_type, name: name.as_bytes() }]);
    let facts = [
        Fact::Listing(attr(mode::DIR), &listing("lib", d_type::DIR)),
        Fact::Listing(attr(mode::DIR), &listing("liba.so", d_type::LINK)),
        Fact::Link(attr(mode::LINK), b"liba.so.1"),
        Fact::Attr(attr(mode::FILE)),
        Fact::Absent,
    ];
    for (number, fact) in facts.iter().enumerate() {
        writer.publish(&path(number), fact).expect("the table has room");
    }
    writer.index_inode(&path(3), STORE_INO).expect("the table has room");
}
