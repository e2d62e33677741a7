//! The command lines of `headwater serve`, `headwater join` and `headwater key`.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::{Args, ValueHint};
use headwater_topology::hosts::Hostlist;

use crate::options::headings::{OUTPUT, OVERLAY, RENDEZVOUS};
use crate::options::store::{OpeningOptions, StoreOptions};
use crate::options::values::{number, parse_port};
use crate::topology::options::parse_list;

/// What `headwater serve --help` shows at the end.
pub const SERVE_HELP: &str = "\
Examples:
  headwater key                                         # once; then copy /etc/headwater/key to all nodes
  headwater serve --export /udsl --readers io[01-50] --nodes n[0001-8944]

It runs in the foreground, until SIGTERM; see headwater-serve.service. Each reader serves the nodes that \
are its own by their place in the list, and those of another reader that is down. It gives out what \
all users may read: files with o+r, in directories with o+x all along the path (to be listed, o+r too), \
whatever this process may read itself. Files that an access control list denies to any user are not given out. \
--whole-file-max must be the same on all nodes.";

/// What `headwater join --help` shows at the end.
pub const JOIN_HELP: &str = "\
Examples:
  headwater join --export /udsl --readers io[01-50] --nodes n[0001-8944]
  headwater join --export /gpfs/udsl --at /udsl --readers io[01-50] --nodes n[0001-8944]
  headwater refresh                                     # on any node: programs find what is new

It runs in the foreground; see headwater-join.service. Signals:
  SIGTERM, SIGINT   unmount, and end
  SIGHUP            end, and leave the mount served; the next `headwater join` finds it and goes on with it
  SIGUSR1           have a daemon of the executable that is installed by now take over the mount

All users of this node see the directory, read-only. While no reader can be reached, this node serves the files \
that it has, and other requests wait for up to a minute before they fail with EIO. If a file has changed since \
it was first read, and this node has no copy, reading it fails with ESTALE until it is refreshed, within seconds; \
processes that have it open get ESTALE from then on, too.";

/// What `headwater key --help` shows at the end.
pub const KEY_HELP: &str = "\
Examples:
  headwater key
  headwater key /etc/headwater/udsl.key

Any process that can read the key can read all served files, and pose as a reader.";

/// The default file with a site's variables, which the units read.
pub const FILE_DEFAULT: &str = "/etc/headwater/site.conf";
/// The default port, which is unassigned.
const PORT_DEFAULT: u16 = 7447;
/// The default path of the key.
const KEY_DEFAULT: &str = "/etc/headwater/key";

/// Options that are the same on all nodes of a site.
#[derive(Clone, Debug, Args)]
pub struct SiteOptions {
    /// The directory that the readers read, by its path there, without links; all users must be able to
    /// reach it
    #[arg(long, value_name = "DIR", env = "HEADWATER_EXPORT", value_hint = ValueHint::DirPath)]
    pub export: PathBuf,

    /// The nodes that read
    #[arg(long, value_name = "NODES", env = "HEADWATER_READERS", value_parser = parse_list)]
    pub readers: Hostlist,

    /// The nodes that see the directory; readers among them are left out
    #[arg(long, value_name = "NODES", env = "HEADWATER_NODES", value_parser = parse_list)]
    pub nodes: Hostlist,

    /// The port at which each node listens
    #[arg(long, env = "HEADWATER_PORT", default_value_t = PORT_DEFAULT,
          value_parser = parse_port, help_heading = RENDEZVOUS)]
    pub port: u16,

    /// Nodes that forward to others: at most K to each, in a tree below each reader [default: a reader
    /// sends to all of its nodes itself]
    #[arg(long, value_name = "K", env = "HEADWATER_FAN_OUT", value_parser = number(1..=1024),
          help_heading = OVERLAY)]
    pub fan_out: Option<u32>,

    /// The file with the site's key, which only this user may read
    #[arg(long, value_name = "FILE", env = "HEADWATER_KEY", default_value = KEY_DEFAULT, value_hint = ValueHint::FilePath)]
    pub key: PathBuf,
}

/// Options of this node alone.
#[derive(Clone, Debug, Args)]
pub struct LocalOptions {
    /// This node's name in the lists [default: its host name, with or without the domain]
    #[arg(long, value_name = "NAME", env = "HEADWATER_NODE_NAME", help_heading = RENDEZVOUS)]
    pub name: Option<String>,

    /// The address to listen at [default: all of this node's]
    #[arg(long, value_name = "ADDRESS", env = "HEADWATER_LISTEN", help_heading = RENDEZVOUS)]
    pub listen: Option<IpAddr>,

    #[command(flatten)]
    pub storage: StoreOptions,

    /// Report each step on standard error
    #[arg(long, short, help_heading = OUTPUT)]
    pub verbose: bool,
}

/// Options of `headwater serve`.
#[derive(Clone, Debug, Args)]
pub struct ServeOptions {
    #[command(flatten)]
    pub site: SiteOptions,

    #[command(flatten)]
    pub local: LocalOptions,
}

/// Options of `headwater join`.
#[derive(Clone, Debug, Args)]
pub struct JoinOptions {
    #[command(flatten)]
    pub site: SiteOptions,

    #[command(flatten)]
    pub local: LocalOptions,

    /// The directory to mount on, which is there [default: the path of --export]
    #[arg(long, value_name = "MOUNTPOINT", env = "HEADWATER_AT", value_hint = ValueHint::DirPath)]
    pub at: Option<PathBuf>,

    #[command(flatten)]
    pub opening: OpeningOptions,
}

/// Options of `headwater key`.
#[derive(Clone, Debug, Args)]
pub struct KeyOptions {
    /// The file to make
    #[arg(value_name = "FILE", default_value = KEY_DEFAULT, value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
}
