//! Options of nodes' stores and of the files in a mount.

use std::path::PathBuf;

use clap::{Args, ValueEnum, ValueHint};
use headwater_daemon::CacheOptions;
use headwater_fuse::init::Opening;

use super::headings::{MECHANISM, STORE};
use super::values::parse_bytes;

/// Where nodes store their copies of files, and of how much.
#[derive(Clone, Debug, Args)]
pub struct StoreOptions {
    /// The directory of the nodes' stores, in memory [default: a RAM disk of the session; where none can be made,
    /// /dev/shm or another local directory from which programs may be loaded]
    #[arg(long, value_name = "DIR", env = "HEADWATER_STORE", value_hint = ValueHint::DirPath, help_heading = STORE)]
    pub store: Option<PathBuf>,

    /// The most that one node's store holds, such as 512M or 2G; it holds less while memory is short [default: 4G,
    /// or half of the free memory, shared by the nodes]
    #[arg(long, value_name = "BYTES", env = "HEADWATER_STORE_MAX", value_parser = parse_bytes, help_heading = STORE)]
    pub store_max: Option<u64>,

    /// The largest file that a node fetches as a whole; of a larger file, it fetches the parts that are read
    #[arg(long, value_name = "BYTES", env = "HEADWATER_WHOLE_FILE_MAX", value_parser = parse_bytes,
          default_value = "16M", help_heading = STORE)]
    pub whole_file_max: u64,

    /// The largest file that nodes store; processes read a larger one from its file system themselves [default: that
    /// of --whole-file-max for a node that is alone, and where nodes measure that it is faster so; else no limit]
    #[arg(long, value_name = "BYTES", env = "HEADWATER_STORED_FILE_MAX", value_parser = parse_bytes,
          help_heading = STORE)]
    pub stored_file_max: Option<u64>,

    /// A directory on each node, such as a local disk, in which content is kept for later sessions of this user: what
    /// is there and has not changed is not fetched again
    #[arg(long, value_name = "DIR", env = "HEADWATER_CACHE", value_hint = ValueHint::DirPath, help_heading = STORE)]
    cache: Option<PathBuf>,

    /// The most that the cache of one node holds [default: a quarter of what is free in it]
    #[arg(long, value_name = "BYTES", env = "HEADWATER_CACHE_MAX", value_parser = parse_bytes, help_heading = STORE)]
    cache_max: Option<u64>,
}

impl StoreOptions {
    /// Returns where content is kept for later sessions.
    pub fn cache(&self) -> Option<CacheOptions> {
        let directory = self.cache.as_ref().filter(|directory| !directory.as_os_str().is_empty())?;
        let directory = std::path::absolute(directory).ok()?;
        Some(CacheOptions { directory, bytes_max: self.cache_max })
    }
}

/// How a mount lets files be opened.
#[derive(Clone, Copy, Debug, Args)]
pub struct OpeningOptions {
    /// How files are opened in a mount: no-open (by the kernel alone), cached, or passthrough (root only, and not in a
    /// job's namespace, where files are written)
    #[arg(long, value_name = "HOW", env = "HEADWATER_OPENING", value_enum, default_value = "no-open",
          hide_possible_values = true, help_heading = MECHANISM)]
    opening: OpeningOption,
}

/// An opening mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum OpeningOption {
    /// The kernel opens files without a request.
    #[value(alias = "auto")]
    NoOpen,
    /// The daemon opens files, and pages stay cached.
    Cached,
    /// The kernel reads the node's copies themselves: as root only, and not in a namespace.
    Passthrough,
}

impl OpeningOptions {
    /// Returns the mode.
    pub fn mode(self) -> Opening {
        match self.opening {
            OpeningOption::NoOpen => Opening::None,
            OpeningOption::Cached => Opening::Cached,
            OpeningOption::Passthrough => Opening::Passthrough,
        }
    }
}
