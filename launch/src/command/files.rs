//! Files in which launchers find programs.
//!
//! A copy differs from its original by the prefix before each program alone; comments, blanks and all
//! that isn't understood stay as they are.

use std::ffi::{OsStr, OsString};
use std::ops::Range;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use super::error::Error;
use super::grammar::Grammar;
use super::line::Line;
use super::world::World;

/// What a file is about.
#[derive(Clone, Copy, Debug)]
pub enum Format {
    /// Slurm's: ranks, program and arguments on each line (srun(1), "Multiple program configuration").
    Ranks,
    /// Open MPI's, PRRTE's, hydra's and PALS's: options, program and arguments on each line.
    Options(&'static Grammar),
}

/// The text of `file` with `prefix` before each program.
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
    for word in prefix {
        if !is_plain(word.as_bytes()) {
            return Err(Error::Unwritable { file: file.into(), word: word.to_string_lossy().into_owned() });
        }
        inserted.extend_from_slice(word.as_bytes());
        inserted.push(b' ');
    }
    let mut out = Vec::with_capacity(text.len());
    let mut continues = false;
    for line in text.split_inclusive(|&b| b == b'\n') {
        let places = if continues { Vec::new() } else { programs(line, format, world)? };
        let mut written = 0;
        for place in places {
            out.extend_from_slice(&line[written..place]);
            out.extend_from_slice(&inserted);
            written = place;
        }
        out.extend_from_slice(&line[written..]);
        continues = line.strip_suffix(b"\n").unwrap_or(line).ends_with(b"\\");
    }
    Ok(out)
}

/// The bytes of a line at which its programs begin.
fn programs(line: &[u8], format: Format, world: &dyn World) -> Result<Vec<usize>, Error> {
    let ranges = words(line);
    if ranges.first().is_none_or(|first| line[first.start] == b'#') {
        return Ok(Vec::new());
    }
    let grammar = match format {
        Format::Ranks => return Ok(ranges.get(1).map(|range| range.start).into_iter().collect()),
        Format::Options(grammar) => grammar,
    };
    let words: Vec<OsString> = ranges.iter().map(|range| OsString::from_vec(line[range.clone()].to_vec())).collect();
    let line = Line { words: &words, start: 0, end: words.len(), world };
    let (mut found, mut at) = (Vec::new(), 0);
    while at < words.len() {
        let component = line.component(at);
        let program = grammar.scan(&component, at)?.program;
        found.extend(program.map(|program| ranges[program].start));
        at = component.end + 1;
    }
    Ok(found)
}

/// Where the words of a line are. What stands behind a `#` between words is a comment.
fn words(line: &[u8]) -> Vec<Range<usize>> {
    let (mut found, mut start) = (Vec::new(), None);
    for (at, byte) in line.iter().chain(b"\n").enumerate() {
        match (byte.is_ascii_whitespace(), start) {
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

/// Whether these launchers all read a word as it stands.
fn is_plain(word: &[u8]) -> bool {
    let is_special = |b: u8| b.is_ascii_whitespace() || b.is_ascii_control() || b"'\"\\#%$`".contains(&b);
    !word.is_empty() && OsStr::from_bytes(word) != ":" && !word.iter().any(|&b| is_special(b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::fixture::{Fake, PREFIX};
    use crate::command::table;

    /// The text with `@ ` taken out must become the text with the prefix for each `@`.
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
        check("0\n");
        check("");
    }

    #[test]
    fn open_mpis_contexts() {
        let check = |text| check(Format::Options(&table::OPEN_MPI), text);
        check("# comment\n-np 1 -host a @ ./ocean -np 3\n\n  --np 2 @ ./air # x\n");
        check("-np 1 @ ./a : -np 1 @ ./b\n");
        check("-np 1\n");
    }

    #[test]
    fn hydras_configuration() {
        check(Format::Options(&table::HYDRA), "-n 1 -env A 1 @ ./a -n 2\n-n=2 @ ./b\n-genvall\n");
    }

    #[test]
    fn words_that_do_not_fit() {
        let rewrite =
            |word: &str| rewrite(b"0 ./a\n", Format::Ranks, &[OsString::from(word)], Path::new("f"), &Fake::default());
        for word in ["", "a b", "it's", "a\\b", "50%", "#", ":", "a\nb"] {
            assert!(rewrite(word).unwrap_err().to_string().contains("f can't hold"), "{word}");
        }
        assert_eq!(rewrite("/opt/hw-1.0/bin/headwater").unwrap(), b"0 /opt/hw-1.0/bin/headwater ./a\n");
    }
}
