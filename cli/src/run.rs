//! `headwater run`: a program in a session of its own.

use std::env;
use std::ffi::OsString;
use std::fmt;
use std::io::{IsTerminal, stderr, stdout};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Instant;

use anyhow::{Context, Result};
use headwater_closure::program;
use headwater_closure::scope::{Named, Scope, World, network_file_system};
use headwater_daemon::Report;

use crate::daemons::{Daemons, Shape};
use crate::exec;
use crate::launch::{Attachment, Launch};
use crate::message::{say, show};
use crate::opened::Opened;
use crate::options::RunOptions;
use crate::prepare;
use crate::session::{Session, base_directory};
use crate::signals::{self, Signal};
use crate::store;
use crate::summary::{Start, Summary};

/// What `run` waits for.
#[derive(Debug)]
pub enum Event {
    /// A signal came.
    Signal(Signal),
    /// A daemon said a line, or nothing more comes from it (`None`).
    Daemon(usize, Option<String>),
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

/// A session that serves. The daemons end before the session's directory goes.
struct Serving {
    daemons: Daemons,
    session: Session,
    attachments: Vec<Attachment>,
}

/// Runs the program and gives the exit status.
pub fn run(options: &RunOptions) -> Result<u8> {
    let start = Start::now();
    let cwd = env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
    let name = &options.program[0];
    let program = match program::find(name, env::var_os("PATH").as_deref(), &cwd) {
        Ok(program) => program,
        Err(e) => {
            let (status, message) = exec::complaint(name, e.into());
            say(message);
            return Ok(status);
        }
    };
    let opened = Opened::default();
    let scope = discover(options, &program, &cwd, &opened);
    if options.show_scope {
        show(stdout(), &scope);
        return Ok(0);
    }
    if options.verbose {
        show(stderr(), &scope);
    }
    let (sender, events) = channel();
    signals::watch(sender.clone())?;
    let mut serving = None;
    let mut off = None;
    if scope.entries.iter().any(|e| e.included) {
        match serve(options, scope, opened, &sender, &events) {
            Ok(started) => serving = Some(started),
            Err(e) => match e.downcast_ref::<Interrupted>() {
                Some(Interrupted(number)) => return Ok((128 + number) as u8),
                None => {
                    say(format_args!("warning: {e:#}. The program runs without Headwater"));
                    off = Some(format!("{e:#}"));
                }
            },
        }
    } else {
        off = Some("no directory of the program is on a network file system; name some with --shared".into());
    }
    let mut summary = Summary::new(options.nodes, options.processes(), off);
    summary.timeline.daemons_ready = serving.is_some().then(|| start.elapsed_ms());
    summary.exit_status = supervise(options, &mut serving, &events)?;
    summary.timeline.program_exit = Some(start.elapsed_ms());
    if let Some(serving) = serving {
        summary.add(&serving.end(&events), start);
    }
    report(options, &summary);
    Ok(summary.exit_status)
}

fn discover(options: &RunOptions, program: &Path, cwd: &Path, opened: &Opened) -> Scope {
    let variable = |name: &str| -> Option<OsString> { env::var_os(name) };
    let open = |path: &Path| opened.open(path);
    let world = World { cwd, variable: &variable, network: &network_file_system, open: &open };
    let scope = Scope::discover(program, Named { shared: &options.shared, exclude: &options.exclude }, world);
    for missing in scope.refused.iter().filter(|r| r.reason == "--shared") {
        say(format_args!("warning: {}: {}", missing.path.display(), missing.because));
    }
    scope
}

/// Starts a session and waits until it serves.
fn serve(
    options: &RunOptions,
    mut scope: Scope,
    opened: Opened,
    sender: &Sender<Event>,
    events: &Receiver<Event>,
) -> Result<Serving> {
    let library = prepare::read_audit_library()?;
    let store = store::choose(options.store.as_deref(), options.store_max, options.nodes)?;
    if options.verbose {
        say(format_args!("stores in {}, of at most {} bytes each", store.directory.display(), store.bytes_max));
    }
    scope.cut_out(&base_directory(&store.directory), "the store");
    let session = Session::create(&store.directory, options.nodes)?;
    let attach = |node: u32| {
        let node = session.node(node);
        Ok(Attachment { audit: prepare::prepare_node(&node, &library)?, table: node.table() })
    };
    let attachments = (0..options.nodes).map(attach).collect::<Result<Vec<_>>>()?;
    let shape = Shape {
        nodes: options.nodes,
        fan_out: options.fan_out,
        policy: options.policy(),
        store_bytes_max: store.bytes_max,
        scope: scope.pairs(),
        opened,
        verbose: options.verbose,
    };
    let mut daemons = Daemons::start(&session, &shape, sender)?;
    daemons.wait_ready(events)?;
    Ok(Serving { daemons, session, attachments })
}

/// Starts the processes and waits for them, passing signals on; gives their exit status.
fn supervise(options: &RunOptions, serving: &mut Option<Serving>, events: &Receiver<Event>) -> Result<u8> {
    let session = serving.as_mut().map(|s| (s.session.name(), std::mem::take(&mut s.attachments)));
    let launch = Launch { program: &options.program, nodes: options.nodes, ppn: options.ppn, session };
    if let Some(Interrupted(number)) = events.try_iter().find_map(|event| event.interrupts()) {
        return Ok((128 + number) as u8);
    }
    let mut processes = launch.start()?;
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
            Event::Daemon(rank, line) => {
                if line.is_none() {
                    say(format_args!("warning: the daemon of node {rank} is gone. Its processes use the originals"));
                }
                if let Some(serving) = serving {
                    serving.daemons.heard(rank, line.as_deref());
                }
            }
        }
    }
    Ok(processes.status())
}

impl Serving {
    fn end(self, events: &Receiver<Event>) -> Vec<Option<Report>> {
        let reports = self.daemons.stop(events);
        drop(self.session);
        reports
    }
}

fn report(options: &RunOptions, summary: &Summary) {
    if options.prints_summary(stderr().is_terminal()) {
        show(stderr(), summary);
    }
    if let Some(Err(e)) = options.summary_json.as_ref().map(|file| summary.write_json(file)) {
        say(format_args!("{e:#}. Name a file that can be written with --summary-json"));
    }
}
