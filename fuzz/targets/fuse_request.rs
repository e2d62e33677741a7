//! Requests from the kernel: whatever the bytes are, names are such as a directory can have, and all
//! that is decoded lies within them.

#![no_main]

use headwater_fuse::{Operation, Request};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    check(bytes);
    // The same with its length as it should be, which the fuzzer would have to guess.
    let mut bytes = bytes.to_vec();
    if let Some(length) = bytes.len().try_into().ok().map(u32::to_ne_bytes)
        && let Some(start) = bytes.first_chunk_mut()
    {
        *start = length;
        check(&bytes);
    }
});

fn check(bytes: &[u8]) {
    let Ok(request) = Request::decode(bytes) else { return };
    match request.operation {
        Operation::Rename { name, to_name, .. } => [name, to_name].into_iter().for_each(check_name),
        Operation::Lookup { name }
        | Operation::Unlink { name }
        | Operation::Rmdir { name }
        | Operation::Link { name, .. }
        | Operation::Create { name, .. }
        | Operation::Mknod { name, .. }
        | Operation::Mkdir { name, .. } => check_name(name),
        Operation::Symlink { name, target } => {
            check_name(name);
            assert!(!target.is_empty() && !target.contains(&0));
        }
        Operation::BatchForget(forgets) => assert!(forgets.count() * 16 < bytes.len()),
        Operation::Write { data, .. } | Operation::Setxattr { value: data, .. } => assert!(data.len() < bytes.len()),
        _ => {}
    }
}

fn check_name(name: &[u8]) {
    assert!(!name.is_empty() && !name.contains(&0) && !name.contains(&b'/') && name != b"." && name != b"..");
}
