//! `headwater record`: writes the files of the scope that a run used, as a closure, with the calls on files and their
//! times where these can be traced.

use std::fs;

use anyhow::{Context, Result, anyhow, ensure};
use headwater_closure::recorded::{ENTRIES_MAX, Event, MAGIC, VERSION, VERSION_WITH_EVENTS};
use headwater_daemon::Kinds;

use crate::commands::run::{self, Ran};
use crate::message::log;
use crate::options::inner::TraceOptions;
use crate::options::run::RecordOptions;
use crate::preload::PreloadOption;
use crate::seal::options::SEALED;
use crate::status::Ending;

/// Runs the program on one node without preloading, and writes the closure. Returns how the program ended, even
/// if the closure can't be written.
pub fn record(mut options: RecordOptions) -> Result<Ending> {
    let sealed = &options.run.sealed.sealed;
    ensure!(sealed.is_none(), "a sealed run is not recorded: unset {SEALED}, or leave --sealed out");
    (options.run.nodes, options.run.records) = (1, true);
    let served = &mut options.run.service.served;
    (served.serve, served.preload) = (Some(Kinds::all()), Some(PreloadOption::Off));
    // Of large files that a lone node does not store, it is not known what audited processes use.
    options.run.service.storage.stored_file_max.get_or_insert(u64::MAX);
    let events = TraceOptions::temporary_file();
    options.run.trace.events = Some(events.clone());
    let ran = run::run_here(&options.run, run::progress(&options.run));
    let traced = TraceOptions::take(&events);
    let Ran { ending, recorded, .. } = ran?;
    let entries = recorded.ok_or_else(|| {
        anyhow!(
            "nothing was recorded, because the program ran without Headwater; `headwater run --show-scope` shows why"
        )
    });
    let output = &options.output;
    let written = entries.and_then(|entries| {
        let lines: String = entries.iter().flat_map(|line| [line, "\n"]).collect();
        // What was cut off with the tracer is left out.
        let events: Vec<&str> = traced.lines().filter(|line| Event::parse(line).is_some()).collect();
        let version = if events.is_empty() { VERSION } else { VERSION_WITH_EVENTS };
        let events: String = events.iter().flat_map(|line| [line, "\n"]).collect();
        fs::write(output, format!("{MAGIC}{version}\n{lines}{events}"))
            .with_context(|| format!("{} can't be written: name another file with -o", output.display()))?;
        Ok(entries.len())
    });
    match written {
        Ok(entries) if entries >= ENTRIES_MAX => {
            log(format_args!("warning: only the first {entries} entries are in {}", output.display()));
        }
        Ok(entries) => log(format_args!("{entries} entries in {}", output.display())),
        // The program has run, so its status counts.
        Err(error) => log(format_args!("warning: {error:#}")),
    }
    Ok(ending)
}
