//! What the processes of a run did with the file system, and when: the lines of a record beside its entries.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use super::blocks::number;
use super::escape::{escaped, unescape};

/// The most events that are read or written.
pub const EVENTS_MAX: usize = 1 << 20;
/// The most bytes of a variable's value and of a command line.
pub const TEXT_BYTES_MAX: usize = 4 * 4096;

/// The kind of a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CallKind {
    /// A file or directory is opened for reading.
    Open,
    /// A file is opened for writing, or made.
    Write,
    /// The attributes of a path, or whether it may be used.
    Stat,
    /// A symbolic link's target.
    Link,
    /// A program is executed.
    Execute,
    /// Names of a directory; the size is their number.
    List,
    /// Bytes of a file are read; the size is their number.
    Read,
    /// A file is mapped; the size is the number of mapped bytes.
    Map,
    /// A file is mapped as code.
    Load,
}

const KINDS: [(&str, CallKind); 9] = [
    ("open", CallKind::Open),
    ("write", CallKind::Write),
    ("stat", CallKind::Stat),
    ("link", CallKind::Link),
    ("execute", CallKind::Execute),
    ("list", CallKind::List),
    ("read", CallKind::Read),
    ("map", CallKind::Map),
    ("load", CallKind::Load),
];

/// A system call on a path. Times are nanoseconds since the run's start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// When it began.
    pub at_ns: u64,
    /// How long it took.
    pub length_ns: u64,
    /// The process's PID.
    pub process: u32,
    /// Its kind.
    pub kind: CallKind,
    /// The error number, 0 for success.
    pub errno: u32,
    /// Bytes or names; 0 where the kind has none.
    pub size: u64,
    /// The path; absolute.
    pub path: PathBuf,
}

/// One line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A process was forked.
    Begin {
        /// When, in nanoseconds since the run's start.
        at_ns: u64,
        /// Its PID.
        process: u32,
        /// Its parent's.
        parent: u32,
    },
    /// A process has executed a program.
    Image {
        /// When, in nanoseconds since the run's start.
        at_ns: u64,
        /// Its PID.
        process: u32,
        /// The program's file.
        path: PathBuf,
    },
    /// The arguments of the program, separated by spaces.
    Command {
        /// The PID.
        process: u32,
        /// The arguments.
        text: OsString,
    },
    /// A variable of the program's environment by which files are found.
    Variable {
        /// The PID.
        process: u32,
        /// Name and value, with a `=` between.
        text: OsString,
    },
    /// The loader has loaded the program's libraries.
    Loaded {
        /// When, in nanoseconds since the run's start.
        at_ns: u64,
        /// The PID.
        process: u32,
    },
    /// A system call.
    Call(Call),
    /// Bytes of a mapped file that were in the process's memory when it ended.
    Used {
        /// The PID.
        process: u32,
        /// The bytes.
        bytes: u64,
        /// The file.
        path: PathBuf,
    },
    /// A process has ended.
    End {
        /// When, in nanoseconds since the run's start.
        at_ns: u64,
        /// Its PID.
        process: u32,
        /// Its exit status, or 128 and the number of the signal.
        status: u32,
    },
}

impl Call {
    /// Returns when it ended.
    pub fn end_ns(&self) -> u64 {
        self.at_ns.saturating_add(self.length_ns)
    }
}

impl Event {
    /// Returns whether a line of this kind is an event.
    pub fn is_event(line: &str) -> bool {
        let kind = line.split(' ').next().unwrap_or_default();
        ["begin", "image", "command", "variable", "loaded", "call", "used", "end"].contains(&kind)
    }

    /// Reads a line, without its end. `None` if it is invalid.
    pub fn parse(line: &str) -> Option<Event> {
        let mut fields = line.split(' ');
        let event = match fields.next()? {
            "begin" => Event::Begin {
                at_ns: number(fields.next()?)?,
                process: number(fields.next()?)?,
                parent: number(fields.next()?)?,
            },
            "image" => Event::Image {
                at_ns: number(fields.next()?)?,
                process: number(fields.next()?)?,
                path: path(fields.next()?)?,
            },
            "command" => Event::Command { process: number(fields.next()?)?, text: text(fields.next()?)? },
            "variable" => Event::Variable { process: number(fields.next()?)?, text: text(fields.next()?)? },
            "loaded" => Event::Loaded { at_ns: number(fields.next()?)?, process: number(fields.next()?)? },
            "call" => Event::Call(Call {
                at_ns: number(fields.next()?)?,
                length_ns: number(fields.next()?)?,
                process: number(fields.next()?)?,
                kind: kind(fields.next()?)?,
                errno: number(fields.next()?)?,
                size: number(fields.next()?)?,
                path: path(fields.next()?)?,
            }),
            "used" => Event::Used {
                process: number(fields.next()?)?,
                bytes: number(fields.next()?)?,
                path: path(fields.next()?)?,
            },
            "end" => Event::End {
                at_ns: number(fields.next()?)?,
                process: number(fields.next()?)?,
                status: number(fields.next()?)?,
            },
            _ => return None,
        };
        fields.next().is_none().then_some(event)
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |text: &OsStr| escaped(text.as_bytes());
        match self {
            Event::Begin { at_ns, process, parent } => write!(f, "begin {at_ns} {process} {parent}"),
            Event::Image { at_ns, process, path } => {
                write!(f, "image {at_ns} {process} {}", shown(path.as_os_str()))
            }
            Event::Command { process, text } => write!(f, "command {process} {}", shown(text)),
            Event::Variable { process, text } => write!(f, "variable {process} {}", shown(text)),
            Event::Loaded { at_ns, process } => write!(f, "loaded {at_ns} {process}"),
            Event::Call(Call { at_ns, length_ns, process, kind, errno, size, path }) => {
                let name = KINDS.iter().find(|(_, other)| other == kind).map_or("stat", |(name, _)| name);
                let path = shown(path.as_os_str());
                write!(f, "call {at_ns} {length_ns} {process} {name} {errno} {size} {path}")
            }
            Event::Used { process, bytes, path } => {
                write!(f, "used {process} {bytes} {}", shown(path.as_os_str()))
            }
            Event::End { at_ns, process, status } => write!(f, "end {at_ns} {process} {status}"),
        }
    }
}

fn kind(name: &str) -> Option<CallKind> {
    KINDS.iter().find(|(other, _)| *other == name).map(|(_, kind)| *kind)
}

fn path(field: &str) -> Option<PathBuf> {
    let path = unescape(field)?;
    let fits = path.first() == Some(&b'/') && path.len() <= headwater_abi::path::PATH_BYTES_MAX;
    fits.then(|| PathBuf::from(OsString::from_vec(path)))
}

fn text(field: &str) -> Option<OsString> {
    unescape(field).filter(|text| !text.is_empty() && text.len() <= TEXT_BYTES_MAX).map(OsString::from_vec)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_as_documented() {
        for line in [
            "begin 12 5 4",
            "image 13 5 /usr/bin/python3",
            "command 5 python3\\x20-c",
            "variable 5 PATH=/bin:/usr/bin",
            "loaded 14 5",
            "call 15 2 5 open 2 0 /sw/lib/libx.so",
            "call 16 2 5 load 0 4096 /sw/a\\x20b",
            "used 5 8192 /sw/lib/libx.so",
            "end 20 5 139",
        ] {
            assert!(Event::is_event(line), "{line}");
            assert_eq!(Event::parse(line).map(|event| event.to_string()).as_deref(), Some(line));
        }
    }

    #[test]
    fn damaged_lines_are_refused() {
        for line in [
            "begin 12 5",
            "begin 12 5 4 3",
            "begin -1 5 4",
            "image 13 5 relative",
            "command 5 ",
            "call 15 2 5 open 2 0 relative",
            "call 15 2 5 opened 2 0 /a",
            "call 15 2 5 open 2 /a",
            "used 5 x /a",
            "nonsense 1",
        ] {
            assert_eq!(Event::parse(line), None, "{line}");
        }
    }
}
