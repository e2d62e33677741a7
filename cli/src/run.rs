//! `headwater run`: a program in a session of its own.

use std::env;
use std::ffi::OsString;
use std::fmt;
use std::io::{self, IsTerminal, stderr, stdout};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

use anyhow::{Context, Result, anyhow};
use headwater_closure::program;
use headwater_closure::scope::{Named, Scope, World, network_file_system};
use rustix::io::Errno;

use crate::daemons::Said;
use crate::exec;
use crate::io::{self as mpi_io, options::IoOptions};
use crate::job::{self, News};
use crate::launch::{Launch, Processes};
use crate::message::{say, show};
use crate::namespace;
use crate::opened::Opened;
use crate::options::run::{RunOptions, ServiceOptions};
use crate::preload;
use crate::serving::{Serving, Wanted};
use crate::signals::{self, Signal};
use crate::summary::{Start, Summary};
use crate::topology;
use crate::via::{Choice, Mechanism, Program, Via};
use crate::warm;

/// What `run` waits for.
#[derive(Debug)]
pub enum Event {
    /// A signal came.
    Signal(Signal),
    /// A daemon said something, or has ended.
    Daemon(Said),
    /// Something became of a node of a job.
    Node(News),
}

impl Event {
    /// Says so if this is a signal that ends programs.
    pub fn interrupts(&self) -> Option<Interrupted> {
        match self {
            Event::Signal(signal) if signal.ends() => Some(Interrupted(signal.number)),
            _ => None,
        }
    }
}

/// A signal that ends programs came before the program was started.
#[derive(Debug)]
pub struct Interrupted(pub i32);

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "signal {} came before the program was started", self.0)
    }
}

impl std::error::Error for Interrupted {}

/// Runs the program and gives the exit status.
pub fn run(options: &RunOptions) -> Result<u8> {
    if let Some(session) = &options.use_session {
        return job::run_in(options, session);
    }
    match job::find(&options.program, options.marker.as_deref()) {
        Ok(None) => {}
        Ok(Some(found)) if found.is_detached && !options.show_scope => {
            let why = "the launcher does not wait for its programs, which would be served by nobody when it has ended: \
                       have it wait (as `flux run` does), or use a session of `headwater start`";
            return job::run_without(options, &anyhow!(why));
        }
        Ok(Some(found)) => return job::run(options, &found),
        Err(error) if options.show_scope => return Err(error),
        Err(error) => return job::run_without(options, &error),
    }
    run_with(options, |_| ())
}

/// Runs the program on nodes of this machine, and calls `at_end` when it has ended, before its session does, if it
/// has one. Where the user may have no more processes, the program takes the place of this one.
pub fn run_with(options: &RunOptions, at_end: impl FnOnce(&Serving)) -> Result<u8> {
    let is_alone = options.nodes == 1 && options.ppn == 1;
    match run_beside(options, at_end) {
        Err(error) if is_alone && is_short_of_processes(&error) => {
            say(format_args!(
                "warning: {error:#}: raise the limit of processes (ulimit -u). The program runs without Headwater"
            ));
            let (name, arguments) = options.program.split_first().expect("the program is required");
            let (status, message) = exec::complaint(name, Command::new(name).args(arguments).exec());
            say(message);
            Ok(status)
        }
        done => done,
    }
}

fn is_short_of_processes(error: &anyhow::Error) -> bool {
    let errno = |cause: &(dyn std::error::Error + 'static)| cause.downcast_ref::<io::Error>()?.raw_os_error();
    error.chain().filter_map(errno).any(|errno| errno == Errno::AGAIN.raw_os_error())
}

/// Runs the program as a child of this process.
fn run_beside(options: &RunOptions, at_end: impl FnOnce(&Serving)) -> Result<u8> {
    let start = Start::now();
    let arrangement = topology::arrange(&options.service.shape, options.nodes)?;
    let nodes = arrangement.program_nodes();
    let cwd = env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
    let name = &options.program[0];
    let file = match program::find(name, env::var_os("PATH").as_deref(), &cwd) {
        Ok(file) => file,
        Err(e) => {
            let (status, message) = exec::complaint(name, e.into());
            say(message);
            return Ok(status);
        }
    };
    let opened = Opened::default();
    let scope = discover(&options.service, &file, &cwd, &opened);
    let (program, mut choice) = choose(options, &file, &scope, &opened);
    if options.show_scope {
        show(stdout(), format_args!("{scope}{choice}\n"));
        return Ok(0);
    }
    if options.service.verbose {
        show(stderr(), &scope);
        say(&choice);
    }
    let (sender, events) = channel();
    signals::watch(sender.clone())?;
    let (file, program, scope) = (&file, &program, &scope);
    let preload = preload::prepare(&options.service.preload, file, &cwd);
    let preload = preload.as_ref();
    let wanted = Wanted { options, file, program, scope, opened: &opened, arrangement: &arrangement, preload };
    let mut serving = match wanted.serve(&mut choice, &sender, &events) {
        Ok(serving) => serving,
        Err(Interrupted(number)) => return Ok((128 + number) as u8),
    };
    drop(opened);
    let mut summary = Summary::new(options.nodes, nodes.len() as u32 * options.ppn, &choice);
    summary.servers = arrangement.servers;
    summary.timeline.daemons_ready = serving.is_some().then(|| start.elapsed_ms());
    let io = mpi_io::preload::settle(&options.io, &options.program[..1], Some(program));
    let io = io.absolute(&cwd, &|path| path.to_owned());
    summary.exit_status = supervise((options, &io), &choice, &nodes, &mut serving, &events)?;
    summary.timeline.program_exit = Some(start.elapsed_ms());
    if let Some(serving) = serving {
        at_end(&serving);
        summary.from_zygotes = nodes.iter().map(|&node| warm::ranks_of(serving.session.node(node).path())).sum();
        summary.preload.from = preload.map(preload::name);
        summary.add(&serving.end(&events), start);
    }
    report(options, &summary);
    Ok(summary.exit_status)
}

/// What is known of the program, and the mechanism for it.
fn choose(options: &RunOptions, file: &Path, scope: &Scope, opened: &Opened) -> (Program, Choice) {
    let is_in_scope = file.canonicalize().is_ok_and(|canonical| scope.includes(&canonical));
    let program = Program::examine(file, is_in_scope, &|path| opened.open(path));
    if !scope.entries.iter().any(|e| e.included) {
        let why = "no directory of the program is on a network file system; name some with --shared";
        return (program, Choice::off(why.into()));
    }
    let is_root = rustix::process::geteuid().is_root();
    let choice = Choice::make(options.service.via, &program, is_root, namespace::probe);
    if options.service.via == Via::Namespace && !matches!(choice.mechanism, Mechanism::Namespace { .. }) {
        say(format_args!("warning: {}. Going on with --via {}", choice.reason, choice.mechanism.name()));
    }
    (program, choice)
}

/// The directories of a program.
pub fn discover(options: &ServiceOptions, program: &Path, cwd: &Path, opened: &Opened) -> Scope {
    let variable = |name: &str| -> Option<OsString> { env::var_os(name) };
    let open = |path: &Path| opened.open(path);
    let world = World { cwd, variable: &variable, network: &network_file_system, open: &open };
    let scope = Scope::discover(program, Named { shared: &options.shared, exclude: &options.exclude }, world);
    for missing in scope.refused.iter().filter(|r| r.reason == "--shared") {
        say(format_args!("warning: {}: {}", missing.path.display(), missing.because));
    }
    scope
}

/// Starts the processes and waits for them, passing signals on; gives their exit status.
fn supervise(
    (options, io): (&RunOptions, &IoOptions),
    choice: &Choice,
    nodes: &[u32],
    serving: &mut Option<Serving>,
    events: &Receiver<Event>,
) -> Result<u8> {
    let session = serving.as_mut().map(|s| (s.session.name(), std::mem::take(&mut s.attachments)));
    let launch = Launch {
        program: &options.program,
        nodes,
        nodes_total: options.nodes,
        ppn: options.ppn,
        ranks: &options.ranks,
        io,
        session,
    };
    if let Some(Interrupted(number)) = events.try_iter().find_map(|event| event.interrupts()) {
        return Ok((128 + number) as u8);
    }
    wait_for(launch.start()?, events, |event| {
        let Event::Daemon(said) = event else { return };
        let Some(serving) = serving.as_mut().filter(|s| s.session.id == said.session) else { return };
        if said.line.is_none() {
            warn_of_end(choice.mechanism, said.node);
        }
        serving.daemons.heard(&said);
    })
}

/// Waits for the launcher, passing signals on; gives its exit status. `heard` is told what becomes of nodes.
pub fn wait(launcher: Processes, events: &Receiver<Event>, mut heard: impl FnMut(News)) -> Result<u8> {
    wait_for(launcher, events, |event| {
        if let Event::Node(news) = event {
            heard(news);
        }
    })
}

fn wait_for(mut processes: Processes, events: &Receiver<Event>, mut heard: impl FnMut(Event)) -> Result<u8> {
    let launched = Instant::now();
    let mut stopping = false;
    while !processes.reap() {
        // Only after its processes: whether they stop at all is theirs to say, and the kernel's, which
        // stops no process that nobody could continue.
        if stopping && processes.are_stopped() {
            signals::stop_here();
            stopping = false;
        }
        match events.recv().context("signals are no longer watched")? {
            Event::Signal(signal) => {
                stopping = signal.stops() || stopping && !signal.continues();
                // What the kernel sends to the foreground group reaches the processes that are there.
                let has_come = signal.from_kernel && signal.at > launched;
                if !signal.is_child() && !has_come {
                    processes.signal(signal.number);
                }
            }
            event => heard(event),
        }
    }
    Ok(processes.status())
}

fn warn_of_end(mechanism: Mechanism, node: usize) {
    let (what, then) = match mechanism {
        Mechanism::Namespace { .. } | Mechanism::Mount => {
            ("supervisor", "Its daemon serves on, but is not replaced if it fails")
        }
        Mechanism::Audit | Mechanism::Off => ("daemon", "Its processes use the originals"),
    };
    say(format_args!("warning: the {what} of node {node} is gone. {then}"));
}

/// Shows and writes the summary, as the user wants.
pub fn report(options: &RunOptions, summary: &Summary) {
    if options.prints_summary(stderr().is_terminal()) {
        show(stderr(), summary);
    } else if let Some((why, nodes)) = &summary.tcp_instead {
        say(format_args!("warning: {nodes} of {} nodes used TCP in place of libfabric: {why}", summary.nodes));
    }
    if options.service.numa_replicas && summary.off.is_none() && summary.via != Mechanism::Audit.name() {
        say(format_args!(
            "note: --numa-replicas does nothing with --via {}: the kernel has a mounted file in memory once. --via audit makes copies",
            summary.via
        ));
    }
    if let Some(Err(e)) = options.summary_json.as_ref().map(|file| summary.write_json(file)) {
        say(format_args!("{e:#}. Name a file that can be written with --summary-json"));
    }
}
