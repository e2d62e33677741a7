//! Persistent sessions: the background process with the front end, which `headwater start` begins.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::process::Stdio;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::allocation::{Claim, keeper};
use super::events::NodeEvent;
use super::file::JobFile;
use super::programs::{discover_all, find, programs, service};
use super::run::{launcher, open, prefix};
use super::watch::Watch;
use crate::discover::{serves, why_nothing};
use crate::message::{log, show};
use crate::options::run::StartOptions;
use crate::session::directory::name_of;
use crate::session::events::Event;
use crate::session::opened::Opened;
use crate::session::signals;
use crate::summary::Start;
use crate::usage;

/// Prefix of the process's standard output if it fails; the reason follows.
pub const FAILED: &str = "failed: ";

/// How long the job's nodes may take to serve.
const KEPT_MAX: Duration = Duration::from_secs(20);

/// Stands for the program of a session that was made without one.
const ANY_PROGRAM: &str = "sh";

/// Runs the front end of a session until the session ends.
pub fn run_session(options: &StartOptions) -> Result<u8> {
    crate::process::close_inherited();
    let _ = rustix::process::setsid();
    let (sender, events) = channel();
    let ends = sender.clone();
    let opened = prepare(options).and_then(|service| {
        signals::watch(sender.clone())?;
        open(&options.service, service, sender.clone())
    });
    let (front, job, file) = match opened {
        Ok(opened) => opened,
        Err(error) => {
            println!("{FAILED}{error:#}");
            return Ok(crate::status::FAILURE);
        }
    };
    front.expect_many();
    let start = Start::now();
    let mut watch = Watch::new(&job.service);
    let claim = Claim::make(&file);
    let has_keeper = claim.is_some()
        && keep_nodes(options, &file, ends).unwrap_or_else(|error| {
            log(format_args!("warning: {error:#}"));
            false
        });
    let nodes = if has_keeper { wait_until_ready(&events, &mut watch, start) } else { Nodes::OfLaunches };
    let (line, lease) = match nodes {
        Nodes::Kept => (name_of(job.session), Some(Duration::MAX)),
        Nodes::OfLaunches => (name_of(job.session), Some(Duration::from_secs(60 * u64::from(options.lease)))),
        Nodes::Interrupted => (format!("{FAILED}interrupted, before the job's nodes served"), None),
    };
    // If who waited for the line has ended, nobody knows the session.
    let is_told = writeln!(io::stdout(), "{line}").is_ok();
    close_output()?;
    env::set_current_dir("/")?;
    if let Some(lease) = lease.filter(|_| is_told) {
        serve(&events, lease, |event| watch.note(event, start));
    }
    // From now on no launch finds the session.
    drop((claim, file));
    front.end();
    watch.collect_reports(&events, start);
    let summary = watch.summary(&job.service, "a session of several launches", start);
    usage::record(options.program.first().map_or(OsStr::new(ANY_PROGRAM), OsString::as_os_str), &summary, false);
    front.close(summary.to_string());
    Ok(0)
}

/// Starts the step that keeps the job's nodes; its end is the session's. False if there is none.
fn keep_nodes(options: &StartOptions, file: &JobFile, ends: Sender<Event>) -> Result<bool> {
    let prefix = prefix(&options.service, file.path())?;
    let Some(command) = keeper(prefix) else { return Ok(false) };
    let mut command = launcher(&command);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut step = command.spawn()?;
    thread::Builder::new().name("keeper".into()).spawn(move || {
        let _ = step.wait();
        // Without a receiver, the session has ended already.
        let _ = ends.send(Event::Node(NodeEvent::Stop));
    })?;
    Ok(true)
}

/// Which nodes a session has when it begins.
#[derive(Clone, Copy)]
enum Nodes {
    /// All of the job's, as long as the job lasts.
    Kept,
    /// None. The first launch brings its own.
    OfLaunches,
    /// A signal has ended the session before its nodes served.
    Interrupted,
}

/// Waits until the kept nodes serve. Reports it if they don't.
fn wait_until_ready(events: &Receiver<Event>, watch: &mut Watch, start: Start) -> Nodes {
    let deadline = Instant::now() + KEPT_MAX;
    while !watch.is_ready() {
        match events.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(Event::Node(NodeEvent::Stop)) | Err(_) => {
                log(
                    "warning: the job's nodes can't be kept by a step of their own (srun --overlap, flux exec, pbsdsh). The \
                     session has those of its first launch",
                );
                return Nodes::OfLaunches;
            }
            Ok(Event::Node(event)) => watch.note(event, start),
            Ok(event) if event.interrupts().is_some() => return Nodes::Interrupted,
            Ok(_) => {}
        }
    }
    Nodes::Kept
}

/// Closes standard output and error, so that no process waits for their end.
fn close_output() -> Result<()> {
    let null = std::fs::File::options().write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(&null)?;
    Ok(())
}

/// Waits until the session's end is requested, a signal arrives, or the lease has passed without a launch.
pub fn serve(events: &Receiver<Event>, lease: Duration, mut note: impl FnMut(NodeEvent)) {
    let mut idle_since = Some(Instant::now());
    loop {
        let left = idle_since.map(|since| lease.saturating_sub(since.elapsed()));
        match events.recv_timeout(left.unwrap_or(Duration::MAX / 2)) {
            Ok(Event::Node(NodeEvent::Stop)) => return,
            Ok(Event::Node(NodeEvent::Launches(count))) => idle_since = (count == 0).then(Instant::now),
            Ok(Event::Node(event)) => note(event),
            Ok(event) if event.interrupts().is_some() => return,
            Ok(_) => {}
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// Returns what the session's nodes are to serve.
fn prepare(options: &StartOptions) -> Result<super::file::Service> {
    let opened = Opened::default();
    let names = match &options.program[..] {
        [] => vec![ANY_PROGRAM.into()],
        command => {
            find(command, options.marker.as_deref())?.map_or_else(|| command[..1].to_vec(), |found| programs(&found))
        }
    };
    let (scope, program) = discover_all(&options.service, &names, &opened);
    ensure!(serves(&scope), "nothing to serve: {}", why_nothing(&scope, "--shared "));
    if options.service.verbose {
        show(io::stderr(), &scope);
    }
    if options.io.is_wanted() {
        log("note: a session does not store --io: give it to each `headwater run --session`");
    }
    Ok(service(&options.service, &scope, program.unwrap_or_default(), None))
}
