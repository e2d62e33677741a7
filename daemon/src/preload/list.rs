//! Fetches the entries of a list.

use std::collections::{HashMap, HashSet, VecDeque};
use std::num::NonZero;
use std::os::unix::ffi::OsStrExt;

use headwater_abi::wire::{BLOCK_BYTES, Fact, block_count};
use headwater_abi::{Attr, Kind, Path, Want};
use headwater_closure::recorded::{BlockRanges, ENTRIES_MAX, Entry, Version, What};
use rustix::fs::{Advice, Mode, OFlags, fadvise};

use super::asker::{Answer, Asker, QUESTIONS_MAX};
use super::plan::PreloadList;

/// Changed files that are named in the warning.
const NAMED_MAX: usize = 3;

/// A requested entry.
struct Pending {
    entry: Entry,
    path: Path,
    /// Its content was requested; otherwise its attributes, which decide about the content.
    is_last: bool,
}

/// Fetches all entries, and reports those that have changed.
pub(super) fn fetch(mut asker: Asker, list: &PreloadList) {
    let entries: Vec<Entry> = list.entries.iter().take(ENTRIES_MAX).filter_map(|line| Entry::parse(line)).collect();
    asker.tally.get().entries = entries.len() as u64;
    let mut changed = Vec::new();
    if fetch_all(&mut asker, entries, &mut changed).is_none() {
        return;
    }
    let tally = *asker.tally.get();
    tracing::info!(?tally, "preloaded {}", list.name);
    if tally.changed > 0 && asker.reports && !list.is_learnt {
        let more = if tally.changed > changed.len() as u64 { ", …" } else { "" };
        tracing::warn!(
            "{} of {} entries of {} have changed: {}{more}; they are read when they are needed. Record the list again with `headwater record`",
            tally.changed,
            tally.entries,
            list.name,
            changed.join(", ")
        );
    }
}

/// Fetches all entries. Returns `None` if the daemon has ended.
fn fetch_all(asker: &mut Asker, entries: Vec<Entry>, changed: &mut Vec<String>) -> Option<()> {
    let mut waiting: HashMap<u64, Pending> = HashMap::new();
    let mut blocks: VecDeque<(Path, u32)> = VecDeque::new();
    let mut blocks_waiting: HashSet<u64> = HashSet::new();
    let mut entries = entries.into_iter();
    loop {
        while blocks_waiting.len() < QUESTIONS_MAX / 2
            && let Some((path, block)) = blocks.pop_front()
        {
            blocks_waiting.insert(asker.ask_block(&path, block)?);
        }
        while waiting.len() + blocks_waiting.len() < QUESTIONS_MAX
            && let Some(entry) = entries.next()
        {
            let Some(path) = Path::new(entry.path.as_os_str().as_bytes()) else { continue };
            let (want, is_last) = first_want(asker, &entry);
            let number = asker.ask(&path, want, false)?;
            waiting.insert(number, Pending { entry, path, is_last });
        }
        if waiting.is_empty() && blocks_waiting.is_empty() {
            return Some(());
        }
        let Answer { number, known } = asker.answer()?;
        if blocks_waiting.remove(&number) {
            continue;
        }
        let Some(pending) = waiting.remove(&number) else { continue };
        let Some((_, fact, _)) = known else {
            asker.tally.get().failed += 1;
            continue;
        };
        let attr = fact.as_ref().and_then(Fact::attr).copied();
        if pending.is_last {
            let is_content = content_wanted(asker, &pending.entry).is_some();
            let is_stored = |attr: Attr| attr.kind() == Kind::File && asker.stored.includes(&pending.path, &attr);
            if is_content && attr.is_some_and(is_stored) {
                asker.tally.get().files += 1;
            }
            continue;
        }
        if pending.entry.version().is_some_and(|version| Some(version) != attr.and_then(version_of)) {
            asker.tally.get().changed += 1;
            if changed.len() < NAMED_MAX {
                changed.push(pending.path.to_string());
            }
            continue;
        }
        let file = attr.filter(|attr| attr.kind() == Kind::File);
        let size = file.map_or(0, |attr| attr.size);
        let within = |ranges: &BlockRanges| ranges.numbers().take_while(move |&block| block < block_count(size));
        if file.is_some_and(|attr| !asker.stored.includes(&pending.path, &attr)) {
            if let What::Blocks(_, ranges) = &pending.entry.what
                && read_ahead(&pending.path, within(ranges)).is_ok()
            {
                asker.tally.get().files += 1;
            }
            continue;
        }
        // Larger files are fetched in blocks, as they are read.
        let comes_whole = asker.whole_bytes_max.is_none_or(|max| size <= max);
        if let Some(want) = content_wanted(asker, &pending.entry).filter(|_| comes_whole) {
            let number = asker.ask(&pending.path, want, false)?;
            waiting.insert(number, Pending { is_last: true, ..pending });
        } else if !comes_whole && let What::Blocks(_, ranges) = &pending.entry.what {
            asker.tally.get().files += 1;
            blocks.extend(within(ranges).map(|block| (pending.path.clone(), block)));
        }
    }
}

/// Has the kernel read blocks of a source file ahead, which processes will read without the node.
fn read_ahead(path: &Path, mut blocks: impl Iterator<Item = u32>) -> rustix::io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = rustix::fs::open(path.as_bytes(), flags, Mode::empty())?;
    blocks.try_for_each(|block| {
        fadvise(&file, u64::from(block) * BLOCK_BYTES, NonZero::new(BLOCK_BYTES), Advice::WillNeed)
    })
}

/// Returns the first request for an entry, and true if it needs no other.
fn first_want(asker: &Asker, entry: &Entry) -> (Want, bool) {
    match entry.what {
        What::Directory => (Want::LISTING, true),
        What::Link | What::Name => (Want::ATTR | Want::NO_FOLLOW, true),
        What::Attributes(_) | What::Loadable(_) | What::Blocks(..) | What::Whole(_) => {
            (Want::ATTR | Want::NO_FOLLOW, false)
        }
        What::Library if !asker.loads_libraries => (Want::ATTR, false),
        What::Any if asker.whole_bytes_max.is_some() => (Want::ATTR, false),
        What::Library => (Want::LOADABLE, true),
        What::Any => (Want::WHOLE | Want::LISTING, true),
    }
}

/// Returns the content to request for an entry. A mount alone needs whole files.
fn content_wanted(asker: &Asker, entry: &Entry) -> Option<Want> {
    match entry.what {
        What::Loadable(_) | What::Library if asker.loads_libraries => Some(Want::LOADABLE),
        What::Loadable(_) | What::Library | What::Whole(_) => Some(Want::WHOLE),
        // By a mechanism without blocks, a library is loaded.
        What::Blocks(..) if asker.whole_bytes_max.is_none() => None,
        What::Blocks(..) => Some(Want::WHOLE),
        What::Any => Some(Want::WHOLE | Want::LISTING),
        What::Directory | What::Link | What::Name | What::Attributes(_) => None,
    }
}

fn version_of(attr: Attr) -> Option<Version> {
    let version = Version { size: attr.size, mtime_seconds: attr.mtime.0, mtime_nanoseconds: attr.mtime.1 };
    (attr.kind() == Kind::File).then_some(version)
}
