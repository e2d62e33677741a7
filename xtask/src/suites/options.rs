//! The command line of `cargo xtask suites`.

use clap::Args;

use super::via::Via;

/// What to run.
#[derive(Args)]
pub struct Options {
    /// This suite alone, or one unit of it, such as python:test_os; repeatable.
    #[arg(long, value_name = "SUITE[:UNIT]")]
    pub(super) only: Vec<String>,
    /// By this mechanism alone; repeatable.
    #[arg(long)]
    pub(super) via: Vec<Via>,
    /// The few units of each suite that continuous integration runs.
    #[arg(long)]
    pub(super) short: bool,
}
