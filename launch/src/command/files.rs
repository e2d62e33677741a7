//! Files in which launchers name programs.
//!
//! A copy differs from its source only by the prefix before each program; comments, blanks and unknown syntax
//! stay.

use std::ffi::{OsStr, OsString};
use std::ops::Range;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use super::error::Error;
use super::grammar::Grammar;
use super::line::Line;
use super::world::World;

/// The format of a file.
#[derive(Clone, Copy, Debug)]
pub enum Format {
    /// Slurm's: ranks, program and arguments on each line (srun(1), "Multiple program configuration").
    Ranks,
    /// Open MPI's, PRRTE's, hydra's and PALS's: options, program and arguments on each line.
    Options {
        /// The options.
        grammar: &'static Grammar,
        /// Whether a colon ends a program's arguments, as it does on the command line.
        colons: bool,
        /// Whether a backslash at its end continues a line.
        continues: bool,
    },
}

impl Format {
    fn continues(self) -> bool {
        !matches!(self, Format::Options { continues: false, .. })
    }
}

/// Returns the text of `file` with `prefix` before each program.
///
/// # Errors
/// [`Error::Unwritable`] if a word of the prefix can't stand in such a file, and as
/// [`Grammar::scan`].
pub fn rewrite(
    text: &[u8],
    format: Format,
    prefix: &[OsString],
    file: &Path,
    world: &dyn World,
) -> Result<Vec<u8>, Error> {
    let mut inserted = Vec::new();
    for argument in prefix {
        if !is_plain(argument.as_bytes()) {
            return Err(Error::Unwritable { file: file.into(), argument: argument.to_string_lossy().into_owned() });
        }
        inserted.extend_from_slice(argument.as_bytes());
        inserted.push(b' ');
    }
    let (mut out, mut rest) = (Vec::with_capacity(text.len()), text);
    while !rest.is_empty() {
        let (line, behind) = rest.split_at(line_length(rest, format.continues()));
        let mut written = 0;
        for program in programs(line, format, world)? {
            out.extend_from_slice(&line[written..program]);
            out.extend_from_slice(&inserted);
            written = program;
        }
        out.extend_from_slice(&line[written..]);
        rest = behind;
    }
    Ok(out)
}

/// Returns the length of the first line, with its continuations.
fn line_length(text: &[u8], continues: bool) -> usize {
    let ends = |at: usize| text[at] == b'\n' && !(continues && text[..at].ends_with(b"\\"));
    (0..text.len()).find(|&at| ends(at)).map_or(text.len(), |end| end + 1)
}

/// Returns the offsets in a line at which its programs begin.
fn programs(line: &[u8], format: Format, world: &dyn World) -> Result<Vec<usize>, Error> {
    let ranges = arguments(line, format.continues());
    if ranges.first().is_none_or(|first| line[first.start] == b'#') {
        return Ok(Vec::new());
    }
    let Format::Options { grammar, colons, .. } = format else {
        return Ok(ranges.get(1).map(|range| range.start).into_iter().collect());
    };
    let arguments: Vec<OsString> =
        ranges.iter().map(|range| OsString::from_vec(line[range.clone()].to_vec())).collect();
    let line = Line { arguments: &arguments, start: 0, end: arguments.len(), world };
    let (mut found, mut at) = (Vec::new(), 0);
    while at < arguments.len() {
        let component = if colons { line.component(at) } else { line };
        let program = grammar.scan(&component, at)?.program;
        found.extend(program.map(|program| ranges[program].start));
        at = component.end + 1;
    }
    Ok(found)
}

/// Returns the ranges of a line's arguments, without a backslash that continues the line.
fn arguments(line: &[u8], continues: bool) -> Vec<Range<usize>> {
    let (mut found, mut start) = (Vec::new(), None);
    for (at, byte) in line.iter().chain(b"\n").enumerate() {
        let goes_on = continues && *byte == b'\\' && matches!(line.get(at + 1), None | Some(b'\n'));
        match (byte.is_ascii_whitespace() || goes_on, start) {
            (true, Some(first)) => {
                found.push(first..at);
                start = None;
            }
            (false, None) => start = Some(at),
            _ => {}
        }
    }
    found
}

/// Returns whether these launchers all read an argument unchanged.
fn is_plain(argument: &[u8]) -> bool {
    let is_special = |b: u8| b.is_ascii_whitespace() || b.is_ascii_control() || b"'\"\\#%$`".contains(&b);
    !argument.is_empty() && OsStr::from_bytes(argument) != ":" && !argument.iter().any(|&b| is_special(b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::table;
    use crate::command::tests::fixture::{Fake, PREFIX};

    /// Checks that the text without `@ ` becomes the text with the prefix for each `@`.
    fn check(format: Format, text: &str) {
        let original = text.replace("@ ", "");
        let prefix = PREFIX.map(OsString::from);
        let copy = rewrite(original.as_bytes(), format, &prefix, Path::new("f"), &Fake::default()).unwrap();
        assert_eq!(String::from_utf8(copy).unwrap(), text.replace('@', "hw exec --"));
    }

    #[test]
    fn slurms_ranks() {
        let check = |text| check(Format::Ranks, text);
        check(
            "###\n# srun -n8 --multi-prog silly.conf\n4-6       @ hostname\n1,7 @ echo  task:%t\n0,2-3\t@ echo offset:%o\n",
        );
        check("* @ ./a 'two words' \\\nb c\n\n   \n  # comment\n  5 @ ./b");
        check("0 \\\n @ ./a \\\n b\n1 @ ./c\n");
        check("0\n");
        check("");
    }

    const OPEN_MPI: Format = Format::Options { grammar: &table::OPEN_MPI, colons: false, continues: false };
    const PRRTE: Format = Format::Options { grammar: &table::PRRTE, colons: true, continues: false };
    const HYDRA: Format = Format::Options { grammar: &table::HYDRA, colons: true, continues: true };

    #[test]
    fn open_mpis_contexts() {
        let check = |text| check(OPEN_MPI, text);
        check("# comment\n-np 1 -host a @ ./ocean -np 3\n\n  --np 2 @ ./air # x\n");
        check("-np 1 @ ./a : -np 1 ./b\n");
        check("-np 1 @ ./a \\\n-np 1 @ ./b\n");
        check("-np 1\n");
    }

    #[test]
    fn prrtes_contexts() {
        check(PRRTE, "--np 1 @ ./a : -n 1 @ ./b\n-n 2 @ ./c x");
    }

    #[test]
    fn hydras_configuration() {
        check(HYDRA, "-n 1 \\\n -env A 1 \\\n  @ ./a \\\n -n 2\n-n 1 @ ./b\\\n c");
        check(HYDRA, "-n 1 -env A 1 @ ./a -n 2\n-n=2 @ ./b\n-genvall\n");
    }

    #[test]
    fn arguments_that_do_not_fit() {
        let rewrite = |argument: &str| {
            rewrite(b"0 ./a\n", Format::Ranks, &[OsString::from(argument)], Path::new("f"), &Fake::default())
        };
        for argument in ["", "a b", "it's", "a\\b", "50%", "#", ":", "a\nb"] {
            assert!(rewrite(argument).unwrap_err().to_string().contains("f can't contain"), "{argument}");
        }
        assert_eq!(rewrite("/opt/hw-1.0/bin/headwater").unwrap(), b"0 /opt/hw-1.0/bin/headwater ./a\n");
    }
}
