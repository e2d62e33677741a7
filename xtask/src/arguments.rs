//! The command line of `cargo xtask`.

use std::path::PathBuf;

use clap::{CommandFactory, Parser, Subcommand};

use crate::cluster;
use crate::suites::Options as SuitesOptions;
use crate::system::Architecture;
use crate::test::Options as TestOptions;

/// Builds, checks, tests and demonstrates Headwater.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", disable_help_subcommand = true)]
pub struct Arguments {
    /// Show what programs print while they run.
    #[arg(long, short, global = true)]
    pub verbose: bool,
    #[command(subcommand)]
    pub command: Task,
}

/// What to do.
#[derive(Subcommand)]
pub enum Task {
    /// Install the Debian packages that are missing (as root), or name them.
    Setup,
    /// Build what a user installs into target/dist.
    Dist,
    /// Build and copy what a user installs.
    Install {
        /// Where to: gets bin, lib, include and share.
        #[arg(long)]
        prefix: PathBuf,
    },
    /// Build what sites install, for every system that is supported, into target/releases.
    Release {
        /// For this architecture [default: this machine's].
        #[arg(long, value_name = "NAME")]
        arch: Vec<Architecture>,
        /// Then build it again in another directory, and compare each byte.
        #[arg(long)]
        check_reproducible: bool,
        /// Build nothing: install, use and remove each package that is there in fresh systems, which debootstrap makes
        /// (as root).
        #[arg(long, conflicts_with_all = ["arch", "check_reproducible"])]
        test: bool,
    },
    /// Check the documents' links and command lines, write docs/reference, and build the site into target/docs.
    Docs,
    /// Run everything that continuous integration runs.
    Test(TestOptions),
    /// Start a Python program from a slow file server, without and with Headwater, and show the times.
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
    Suites(SuitesOptions),
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
pub fn command() -> clap::Command {
    Arguments::command()
}
