//! A zygote's reader of requests: it ends, reads nothing beyond the bytes, and its result can be read.

#![no_main]

use std::ffi::{c_int, c_void};

// Its build brings the C code.
use headwater_fuzz as _;
use libfuzzer_sys::fuzz_target;

unsafe extern "C" {
    fn fuzz_spawn_request(data: *const c_void, bytes: usize, count: u32, well_formed: c_int) -> c_int;
}

fuzz_target!(|data: &[u8]| {
    let Some((&first, edits)) = data.split_first() else { return };
    // A request has a long part before its processes: half of the inputs are edits of a valid request.
    let (count, is_edits) = (u32::from(first >> 1), c_int::from(first & 1));
    // SAFETY: the bytes live during the call, which only reads them.
    let known = unsafe { fuzz_spawn_request(edits.as_ptr().cast(), edits.len(), count, is_edits) };
    assert!(known != 0 || is_edits == 0 || !edits.is_empty(), "a request without damage is not understood");
});
