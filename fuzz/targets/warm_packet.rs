//! Messages of the owner of zygotes to a rank's proxy.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../cli/src/warm/packet.rs"]
#[allow(dead_code, reason = "packets are not sent here")]
mod packet;

use packet::{Answer, BYTES_MAX};

fuzz_target!(|bytes: &[u8]| {
    let Some(answer) = Answer::decode(bytes) else { return };
    let again = answer.encode();
    assert!(again.len() <= BYTES_MAX && again.first() == bytes.first());
    let read = Answer::decode(&again);
    // Lines have a single kind of end, and long ones are cut.
    assert!(
        matches!((&read, &answer), (Some(Answer::Ready(_)), Answer::Ready(_)))
            || read == Some(answer)
            || again.len() >= BYTES_MAX - 4
    );
});
