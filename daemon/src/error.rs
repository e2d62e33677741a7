//! The errors of a daemon.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::config::ConfigError;

/// Why a daemon could not run.
#[derive(Debug, Error)]
pub enum DaemonError {
    /// The configuration can't be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Something in the node's directory could not be made.
    #[error("can't {what} {}: {source}. Choose another directory with --store, or make room there", path.display())]
    Directory {
        /// What was tried.
        what: &'static str,
        /// Its path.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// The operating system refused something else.
    #[error("can't {what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// Why it failed.
        source: io::Error,
    },
}

/// Returns a conversion for errors of an operation on a path.
pub(crate) fn failed(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> DaemonError {
    let path = path.to_owned();
    move |source| DaemonError::Directory { what, path, source }
}
