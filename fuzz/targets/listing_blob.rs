//! A directory's listing in the table: damaged ones are detected, whole ones contain exactly their names.

#![no_main]

use headwater_abi::listing::{Builder, Name};
use headwater_abi::table::{AtomicU64, Names};
use libfuzzer_sys::fuzz_target;

/// Looks `name` up in a blob in memory: `None` if it is damaged.
fn find(blob: &[u8], name: &[u8]) -> Option<Option<u8>> {
    let word = |chunk: &[u8]| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        AtomicU64::new(u64::from_le_bytes(word))
    };
    let words: Vec<AtomicU64> = blob.chunks(8).map(word).collect();
    Names::new(&words, blob.len())?.find(name).map(|found| found.map(|named| named.d_type))
}

// The first byte decides whether the rest is a blob or names for one.
fuzz_target!(|input: &[u8]| {
    let Some((&choice, rest)) = input.split_first() else { return };
    if choice % 2 == 0 {
        let (name, blob) = rest.split_at(usize::from(choice / 2).min(rest.len()));
        let _ = find(blob, name);
        return;
    }
    let mut names = Builder::default();
    let mut known: Vec<&[u8]> = Vec::new();
    for part in rest.split(|&b| b == 0).filter(|part| !part.is_empty()) {
        if !known.contains(&part) && names.push(Name { ino: known.len() as u64, d_type: part[0], name: part }) {
            known.push(part);
        }
    }
    let listing = names.finish();
    assert_eq!(listing.len(), known.len());
    for (number, name) in known.iter().enumerate() {
        assert_eq!(find(listing.blob(), name), Some(Some(name[0])));
        assert_eq!(listing.find(name).map(|(number, _)| number), Some(number));
    }
    let absent = [rest, &[1]].concat();
    assert_eq!(find(listing.blob(), &absent), Some(listing.find(&absent).map(|(_, found)| found.d_type)));
});
