//! The command line: one definition for parsing, `--help`, man pages and completions.

pub mod inner;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::{FalseyValueParser, OsStringValueParser, TypedValueParser};
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Parser, Subcommand, ValueEnum, ValueHint};
use headwater_daemon::Policy;
use headwater_fuse::init::Opening;

use crate::control::options::{ClearOptions, RefreshOptions, StatsOptions};
use crate::io::commands::IoCommand;
use crate::io::options::IoOptions;
use crate::job::paths::{Mapping, parse_mapping};
use crate::job::ports::Ports;
use crate::mount::options::{MOUNT_HELP, MountOptions, UnmountOptions};
use crate::preload::PreloadOption;
use crate::simulate::options::{PLAN_HELP, PlanOptions, SIMULATE_HELP, SimulateOptions};
use crate::spawn::options::{SPAWN_HELP, SpawnOptions};
use crate::standing::options::{JOIN_HELP, JoinOptions, KEY_HELP, KeyOptions, SERVE_HELP, ServeOptions};
use crate::topology::options::{ShapeOptions, TOPOLOGY_HELP, TopologyOptions};
use crate::via::Via;
use crate::warm::options::RankOptions;

use self::inner::InnerCommand;

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

Exit status: the program's (of several processes the highest); 128+n if signal n ended it; 127 if it \
was not found, 126 if it could not be executed; 125 if the command line of headwater itself is wrong.

In front of a launcher (srun, mpirun, mpiexec, prterun, flux run, jsrun) the program is served on the nodes on \
which the launcher starts it. The program's own wrappers (bash -c, scripts) are not looked into for the scope: \
name what they start from with --shared.";

const START_HELP: &str = "\
Examples:
  session=$(headwater start -- python3 train.py)
  headwater run --session $session -- srun -N 64 python3 prepare.py
  headwater run --session $session -- srun -N 64 python3 train.py
  headwater stop $session

The nodes of the first launch take part, and keep what they have for the later ones. The session ends with \
`headwater stop`, with the process that `headwater start` leaves behind on this machine, or when its lease is over.";

const STATS: &str = "\
What the kernel answers from its own caches is seen by nobody: UPCALLS are the questions that it has \
left. LOOK-UPS are those of programs that run with the audit library.";

const CLEAR: &str = "\
What is read again comes from the nearest node that still has it, or from the shared file system, and \
is the same version: if the original has changed meanwhile, the original itself is used, and `headwater \
stats` names it. What a process has open or mapped is kept.";

const REFRESH: &str = "\
What is known is looked at once on the shared file system, by one node. What has changed is read anew \
when it is next needed, what has not is kept, on all nodes. Who sees it:
  audit library    processes that are started (execute a program) from now on; all others go on with \
what they began with, and use originals for what their nodes did not know yet
  mount, namespace each look-up of a name from now on, whichever process makes it; open files and \
mapped libraries stay as they are, and so does the content of a file that changed in place, until it is \
opened again
In a site's view (`headwater join`) it takes effect on all nodes, wherever root or the services' user asks \
for it.";

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
    #[command(after_help = EXAMPLES)]
    Run(RunOptions),
    /// Start many processes of a program on this node, placed, their output labelled
    #[command(after_help = SPAWN_HELP)]
    Spawn(SpawnOptions),
    /// Make a session that several launches use, and print its name
    #[command(after_help = START_HELP)]
    Start(StartOptions),
    /// End a session that `headwater start` has made
    Stop(StopOptions),
    /// Run a program on one node, and write down what it uses, for `headwater run --preload`
    Record(RecordOptions),
    /// Show a directory, or all of them, through Headwater at another place
    #[command(after_help = MOUNT_HELP)]
    Mount(MountOptions),
    /// Read a directory for all nodes and users of a site, as one of its readers
    #[command(after_help = SERVE_HELP)]
    Serve(ServeOptions),
    /// Show everybody on this node the directory that a site's readers serve
    #[command(after_help = JOIN_HELP)]
    Join(JoinOptions),
    /// Make the key by which a site's nodes know each other
    #[command(after_help = KEY_HELP)]
    Key(KeyOptions),
    /// End what `headwater mount` or `join` has mounted
    Unmount(UnmountOptions),
    /// Check what this machine can, and what it lacks
    Doctor(DoctorOptions),
    /// Show what the daemons of a session did so far
    #[command(after_help = STATS)]
    Stats(StatsOptions),
    /// Have the nodes give up their copies of files
    #[command(after_help = CLEAR)]
    Clear(ClearOptions),
    /// Show programs that start later what has changed on the shared file system
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
    /// Predict and show what becomes of the I/O of MPI programs
    #[command(subcommand)]
    Io(IoCommand),
    #[command(flatten)]
    #[allow(missing_docs, reason = "its type says it")]
    Inner(InnerCommand),
    /// Write man pages or completions.
    #[command(hide = true, subcommand)]
    Generate(Generate),
}

/// Options of `headwater run`. Each is also an environment variable; the command line wins.
#[derive(Debug, Args)]
pub struct RunOptions {
    /// Number of nodes: daemons on this machine, each with its own store, table and sockets
    #[arg(long, value_name = "N", env = "HEADWATER_NODES", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub nodes: u32,

    /// Processes on each node
    #[arg(long, value_name = "P", env = "HEADWATER_PPN", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub ppn: u32,

    #[command(flatten)]
    #[allow(missing_docs, reason = "its type says it")]
    pub service: ServiceOptions,

    /// Print the directories that would be served, and why, and do not run the program
    #[arg(long, env = "HEADWATER_SHOW_SCOPE", value_parser = FalseyValueParser::new())]
    pub show_scope: bool,

    /// Print a summary to standard error at the end (the default on a terminal)
    #[arg(long, env = "HEADWATER_SUMMARY", value_parser = FalseyValueParser::new())]
    pub summary: bool,

    /// Print no summary
    #[arg(long, env = "HEADWATER_NO_SUMMARY", value_parser = FalseyValueParser::new())]
    pub no_summary: bool,

    /// Write a summary in JSON
    #[arg(long, value_name = "FILE", env = "HEADWATER_SUMMARY_JSON", value_hint = ValueHint::FilePath)]
    pub summary_json: Option<PathBuf>,

    /// Use a session of `headwater start`, with what its nodes have already
    #[arg(long = "session", value_name = "ID", env = "HEADWATER_USE_SESSION", conflicts_with_all = ["nodes", "ppn"])]
    pub use_session: Option<String>,

    /// A word that stands before each program in the command line of a launcher that is not known
    #[arg(long, value_name = "WORD", env = "HEADWATER_MARKER")]
    pub marker: Option<OsString>,

    #[command(flatten)]
    #[allow(missing_docs, reason = "its type says it")]
    pub ranks: RankOptions,

    #[command(flatten)]
    #[allow(missing_docs, reason = "its type says it")]
    pub io: IoOptions,

    /// The program and its arguments
    #[arg(value_name = "PROGRAM", required = true, trailing_var_arg = true,
          value_hint = ValueHint::CommandWithArguments)]
    pub program: Vec<OsString>,
}

/// Options of `headwater start`.
#[derive(Debug, Args)]
pub struct StartOptions {
    #[command(flatten)]
    #[allow(missing_docs, reason = "its type says it")]
    pub service: ServiceOptions,

    #[command(flatten)]
    #[allow(missing_docs, reason = "its type says it")]
    pub io: IoOptions,

    /// How long the session stays without a launch, in minutes
    #[arg(long, value_name = "MINUTES", env = "HEADWATER_LEASE", default_value_t = 60,
          value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub lease: u32,

    /// Serve in this process, and end with its standard input.
    #[arg(long, hide = true)]
    pub stays: bool,

    /// A word that stands before each program in the command line of a launcher that is not known
    #[arg(long, value_name = "WORD", env = "HEADWATER_MARKER")]
    pub marker: Option<OsString>,

    /// A command whose program's directories are served; it is not run
    #[arg(value_name = "PROGRAM", trailing_var_arg = true, value_hint = ValueHint::CommandWithArguments)]
    pub program: Vec<OsString>,
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

/// What is served, and how: for `headwater run` and `headwater start`.
#[derive(Debug, Args)]
pub struct ServiceOptions {
    /// Also serve this directory, wherever it lies; it should be read-only for the job
    /// (repeatable, or separated by colons)
    #[arg(long, value_name = "DIR", env = "HEADWATER_SHARED", value_delimiter = ':', value_hint = ValueHint::DirPath)]
    pub shared: Vec<PathBuf>,

    /// Do not serve this directory (repeatable, or separated by colons)
    #[arg(long, value_name = "DIR", env = "HEADWATER_EXCLUDE", value_delimiter = ':', value_hint = ValueHint::DirPath)]
    pub exclude: Vec<PathBuf>,

    /// How the files reach the program: namespace (a mount over the original directories), audit (a
    /// library in the program), mount (a mount with paths of its own), off, or auto: the best here
    #[arg(
        long,
        value_name = "HOW",
        env = "HEADWATER_VIA",
        value_enum,
        default_value = "auto",
        hide_possible_values = true
    )]
    pub via: Via,

    /// Send what one node asks for to every node (programs that do the same everywhere)
    #[arg(long, env = "HEADWATER_PUSH", value_parser = FalseyValueParser::new())]
    pub push: bool,

    /// Send files only to the nodes that ask for them
    #[arg(long, env = "HEADWATER_PULL", value_parser = FalseyValueParser::new())]
    pub pull: bool,

    /// Start with --pull, and push what enough nodes ask for (the default)
    #[arg(long, env = "HEADWATER_ADAPTIVE", value_parser = FalseyValueParser::new())]
    pub adaptive: bool,

    #[command(flatten)]
    #[allow(missing_docs, reason = "its type says it")]
    pub shape: ShapeOptions,

    /// What is sent to all nodes before the program asks: auto (the libraries that it is linked with), off, or
    /// what a file names: one from `headwater record`, or a list of paths
    #[arg(long, value_name = "WHAT", env = "HEADWATER_PRELOAD", default_value = "auto",
          value_parser = OsStringValueParser::new().map(PreloadOption::from), value_hint = ValueHint::FilePath)]
    pub preload: PreloadOption,

    /// Where the nodes' stores are: a directory in memory [default: a RAM disk of the session's own; where
    /// that can't be had /dev/shm, or another local directory where programs may be loaded from]
    #[arg(long, value_name = "DIR", env = "HEADWATER_STORE", value_hint = ValueHint::DirPath)]
    pub store: Option<PathBuf>,

    /// The most that one node's store holds, such as 512M or 2G; it holds less while memory is short
    /// [default: 4G, or half of what is free, shared by the nodes]
    #[arg(long, value_name = "BYTES", env = "HEADWATER_STORE_MAX", value_parser = parse_bytes)]
    pub store_max: Option<u64>,

    /// Have a copy of each library in every memory domain of a node, as far as the store has room (audit alone)
    #[arg(long, env = "HEADWATER_NUMA_REPLICAS")]
    pub numa_replicas: bool,

    /// The largest file that is sent as a whole; of larger ones, what is read [default: 16M]
    #[arg(long, value_name = "BYTES", env = "HEADWATER_WHOLE_FILE_MAX", value_parser = parse_bytes)]
    pub whole_file_max: Option<u64>,

    /// How files are opened in a mount: no-open (by the kernel alone), cached, passthrough (root
    /// only), or auto: no-open in a job's namespace, the quickest here otherwise
    #[arg(
        long,
        value_name = "HOW",
        env = "HEADWATER_OPENING",
        value_enum,
        default_value = "auto",
        hide_possible_values = true
    )]
    pub opening: OpeningOption,

    /// A directory that all nodes see, for a file that tells them where to meet [default: ~/.headwater]
    #[arg(long, value_name = "DIR", env = "HEADWATER_JOB_DIR", value_hint = ValueHint::DirPath)]
    pub job_dir: Option<PathBuf>,

    /// Directories that nodes see under another path: FROM here is TO there (repeatable, or separated by commas)
    #[arg(long, value_name = "FROM=TO", env = "HEADWATER_MAP", value_delimiter = ',', value_parser = parse_mapping)]
    pub map: Vec<Mapping>,

    /// The ports at which daemons of several machines listen; the first free one is taken [default: any]
    #[arg(long, value_name = "FIRST-LAST", env = "HEADWATER_PORTS")]
    pub ports: Option<Ports>,

    /// How nodes reach each other: tcp, or libfabric, by the provider that it finds first or by libfabric:PROVIDER
    #[arg(long, value_name = "HOW", env = "HEADWATER_TRANSPORT", default_value = "tcp")]
    pub transport: crate::topology::transport::Transport,

    /// Tell on standard error what is done
    #[arg(long, short, env = "HEADWATER_VERBOSE", value_parser = FalseyValueParser::new())]
    pub verbose: bool,
}

/// Options of `headwater record`.
#[derive(Debug, Args)]
pub struct RecordOptions {
    /// Where to write what was used
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: PathBuf,

    #[command(flatten)]
    #[allow(missing_docs, reason = "its type says it")]
    pub run: RunOptions,
}

/// How a mount lets files be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OpeningOption {
    /// The quicker way, by measurement.
    Auto,
    /// The kernel opens files without asking.
    NoOpen,
    /// The daemon is asked, and pages stay cached.
    Cached,
    /// The kernel reads the node's copies themselves (as root only).
    Passthrough,
}

impl OpeningOption {
    /// The way that was asked for, if one was.
    pub fn named(self) -> Option<Opening> {
        match self {
            OpeningOption::Auto => None,
            OpeningOption::NoOpen => Some(Opening::None),
            OpeningOption::Cached => Some(Opening::Cached),
            OpeningOption::Passthrough => Some(Opening::Passthrough),
        }
    }
}

/// Options of `headwater doctor`.
#[derive(Debug, Args)]
pub struct DoctorOptions {
    /// Remove what dead sessions left: directories and mounts
    #[arg(long)]
    pub fix: bool,

    /// Print JSON
    #[arg(long)]
    pub json: bool,

    /// Where the nodes' stores are to be: a directory in memory [default: as `headwater run` has it]
    #[arg(long, value_name = "DIR", env = "HEADWATER_STORE", value_hint = ValueHint::DirPath)]
    pub store: Option<PathBuf>,
}

/// What `headwater generate` writes.
#[derive(Debug, Subcommand)]
pub enum Generate {
    /// A man page for each command.
    Man {
        /// Where to.
        directory: PathBuf,
    },
    /// Completions for bash, zsh and fish.
    Completions {
        /// Where to.
        directory: PathBuf,
    },
}

impl RunOptions {
    /// Settles what may be said in several ways: the last on the command line wins, any of the
    /// command line wins over variables, and a running session's variables say nothing about a new
    /// one.
    pub fn settle(&mut self, matches: &ArgMatches, in_session: bool) {
        if let Some(summary) = last_typed(matches, &["summary", "no_summary"]) {
            (self.summary, self.no_summary) = (summary == "summary", summary == "no_summary");
        }
        let is_inherited = in_session && matches.value_source("nodes") != Some(ValueSource::CommandLine);
        if is_inherited {
            self.nodes = 1;
        }
        self.service.settle(matches, is_inherited);
    }

    /// Whether people get a summary; `terminal`: standard error is one.
    pub fn prints_summary(&self, terminal: bool) -> bool {
        if self.summary == self.no_summary { terminal } else { self.summary }
    }
}

impl ServiceOptions {
    /// The same for these options; `is_inherited`: variables say nothing of the nodes.
    pub fn settle(&mut self, matches: &ArgMatches, is_inherited: bool) {
        if let Some(policy) = last_typed(matches, &["push", "pull", "adaptive"]) {
            (self.push, self.pull, self.adaptive) = (policy == "push", policy == "pull", policy == "adaptive");
        }
        self.shape.settle(matches, is_inherited);
    }

    /// Who gets what a node asks for.
    pub fn policy(&self) -> Policy {
        match (self.push, self.pull, self.adaptive) {
            (true, false, false) => Policy::Push,
            (false, true, false) => Policy::Pull,
            _ => Policy::Adaptive,
        }
    }
}

/// Which of these options stands last on the command line.
fn last_typed(matches: &ArgMatches, ids: &[&'static str]) -> Option<&'static str> {
    let typed = ids.iter().copied().filter(|id| matches.value_source(id) == Some(ValueSource::CommandLine));
    typed.max_by_key(|id| matches.indices_of(id).and_then(Iterator::last))
}

/// A number of bytes with an optional unit: K, M, G or T, powers of 1024.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let bare = text.trim_end_matches(['B', 'b']).trim_end_matches('i');
    let unit = match bare.chars().last().map(|c| c.to_ascii_uppercase()) {
        Some('K') => 10,
        Some('M') => 20,
        Some('G') => 30,
        Some('T') => 40,
        _ => 0,
    };
    let digits = if unit == 0 { bare } else { &bare[..bare.len() - 1] };
    let number: f64 = digits.trim().parse().map_err(|_| String::from("write a size as 4096, 512M or 2G"))?;
    let bytes = number * (1u64 << unit) as f64;
    if bytes.is_finite() && (1.0..=(1u64 << 60) as f64).contains(&bytes) {
        Ok(bytes as u64)
    } else {
        Err(String::from("the size must be at least 1 byte"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{ArgAction, CommandFactory, FromArgMatches};

    fn settled(words: &[&str]) -> RunOptions {
        let words = ["headwater", "run"].iter().chain(words).chain(&["true"]);
        let matches = CommandLine::command().get_matches_from(words);
        let Command::Run(mut options) = CommandLine::from_arg_matches(&matches).unwrap().command else {
            panic!("run was given");
        };
        options.settle(matches.subcommand_matches("run").unwrap(), false);
        options
    }

    #[test]
    fn the_last_of_opposites_wins() {
        assert_eq!(settled(&[]).service.policy(), Policy::Adaptive);
        assert_eq!(settled(&["--push"]).service.policy(), Policy::Push);
        assert_eq!(settled(&["--push", "--pull"]).service.policy(), Policy::Pull);
        assert_eq!(settled(&["--pull", "--adaptive", "--push"]).service.policy(), Policy::Push);
        assert!(!settled(&["--summary", "--no-summary"]).prints_summary(true));
        assert!(settled(&["--no-summary", "--summary"]).prints_summary(false));
        assert!(settled(&[]).prints_summary(true) && !settled(&[]).prints_summary(false));
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

    #[test]
    fn sizes() {
        for (text, expected) in [
            ("4096", Some(4096)),
            ("2G", Some(2 << 30)),
            ("512m", Some(512 << 20)),
            ("1.5 KiB", Some(1536)),
            ("1TB", Some(1 << 40)),
            ("", None),
            ("G", None),
            ("-1", None),
            ("0", None),
            ("1E400", None),
            ("é", None),
        ] {
            assert_eq!(parse_bytes(text).ok(), expected, "{text}");
        }
    }
}
