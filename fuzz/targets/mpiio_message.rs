//! A message of another rank of an MPI job, taken by the I/O library: nothing beyond message, buffer and file is
//! touched, and an undamaged message has its effect.

#![no_main]

use std::ffi::c_int;

// Its build brings the C code.
use headwater_fuzz as _;
use libfuzzer_sys::fuzz_target;

unsafe extern "C" {
    fn fuzz_mpiio_message(data: *const u8, bytes: usize) -> c_int;
}

fuzz_target!(|data: &[u8]| {
    // SAFETY: the bytes live during the call, which only reads them.
    let is_good = unsafe { fuzz_mpiio_message(data.as_ptr(), data.len()) };
    assert!(is_good != 0, "a message without damage brings no data");
});
