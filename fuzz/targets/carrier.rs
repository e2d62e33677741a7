//! Messages of a carrier to its daemon, and what a carrier receives from its daemon and from unauthenticated peers.

#![no_main]

use std::ffi::{c_int, c_void};

// Its build brings the C code.
use headwater_fuzz as _;
use libfuzzer_sys::fuzz_target;

unsafe extern "C" {
    fn fuzz_fabric_wire(data: *const c_void, bytes: usize) -> c_int;
}

fuzz_target!(|bytes: &[u8]| {
    headwater_overlay::fuzz_carrier(bytes);
    // SAFETY: the bytes live during the call, which only reads them.
    let is_sound = unsafe { fuzz_fabric_wire(bytes.as_ptr().cast(), bytes.len()) };
    assert!(is_sound != 0, "a link continued in an impossible state");
});
