//! Errors of files with switches, and limits of their contents.

use alloc::string::String;

use thiserror::Error;

use super::parse::{HostlistError, Problem};

/// The most switches in a file.
pub const SWITCHES_MAX: usize = 1 << 16;
/// The most nodes in all `Nodes=` of a file together; no machine has as many. Fuzzers find nothing more in lists
/// that take a second each.
pub const NODES_MAX: usize = if cfg!(fuzzing) { 1 << 10 } else { 1 << 18 };
/// The most names in all `Switches=` of a file together.
pub const LINKS_MAX: usize = NODES_MAX;

/// Why a file with switches can't be used.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[allow(missing_docs, reason = "the messages say what the fields are")]
pub enum SwitchesError {
    /// The file includes another one.
    #[error("line {line}: Include {file:?}: no other file is read: put its lines here")]
    Include { line: usize, file: String },
    /// Something else than `KEY=VALUE`.
    #[error("line {line}: {text:?}: expected KEY=VALUE, as in `SwitchName=s0 Nodes=node[1-4]`")]
    Syntax { line: usize, text: String },
    /// A key that `topology.conf` doesn't have.
    #[error("line {line}: the key {key} is unknown: the keys are SwitchName, BlockName, RingName, Switches, Nodes")]
    UnknownKey { line: usize, key: String },
    /// Two values for one thing.
    #[error("line {line}: {key} names again what the line has named: keep one")]
    Repeated { line: usize, key: String },
    /// Nodes or switches without a name above them.
    #[error("line {line}: nothing is named: begin it with SwitchName=, BlockName= or RingName=")]
    Nameless { line: usize },
    /// No name, or several, where one is defined.
    #[error("line {line}: {text:?}: a line defines one switch: give it one name")]
    NotOneName { line: usize, text: String },
    /// Names that can't be read.
    #[error("line {line}: {place}, character {column}: {problem}")]
    Names { line: usize, place: &'static str, column: usize, problem: Problem },
    /// A name for two switches.
    #[error("line {line}: switch {name} is defined in line {first_line} already: rename or remove one")]
    SameSwitch { line: usize, name: String, first_line: usize },
    /// A switch below another that is defined nowhere.
    #[error("line {line}: switch {name} is defined nowhere: add `SwitchName={name} Nodes=…`, or take it out")]
    NoSuchSwitch { line: usize, name: String },
    /// Switches that are above themselves.
    #[error("line {line}: the switches {names} are each below the one before, in a circle: remove one link")]
    Cycle { line: usize, names: String },
    /// A node at two places.
    #[error("line {line}: node {node} is at {switch} here and at {first} in another place: keep one")]
    SameNode { line: usize, node: String, switch: String, first: String },
    /// A line of a table that hasn't two columns.
    #[error("line {line}: {columns} columns: write a node and its rack, with a blank between")]
    Columns { line: usize, columns: usize },
    /// Too much.
    #[error("line {line}: more than {max} {what}: leave out what the job doesn't use")]
    Over { line: usize, what: &'static str, max: usize },
}

impl SwitchesError {
    /// Makes the error of names at `place` of a line.
    pub(super) fn names(line: usize, place: &'static str, text: &str, problem: (usize, Problem)) -> SwitchesError {
        let HostlistError { column, problem, .. } = HostlistError::new(text, problem);
        SwitchesError::Names { line, place, column, problem }
    }
}
