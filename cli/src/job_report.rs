//! `--report`: what a job's start did, over all nodes, as a page with text and JSON beside it.

use std::io;
use std::path::{Path, PathBuf};

use headwater_abi::wire::RELEASE;
use headwater_report::job::{self, Merger, Run};
use headwater_report::page::printable;

use crate::message::log;
use crate::options::run::RunOptions;
use crate::output_file::{check, is_other, write};
use crate::summary::{Start, Summary};

/// Where a report is to be written. Nothing is recorded without one.
#[derive(Debug)]
pub struct JobReport {
    /// `None`: it is only returned.
    file: Option<PathBuf>,
    command: Vec<String>,
    start: Start,
}

impl JobReport {
    /// Returns the report that the options name. Warns if its file can't be written; then there is none, because the
    /// program is more important.
    pub fn of(options: &RunOptions, start: Start) -> Option<JobReport> {
        let file = options.report.as_ref().map(|file| std::path::absolute(file).unwrap_or_default());
        if file.is_none() && !options.is_explained {
            return None;
        }
        if let Some(file) = &file
            && let Err(error) = check(file)
        {
            log(format_args!(
                "warning: {} can't be written: {error}. The program runs without a report: name a file in a directory \
                 that can be written with --report",
                file.display()
            ));
            return None;
        }
        let command = options.program.iter().map(|argument| printable(argument.as_encoded_bytes())).collect();
        Some(JobReport { file, command, start })
    }

    /// Returns the sum of the nodes' records, which is empty.
    pub fn merger(&self) -> Merger {
        Merger::new(self.start.monotonic_us())
    }

    /// Writes what `ranks` nodes have recorded, and returns it. A failure is one line.
    pub fn write(&self, merger: Merger, ranks: u32, summary: &Summary) -> job::JobReport {
        let us = |ms: Option<f64>| ms.map(|ms| (ms * 1e3) as u64);
        let run = Run {
            release: RELEASE.into(),
            command: self.command.clone(),
            via: summary.via.clone(),
            began_unix_ms: self.start.unix_ms(),
            daemons_ready_us: us(summary.timeline.daemons_ready_ms),
            program_exit_us: us(summary.timeline.program_exit_ms),
            exit_status: summary.exit_status.code,
        };
        let report = merger.finish(run, ranks);
        if let Some(file) = &self.file
            && let Err(error) = write_all(file, &report)
        {
            log(format_args!(
                "warning: the report can't be written to {}: {error}. Name another file with --report",
                file.display()
            ));
        }
        report
    }

    /// Reports that there is nothing to write, and why.
    pub fn leave_out(&self, why: &str) {
        if self.file.is_none() {
            return;
        }
        log(format_args!(
            "note: nothing is recorded for --report, because the program ran without Headwater: {why}. `headwater \
             explain` shows what a program searches and reads without Headwater"
        ));
    }
}

/// Writes a report in the forms that the file's name asks for.
fn write_all(file: &Path, report: &job::JobReport) -> io::Result<()> {
    let text = job::text(report);
    let json = serde_json::to_string(report).map_err(io::Error::other).map(|json| json + "\n");
    match file.extension().and_then(|extension| extension.to_str()) {
        _ if is_other(file) => write(file, &text),
        Some("json") => json.and_then(|json| write(file, &json)),
        Some("txt") => write(file, &text),
        _ => json.and_then(|json| {
            write(file, &job::page(report).html())?;
            write(&file.with_extension("json"), &json)?;
            write(&file.with_extension("txt"), &text)
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_field_has_its_place_in_the_reference() {
        let reference = include_str!("../../docs/reference/statistics.md");
        let reference = reference.split("## The report: `--report FILE`").nth(1).unwrap();
        let reference = reference.split("\n## ").next().unwrap();
        fn check(reference: &str, fields: &serde_json::Value) {
            for (name, value) in fields.as_object().into_iter().flatten() {
                assert!(reference.contains(&format!("`{name}`")), "{name}");
                check(reference, value);
                value.as_array().into_iter().flatten().for_each(|value| check(reference, value));
            }
        }
        let report = job::JobReport {
            nodes: vec![job::NodeReport { snapshots: vec![job::Snapshot::default()], ..Default::default() }],
            links: vec![job::LinkReport::default()],
            paths: vec![job::PathReport { asked: Some(job::Span { first_us: 0, last_us: 0 }), ..Default::default() }],
            cells: vec![job::Cell::default()],
            ..Default::default()
        };
        check(reference, &serde_json::to_value(report).unwrap());
    }
}
