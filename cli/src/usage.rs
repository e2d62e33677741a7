//! The usage log: a line for each session of a site's users, if the site's file of defaults has `usage-log`.
//!
//! It never changes how a program runs or ends. A destination that does not take the line at once loses it.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::OFlags;
use serde::Serialize;
use toml::de::{DeTable, DeValue};

use crate::config::places::{self, Content, Owner};
use crate::config::usage_log::{KEY, parse};
use crate::message::log;
use crate::summary::Summary;
use crate::users;

/// Facility `user`, severity `info` (RFC 3164, section 4.1.1).
const PRIORITY: u8 = (1 << 3) | 6;
/// How long writing may take, as to a file server that does not answer.
const TIME_MAX: Duration = Duration::from_millis(300);
/// Characters of a program's name.
const NAME_CHARS_MAX: usize = 64;

/// A line. Its fields are those of the JSON.
#[derive(Debug, Serialize)]
struct Entry<'a> {
    /// The session's end, in milliseconds since 1970.
    time_unix_ms: u64,
    uid: u32,
    /// The user's name, if this node's own list or the variable USER has it.
    user: Option<String>,
    /// The program's name, without its directory and arguments.
    program: String,
    nodes: u32,
    processes: u32,
    /// Look-ups and requests that were no operation on the shared file system.
    saved_operations: u64,
    mechanism: &'a str,
    duration_ms: Option<f64>,
    version: &'static str,
}

/// Logs a session that has ended, if the site wants that. A failure is reported only if `verbose`.
pub fn record(program: &OsStr, summary: &Summary, verbose: bool) {
    let Some(destination) = destination() else { return };
    let line = line(program, summary);
    let shown = destination.display().to_string();
    let (sender, done) = channel();
    let write = move || sender.send(write(&destination, &line));
    let started = thread::Builder::new().name("usage".into()).spawn(write);
    let written = match started {
        Ok(_) => done.recv_timeout(TIME_MAX).unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())),
        Err(error) => Err(error),
    };
    if let Err(error) = written
        && verbose
    {
        log(format_args!("{KEY}: {shown} does not take a line: {error}. The session is not logged"));
    }
}

/// Returns what the site's file names. Other files and variables don't count.
fn destination() -> Option<PathBuf> {
    let Content::Read(bytes) = places::read(Path::new(places::SITE), Owner::Site) else { return None };
    let text = String::from_utf8(bytes).ok()?;
    let table = DeTable::parse(&text).ok()?;
    match table.get_ref().get(KEY)?.get_ref() {
        DeValue::String(value) => parse(value).ok(),
        _ => None,
    }
}

fn line(program: &OsStr, summary: &Summary) -> String {
    let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let uid = rustix::process::getuid().as_raw();
    let name = Path::new(program).file_name().unwrap_or(program).to_string_lossy();
    let entry = Entry {
        time_unix_ms: unix.as_millis() as u64,
        uid,
        user: users::name(uid).or_else(|| std::env::var("USER").ok()),
        program: name.chars().take(NAME_CHARS_MAX).collect(),
        nodes: summary.nodes,
        processes: summary.processes,
        saved_operations: summary.saved_operations(),
        mechanism: &summary.via,
        duration_ms: summary.timeline.program_exit_ms,
        version: env!("CARGO_PKG_VERSION"),
    };
    serde_json::to_string(&entry).unwrap_or_default()
}

/// Writes a line to a file or a socket that is there, without waiting for a reader.
fn write(destination: &Path, line: &str) -> io::Result<()> {
    let kind = fs::metadata(destination)?.file_type();
    if kind.is_socket() {
        let socket = UnixDatagram::unbound()?;
        socket.set_nonblocking(true)?;
        let message = format!("<{PRIORITY}>headwater[{}]: {line}", std::process::id());
        return socket.send_to(message.as_bytes(), destination).map(drop);
    }
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOFOLLOW;
    let mut options = OpenOptions::new();
    let mut file: File = options.append(true).custom_flags(flags.bits() as i32).open(destination)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is neither a regular file nor a socket"));
    }
    // One write, so that lines of several nodes don't mix.
    file.write(format!("{line}\n").as_bytes()).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(summary: &Summary) -> String {
        line(OsStr::new("/sw/bin/app with\nname"), summary)
    }

    #[test]
    fn a_line_has_no_arguments_and_no_directory() {
        let mut summary = Summary { nodes: 2, processes: 8, via: "audit".into(), ..Summary::default() };
        summary.clients.lookups = 900;
        summary.shared_fs.operations = 100;
        let line = text(&summary);
        let json: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert!(!line.contains('\n') && json["program"] == "app with\nname", "{line}");
        assert_eq!(
            (&json["nodes"], &json["processes"], &json["saved_operations"]),
            (&2.into(), &8.into(), &800.into())
        );
        assert_eq!((&json["mechanism"], &json["duration_ms"]), (&"audit".into(), &serde_json::Value::Null));
    }

    #[test]
    fn lines_are_appended_to_files_that_are_there() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("usage.jsonl");
        assert_eq!(write(&file, "a").unwrap_err().kind(), io::ErrorKind::NotFound);
        fs::write(&file, "before\n").unwrap();
        for line in ["a", "b"] {
            write(&file, line).unwrap();
        }
        assert_eq!(fs::read_to_string(&file).unwrap(), "before\na\nb\n");
        assert!(write(directory.path(), "a").is_err());
        std::os::unix::fs::symlink(&file, directory.path().join("link")).unwrap();
        assert!(write(&directory.path().join("link"), "a").is_err(), "a link may lead anywhere");
    }

    #[test]
    fn a_full_socket_and_a_pipe_lose_lines_at_once() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        let log = UnixDatagram::bind(&path).unwrap();
        write(&path, "{}").unwrap();
        let mut bytes = [0; 64];
        let length = log.recv(&mut bytes).unwrap();
        let message = String::from_utf8_lossy(&bytes[..length]).into_owned();
        assert!(message.starts_with("<14>headwater[") && message.ends_with("]: {}"), "{message}");
        let lost = (0..100_000).find_map(|_| write(&path, "{}").err()).unwrap();
        assert_eq!(lost.kind(), io::ErrorKind::WouldBlock);
        let pipe = directory.path().join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        assert!(write(&pipe, "a").is_err());
    }
}
