//! The shim's reader of ld.so.cache: it ends and reads nothing beyond the file.

#![no_main]

use std::ffi::{CStr, c_char, c_long, c_void};

// Its build brings the C code.
use headwater_fuzz as _;
use libfuzzer_sys::fuzz_target;

unsafe extern "C" {
    fn fuzz_ldcache(data: *const c_void, bytes: usize, name: *const c_char) -> c_long;
}

const NAMES: [&CStr; 4] = [c"liba.so.1", c"liba.so.10", c"libb.so", c"none"];

fuzz_target!(|file: &[u8]| {
    // Aligned as a mapping is, and no longer than the file.
    let mut words = vec![0u64; file.len() / 8];
    let bytes = words.len() * 8;
    for (word, chunk) in words.iter_mut().zip(file.chunks_exact(8)) {
        *word = u64::from_le_bytes(chunk.try_into().expect("a chunk has eight bytes"));
    }
    for name in NAMES {
        // SAFETY: the words and the name live during the call, which only reads them.
        let length = unsafe { fuzz_ldcache(words.as_ptr().cast(), bytes, name.as_ptr()) };
        assert!(length < bytes as i64);
    }
});
