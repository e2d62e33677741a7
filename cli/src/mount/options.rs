//! The command lines of `headwater mount` and `headwater unmount`.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use crate::options::headings::OUTPUT;
use crate::options::store::{OpeningOptions, StoreOptions};
use crate::options::values::number;
use crate::topology::options::ShapeOptions;

/// What `headwater mount --help` shows at the end.
pub const MOUNT_HELP: &str = "\
Examples:
  headwater mount /mnt/hw                     # /lustre/sw is then /mnt/hw/lustre/sw
  headwater mount /mnt/sw --root /lustre/sw   # /lustre/sw/bin is then /mnt/sw/bin
  headwater unmount /mnt/sw

The view is read-only and shows each file as it was when it was first read. It needs no privilege \
where fusermount3 is installed and /dev/fuse can be opened. With --nodes N there is a mount for each node, \
MOUNTPOINT/n0 to MOUNTPOINT/nN-1, in directories that are made for it and removed afterwards.";

/// Options of `headwater mount`.
#[derive(Debug, Args)]
pub struct MountOptions {
    /// The directory to mount on
    #[arg(value_name = "MOUNTPOINT", value_hint = ValueHint::DirPath)]
    pub mount_point: PathBuf,

    /// The directory that the mount shows
    #[arg(long, value_name = "DIR", default_value = "/", value_hint = ValueHint::DirPath)]
    pub root: PathBuf,

    /// Show this directory as it is at any moment, not through Headwater (repeatable, or separated by
    /// colons)
    #[arg(long, value_name = "DIR", value_delimiter = ':', value_hint = ValueHint::DirPath)]
    pub exclude: Vec<PathBuf>,

    /// Let other users in, as far as the files' modes allow; as an ordinary user this needs
    /// user_allow_other in /etc/fuse.conf
    #[arg(long)]
    pub allow_other: bool,

    /// Number of nodes: daemons on this machine, to try trees of them
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = number(1..=1024))]
    pub nodes: u32,

    #[command(flatten)]
    pub shape: ShapeOptions,

    #[command(flatten)]
    pub storage: StoreOptions,

    #[command(flatten)]
    pub opening: OpeningOptions,

    /// Stay in the foreground until Ctrl-C, or until it is unmounted
    #[arg(long, short)]
    pub foreground: bool,

    /// Report each step on standard error
    #[arg(long, short, help_heading = OUTPUT)]
    pub verbose: bool,
}

/// Options of `headwater unmount`.
#[derive(Debug, Args)]
pub struct UnmountOptions {
    /// The directory that was given to `headwater mount`
    #[arg(value_name = "MOUNTPOINT", value_hint = ValueHint::DirPath)]
    pub mount_point: PathBuf,

    /// Take it out of the tree even if it is in use; what a process has open stays readable to it
    #[arg(long, short)]
    pub lazy: bool,

    /// Where the nodes' stores are, if `headwater mount` had --store
    #[arg(long, value_name = "DIR", env = "HEADWATER_STORE", value_hint = ValueHint::DirPath)]
    pub store: Option<PathBuf>,
}
