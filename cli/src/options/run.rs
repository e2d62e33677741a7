//! Options of `headwater run`, `start` and `record`.

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::{Result, ensure};
use clap::builder::{FalseyValueParser, PossibleValuesParser, TypedValueParser};
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, ValueHint};
use headwater_daemon::{LinkProtection, Policy};

use super::headings::{MECHANISM, OUTPUT, OVERLAY, RENDEZVOUS, SCOPE, STORE};
use super::inner::TraceOptions;
use super::opposites::{POLICIES, SUMMARIES};
use super::served::ServedOptions;
use super::store::{OpeningOptions, StoreOptions};
use crate::io::options::IoOptions;
use crate::options::values::number;
use crate::rendezvous::file::key::KeyProtection;
use crate::rendezvous::interfaces::InterfaceName;
use crate::rendezvous::paths::{Mapping, parse_mapping};
use crate::rendezvous::ports::Ports;
use crate::seal::options::SealedOptions;
use crate::topology::options::ShapeOptions;
use crate::topology::transport::Transport;
use crate::via::Via;
use crate::warm::options::RankOptions;

/// Options of `headwater run`. Each is also an environment variable, and most are keys of files; the command line wins.
#[derive(Debug, Args)]
pub struct RunOptions {
    /// The first node reports what the program uses, whatever is preloaded.
    #[arg(skip)]
    pub records: bool,

    /// How the first process is traced.
    #[arg(skip)]
    pub trace: TraceOptions,

    /// The run is explained: its nodes report, and its calls are traced by each mechanism.
    #[arg(skip)]
    pub is_explained: bool,

    /// Number of nodes: daemons on this machine, each with its own store, table and sockets
    #[arg(long, value_name = "N", env = "HEADWATER_NODES", default_value_t = 1,
          value_parser = number(1..=1024))]
    pub nodes: u32,

    /// Processes on each node
    #[arg(long, value_name = "P", env = "HEADWATER_PPN", default_value_t = 1,
          value_parser = number(1..=4096))]
    pub ppn: u32,

    #[command(flatten)]
    pub service: ServiceOptions,

    /// Print the directories that would be served, and why, and do not run the program
    #[arg(long, env = "HEADWATER_SHOW_SCOPE", value_parser = FalseyValueParser::new(), help_heading = SCOPE)]
    pub show_scope: bool,

    /// Print a summary to standard error at the end (the default on a terminal)
    #[arg(long, env = "HEADWATER_SUMMARY", value_parser = FalseyValueParser::new(), help_heading = OUTPUT)]
    pub summary: bool,

    /// Print no summary
    #[arg(long, env = "HEADWATER_NO_SUMMARY", value_parser = FalseyValueParser::new(), help_heading = OUTPUT)]
    pub no_summary: bool,

    /// Print neither why nothing is served, nor hints, progress or a summary, but warnings and errors
    #[arg(long, short, env = "HEADWATER_QUIET", value_parser = FalseyValueParser::new(), help_heading = OUTPUT)]
    pub quiet: bool,

    /// Write a summary in JSON
    #[arg(long, value_name = "FILE", env = "HEADWATER_SUMMARY_JSON", value_hint = ValueHint::FilePath,
          help_heading = OUTPUT)]
    pub summary_json: Option<PathBuf>,

    /// Write what the start did on all nodes as a page, with text and JSON beside it: which node got which file when and
    /// from where, and how long processes waited
    #[arg(long, value_name = "FILE", env = "HEADWATER_REPORT", value_hint = ValueHint::FilePath,
          help_heading = OUTPUT)]
    pub report: Option<PathBuf>,

    /// Use a session of `headwater start`, with the files that its nodes have already
    #[arg(long = "session", value_name = "ID", env = "HEADWATER_USE_SESSION", conflicts_with_all = ["nodes", "ppn", "sealed"])]
    pub use_session: Option<String>,

    /// The word that precedes each program in the command line of an unknown launcher
    #[arg(long, value_name = "WORD", env = "HEADWATER_MARKER")]
    pub marker: Option<OsString>,

    #[command(flatten)]
    pub sealed: SealedOptions,

    #[command(flatten)]
    pub ranks: RankOptions,

    #[command(flatten)]
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
    pub service: ServiceOptions,

    #[command(flatten)]
    pub io: IoOptions,

    /// How long the session stays without a launch, in minutes
    #[arg(long, value_name = "MINUTES", env = "HEADWATER_LEASE", default_value_t = 60,
          value_parser = number(1..=100_000))]
    pub lease: u32,

    /// Serve in this process.
    #[arg(long, hide = true)]
    pub stays: bool,

    /// The word that precedes each program in the command line of an unknown launcher
    #[arg(long, value_name = "WORD", env = "HEADWATER_MARKER")]
    pub marker: Option<OsString>,

    /// A command whose program's directories are served; it is not run
    #[arg(value_name = "PROGRAM", trailing_var_arg = true, value_hint = ValueHint::CommandWithArguments)]
    pub program: Vec<OsString>,
}

/// What is served, and how: for `headwater run` and `headwater start`.
#[derive(Debug, Args)]
pub struct ServiceOptions {
    /// Also serve this directory, wherever it lies; it should be read-only for the job
    /// (repeatable, or separated by colons)
    #[arg(long, value_name = "DIR", env = "HEADWATER_SHARED", value_delimiter = ':', value_hint = ValueHint::DirPath,
          help_heading = SCOPE)]
    pub shared: Vec<PathBuf>,

    /// Do not serve this directory (repeatable, or separated by colons)
    #[arg(long, value_name = "DIR", env = "HEADWATER_EXCLUDE", value_delimiter = ':', value_hint = ValueHint::DirPath,
          help_heading = SCOPE)]
    pub exclude: Vec<PathBuf>,

    #[command(flatten)]
    pub served: ServedOptions,

    /// How the files reach the program: namespace (a mount over the original directories), audit (a
    /// library in the program), mount (a mount with paths of its own), off, or auto: the best here
    #[arg(long, value_name = "HOW", env = "HEADWATER_VIA", value_enum, default_value = "auto",
          hide_possible_values = true, help_heading = MECHANISM)]
    pub via: Via,

    /// Send each file that one node requests to every node (for programs that do the same everywhere)
    #[arg(long, env = "HEADWATER_PUSH", value_parser = FalseyValueParser::new(), help_heading = OVERLAY)]
    pub push: bool,

    /// Send files only to the nodes that request them
    #[arg(long, env = "HEADWATER_PULL", value_parser = FalseyValueParser::new(), help_heading = OVERLAY)]
    pub pull: bool,

    /// Start with --pull, and push the files that enough nodes request (the default)
    #[arg(long, env = "HEADWATER_ADAPTIVE", value_parser = FalseyValueParser::new(), help_heading = OVERLAY)]
    pub adaptive: bool,

    #[command(flatten)]
    pub shape: ShapeOptions,

    /// Where --preload auto keeps what runs used: see `headwater closures` [default: ~/.cache/headwater/closures]
    #[arg(long, value_name = "DIR", env = "HEADWATER_CLOSURES", value_hint = ValueHint::DirPath, help_heading = OVERLAY)]
    pub closures: Option<PathBuf>,

    #[command(flatten)]
    pub storage: StoreOptions,

    /// Keep a copy of each library in every memory domain of a node, as far as the store has room (audit only)
    #[arg(long, env = "HEADWATER_NUMA_REPLICAS", value_parser = FalseyValueParser::new(), help_heading = STORE)]
    pub numa_replicas: bool,

    /// As --numa-replicas, only for libraries whose paths match, such as '/sw/mkl/*' or '*/libtorch*' (repeatable, or
    /// separated by colons)
    #[arg(long, value_name = "GLOB", env = "HEADWATER_NUMA_REPLICAS_FOR", value_delimiter = ':', help_heading = STORE)]
    pub numa_replicas_for: Vec<String>,

    #[command(flatten)]
    pub opening: OpeningOptions,

    /// A directory that all nodes see, for the file with the front end's address [default: ~/.headwater]
    #[arg(long, value_name = "DIR", env = "HEADWATER_JOB_DIR", value_hint = ValueHint::DirPath,
          help_heading = RENDEZVOUS)]
    pub job_dir: Option<PathBuf>,

    /// Directories that nodes see under another path: FROM here is TO there (repeatable, or separated by commas)
    #[arg(long, value_name = "FROM=TO", env = "HEADWATER_MAP", value_delimiter = ',', value_parser = parse_mapping,
          help_heading = RENDEZVOUS)]
    pub map: Vec<Mapping>,

    /// The ports at which daemons of several machines listen; the first free one is taken [default: any]
    #[arg(long, value_name = "FIRST-LAST", env = "HEADWATER_PORTS", help_heading = RENDEZVOUS)]
    pub ports: Option<Ports>,

    /// How nodes reach each other: tcp, or libfabric, by the provider that it finds first or by libfabric:PROVIDER
    #[arg(long, value_name = "HOW", env = "HEADWATER_TRANSPORT", default_value = "tcp", help_heading = OVERLAY)]
    pub transport: Transport,

    /// What nodes do to what they send each other: encrypt, or authenticate: others on the network can read files, names
    /// and requests, and can't change them
    #[arg(long, value_name = "HOW", env = "HEADWATER_LINK_PROTECTION", default_value = "encrypt",
          value_parser = link_protections(), hide_possible_values = true, help_heading = OVERLAY)]
    pub link_protection: LinkProtection,
    /// How the session's key reaches the nodes: none, as it is; or munge, in a credential that only this user's
    /// processes can decode, and only on machines with the site's key of munge
    #[arg(long, value_name = "HOW", env = "HEADWATER_KEY_PROTECTION", default_value = "none",
          hide_possible_values = true, help_heading = RENDEZVOUS)]
    pub key_protection: KeyProtection,
    /// The network interfaces that carry the files between nodes, as ib0,ib1 or 'ib*'. Each link uses all of them
    /// (repeatable, or separated by commas) [default: the one by which a node reaches the front end]
    #[arg(long, value_name = "NAMES", env = "HEADWATER_INTERFACES", value_delimiter = ',', help_heading = OVERLAY)]
    pub interfaces: Vec<InterfaceName>,

    /// Report each step on standard error
    #[arg(long, short, env = "HEADWATER_VERBOSE", value_parser = FalseyValueParser::new(), help_heading = OUTPUT)]
    pub verbose: bool,
}

/// Options of `headwater record`.
#[derive(Debug, Args)]
pub struct RecordOptions {
    /// The file to write
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: PathBuf,

    #[command(flatten)]
    pub run: RunOptions,
}

impl RunOptions {
    /// Resolves options that exclude each other: the last one on the command line wins, the command line wins over
    /// variables and files, and a running session's variables don't count for a new one.
    ///
    /// # Errors
    /// There are several push policies on the command line, or in variables.
    pub fn settle(&mut self, matches: &ArgMatches, in_session: bool) -> Result<()> {
        if let Some(summary) = last_typed(matches, &SUMMARIES) {
            (self.summary, self.no_summary) = (summary == "summary", summary == "no_summary");
        }
        let is_inherited = in_session && matches.value_source("nodes") != Some(ValueSource::CommandLine);
        if is_inherited {
            self.nodes = 1;
        }
        self.service.settle(matches, is_inherited)
    }

    /// Returns whether a summary is printed; `terminal`: standard error is one.
    pub fn prints_summary(&self, terminal: bool) -> bool {
        if self.summary == self.no_summary { terminal && !self.quiet } else { self.summary }
    }
}

impl ServiceOptions {
    /// Resolves these options; `is_inherited`: the variables that name nodes don't count.
    ///
    /// # Errors
    /// There are several push policies on the command line, or in variables.
    pub fn settle(&mut self, matches: &ArgMatches, is_inherited: bool) -> Result<()> {
        let typed: Vec<String> = typed(matches, &POLICIES).map(|policy| format!("--{policy}")).collect();
        ensure!(typed.len() < 2, "{} exclude each other: write one of them", typed.join(" and "));
        if let Some(policy) = last_typed(matches, &POLICIES) {
            (self.push, self.pull, self.adaptive) = (policy == "push", policy == "pull", policy == "adaptive");
        }
        let chosen = POLICIES.iter().zip([self.push, self.pull, self.adaptive]).filter(|(_, is_chosen)| *is_chosen);
        let chosen: Vec<String> = chosen.map(|(policy, _)| format!("HEADWATER_{}", policy.to_uppercase())).collect();
        ensure!(chosen.len() < 2, "{} exclude each other: unset one of them", chosen.join(" and "));
        let is_seen_by_all = matches!(self.via, Via::Namespace | Via::Mount);
        ensure!(
            self.served.follow_fork || !is_seen_by_all,
            "--follow-fork no needs audit, since what a program starts sees the same mounts: write --via audit"
        );
        self.numa_replicas |= !self.numa_replicas_for.is_empty();
        self.shape.settle(matches, is_inherited);
        Ok(())
    }

    /// Returns the push policy.
    pub fn policy(&self) -> Policy {
        match (self.push, self.pull, self.adaptive) {
            (true, false, false) => Policy::Push,
            (false, true, false) => Policy::Pull,
            _ => Policy::Adaptive,
        }
    }
}

/// Returns the parser of `--link-protection`.
fn link_protections() -> impl TypedValueParser<Value = LinkProtection> {
    let names = LinkProtection::ALL.map(LinkProtection::name);
    PossibleValuesParser::new(names).try_map(|name| name.parse::<LinkProtection>())
}

/// Returns the option of these that comes last on the command line.
fn last_typed(matches: &ArgMatches, ids: &[&'static str]) -> Option<&'static str> {
    typed(matches, ids).max_by_key(|id| matches.indices_of(id).and_then(Iterator::last))
}

/// Returns those of these options that are on the command line.
fn typed(matches: &ArgMatches, ids: &[&'static str]) -> impl Iterator<Item = &'static str> {
    ids.iter().copied().filter(|id| matches.value_source(id) == Some(ValueSource::CommandLine))
}
