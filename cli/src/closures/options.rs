//! The command line of `headwater closures`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};

/// Options of `headwater closures`.
#[derive(Debug, Args)]
pub struct ClosuresOptions {
    /// Where they lie [default: ~/.cache/headwater/closures]
    #[arg(long, value_name = "DIR", env = "HEADWATER_CLOSURES", value_hint = ValueHint::DirPath, global = true)]
    pub closures: Option<PathBuf>,

    /// What to do with them [default: list]
    #[command(subcommand)]
    pub command: Option<ClosuresCommand>,
}

/// What to do with them.
#[derive(Debug, Subcommand)]
pub enum ClosuresCommand {
    /// List them, the most recently used first
    List,
    /// Print one: a file, directory or link that the program used on each line
    Show {
        /// Its name
        name: String,
    },
    /// Remove some, so that the next run learns anew
    Remove {
        /// Their names
        #[arg(required_unless_present = "all")]
        names: Vec<String>,
        /// All of them
        #[arg(long, conflicts_with = "names")]
        all: bool,
    },
}
