//! The rules by which operations are a correct MPI program with one result: what breaks a rule is left out, what is
//! missing is added.
//!
//! Ranks that use a file take turns, with a barrier in between. Memory of a message that isn't complete belongs to it.
//! A rank waits only for what other ranks have begun before, in the order of the operations. Any tag is taken only
//! where one message can arrive. Memory that a too long message leaves undefined is overwritten.

use std::collections::{HashMap, HashSet};

use super::program::{
    Access, Collective, FileOp, Kind, Location, Memory, MemoryOp, Message, OnFile, OnMemory, Op, Program,
};
use super::touches::{Touch, cut_span, elements, half, is_cut, span, touches};

/// Represents the rank where all ranks use a file.
const ALL: usize = usize::MAX;
/// The variant of a read that keeps its stream open.
const BY_STREAM: i64 = 3;
/// Variants in which requests complete one after the other, or all together, and an error is returned.
const FOR_ERRORS: [i64; 3] = [0, 1, 4];

/// A message whose ends begin and finish apart.
struct Pair {
    message: Message,
    /// The sender's and the receiver's end.
    is_begun: [bool; 2],
    is_done: [bool; 2],
    touches: [Touch; 2],
}

struct Rules<'a> {
    program: &'a Program,
    ops: Vec<Op>,
    pairs: Vec<Pair>,
    /// All messages by their tags: persistent ones recur, and are the same.
    messages: HashMap<usize, Message>,
    collected: HashSet<usize>,
    users: Vec<Option<usize>>,
    changes: Vec<u64>,
    /// The changes of a file that a rank's stream has seen.
    streams: HashMap<(usize, usize), u64>,
}

/// The same program with operations that obey the rules.
pub fn lawful(program: &Program) -> Program {
    let count = program.files.len();
    let mut rules = Rules {
        program,
        ops: vec![],
        pairs: vec![],
        messages: HashMap::new(),
        collected: HashSet::new(),
        users: vec![None; count],
        changes: vec![0; count],
        streams: HashMap::new(),
    };
    for op in &program.ops {
        rules.take(op);
    }
    rules.end();
    Program { ops: rules.ops, ..program.clone() }
}

/// What MPICH 5 does with a message of a rank to itself that is too long depends on whether it has arrived, if it is
/// received from any source.
fn named_if_cut(message: &Message) -> Message {
    let is_in_doubt = message.from == message.to && is_cut(message);
    Message { wild: if is_in_doubt { message.wild & !1 } else { message.wild }, ..message.clone() }
}

impl Rules<'_> {
    fn take(&mut self, op: &Op) {
        let Some(touches) = touches(self.program, &op.kind) else { return };
        let overlap_each_other =
            touches.iter().enumerate().any(|(i, one)| touches[i + 1..].iter().any(|other| one.overlaps(other)));
        if overlap_each_other || !self.are_free(&touches) || !self.is_sound(&op.kind) {
            return;
        }
        let mut op = op.clone();
        let is_barred = match &mut op.kind {
            Kind::File(file) => !self.file(file, op.site),
            _ => false,
        };
        if is_barred {
            return;
        }
        match &mut op.kind {
            Kind::Together { file, writes, .. } => self.turn(*file, ALL, *writes, op.site),
            Kind::Message(message) => {
                if !self.is_known(message) {
                    return;
                }
                self.narrow(message);
                let cut = is_cut(message).then(|| message.clone());
                if cut.is_some() && !FOR_ERRORS.contains(&message.completion) {
                    message.completion = 0;
                }
                let site = op.site;
                self.ops.push(op);
                return cut.iter().for_each(|message| self.overwrite(message, site));
            }
            // Ranks may be ahead: a message of the next one with this tag would be as good.
            Kind::Collect { tag, .. } | Kind::Cancel { tag, .. } if !self.collected.insert(*tag) => return,
            Kind::Begin { sends, message } => return self.begin(*sends, message, op.site),
            Kind::Finish { rank, completion, count_max, .. } => {
                return self.finish(*rank, *completion, *count_max, op.site);
            }
            _ => {}
        }
        self.ops.push(op);
    }

    fn are_free(&self, touches: &[Touch]) -> bool {
        let is_free = |touch: &Touch| {
            let locked = self.pairs.iter().flat_map(|pair| pair.touches.iter().zip(pair.is_done));
            touch.is_within(self.program)
                && locked.filter(|(_, is_done)| !is_done).all(|(locked_touch, _)| !locked_touch.overlaps(touch))
        };
        touches.iter().all(is_free)
    }

    /// Ranks, sizes and types that match.
    fn is_sound(&self, kind: &Kind) -> bool {
        let ranks = self.program.ranks;
        let is_even = |all: &Collective| {
            all.root < ranks
                && elements(&all.send) == elements(&all.receive)
                && all.send.of.base() == all.receive.of.base()
        };
        match kind {
            Kind::File(op) => op.rank < ranks && op.file < self.program.files.len(),
            Kind::Memory(op) => match op.what {
                OnMemory::Drop => self.program.memory[op.location.buffer] != Memory::Allocated,
                OnMemory::Renew => !self.is_of_message(op.rank, op.location.buffer),
                _ => true,
            },
            Kind::Together { file, .. } => *file < self.program.files.len() && !self.program.is_apart,
            Kind::Scatter(all) | Kind::Gather(all) | Kind::Bcast(all) => is_even(all),
            Kind::Collect { all, step, .. } => {
                let is_dense = span(&all.receive) == (all.receive.location.at, all.receive.location.at + step)
                    && all.receive.of.bytes() * all.receive.count == *step;
                is_even(all) && (all.variant > 1 || is_dense)
            }
            Kind::Parts(parts) => {
                parts.counts.len() == ranks
                    && parts.root < ranks
                    && parts.whole.elements() == elements(&parts.each)
                    && parts.whole.base() == parts.each.of.base()
            }
            Kind::Message(m) => {
                m.from < ranks && m.to < ranks && m.from != m.to && m.send.of.base() == m.receive.of.base()
            }
            Kind::Begin { message: m, .. } => m.from < ranks && m.to < ranks && m.send.of.base() == m.receive.of.base(),
            Kind::Finish { rank, .. } => *rank < ranks,
            Kind::Ring { shift, send, receive, .. } => {
                *shift < ranks as i64 && elements(send) <= elements(receive) && send.of.base() == receive.of.base()
            }
            Kind::Reduce { .. } | Kind::Barrier | Kind::Wrong { .. } | Kind::Cancel { .. } => true,
        }
    }

    /// The ranks that use a file take turns.
    fn turn(&mut self, file: usize, rank: usize, changes: bool, site: u64) {
        if self.users[file].is_some_and(|user| user != rank || rank == ALL) {
            self.ops.push(Op { site, kind: Kind::Barrier });
            self.users.fill(None);
        }
        self.users[file] = Some(rank);
        self.changes[file] += u64::from(changes);
    }

    fn file(&mut self, op: &mut FileOp, site: u64) -> bool {
        let access = self.program.files[op.file].1;
        let changes = matches!(op.what, OnFile::Write | OnFile::Truncate);
        let is_own = op.file % self.program.ranks == op.rank;
        let is_barred = match op.what {
            OnFile::Read => access == Access::WriteOnly,
            OnFile::Write | OnFile::Truncate => access == Access::ReadOnly && self.program.is_apart,
            _ => false,
        };
        if is_barred || (self.program.is_apart && !is_own) {
            return false;
        }
        self.turn(op.file, op.rank, changes, site);
        if op.what == OnFile::Read && op.variant == BY_STREAM {
            let seen = self.streams.insert((op.rank, op.file), self.changes[op.file]);
            op.is_stale = seen != Some(self.changes[op.file]);
        }
        true
    }

    /// A tag is one message's.
    fn is_known(&mut self, message: &Message) -> bool {
        self.messages.entry(message.tag).or_insert_with(|| message.clone()) == message
    }

    /// Persistent requests have fixed addresses.
    fn is_of_message(&self, rank: usize, buffer: usize) -> bool {
        self.messages.values().any(|m| {
            (m.from, m.send.location.buffer) == (rank, buffer) || (m.to, m.receive.location.buffer) == (rank, buffer)
        })
    }

    /// Ranks may be ahead of others: any tag from any source is only the one message if there are two ranks.
    fn narrow(&self, message: &mut Message) {
        let is_alone = self.pairs.iter().all(|pair| pair.message.to != message.to);
        if !is_alone || (self.program.ranks > 2 && message.wild == 3) {
            message.wild &= 1;
        }
    }

    fn begin(&mut self, sends: bool, message: &Message, site: u64) {
        let message = &named_if_cut(message);
        let end = usize::from(!sends);
        let open = self.pairs.iter().position(|pair| pair.message.tag == message.tag);
        let (Some(from), Some(to)) = (half(message, true), half(message, false)) else { return };
        let is_clear = !from.overlaps(&to) && self.is_known(message);
        let location = match open {
            Some(location) if !self.pairs[location].is_begun[end] && is_clear => location,
            None if is_clear && self.are_free(&[from.clone(), to.clone()]) => {
                let message = message.clone();
                self.pairs.push(Pair { message, is_begun: [false; 2], is_done: [false; 2], touches: [from, to] });
                self.pairs.len() - 1
            }
            _ => return,
        };
        self.pairs[location].is_begun[end] = true;
        self.ops.push(Op { site, kind: Kind::Begin { sends, message: message.clone() } });
    }

    /// Ends of a rank that complete if it waits for them.
    fn finish(&mut self, rank: usize, completion: i64, count_max: usize, site: u64) {
        let mut requests = vec![];
        let mut cut = vec![];
        for pair in self.pairs.iter_mut().filter(|pair| pair.is_begun == [true; 2]) {
            for (end, of) in [pair.message.from, pair.message.to].into_iter().enumerate() {
                if of == rank && !pair.is_done[end] && requests.len() < count_max {
                    pair.is_done[end] = true;
                    requests.push((end == 0, pair.message.tag));
                    if end == 1 && is_cut(&pair.message) {
                        cut.push(pair.message.clone());
                    }
                }
            }
        }
        if requests.is_empty() {
            return;
        }
        let completion = if cut.is_empty() || FOR_ERRORS.contains(&completion) { completion } else { 0 };
        self.pairs.retain(|pair| pair.is_done != [true; 2]);
        self.ops.push(Op { site, kind: Kind::Finish { rank, completion, requests, count_max } });
        cut.iter().for_each(|message| self.overwrite(message, site));
    }

    fn overwrite(&mut self, message: &Message, site: u64) {
        let (low, high) = cut_span(message);
        let location = Location { at: low, ..message.receive.location };
        let op = MemoryOp {
            what: OnMemory::Set,
            rank: message.to,
            location,
            other: location,
            bytes: high - low,
            how: 0,
            step: 1,
        };
        self.ops.push(Op { site, kind: Kind::Memory(op) });
    }

    /// All that has begun, or half begun, completes.
    fn end(&mut self) {
        let missing: Vec<(bool, Message)> = (self.pairs.iter())
            .flat_map(|pair| [(true, pair, 0), (false, pair, 1)])
            .filter(|(_, pair, end)| !pair.is_begun[*end])
            .map(|(sends, pair, _)| (sends, pair.message.clone()))
            .collect();
        for (sends, message) in missing {
            self.begin(sends, &message, 0);
        }
        for rank in 0..self.program.ranks {
            self.finish(rank, 1, usize::MAX, 0);
        }
    }
}
