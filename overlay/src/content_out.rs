//! Content that is queued for sending.

use std::sync::Arc;

use headwater_abi::wire::Message;

/// Content to be sent.
#[derive(Clone, Debug)]
pub struct ContentOut {
    /// The message before its bytes: [`Message::Chunk`] or [`Message::Content`].
    pub message: Message,
    /// The original path of its file.
    pub path: headwater_abi::Path,
    /// The block that is sent; `None` for a file in one piece.
    pub block: Option<u32>,
    /// The ranges of its bytes in the file: (offset, length).
    pub ranges: Arc<[(u64, u64)]>,
}

impl ContentOut {
    /// Returns the number of bytes.
    pub fn bytes(&self) -> usize {
        self.message.content_bytes() as usize
    }

    /// Returns true if both are the same bytes, for any recipient.
    pub fn is_same_content(&self, other: &ContentOut) -> bool {
        (self.block, &self.ranges) == (other.block, &other.ranges) && self.path == other.path
    }

    /// Returns the message to send if the bytes have been evicted. The node handles this for chunks.
    pub fn instead(&self) -> Option<Message> {
        match &self.message {
            Message::Content { path, aspect, .. } => Some(Message::Unavailable { path: path.clone(), aspect: *aspect }),
            _ => None,
        }
    }
}
