//! Options of `headwater guard`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, ValueHint};

use crate::metrics::options::parse_address_with;
use crate::options::headings::OUTPUT;
use crate::options::values::number;

/// What `headwater guard --help` shows at the end.
pub const GUARD_HELP: &str = "\
Examples:
  headwater guard                                       # all network file systems of this node
  headwater guard --mount /sw --operations-per-second 500
  headwater guard --json --command /etc/headwater/notify

It runs in the foreground as root, until SIGTERM; see headwater-guard.service. It names a job once when it begins to \
be over the limit on this node, and once when it falls below half of it. An operation is one that the file system \
counts (NFS), or else the opening of a file or directory. It can't delay or refuse what programs do.

PROGRAM gets the finding in variables: HEADWATER_FINDING_EVENT (began or ended), _MOUNT, _FILE_SYSTEM, _JOB_KIND \
(slurm, pbs, lsf, flux, unit, session, none), _JOB_ID, _UID, _PROGRAM, _PER_SECOND, _COUNTED (operations or opens), \
_SHARE_PERCENT, _DIRECTORIES, and as HEADWATER_FINDING_JSON.";

/// The default port of `--listen`, which is unassigned.
const PORT_DEFAULT: u16 = 7449;

/// Options of `headwater guard`.
#[derive(Clone, Debug, Args)]
pub struct GuardOptions {
    /// Watch the file system of this directory; can be given several times [default: all network file systems]
    #[arg(long, value_name = "DIR", env = "HEADWATER_GUARD_MOUNT", value_delimiter = ':', value_hint = ValueHint::DirPath)]
    pub mount: Vec<PathBuf>,

    /// Name jobs with more operations per second on this node
    #[arg(long, value_name = "N", env = "HEADWATER_GUARD_OPERATIONS_PER_SECOND", default_value_t = 1000,
          value_parser = number(1..=1_000_000))]
    pub operations_per_second: u32,

    /// Decide each time after so many seconds
    #[arg(long, value_name = "SECONDS", env = "HEADWATER_GUARD_INTERVAL", default_value_t = 5,
          value_parser = number(1..=60))]
    pub interval: u32,

    /// Run this program for each finding, one at a time
    #[arg(long, value_name = "PROGRAM", env = "HEADWATER_GUARD_COMMAND", value_hint = ValueHint::ExecutablePath)]
    pub command: Option<PathBuf>,

    /// Print each finding as a line of JSON on standard output
    #[arg(long, help_heading = OUTPUT)]
    pub json: bool,

    /// Serve metrics for Prometheus at this address, port, or both [default: localhost:7449]
    #[arg(long, value_name = "ADDRESS", env = "HEADWATER_GUARD_LISTEN", num_args = 0..=1,
          default_missing_value = "localhost", value_parser = |text: &str| parse_address_with(text, PORT_DEFAULT),
          help_heading = OUTPUT)]
    pub listen: Option<SocketAddr>,
}
