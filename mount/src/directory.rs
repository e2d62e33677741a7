//! Listings of directories.
//!
//! There are no handles: an offset is the number of the next name in the listing, which never changes. Offsets are
//! marked: a listing that began with the snapshot continues with it even if the path has become a passthrough path. The
//! source directory's own offsets mean something else.

use headwater_abi::listing::d_type;
use headwater_abi::table::{Names, Record, State};
use headwater_abi::{Kind, Want};
use headwater_fuse::init::Opening;
use headwater_fuse::reply::open_flag;
use headwater_fuse::{Directory, Entry, NodeId};
use rustix::io::Errno;

use crate::call::{Call, Flow, answered};
use crate::nodes::{Answer, Other, find, hidden_attr, of_snapshot};
use crate::view::{Known, ServedBy};

/// The upper half of each offset in a snapshot's listing. File systems use small offsets or hashes, of which one in
/// 2^31 equals this.
const MARK: u64 = 0x4877_4c69;

/// Names that are checked before it is assumed that all of them are known.
const NAMES_CHECKED_MAX: usize = 256;

/// OPENDIR.
pub(crate) fn open(call: &Call<'_>) -> Flow {
    if call.view.config.opening == Opening::None {
        return call.unsupported();
    }
    match of_snapshot(call) {
        Ok(known) if !needs_source(&known.record) => {
            answered(call.reply.open(0, open_flag::KEEP_CACHE | open_flag::CACHE_DIR, None))
        }
        Ok(known) => call.use_source(&known.path),
        Err(Other::Hidden(_)) => answered(call.reply.open(0, open_flag::CACHE_DIR, None)),
        Err(Other::Flow(flow)) => flow,
    }
}

/// READDIR, and READDIRPLUS if `with_attributes`.
pub(crate) fn read(call: &Call<'_>, offset: u64, bytes: u32, with_attributes: bool) -> Flow {
    if offset >> 32 == MARK {
        return resume_listing(call, offset, bytes, with_attributes);
    }
    if let Some(known) = listed_without_the_node(call)
        && let Some(names) = known.record.names()
    {
        return send(call, &known, &names, offset, bytes, with_attributes);
    }
    let known = match of_snapshot(call) {
        Ok(known) => known,
        Err(Other::Hidden(path)) => return read_hidden(call, hidden_attr(&path).ino, offset, bytes, with_attributes),
        Err(Other::Flow(flow)) => return flow,
    };
    if needs_source(&known.record) {
        return call.use_source(&known.path);
    }
    if !matches!(known.record.kind, Kind::Dir | Kind::Unknown) {
        return call.fail(Errno::NOTDIR);
    }
    let wanted = if with_attributes { Want::LISTING | Want::DETAILS } else { Want::LISTING };
    match known.record.names() {
        // The node answers at once if it fetches no details of this directory.
        Some(names)
            if with_attributes && call.attempt.rounds == 0 && offset == 0 && lacks_one(call, &known, &names) =>
        {
            call.want(&known.path, wanted)
        }
        Some(names) => send(call, &known, &names, offset, bytes, with_attributes),
        None => call.want(&known.path, wanted),
    }
}

/// Returns the directory if its names are known although the node can't help any more: they belong to the snapshot.
fn listed_without_the_node(call: &Call<'_>) -> Option<Known> {
    let known = call.attempt.must_use_source.then(|| call.view.known(call.request.node))??;
    let is_snapshot = matches!(call.view.served_by(&known.path, known.record.state), ServedBy::Snapshot);
    (is_snapshot && !needs_source(&known.record)).then_some(known)
}

/// Returns true if one of the first names is unknown. The check must cost no more than the answer does.
fn lacks_one(call: &Call<'_>, directory: &Known, names: &Names<'_>) -> bool {
    let mut name = Vec::new();
    let is_unknown = |number| {
        names.get(number, &mut name)?;
        let path = directory.path.join(&name).filter(|_| !matches!(&*name, b"." | b".."))?;
        matches!(find(call.view, &path), (state, Answer::Unknown) if !state.intersects(State::PASSTHROUGH | State::TREE_PASSTHROUGH))
            .then_some(())
    };
    (0..names.len().min(NAMES_CHECKED_MAX)).find_map(is_unknown).is_some()
}

/// Continues a listing that began with the snapshot's.
fn resume_listing(call: &Call<'_>, offset: u64, bytes: u32, with_attributes: bool) -> Flow {
    let node = call.request.node;
    let Some(known) = call.view.known(node) else { return call.fail(Errno::STALE) };
    // After a rename, the names are in the record of the node's own number.
    let own = call.view.tables.read(|reader| reader.record(node.0)).filter(|own| own.names().is_some());
    let known = Known { record: own.unwrap_or(known.record), ..known };
    match known.record.names() {
        Some(names) => send(call, &known, &names, offset, bytes, with_attributes),
        None => answered(call.reply.data(&[])),
    }
}

/// Returns true if only the source directory has this directory's names.
fn needs_source(record: &Record<'_>) -> bool {
    record.state.intersects(State::LISTING_PASSTHROUGH | State::UNLISTABLE)
}

fn send(call: &Call<'_>, known: &Known, names: &Names<'_>, offset: u64, bytes: u32, with_attributes: bool) -> Flow {
    let mut reply = Directory::new(bytes as usize, with_attributes);
    let mut counted = Vec::new();
    let mut name = Vec::new();
    for number in offset as u32 as usize..names.len() {
        let Some(named) = names.get(number, &mut name) else { break };
        let (ino, next) = (call.view.ino_in(&known.path, named.ino), MARK << 32 | (number as u64 + 1));
        let entry = if with_attributes { entry(call, known, &name) } else { None };
        counted.extend(entry.as_ref().and_then(|entry| entry.node));
        if !reply.name(ino, next, named.d_type, &name, entry.as_ref()) {
            release(call, counted.pop_if(|_| entry.is_some()).as_slice());
            break;
        }
    }
    if call.reply.data(reply.as_bytes()).is_err() {
        release(call, &counted);
    }
    Flow::Answered
}

/// Returns a name's attributes if the table has them; counts as a look-up.
fn entry(call: &Call<'_>, directory: &Known, name: &[u8]) -> Option<Entry> {
    if matches!(name, b"." | b"..") {
        return None;
    }
    let path = directory.path.join(name)?;
    let (state, answer) = find(call.view, &path);
    match answer {
        Answer::Attr(attr) if call.view.served_by(&path, state) == ServedBy::Snapshot => {
            call.view.entry(&path, &attr, call.view.polls.ttl(false))
        }
        _ => None,
    }
}

fn read_hidden(call: &Call<'_>, ino: u64, offset: u64, bytes: u32, with_attributes: bool) -> Flow {
    let mut reply = Directory::new(bytes as usize, with_attributes);
    for (number, name) in [b".".as_slice(), b".."].into_iter().enumerate().skip(usize::try_from(offset).unwrap_or(2)) {
        reply.name(ino, number as u64 + 1, d_type::DIR, name, None);
    }
    answered(call.reply.data(reply.as_bytes()))
}

fn release(call: &Call<'_>, counted: &[NodeId]) {
    for node in counted {
        call.view.release(*node, 1);
    }
}
