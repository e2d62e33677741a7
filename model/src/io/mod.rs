//! The costs of reading or writing a file on one rank for all, and on all ranks together: the cost model of
//! Natvig, Elster and Meyer, "Automatic Run-time Parallelization and Transformation of I/O", section IV.
//!
//! *m* are the bytes, *p* the ranks, *h* a hint's bytes, *P* a change of protection, *C* a copy in memory:
//!
//! | | original | together |
//! |---|---|---|
//! | whole (§IV.A) | T_I/O(m, 1) + p T_Comm(m/p) | 2 P(m) + p T_Comm(h) + T_I/O(m/p, p) |
//! | rows of nodes (§IV.A) | √p T_I/O(m/√p, 1) + p T_Comm(m/p) | 2 P(m/√p) + p T_Comm(h) + T_I/O(m/p, p) |
//! | writes with a copy (§IV.B) | as above | p T_Comm(h) + C(m/p) |
//!
//! with T_I/O(m/p, p) = T_I/O(m, 1) / min(i, p). Two formulas of the paper are corrected: the factor p/min(i,
//! p) before T_I/O(m/p, p) would count min(i, p) twice, and a row of nodes is m/√p, as its section V.C has
//! it, where its formula has m/p. Beyond the paper, several ranks share a node: a message within the root's
//! own node is a copy in memory. A proposal of its section VI is here as well: access by pieces or collective
//! ([`Access`]).

mod curve;
mod parameters;

pub use curve::Curve;
pub use parameters::{Parameters, Storage};

/// A program's use of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// One rank reads, and scatters.
    ReadScatter,
    /// One rank reads, and sends to each.
    ReadSend,
    /// One rank gathers, and writes.
    GatherWrite,
    /// One rank receives from each, and writes.
    ReceiveWrite,
}

/// The form of that use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// All at once.
    Whole,
    /// A row of a square of nodes after the other, through the same memory.
    NodeRows,
    /// Writing continues in the background, from a copy.
    Copied,
}

/// How ranks read or write their parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Each alone, piece after piece.
    Individual,
    /// By a collective operation, which joins pieces and then exchanges them.
    Collective,
}

/// An operation whose cost is predicted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Work {
    /// The pattern.
    pub pattern: Pattern,
    /// The form.
    pub form: Form,
    /// Bytes of the file.
    pub bytes: f64,
    /// Ranks that share the bytes.
    pub ranks: u32,
    /// Their nodes.
    pub nodes: u32,
    /// Pieces of the file that each rank's part has.
    pub pieces: u32,
}

/// Seconds, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// Reading or writing the file.
    pub io: f64,
    /// Messages: the data, or hints.
    pub messages: f64,
    /// Changes of protection.
    pub protection: f64,
    /// Copies for writing in the background.
    pub copies: f64,
}

/// The cheaper alternative.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The transformed operation.
    Transform,
    /// The program's own.
    Leave,
}

/// The costs of both alternatives.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    /// Of the program's own operation.
    pub original: Cost,
    /// Of the transformed operation.
    pub transformed: Cost,
    /// How ranks access the file together.
    pub access: Access,
    /// The cheaper alternative.
    pub decision: Decision,
    /// The reason, for reports.
    pub why: String,
}

/// Ranks with smaller pieces exchange them before writing, as in the I/O library.
const EXCHANGED_BYTES_MAX: f64 = 65536.0;
/// Ranks in an exchange, at most.
const EXCHANGERS_MAX: f64 = 16.0;
/// Pieces that a rank reads ahead, as in the I/O library.
const READ_AHEAD_PIECES: f64 = 32.0;
/// Least gain of a transformation: the model is not exact.
const SPEEDUP_MIN: f64 = 1.05;

impl Pattern {
    /// All of them.
    pub const ALL: [Pattern; 4] =
        [Pattern::ReadScatter, Pattern::ReadSend, Pattern::GatherWrite, Pattern::ReceiveWrite];

    /// Returns its name, as in reports.
    pub fn name(self) -> &'static str {
        match self {
            Pattern::ReadScatter => "read+scatter",
            Pattern::ReadSend => "read+send",
            Pattern::GatherWrite => "gather+write",
            Pattern::ReceiveWrite => "receive+write",
        }
    }

    /// Returns whether it writes the file.
    pub fn writes(self) -> bool {
        matches!(self, Pattern::GatherWrite | Pattern::ReceiveWrite)
    }
}

impl Cost {
    /// Returns the sum.
    pub fn seconds(&self) -> f64 {
        self.io + self.messages + self.protection + self.copies
    }
}

impl Prediction {
    /// Returns how many times as fast the transformed operation is.
    pub fn speedup(&self) -> f64 {
        self.original.seconds() / self.transformed.seconds()
    }
}

impl Work {
    /// Returns the cost of the program's own operation, on one rank for all.
    pub fn on_one(&self, parameters: &Parameters) -> Cost {
        let single = &self.storage(parameters).single;
        let operations = self.operations();
        let io = operations * single.seconds(self.bytes / operations);
        Cost { io, messages: self.messages(self.bytes / self.ranks(), parameters), ..Cost::default() }
    }

    /// Returns the cost of file access with all ranks together.
    fn together(&self, access: Access, parameters: &Parameters) -> Cost {
        let (storage, nodes) = (self.storage(parameters), f64::from(self.nodes));
        let on_each = self.ranks() / nodes;
        let (parts, pieces) = (self.ranks(), f64::from(self.pieces));
        match access {
            // Each piece has its latency, at all ranks at once; the servers' total rate is the limit.
            Access::Individual => {
                let at_once = if self.pattern.writes() { 1.0 } else { pieces.min(READ_AHEAD_PIECES) };
                let one = pieces / at_once * storage.single.seconds(self.bytes / parts / pieces);
                Cost { io: one.max(storage.seconds(self.bytes, nodes, on_each)), ..Cost::default() }
            }
            Access::Collective => {
                let io = storage.seconds(self.bytes, nodes, on_each) + parts * storage.collective_s;
                let leaves = self.bytes / nodes * (1.0 - 1.0 / nodes);
                let exchanged = if self.pieces > 1 { leaves } else { 0.0 };
                Cost { io, messages: parameters.message.seconds(exchanged), ..Cost::default() }
            }
        }
    }

    /// Returns the cost of the transformed operation, by the quicker access.
    pub fn on_all(&self, parameters: &Parameters) -> (Cost, Access) {
        let hints = self.messages(parameters.hint_bytes, parameters);
        if self.form == Form::Copied {
            let copies = parameters.copy.seconds(self.bytes / self.ranks());
            return (Cost { messages: hints, copies, ..Cost::default() }, Access::Individual);
        }
        let exchanged = self.exchanged(parameters).map(|cost| (cost, Access::Collective));
        let (cost, access) = exchanged.unwrap_or_else(|| self.quicker(parameters));
        let protection = 2.0 * parameters.protection.seconds(self.bytes / self.operations());
        (Cost { messages: cost.messages + hints, protection, ..cost }, access)
    }

    /// Returns both costs, and the decision.
    pub fn predict(&self, parameters: &Parameters) -> Prediction {
        let (transformed, access) = self.on_all(parameters);
        Prediction::of(self, self.on_one(parameters), transformed, access)
    }

    /// Returns the cost of small pieces that are exchanged first, by as many ranks at once as an exchange
    /// takes, whatever their rows. Each retains the part that it writes.
    fn exchanged(&self, parameters: &Parameters) -> Option<Cost> {
        let is_small = self.pieces > 1 && self.bytes / self.ranks() / f64::from(self.pieces) < EXCHANGED_BYTES_MAX;
        if !self.pattern.writes() || self.nodes < 2 || !is_small || self.ranks() / self.operations() > EXCHANGERS_MAX {
            return None;
        }
        let exchanges = (self.ranks() / EXCHANGERS_MAX).ceil();
        let (bytes, nodes) = (self.bytes / exchanges, f64::from(self.nodes).min(EXCHANGERS_MAX));
        let leaves = bytes / nodes * (1.0 - 1.0 / nodes);
        let messages = exchanges * parameters.message.seconds(leaves);
        Some(Cost { messages, io: exchanges * self.storage(parameters).seconds(bytes, nodes, 1.0), ..Cost::default() })
    }

    fn quicker(&self, parameters: &Parameters) -> (Cost, Access) {
        let [individual, collective] =
            [Access::Individual, Access::Collective].map(|access| (self.together(access, parameters), access));
        if collective.0.seconds() < individual.0.seconds() { collective } else { individual }
    }

    fn storage<'a>(&self, parameters: &'a Parameters) -> &'a Storage {
        if self.pattern.writes() { &parameters.write } else { &parameters.read }
    }

    fn ranks(&self) -> f64 {
        f64::from(self.ranks)
    }

    /// Returns how many times the one rank reads or writes.
    fn operations(&self) -> f64 {
        if self.form == Form::NodeRows { self.ranks().sqrt() } else { 1.0 }
    }

    /// Returns the seconds for a message of so many bytes between the one rank and each other; those on its
    /// own node are copied.
    fn messages(&self, bytes: f64, parameters: &Parameters) -> f64 {
        let here = (self.ranks() / f64::from(self.nodes)).ceil();
        here * parameters.copy.seconds(bytes) + (self.ranks() - here) * parameters.message.seconds(bytes)
    }
}

impl Prediction {
    fn of(work: &Work, original: Cost, transformed: Cost, access: Access) -> Prediction {
        let speedup = original.seconds() / transformed.seconds();
        let decision = if speedup >= SPEEDUP_MIN { Decision::Transform } else { Decision::Leave };
        let verb = if work.pattern.writes() { "writing" } else { "reading" };
        let (io, messages) = (original.io - transformed.io, original.messages - transformed.messages);
        let lost = transformed.protection + transformed.copies;
        let part = |gain: f64, what: &str| {
            let effect = if gain >= 0.0 { "saves" } else { "costs" };
            format!("{what} {effect} {}", Seconds(gain.abs()))
        };
        let mut parts = vec![part(io, &format!("transformed {verb}")), part(messages, "transformed messages")];
        if lost > 0.0 {
            let what = if transformed.copies > 0.0 { "a copy" } else { "page protection" };
            parts.push(part(-lost, what));
        }
        Prediction { original, transformed, access, decision, why: parts.join(", ") }
    }
}

/// Seconds as text.
struct Seconds(f64);

impl std::fmt::Display for Seconds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            s if s < 0.001 => write!(f, "{:.0} µs", s * 1e6),
            s if s < 1.0 => write!(f, "{:.1} ms", s * 1e3),
            s => write!(f, "{s:.2} s"),
        }
    }
}

#[cfg(test)]
mod tests;
