//! `headwater explain`: runs a program and reports what its start waits for.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{Read, stderr};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use headwater_closure::program;
use headwater_closure::recorded::{Event, Record, is_closure, write_record};
use headwater_tracer::{Message, Options, Refusal};

use crate::exec;
use crate::explain::options::ExplainOptions;
use crate::explain::recorded::{self, Source};
use crate::explain::{Names, Origin, Run, entries, summarize};
use crate::message::{log, show};
use crate::via::Via;

/// Programs that trace those that they start.
const TRACERS: [&str; 5] = ["gdb", "lldb", "ltrace", "rr", "strace"];

/// Explains a start. Returns the program's exit status.
pub fn explain(options: &ExplainOptions) -> Result<u8> {
    ensure!(
        options.via == Via::Off,
        "--via {} can't be explained directly: run `headwater record --via namespace -o FILE -- PROGRAM`, then `headwater \
         explain --record FILE`",
        options.via.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    );
    if let Some(file) = options.record.as_deref().or_else(|| described_by(&options.program)) {
        return explain_file(options, file).map(|()| 0);
    }
    for path in [&options.html, &options.json, &options.output].into_iter().flatten() {
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        ensure!(
            directory.is_dir() && !path.is_dir(),
            "{} can't be written: name a file in a directory that is there",
            path.display()
        );
    }
    let traced = trace(options);
    let (status, events, notes) = traced?;
    // Of a program that ran untraced only its end is known.
    if events.iter().any(|event| matches!(event, Event::Call(_))) {
        // The program has run, so its status counts.
        if let Err(error) = report(
            options,
            events,
            Origin { source: "traced", exit_status: Some(status), program: shown(&options.program), notes },
        ) {
            log(format_args!("warning: {error:#}"));
        }
    }
    Ok(status)
}

fn explain_file(options: &ExplainOptions, file: &Path) -> Result<()> {
    let (record, source) = recorded::read(file)?;
    let source = if source == Source::Strace { "strace" } else { "record" };
    let ends = record.events.iter().rev().find_map(|event| match event {
        Event::End { status, .. } => u8::try_from(*status).ok(),
        _ => None,
    });
    let origin = Origin { source, exit_status: ends, program: file.display().to_string(), notes: Vec::new() };
    let run = Run::new(record.events);
    let names = Names::of(&run);
    let start = summarize(options, &run, &names, &record.entries, origin)?;
    write(options, &start)
}

/// Returns the file if what is to run is a record or the output of strace rather than a program.
fn described_by(program: &[OsString]) -> Option<&Path> {
    let [only] = program else { return None };
    let path = Path::new(only);
    let mut start = Vec::new();
    File::open(path).ok()?.take(64).read_to_end(&mut start).ok()?;
    let is_executable = rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok();
    (is_closure(&start) || !is_executable && recorded::read(path).is_ok()).then_some(path)
}

/// Runs the program; returns its exit status, its events, and what is missing.
fn trace(options: &ExplainOptions) -> Result<(u8, Vec<Event>, Vec<String>)> {
    let (name, arguments) = options.program.split_first().context("the program is required")?;
    let cwd = std::env::current_dir().unwrap_or_else(|_| "/".into());
    let file = match program::find(name, std::env::var_os("PATH").as_deref(), &cwd) {
        Ok(file) => file,
        Err(error) => {
            let (status, message) = exec::complaint(name, error.into());
            log(message);
            return Ok((status, Vec::new(), Vec::new()));
        }
    };
    let until = options.seconds.map(|seconds| Duration::from_secs(seconds.into()));
    let traced = headwater_tracer::start(&Options { until, exact: options.exact || traces_others(&file), untraced: untraceable(&file) }, || {
        let (status, message) = exec::complaint(name, exec::plain(name, arguments));
        log(message);
        status
    })
    .context("the program can't be started: raise the limit of processes (ulimit -u)")?;
    let (mut events, mut notes) = (Vec::new(), Vec::new());
    let status = traced.wait(|message| match message {
        Message::Event(event) => events.push(event),
        Message::Untraced(why) => log(format_args!(
            "warning: {} can't be explained: {why}. It runs as it is; `strace -f -ttt -o FILE` may be allowed",
            name.display()
        )),
        Message::Privileged(file) => notes.push(format!(
            "{} is left out, with what it starts: only untraced it has its privileges (set-ID, or capabilities).",
            file.display()
        )),
        Message::Handed(file) => {
            notes.push(format!("A process of {} is left out: the program traces it itself.", file.display()));
        }
        Message::Refused(what, file) => {
            let what = match what {
                Refusal::Tracing => "could not trace another process",
                Refusal::StrictMode => "could not enter the strict mode of seccomp",
            };
            log(format_args!(
                "warning: {} {what}, because it is traced by a filter: explain it with --exact",
                file.display()
            ));
        }
        Message::Lost(count) => notes.push(format!("{count} further events are left out.")),
        Message::Released(at_ns) => {
            notes.push(format!("It was followed for {} s, and ran on.", at_ns / 1_000_000_000));
        }
        Message::Program(_) | Message::Ended(_) => {}
    });
    Ok((status, events, notes))
}

/// Returns whether a program is known to trace others.
fn traces_others(file: &Path) -> bool {
    let name = file.canonicalize().unwrap_or_else(|_| file.to_owned());
    let name = name.file_name().unwrap_or_default().to_string_lossy().into_owned();
    TRACERS.iter().any(|tracer| name == *tracer)
}

/// Returns why the program itself can't be traced, as far as its file shows it.
fn untraceable(file: &Path) -> Option<String> {
    let gains = headwater_tracer::gives_privileges(file) && !rustix::process::geteuid().is_root();
    gains.then(|| format!("{} runs with further privileges (set-ID, or capabilities)", file.display()))
}

fn report(options: &ExplainOptions, events: Vec<Event>, origin: Origin) -> Result<()> {
    let kept = options.output.is_some().then(|| events.clone());
    let run = Run::new(events);
    let names = Names::of(&run);
    if let (Some(path), Some(events)) = (&options.output, kept) {
        let text = write_record(&Record { entries: entries(&run, &names), events });
        replace(path, &text)?;
    }
    let start = summarize(options, &run, &names, &[], origin)?;
    write(options, &start)
}

fn write(options: &ExplainOptions, start: &headwater_report::start::Start) -> Result<()> {
    if let Some(path) = &options.json {
        replace(path, &start.json().context("a time of the prediction is no number")?)?;
    }
    if let Some(path) = &options.html {
        replace(path, &start.html())?;
    }
    if !options.quiet {
        // Standard output is the program's.
        show(stderr(), format_args!("\n{}", start.text()));
    }
    Ok(())
}

/// Writes a file under another name first, so that a reader sees all of it or the one before.
fn replace(path: &Path, text: &str) -> Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let new = path.with_file_name(format!(".{name}.{}", std::process::id()));
    let is_other = fs::metadata(path).is_ok_and(|file| !file.is_file());
    let written = if is_other {
        // A pipe or a device is written to.
        fs::write(path, text)
    } else {
        fs::write(&new, text).and_then(|()| fs::rename(&new, path))
    };
    written.with_context(|| {
        // Nothing is left if the second step failed.
        let _ = fs::remove_file(&new);
        format!("{} can't be written: name another file", path.display())
    })
}

fn shown(program: &[OsString]) -> String {
    let words: Vec<_> = program.iter().map(|word| word.to_string_lossy()).collect();
    headwater_report::page::printable(words.join(" ").as_bytes())
}
