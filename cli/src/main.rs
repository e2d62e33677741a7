//! `headwater`: the one command.
//!
//! `run` makes a session on this machine: it starts the nodes' daemons, then the program's processes
//! through `exec`, passes signals on, and at the end collects the daemons' reports and removes
//! everything. Whatever of that fails, the program is run without it.

mod control;
mod daemons;
mod doctor;
mod exec;
mod generate;
mod inherit;
mod job;
mod launch;
mod message;
mod mount;
mod namespace;
mod opened;
mod options;
mod preload;
mod prepare;
mod record;
mod run;
mod serving;
mod session;
mod shim;
mod signals;
mod simulate;
mod standing;
mod store;
mod summary;
mod topology;
mod via;

use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches};

use options::{Command, CommandLine};

/// A failure of headwater's own, as `env` and `timeout` have it.
const FAILURE: u8 = 125;

fn main() -> ExitCode {
    let parsed = CommandLine::command()
        .try_get_matches()
        .and_then(|matches| Ok((CommandLine::from_arg_matches(&matches)?, matches)));
    let (command_line, matches) = match parsed {
        Ok(parsed) => parsed,
        Err(e) => {
            let _ = e.print();
            let asked = matches!(e.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
            return ExitCode::from(if asked { 0 } else { FAILURE });
        }
    };
    let done = match command_line.command {
        Command::Run(mut options) => {
            let in_session = std::env::var_os(launch::SESSION).is_some();
            options.settle(matches.subcommand_matches("run").expect("run was parsed"), in_session);
            run::run(&options)
        }
        Command::Start(mut options) => {
            options.service.settle(matches.subcommand_matches("start").expect("start was parsed"), false);
            job::start(&options)
        }
        Command::Stop(options) => job::stop(&options),
        Command::Record(mut options) => {
            let in_session = std::env::var_os(launch::SESSION).is_some();
            options.run.settle(matches.subcommand_matches("record").expect("record was parsed"), in_session);
            record::record(options)
        }
        Command::Daemon => return headwater_daemon::run_from_stdio(),
        Command::Supervise => return headwater_daemon::supervise_from_stdio(),
        Command::Namespace(options) => Ok(namespace::run(&options)),
        Command::Mount(mut options) => {
            options.shape.settle(matches.subcommand_matches("mount").expect("mount was parsed"), false);
            mount::mount(&options)
        }
        Command::Key(options) => standing::make_key(&options),
        Command::Serve(options) => standing::serve(&options),
        Command::Join(options) => standing::join(&options),
        Command::Unmount(options) => mount::unmount(&options),
        Command::Doctor(options) => doctor::doctor(&options),
        Command::Stats(options) => control::stats(&options),
        Command::Clear(options) => control::clear(&options),
        Command::Refresh(options) => control::refresh(&options),
        Command::Node(options) => job::node(&options),
        Command::Topology(mut options) => {
            options.shape.settle(matches.subcommand_matches("topology").expect("topology was parsed"), false);
            topology::topology(&options)
        }
        Command::Simulate(options) => simulate::simulate(&options),
        Command::Plan(options) => simulate::plan(&options),
        Command::Exec(options) => Ok(exec::exec(&options)),
        Command::Front(options) => job::front(&options),
        Command::Sweep(options) => Ok(doctor::sweep(&options)),
        Command::Generate(what) => generate::generate(&what).map(|()| 0),
    };
    done.map_or_else(
        |e| {
            message::say(format_args!("{e:#}"));
            ExitCode::from(FAILURE)
        },
        ExitCode::from,
    )
}
