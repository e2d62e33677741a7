//! The syntax of options, and a walk over them to the first argument that is none.
//!
//! The walk only finds positions: values are not checked, and errors of usage are left to the launcher. An
//! unknown option is a flag or takes the next argument. Both are tried; one is right if it leads to an
//! executable file as the program and the other does not. Otherwise the position is unclear.

use super::error::Error;
use super::line::Line;

/// How many options of one command may be unknown.
const UNKNOWN_MAX: usize = 16;

/// A family of option syntaxes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// `getopt_long` that stops at the first argument that is no option: `-n4`, `-n 4`, `--ntasks=4`,
    /// `--ntasks 4`, `--nta 4`; `--` ends the options.
    Getopt,
    /// Names with one dash or two, whole: `-np 4`, `--np 4`; single letters may stand together. `--`
    /// ends the options.
    Dashes,
    /// As `Getopt`, but a name of several letters may have one dash too.
    Either,
    /// Names with any number of dashes, in upper or lower case: `-np 4`, `-np=4`. Nothing ends the options.
    Hydra,
}

/// What an option takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Takes {
    /// Nothing.
    Nothing,
    /// A value, joined or in the next argument.
    Value,
    /// A value, if it is joined.
    Joined,
    /// Two values.
    Two,
    /// `NAME=VALUE`, or a name and a value in two arguments.
    Pair,
    /// A value or none, without a rule for the next argument.
    Perhaps,
}

/// The options of one launcher. An option's names are in one string, separated by blanks; those of one letter
/// are short.
#[derive(Clone, Copy, Debug)]
pub struct Grammar {
    /// Their syntax.
    pub style: Style,
    /// Those that take nothing.
    pub flags: &'static [&'static str],
    /// Those that take a value.
    pub values: &'static [&'static str],
    /// Those whose value is optional and must be joined.
    pub joined: &'static [&'static str],
    /// Those that take two values.
    pub twos: &'static [&'static str],
    /// Those that take `NAME=VALUE`, or `NAME VALUE` in two arguments.
    pub pairs: &'static [&'static str],
    /// Those that take a value or none, without a rule.
    pub perhaps: &'static [&'static str],
}

impl Grammar {
    /// No options.
    pub const NONE: Grammar =
        Grammar { style: Style::Getopt, flags: &[], values: &[], joined: &[], twos: &[], pairs: &[], perhaps: &[] };
}

/// A value: the bytes of an argument from `start` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The argument's number.
    pub argument: usize,
    /// Its first byte in the argument.
    pub start: usize,
}

/// A known option that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Its names, as in the grammar.
    names: &'static str,
    /// Its value, if it has one.
    pub value: Option<Span>,
}

impl Seen {
    /// Returns whether this is one of its names.
    pub fn is(&self, name: &str) -> bool {
        self.names.split(' ').any(|n| n == name)
    }
}

/// The result of a walk.
#[derive(Clone, Debug, Default)]
pub struct Scan {
    /// The first argument that is neither an option nor a value; `None` if there is none.
    pub program: Option<usize>,
    /// The known options before it.
    pub seen: Vec<Seen>,
    /// Whether `--` precedes it.
    certain: bool,
}

impl Scan {
    /// Returns the last option of this name.
    pub fn option(&self, name: &str) -> Option<Seen> {
        self.seen.iter().rev().find(|seen| seen.is(name)).copied()
    }
}

enum Step {
    /// Known options; the walk continues at the argument `next`.
    Known { seen: Vec<Seen>, next: usize },
    /// An option that may take the next argument.
    Unclear { seen: Vec<Seen> },
}

/// The options with a given name.
enum Named {
    Known(Takes, &'static str),
    Unknown,
}

impl Grammar {
    /// Walks from the argument `at` to the first that is no option.
    ///
    /// # Errors
    /// [`Error::Unsure`] if that depends on an unknown option.
    pub fn scan(&self, line: &Line<'_>, at: usize) -> Result<Scan, Error> {
        self.scan_on(line, at, 0)
    }

    /// Returns the first argument that is no option, if all options before it are known.
    pub fn scan_known(&self, line: &Line<'_>, mut at: usize) -> Option<usize> {
        while at < line.end && is_option(line.bytes(at)) {
            if line.bytes(at) == b"--" {
                return Some(at + 1);
            }
            match self.step(line, at) {
                Step::Known { next, .. } => at = next,
                Step::Unclear { .. } => return None,
            }
        }
        Some(at)
    }

    fn scan_on(&self, line: &Line<'_>, mut at: usize, mut unknown: usize) -> Result<Scan, Error> {
        let mut scan = Scan::default();
        while at < line.end {
            let argument = line.bytes(at);
            if argument == b"--" && self.style != Style::Hydra {
                scan.certain = true;
                scan.program = Some(at + 1).filter(|&p| p < line.end);
                return Ok(scan);
            }
            if !is_option(argument) {
                scan.program = Some(at);
                return Ok(scan);
            }
            match self.step(line, at) {
                Step::Known { seen, next } => {
                    scan.seen.extend(seen);
                    at = next;
                }
                Step::Unclear { seen } => {
                    scan.seen.extend(seen);
                    unknown += 1;
                    if at + 1 < line.end && !is_option(line.bytes(at + 1)) {
                        return self.choose(line, at, scan, unknown);
                    }
                    at += 1;
                }
            }
        }
        Ok(scan)
    }

    /// Continues behind an unknown option: the next argument is its value or the program.
    fn choose(&self, line: &Line<'_>, at: usize, mut before: Scan, unknown: usize) -> Result<Scan, Error> {
        let unsure = || Error::Unsure { launcher: line.launcher(), option: line.text(at), argument: line.text(at + 1) };
        if unknown > UNKNOWN_MAX {
            return Err(unsure());
        }
        let is_program = line.is_executable(at + 1);
        let behind = self.scan_on(line, at + 2, unknown);
        let fits = |scan: &Scan| scan.program.is_some_and(|p| scan.certain || line.is_executable(p));
        match (is_program, behind) {
            (true, Ok(behind)) if !fits(&behind) && !self.seems_value(line, at + 1) => before.program = Some(at + 1),
            (false, Ok(behind)) if fits(&behind) => {
                before.seen.extend(behind.seen);
                before.program = behind.program;
                before.certain = behind.certain;
            }
            // The rest are arguments, unless a program is among them.
            (true, Err(_)) if !(at + 2..line.end).any(|argument| line.is_executable(argument)) => {
                before.program = Some(at + 1);
            }
            (false, Err(e)) => return Err(e),
            _ => return Err(unsure()),
        }
        Ok(before)
    }

    /// Returns whether an executable file's name may well be a value: a name without a directory, such as
    /// `test`, followed by an option of the launcher.
    fn seems_value(&self, line: &Line<'_>, at: usize) -> bool {
        let goes_on = at + 1 < line.end && is_option(line.bytes(at + 1));
        !line.bytes(at).contains(&b'/') && goes_on && matches!(self.step(line, at + 1), Step::Known { .. })
    }

    fn step(&self, line: &Line<'_>, at: usize) -> Step {
        let argument = line.bytes(at);
        let dashes = argument.iter().take_while(|&&b| b == b'-').count();
        let name = &argument[dashes.min(if self.style == Style::Hydra { dashes } else { 2 })..];
        let equals = name.iter().position(|&b| b == b'=');
        let whole = &name[..equals.unwrap_or(name.len())];
        let joined = equals.map(|e| argument.len() - name.len() + e + 1);
        if self.style == Style::Getopt && dashes == 1 || self.style == Style::Either && argument.len() == 2 {
            return self.cluster(line, at);
        }
        match self.named(whole) {
            Named::Known(takes, names) => take(line, at, takes, names, joined, Vec::new()),
            // Joined letters, if they are all known.
            Named::Unknown if dashes == 1 && self.style != Style::Hydra => match self.cluster(line, at) {
                Step::Unclear { .. } if joined.is_some() => Step::Known { seen: Vec::new(), next: at + 1 },
                step => step,
            },
            Named::Unknown if joined.is_some() => Step::Known { seen: Vec::new(), next: at + 1 },
            Named::Unknown => Step::Unclear { seen: Vec::new() },
        }
    }

    /// Reads joined short options, the last perhaps with its value.
    fn cluster(&self, line: &Line<'_>, at: usize) -> Step {
        let argument = line.bytes(at);
        let mut seen = Vec::new();
        for (position, &letter) in argument.iter().enumerate().skip(1) {
            let Some((takes, names)) = self.short(letter) else { return Step::Unclear { seen } };
            if takes != Takes::Nothing {
                let joined = Some(position + 1).filter(|&start| start < argument.len());
                return take(line, at, takes, names, joined, seen);
            }
            seen.push(Seen { names, value: None });
        }
        Step::Known { seen, next: at + 1 }
    }

    fn options(&self) -> impl Iterator<Item = (Takes, &'static str)> {
        let lists = [
            (Takes::Nothing, self.flags),
            (Takes::Value, self.values),
            (Takes::Joined, self.joined),
            (Takes::Two, self.twos),
            (Takes::Pair, self.pairs),
            (Takes::Perhaps, self.perhaps),
        ];
        lists.into_iter().flat_map(|(takes, list)| list.iter().map(move |names| (takes, *names)))
    }

    fn short(&self, letter: u8) -> Option<(Takes, &'static str)> {
        self.options().find(|(_, names)| names.split(' ').any(|n| n.as_bytes() == [letter]))
    }

    /// Returns the option with this name; in styles that allow it, the only one with this prefix.
    fn named(&self, name: &[u8]) -> Named {
        let equal = |n: &str| match self.style {
            Style::Hydra => n.as_bytes().eq_ignore_ascii_case(name),
            Style::Getopt => n.len() > 1 && n.as_bytes() == name,
            _ => n.as_bytes() == name,
        };
        if let Some((takes, names)) = self.options().find(|(_, names)| names.split(' ').any(equal)) {
            return Named::Known(takes, names);
        }
        if !matches!(self.style, Style::Getopt | Style::Either) || name.is_empty() {
            return Named::Unknown;
        }
        let begins = |n: &str| n.len() > 1 && n.as_bytes().starts_with(name);
        let mut found = self.options().filter(|(_, names)| names.split(' ').any(begins));
        match (found.next(), found.next()) {
            (Some((takes, names)), None) => Named::Known(takes, names),
            _ => Named::Unknown,
        }
    }
}

/// Reads an option with its values. `joined` is where a joined value begins in the argument.
fn take(
    line: &Line<'_>,
    at: usize,
    takes: Takes,
    names: &'static str,
    joined: Option<usize>,
    mut seen: Vec<Seen>,
) -> Step {
    let here = joined.map(|start| Span { argument: at, start });
    let first = here.or(Some(Span { argument: at + 1, start: 0 }).filter(|span| span.argument < line.end));
    // The first argument behind the first value.
    let behind = at + if here.is_some() { 1 } else { 2 };
    let has_equals = |span: Span| line.bytes(span.argument)[span.start..].contains(&b'=');
    let (value, next) = match takes {
        Takes::Nothing => (None, at + 1),
        Takes::Joined => (here, at + 1),
        Takes::Value => (first, behind),
        Takes::Two => (first, behind + 1),
        Takes::Pair => (first, behind + usize::from(!first.is_some_and(has_equals))),
        Takes::Perhaps if here.is_some() => (here, at + 1),
        Takes::Perhaps => {
            seen.push(Seen { names, value: None });
            return Step::Unclear { seen };
        }
    };
    seen.push(Seen { names, value });
    Step::Known { seen, next }
}

fn is_option(argument: &[u8]) -> bool {
    argument.len() > 1 && argument[0] == b'-'
}
