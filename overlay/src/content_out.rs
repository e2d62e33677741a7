//! Content that waits to be sent: where its bytes lie, and what precedes them.

use std::sync::Arc;

use headwater_abi::wire::Message;

/// Content to be sent.
#[derive(Clone, Debug)]
pub struct ContentOut {
    /// What stands before its bytes: [`Message::Chunk`] or [`Message::Content`].
    pub message: Message,
    /// The original path of its file.
    pub path: headwater_abi::Path,
    /// The block that is sent; `None` for a file in one piece.
    pub block: Option<u32>,
    /// Where in the file its bytes stand: (offset, length).
    pub ranges: Arc<[(u64, u64)]>,
}

impl ContentOut {
    /// How many bytes they are.
    pub fn bytes(&self) -> usize {
        self.message.content_bytes() as usize
    }

    /// Whether these are the same bytes, for whomever.
    pub fn is_same_content(&self, other: &ContentOut) -> bool {
        (self.block, &self.ranges) == (other.block, &other.ranges) && self.path == other.path
    }

    /// What is to be sent if its bytes have gone from the store. Of a chunk the node sends more.
    pub fn instead(&self) -> Option<Message> {
        match &self.message {
            Message::Content { path, aspect, .. } => Some(Message::Unavailable { path: path.clone(), aspect: *aspect }),
            _ => None,
        }
    }
}
