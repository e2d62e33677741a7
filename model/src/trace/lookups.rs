//! The look-ups of one process, and why they can't be used.

use std::collections::BTreeSet;

use headwater_abi::Path;
use thiserror::Error;

/// The kind of a look-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The attributes of something that exists.
    Stat,
    /// An absent name.
    Absent,
    /// A directory's names; the size is their number.
    List,
    /// A file that is opened and read to its end; the size is its bytes.
    Open,
    /// A library that the loader maps; the size is the number of mapped bytes.
    Load,
}

/// One look-up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lookup {
    /// Its kind.
    pub kind: Kind,
    /// The path, with its links resolved.
    pub path: Path,
    /// Bytes, or names of a directory; 0 for other kinds.
    pub size: u64,
    /// Nanoseconds of computing before it.
    pub before_ns: u64,
}

/// What one process does until it has started. All processes of a job do the same.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// The look-ups in their order.
    pub lookups: Vec<Lookup>,
    /// Nanoseconds of computing after the last one.
    pub after_ns: u64,
}

impl Trace {
    /// Removes look-ups outside of these directories; the computing before them stays.
    pub fn retain_within(&mut self, directories: &[Path]) {
        let mut computing_ns = 0;
        self.lookups.retain_mut(|lookup| {
            computing_ns += lookup.before_ns;
            let is_kept = directories.iter().any(|directory| lookup.path.is_within(directory));
            if is_kept {
                lookup.before_ns = std::mem::take(&mut computing_ns);
            }
            is_kept
        });
        self.after_ns += computing_ns;
    }

    /// Returns the number of files that are opened.
    pub fn files(&self) -> usize {
        let opens = self.lookups.iter().filter(|lookup| matches!(lookup.kind, Kind::Open | Kind::Load));
        opens.map(|lookup| &lookup.path).collect::<BTreeSet<_>>().len()
    }

    /// Returns the nanoseconds of computing in all.
    pub fn computing_ns(&self) -> u64 {
        self.after_ns + self.lookups.iter().map(|lookup| lookup.before_ns).sum::<u64>()
    }
}

/// Why a trace can't be used.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum TraceError {
    /// An invalid line of Headwater's own form.
    #[error("line {line}: {what}; a line is SECONDS KIND SIZE PATH, as in `0.0002 open 48213 /sw/lib/libx.so`")]
    Line {
        /// Its number, from 1.
        line: usize,
        /// The mistake.
        what: &'static str,
    },
    /// The trace is empty.
    #[error("no look-ups: a trace has lines such as `0.0002 open 48213 /sw/lib/libx.so`, or is what strace wrote")]
    Empty,
    /// The trace contradicts itself.
    #[error("{path} is a file in one line and a directory in another: correct the trace")]
    Contradiction {
        /// The path.
        path: Path,
    },
    /// An invalid name of a generated trace.
    #[error("`{0}` is no generated trace: write pynamic:MODULES:UTILITIES, such as pynamic:280:215")]
    Generator(String),
}
