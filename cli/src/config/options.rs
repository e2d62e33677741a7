//! Options of `headwater config`.

use clap::Args;

/// What `headwater config --help` shows at the end.
pub const CONFIG_HELP: &str = "\
Examples:
  headwater config
  HEADWATER_CONFIG=/sw/new/headwater.toml headwater config --check

A file has a line for each option, by its long name: `store-max = \"2G\"`, `shared = [\"/sw\", \"/apps\"]`, \
`numa-replicas = true`. The command line wins over a variable, a variable over the user's file, and that over the site's.";

/// Options of `headwater config`.
#[derive(Clone, Debug, Args)]
pub struct ConfigOptions {
    /// Print what is wrong in the files; the exit status is 1 if anything is
    #[arg(long)]
    pub check: bool,

    /// Print which files are searched for, and which of them are used
    #[arg(long, conflicts_with = "check")]
    pub files: bool,

    /// Print JSON
    #[arg(long, conflicts_with_all = ["check", "files"])]
    pub json: bool,
}
