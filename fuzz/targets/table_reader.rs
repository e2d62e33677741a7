//! A damaged table: every look-up ends, and returns the requested path or nothing.

#![no_main]

use headwater_abi::table::{AtomicU64, Reader, Record, word};
use headwater_fuzz::{PATHS, STORE_INO, damaged_table};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|edits: &[u8]| read_table(&damaged_table(edits)));

fn read_table(words: &[AtomicU64]) {
    let Some(reader) = Reader::open(words) else { return };
    let _ = reader.is_serving();
    for at in [word::SCOPE_AT, word::STORE_AT, word::SOCKET_AT, word::COUNTERS_AT] {
        let _ = reader.header_bytes(at);
    }
    for path in PATHS {
        if let Some(record) = reader.find(path.as_bytes()) {
            assert_eq!(record.path().as_deref(), Some(path.as_bytes()));
            if let Some(again) = reader.record(record.index()) {
                assert_eq!(again.path().as_deref(), Some(path.as_bytes()));
            }
            read_record(&record);
        }
    }
    for index in (0..words.len() as u64).step_by(7).chain([u64::MAX, words.len() as u64 - 1]) {
        if let Some(record) = reader.record(index) {
            read_record(&record);
        }
    }
    if let Some(record) = reader.find_inode(STORE_INO) {
        let _ = record.path();
        read_record(&record);
    }
}

fn read_record(record: &Record<'_>) {
    let _ = record.attr();
    let _ = record.aux();
    if let Some(names) = record.names() {
        let _ = names.find(b"liba.so");
    }
}
