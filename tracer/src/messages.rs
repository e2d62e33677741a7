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
    /// A program of this file was executed untraced, because only so it has the privileges that its file gives.
    Privileged(PathBuf),
    /// A process of this file is traced by the program itself from now on.
    Handed(PathBuf),
    /// A process of this file was refused what traced processes can't have.
    Refused(Refusal, PathBuf),
    /// So many events were not reported, because there were too many.
    Lost(u64),
    /// Tracing has ended before the program: at nanoseconds since its start.
    Released(u64),
    /// The program has ended: its wait status, which has 16 bits.
    Ended(i32),
}

/// What a filter can't let a process have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// To trace a process, or to be traced by its parent.
    Tracing,
    /// The strict mode of seccomp.
    StrictMode,
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
        let path = || PathBuf::from(OsString::from_vec(value.to_vec()));
        Some(match name {
            b"program" => Message::Program(text().parse().ok()?),
            b"untraced" => Message::Untraced(text()),
            b"privileged" => Message::Privileged(path()),
            b"handed" => Message::Handed(path()),
            b"refused-tracing" => Message::Refused(Refusal::Tracing, path()),
            b"refused-strict" => Message::Refused(Refusal::StrictMode, path()),
            b"lost" => Message::Lost(text().parse().ok()?),
            b"released" => Message::Released(text().parse().ok()?),
            b"ended" => Message::Ended(text().parse::<u16>().ok()?.into()),
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

    pub(crate) fn privileged(&mut self, file: &Path) {
        self.about("privileged", file);
    }

    pub(crate) fn handed(&mut self, file: &Path) {
        self.about("handed", file);
    }

    pub(crate) fn refused(&mut self, what: Refusal, file: &Path) {
        let name = match what {
            Refusal::Tracing => "refused-tracing",
            Refusal::StrictMode => "refused-strict",
        };
        self.about(name, file);
    }

    fn about(&mut self, name: &str, file: &Path) {
        if !file.as_os_str().as_bytes().contains(&b'\n') {
            self.write(|to| {
                write!(to, "#{name} ")?;
                to.write_all(file.as_os_str().as_bytes())?;
                to.write_all(b"\n")
            });
        }
    }

    pub(crate) fn released(&mut self, at_ns: u64) {
        self.write(|to| writeln!(to, "#released {at_ns}"));
    }

    /// Reports the program's end, and nothing after it.
    pub(crate) fn ended(&mut self, status: i32) {
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
            (b"#privileged /bin/su", Some(Message::Privileged("/bin/su".into()))),
            (b"#refused-strict /a b", Some(Message::Refused(Refusal::StrictMode, "/a b".into()))),
            (b"#ended 139", Some(Message::Ended(139))),
            (b"#ended 65536", None),
            (b"loaded 5 6", Some(Message::Event(Event::Loaded { at_ns: 5, process: 6 }))),
            (b"loaded 5", None),
            (b"#", None),
        ] {
            assert_eq!(Message::parse(line), expected);
        }
    }
}
