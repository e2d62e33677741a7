//! Requests from processes: whole ones mean the same after encoding, pieces of them are incomplete.

#![no_main]

use headwater_abi::client::{Decoded, REPLY_BYTES, Request, decode_reply, encode_reply};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Decoded::Request(request) = Request::decode(bytes) {
        assert!(request.path.as_bytes().starts_with(b"/"));
        let again = request.encode();
        assert_eq!(Request::decode(&again), Decoded::Request(request));
        for end in 0..again.len() {
            assert_eq!(Request::decode(&again[..end]), Decoded::Incomplete);
        }
    }
    if let Some(reply) = bytes.first_chunk::<REPLY_BYTES>()
        && let Some(status) = decode_reply(reply)
    {
        assert_eq!(decode_reply(&encode_reply(status)), Some(status));
    }
});
