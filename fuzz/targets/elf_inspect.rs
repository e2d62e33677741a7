//! Any file, or the start of one: what is found of an ELF object lies within it, and reading its requests to the loader
//! ends.

#![no_main]

use headwater_abi::wire::RANGES_MAX;
use headwater_closure::elf::{dynamic, inspect};
use libfuzzer_sys::fuzz_target;

const SIZE_BYTES: usize = 4;

// The last four bytes are the file's size beyond the prefix.
fuzz_target!(|input: &[u8]| {
    let Some((prefix, beyond)) = input.split_last_chunk::<SIZE_BYTES>() else { return };
    let _ = dynamic::read(prefix);
    let size = prefix.len() as u64 + u64::from(u32::from_le_bytes(*beyond));
    let Some(object) = inspect(prefix, size) else { return };
    assert!(!object.ranges.is_empty() && object.ranges.len() <= RANGES_MAX);
    let mut end = 0;
    for (number, &(offset, bytes)) in object.ranges.iter().enumerate() {
        assert!(bytes > 0 && (number == 0 || offset > end));
        end = offset + bytes;
    }
    assert!(object.ranges[0].0 == 0 && end <= size);
});
