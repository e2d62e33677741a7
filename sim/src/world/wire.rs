//! A link between two ranks, and what is on its way.

use std::collections::VecDeque;

use headwater_abi::wire::{Message, TransferId};
use headwater_proto::Rank;

use crate::store::Segment;

/// The rank that dials, and the one that is dialled.
pub(crate) type Ends = (Rank, Rank);

/// What travels.
#[derive(Debug)]
pub(super) enum Packet {
    Hello,
    Message(Box<Message>),
    Chunk { transfer: TransferId, position: u64, bytes: u32, content: Vec<Segment> },
    Content { message: Box<Message>, content: Vec<Segment> },
}

/// What is on its way in one direction.
#[derive(Debug, Default)]
pub(super) struct Lane {
    pub(super) queue: VecDeque<Packet>,
    /// When the last of it arrives.
    pub(super) last: u64,
    pub(super) is_silent: bool,
}

/// The link between two ranks.
#[derive(Debug, Default)]
pub(super) struct Wire {
    /// Counts the times that it was set up.
    pub(super) number: u64,
    pub(super) is_up: bool,
    /// Up to the dialled, and down from there.
    pub(super) lanes: [Lane; 2],
}
