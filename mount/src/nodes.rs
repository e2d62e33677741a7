//! Names, attributes and links of nodes.

use std::time::{Duration, Instant};

use headwater_abi::attr::mode;
use headwater_abi::hash;
use headwater_abi::table::{Record, State};
use headwater_abi::{Attr, Kind, Path, Want};
use headwater_fuse::reply::FOREVER;
use headwater_fuse::{Entry, NodeId};
use rustix::io::Errno;

use crate::call::{Call, Flow, answered};
use crate::source_file::polls::has_changed;
use crate::view::{Known, NAME_BYTES_MAX, ServedBy, View};

/// LOOKUP.
pub(crate) fn lookup(call: &Call<'_>, name: &[u8]) -> Flow {
    let view = call.view;
    let Some(parent) = view.known(call.request.node) else { return call.fail(Errno::STALE) };
    let Some(path) = parent.path.join_deep(name) else { return call.fail(Errno::NAMETOOLONG) };
    if view.is_hidden(&parent.path) {
        return answer_absent(call, view.names_ttl);
    }
    let (state, child) = find(view, &path);
    match view.served_by(&path, state) {
        ServedBy::Hidden => return entry(call, &path, &hidden_attr(&path)),
        ServedBy::SourceFile => return call.use_source(&path),
        ServedBy::Snapshot if name.len() > NAME_BYTES_MAX => return call.use_source(&path),
        ServedBy::Snapshot => {}
    }
    match child {
        Answer::Attr(attr) if has_changed(call, &path, Some(&attr)) => return call.want(&path, Want::PASSTHROUGH),
        Answer::Attr(attr) => return entry(call, &path, &attr),
        // Its directory has changed since.
        Answer::Absent if parent.record.state.contains(State::PASSTHROUGH) => return call.use_source(&path),
        Answer::Absent => return absent(call, &path),
        Answer::Error(errno) => return call.fail(errno),
        Answer::Unknown => {}
    }
    // For a name that the session does not know, only its directory decides.
    if parent.record.state.intersects(State::ANY_PASSTHROUGH) {
        return call.use_source(&path);
    }
    if parent.record.names().and_then(|names| names.find(name)) == Some(None) {
        return absent(call, &path);
    }
    call.want(&path, Want::ATTR)
}

/// GETATTR and STATX.
pub(crate) fn getattr(call: &Call<'_>) -> Result<Flow, Flow> {
    let attr = match of_snapshot(call) {
        Ok(known) => {
            let attr = attr_of(call, &known)?;
            if has_changed(call, &known.path, Some(&attr)) {
                return Err(call.want(&known.path, Want::PASSTHROUGH));
            }
            call.view.shown(&known.path, &attr)
        }
        Err(Other::Hidden(path)) => hidden_attr(&path),
        Err(Other::Flow(flow)) => return Err(flow),
    };
    Ok(call.answer_attr(&attr, call.view.polls.ttl(false)))
}

/// READLINK.
pub(crate) fn readlink(call: &Call<'_>) -> Result<Flow, Flow> {
    let known = visible(call, Errno::INVAL)?;
    Ok(match (known.record.kind, known.record.aux()) {
        (Kind::Link, Some(target)) => answered(call.reply.data(&call.view.shown_target(&known.path, &target))),
        (Kind::Link | Kind::Unknown, _) => call.want(&known.path, Want::ATTR),
        _ => call.fail(Errno::INVAL),
    })
}

/// Why the snapshot does not serve a node.
pub(crate) enum Other {
    /// It is an empty directory at this path.
    Hidden(Path),
    /// The source file has served it, or there is no such node.
    Flow(Flow),
}

/// Returns the request's node if the snapshot serves it; otherwise serves the request.
pub(crate) fn of_snapshot(call: &Call<'_>) -> Result<Known, Other> {
    let view = call.view;
    let Some(known) = view.known(call.request.node) else {
        // The root's record is created on first use.
        let is_root = call.request.node == NodeId::ROOT;
        return Err(Other::Flow(if is_root { call.want_record(&view.tables.root) } else { call.fail(Errno::STALE) }));
    };
    match view.served_by(&known.path, known.record.state) {
        ServedBy::Hidden => Err(Other::Hidden(known.path)),
        ServedBy::SourceFile => Err(Other::Flow(call.use_source(&known.path))),
        ServedBy::Snapshot if call.attempt.must_use_source => Err(Other::Flow(call.use_source(&known.path))),
        ServedBy::Snapshot => Ok(known),
    }
}

/// As [`of_snapshot`]; fails with `errno` for an empty directory.
pub(crate) fn visible(call: &Call<'_>, errno: Errno) -> Result<Known, Flow> {
    of_snapshot(call).map_err(|other| match other {
        Other::Hidden(_) => call.fail(errno),
        Other::Flow(flow) => flow,
    })
}

/// Returns the attributes of a node, or what serves the request without them.
pub(crate) fn attr_of(call: &Call<'_>, known: &Known) -> Result<Attr, Flow> {
    match answer(call.view, &known.path, &known.record) {
        Answer::Attr(attr) => Ok(attr),
        Answer::Absent => Err(call.fail(Errno::NOENT)),
        Answer::Error(errno) => Err(call.fail(errno)),
        // Attributes only: the size decides how content is fetched.
        Answer::Unknown => Err(call.want(&known.path, Want::ATTR)),
    }
}

/// What the table has of a path.
pub(crate) enum Answer {
    /// The source file's attributes. The size of a link is that of its target as shown.
    Attr(Attr),
    /// There is no such name.
    Absent,
    /// The source file returns this error.
    Error(Errno),
    /// The table lacks the answer.
    Unknown,
}

/// Returns the state and the answer of a path's record, read at one moment.
pub(crate) fn find(view: &View, path: &Path) -> (State, Answer) {
    view.tables.read(|reader| match reader.find(path.as_bytes()) {
        Some(record) => (record.state, answer(view, path, &record)),
        None => (State::empty(), Answer::Unknown),
    })
}

/// Returns true if the session has seen no object at this path, and the job has changed none.
pub(crate) fn is_unseen(view: &View, path: &Path) -> bool {
    let (state, answer) = find(view, path);
    !state.intersects(State::ANY_PASSTHROUGH) && matches!(answer, Answer::Absent | Answer::Unknown)
}

/// Returns the answer that `record` has for `path`.
fn answer(view: &View, path: &Path, record: &Record<'_>) -> Answer {
    match record.kind {
        Kind::Absent => Answer::Absent,
        Kind::Error => Answer::Error(Errno::from_raw_os_error(i32::from(record.errno))),
        _ => match record.attr() {
            Some(attr) if record.kind == Kind::Link && view.config.keeps_links_inside => {
                let target = record.aux().unwrap_or_default();
                Answer::Attr(Attr { size: view.shown_target(path, &target).len() as u64, ..attr })
            }
            Some(attr) => Answer::Attr(attr),
            None => Answer::Unknown,
        },
    }
}

/// The attributes of a directory that is shown empty.
pub(crate) fn hidden_attr(path: &Path) -> Attr {
    let ino = hash::bytes(path.as_bytes()) | 1 << 63;
    Attr { mode: mode::DIR | 0o555, nlink: 2, ino, blksize: 4096, ..Attr::default() }
}

fn entry(call: &Call<'_>, path: &Path, attr: &Attr) -> Flow {
    match call.view.entry(path, attr, call.view.polls.ttl(false)) {
        Some(entry) => call.answer_entry(&entry),
        None => call.want_record(path),
    }
}

/// Answers that the snapshot has no such name, unless its source file has come since.
fn absent(call: &Call<'_>, path: &Path) -> Flow {
    if has_changed(call, path, None) {
        return call.want(path, Want::PASSTHROUGH);
    }
    let ttl = call.view.polls.ttl(true).min(call.view.names_ttl);
    let is_noted = ttl == FOREVER || call.view.absent.note(call.request.node, path, Instant::now());
    answer_absent(call, if is_noted { ttl } else { Duration::ZERO })
}

fn answer_absent(call: &Call<'_>, ttl: Duration) -> Flow {
    call.answer_entry(&Entry { node: None, attr: Attr::default(), entry_ttl: ttl, attr_ttl: ttl })
}
