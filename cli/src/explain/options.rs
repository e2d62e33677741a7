//! The command line of `headwater explain`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueHint};

use crate::options::headings::{MODEL, OUTPUT, WORKLOAD};
use crate::options::values::{number, number_from};
use crate::simulate::options::Counts;
use crate::via::Via;

/// How the command is written.
pub const EXPLAIN_USAGE: &str =
    "headwater explain [OPTIONS] [--] PROGRAM [ARGUMENT]...\n       headwater explain [OPTIONS] --record FILE";

/// What `headwater explain --help` shows at the end.
pub const EXPLAIN_HELP: &str = "\
Examples:
  headwater explain -- python3 -c 'import scipy.stats'
  headwater explain --html start.html --json start.json -- ./app input.dat
  headwater explain --shared /lustre/sw --nodes 64,1024 --fs nfs -- python3 train.py
  headwater explain -o app.record -- ./app && headwater explain --record app.record

The program runs once, as it would without this command, and is traced by ptrace: each of its calls on files \
takes some microseconds longer. A program that can't be traced runs as it is, and one line gives the reason.

Exit status: That of the program, as for `headwater run`; with --record, 0.";

/// Options of `headwater explain`.
#[derive(Debug, Args)]
pub struct ExplainOptions {
    /// Explain what a file describes, and run nothing: a record, or the output of `strace -f -ttt`
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with_all = ["program", "seconds", "via"],
          help_heading = WORKLOAD)]
    pub record: Option<PathBuf>,

    /// The mechanism with which the program runs; only off can be traced
    #[arg(long, value_name = "MECHANISM", value_enum, default_value = "off", help_heading = WORKLOAD)]
    pub via: Via,

    /// Follow the program for so many seconds, and release it then [default: until it ends]
    #[arg(long, value_name = "N", value_parser = number_from(1), help_heading = WORKLOAD)]
    pub seconds: Option<u32>,

    /// Stop the program at each call: it may then use strict seccomp, and trace processes of its own. This takes longer
    /// [default: so for programs that are known to trace, and where the filter of calls on files would take privileges]
    #[arg(long, help_heading = WORKLOAD)]
    pub exact: bool,

    /// Write the report as a page: one file, for any browser
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = OUTPUT)]
    pub html: Option<PathBuf>,

    /// Write the report as JSON
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = OUTPUT)]
    pub json: Option<PathBuf>,

    /// Write a record of the run, for `headwater run --preload`, `simulate`, `plan` and `explain --record`
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = OUTPUT)]
    pub output: Option<PathBuf>,

    /// Print no report on the terminal
    #[arg(short, long, help_heading = OUTPUT)]
    pub quiet: bool,

    /// Predict the start on so many nodes: one number, several separated by commas, or A..B
    #[arg(long, value_name = "N", default_value = "1,64,1024", help_heading = MODEL)]
    pub nodes: Counts,

    /// Processes on each node
    #[arg(long, value_name = "P", default_value_t = 1, value_parser = number(1..=4096), help_heading = MODEL)]
    pub ppn: u32,

    /// The shared file system: a TOML file, or lustre, nfs or gpfs
    #[arg(long, value_name = "FILE|NAME", default_value = "lustre", value_hint = ValueHint::FilePath,
          help_heading = MODEL)]
    pub fs: String,

    /// Predict for files in this directory alone (repeatable, or separated by colons) [default: all but the
    /// machine's own]
    #[arg(long, value_name = "DIR", value_delimiter = ':', help_heading = MODEL)]
    pub shared: Vec<String>,

    /// The program and its arguments
    #[arg(value_name = "PROGRAM", required_unless_present = "record", trailing_var_arg = true,
          value_hint = ValueHint::CommandWithArguments)]
    pub program: Vec<OsString>,
}
