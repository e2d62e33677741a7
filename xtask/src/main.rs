//! The repository's one entry point: `cargo xtask COMMAND`.

mod bench;
mod cluster;
mod demo;
mod dist;
mod docs;
mod fabric;
mod files;
mod fuzz;
mod mpiio;
mod setup;
mod shell;
mod shim;
mod side_by_side;
mod sim;
mod slurm;
mod spawn;
mod strace;
mod suites;
mod test;
mod tidy;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{CommandFactory, Parser, Subcommand};

use shell::Shell;

/// Builds, checks, tests and demonstrates Headwater.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", disable_help_subcommand = true)]
struct Arguments {
    /// Show what programs print while they run.
    #[arg(long, short, global = true)]
    verbose: bool,
    #[command(subcommand)]
    command: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Install the Debian packages that are missing (as root), or say which.
    Setup,
    /// Build what a user installs into target/dist.
    Dist,
    /// Build and copy what a user installs.
    Install {
        /// Where to: gets bin, lib, include and share.
        #[arg(long)]
        prefix: PathBuf,
    },
    /// Check the documents' links and command lines, write docs/reference, and build the site into target/docs.
    Docs,
    /// Run everything that continuous integration runs.
    Test(test::Options),
    /// Start a Python program on four nodes of this machine and show what that cost.
    Demo,
    /// Make nodes of namespaces on this machine, and run commands on them (as root).
    Cluster(cluster::Arguments),
    /// Measure, and print tables.
    Bench {
        /// What to measure, and options of the benchmarks.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Run other people's test suites plain and by Headwater, and compare.
    Suites(suites::Options),
    /// Fuzz the decoders with libFuzzer.
    Fuzz {
        /// This target alone (see fuzz/Cargo.toml).
        target: Option<String>,
        /// How long each target runs.
        #[arg(long, default_value_t = 60)]
        seconds: u64,
    },
    /// Simulate nodes with faults, from seeds.
    Sim {
        /// How many seeds, from 0.
        #[arg(long, default_value_t = 2000, value_name = "N")]
        seeds: u64,
        /// This seed alone, with a trace.
        #[arg(long, conflicts_with = "seeds")]
        seed: Option<u64>,
        /// New seeds for so many minutes.
        #[arg(long, value_name = "M", conflicts_with_all = ["seeds", "seed"])]
        minutes: Option<u64>,
    },
    /// Check the style that a machine can check.
    Tidy,
}

/// Returns the definition of this program's command line.
fn command() -> clap::Command {
    Arguments::command()
}

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
            setup::run(&shell)?;
            println!("Everything that is needed is installed.");
        }
        Task::Dist => {
            dist::run(&shell)?;
            println!("target/dist is ready: target/dist/bin/headwater --help");
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
