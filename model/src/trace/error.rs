//! Why a trace can't be used.

use headwater_abi::Path;
use thiserror::Error;

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
