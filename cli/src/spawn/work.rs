//! The worker: it starts the processes, forwards signals, and waits for the processes and their output.

use std::ffi::{CString, OsStr};
use std::io::{self, stderr};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow};
use rustix::io::Errno;
use rustix::process::{Pid, Signal};
use signal_hook::consts::SIGINT;

use super::guard::{self, FORWARDED, Guard};
use super::library::{Context, Mechanism, Process};
use super::options::{Cores, From, Output, SpawnOptions};
use super::outlet::{self, Outlet};
use super::plan::{self, Plan};
use super::processes::{Processes, ReapScope};
use super::report::Report;
use super::screen::{Screen, Shown};
use crate::exec::complaint;
use crate::installed;
use crate::message::{log, show};
use crate::process::BlockedSignals;
use crate::session::events;
use crate::session::signals;

/// The library that makes a program a zygote.
const ZYGOTE_LIBRARY: &str = "libheadwater-zygote.so";
/// The smallest number of processes for which a zygote pays: its start costs more than a process's, and it then saves
/// at least half of each further one.
const ZYGOTE_PAYS: u32 = 4;
/// Limits of one call's processes and time: signals are handled between calls.
const BATCH_MAX: usize = 256;
const BATCH_TIME: Duration = Duration::from_millis(50);
/// Two Ctrl-C within this time kill.
const KILL_WITHIN: Duration = Duration::from_secs(2);
/// How long processes may take to end after SIGTERM.
const END_MAX: Duration = Duration::from_secs(5);

/// An event of the worker.
#[derive(Debug)]
enum Event {
    Signal(events::Signal),
    /// All pipes are closed; true if all was written.
    OutputEnded(bool),
}

/// Does the work; returns the exit status. Unblocks signals once they are watched.
pub fn work(options: &SpawnOptions, guard: Guard, blocked: BlockedSignals) -> Result<u8> {
    let (sender, events) = channel();
    let signal_sender = sender.clone();
    signals::watch_for(&FORWARDED, move |signal| signal_sender.send(Event::Signal(signal)).is_ok())?;
    drop(blocked);
    let begun = Instant::now();
    let (mut context, why) = match prepare(options) {
        Ok(prepared) => prepared,
        Err(e) => {
            let (status, text) = complaint(&options.program[0], e);
            log(text);
            return Ok(status);
        }
    };
    let (mechanism, refusal) = context.mechanism();
    let why = refusal.or(why);
    if let (From::Zygote, Some(why)) = (options.from, why.as_ref().filter(|_| mechanism != Mechanism::Zygote)) {
        log(format_args!(
            "warning: no zygote can be made of {}: {why}. Going on by exec",
            options.program[0].display()
        ));
    }
    for module in context.left_out() {
        let (name, why) = module.split_once(": ").unwrap_or((&module, ""));
        log(format_args!("warning: the zygote has not imported {name}: {why}. Each process imports it itself"));
    }
    let screen = Arc::new(Screen::default());
    let mut outlet = open_outlet(options, &screen, sender)?;
    let mut work = Work::new(options, guard, &events, outlet.is_some());
    let prepared = begun.elapsed();
    let starting = Instant::now();
    work.start(context, Plan::new(options, mechanism, outlet.as_mut())?, &screen)?;
    let starting = starting.elapsed();
    drop(outlet);
    work.wait()?;
    if options.report {
        let report = Report {
            started: work.started as usize,
            wanted: options.processes as usize,
            program: options.program[0].to_string_lossy().into_owned(),
            mechanism: mechanism.name(),
            why,
            prepared,
            starting,
            calls: std::mem::take(&mut work.calls),
            lifetimes: std::mem::take(&mut work.processes.lifetimes),
        };
        show(stderr(), report);
    }
    Ok(work.status())
}

/// Prepares the program; returns it with the reason if this function decided against a zygote.
fn prepare(options: &SpawnOptions) -> io::Result<(Context, Option<String>)> {
    let few = options.from == From::Auto && options.processes < ZYGOTE_PAYS;
    let mechanism = if few { Mechanism::Vfork } else { options.from.mechanism() };
    Ok((
        open_context(options, mechanism)?,
        few.then(|| format!("for fewer than {ZYGOTE_PAYS} processes a zygote doesn't pay")),
    ))
}

/// Prepares the program, and its zygote if processes are forked from one.
pub fn open_context(options: &SpawnOptions, mechanism: Mechanism) -> io::Result<Context> {
    let program = CString::new(options.program[0].as_bytes())?;
    // The spawning library reports a missing file.
    let library = installed::find(ZYGOTE_LIBRARY).unwrap_or_else(|_| PathBuf::from(ZYGOTE_LIBRARY));
    let environment = plan::environment(options.processes);
    let interpreter = plan::interpreter(options)?;
    let cores = options.cores.iter().flat_map(|Cores(cores)| cores.first().copied()).collect();
    let like = Process { variables: plan::variables(0), cores, ..Process::default() };
    Context::create(&program, mechanism, environment, &like, &library, options.stop, interpreter.as_ref())
}

fn open_outlet(options: &SpawnOptions, screen: &Arc<Screen>, sender: Sender<Event>) -> Result<Option<Outlet>> {
    if options.output != Output::Label {
        return Ok(None);
    }
    if !outlet::can_connect() {
        log("warning: /proc does not show this process's pipes, so output is not labelled (as --output none)");
        return Ok(None);
    }
    let outlet = Outlet::start(Arc::clone(screen), move |is_whole| drop(sender.send(Event::OutputEnded(is_whole))));
    outlet.map(Some).context("the processes' output can't be read")
}

struct Work<'a> {
    options: &'a SpawnOptions,
    guard: Guard,
    events: &'a Receiver<Event>,
    processes: Processes,
    started: u32,
    /// For each process, the duration of the call that started it.
    calls: Vec<Duration>,
    /// The exit status for a process that could not be started.
    refused: Option<u8>,
    /// The signal that stopped the starting of processes.
    stopped_by: Option<i32>,
    interrupted: Option<Instant>,
    /// When remaining processes are killed.
    kill_at: Option<Instant>,
    is_ending: bool,
    is_killed: bool,
    /// Whether the worker waits for output.
    has_output: bool,
    has_lost_output: bool,
}

impl<'a> Work<'a> {
    fn new(options: &'a SpawnOptions, guard: Guard, events: &'a Receiver<Event>, has_output: bool) -> Work<'a> {
        Work {
            options,
            guard,
            events,
            processes: Processes::default(),
            started: 0,
            calls: Vec::new(),
            refused: None,
            stopped_by: None,
            interrupted: None,
            kill_at: None,
            is_ending: false,
            is_killed: false,
            has_output,
            has_lost_output: false,
        }
    }

    /// Starts all processes, in calls that are short enough to handle signals between them. Drops the context.
    fn start(&mut self, mut context: Context, mut plan: Plan<'_>, screen: &Screen) -> Result<()> {
        let mut shown = Shown::new(screen, self.options.progress, self.options.processes);
        let mut batch = 1;
        while self.started < self.options.processes && self.may_start() {
            let count = batch.min((self.options.processes - self.started) as usize);
            let called = Instant::now();
            if let Err(e) = self.start_batch(&mut context, &mut plan, count) {
                // Running processes continue.
                log(format_args!("process {} can't be started: {e:#}", self.started));
                self.refused = Some(crate::status::FAILURE);
            }
            let took = called.elapsed();
            batch = if took * 2 <= BATCH_TIME { (batch * 2).min(BATCH_MAX) } else { (batch / 2).max(1) };
            while let Ok(event) = self.events.try_recv() {
                self.handle(event, ReapScope::Group)?;
            }
            self.processes.reap(ReapScope::Group);
            self.after_failures();
            shown.show(self.started);
        }
        Ok(())
    }

    fn may_start(&self) -> bool {
        self.refused.is_none() && self.stopped_by.is_none() && !self.is_ending
    }

    fn start_batch(&mut self, context: &mut Context, plan: &mut Plan<'_>, count: usize) -> Result<()> {
        let first = self.started;
        let made = (0..count as u32).map(|number| plan.process(first + number)).collect::<io::Result<Vec<_>>>();
        let (processes, ends): (Vec<Process>, Vec<_>) =
            made.context("a process's pipes can't be made")?.into_iter().unzip();
        let called = Instant::now();
        let outcomes = context.spawn(&processes, &plan.common(first)).context("no process can be started")?;
        let took = called.elapsed();
        drop(ends);
        let mut failed = outcomes.iter().enumerate().filter_map(|(at, outcome)| Some((at, outcome.as_ref().err()?)));
        if let Some((at, error)) = failed.next() {
            let others = failed.count();
            self.refused = Some(self.complain(first + at as u32, error, others));
        }
        for pid in outcomes.into_iter().flatten() {
            self.add(pid, called, took);
        }
        Ok(())
    }

    fn add(&mut self, pid: Pid, called: Instant, took: Duration) {
        self.processes.add(pid, called);
        self.calls.push(took);
        self.started += 1;
    }

    /// Reports why a process, and others with it, could not be started; returns the exit status.
    fn complain(&self, rank: u32, error: &io::Error, others: usize) -> u8 {
        let with = if others > 0 { format!(" and {others} after it") } else { String::new() };
        let file = plan::output_file(self.options, rank);
        let unwritable = file.as_ref().and_then(|file| Some((file, file_error(file)?)));
        if let Some((file, e)) = unwritable {
            let file = file.display();
            log(format_args!("process {rank}{with} can't be started: {file} can't be written: {e}. See --output"));
            return crate::status::FAILURE;
        }
        if matches!(Errno::from_io_error(error), Some(Errno::AGAIN | Errno::NOMEM)) {
            log(format_args!(
                "process {rank}{with} can't be started: {error}. Start fewer, or allow more processes (ulimit -u) or \
                 memory"
            ));
            return crate::status::FAILURE;
        }
        let again = io::Error::from_raw_os_error(error.raw_os_error().unwrap_or(libc::EIO));
        let (status, text) = complaint(&self.options.program[0], again);
        log(format_args!("process {rank}{with} can't be started: {text}"));
        status
    }

    /// Waits until all processes and their output have ended.
    fn wait(&mut self) -> Result<()> {
        self.processes.reap(ReapScope::All);
        self.after_failures();
        while self.processes.running() > 0 || self.has_output {
            let event = match self.kill_at.map(|at| at.saturating_duration_since(Instant::now())) {
                None => self.events.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(left) => self.events.recv_timeout(left),
            };
            match event {
                Ok(event) => self.handle(event, ReapScope::All)?,
                Err(RecvTimeoutError::Timeout) => self.kill(),
                Err(RecvTimeoutError::Disconnected) => return Err(anyhow!("signals are no longer watched")),
            }
            self.after_failures();
        }
        if self.is_ending {
            self.kill();
        }
        Ok(())
    }

    /// Kills all processes and their descendants. The rest of their output then ends at once, unless a process that
    /// can't be killed holds a pipe.
    fn kill(&mut self) {
        guard::end_all();
        self.processes.killed();
        self.has_output &= !std::mem::replace(&mut self.is_killed, true);
        self.kill_at = self.has_output.then(|| Instant::now() + END_MAX);
    }

    fn handle(&mut self, event: Event, scope: ReapScope) -> Result<()> {
        let signal = match event {
            Event::OutputEnded(is_whole) => {
                self.has_output = false;
                self.has_lost_output = !is_whole;
                return Ok(());
            }
            Event::Signal(signal) => signal,
        };
        if !self.guard.is_alive() {
            guard::end_all();
            return Err(anyhow!("the command was killed, and its processes with it"));
        }
        if signal.is_child() {
            self.processes.reap(scope);
            return Ok(());
        }
        let Some(number) = Signal::from_named_raw(signal.number) else { return Ok(()) };
        // The kernel has sent its signal to the whole group, but not to processes that have left it.
        if signal.from_kernel {
            self.processes.signal_others(number)
        } else {
            self.processes.signal(number)
        }
        if matches!(number, Signal::INT | Signal::TERM | Signal::HUP | Signal::QUIT) {
            self.stopped_by = Some(signal.number);
            // Without running processes, only other programs hold the output open.
            self.has_output &= scope == ReapScope::Group || self.processes.running() > 0;
        }
        if signal.number == SIGINT && self.interrupted.replace(signal.at).is_some_and(|t| signal.at - t < KILL_WITHIN) {
            log(format_args!("killing {} processes and their descendants", self.processes.running()));
            self.kill();
        }
        Ok(())
    }

    /// Ends the other processes after a failure, with --kill-on-failure.
    fn after_failures(&mut self) {
        let has_failed = self.processes.failure.or(self.refused).is_some();
        if self.options.kill_on_failure && has_failed && !self.is_ending {
            self.is_ending = true;
            self.processes.signal(Signal::TERM);
            self.kill_at = Some(Instant::now() + END_MAX);
        }
    }

    fn status(&self) -> u8 {
        let unfinished = self.stopped_by.filter(|_| self.started < self.options.processes);
        let stopped = unfinished.map(|signal| (128 + signal) as u8);
        let lost = self.has_lost_output.then_some(crate::status::FAILURE);
        self.refused.or(self.processes.failure).or(stopped).or(lost).unwrap_or(0)
    }
}

/// Returns why a process can't write its output to this file.
fn file_error(file: &OsStr) -> Option<io::Error> {
    std::fs::OpenOptions::new().append(true).create(true).open(file).err()
}
