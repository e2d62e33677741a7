//! The commands that headwater starts by itself.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::io::options::InnerIoOptions;

/// What headwater starts by itself, on each node. It is parsed apart from all else, which takes a process longer
/// than what it does.
#[derive(Debug, Parser)]
#[command(name = "headwater", disable_help_subcommand = true)]
pub struct InnerLine {
    /// What to do.
    #[command(subcommand)]
    pub command: InnerCommand,
}

/// What headwater starts by itself.
#[derive(Debug, Subcommand)]
#[command(hide = true)]
pub enum InnerCommand {
    /// One node's daemon; its configuration comes on standard input.
    #[command(hide = true)]
    Daemon,
    /// One node's supervisor, which mounts and starts the daemon; its configuration comes on standard
    /// input.
    #[command(hide = true)]
    Supervise,
    /// Make a node's namespaces, as the supervisor on standard input says.
    #[command(hide = true)]
    Namespace(NamespaceOptions),
    /// Become a program, as one process of a session.
    #[command(hide = true)]
    Exec(ExecOptions),
    /// Be the front end of a job whose nodes are told of it by others, until standard input ends.
    #[command(hide = true)]
    Front(FrontOptions),
    /// Serve a node's processes of a job, until the job ends.
    #[command(hide = true)]
    Node(NodeOptions),
    /// Remove what dead sessions left.
    #[command(hide = true)]
    Sweep(SweepOptions),
    /// Have a RAM disk's descriptor until standard input ends.
    #[command(hide = true)]
    Keep(KeepOptions),
    /// Own the zygotes of a node's ranks.
    #[command(hide = true)]
    Warm(WarmOptions),
}

/// Options of `headwater namespace`.
#[derive(Debug, Args)]
pub struct NamespaceOptions {
    /// Only try, and say on standard output what is possible.
    #[arg(long)]
    pub probe: bool,
    /// Make a RAM disk of so many bytes instead, for whoever is at standard input.
    #[arg(long)]
    pub disk: Option<u64>,
}

/// Options of `headwater keep`.
#[derive(Debug, Args)]
pub struct KeepOptions {
    /// The descriptor of its root directory.
    pub root: u32,
}

/// Options of `headwater exec`.
#[derive(Debug, Args)]
pub struct ExecOptions {
    /// The audit library that the program is started with.
    #[arg(long)]
    pub audit: Option<PathBuf>,
    /// The supervisor whose namespaces the program is started in.
    #[arg(long, conflicts_with = "audit")]
    pub enter: Option<PathBuf>,
    /// The process that this one is not to outlive.
    #[arg(long)]
    pub parent: Option<u32>,
    /// With --parent: ask the program to end, instead of killing it.
    #[arg(long, requires = "parent")]
    pub gently: bool,
    /// The job whose node is to be asked how its daemon is found.
    #[arg(long, conflicts_with_all = ["audit", "enter"])]
    pub job: Option<PathBuf>,
    /// Where the node's store is to be.
    #[arg(long, requires = "job")]
    pub store: Option<PathBuf>,
    /// The program comes from a zygote, where that can be.
    #[arg(long)]
    pub zygote: bool,
    /// What that imports.
    #[arg(long, requires = "zygote")]
    pub imports: Option<String>,
    /// The file that tells how ranks reseed what that has imported.
    #[arg(long, requires = "imports")]
    pub reseed: Option<PathBuf>,
    /// This process tells what is to be told once a node.
    #[arg(long, requires = "zygote")]
    pub reports: bool,
    #[command(flatten)]
    #[allow(missing_docs, reason = "its type says it")]
    pub io: InnerIoOptions,
    /// The program and its arguments.
    #[arg(required = true, trailing_var_arg = true)]
    pub program: Vec<OsString>,
}

/// Options of `headwater warm`.
#[derive(Debug, Args)]
pub struct WarmOptions {
    /// The node's directory.
    pub node: PathBuf,
}

/// Options of `headwater node`.
#[derive(Debug, Args)]
pub struct NodeOptions {
    /// Where the node's store is to be.
    #[arg(long)]
    pub store: Option<PathBuf>,
    /// Standard input stays open until who starts the node's processes ends.
    #[arg(long)]
    pub has_owner: bool,
    /// The job file.
    pub job: PathBuf,
}

/// Options of `headwater front`.
#[derive(Debug, Args)]
pub struct FrontOptions {
    /// Options of `headwater start`, separated by commas, without the dashes before them.
    #[arg(long, default_value = "")]
    pub options: String,
    /// The program whose directories are served.
    #[arg(trailing_var_arg = true)]
    pub program: Vec<OsString>,
}

/// Options of `headwater sweep`.
#[derive(Debug, Args)]
pub struct SweepOptions {
    /// Where the node's stores are.
    #[arg(long)]
    pub store: Option<PathBuf>,
}
