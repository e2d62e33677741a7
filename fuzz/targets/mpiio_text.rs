//! The I/O library's readers of profiles and of the kernel's list of mounts: they end, and store no more than fits.

#![no_main]

use std::ffi::{c_int, c_void};

// Its build brings the C code.
use headwater_fuzz as _;
use libfuzzer_sys::fuzz_target;

unsafe extern "C" {
    fn fuzz_mpiio_text(data: *const c_void, bytes: usize, is_profile: c_int) -> c_int;
}

fuzz_target!(|data: &[u8]| {
    for is_profile in [0, 1] {
        // SAFETY: the bytes live during the call, which only reads them.
        let is_good = unsafe { fuzz_mpiio_text(data.as_ptr().cast(), data.len(), is_profile) };
        assert!(is_good != 0);
    }
});
