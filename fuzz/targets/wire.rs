//! Frames from a peer: what decodes is what was encoded, within its limits.

#![no_main]

use headwater_abi::wire::{CHUNK_BYTES_MAX, Message};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|body: &[u8]| {
    let Ok((message, content)) = Message::decode(body) else { return };
    let mut again = message.encode();
    again.extend_from_slice(content);
    assert_eq!(Message::decode(&again), Ok((message.clone(), content)));
    match &message {
        Message::Chunk { bytes, .. } => {
            assert!(content.len() == *bytes as usize && content.len() <= CHUNK_BYTES_MAX);
        }
        Message::Content { head, .. } => {
            assert!(head.is_valid() && content.len() as u64 == head.content_bytes());
            assert!(content.len() <= CHUNK_BYTES_MAX);
        }
        Message::File { head, position, .. } => {
            assert!(head.is_valid());
            let located = head.locate(*position);
            assert_eq!(located.is_none(), *position == head.content_bytes());
            assert!(located.is_none_or(|(offset, bytes)| bytes > 0 && offset + bytes <= head.attr.size));
        }
        _ => {}
    }
});
