//! The journal of files that were renamed while in use, as a daemon's successor finds it.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| headwater_mount::fuzz_journal(bytes));
