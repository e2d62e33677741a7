//! `headwater`: the one command.
//!
//! `run` makes a session on this machine: it starts the nodes' daemons, then the program's processes
//! through `exec`, forwards signals, and at the end collects the daemons' reports and removes all
//! files. On any failure the program runs without Headwater.

mod ahead;
mod closures;
mod commands;
mod config;
mod control;
mod discover;
mod doctor;
mod exec;
mod explain;
mod guard;
mod help;
mod installed;
mod io;
mod job_report;
mod launch;
mod message;
mod metrics;
mod mount;
mod namespace;
mod notes;
mod options;
mod output_file;
mod preload;
mod process;
mod rendezvous;
mod report;
mod seal;
mod secret;
mod self_exec;
mod session;
mod shim;
mod simulate;
mod site_export;
mod spawn;
mod status;
mod summary;
mod topology;
mod usage;
mod users;
mod via;
mod warm;

use std::process::ExitCode;
use std::sync::Arc;

use clap::error::ErrorKind;
use clap::{ArgMatches, FromArgMatches, Parser, Subcommand};

use crate::config::defaults::Defaults;
use crate::io::commands::IoCommand;
use crate::status::{Ending, FAILURE};
use options::inner::{InnerCommand, InnerLine};
use options::{Command, CommandLine};

fn main() -> ExitCode {
    // A copy in memory has another name.
    let _ = rustix::thread::set_name(c"headwater");
    // A write beyond the limit of file sizes returns an error. Executed programs get the default action again.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::default());
    let is_inner = std::env::args().nth(1).is_some_and(|name| InnerCommand::has_subcommand(&name));
    let parsed = if is_inner {
        InnerLine::try_parse()
            .map(|line| Parsed { command: Command::Inner(line.command), matches: None, checked: Ok(()) })
            .map_err(Refusal::Clap)
    } else {
        parse()
    };
    match parsed {
        Ok(Parsed { checked: Err(error), .. }) => failure(&error),
        Ok(Parsed { command, matches, .. }) => run(command, &matches.unwrap_or_default()),
        Err(Refusal::Line(line)) => {
            message::fail(line);
            ExitCode::from(FAILURE)
        }
        Err(Refusal::Clap(e)) => {
            let _ = e.print();
            let asked = matches!(e.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
            ExitCode::from(if asked { 0 } else { FAILURE })
        }
    }
}

/// Why there is no command to run.
enum Refusal {
    /// A line for the user.
    Line(String),
    /// Clap's text, or the help that was requested.
    Clap(clap::Error),
}

impl From<clap::Error> for Refusal {
    fn from(error: clap::Error) -> Refusal {
        Refusal::Clap(error)
    }
}

/// A valid command line.
struct Parsed {
    command: Command,
    /// Its matches, unless it is an inner command.
    matches: Option<ArgMatches>,
    /// Whether the files of defaults are valid.
    checked: anyhow::Result<()>,
}

/// Parses the command line, with the defaults of variables and files; warns of what is wrong in these.
fn parse() -> Result<Parsed, Refusal> {
    let name = std::env::args_os().nth(1).and_then(|name| name.into_string().ok()).unwrap_or_default();
    let definition = help::command();
    let defaults = Defaults::read_for(&definition, &name);
    let definition = defaults.apply(definition, &name);
    let mut parser = help::variables::without_empty(definition.clone());
    let matches = parser.try_get_matches_from_mut(std::env::args_os()).map_err(|error| {
        let arguments: Vec<String> = std::env::args_os().skip(2).map(|it| it.to_string_lossy().into_owned()).collect();
        match options::complaint::complaint(&error, &parser, &name, &arguments) {
            Some(line) => Refusal::Line(line),
            None => Refusal::Clap(error),
        }
    })?;
    let command = CommandLine::from_arg_matches(&matches)?.command;
    let mut checked = Ok(());
    // The process of a session was started by a command that has warned.
    if !matches!(&command, Command::Start(options) if options.stays) {
        help::variables::check(&definition);
        checked = definition.find_subcommand(&name).map_or(Ok(()), |command| defaults.report(command));
    }
    Ok(Parsed { command, matches: Some(matches), checked })
}

fn failure(error: &anyhow::Error) -> ExitCode {
    message::fail(format_args!("{error:#}"));
    ExitCode::from(FAILURE)
}

/// Runs a command. `matches` has its matches, unless it is an inner command.
fn run(command: Command, matches: &ArgMatches) -> ExitCode {
    let of = |name: &str| matches.subcommand_matches(name).expect("it was parsed");
    let done = match command {
        Command::Run(mut options) => {
            let in_session = std::env::var_os(launch::SESSION).is_some();
            options.settle(of("run"), in_session).and_then(|()| commands::run::run(&options)).map(Ending::repeat)
        }
        Command::Spawn(options) => commands::spawn::spawn(&options),
        Command::Start(mut options) => {
            options.service.settle(of("start"), false).and_then(|()| commands::start::start(&options))
        }
        Command::Stop(options) => commands::stop::stop(&options),
        Command::Record(mut options) => {
            let in_session = std::env::var_os(launch::SESSION).is_some();
            options
                .run
                .settle(of("record"), in_session)
                .and_then(|()| commands::record::record(options))
                .map(Ending::repeat)
        }
        Command::Explain(mut options) => {
            options.service.settle(of("explain"), false).and_then(|()| commands::explain::explain(options))
        }
        Command::Seal(options) => seal::make(&options),
        Command::Closures(options) => commands::closures::closures(&options),
        Command::Mount(mut options) => {
            options.shape.settle(of("mount"), false);
            commands::mount::mount(&options)
        }
        Command::Key(options) => site_export::key::make(&options),
        Command::Serve(options) => commands::serve::serve(&options),
        Command::Join(options) => commands::join::join(&options),
        Command::Unmount(options) => commands::unmount::unmount(&options),
        Command::Doctor(options) => commands::doctor::doctor(&options),
        Command::Sweep(options) => Ok(commands::doctor::sweep(&options)),
        Command::Config(options) => commands::config::config(&options),
        Command::Guard(options) => guard::watch::guard(&options),
        Command::Metrics(options) => commands::metrics::metrics(&options),
        Command::Stats(options) => commands::stats::stats(&options),
        Command::Clear(options) => commands::clear::clear(&options),
        Command::Refresh(options) => commands::refresh::refresh(&options),
        Command::Topology(mut options) => {
            options.shape.settle(of("topology"), false);
            commands::topology::topology(&options)
        }
        Command::Simulate(options) => commands::simulate::simulate(&options),
        Command::Plan(options) => commands::simulate::plan(&options),
        Command::Io(IoCommand::Predict(options)) => io::predict::predict(&options),
        Command::Io(IoCommand::Report(options)) => io::report::report(&options),
        Command::Help(options) => help::help(&options),
        Command::Version => help::version(),
        Command::Generate(what) => help::generate::generate(&what),
        Command::Inner(InnerCommand::Daemon) => return headwater_daemon::run_from_stdio(),
        Command::Inner(InnerCommand::Supervise) => return headwater_supervisor::supervise_from_stdio(),
        Command::Inner(InnerCommand::Namespace(options)) => Ok(namespace::run(&options)),
        Command::Inner(InnerCommand::Exec(options)) => Ok(exec::exec(&options)),
        Command::Inner(InnerCommand::Front(options)) => rendezvous::front(&options),
        Command::Inner(InnerCommand::Node(options)) => rendezvous::serve_node(&options),
        Command::Inner(InnerCommand::Keep(options)) => namespace::keeper::keep(&options),
        Command::Inner(InnerCommand::Warm(options)) => warm::serve(&options),
    };
    done.map_or_else(|error| failure(&error), ExitCode::from)
}
