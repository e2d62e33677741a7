//! What the session's processes used on this node, as entries of a closure: see `docs/internals/closure.md`.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use headwater_abi::table::{Reader, Record, State};
use headwater_abi::{Kind, Path};
use headwater_closure::recorded::{BlockRanges, ENTRIES_MAX, Entry, Version, What};
use headwater_store::Blocks;

/// Bytes of all lines, which travel in one message.
const BYTES_MAX: usize = 6 << 20;

/// Returns the lines of the entries, in the order in which they became known, up to a limit of bytes.
pub(crate) fn lines(table: &Reader<'_>, blocks: &Blocks) -> String {
    let mut records: Vec<Record<'_>> = table.records().collect();
    records.sort_by_key(Record::index);
    let mut lines = String::new();
    for entry in records.iter().filter_map(|record| entry(record, blocks)).take(ENTRIES_MAX) {
        let line = format!("{entry}\n");
        if lines.len() + line.len() > BYTES_MAX {
            break;
        }
        lines += &line;
    }
    lines
}

fn entry(record: &Record<'_>, blocks: &Blocks) -> Option<Entry> {
    // Passthrough paths are served from their source files.
    if record.state.intersects(State::PASSTHROUGH | State::TREE_PASSTHROUGH) {
        return None;
    }
    let path = record.path()?;
    let what = match record.kind {
        Kind::Unknown | Kind::Absent | Kind::Error => return None,
        Kind::Dir if record.state.contains(State::LISTED) => What::Directory,
        Kind::Dir | Kind::Other => What::Name,
        Kind::Link => What::Link,
        Kind::File => {
            let attr = record.attr()?;
            let (mtime_seconds, mtime_nanoseconds) = attr.mtime;
            let version = Version { size: attr.size, mtime_seconds, mtime_nanoseconds };
            if record.state.contains(State::WHOLE) {
                // All bytes of a small library may be mapped.
                What::Whole(version)
            } else if record.state.contains(State::LOADABLE) {
                What::Loadable(version)
            } else {
                let used = Path::new(&path).map(|path| blocks.used(&path)).unwrap_or_default();
                match BlockRanges::new(used.into_iter()) {
                    ranges if ranges.is_empty() => What::Attributes(version),
                    ranges => What::Blocks(version, ranges),
                }
            }
        }
    };
    Some(Entry { what, path: PathBuf::from(OsString::from_vec(path)) })
}
