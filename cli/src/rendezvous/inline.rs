//! `headwater front`: the front end for a launcher's plugin, which carries the job to the nodes itself.
//!
//! The first line of standard output is the job (see `file`), or `failed: WHY`, or `off: WHY` if there is nothing to
//! serve. The front end ends when its standard input ends or has any input, so it ends with its owner.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use clap::{CommandFactory, FromArgMatches};

use super::allocation;
use super::client::FrontClient;
use super::events::NodeEvent;
use super::file::{Job, Service};
use super::front::Front;
use super::persistent::serve;
use super::programs::{discover_all, find, programs, service};
use super::run::{begin_launch, open_front};
use super::watch::Watch;
use crate::config::defaults::Defaults;
use crate::discover::{serves, why_nothing};
use crate::io::preload;
use crate::message::{log, show};
use crate::options::inner::FrontOptions;
use crate::options::run::StartOptions;
use crate::options::{Command, CommandLine};
use crate::session::events::Event;
use crate::session::opened::Opened;
use crate::session::signals;
use crate::summary::Start;
use crate::usage;
use crate::via::Via;

/// Stands for the program if that is not found on this machine.
const ANY_PROGRAM: &str = "sh";

/// The longest preload list, in bytes: a variable holds 128 KiB (execve(2)).
const PRELOAD_BYTES_MAX: usize = 64 << 10;

/// The option for directories, as users write it for the plugin.
const SHARED: &str = "shared=";

/// In place of options: only the session of the owner's job serves, if it has one.
const JOB: &str = "job";

/// The command whose options these are.
const START: &str = "start";

/// What to serve, if anything.
enum ServicePlan {
    Serve(Box<StartOptions>, Box<Service>),
    /// The session of the owner's job serves it.
    Join(Box<Job>, Box<FrontClient>),
    /// The reason why nothing is served.
    Off(String),
}

/// Runs the front end until its owner ends.
pub fn front(options: &FrontOptions) -> Result<u8> {
    crate::process::inherit_nothing();
    // Signals of the terminal's keys are for the owner.
    let _ = rustix::process::setsid();
    let (sender, events) = channel();
    let opened = plan(options).and_then(|plan| match plan {
        ServicePlan::Serve(options, service) => open(&options, *service, sender).map(Some),
        ServicePlan::Join(job, launch) => {
            println!("{}", serde_json::to_string(&job)?);
            hold(&launch).map(|()| None)
        }
        ServicePlan::Off(why) => {
            println!("off: {why}");
            Ok(None)
        }
    });
    let (is_verbose, front, job) = match opened {
        Ok(Some(opened)) => opened,
        Ok(None) => return Ok(0),
        Err(error) => {
            println!("failed: {error:#}");
            return Ok(crate::status::FAILURE);
        }
    };
    println!("{}", serde_json::to_string(&job)?);
    io::stdout().flush()?;
    env::set_current_dir("/")?;
    let null = File::options().write(true).open("/dev/null")?;
    if !is_verbose {
        // The owner waits for the end of this output.
        rustix::stdio::dup2_stdout(&null)?;
    }
    front.expect_many();
    let start = Start::now();
    let mut watch = Watch::new(&job.service);
    serve(&events, Duration::MAX, |event| watch.note(event, start));
    if !is_verbose {
        // A reader of the owner's standard error must not wait for the nodes.
        rustix::stdio::dup2_stderr(&null)?;
    }
    front.end();
    watch.collect_reports(&events, start);
    let summary = watch.summary(&job.service, "each node chooses", start);
    usage::record(options.program.first().map_or(OsStr::new(ANY_PROGRAM), OsString::as_os_str), &summary, is_verbose);
    if is_verbose {
        show(io::stderr(), summary);
    }
    Ok(0)
}

/// Keeps a launch registered until the owner ends.
fn hold(_launch: &FrontClient) -> Result<()> {
    io::stdout().flush()?;
    env::set_current_dir("/")?;
    rustix::stdio::dup2_stdout(File::options().write(true).open("/dev/null")?)?;
    let _ = io::stdin().read(&mut [0]);
    Ok(())
}

/// Returns what the nodes are to serve.
fn plan(options: &FrontOptions) -> Result<ServicePlan> {
    let is_job_alone = options.options == JOB;
    let start = parse_with_defaults(if is_job_alone { "" } else { &options.options })?;
    if start.service.via == Via::Off && !start.io.is_wanted() {
        return Ok(ServicePlan::Off("via=off".into()));
    }
    if start.service.via == Via::Mount {
        return Ok(ServicePlan::Off(
            "via=mount changes a program's paths, which a plugin can't: use `headwater run -- srun`".into(),
        ));
    }
    if !start.io.is_wanted()
        && let Some((session, job)) = allocation::session(&start.service)
        && let Ok(launch) = begin_launch(&session, &job)
    {
        return Ok(ServicePlan::Join(job.into(), launch.into()));
    }
    if is_job_alone {
        return Ok(ServicePlan::Off("the job has no session: begin one with `headwater start`".into()));
    }
    let opened = Opened::default();
    let program = options.program.get(..1).unwrap_or_default();
    let mut names = program.to_vec();
    let mut found = discover_all(&start.service, program, &opened);
    if let ((_, None), [file]) = (&found, program) {
        // srun's argument may be a file of programs.
        let listed = find(&["srun".into(), "--multi-prog".into(), file.clone()], None).ok().flatten();
        names = listed.map(|listed| programs(&listed)).unwrap_or_default();
        found = discover_all(&start.service, &names, &opened);
    }
    let io = preload::settle(&start.io, &names, found.1.as_ref().map(|found| &found.program));
    if found.1.is_none() {
        found = discover_all(&start.service, &[ANY_PROGRAM.into()], &opened);
    }
    let (scope, program) = found;
    if start.service.verbose {
        show(io::stderr(), &scope);
    }
    if !serves(&scope) && !io.is_wanted() {
        return Ok(ServicePlan::Off(format!("nothing to serve: {}", why_nothing(&scope, SHARED))));
    }
    let mut service = service(&start.service, &scope, program.unwrap_or_default(), Some(&io));
    if serde_json::to_string(&service.preload)?.len() > PRELOAD_BYTES_MAX {
        log("warning: the preload= list is too long for an environment variable, so nothing is preloaded. Shorten it");
        service.preload = None;
    }
    Ok(ServicePlan::Serve(start.into(), service.into()))
}

/// Parses a list of options of `headwater start`, with the defaults of files and variables.
fn parse_with_defaults(list: &str) -> Result<StartOptions> {
    let definition = CommandLine::command();
    let defaults = Defaults::read_for(&definition, START);
    defaults.report(definition.find_subcommand(START).context("start is a command")?)?;
    parse(list, defaults.apply(definition, START))
}

/// Parses a list of options of `headwater start`. The last of repeated options counts.
fn parse(list: &str, definition: clap::Command) -> Result<StartOptions> {
    let options = list.split(',').filter(|option| !option.is_empty()).map(|option| format!("--{option}"));
    let command = definition.mut_subcommand(START, |start| start.args_override_self(true));
    let parsed = command.try_get_matches_from(["headwater".into(), START.into()].into_iter().chain(options));
    let parsed = parsed.and_then(|matches| Ok((CommandLine::from_arg_matches(&matches)?, matches)));
    let (line, matches) = parsed.map_err(|error| {
        let text = error.to_string();
        let first = text.lines().next().unwrap_or_default();
        anyhow!("{}. `headwater start --help` lists the options", first.strip_prefix("error: ").unwrap_or(first))
    })?;
    let Command::Start(mut options) = line.command else { return Err(anyhow!("`{list}` is no list of options")) };
    options.service.settle(matches.subcommand_matches(START).context("start was parsed")?, false)?;
    Ok(options)
}

/// Opens a front end; returns whether it is verbose, and the job for its nodes.
fn open(options: &StartOptions, service: Service, sender: Sender<Event>) -> Result<(bool, Front, Job)> {
    signals::watch(sender.clone())?;
    let (front, job) = open_front(&options.service, service, sender.clone())?;
    thread::Builder::new().name("owner".into()).spawn(move || {
        let _ = io::stdin().read(&mut [0]);
        // Without a receiver, the front end has ended already.
        let _ = sender.send(Event::Node(NodeEvent::Stop));
    })?;
    Ok((options.service.verbose, front, job))
}

#[cfg(test)]
mod tests {
    use super::*;
    use headwater_daemon::LinkProtection;
    use std::path::Path;

    fn parse(list: &str) -> Result<StartOptions> {
        super::parse(list, CommandLine::command())
    }

    #[test]
    fn options_are_those_of_start() {
        let options = parse("shared=/a:/b,via=audit,via=namespace,verbose,,map=/x=/y,map=/z=/w").unwrap().service;
        let carried = parse("transport=libfabric:verbs;ofi_rxm").unwrap().service.transport;
        assert_eq!(carried.to_string(), "libfabric:verbs;ofi_rxm");
        let readable = parse("link-protection=authenticate").unwrap().service.link_protection;
        assert_eq!((readable, options.link_protection), (LinkProtection::Authenticate, LinkProtection::Encrypt));
        assert_eq!(options.shared, [Path::new("/a"), Path::new("/b")]);
        assert_eq!((options.via, options.verbose, options.map.len()), (Via::Namespace, true, 2));
        assert!(!parse("").unwrap().service.verbose);
    }

    #[test]
    fn wrong_options_are_named() {
        for (list, part) in [
            ("shraed=/a", "--shraed"),
            ("link-protection=none", "none"),
            ("via=air", "air"),
            ("store-max=much", "much"),
            ("--x", "--x"),
        ] {
            let error = parse(list).unwrap_err().to_string();
            assert!(error.contains(part) && !error.contains('\n'), "{error}");
        }
    }
}
