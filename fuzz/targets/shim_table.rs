//! The shim's C reader and resolution over a damaged table: they end and read nothing beyond
//! the table, and without damage they find everything.

#![no_main]

use std::ffi::{CStr, CString, c_char, c_int, c_void};

use headwater_abi::client::Want;
use headwater_fuzz::{PATHS, STORE_INO, damaged_table};
use libfuzzer_sys::fuzz_target;

unsafe extern "C" {
    fn fuzz_attach(data: *const c_void, bytes: usize) -> c_int;
    fn fuzz_find(path: *const c_char) -> c_int;
    fn fuzz_find_inode(ino: u64) -> c_int;
    fn fuzz_resolve(path: *const c_char, want: u32) -> c_int;
}

const ODD_PATHS: [&CStr; 5] =
    [c"/sw/lib/../lib/liba.so", c"/sw/lib/liba.so/", c"/sw//./lib/.", c"/sw/lib/absent.so", c"/sw/lib/liba.so/../.."];

fuzz_target!(|edits: &[u8]| {
    let words = damaged_table(edits);
    // SAFETY: the words live until the last look-up, and nothing writes them meanwhile.
    if unsafe { fuzz_attach(words.as_ptr().cast(), words.len() * size_of::<u64>()) } == 0 {
        return;
    }
    for path in PATHS {
        let name = CString::new(path).expect("the paths contain no NUL");
        // SAFETY: the C side reads the path up to its NUL and the table that is attached.
        let found = unsafe { fuzz_find(name.as_ptr()) } != 0;
        assert!(found || !edits.is_empty(), "{path} is not found in a table without damage");
    }
    // SAFETY: it reads the table that is attached.
    unsafe { fuzz_find_inode(STORE_INO) };
    for path in PATHS {
        resolve(&CString::new(path).expect("the paths contain no NUL"));
    }
    ODD_PATHS.iter().for_each(|path| resolve(path));
});

fn resolve(path: &CStr) {
    for want in [Want::ATTR, Want::ATTR | Want::NO_FOLLOW, Want::LISTING, Want::LOADABLE, Want::WHOLE] {
        // SAFETY: as for fuzz_find.
        assert_ne!(unsafe { fuzz_resolve(path.as_ptr(), want.bits()) }, 0, "{path:?}");
    }
}
