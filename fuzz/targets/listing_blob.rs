//! A directory's listing in the table: damaged ones are noticed, whole ones hold exactly their names.

#![no_main]

use headwater_abi::listing::{Listing, Name, find_in_blob};
use libfuzzer_sys::fuzz_target;

// The first byte decides whether the rest is a blob or names for one.
fuzz_target!(|input: &[u8]| {
    let Some((&choice, rest)) = input.split_first() else { return };
    if choice % 2 == 0 {
        let (name, blob) = rest.split_at(usize::from(choice / 2).min(rest.len()));
        let _ = find_in_blob(blob, name);
        return;
    }
    let mut names: Vec<Name> = Vec::new();
    for (ino, part) in rest.split(|&b| b == 0).enumerate().filter(|(_, part)| !part.is_empty()) {
        if names.iter().all(|known| *known.name != *part) {
            names.push(Name { ino: ino as u64, d_type: part[0], name: part.into() });
        }
    }
    let listing = Listing { names };
    let blob = listing.to_blob();
    for known in &listing.names {
        assert_eq!(find_in_blob(&blob, &known.name), Some(Some(known.d_type)));
    }
    let absent = [rest, &[1]].concat();
    assert_eq!(find_in_blob(&blob, &absent), Some(listing.find(&absent).map(|found| found.d_type)));
});
