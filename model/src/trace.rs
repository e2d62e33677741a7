//! What one process of a program looks up in order to start, with the computing between.

mod pynamic;
mod strace;
mod text;

use headwater_abi::Path;
use thiserror::Error;

/// What is looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The attributes of something that is there.
    Stat,
    /// A name that is not there.
    Absent,
    /// A directory's names; the size is how many they are.
    List,
    /// A file that is opened and read to its end; the size is its bytes.
    Open,
    /// A library that the loader maps; the size is the bytes that it maps.
    Load,
}

/// One look-up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lookup {
    /// What is looked up.
    pub kind: Kind,
    /// The path, with its links resolved.
    pub path: Path,
    /// Bytes, or names of a directory; 0 where there is nothing to count.
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

/// Why a trace can't be used.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum TraceError {
    /// A line of Headwater's own form is none.
    #[error("line {line}: {what}; a line is SECONDS KIND SIZE PATH, as in `0.0002 open 48213 /sw/lib/libx.so`")]
    Line {
        /// Its number, from 1.
        line: usize,
        /// What is wrong with it.
        what: &'static str,
    },
    /// There is nothing in it.
    #[error("no look-ups: a trace has lines such as `0.0002 open 48213 /sw/lib/libx.so`, or is what strace wrote")]
    Empty,
    /// It contradicts itself.
    #[error("{path} is a file in one line and a directory in another: correct the trace")]
    Contradiction {
        /// The path.
        path: Path,
    },
    /// The name of a generated trace is none.
    #[error("`{0}` is no generated trace: write pynamic:MODULES:UTILITIES, such as pynamic:280:215")]
    Generator(String),
}

impl Trace {
    /// Reads a trace: Headwater's own form, or what `strace -f -ttt` has written.
    ///
    /// # Errors
    /// What is wrong, with the line.
    pub fn parse(text: &str) -> Result<Trace, TraceError> {
        let trace = if strace::is_strace(text) { strace::convert(text) } else { text::parse(text)? };
        if trace.lookups.is_empty() { Err(TraceError::Empty) } else { Ok(trace) }
    }

    /// Makes the trace that a name such as `pynamic:280:215` stands for; `None` if it is no such name.
    ///
    /// # Errors
    /// The name begins as one and does not go on as one.
    pub fn generate(name: &str) -> Option<Result<Trace, TraceError>> {
        let rest = name.strip_prefix("pynamic:")?;
        Some(pynamic::generate(rest).ok_or_else(|| TraceError::Generator(name.to_owned())))
    }

    /// The trace in Headwater's own form.
    pub fn to_text(&self) -> String {
        text::write(self)
    }

    /// Leaves out what does not lie in these directories; what is computed before it stays.
    pub fn keep_within(&mut self, directories: &[Path]) {
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

    /// Files that are opened, each counted once.
    pub fn files(&self) -> usize {
        let opens = self.lookups.iter().filter(|lookup| matches!(lookup.kind, Kind::Open | Kind::Load));
        opens.map(|lookup| &lookup.path).collect::<std::collections::BTreeSet<_>>().len()
    }

    /// Nanoseconds of computing in all.
    pub fn computing_ns(&self) -> u64 {
        self.after_ns + self.lookups.iter().map(|lookup| lookup.before_ns).sum::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_has_been_computed() {
        let mut trace =
            Trace::parse("1 open 1 /usr/a\n2 open 1 /sw/a\n3 open 1 /sw/a\n4 stat - /swx\n5 end\n").unwrap();
        trace.keep_within(&[Path::new(b"/sw").unwrap()]);
        let before: Vec<u64> = trace.lookups.iter().map(|lookup| lookup.before_ns / 1_000_000_000).collect();
        assert_eq!((before, trace.after_ns, trace.files()), (vec![3, 3], 9_000_000_000, 1));
    }
}
