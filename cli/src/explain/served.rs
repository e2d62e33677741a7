//! What Headwater did for a traced run: which calls it answered, and which it did not, with the reasons.
//!
//! By audit, processes open copies in the node's directory. Their paths become those of the source files here, so that a
//! report is about the files that the program knows.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use headwater_closure::recorded::{Call, CallKind, Event};
use headwater_closure::scope::{Scope, network_file_system};
use headwater_daemon::Kinds;
use headwater_figures::text::bytes;
use headwater_report::job::{self, EventKind};
use headwater_report::page::printable;
use headwater_report::start::{Answers, NotServed, Served};

use crate::summary::Summary;

/// The most rows about what was not served.
const ROWS_MAX: usize = 200;
/// Directories of the kernel's own.
const OF_KERNEL: [&str; 3] = ["/proc", "/sys", "/dev"];

/// What a session knows about a run.
#[derive(Clone, Copy, Debug)]
pub struct Session<'a> {
    /// The directories that are served.
    pub scope: &'a Scope,
    /// The session's directory, which has the node's.
    pub directory: &'a Path,
    /// From the run's beginning to the program's start, in microseconds.
    pub entered_us: u64,
    /// Sums.
    pub summary: &'a Summary,
    /// What the node recorded.
    pub report: Option<&'a job::JobReport>,
    /// The kinds of files that are served.
    pub kinds: Kinds,
    /// Processes open the node's copies, rather than paths in a mount.
    pub opens_copies: bool,
}

/// What answered a call.
enum Answer {
    Headwater,
    Source(String),
    /// The file's own path, and the reason.
    Outside(PathBuf, String),
    Own,
}

/// Returns the events with the paths of source files, and what Headwater did. Headwater's own calls are left out.
pub fn account(events: Vec<Event>, session: Session<'_>) -> (Vec<Event>, Served) {
    let mut served = Served::default();
    let mut not_served = BTreeMap::<(PathBuf, String), NotServed>::new();
    let passed = passed_through(session.report);
    let mut retained = Vec::with_capacity(events.len());
    let mut begun = false;
    let mut opened = 0;
    for event in events {
        let call = match event {
            Event::Call(call) => call,
            other => {
                begun |= matches!(other, Event::Image { .. });
                retained.push(renamed(other, session.directory));
                continue;
            }
        };
        let (path, place) = original(&call.path, session.directory);
        // Until the program is executed, the process is Headwater's.
        let answer = match place {
            _ if !begun && call.kind != CallKind::Execute => Answer::Own,
            Place::Own => Answer::Own,
            Place::Copy => Answer::Headwater,
            Place::Elsewhere => elsewhere(&call, session, &passed),
        };
        let sums = match &answer {
            Answer::Headwater => &mut served.answered,
            Answer::Source(_) => &mut served.source,
            Answer::Outside(..) => &mut served.outside,
            Answer::Own => &mut served.own,
        };
        add(sums, &call);
        if matches!(answer, Answer::Own) {
            // The table is mapped as a whole, and no part of it is a file of the program.
            served.own.mapped_bytes = 0;
            continue;
        }
        let is_outside = matches!(answer, Answer::Outside(..));
        opened += u64::from(!is_outside && matches!(call.kind, CallKind::Open | CallKind::Execute | CallKind::Write));
        let row = match answer {
            Answer::Source(why) => Some((path.clone(), why)),
            Answer::Outside(own, why) => Some((beginning(&own), why)),
            Answer::Headwater | Answer::Own => None,
        };
        if let Some(key) = row {
            let row = not_served.entry(key).or_default();
            row.calls += 1;
            row.length_ns += call.length_ns;
        }
        retained.push(Event::Call(Call { path, ..call }));
    }
    served.not_served = rows(not_served);
    count(&mut served, session, opened);
    (retained, served)
}

/// Adds what the session counted. `opened` calls opened or executed something of the scope.
fn count(served: &mut Served, session: Session<'_>, opened: u64) {
    let summary = session.summary;
    let ns = |ms: f64| (ms * 1e6) as u64;
    served.reason.clone_from(&summary.via_reason);
    served.session_ns = summary.timeline.daemons_ready_ms.map_or(0, ns);
    served.entry_ns = (session.entered_us * 1000).saturating_sub(served.session_ns);
    if session.opens_copies {
        served.look_ups = summary.clients.lookups;
        served.look_ups_without_call = summary.clients.lookups.saturating_sub(opened);
    }
    served.mount_requests = summary.mount.upcalls;
    served.shared_fs_operations = summary.shared_fs.operations;
    served.shared_fs_bytes = summary.shared_fs.bytes_read;
    if let Some(report) = session.report {
        served.fetches = report.nodes.iter().map(|node| node.processes.requests).sum();
        served.fetches_ns = report.legs.wait_us.saturating_mul(1000);
    }
}

/// Where a path that a call names lies.
#[derive(Debug, PartialEq, Eq)]
enum Place {
    Copy,
    Own,
    Elsewhere,
}

/// Returns the path of the source file, for a copy of it or a path in the node's mount.
fn original(path: &Path, directory: &Path) -> (PathBuf, Place) {
    let (text, session) = (path.as_os_str().as_bytes(), directory.as_os_str().as_bytes());
    // A disk of the session's own has the same directories below another root.
    let Some(at) = text.windows(session.len().max(1)).position(|window| window == session) else {
        return (path.to_owned(), Place::Elsewhere);
    };
    let rest = Path::new(OsStr::from_bytes(&text[at + session.len()..]));
    let mut parts = rest.components().filter(|part| *part != Component::RootDir);
    let (_node, below) = (parts.next(), parts.next());
    let is_mount = below.is_some_and(|name| name.as_os_str() == "view");
    let is_generation = below.is_some_and(|name| name.as_os_str().as_bytes().iter().all(u8::is_ascii_digit));
    let is_copy = is_mount || is_generation && parts.next().is_some_and(|name| name.as_os_str() == "root");
    if !is_copy {
        return (path.to_owned(), Place::Own);
    }
    (Path::new("/").join(parts.collect::<PathBuf>()), Place::Copy)
}

/// Returns an event with the path of the source file.
fn renamed(event: Event, directory: &Path) -> Event {
    let source = |path: &Path| original(path, directory).0;
    match event {
        Event::Image { at_ns, process, path } => Event::Image { at_ns, process, path: source(&path) },
        Event::Used { bytes, process, path } => Event::Used { bytes, process, path: source(&path) },
        Event::Command { process, text } => Event::Command { process, text: without_mount(&text, directory) },
        Event::Variable { process, text } => Event::Variable { process, text: without_mount(&text, directory) },
        other => other,
    }
}

/// Returns a text in which paths of the node's mount are those of source files.
fn without_mount(text: &OsStr, directory: &Path) -> OsString {
    let mount = [directory.as_os_str().as_bytes(), b"/n0/view"].concat();
    let (mut plain, mut rest) = (Vec::new(), text.as_bytes());
    while let Some(at) = rest.windows(mount.len()).position(|window| window == mount) {
        plain.extend(&rest[..at]);
        rest = &rest[at + mount.len()..];
    }
    plain.extend(rest);
    OsString::from_vec(plain)
}

/// Returns what answers a call on a path that is no copy.
fn elsewhere(call: &Call, session: Session<'_>, passed: &BTreeMap<String, &'static str>) -> Answer {
    // The mount answers for a link itself, and the target's file system for what lies behind it.
    let canonical = call.path.canonicalize().ok().filter(|_| call.kind != CallKind::Link);
    let path = canonical.as_deref().unwrap_or(&call.path);
    if !session.scope.includes(path) {
        return Answer::Outside(path.to_owned(), why_outside(path, session.scope));
    }
    match passed.get(&printable(path.as_os_str().as_bytes())) {
        Some(why) => Answer::Source((*why).to_owned()),
        None if session.opens_copies => Answer::Source(why_source(path, session)),
        None => Answer::Headwater,
    }
}

/// Returns why an audited process uses a source file.
fn why_source(path: &Path, session: Session<'_>) -> String {
    let large = session.summary.large;
    let file = path.metadata().ok();
    let name = path.file_name().unwrap_or_default().as_bytes();
    if file.as_ref().is_some_and(|file| file.is_file() && !session.kinds.include(name, file.mode())) {
        return "files of its kind are not served (--serve, --level)".to_owned();
    }
    if large.files > 0 && file.is_some_and(|file| file.len() > large.stored_bytes_max) {
        return format!("it is larger than {} (--stored-file-max)", bytes(large.stored_bytes_max));
    }
    "the audit library left the call as it was".to_owned()
}

/// Returns why a path is not in the scope.
fn why_outside(path: &Path, scope: &Scope) -> String {
    if OF_KERNEL.iter().any(|directory| path.starts_with(directory)) {
        return "of the kernel".to_owned();
    }
    let excluded = scope.entries.iter().find(|entry| !entry.included && path.starts_with(&entry.path));
    let refused = scope.refused.iter().find(|refused| path.starts_with(&refused.path));
    match (excluded, refused) {
        (Some(entry), _) => entry.reason.to_string(),
        (None, Some(refused)) => refused.cause.to_string(),
        (None, None) if network_file_system(path).is_some() => {
            "the program's search paths don't name it: --shared adds it".to_owned()
        }
        (None, None) => "it is on a local file system".to_owned(),
    }
}

/// Returns the paths of which source files were used, with the reasons.
fn passed_through(report: Option<&job::JobReport>) -> BTreeMap<String, &'static str> {
    let events = report.into_iter().flat_map(|report| &report.events);
    let about =
        events.filter(|event| !matches!(event.kind, EventKind::LinkUp | EventKind::LinkDown | EventKind::Evicted));
    about.filter_map(|event| Some((event.path.clone()?, job::event_name(event.kind)))).collect()
}

/// Returns the first two components of a path.
fn beginning(path: &Path) -> PathBuf {
    path.components().take(3).collect()
}

fn add(sums: &mut Answers, call: &Call) {
    sums.calls += 1;
    sums.length_ns += call.length_ns;
    match call.kind {
        _ if call.errno != 0 => sums.failed += 1,
        CallKind::Read => sums.read_bytes += call.size,
        CallKind::Map | CallKind::Load => sums.mapped_bytes += call.size,
        _ => {}
    }
}

fn rows(not_served: BTreeMap<(PathBuf, String), NotServed>) -> Vec<NotServed> {
    let named = |((path, why), row): ((PathBuf, String), NotServed)| NotServed {
        path: printable(path.as_os_str().as_bytes()),
        why,
        ..row
    };
    let mut rows: Vec<NotServed> = not_served.into_iter().map(named).collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.length_ns));
    rows.truncate(ROWS_MAX);
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_have_the_paths_of_their_sources() {
        let session = Path::new("/dev/shm/headwater-0/aa");
        for (path, expected, place) in [
            ("/dev/shm/headwater-0/aa/n0/1/root/sw/liba.so", "/sw/liba.so", Place::Copy),
            ("/proc/42/fd/3/dev/shm/headwater-0/aa/n0/12/root/sw/a", "/sw/a", Place::Copy),
            ("/dev/shm/headwater-0/aa/n0/view/sw/a", "/sw/a", Place::Copy),
            ("/dev/shm/headwater-0/aa/n0/1/table", "/dev/shm/headwater-0/aa/n0/1/table", Place::Own),
            ("/sw/a", "/sw/a", Place::Elsewhere),
        ] {
            assert_eq!(original(Path::new(path), session), (expected.into(), place));
        }
        let text = OsStr::new("PYTHONPATH=/dev/shm/headwater-0/aa/n0/view/sw:/dev/shm/headwater-0/aa/n0/view/b");
        assert_eq!(without_mount(text, session), "PYTHONPATH=/sw:/b");
    }
}
