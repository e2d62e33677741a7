//! A link between two ranks, and its messages.

use std::collections::VecDeque;

use headwater_abi::wire::{Message, TransferId};
use headwater_proto::Rank;

use crate::store::Segment;

/// The rank that dials, and the one that is dialled.
pub(crate) type Ends = (Rank, Rank);

#[derive(Debug)]
pub(super) enum Packet {
    Hello,
    Message(Box<Message>),
    Chunk { transfer: TransferId, position: u64, bytes: u32, content: Vec<Segment> },
    Content { message: Box<Message>, content: Vec<Segment> },
}

#[derive(Debug, Default)]
pub(super) struct Lane {
    pub(super) queue: VecDeque<Packet>,
    /// When the last of them arrives.
    pub(super) last: u64,
    pub(super) is_silent: bool,
}

#[derive(Debug, Default)]
pub(super) struct Wire {
    /// Number of times that it was set up.
    pub(super) number: u64,
    pub(super) is_up: bool,
    /// Up to the dialled rank, and down from it.
    pub(super) lanes: [Lane; 2],
}
