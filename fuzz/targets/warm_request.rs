//! Requests of a rank's proxy to a node's owner of zygotes: what is decoded is what would be encoded.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../cli/src/warm/request.rs"]
mod request;

use request::Request;

fuzz_target!(|data: &[u8]| {
    if let Some(request) = Request::decode(data) {
        assert!(request.encode() == data);
    }
});
