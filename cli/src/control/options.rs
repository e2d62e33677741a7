//! Options of `headwater stats`, `clear` and `refresh`.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use crate::options::values::number;

/// The selected daemons.
#[derive(Clone, Debug, Args)]
pub struct Nodes {
    /// The session, by its name or the beginning of that [default: the one that this process runs in,
    /// or the only one on this machine]
    #[arg(long, value_name = "ID")]
    pub session: Option<String>,

    /// One node of the session [default: all that are on this machine]
    #[arg(long, value_name = "K")]
    pub node: Option<u32>,

    /// Where the nodes' stores are [default: wherever `headwater run` puts them by itself]
    #[arg(long, value_name = "DIR", env = "HEADWATER_STORE", value_hint = ValueHint::DirPath)]
    pub store: Option<PathBuf>,
}

/// Options of `headwater stats`.
#[derive(Clone, Debug, Args)]
pub struct StatsOptions {
    #[command(flatten)]
    pub nodes: Nodes,

    /// Of the session with this mount
    #[arg(value_name = "MOUNTPOINT", conflicts_with = "session", value_hint = ValueHint::DirPath)]
    pub mount_point: Option<PathBuf>,

    /// Print JSON
    #[arg(long)]
    pub json: bool,

    /// Print again every so many seconds, on a terminal in place
    #[arg(long, value_name = "SECONDS", value_parser = number(1..=3600))]
    pub watch: Option<u32>,
}

/// Options of `headwater clear`.
#[derive(Clone, Debug, Args)]
#[command(group = clap::ArgGroup::new("what").required(true).multiple(true))]
pub struct ClearOptions {
    #[command(flatten)]
    pub nodes: Nodes,

    /// Files whose copies are discarded
    #[arg(value_name = "PATH", group = "what", value_hint = ValueHint::AnyPath)]
    pub paths: Vec<PathBuf>,

    /// Directories whose files are discarded (repeatable)
    #[arg(long, value_name = "PATH", group = "what", value_hint = ValueHint::DirPath)]
    pub subtree: Vec<PathBuf>,

    /// Discard all copies
    #[arg(long, group = "what")]
    pub all: bool,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Options of `headwater refresh`.
#[derive(Clone, Debug, Args)]
pub struct RefreshOptions {
    #[command(flatten)]
    pub nodes: Nodes,

    /// Check only these paths, and those below them [default: all known paths]
    #[arg(value_name = "PATH", value_hint = ValueHint::AnyPath)]
    pub paths: Vec<PathBuf>,

    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
