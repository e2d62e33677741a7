//! `headwater run` with a launcher, or in a persistent session.

use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use headwater_closure::scope::Scope;
use headwater_launch::command::Prepared;

use super::allocation;
use super::client::FrontClient;
use super::file::key::JobKey;
use super::file::{Job, JobFile};
use super::front::Front;
use super::messages::{FromNode, ToNode};
use super::paths;
use super::programs::{discover_all, find, first_command, programs, service, with_prefix};
use super::watch::Watch;
use crate::ahead::{Ahead, allow_without};
use crate::discover::{serves, why_nothing};
use crate::io::options::IoOptions;
use crate::io::preload;
use crate::job_report::JobReport;
use crate::launch::{self, Processes};
use crate::message::{log, show};
use crate::notes::Audience;
use crate::notes::progress::Progress;
use crate::options::run::{RunOptions, ServiceOptions};
use crate::process::inherited;
use crate::report::report;
use crate::self_exec;
use crate::session::directory::Session;
use crate::session::events::Event;
use crate::session::opened::Opened;
use crate::session::signals;
use crate::session::wait::wait;
use crate::status::Ending;
use crate::summary::{Start, Summary};
use crate::via::{Choice, Mechanism, Via};

/// Timeout of the front end's answer.
const WELCOME_MAX: Duration = Duration::from_secs(10);

/// Runs the launcher and returns how it ended.
pub fn run(options: &RunOptions, found: &Prepared, progress: Progress) -> Result<Ending> {
    let start = Start::now();
    let job_report = JobReport::of(options, start).filter(|_| !options.show_scope);
    let opened = Opened::default();
    let (scope, program) = discover_all(&options.service, &programs(found), &opened);
    if options.show_scope {
        show(io::stdout(), format_args!("{}\n{scope}", found.explanation));
        return Ok(Ending::default());
    }
    if options.service.verbose {
        log(&found.explanation);
        show(io::stderr(), &scope);
    }
    let choice = choose(options, &scope, program.is_some(), found);
    let io = preload::settle(&options.io, &programs(found), program.as_ref().map(|found| &found.program));
    let mut summary = Summary::new(0, 0, &choice);
    let is_served = choice.mechanism != Mechanism::Off;
    drop(progress);
    if !is_served {
        allow_without(options, &choice.reason)?;
        Audience::here(options).report_off(options, false, &choice.reason);
        job_report.iter().for_each(|report| report.leave_out(&choice.reason));
    }
    if !is_served && !io.is_wanted() {
        summary.exit_status = run_command(&plain_command(options))?;
        summary.timeline.program_exit_ms = Some(start.elapsed_ms());
        report(options, &first_program(options, found), &summary);
        return Ok(summary.exit_status);
    }
    let (sender, events) = channel();
    signals::watch_all(sender.clone())?;
    let scope = if is_served { scope } else { Scope::default() };
    let found_program = program.unwrap_or_default();
    let ahead = match is_served {
        true => Ahead::of(options, &first_command(found), &found_program.file, &scope)?,
        false => Ahead::Named,
    };
    let mut service = service(&options.service, &scope, found_program, Some(&io));
    (service.nodes, service.preload) = (allocation::nodes_of(found), ahead.preload().or(service.preload));
    (service.records, service.reports) = (ahead.records(), is_served && job_report.is_some());
    let begun = open(&options.service, service, sender)
        .and_then(|(front, job, file)| Ok((prepared_command(options, &io, file.path(), false)?, front, job, file)));
    let ((command, _replaced), front, job, file) = match begun {
        Ok(begun) => begun,
        Err(error) => {
            job_report.iter().for_each(|report| report.leave_out("no session could be made"));
            return run_unserved(options, found, &events, &error, start);
        }
    };
    let launcher = start_launcher(&command)?;
    front.expect_many();
    let merger = job_report.as_ref().filter(|_| job.service.reports).map(JobReport::merger);
    let mut watch = Watch::new(&job.service).merge_into(merger);
    summary.exit_status = wait(launcher, &events, |event| watch.note(event, start))?;
    summary.timeline.program_exit_ms = Some(start.elapsed_ms());
    watch.ends();
    front.end();
    watch.collect_reports(&events, start);
    drop(file);
    let (recorded, merged) = (watch.take_recorded(), watch.take_merged());
    if is_served {
        watch.add_to(&job.service, &mut summary, start);
    }
    if let Err(error) = ahead.settle(&summary, &recorded) {
        summary.fail(&error);
    }
    report(options, &first_program(options, found), &summary);
    job_report.iter().zip(merged).for_each(|(to, (merger, ranks))| drop(to.write(merger, ranks, &summary)));
    Ok(summary.exit_status)
}

/// Runs the launcher without a session, because none could be made; returns how it ended.
fn run_unserved(
    options: &RunOptions,
    found: &Prepared,
    events: &Receiver<Event>,
    why: &anyhow::Error,
    start: Start,
) -> Result<Ending> {
    allow_without(options, &format!("{why:#}"))?;
    warn_without(why);
    let mut summary = Summary::new(0, 0, &Choice::off(format!("{why:#}")));
    summary.exit_status = wait(start_launcher(&plain_command(options))?, events, |_| {})?;
    summary.timeline.program_exit_ms = Some(start.elapsed_ms());
    report(options, &first_program(options, found), &summary);
    Ok(summary.exit_status)
}

/// Returns the name of the first program that the launcher starts, or of the launcher.
fn first_program(options: &RunOptions, found: &Prepared) -> OsString {
    programs(found).into_iter().next().unwrap_or_else(|| options.program[0].clone())
}

/// Returns whether nodes serve the program, and why. Each node chooses its mechanism itself.
fn choose(options: &RunOptions, scope: &Scope, is_found: bool, launch: &Prepared) -> Choice {
    if options.service.via == Via::Off {
        Choice::off("--via off".into())
    } else if !is_found {
        let name = programs(launch).into_iter().next().unwrap_or_default();
        Choice::off(format!(
            "{} is not found on this machine; if nodes have it at another path than this machine, use --map FROM=TO",
            name.display()
        ))
    } else if !serves(scope) {
        Choice::off(why_nothing(scope, "--shared "))
    } else {
        Choice { mechanism: Mechanism::AUDIT_ALONE, reason: launch.explanation.clone() }
    }
}

/// Opens a front end, and writes its job file.
pub fn open(
    options: &ServiceOptions,
    service: super::file::Service,
    events: std::sync::mpsc::Sender<Event>,
) -> Result<(Front, Job, JobFile)> {
    let (front, job) = open_front(options, service, events)?;
    let file = job.write(options.job_dir.as_deref())?;
    Ok((front, job, file))
}

/// Opens a front end; returns it with the job for its nodes.
pub fn open_front(
    options: &ServiceOptions,
    service: super::file::Service,
    events: std::sync::mpsc::Sender<Event>,
) -> Result<(Front, Job)> {
    let (session, key) = Session::draw()?;
    let job_key = JobKey::new(session, key.clone(), options.key_protection)?;
    let front = Front::open(session, key, options.shape.clone(), options.ports, events)?;
    let job = Job::new(session, job_key, front.addresses.clone(), service);
    Ok((front, job))
}

/// Runs the command in an existing session, or without Headwater if that fails; returns how it ended.
pub fn run_in(options: &RunOptions, session: &str) -> Result<Ending> {
    if options.report.is_some() {
        log(
            "note: --report is for sessions that end with the program; --session writes none. `headwater stats` shows a session's counters",
        );
    }
    match join_session(options, session) {
        Ok((command, _use)) => run_command(&command),
        Err(error) => run_without(options, &error),
    }
}

/// Runs the command in the session of this process's job; returns how it ended. `None` if there is none that serves
/// what the options ask for.
pub fn run_in_job(options: &RunOptions) -> Option<Result<Ending>> {
    let asks_more = options.show_scope || options.report.is_some() || options.summary_json.is_some();
    if asks_more || options.sealed.sealed.is_some() || options.nodes > 1 || options.ppn > 1 {
        return None;
    }
    let (session, _) = allocation::session(&options.service)?;
    match join_session(options, &session) {
        Ok((command, _use)) => Some(run_command(&command)),
        Err(error) => {
            log(format_args!("warning: {error:#}. This launch has a session of its own"));
            None
        }
    }
}

/// Held while a launch in a session runs: the connection that counts it, and its files.
struct SessionUse {
    _client: FrontClient,
    _files: Vec<Written>,
}

/// Registers a launch in a session; returns the command for the session's nodes.
fn join_session(options: &RunOptions, session: &str) -> Result<(Vec<OsString>, SessionUse)> {
    let (path, job) = Job::of_session(session, options.service.job_dir.as_deref())?;
    let client = begin_launch(session, &job)?;
    let names = find(&options.program, options.marker.as_deref())?.map(|found| programs(&found));
    let names = names.unwrap_or_else(|| options.program[..1].to_vec());
    let io = preload::settle(&options.io, &names, names.first().and_then(|name| preload::examine(name)).as_ref());
    let (command, replaced) = prepared_command(options, &io, &path, true)?;
    Ok((command, SessionUse { _client: client, _files: replaced }))
}

/// Registers a launch in a session, for as long as the connection is held.
pub fn begin_launch(session: &str, job: &Job) -> Result<FrontClient> {
    let mut client =
        FrontClient::new(job).with_context(|| format!("the front end of session {session} can't be reached"))?;
    ensure!(matches!(client.ask(&FromNode::Launching, WELCOME_MAX)?, ToNode::Welcome), "session {session} is ending");
    Ok(client)
}

/// Runs the command without Headwater, and reports why.
pub fn run_without(options: &RunOptions, why: &anyhow::Error) -> Result<Ending> {
    allow_without(options, &format!("{why:#}"))?;
    warn_without(why);
    run_command(&plain_command(options))
}

fn warn_without(why: &anyhow::Error) {
    log(format_args!("warning: {why:#}. The command runs without Headwater"));
}

/// Returns the command without markers.
fn plain_command(options: &RunOptions) -> Vec<OsString> {
    options.program.iter().filter(|argument| Some(*argument) != options.marker.as_ref()).cloned().collect()
}

fn run_command(arguments: &[OsString]) -> Result<Ending> {
    let (sender, events) = channel();
    signals::watch_all(sender)?;
    wait(start_launcher(arguments)?, &events, |_| {})
}

/// Returns the command with `headwater exec` before each program, and its files, which are removed when dropped.
/// `io_everywhere`: all nodes are taken to have the I/O library.
fn prepared_command(
    options: &RunOptions,
    io: &IoOptions,
    job: &Path,
    io_everywhere: bool,
) -> Result<(Vec<OsString>, Vec<Written>)> {
    let mut prefix = prefix(&options.service, job)?;
    let end = prefix.pop();
    prefix.extend(options.ranks.arguments());
    let cwd = env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
    let on_nodes = |path: &Path| paths::on_nodes(&options.service.map, path);
    prefix.extend(io.absolute(&cwd, &on_nodes).arguments(io_everywhere));
    prefix.extend(end);
    let mut prepared = with_prefix(&options.program, &prefix, options.marker.as_deref())?;
    let written = replace(&mut prepared, job)?;
    Ok((prepared.arguments, written))
}

/// Returns what makes a program of a launcher take part in the session of this job file.
pub fn prefix(options: &ServiceOptions, job: &Path) -> Result<Vec<OsString>> {
    let on_nodes = |path: &Path| paths::on_nodes(&options.map, path);
    let mut prefix: Vec<OsString> = vec![on_nodes(&self_exec::installed()?).into(), "exec".into()];
    prefix.extend(["--job".into(), on_nodes(job).into()]);
    prefix.extend(options.storage.store.iter().flat_map(|store| [OsString::from("--store"), store.into()]));
    prefix.push("--".into());
    Ok(prefix)
}

fn start_launcher(arguments: &[OsString]) -> Result<Processes> {
    Ok(Processes::of(launcher(arguments).spawn().context("the launcher can't be started")?))
}

/// Returns a command that starts a launcher, which ends with this process.
pub fn launcher(arguments: &[OsString]) -> Command {
    let mut command = self_exec::command();
    command.args(["exec", "--parent", &std::process::id().to_string(), "--gently", "--"]).args(arguments);
    command.env_remove(launch::SESSION).env_remove(launch::TABLE).env_remove(launch::MOUNT);
    inherited::pass_on(&mut command);
    command
}

/// Writes changed copies of the launcher's files of programs, beside the job file.
fn replace(prepared: &mut Prepared, job: &Path) -> Result<Vec<Written>> {
    let mut written = Vec::new();
    for (number, replacement) in prepared.files.clone().into_iter().enumerate() {
        let path = job.with_extension(format!("{}-{number}", std::process::id()));
        let file = File::options().write(true).create_new(true).mode(0o600).open(&path);
        let mut file = file.with_context(|| format!("{} can't be made", path.display()))?;
        written.push(Written(path.clone()));
        file.write_all(&replacement.text)?;
        replacement.put(&mut prepared.arguments, path.as_os_str());
    }
    Ok(written)
}

/// A file that is removed when this is dropped.
struct Written(PathBuf);

impl Drop for Written {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}
