//! `headwater record`: writes the files of the scope that a run used, as a closure.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use headwater_abi::Kind;
use headwater_abi::table::{AtomicU64, Reader, Record, State, word};
use headwater_closure::recorded::{self, ENTRIES_MAX, Entry, Version, What};

use crate::commands::run;
use crate::message::log;
use crate::options::run::RecordOptions;
use crate::preload::PreloadOption;
use crate::session::serving::Serving;

/// Runs the program on one node without preloading, and writes the closure. Returns the program's exit status, even
/// if the closure can't be written.
pub fn record(mut options: RecordOptions) -> Result<u8> {
    (options.run.nodes, options.run.service.preload) = (1, PreloadOption::Off);
    let mut recorded = None;
    let status = run::run_with(&options.run, |serving| recorded = Some(write(serving, &options.output)))?;
    let recorded = recorded.unwrap_or_else(|| {
        Err(anyhow!(
            "nothing was recorded, because the program ran without Headwater; `headwater run --show-scope` shows why"
        ))
    });
    match recorded {
        Ok(entries) => log(format_args!("{entries} entries in {}", options.output.display())),
        // The program has run, so its status counts.
        Err(error) => log(format_args!("warning: {error:#}")),
    }
    Ok(status)
}

/// Writes the records of the node's table; returns the number of entries.
fn write(serving: &Serving, output: &Path) -> Result<usize> {
    let table = serving.session.node(0).table_link();
    let words = read_table(&table).with_context(|| format!("{} can't be read", table.display()))?;
    let mut entries = entries(&words).context("the node's table is damaged")?;
    if entries.len() > ENTRIES_MAX {
        log(format_args!("warning: only the first {ENTRIES_MAX} of {} entries are recorded", entries.len()));
        entries.truncate(ENTRIES_MAX);
    }
    fs::write(output, recorded::write(entries.iter()))
        .with_context(|| format!("{} can't be written: name another file with -o", output.display()))?;
    Ok(entries.len())
}

/// Reads the used part of a table. The daemon may still write, but a record is complete before it is published.
fn read_table(table: &Path) -> Result<Vec<AtomicU64>> {
    use std::io::Read;

    let mut file = fs::File::open(table)?;
    let mut bytes = vec![0; word::HEADER_WORDS * size_of::<u64>()];
    file.read_exact(&mut bytes)?;
    let header = words(&bytes);
    let number = |at: usize| header[at].load(std::sync::atomic::Ordering::Relaxed);
    let end = number(word::HEAP_AT).saturating_add(number(word::HEAP_USED));
    file.take(end.saturating_sub(bytes.len() as u64)).read_to_end(&mut bytes)?;
    Ok(words(&bytes))
}

fn words(bytes: &[u8]) -> Vec<AtomicU64> {
    let (words, _) = bytes.as_chunks();
    words.iter().map(|word| AtomicU64::new(u64::from_ne_bytes(*word))).collect()
}

/// Returns the entries of a table, in the order in which its records were made.
fn entries(words: &[AtomicU64]) -> Option<Vec<Entry>> {
    let mut records: Vec<Record<'_>> = Reader::open(words)?.records().collect();
    records.sort_by_key(Record::index);
    Some(records.iter().filter_map(entry).collect())
}

fn entry(record: &Record<'_>) -> Option<Entry> {
    // Passthrough paths are served from their source files.
    if record.state.intersects(State::PASSTHROUGH | State::TREE_PASSTHROUGH) {
        return None;
    }
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
                What::Attributes(version)
            }
        }
    };
    Some(Entry { what, path: PathBuf::from(OsString::from_vec(record.path()?)) })
}
