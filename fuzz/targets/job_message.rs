//! Messages between a job's front end, its nodes and their processes.

#![no_main]

use libfuzzer_sys::fuzz_target;
use serde::Serialize;
use serde::de::DeserializeOwned;

#[path = "../../cli/src/io"]
#[allow(dead_code, reason = "options are not used here")]
mod io {
    pub mod options;
}
#[path = "../../cli/src/options"]
#[allow(dead_code, reason = "options are not used here")]
mod options {
    pub mod headings;
}
#[allow(dead_code, reason = "no nodes meet here")]
#[path = "../../cli/src/rendezvous"]
mod rendezvous {
    pub mod membership;
    pub mod messages;
}

use rendezvous::messages::{Answer, FromNode, ToNode};

/// A line that is read is written as the same.
fn line<T: Serialize + DeserializeOwned>(text: &str) {
    let Ok(message) = serde_json::from_str::<T>(text) else { return };
    let written = serde_json::to_string(&message).expect("what was read can be written");
    let again = serde_json::from_str::<T>(&written).expect("what was written can be read");
    assert_eq!(serde_json::to_string(&again).expect("as before"), written);
}

fuzz_target!(|bytes: &[u8]| {
    if let Some(answer) = Answer::decode(bytes) {
        assert_eq!(Answer::decode(&answer.encode()), Some(answer));
    }
    if let Ok(text) = str::from_utf8(bytes) {
        line::<FromNode>(text);
        line::<ToNode>(text);
    }
});
