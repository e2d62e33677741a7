//! Which memory an operation reads and writes.

use super::program::{Collective, Kind, Location, MemoryOp, Message, OnFile, OnMemory, Parts, Program, Typed};
use super::types::sorted;

/// The variants of a plan in which a root's own part stays in place, and that of MPI_Sendrecv_replace.
pub const IN_PLACE: i64 = 2;
const REPLACES: i64 = 1;
const PAGE_BYTES: i64 = 4096;

/// Bytes of one rank's buffer, in the order of their addresses.
#[derive(Clone, Debug)]
pub struct Touch {
    pub rank: usize,
    pub buffer: usize,
    pub blocks: Vec<(i64, i64)>,
    pub writes: bool,
}

impl Touch {
    /// Whether one writes what the other uses.
    pub fn overlaps(&self, other: &Touch) -> bool {
        if self.rank != other.rank || self.buffer != other.buffer || !(self.writes || other.writes) {
            return false;
        }
        let (mut a, mut b) = (self.blocks.iter().peekable(), other.blocks.iter().peekable());
        while let (Some(one), Some(two)) = (a.peek(), b.peek()) {
            if one.0 < two.1 && two.0 < one.1 {
                return true;
            }
            if one.1 <= two.1 {
                a.next()
            } else {
                b.next()
            };
        }
        false
    }

    pub fn is_within(&self, program: &Program) -> bool {
        let ends = [self.blocks.first(), self.blocks.last()].into_iter().flatten();
        let mut ends = ends.flat_map(|block| [block.0, block.1]);
        self.rank < program.ranks
            && self.buffer < program.memory.len()
            && ends.all(|end| (0..=program.buffer_bytes).contains(&end))
    }
}

/// `None`: a byte would be written, or is sent, twice.
pub struct Touches(Option<Vec<Touch>>);

impl Touches {
    fn blocks(&mut self, rank: usize, buffer: usize, blocks: Vec<(i64, i64)>, writes: bool) {
        self.0 = match (self.0.take(), sorted(blocks)) {
            (Some(mut all), Some(blocks)) => {
                all.push(Touch { rank, buffer, blocks, writes });
                Some(all)
            }
            _ => None,
        };
    }

    fn range(&mut self, rank: usize, location: Location, bytes: i64, writes: bool) {
        self.blocks(rank, location.buffer, vec![(location.at, location.at + bytes)], writes);
    }

    fn typed(&mut self, rank: usize, typed: &Typed, copies: i64, writes: bool) {
        self.blocks(rank, typed.location.buffer, blocks_of(typed, copies), writes);
    }

    fn collective(&mut self, ranks: usize, all: &Collective, is_gather: bool) {
        let stays = |rank| rank == all.root && all.variant & IN_PLACE != 0;
        for rank in 0..ranks {
            let (whole, each) = if is_gather { (&all.receive, &all.send) } else { (&all.send, &all.receive) };
            if rank == all.root {
                self.typed(rank, whole, ranks as i64, is_gather);
            }
            if !stays(rank) {
                self.typed(rank, each, 1, !is_gather);
            }
        }
    }

    fn parts(&mut self, ranks: usize, parts: &Parts) {
        let mut whole = vec![];
        let extent = parts.whole.extent();
        for (count, at) in parts.counts.iter().zip(&parts.displs) {
            parts.whole.blocks(parts.location.at + at * extent, *count, &mut whole);
        }
        self.blocks(parts.root, parts.location.buffer, whole, parts.is_gather);
        for rank in 0..ranks {
            let own = parts.counts[if parts.comm == 1 { ranks - 1 - rank } else { rank }];
            if !(rank == parts.root && parts.variant & IN_PLACE != 0) {
                self.typed(rank, &parts.each, own, !parts.is_gather);
            }
        }
    }

    fn memory(&mut self, op: &MemoryOp, buffer_bytes: i64) {
        match op.what {
            OnMemory::Inspect => self.range(op.rank, op.location, op.bytes, false),
            OnMemory::Set | OnMemory::Store => self.range(op.rank, op.location, op.bytes, true),
            OnMemory::Copy => {
                self.range(op.rank, op.location, op.bytes, false);
                self.range(op.rank, op.other, op.bytes, true);
            }
            OnMemory::Renew => {
                self.range(op.rank, Location { at: 0, ..op.location }, buffer_bytes, true);
            }
            OnMemory::Drop => {
                let at = op.location.at - op.location.at % PAGE_BYTES;
                let bytes = (op.bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
                self.range(op.rank, Location { at, ..op.location }, bytes, true);
            }
        }
    }

    fn collect(&mut self, ranks: usize, all: &Collective, step: i64) {
        for rank in (0..ranks).filter(|rank| *rank != all.root) {
            self.typed(rank, &all.send, 1, false);
        }
        let mut blocks = vec![];
        for one in 0..ranks as i64 - 1 {
            all.receive.of.blocks(all.receive.location.at + one * step, all.receive.count, &mut blocks);
        }
        self.blocks(all.root, all.receive.location.buffer, blocks, true);
    }
}

fn blocks_of(typed: &Typed, copies: i64) -> Vec<(i64, i64)> {
    let mut blocks = vec![];
    typed.of.blocks(typed.location.at, typed.count * copies, &mut blocks);
    blocks
}

/// From the first byte of it to the last.
pub fn span(typed: &Typed) -> (i64, i64) {
    let blocks = blocks_of(typed, 1);
    let (low, high) = (blocks.iter().map(|block| block.0).min(), blocks.iter().map(|block| block.1).max());
    (low.unwrap_or(0), high.unwrap_or(0))
}

pub fn elements(typed: &Typed) -> i64 {
    typed.of.elements() * typed.count
}

/// The message is longer than the buffer; the receiver's memory is undefined then.
pub fn is_cut(message: &Message) -> bool {
    elements(&message.send) > elements(&message.receive)
}

/// The memory that a too long message may be written to: with Open MPI 4, also that behind its receiver's.
pub fn cut_span(message: &Message) -> (i64, i64) {
    let (low, high) = span(&message.receive);
    (low, high.max(low + elements(&message.send) * message.send.of.bytes() / message.send.of.elements()))
}

/// The memory of one end of a message.
pub fn half(message: &Message, sends: bool) -> Option<Touch> {
    let mut touches = Touches(Some(vec![]));
    if sends {
        touches.typed(message.from, &message.send, 1, false);
    } else if is_cut(message) {
        let (low, high) = cut_span(message);
        touches.range(message.to, Location { at: low, ..message.receive.location }, high - low, true);
    } else {
        touches.typed(message.to, &message.receive, 1, true);
    }
    touches.0?.pop()
}

/// The memory that an operation touches, but for requests that begin or finish. `None`: some byte twice.
pub fn touches(program: &Program, kind: &Kind) -> Option<Vec<Touch>> {
    let ranks = program.ranks;
    let mut all = Touches(Some(vec![]));
    match kind {
        Kind::File(op) if op.what == OnFile::Read => all.range(op.rank, op.location, op.bytes, true),
        Kind::File(op) if op.what == OnFile::Write => all.range(op.rank, op.location, op.bytes, false),
        Kind::Memory(op) => all.memory(op, program.buffer_bytes),
        Kind::Together { location, bytes, .. } => (0..ranks).for_each(|rank| all.range(rank, *location, *bytes, true)),
        Kind::Scatter(op) => all.collective(ranks, op, false),
        Kind::Gather(op) => all.collective(ranks, op, true),
        Kind::Bcast(op) => (0..ranks).for_each(|rank| {
            let is_root = rank == op.root;
            all.typed(rank, if is_root { &op.send } else { &op.receive }, 1, !is_root);
        }),
        Kind::Parts(parts) => all.parts(ranks, parts),
        Kind::Reduce { from, to, bytes, is_alltoall, .. } => {
            let bytes = if *is_alltoall { bytes * ranks as i64 } else { *bytes };
            for rank in 0..ranks {
                all.range(rank, *from, bytes, false);
                all.range(rank, *to, bytes, true);
            }
        }
        Kind::Message(message) => return Some(vec![half(message, true)?, half(message, false)?]),
        Kind::Collect { all: op, step, .. } => all.collect(ranks, op, *step),
        Kind::Ring { variant, send, receive, .. } => {
            for rank in 0..ranks {
                all.typed(rank, receive, 1, true);
                if *variant != REPLACES {
                    all.typed(rank, send, 1, false);
                }
            }
        }
        Kind::Wrong { rank, typed, .. } | Kind::Cancel { rank, typed, .. } => all.typed(*rank, typed, 1, true),
        Kind::File(_) | Kind::Barrier | Kind::Begin { .. } | Kind::Finish { .. } => {}
    }
    all.0
}
