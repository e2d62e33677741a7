//! The command line: one definition for parsing, `--help`, man pages and completions.

pub mod complaint;
pub mod headings;
pub mod inner;
pub mod opposites;
pub mod run;
pub mod served;
pub mod store;
pub mod values;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueHint};

use self::inner::InnerCommand;
use self::run::{RecordOptions, RunOptions, StartOptions};
use crate::closures::options::ClosuresOptions;
use crate::config::options::{CONFIG_HELP, ConfigOptions};
use crate::control::options::{ClearOptions, RefreshOptions, StatsOptions};
use crate::explain::options::{EXPLAIN_HELP, EXPLAIN_USAGE, ExplainOptions};
use crate::guard::options::{GUARD_HELP, GuardOptions};
use crate::help::options::{Generate, HelpOptions};
use crate::io::commands::IoCommand;
use crate::metrics::options::{METRICS_HELP, MetricsOptions};
use crate::mount::options::{MOUNT_HELP, MountOptions, UnmountOptions};
use crate::seal::options::{SEAL_HELP, SealOptions};
use crate::simulate::options::{PLAN_HELP, PlanOptions, SIMULATE_HELP, SimulateOptions};
use crate::site_export::options::{
    FILE_DEFAULT, JOIN_HELP, JoinOptions, KEY_HELP, KeyOptions, SERVE_HELP, ServeOptions,
};
use crate::spawn::options::{SPAWN_HELP, SpawnOptions};
use crate::topology::options::{TOPOLOGY_HELP, TopologyOptions};

const RUN_USAGE: &str = "headwater run [OPTIONS] [--] PROGRAM [ARGUMENT]...";
const SPAWN_USAGE: &str = "headwater spawn [OPTIONS] [--] PROGRAM [ARGUMENT]...";
const START_USAGE: &str = "headwater start [OPTIONS] [--] [PROGRAM [ARGUMENT]...]";
const RECORD_USAGE: &str = "headwater record [OPTIONS] --output FILE [--] PROGRAM [ARGUMENT]...";

const EXAMPLES: &str = "\
Examples:
  headwater run -- ./app input.dat
  headwater run -- srun -N 2048 python train.py
  headwater run --marker @ -- mylauncher -x 4 @ ./app
  headwater run --nodes 4 --ppn 4 -- python3 -c 'import scipy.stats'
  headwater run --shared /lustre/sw --exclude /lustre/sw/results -- ./app
  headwater run --nodes 6 --readers n[0-1] -- ./app
  headwater run --show-scope -- python3 train.py
  HEADWATER_SUMMARY=1 headwater run -- ./app

Exit status: That of the program, of several processes the highest; if a signal ended it, the same signal ends \
headwater, and a shell shows 128+n; 127 if it was not found, 126 if it could not be executed; 125 if the command line of \
headwater itself is wrong.

In front of a launcher (srun, mpirun, mpiexec, prterun, flux run, jsrun) the program is served on the nodes on \
which the launcher starts it. The scope has no directories of programs that a wrapper starts \
(bash -c, a script): name them with --shared.";

const START_HELP: &str = "\
Examples:
  session=$(headwater start -- python3 train.py)
  headwater run --session $session -- srun -N 64 python3 prepare.py
  headwater run --session $session -- srun -N 64 python3 train.py
  headwater stop $session

The nodes of the first launch take part, and keep what they have for the later ones. The session ends with \
`headwater stop`, with the process that `headwater start` leaves behind on this machine, or when its lease is over.";

const RECORD_HELP: &str = "\
Examples:
  headwater record -o app.closure -- python3 train.py
  headwater run --preload app.closure -- srun -N 2048 python3 train.py

Exit status: That of the program, as for `headwater run`.";

const CLOSURES: &str = "\
With `--preload auto`, a run leaves a list of the files that it used, its closure. The next run of the same \
program, with the same search paths and directories, fetches these before a process asks for them. For an \
interpreter, the program is the script. Files that have changed since are read when they are needed.";

const STATS: &str = "\
The kernel answers most requests from its own caches, and nothing counts these. REQUESTS are the FUSE requests \
that reach a daemon. LOOK-UPS are those of programs that run with the audit library.";

const DOCTOR: &str = "\
Examples:
  headwater doctor                                      # on a compute node
  headwater doctor --site                               # as root, on any node of a site export

Exit status: 0 if a mechanism works; with --site, 0 if all is well. 1 otherwise.";

const CLEAR: &str = "\
A file that is read again comes from the nearest node that still has it, or from the shared file system, in \
the same version. If its source file has changed meanwhile, programs use the source file, and `headwater \
stats` names it. Files that a process has open or mapped are retained.";

const REFRESH: &str = "\
One node checks all known files on the shared file system once. All nodes read changed files again when they \
next need them, and retain all others. Changes are visible to:
  audit library    processes that execute a program from now on; running ones retain what they began with, \
and use source files for what their nodes did not know yet
  mount, namespace each look-up of a name from now on, whichever process makes it; open files and \
mapped libraries stay as they are, and so does the content of a file that changed in place, until it is \
opened again
In a site export (`headwater join`) it takes effect on all nodes, on whichever node root or the services' user \
runs it.";

/// Starts parallel programs at scale: each file that a program needs is read once from the shared
/// file system and then found in node-local memory under its original path.
#[derive(Debug, Parser)]
#[command(name = "headwater", version, max_term_width = 100, disable_help_subcommand = true)]
pub struct CommandLine {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a program
    #[command(after_help = EXAMPLES, override_usage = RUN_USAGE)]
    Run(RunOptions),
    /// Start many processes of a program on this node, placed, their output labelled
    #[command(after_help = SPAWN_HELP, override_usage = SPAWN_USAGE)]
    Spawn(SpawnOptions),
    /// Make a session that several launches use, and print its name
    #[command(after_help = START_HELP, override_usage = START_USAGE)]
    Start(StartOptions),
    /// End a session that `headwater start` has made
    Stop(StopOptions),
    /// Run a program on one node, and write down which files it uses, for `headwater run --preload`
    #[command(after_help = RECORD_HELP, override_usage = RECORD_USAGE)]
    Record(RecordOptions),
    /// Explain why a program's start takes as long as it does
    #[command(after_help = EXPLAIN_HELP, override_usage = EXPLAIN_USAGE)]
    Explain(ExplainOptions),
    /// Write digests of all files that a program uses, signed, for `headwater run --sealed`
    #[command(after_help = SEAL_HELP)]
    Seal(SealOptions),
    /// Show what runs have left for the next runs of the same programs
    #[command(after_help = CLOSURES)]
    Closures(ClosuresOptions),
    /// Show a directory, or all of them, through Headwater at another place
    #[command(after_help = MOUNT_HELP)]
    Mount(MountOptions),
    /// Read a directory for all nodes and users of a site, as one of its readers
    #[command(after_help = SERVE_HELP)]
    Serve(ServeOptions),
    /// Show all users of this node the directory that a site's readers serve
    #[command(after_help = JOIN_HELP)]
    Join(JoinOptions),
    /// Make the key by which a site's nodes authenticate each other
    #[command(after_help = KEY_HELP)]
    Key(KeyOptions),
    /// End what `headwater mount` or `join` has mounted
    Unmount(UnmountOptions),
    /// Check what this machine supports, and what it lacks
    #[command(after_help = DOCTOR)]
    Doctor(DoctorOptions),
    /// Remove what ended sessions have left on this machine, as in a job's epilog
    Sweep(SweepOptions),
    /// Show the defaults of options, and which variable or file sets them
    #[command(after_help = CONFIG_HELP)]
    Config(ConfigOptions),
    /// Show what the daemons of a session have done so far
    #[command(after_help = STATS)]
    Stats(StatsOptions),
    /// Print the daemons' statistics as metrics of Prometheus, or serve them over HTTP
    #[command(after_help = METRICS_HELP)]
    Metrics(MetricsOptions),
    /// Name the jobs of this node that put most operations on shared file systems
    #[command(after_help = GUARD_HELP)]
    Guard(GuardOptions),
    /// Discard the nodes' copies of files
    #[command(after_help = CLEAR)]
    Clear(ClearOptions),
    /// Publish changes of the shared file system to programs that start later
    #[command(after_help = REFRESH)]
    Refresh(RefreshOptions),
    /// Show the trees in which files reach the nodes
    #[command(after_help = TOPOLOGY_HELP)]
    Topology(TopologyOptions),
    /// Simulate how long a program takes to start, on any number of nodes
    #[command(after_help = SIMULATE_HELP)]
    Simulate(SimulateOptions),
    /// Find out which trees and how many readers suit a program and a shared file system
    #[command(after_help = PLAN_HELP)]
    Plan(PlanOptions),
    /// Predict and report how --io changes the I/O of MPI programs
    #[command(subcommand)]
    Io(IoCommand),
    /// Its parser is [`inner::InnerLine`].
    #[command(skip)]
    Inner(InnerCommand),
    /// Print the help of a command or of a group of options
    Help(HelpOptions),
    /// Print the version
    Version,
    /// Write what is made of the command line's definition.
    #[command(hide = true, subcommand)]
    Generate(Generate),
}

/// Options of `headwater stop`.
#[derive(Debug, Args)]
pub struct StopOptions {
    /// Where the session's file lies [default: ~/.headwater]
    #[arg(long, value_name = "DIR", env = "HEADWATER_JOB_DIR", value_hint = ValueHint::DirPath)]
    pub job_dir: Option<PathBuf>,

    /// The session, as `headwater start` has named it
    pub session: String,
}

/// Options of `headwater sweep`.
#[derive(Debug, Args)]
pub struct SweepOptions {
    /// Where the nodes' stores lie [default: the default directories, and what the site's file names]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub store: Option<PathBuf>,
}

/// Options of `headwater doctor`.
#[derive(Debug, Args)]
pub struct DoctorOptions {
    /// Remove what dead sessions left: directories and mounts
    #[arg(long)]
    pub fix: bool,

    /// Examine this node's part of a site export instead: service, mount, and readers. FILE has the site's
    /// variables [default: /etc/headwater/site.conf]
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = FILE_DEFAULT, conflicts_with = "fix",
          value_hint = ValueHint::FilePath)]
    pub site: Option<PathBuf>,

    /// Print JSON
    #[arg(long)]
    pub json: bool,

    /// Where the nodes' stores are to be: a directory in memory [default: as `headwater run` has it]
    #[arg(long, value_name = "DIR", env = "HEADWATER_STORE", value_hint = ValueHint::DirPath)]
    pub store: Option<PathBuf>,

    /// The directory in which content is kept for later sessions
    #[arg(long, value_name = "DIR", env = "HEADWATER_CACHE", value_hint = ValueHint::DirPath)]
    pub cache: Option<PathBuf>,

    /// The most that the cache holds [default: a quarter of what is free in it]
    #[arg(long, value_name = "BYTES", env = "HEADWATER_CACHE_MAX", value_parser = values::parse_bytes)]
    pub cache_max: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{ArgAction, CommandFactory, FromArgMatches};
    use headwater_daemon::Policy;

    fn parsed(arguments: &[&str]) -> anyhow::Result<RunOptions> {
        let arguments = ["headwater", "run"].iter().chain(arguments).chain(&["true"]);
        let matches = CommandLine::command().get_matches_from(arguments);
        let Command::Run(mut options) = CommandLine::from_arg_matches(&matches).unwrap().command else {
            panic!("run was given");
        };
        options.settle(matches.subcommand_matches("run").unwrap(), false).map(|()| options)
    }

    fn settled(arguments: &[&str]) -> RunOptions {
        parsed(arguments).unwrap()
    }

    #[test]
    fn policies_exclude_each_other() {
        assert_eq!(settled(&[]).service.policy(), Policy::Adaptive);
        assert_eq!(settled(&["--push"]).service.policy(), Policy::Push);
        assert_eq!(settled(&["--pull"]).service.policy(), Policy::Pull);
        for (arguments, expected) in [
            (&["--push", "--pull"][..], "--push and --pull exclude each other: write one of them"),
            (&["--adaptive", "--pull"], "--pull and --adaptive exclude each other: write one of them"),
        ] {
            assert_eq!(parsed(arguments).unwrap_err().to_string(), expected);
        }
    }

    #[test]
    fn the_last_of_opposites_wins() {
        assert!(!settled(&["--summary", "--no-summary"]).prints_summary(true));
        assert!(settled(&["--no-summary", "--summary"]).prints_summary(false));
        assert!(settled(&[]).prints_summary(true) && !settled(&[]).prints_summary(false));
        assert!(!settled(&["--quiet"]).prints_summary(true) && settled(&["-q", "--summary"]).prints_summary(false));
    }

    #[test]
    fn what_follows_the_program_is_the_programs() {
        let options = settled(&["--nodes", "2", "app", "--nodes", "3", "-x", "--", "y"]);
        assert_eq!((options.nodes, options.program.len()), (2, 7));
    }

    #[test]
    fn the_definition_is_consistent() {
        CommandLine::command().debug_assert();
    }

    #[test]
    fn every_option_is_a_variable() {
        let command = CommandLine::command();
        let run = command.find_subcommand("run").unwrap();
        for argument in run.get_arguments().filter(|a| !a.is_positional()) {
            let expected = format!("HEADWATER_{}", argument.get_id().as_str().to_uppercase());
            assert_eq!(argument.get_env().and_then(|e| e.to_str()), Some(&*expected), "{argument}");
            assert!(matches!(argument.get_action(), ArgAction::SetTrue | ArgAction::Set | ArgAction::Append));
        }
    }
}
