//! A run's report.

use anyhow::Result;
use headwater_closure::recorded::Entry;
use headwater_report::page::printable;
use headwater_report::start::{Process, SCHEMA, Served, Start};
use std::os::unix::ffi::OsStrExt;

use super::files::{Names, files, sums};
use super::options::ExplainOptions;
use super::run::{Image, Run};
use super::{gain, imports, phases, searches, workload};
use crate::simulate::inputs;

/// Where a run's events come from.
pub struct Origin {
    /// `traced`, `record` or `strace`.
    pub source: &'static str,
    /// The program's exit status.
    pub exit_status: Option<u8>,
    /// The program, if no event has its arguments.
    pub program: String,
    /// The mechanism's name.
    pub via: String,
    /// What Headwater did, if the program ran with it.
    pub served: Option<Served>,
    /// What is missing.
    pub notes: Vec<String>,
}

/// Returns the report of a run.
///
/// # Errors
/// An option of the model is wrong.
pub fn summarize(
    options: &ExplainOptions,
    run: &Run,
    names: &Names,
    entries: &[Entry],
    origin: Origin,
) -> Result<Start> {
    let modules: Vec<Vec<imports::Module>> = run.images.iter().map(imports::modules).collect();
    let spans: Vec<_> = modules.iter().map(|modules| imports::spans(modules)).collect();
    let shared = inputs::directories(&options.shared())?;
    let trace = workload::trace(run, names, entries, &shared);
    let (files, directories) = files(run, names, entries);
    let executed = || run.images.iter().zip(&spans).filter(|(image, _)| image.is_executed);
    let first = executed().next().map(|(image, _)| printable(&image.command)).filter(|command| !command.is_empty());
    let mut notes = origin.notes;
    let gained = gain::gain(options, &trace);
    let (gain, gain_options) = gained.unwrap_or_else(|error| {
        notes.push(format!("No prediction: {error:#}."));
        (Vec::new(), None)
    });
    notes.extend(assumptions(origin.source, &files).map(str::to_owned));
    Ok(Start {
        schema: SCHEMA.to_owned(),
        program: first.unwrap_or(origin.program),
        source: origin.source.to_owned(),
        via: origin.via,
        exit_status: origin.exit_status,
        wall_ns: run.end_ns,
        phases: phases::phases(run, &modules),
        calls: sums(run.calls()),
        processes: executed().map(|(image, spans)| process(run, image, spans.clone())).collect(),
        imports: imports::summarized(run.images.iter().zip(modules.iter().map(Vec::as_slice))),
        searches: searches::searches(run, &modules),
        files,
        directories,
        served: origin.served,
        gain,
        gain_options,
        notes,
    })
}

fn process(run: &Run, image: &Image, imports: Vec<headwater_report::start::Span>) -> Process {
    let file = printable(image.file.as_os_str().as_bytes());
    let command = Some(printable(&image.command)).filter(|command| !command.is_empty());
    Process {
        pid: image.process,
        parent_pid: run.parents.get(&image.process).copied(),
        command: command.unwrap_or_else(|| file.clone()),
        file,
        start_ns: image.start_ns,
        loaded_ns: image.loaded_ns,
        end_ns: image.end_ns,
        calls: sums(image.calls.iter()),
        imports,
    }
}

/// Returns what the numbers assume.
fn assumptions(source: &str, files: &[headwater_report::start::OpenFile]) -> impl Iterator<Item = &'static str> {
    let used = "USED are bytes of a mapped file in a process's memory at its end: those that it touched, and their \
                neighbours that the kernel mapped with them.";
    let traced = "Times include the tracing, some microseconds for each call. A moment belongs to the program that was \
                  executed last; initializers of libraries are its own code.";
    let strace = "Times are those of strace, which slows each call down; without its option -T, calls take no time.";
    let has_used = files.iter().any(|file| file.used_bytes.is_some());
    let time = if source == "strace" { strace } else { traced };
    [has_used.then_some(used), Some(time)].into_iter().flatten()
}
