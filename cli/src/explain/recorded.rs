//! Files that describe a run: records, and what strace wrote.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use headwater_closure::recorded::{self, Record};
use headwater_model::strace_line;

use super::strace;

/// What describes a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// A record.
    Record,
    /// The output of strace.
    Strace,
}

/// Returns whether a text begins as a record does.
pub fn is_record(text: &[u8]) -> bool {
    recorded::is_closure(text)
}

/// Reads a record with events, or the output of strace.
///
/// # Errors
/// The file can't be read, is neither, is damaged, or has no events.
pub fn read(path: &Path) -> Result<(Record, Source)> {
    let shown = path.display();
    let text = fs::read(path).with_context(|| format!("{shown} can't be read"))?;
    if is_record(&text) {
        let record = recorded::parse_record(&text).with_context(|| format!("{shown} is no valid record"))?;
        if record.events.is_empty() {
            bail!("{shown} has files, but neither times nor calls: make it with `headwater explain -o FILE`");
        }
        return Ok((record, Source::Record));
    }
    let text = String::from_utf8_lossy(&text);
    if !strace_line::is_strace(&text) {
        bail!("{shown} is neither a record of `headwater explain -o` nor what `strace -f -ttt` wrote");
    }
    Ok((Record { entries: Vec::new(), events: strace::events(&text) }, Source::Strace))
}
