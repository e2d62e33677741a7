//! The command lines of `headwater help` and `headwater generate`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Options of `headwater help`.
#[derive(Debug, Args)]
pub struct HelpOptions {
    /// A command, such as `run` or `io predict`, or a group of options, such as `store` [default: a list of both]
    #[arg(value_name = "COMMAND|GROUP")]
    pub subject: Vec<String>,
}

/// What `headwater generate` writes.
#[derive(Debug, Subcommand)]
pub enum Generate {
    /// A man page for each command.
    Man {
        /// The directory to write to.
        directory: PathBuf,
    },
    /// Completions for bash, zsh and fish.
    Completions {
        /// The directory to write to.
        directory: PathBuf,
    },
    /// The documents' pages about the command line and its variables.
    Reference {
        /// The directory to write to.
        directory: PathBuf,
    },
    /// Those lines of standard input that this program does not accept: each a place, `whole` or `part`, and words,
    /// separated by tabs.
    Rejected,
}
