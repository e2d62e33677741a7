//! What the tracer reports, as lines. Those that are no events of a record are its comments.

use std::ffi::OsString;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use headwater_closure::recorded::{EVENTS_MAX, Event};

/// A report of the tracer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// The program's PID.
    Program(u32),
    /// What a process did.
    Event(Event),
    /// The program runs untraced, for this reason.
    Untraced(String),
    /// A program of this file was executed without the privileges of its owner or group, because it is traced.
    Unprivileged(PathBuf),
    /// So many events were not reported, because there were too many.
    Lost(u64),
    /// Tracing has ended before the program: at nanoseconds since its start.
    Released(u64),
    /// The program has ended: its exit status, or 128 and the number of the signal.
    Ended(u8),
}

impl Message {
    /// Reads a line, without its end; `None` if it is damaged.
    pub(crate) fn parse(line: &[u8]) -> Option<Message> {
        let Some(rest) = line.strip_prefix(b"#") else {
            return Event::parse(std::str::from_utf8(line).ok()?).map(Message::Event);
        };
        let at = rest.iter().position(|&byte| byte == b' ')?;
        let (name, value) = (&rest[..at], &rest[at + 1..]);
        let text = || String::from_utf8_lossy(value).into_owned();
        Some(match name {
            b"program" => Message::Program(text().parse().ok()?),
            b"untraced" => Message::Untraced(text()),
            b"unprivileged" => Message::Unprivileged(PathBuf::from(OsString::from_vec(value.to_vec()))),
            b"lost" => Message::Lost(text().parse().ok()?),
            b"released" => Message::Released(text().parse().ok()?),
            b"ended" => Message::Ended(text().parse().ok()?),
            _ => return None,
        })
    }
}

/// Where the tracer writes them.
pub(crate) struct Messages {
    /// `None` after the reader has ended.
    to: Option<BufWriter<File>>,
    events: usize,
    lost: u64,
}

impl Messages {
    pub(crate) fn new(to: File) -> Messages {
        Messages { to: Some(BufWriter::with_capacity(1 << 16, to)), events: 0, lost: 0 }
    }

    pub(crate) fn event(&mut self, event: &Event) {
        if self.events == EVENTS_MAX {
            self.lost += 1;
            return;
        }
        self.events += 1;
        self.write(|to| writeln!(to, "{event}"));
    }

    pub(crate) fn program(&mut self, pid: libc::pid_t) {
        self.write(|to| writeln!(to, "#program {pid}").and_then(|()| to.flush()));
    }

    pub(crate) fn untraced(&mut self, why: &str) {
        self.write(|to| writeln!(to, "#untraced {}", why.replace('\n', " ")));
    }

    pub(crate) fn unprivileged(&mut self, file: &Path) {
        if !file.as_os_str().as_bytes().contains(&b'\n') {
            self.write(|to| {
                to.write_all(b"#unprivileged ")?;
                to.write_all(file.as_os_str().as_bytes())?;
                to.write_all(b"\n")
            });
        }
    }

    pub(crate) fn released(&mut self, at_ns: u64) {
        self.write(|to| writeln!(to, "#released {at_ns}"));
    }

    /// Reports the program's end, and nothing after it.
    pub(crate) fn ended(&mut self, status: u8) {
        if self.lost > 0 {
            let lost = self.lost;
            self.write(|to| writeln!(to, "#lost {lost}"));
        }
        self.write(|to| writeln!(to, "#ended {status}").and_then(|()| to.flush()));
        self.to = None;
    }

    fn write(&mut self, write: impl FnOnce(&mut BufWriter<File>) -> std::io::Result<()>) {
        if let Some(to) = &mut self.to
            && write(to).is_err()
        {
            // The reader has ended; the program runs on. What is buffered is discarded.
            if let Some(to) = self.to.take() {
                drop(to.into_parts());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read() {
        for (line, expected) in [
            (&b"#program 12"[..], Some(Message::Program(12))),
            (b"#untraced it is", Some(Message::Untraced("it is".into()))),
            (b"#ended 139", Some(Message::Ended(139))),
            (b"#ended 300", None),
            (b"loaded 5 6", Some(Message::Event(Event::Loaded { at_ns: 5, process: 6 }))),
            (b"loaded 5", None),
            (b"#", None),
        ] {
            assert_eq!(Message::parse(line), expected);
        }
    }
}
