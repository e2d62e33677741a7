//! The look-ups of one process of a program until it has started, with the computing between.

mod lookups;
mod pynamic;
mod strace;
pub mod strace_line;
mod text;

use headwater_abi::Path;

pub use self::lookups::{Kind, Lookup, Trace, TraceError};
pub use self::strace::is_local;

impl Trace {
    /// Reads a trace: Headwater's own form, or the output of `strace -f -ttt`.
    ///
    /// # Errors
    /// The mistake, with its line.
    pub fn parse(text: &str) -> Result<Trace, TraceError> {
        Trace::parse_within(text, &[])
    }

    /// As [`Trace::parse`], with the look-ups in these directories alone, if there are any: also in directories of the
    /// machine itself, such as `/tmp`.
    ///
    /// # Errors
    /// As [`Trace::parse`].
    pub fn parse_within(text: &str, directories: &[Path]) -> Result<Trace, TraceError> {
        let mut trace =
            if strace_line::is_strace(text) { strace::convert(text, directories) } else { text::parse(text)? };
        if trace.lookups.is_empty() && directories.is_empty() {
            return Err(TraceError::Empty);
        }
        if !directories.is_empty() {
            trace.retain_within(directories);
        }
        Ok(trace)
    }

    /// Generates the trace of a name such as `pynamic:280:215`; `None` for other names.
    ///
    /// # Errors
    /// The name has such a prefix and an invalid rest.
    pub fn generate(name: &str) -> Option<Result<Trace, TraceError>> {
        let rest = name.strip_prefix("pynamic:")?;
        Some(pynamic::generate(rest).ok_or_else(|| TraceError::Generator(name.to_owned())))
    }

    /// Returns the trace in Headwater's own form.
    pub fn to_text(&self) -> String {
        text::write(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_has_been_computed() {
        let mut trace =
            Trace::parse("1 open 1 /usr/a\n2 open 1 /sw/a\n3 open 1 /sw/a\n4 stat - /swx\n5 end\n").unwrap();
        trace.retain_within(&[Path::new(b"/sw").unwrap()]);
        let before: Vec<u64> = trace.lookups.iter().map(|lookup| lookup.before_ns / 1_000_000_000).collect();
        assert_eq!((before, trace.after_ns, trace.files()), (vec![3, 3], 9_000_000_000, 1));
    }
}
