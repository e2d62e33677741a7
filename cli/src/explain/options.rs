//! The command line of `headwater explain`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::Resettable;
use clap::{Args, ValueHint};

use crate::options::headings::{MODEL, OUTPUT, WORKLOAD};
use crate::options::run::ServiceOptions;
use crate::options::values::{number, number_from};
use crate::simulate::options::Counts;

/// The help of `--via`.
const VIA: &str = "How the files reach the program: namespace (a mount over the original directories), audit (a library in \
                   the program), mount (a mount with paths of its own), auto: the best here, or off: without Headwater. \
                   No variable or file changes the default";

/// How the command is written.
pub const EXPLAIN_USAGE: &str =
    "headwater explain [OPTIONS] [--] PROGRAM [ARGUMENT]...\n       headwater explain [OPTIONS] --record FILE";

/// What `headwater explain --help` shows at the end.
pub const EXPLAIN_HELP: &str = "\
Examples:
  headwater explain -- python3 -c 'import scipy.stats'
  headwater explain --html start.html --json start.json -- ./app input.dat
  headwater explain --shared /lustre/sw --nodes 64,1024 --fs nfs -- python3 train.py
  headwater explain --via namespace -- ./app input.dat
  headwater explain -o app.record -- ./app && headwater explain --record app.record

The program runs once, as it would without this command, and is traced by ptrace: each of its calls on files \
takes some microseconds longer. A program that can't be traced runs as it is, and one line gives the reason. \
With --via, it runs in a session of one node, as `headwater run` starts it, and the report has what Headwater did. \
The prediction is for the directories of --shared; without them, for all but the machine's own.

Exit status: That of the program, as for `headwater run`; with --record, 0.";

/// Options of `headwater explain`. The mechanism is off unless the command line names one: what a user or a site chooses
/// for runs is no reason to explain those.
#[derive(Debug, Args)]
#[command(mut_arg("via", |via| via.env(Resettable::Reset).default_value("off").help(VIA).help_heading(WORKLOAD)))]
pub struct ExplainOptions {
    /// Explain what a file describes, and run nothing: a record, or the output of `strace -f -ttt`
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with_all = ["program", "seconds", "via"],
          help_heading = WORKLOAD)]
    pub record: Option<PathBuf>,

    #[command(flatten)]
    pub service: ServiceOptions,

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

    /// The program and its arguments
    #[arg(value_name = "PROGRAM", required_unless_present = "record", trailing_var_arg = true,
          value_hint = ValueHint::CommandWithArguments)]
    pub program: Vec<OsString>,
}

impl ExplainOptions {
    /// Returns the directories for which a start is predicted, as text.
    pub fn shared(&self) -> Vec<String> {
        let absolute = |directory: &PathBuf| std::path::absolute(directory).unwrap_or_else(|_| directory.clone());
        self.service.shared.iter().map(|directory| absolute(directory).display().to_string()).collect()
    }
}
