//! Recorded closures: any file is refused, or has the same meaning when it is written again.

#![no_main]

use headwater_closure::recorded::{parse, write};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(entries) = parse(bytes) {
        assert_eq!(parse(write(entries.iter()).as_bytes()), Ok(entries));
    }
});
