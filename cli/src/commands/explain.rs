//! `headwater explain`: runs a program and reports what its start waits for.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, stderr};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use headwater_closure::program;
use headwater_closure::recorded::{Event, Record, is_closure, write_record};
use headwater_tracer::{Message, Options};

use crate::commands::run::{self, Details};
use crate::exec;
use crate::explain::missing::{self, Missing};
use crate::explain::options::ExplainOptions;
use crate::explain::recorded::{self, Source};
use crate::explain::{Names, Origin, Run, Session, account, entries, summarize};
use crate::io::options::IoOptions;
use crate::message::{log, show};
use crate::options::inner::TraceOptions;
use crate::options::run::RunOptions;
use crate::output_file;
use crate::seal::options::SealedOptions;
use crate::status::Ending;
use crate::via::Via;
use crate::warm::options::RankOptions;

/// How the names of mechanisms with the audit library begin.
const AUDIT: &str = "audit";

/// Programs that trace those that they start.
const TRACERS: [&str; 5] = ["gdb", "lldb", "ltrace", "rr", "strace"];

/// Explains a start. Returns the program's exit status.
pub fn explain(options: ExplainOptions) -> Result<u8> {
    if let Some(file) = options.record.as_deref().or_else(|| described_by(&options.program)) {
        return explain_file(&options, file).map(|()| 0);
    }
    for path in [&options.html, &options.json, &options.output].into_iter().flatten() {
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        ensure!(
            directory.is_dir() && !path.is_dir(),
            "{} can't be written: name a file in a directory that is there",
            path.display()
        );
    }
    let (options, traced) = if options.service.via == Via::Off {
        let traced = trace(&options)?;
        (options, traced)
    } else {
        serve(options)?
    };
    let Traced { status, events, origin } = traced;
    // Of a program that ran untraced only its end is known.
    if events.iter().any(|event| matches!(event, Event::Call(_))) {
        // The program has run, so its status counts.
        if let Err(error) = report(&options, events, origin) {
            log(format_args!("warning: {error:#}"));
        }
    }
    Ok(status)
}

/// A program that has run.
struct Traced {
    status: u8,
    events: Vec<Event>,
    origin: Origin,
}

impl Traced {
    fn new(program: &[OsString], status: u8, events: Vec<Event>, notes: Vec<String>) -> Traced {
        let (via, served) = (String::from("off"), None);
        let origin =
            Origin { source: "traced", exit_status: Some(status), program: shown(program), via, served, notes };
        Traced { status, events, origin }
    }
}

/// Runs the program in a session of one node, as `headwater run` does.
fn serve(mut options: ExplainOptions) -> Result<(ExplainOptions, Traced)> {
    let file = TraceOptions::temporary_file();
    let is_tracer = options.program.first().is_some_and(|name| traces_others(Path::new(name)));
    let run = RunOptions {
        records: false,
        trace: TraceOptions {
            events: Some(file.clone()),
            events_seconds: options.seconds,
            events_exact: options.exact || is_tracer,
        },
        is_explained: true,
        nodes: 1,
        ppn: 1,
        service: options.service,
        show_scope: false,
        summary: false,
        no_summary: true,
        // The report names why the program ran without Headwater.
        quiet: true,
        summary_json: None,
        report: None,
        use_session: None,
        marker: None,
        sealed: SealedOptions { sealed: None, signers: None },
        ranks: RankOptions::default(),
        io: IoOptions::default(),
        program: options.program,
    };
    let ran = run::run_here(&run, run::progress(&run));
    (options.service, options.program) = (run.service, run.program);
    let text = TraceOptions::take(&file);
    let ran = ran?;
    let notes = text.lines().filter_map(|line| line.strip_prefix(missing::LINE)).map(str::to_owned).collect();
    let events = text.lines().filter_map(Event::parse).collect();
    let mut traced = Traced::new(&options.program, ran.ending.code, events, notes);
    if let Some(details) = ran.details {
        let started_us = text.lines().find_map(|line| line.strip_prefix(missing::START)?.parse().ok());
        attribute(&options, &mut traced, &details, started_us.unwrap_or(0));
    }
    Ok((options, traced))
}

/// Adds what the session knows.
fn attribute(options: &ExplainOptions, traced: &mut Traced, details: &Details, started_us: u64) {
    let Details { scope, directory, began_us, summary, report } = details;
    let Some(directory) = directory else {
        traced.origin.notes.push(format!("The program ran without Headwater: {}.", summary.via_reason));
        return;
    };
    let opens_copies = summary.via.starts_with(AUDIT);
    let session = Session {
        scope,
        directory,
        entered_us: started_us.saturating_sub(*began_us),
        summary,
        report: report.as_ref(),
        kinds: options.service.served.kinds(),
        opens_copies,
    };
    let (events, served) = account(std::mem::take(&mut traced.events), session);
    traced.events = events;
    traced.origin.via.clone_from(&summary.via);
    traced.origin.served = Some(served);
}

fn explain_file(options: &ExplainOptions, file: &Path) -> Result<()> {
    let (record, source) = recorded::read(file)?;
    let source = if source == Source::Strace { "strace" } else { "record" };
    let ends = record.events.iter().rev().find_map(|event| match event {
        Event::End { status, .. } => u8::try_from(*status).ok(),
        _ => None,
    });
    let (via, program) = (String::from("off"), file.display().to_string());
    let origin = Origin { source, exit_status: ends, program, via, served: None, notes: Vec::new() };
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

/// Runs the program without Headwater.
fn trace(options: &ExplainOptions) -> Result<Traced> {
    let (name, arguments) = options.program.split_first().context("the program is required")?;
    let cwd = std::env::current_dir().unwrap_or_else(|_| "/".into());
    let file = match program::find(name, std::env::var_os("PATH").as_deref(), &cwd) {
        Ok(file) => file,
        Err(error) => {
            let (status, message) = exec::complaint(name, error.into());
            log(message);
            return Ok(Traced::new(&options.program, status, Vec::new(), Vec::new()));
        }
    };
    let until = options.seconds.map(|seconds| Duration::from_secs(seconds.into()));
    let exact = options.exact || traces_others(&file);
    let traced = headwater_tracer::start(&Options { until, exact, untraced: untraceable(&file) }, || {
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
        other => match missing::of(&other) {
            Some(Missing::Note(note)) => notes.push(note),
            Some(Missing::Warning(warning)) => log(warning),
            None => {}
        },
    });
    Ok(Traced::new(&options.program, Ending::from(status).code, events, notes))
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
        write_file(path, &text)?;
    }
    let start = summarize(options, &run, &names, &[], origin)?;
    write(options, &start)
}

fn write(options: &ExplainOptions, start: &headwater_report::start::Start) -> Result<()> {
    if let Some(path) = &options.json {
        write_file(path, &start.json().context("a time of the prediction is no number")?)?;
    }
    if let Some(path) = &options.html {
        write_file(path, &start.html())?;
    }
    if !options.quiet {
        // Standard output is the program's.
        show(stderr(), format_args!("\n{}", start.text()));
    }
    Ok(())
}

fn write_file(path: &Path, text: &str) -> Result<()> {
    output_file::write(path, text).with_context(|| format!("{} can't be written: name another file", path.display()))
}

fn shown(program: &[OsString]) -> String {
    let words: Vec<_> = program.iter().map(|word| word.to_string_lossy()).collect();
    headwater_report::page::printable(words.join(" ").as_bytes())
}
