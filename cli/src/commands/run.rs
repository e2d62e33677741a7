//! `headwater run`: runs a program in a new session.

use std::env;
use std::ffi::OsStr;
use std::io::{self, stderr, stdout};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};

use anyhow::{Result, anyhow};
use headwater_closure::program;
use headwater_closure::scope::Scope;
use headwater_report::job::{self, Merger};
use rustix::io::Errno;

use crate::ahead::{Ahead, allow_without};
use crate::discover::{discover, serves, why_nothing};
use crate::exec;
use crate::io::{self as mpi_io, options::IoOptions};
use crate::job_report::JobReport;
use crate::launch::Launch;
use crate::message::{log, show};
use crate::namespace;
use crate::notes::progress::{Progress, Step};
use crate::notes::{self, Audience, Start as NotedStart};
use crate::options::run::RunOptions;
use crate::preload::{self, PreloadOption};
use crate::process::inherited;
use crate::rendezvous;
use crate::report::report;
use crate::session::events::{Event, Interrupted};
use crate::session::opened::Opened;
use crate::session::records::Records;
use crate::session::serving::{ServiceRequest, Serving};
use crate::session::signals;
use crate::session::wait::wait_for;
use crate::status::Ending;
use crate::summary::{Start, Summary};
use crate::topology;
use crate::via::{Choice, Mechanism, Program, Via, probe_if};
use crate::warm::Forked;

/// The option for directories.
const SHARED: &str = "--shared ";

/// Runs the program and returns how it ended.
pub fn run(options: &RunOptions) -> Result<Ending> {
    if let Some(session) = &options.use_session {
        return rendezvous::run_in(options, session);
    }
    if let Some(done) = rendezvous::run_in_job(options) {
        return done;
    }
    let progress = progress(options);
    match rendezvous::find(&options.program, options.marker.as_deref()) {
        Ok(None) => {}
        Ok(Some(found)) if found.is_detached && !options.show_scope => {
            let why = "the launcher does not wait for its programs, so the session would end before them: use a launcher \
                       that waits (as `flux run` does), or a session of `headwater start`";
            drop(progress);
            return rendezvous::run_without(options, &anyhow!(why));
        }
        Ok(Some(found)) => return rendezvous::run(options, &found, progress),
        Err(error) if options.show_scope => return Err(error),
        Err(error) => {
            drop(progress);
            return rendezvous::run_without(options, &error);
        }
    }
    run_here(options, progress).map(|ran| ran.ending)
}

/// Begins to show the progress until the program's start.
pub fn progress(options: &RunOptions) -> Progress {
    Progress::start(Audience::here(options), Step::examining(&options.program[0].to_string_lossy()))
}

/// What a run used, as lines of a closure; `None` if it ran without Headwater.
pub type Recorded = Option<Vec<String>>;

/// A run that has ended.
#[derive(Debug, Default)]
pub struct Ran {
    /// How the program ended.
    pub ending: Ending,
    /// What it used, if the options have that recorded.
    pub recorded: Recorded,
    /// What is known of its session; `None` if the program was not run, or without any.
    pub details: Option<Details>,
}

/// What is known of a run's session.
#[derive(Debug)]
pub struct Details {
    /// The scope.
    pub scope: Scope,
    /// The session's directory, which has been removed; `None` if the program ran without Headwater.
    pub directory: Option<PathBuf>,
    /// When the run began, in microseconds of the monotonic clock.
    pub began_us: u64,
    /// Sums.
    pub summary: Summary,
    /// What the nodes recorded, if the options have them report.
    pub report: Option<job::JobReport>,
}

impl Ran {
    fn with(ending: impl Into<Ending>) -> Ran {
        Ran { ending: ending.into(), ..Ran::default() }
    }
}

/// Runs the program on nodes of this machine. If no threads or processes can be started, this process executes the program.
pub fn run_here(options: &RunOptions, progress: Progress) -> Result<Ran> {
    let is_alone = options.nodes == 1 && options.ppn == 1 && options.sealed.sealed.is_none();
    let done = run_beside(options, progress);
    let Some((error, step)) = done.as_ref().err().filter(|_| is_alone).and_then(|e| Some((e, may_start_none(e)?)))
    else {
        return done;
    };
    log(format_args!("warning: {error:#}: {step}. The program runs without Headwater"));
    let (name, arguments) = options.program.split_first().expect("the program is required");
    inherited::leave_closed();
    let (status, message) = exec::complaint(name, exec::plain(name, arguments));
    log(message);
    Ok(Ran::with(status))
}

/// Returns what helps if this process may start no thread or process; `None` for any other error.
fn may_start_none(error: &anyhow::Error) -> Option<&'static str> {
    error.chain().find_map(|cause| match Errno::from_io_error(cause.downcast_ref::<io::Error>()?)? {
        Errno::AGAIN => Some("raise the limit of processes (ulimit -u)"),
        // Seccomp filters of containers that don't know clone3.
        Errno::PERM => Some("in a container, a newer engine may allow it"),
        _ => None,
    })
}

/// Runs the program as a child of this process.
fn run_beside(options: &RunOptions, progress: Progress) -> Result<Ran> {
    let start = Start::now();
    let job_report = JobReport::of(options, start).filter(|_| !options.show_scope);
    let arrangement = topology::arrange(&options.service.shape, options.nodes)?;
    let nodes = arrangement.program_nodes();
    let cwd = env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
    let file = match find(&options.program[0], &cwd) {
        Ok(file) => file,
        Err(status) => return Ok(Ran::with(status)),
    };
    let (audience, opened) = (Audience::here(options), Opened::default());
    let scope = discover(&options.service, &file, &cwd, &opened);
    let (program, mut choice) = choose(options, &file, &scope, &opened);
    if shows_scope(options, &scope, &choice) {
        return Ok(Ran::default());
    }
    let (sender, events) = channel();
    signals::watch_all(sender.clone())?;
    let (file, program, scope) = (&file, &program, &scope);
    let ahead = Ahead::of(options, &options.program, file, scope)?;
    let preload = ahead.preload().or_else(|| preload::prepare(&options.service.served.preload(), file, &cwd));
    let (preload, records) = (preload.as_ref(), if options.records { Records::First } else { ahead.records() });
    match choice.mechanism {
        Mechanism::Off => audience.report_off(options, serves(scope), &choice.reason),
        mechanism => hint(options, audience, (file, program, mechanism), (&ahead, &opened)),
    }
    let request = ServiceRequest {
        options,
        program,
        scope,
        opened: &opened,
        arrangement: &arrangement,
        preload,
        records,
        reports: job_report.is_some(),
        audience,
        progress: &progress,
    };
    let mut serving = match request.serve(&mut choice, &sender, &events) {
        Ok(serving) => serving,
        Err(Interrupted(number)) => return Ok(Ran::with(Ending::by(number))),
    };
    drop((opened, progress));
    if serving.is_none() {
        allow_without(options, &choice.reason)?;
        job_report.iter().for_each(|report| report.leave_out(&choice.reason));
    }
    let mut summary = Summary::new(options.nodes, nodes.len() as u32 * options.ppn, &choice);
    summary.servers = arrangement.servers;
    summary.timeline.daemons_ready_ms = serving.is_some().then(|| start.elapsed_ms());
    let io = mpi_io::preload::settle(&options.io, &options.program[..1], Some(program));
    let io = io.absolute(&cwd, &|path| path.to_owned());
    summary.exit_status = supervise((options, &io), &choice, &nodes, &mut serving, &events)?;
    summary.timeline.program_exit_ms = Some(start.elapsed_ms());
    let mut merger = job_report.as_ref().filter(|_| serving.is_some()).map(JobReport::merger);
    summary.preload.from = preload.filter(|_| serving.is_some()).map(preload::name);
    let directory = serving.as_ref().map(|serving| serving.session.directory().to_owned());
    let end = |serving| end(serving, &nodes, &events, merger.as_mut(), (&mut summary, start));
    let recorded: Recorded = serving.map(end);
    if let Err(error) = ahead.settle(&summary, recorded.as_deref().unwrap_or_default()) {
        summary.fail(&error);
    }
    report(options, &options.program[0], &summary);
    let report = job_report.zip(merger).map(|(to, merger)| to.write(merger, options.nodes, &summary));
    let details = Details { scope: scope.clone(), directory, began_us: start.monotonic_us(), report, summary };
    Ok(Ran { ending: details.summary.exit_status, recorded, details: Some(details) })
}

/// Prints the scope and the mechanism as the options want it; returns whether that is all.
fn shows_scope(options: &RunOptions, scope: &Scope, choice: &Choice) -> bool {
    if options.show_scope {
        show(stdout(), format_args!("{scope}{choice}\n"));
    } else if options.service.verbose {
        show(stderr(), scope);
        log(choice);
    }
    options.show_scope
}

/// Ends the session, and adds what its nodes report to the summary and to `merger`; returns what they recorded.
fn end(
    serving: Serving,
    nodes: &[u32],
    events: &Receiver<Event>,
    merger: Option<&mut Merger>,
    (summary, start): (&mut Summary, Start),
) -> Vec<String> {
    summary.add_forked(nodes.iter().map(|&node| Forked::of(serving.session.node(node).path())).sum());
    let (reports, lines) = serving.end(events, merger);
    summary.add(&reports, start);
    lines
}

/// Finds the program's file. Reports a program that can't be executed, and returns a shell's exit status.
fn find(name: &OsStr, cwd: &Path) -> Result<PathBuf, u8> {
    program::find(name, env::var_os("PATH").as_deref(), cwd).map_err(|error| {
        let (status, message) = exec::complaint(name, error.into());
        log(message);
        status
    })
}

/// Returns the program's properties, and its mechanism.
fn choose(options: &RunOptions, file: &Path, scope: &Scope, opened: &Opened) -> (Program, Choice) {
    let is_in_scope = file.canonicalize().is_ok_and(|canonical| scope.includes(&canonical));
    let program = Program::examine(file, is_in_scope, &|path| opened.open(path));
    if options.service.via != Via::Off && !serves(scope) {
        return (program, Choice::off(why_nothing(scope, SHARED)));
    }
    let is_root = rustix::process::geteuid().is_root();
    let choice = Choice::make(options.service.via, &program, is_root, || {
        probe_if(options.service.served.follow_fork, namespace::probe)
    });
    if options.service.via == Via::Namespace && choice.mechanism.is_audit() {
        log(format_args!("warning: {}. Going on with --via {}", choice.reason, choice.mechanism.name()));
    }
    (program, choice)
}

/// Reports what a script may not do in its namespace, and gives a person hints on what can't be gained.
fn hint(
    options: &RunOptions,
    audience: Audience,
    (file, program, mechanism): (&Path, &Program, Mechanism),
    (ahead, opened): (&Ahead, &Opened),
) {
    let harmed = notes::harmed(file, mechanism, &|path| opened.open(path));
    harmed.filter(|_| audience.reads_failures()).iter().for_each(log);
    // A recording is on one node anyway.
    if !audience.reads_hints() || options.records {
        return;
    }
    let has_list = matches!(options.service.served.preload(), PreloadOption::File(_));
    let start = NotedStart {
        processes: options.nodes * options.ppn,
        has_others: notes::starts_others(file, program, &|path| opened.open(path)),
        knows_files: has_list || ahead.preload().is_some() || options.service.storage.cache().is_some(),
        leaves_list: matches!(ahead, Ahead::Learning(_)),
    };
    let hints = [notes::first_alone(start), notes::unaudited(options.service.via == Via::Audit, program)];
    hints.iter().flatten().for_each(log);
}

/// Starts the processes, forwards signals and waits; returns how they ended.
fn supervise(
    (options, io): (&RunOptions, &IoOptions),
    choice: &Choice,
    nodes: &[u32],
    serving: &mut Option<Serving>,
    events: &Receiver<Event>,
) -> Result<Ending> {
    let session = serving.as_mut().map(|s| (s.session.name(), std::mem::take(&mut s.access)));
    let launch = Launch {
        program: &options.program,
        nodes,
        nodes_total: options.nodes,
        ppn: options.ppn,
        ranks: &options.ranks,
        trace: Some(&options.trace).filter(|_| options.is_explained || !makes_own_calls(choice.mechanism)),
        io,
        session,
    };
    if let Some(Interrupted(number)) = events.try_iter().find_map(|event| event.interrupts()) {
        return Ok(Ending::by(number));
    }
    wait_for(launch.start()?, events, |event| {
        let Event::Daemon(output) = event else { return };
        let Some(serving) = serving.as_mut().filter(|s| s.session.id == output.session) else { return };
        if output.line.is_none() {
            warn_of_end(choice.mechanism, output.node);
        }
        serving.daemons.note_output(&output);
    })
}

/// Returns whether a program's calls on files are not those that it would make without Headwater.
fn makes_own_calls(mechanism: Mechanism) -> bool {
    matches!(mechanism, Mechanism::Audit { .. } | Mechanism::Mount)
}

fn warn_of_end(mechanism: Mechanism, node: usize) {
    let (what, then) = match mechanism {
        Mechanism::Namespace { .. } | Mechanism::Mount | Mechanism::Audit { has_mount: true } => {
            ("supervisor", "Its daemon serves on, but is not replaced if it fails")
        }
        Mechanism::Audit { has_mount: false } | Mechanism::Off => ("daemon", "Its processes use the source files"),
    };
    log(format_args!("warning: the {what} of node {node} has ended. {then}"));
}
