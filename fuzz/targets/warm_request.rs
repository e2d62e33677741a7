//! What a rank's proxy asks a node's owner of zygotes for: what is understood is what would be written.

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
