//! The repository's one entry point: `cargo xtask COMMAND`.

mod apt;
mod arguments;
mod bench;
mod cc;
mod cluster;
mod demo;
mod dist;
mod docs;
mod fabric;
mod files;
mod flux;
mod fuzz;
mod headwater;
mod mpiio;
mod release;
mod roots;
mod setup;
mod shell;
mod shim;
mod side_by_side;
mod sim;
mod slurm;
mod spawn;
mod suites;
mod system;
mod test;
mod tidy;

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;

use self::arguments::{Arguments, Task};
use self::setup::Purpose;
use self::shell::Shell;
use self::system::Architecture;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments) {
        Ok(status) => status,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<ExitCode> {
    let shell = Shell::new(arguments.verbose);
    match &arguments.command {
        Task::Setup => {
            setup::run(&shell, Purpose::All)?;
            println!("Everything that is needed is installed.");
        }
        Task::Dist => {
            dist::run(&shell)?;
            println!("target/dist is ready: target/dist/bin/headwater --help");
        }
        Task::Release { test: true, .. } => release::test(&shell)?,
        Task::Release { arch, check_reproducible, .. } => {
            let here = [Architecture::here()?];
            let architectures = if arch.is_empty() { &here[..] } else { arch };
            release::run(&shell, architectures)?;
            if *check_reproducible {
                release::check_reproducible(&shell, architectures, |copy| release::run(copy, architectures))?;
            }
        }
        Task::Docs => docs::run(&shell)?,
        Task::Test(options) => {
            if !test::run(&shell, options)? {
                return Ok(ExitCode::FAILURE);
            }
        }
        Task::Demo => demo::run(&shell)?,
        Task::Cluster(arguments) => return cluster::run(arguments),
        Task::Bench { arguments } => bench::run(&shell, arguments)?,
        Task::Suites(options) => {
            if !suites::run(&shell, options)? {
                return Ok(ExitCode::FAILURE);
            }
        }
        Task::Fuzz { target, seconds } => fuzz::report(&shell, target.as_deref(), *seconds)?,
        Task::Sim { seeds, seed, minutes } => {
            let runs = match (seed, minutes) {
                (Some(seed), _) => sim::Runs::One(*seed),
                (None, Some(minutes)) => sim::Runs::Minutes(*minutes),
                (None, None) => sim::Runs::Many(*seeds),
            };
            println!("{}", sim::run(&shell, runs)?.trim_end());
        }
        Task::Tidy => {
            if let Some(why) = shell.step("tidy", || tidy::run(&shell))? {
                println!("  note   {why}");
            }
        }
        Task::Install { prefix } => dist::install(&shell, prefix)?,
    }
    Ok(ExitCode::SUCCESS)
}
