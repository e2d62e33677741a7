//! Reading hostlists.
//!
//! The syntax and the meaning of widths are those of Slurm's `src/common/hostlist.c`, checked against
//! `scontrol show hostnames`. Beyond it, text may follow a bracket, and blanks between brackets have no
//! meaning (Slurm counts those before a number as part of its width). What Slurm ignores, such as an open
//! bracket or a range without an end, is an error here.

use alloc::string::String;
use alloc::vec::Vec;

use thiserror::Error;

use super::numbers::{Numbers, leading_digits};
use super::pattern::{GROUPS_MAX, Pattern};

/// The most names in a list.
pub const HOSTS_MAX: usize = 1 << 20;
/// The most bytes in a name.
pub const NAME_BYTES_MAX: usize = 255;
/// The most ranges between one pair of brackets, as in Slurm.
pub const RANGES_MAX: usize = 1 << 16;

/// Why a hostlist can't be read, and the position.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("hostlist, line {line}, column {column}: {problem}")]
pub struct HostlistError {
    /// The line, from 1; of a list of names the number of the name.
    pub line: usize,
    /// The character in that line, from 1.
    pub column: usize,
    /// The problem at that position.
    pub problem: Problem,
}

/// A problem of a hostlist.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Problem {
    /// A character that no name has.
    #[error("{0:?} can't be in a name: a node's has letters, digits, `-`, `_`, `.` and `:`")]
    Character(char),
    /// A name that programs would take for an option or a directory.
    #[error("a node's name can't begin with {0:?}: take it away")]
    Start(char),
    /// A name without a character.
    #[error("a node's name is empty: leave it out")]
    Empty,
    /// A `]` without a `[`.
    #[error("`]` has no `[` before it: take it away, or add the `[`")]
    Unopened,
    /// A `[` without a `]`.
    #[error("`[` has no `]` behind it: add the `]`")]
    Unclosed,
    /// Something else than numbers between brackets.
    #[error("brackets contain numbers and ranges, as in `[1-3,7]`, not {0:?}")]
    NoNumber(Option<char>),
    /// A range that ends before it begins.
    #[error("the range {0}-{1} runs backwards: write {1}-{0}, or each number")]
    Backwards(u64, u64),
    /// A number beyond 64 bits.
    #[error("the number is above {max}: write the names without brackets", max = u64::MAX)]
    LargeNumber,
    /// A bracket group too many.
    #[error("an expression has at most {GROUPS_MAX} pairs of brackets: write it as several")]
    Groups,
    /// A range too many.
    #[error("brackets contain at most {RANGES_MAX} ranges: write it as several expressions")]
    Ranges,
    /// A name that is too long.
    #[error("a node's name has at most {NAME_BYTES_MAX} characters: shorten it")]
    LongName,
    /// Too many names.
    #[error("a list has at most {HOSTS_MAX} names: shorten the ranges")]
    Hosts,
}

/// A problem at a byte of the text.
pub(super) type Result<T> = core::result::Result<T, (usize, Problem)>;

impl HostlistError {
    /// Makes the error of the problem at byte `at` of `text`.
    pub(super) fn new(text: &str, (at, problem): (usize, Problem)) -> HostlistError {
        let before = &text.as_bytes()[..at];
        let line_start = before.iter().rposition(|&byte| byte == b'\n').map_or(0, |newline| newline + 1);
        HostlistError {
            line: before.iter().filter(|&&byte| byte == b'\n').count() + 1,
            column: text[line_start..at].chars().count() + 1,
            problem,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Alphabet {
    /// Names of nodes: those of host names and addresses.
    Nodes,
    /// Names of switches: all visible characters without a meaning in their file.
    Switches,
}

impl Alphabet {
    fn has(self, c: char) -> bool {
        match self {
            Alphabet::Nodes => c.is_ascii_alphanumeric() || "-_.:".contains(c),
            Alphabet::Switches => c.is_ascii_graphic() && !"[],#=\"".contains(c),
        }
    }
}

/// Separates expressions.
fn is_separator(c: char) -> bool {
    c.is_ascii_whitespace() || c == ','
}

/// Reads the expressions in `text`, and their number of names, at most [`HOSTS_MAX`].
pub(super) fn read(text: &str, alphabet: Alphabet) -> Result<(Vec<Pattern>, usize)> {
    let (mut patterns, mut hosts) = (Vec::new(), 0);
    let mut reader = Reader { text, at: 0, alphabet };
    loop {
        reader.skip(is_separator);
        let start = reader.at;
        if reader.peek().is_none() {
            return Ok((patterns, hosts));
        }
        let pattern = reader.pattern()?;
        let len = pattern.checked_len().filter(|&len| len <= (HOSTS_MAX - hosts) as u64);
        hosts += len.ok_or((start, Problem::Hosts))? as usize;
        patterns.push(pattern);
    }
}

/// Checks that `name` is the name of a node, without brackets.
pub(super) fn check_name(name: &str) -> Result<()> {
    let is_strange = |&(_, c): &(usize, char)| !Alphabet::Nodes.has(c);
    match name.char_indices().find(is_strange) {
        Some((at, c)) => Err((at, Problem::Character(c))),
        None if name.is_empty() => Err((0, Problem::Empty)),
        None if name.len() > NAME_BYTES_MAX => Err((NAME_BYTES_MAX, Problem::LongName)),
        None => name.chars().next().filter(|&c| c == '-' || c == '.').map_or(Ok(()), |c| Err((0, Problem::Start(c)))),
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    alphabet: Alphabet,
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    /// Takes characters as long as `is_so` accepts them.
    fn skip(&mut self, is_so: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let taken = &rest[..rest.find(|c| !is_so(c)).unwrap_or(rest.len())];
        self.at += taken.len();
        taken
    }

    fn take(&mut self, c: char) -> bool {
        let is_next = self.peek() == Some(c);
        self.at += if is_next { c.len_utf8() } else { 0 };
        is_next
    }

    fn pattern(&mut self) -> Result<Pattern> {
        let (start, alphabet) = (self.at, self.alphabet);
        if let Some(c @ ('-' | '.')) = self.peek() {
            return Err((start, Problem::Start(c)));
        }
        let mut pattern = Pattern { head: String::from(self.skip(|c| alphabet.has(c))), groups: Vec::new() };
        while self.peek() == Some('[') {
            if pattern.groups.len() == GROUPS_MAX {
                return Err((self.at, Problem::Groups));
            }
            let numbers = self.group()?;
            pattern.groups.push((numbers, String::from(self.skip(|c| alphabet.has(c)))));
        }
        match self.peek() {
            Some(']') => return Err((self.at, Problem::Unopened)),
            Some(c) if !is_separator(c) => return Err((self.at, Problem::Character(c))),
            _ if pattern.name_bytes_max() > NAME_BYTES_MAX => return Err((start, Problem::LongName)),
            _ if pattern.name_bytes_max() == 0 => return Err((start, Problem::Empty)),
            _ => {}
        }
        Ok(pattern)
    }

    /// Reads from `[` to `]`.
    fn group(&mut self) -> Result<Numbers> {
        let open = self.at;
        self.at += 1;
        if !self.rest().contains(']') {
            return Err((open, Problem::Unclosed));
        }
        let mut numbers = self.range()?;
        loop {
            let at = self.at;
            if self.take(']') {
                return Ok(numbers);
            }
            if !self.take(',') {
                return Err((at, Problem::NoNumber(self.peek())));
            }
            if numbers.range_count() == RANGES_MAX {
                return Err((at, Problem::Ranges));
            }
            numbers.append(&self.range()?);
        }
    }

    fn range(&mut self) -> Result<Numbers> {
        let start = self.at;
        let (low, width) = self.number()?;
        let high = if self.take('-') { self.number()?.0 } else { low };
        let above = high.checked_sub(low).ok_or((start, Problem::Backwards(low, high)))?;
        if above >= HOSTS_MAX as u64 {
            return Err((start, Problem::Hosts));
        }
        Ok(Numbers::range(low, above as u32 + 1, width))
    }

    /// Reads a number and its number of digits; blanks around it are skipped.
    fn number(&mut self) -> Result<(u64, u8)> {
        self.skip(|c| c.is_ascii_whitespace());
        let start = self.at;
        let (digits, _) = leading_digits(self.rest());
        if digits.is_empty() {
            return Err((start, Problem::NoNumber(self.peek())));
        }
        self.at += digits.len();
        self.skip(|c| c.is_ascii_whitespace());
        let width = u8::try_from(digits.len()).map_err(|_| (start, Problem::LongName))?;
        digits.parse().map(|number| (number, width)).map_err(|_| (start, Problem::LargeNumber))
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use super::super::Hostlist;
    use super::*;

    fn check(text: &str, column: usize, problem: Problem) {
        let error = Hostlist::parse(text).unwrap_err();
        assert_eq!(error, HostlistError { line: 1, column, problem }, "{text}");
    }

    #[test]
    fn errors_say_what_and_where() {
        check("a[1-3", 2, Problem::Unclosed);
        check("a,b[1-3,c", 4, Problem::Unclosed);
        check("a1-3]", 5, Problem::Unopened);
        check("a[1-2]]", 7, Problem::Unopened);
        check("a[[1-2]]", 3, Problem::NoNumber(Some('[')));
        check("a[]", 3, Problem::NoNumber(Some(']')));
        check("a[1-2,]", 7, Problem::NoNumber(Some(']')));
        check("a[1-]", 5, Problem::NoNumber(Some(']')));
        check("a[-2]", 3, Problem::NoNumber(Some('-')));
        check("a[+1]", 3, Problem::NoNumber(Some('+')));
        check("a[1:3]", 4, Problem::NoNumber(Some(':')));
        check("a[0x1]", 4, Problem::NoNumber(Some('x')));
        check("a[1 2]", 5, Problem::NoNumber(Some('2')));
        check("n[a-c]", 3, Problem::NoNumber(Some('a')));
        check("b,a[3-1]", 5, Problem::Backwards(3, 1));
        check("a[18446744073709551616]", 3, Problem::LargeNumber);
        check("a;b", 2, Problem::Character(';'));
        check("é[1-2]", 1, Problem::Character('é'));
        check("a[1]é", 5, Problem::Character('é'));
        check("a,-oProxyCommand", 3, Problem::Start('-'));
        check("..", 1, Problem::Start('.'));
    }

    #[test]
    fn lines_count() {
        let error = Hostlist::parse("a,b,\n c[1-2],d[").unwrap_err();
        assert_eq!(error, HostlistError { line: 2, column: 10, problem: Problem::Unclosed });
        assert_eq!(format!("{error}"), "hostlist, line 2, column 10: `[` has no `]` behind it: add the `]`");
    }

    #[test]
    fn limits_hold() {
        let most = format!("a[1-{HOSTS_MAX}]");
        assert_eq!(Hostlist::parse(&most).unwrap().len(), HOSTS_MAX);
        check(&format!("a[0-{HOSTS_MAX}]"), 3, Problem::Hosts);
        check(&format!("{most},b"), most.len() + 2, Problem::Hosts);
        check("a[0-18446744073709551615]", 3, Problem::Hosts);
        check("a[1-1000000]b[1-1000000]c[1-1000000]d[1-1000000]", 1, Problem::Hosts);
        check("a[1][2][3][4][5][6][7][8][9]", 26, Problem::Groups);
        assert!(Hostlist::parse("a[1][2][3][4][5][6][7][8]").is_ok());

        let ranges = |count: usize| format!("a[{}1]", "1,".repeat(count - 1));
        assert_eq!(Hostlist::parse(&ranges(RANGES_MAX)).unwrap().len(), RANGES_MAX);
        check(&ranges(RANGES_MAX + 1), 2 + 2 * RANGES_MAX, Problem::Ranges);

        let name = "n".repeat(NAME_BYTES_MAX);
        assert_eq!(Hostlist::parse(&name).unwrap().len(), 1);
        check(&format!("a,{name}n"), 3, Problem::LongName);
        check(&format!("a,{}[9-10]", &name[1..]), 3, Problem::LongName);
        check(&format!("a,[{}1]", "0".repeat(NAME_BYTES_MAX)), 4, Problem::LongName);
    }
}
