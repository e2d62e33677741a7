//! A closure as text: what a run used, an entry on each line, in the order in which it became known.
//!
//! The format is specified in `docs/internals/closure.md`. Lines are printable ASCII for any bytes of a path,
//! and fields are separated by single spaces.

mod blocks;
mod escape;
mod events;

use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use headwater_abi::path::PATH_BYTES_MAX;
use thiserror::Error;

use self::blocks::number;
pub use self::blocks::{BlockRanges, RANGES_MAX};
pub(crate) use self::escape::{escaped, unescape};
pub use self::events::{Call, CallKind, EVENTS_MAX, Event, TEXT_BYTES_MAX};

/// The first words of every closure; its version follows.
pub const MAGIC: &str = "headwater closure ";
/// The version of closures that have entries alone.
pub const VERSION: u32 = 2;
/// The version of closures that have events, too.
pub const VERSION_WITH_EVENTS: u32 = 3;
/// The first byte of lines that are no entries.
pub const COMMENT: u8 = b'#';
/// The most entries that are read.
pub const ENTRIES_MAX: usize = 65_536;
/// The longest line, in bytes: a path with all bytes escaped, and the fields before it, of which ranges are the longest.
const LINE_BYTES_MAX: usize = 4 * PATH_BYTES_MAX + 64 + RANGES_MAX * "4294967295-4294967295,".len();
const NANOSECONDS: u32 = 1_000_000_000;

/// The version of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    /// Its size in bytes.
    pub size: u64,
    /// Seconds of its modification time, since the epoch.
    pub mtime_seconds: i64,
    /// Nanoseconds of it.
    pub mtime_nanoseconds: u32,
}

/// What of a path was used, or is to be fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// A directory's names.
    Directory,
    /// A symbolic link's target.
    Link,
    /// Its attributes alone, for any kind.
    Name,
    /// A file's attributes.
    Attributes(Version),
    /// The bytes of a file that a loader maps.
    Loadable(Version),
    /// Blocks of a large file.
    Blocks(Version, BlockRanges),
    /// All bytes of a file.
    Whole(Version),
    /// The bytes that a loader maps of a file of any version.
    Library,
    /// All bytes of a file of any version, or the names of a directory.
    Any,
}

/// One line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The part.
    pub what: What,
    /// The path; absolute.
    pub path: PathBuf,
}

/// Why a text is no closure.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ParseError {
    /// The first line is of another version.
    #[error("its first line is neither \"{MAGIC}{VERSION}\" nor \"{MAGIC}{VERSION_WITH_EVENTS}\"")]
    Version,
    /// A line is invalid.
    #[error("its line {0} is damaged")]
    Line(usize),
    /// There are too many entries.
    #[error("it has more than {ENTRIES_MAX} entries, or more than {EVENTS_MAX} events")]
    Long,
}

/// A closure with the events of its run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// What the run used.
    pub entries: Vec<Entry>,
    /// What its processes did, in order; empty in closures that have entries alone.
    pub events: Vec<Event>,
}

/// Returns whether a file with this start is a closure, of any version.
pub fn is_closure(text: &[u8]) -> bool {
    text.starts_with(MAGIC.as_bytes())
}

/// Reads a closure's entries.
///
/// # Errors
/// See [`ParseError`]; a closure is taken as a whole or not at all.
pub fn parse(text: &[u8]) -> Result<Vec<Entry>, ParseError> {
    parse_record(text).map(|record| record.entries)
}

/// Reads a closure with its events.
///
/// # Errors
/// As [`parse`].
pub fn parse_record(text: &[u8]) -> Result<Record, ParseError> {
    // A file that was cut off has no final newline.
    let text = text.strip_suffix(b"\n").ok_or_else(|| ParseError::Line(text.split(|&b| b == b'\n').count()))?;
    let mut lines = text.split(|&b| b == b'\n');
    let first = lines.next().unwrap_or_default();
    let has_events = first == format!("{MAGIC}{VERSION_WITH_EVENTS}").as_bytes();
    if !has_events && first != format!("{MAGIC}{VERSION}").as_bytes() {
        return Err(ParseError::Version);
    }
    let mut record = Record::default();
    for (number, line) in (2..).zip(lines) {
        if line.first() == Some(&COMMENT) {
            continue;
        }
        let line = std::str::from_utf8(line).ok().filter(|line| line.len() <= LINE_BYTES_MAX);
        let line = line.ok_or(ParseError::Line(number))?;
        if has_events && Event::is_event(line) {
            if record.events.len() == EVENTS_MAX {
                return Err(ParseError::Long);
            }
            record.events.push(Event::parse(line).ok_or(ParseError::Line(number))?);
            continue;
        }
        if record.entries.len() == ENTRIES_MAX {
            return Err(ParseError::Long);
        }
        record.entries.push(Entry::parse(line).ok_or(ParseError::Line(number))?);
    }
    Ok(record)
}

/// Writes a closure with its events, after the entries.
pub fn write_record(record: &Record) -> String {
    let mut text = format!("{MAGIC}{VERSION_WITH_EVENTS}\n");
    for entry in &record.entries {
        text += &format!("{entry}\n");
    }
    for event in &record.events {
        text += &format!("{event}\n");
    }
    text
}

/// Writes a closure.
pub fn write<'a>(entries: impl Iterator<Item = &'a Entry>) -> String {
    let mut text = format!("{MAGIC}{VERSION}\n");
    for entry in entries {
        text += &format!("{entry}\n");
    }
    text
}

impl Entry {
    /// Reads a line, without its end. `None` if it is invalid.
    pub fn parse(line: &str) -> Option<Entry> {
        let mut fields = line.split(' ');
        let kind = fields.next()?;
        let mut version = || Version::parse(fields.next()?, fields.next()?);
        let what = match kind {
            "directory" => What::Directory,
            "link" => What::Link,
            "name" => What::Name,
            "attributes" => What::Attributes(version()?),
            "loadable" => What::Loadable(version()?),
            "blocks" => What::Blocks(version()?, BlockRanges::parse(fields.next()?)?),
            "whole" => What::Whole(version()?),
            "library" => What::Library,
            "any" => What::Any,
            _ => return None,
        };
        let path =
            unescape(fields.next()?).filter(|path| path.first() == Some(&b'/') && path.len() <= PATH_BYTES_MAX)?;
        fields.next().is_none().then(|| Entry { what, path: PathBuf::from(OsString::from_vec(path)) })
    }

    /// Returns the version that was recorded, if one was.
    pub fn version(&self) -> Option<Version> {
        match self.what {
            What::Attributes(version) | What::Loadable(version) | What::Blocks(version, _) | What::Whole(version) => {
                Some(version)
            }
            What::Directory | What::Link | What::Name | What::Library | What::Any => None,
        }
    }
}

impl Version {
    fn parse(size: &str, mtime: &str) -> Option<Version> {
        let (seconds, nanoseconds) = mtime.split_once('.')?;
        let version = Version {
            size: number(size)?,
            mtime_seconds: number(seconds)?,
            mtime_nanoseconds: number(nanoseconds).filter(|&n| n < NANOSECONDS && nanoseconds.len() == 9)?,
        };
        Some(version)
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.what {
            What::Directory => "directory",
            What::Link => "link",
            What::Name => "name",
            What::Attributes(_) => "attributes",
            What::Loadable(_) => "loadable",
            What::Blocks(..) => "blocks",
            What::Whole(_) => "whole",
            What::Library => "library",
            What::Any => "any",
        };
        f.write_str(kind)?;
        if let Some(Version { size, mtime_seconds, mtime_nanoseconds }) = self.version() {
            write!(f, " {size} {mtime_seconds}.{mtime_nanoseconds:09}")?;
        }
        if let What::Blocks(_, ranges) = &self.what {
            write!(f, " {ranges}")?;
        }
        write!(f, " {}", escaped(self.path.as_os_str().as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const VERSIONED: Version = Version { size: 12, mtime_seconds: -3, mtime_nanoseconds: 40 };

    #[test]
    fn lines_as_documented() {
        for (line, what, path) in [
            ("directory /sw/lib", What::Directory, &b"/sw/lib"[..]),
            ("link /sw/a\\x20b", What::Link, b"/sw/a b"),
            ("name /sw/\\xc3\\xa9\\x0a", What::Name, "/sw/é\n".as_bytes()),
            ("attributes 12 -3.000000040 /f", What::Attributes(VERSIONED), b"/f"),
            ("loadable 12 -3.000000040 /f", What::Loadable(VERSIONED), b"/f"),
            (
                "blocks 12 -3.000000040 0-2,5 /f",
                What::Blocks(VERSIONED, BlockRanges::new([0, 1, 2, 5].into_iter())),
                b"/f",
            ),
            ("whole 12 -3.000000040 /\\x5c", What::Whole(VERSIONED), b"/\\"),
            ("library /f", What::Library, b"/f"),
            ("any /f", What::Any, b"/f"),
        ] {
            let entry = Entry { what, path: PathBuf::from(OsString::from_vec(path.to_vec())) };
            assert_eq!((Entry::parse(line), entry.to_string()), (Some(entry.clone()), line.to_owned()));
        }
    }

    #[test]
    fn damaged_lines_are_refused() {
        for line in [
            "",
            "directory",
            "directory ",
            "directory relative",
            "directory /a b",
            "directory /a ",
            "directory  /a",
            "directory /\\x00",
            "directory /\\x4",
            "directory /\\X41",
            "directory /\\",
            "whole /a",
            "whole 1 /a",
            "whole 1 1 /a",
            "whole 1 1.5 /a",
            "whole +1 1.000000000 /a",
            "whole -1 1.000000000 /a",
            "whole 1 1.1000000000 /a",
            "blocks 1 1.000000000 /a",
            "blocks 1 1.000000000 2-1 /a",
            "nonsense /a",
        ] {
            assert_eq!(Entry::parse(line), None, "{line:?}");
        }
    }

    #[test]
    fn a_closure_is_taken_as_a_whole() {
        assert_eq!(parse(b"headwater closure 2\n"), Ok(vec![]));
        assert_eq!(parse(b"headwater closure 1\nany /a\n"), Err(ParseError::Version));
        assert_eq!(parse(b"headwater closure 2\nany /a\nany /b"), Err(ParseError::Line(3)));
        assert_eq!(parse(b"headwater closure 2\nany /a\n\xff\n"), Err(ParseError::Line(3)));
        assert_eq!(parse(b"headwater closure 2\n# any /a\nany /b\n").map(|entries| entries.len()), Ok(1));
        assert_eq!(parse(b""), Err(ParseError::Line(1)));
        let long = String::from("headwater closure 2\n") + &"any /a\n".repeat(ENTRIES_MAX + 1);
        assert_eq!(parse(long.as_bytes()), Err(ParseError::Long));
        let text = b"headwater closure 3\nany /a\nend 1 2 0\n";
        let record = parse_record(text).unwrap();
        assert_eq!((record.entries.len(), record.events.len()), (1, 1));
        assert_eq!(write_record(&record).as_bytes(), text);
        assert_eq!(parse(b"headwater closure 2\nend 1 2 0\n"), Err(ParseError::Line(2)));
        assert!(is_closure(b"headwater closure 9\n") && !is_closure(b"/sw/lib\n"));
    }

    fn what() -> impl Strategy<Value = What> {
        let version = (any::<u64>(), any::<i64>(), 0..NANOSECONDS)
            .prop_map(|(size, mtime_seconds, mtime_nanoseconds)| Version { size, mtime_seconds, mtime_nanoseconds });
        let plain = [What::Directory, What::Link, What::Name, What::Library, What::Any];
        prop_oneof![
            prop::sample::select(plain.to_vec()).boxed(),
            version.clone().prop_map(What::Attributes).boxed(),
            version.clone().prop_map(What::Loadable).boxed(),
            version.clone().prop_map(What::Whole).boxed(),
            (version, prop::collection::btree_set(any::<u32>(), 1..20))
                .prop_map(|(version, numbers)| What::Blocks(version, BlockRanges::new(numbers.into_iter())))
                .boxed(),
        ]
    }

    proptest! {
        #[test]
        fn whatever_is_written_is_read(
            entries in prop::collection::vec((what(), prop::collection::vec(1u8.., 0..40)), 0..20),
        ) {
            let entry = |(what, name): (What, Vec<u8>)| {
                Entry { what, path: PathBuf::from(OsString::from_vec([b"/", &name[..]].concat())) }
            };
            let entries: Vec<Entry> = entries.into_iter().map(entry).collect();
            let text = write(entries.iter());
            prop_assert_eq!(text.lines().count(), entries.len() + 1);
            prop_assert_eq!(parse(text.as_bytes()), Ok(entries));
        }

        #[test]
        fn what_is_read_is_written_the_same(line in "(whole|any|loadable) [0-9 .-]{0,24}/[ -~]{0,12}") {
            if let Some(entry) = Entry::parse(&line) {
                let again = entry.to_string();
                prop_assert_eq!(Entry::parse(&again), Some(entry));
            }
        }
    }

    #[test]
    fn fuzzing_begins_with_what_is_read() {
        for seed in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../fuzz/seeds/closure")).unwrap() {
            let (path, bytes) = seed.map(|seed| (seed.path(), std::fs::read(seed.path()).unwrap())).unwrap();
            let is_seal = crate::sealed::Seal::parse(&bytes).is_ok();
            assert!(is_seal || parse(&bytes).is_ok() || parse_record(&bytes).is_ok(), "{}", path.display());
        }
    }
}
