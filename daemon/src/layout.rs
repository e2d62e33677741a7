//! Names inside a node's directory.

use std::path::{Path, PathBuf};

/// The generation that a session starts with.
pub const GENERATION: u64 = 1;

/// A node's directory, `SESSION/nK`, and what stands in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeDir(PathBuf);

impl NodeDir {
    /// The node directory at this path.
    pub fn new(path: impl Into<PathBuf>) -> NodeDir {
        NodeDir(path.into())
    }

    /// The directory itself.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The socket on which processes ask.
    pub fn socket(&self) -> PathBuf {
        self.0.join("sock")
    }

    /// The file with the processes' counters.
    pub fn counters(&self) -> PathBuf {
        self.0.join("counters")
    }

    /// The directory of the audit shim's copy.
    pub fn library_dir(&self) -> PathBuf {
        self.0.join("lib")
    }

    /// The directory of the first generation.
    pub fn generation_dir(&self) -> PathBuf {
        self.0.join(GENERATION.to_string())
    }

    /// The shared table.
    pub fn table(&self) -> PathBuf {
        self.generation_dir().join("table")
    }

    /// The mirror: this prefix and then the original's absolute path.
    pub fn root(&self) -> PathBuf {
        self.generation_dir().join("root")
    }

    /// Where files are until they are complete.
    pub fn incoming(&self) -> PathBuf {
        self.generation_dir().join("incoming")
    }
}
