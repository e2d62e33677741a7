//! The configuration of preloading.

use serde::{Deserialize, Serialize};

/// What is fetched before any request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Preload {
    /// All that this program loads.
    Program(PreloadProgram),
    /// All entries of this list.
    List(PreloadList),
}

/// A program that will be started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PreloadProgram {
    /// Its file, absolute; links are followed.
    pub file: String,
    /// The working directory of its start.
    pub cwd: String,
    /// Its `PATH`.
    #[serde(default)]
    pub path: Option<String>,
    /// Its `LD_LIBRARY_PATH`.
    #[serde(default)]
    pub library_path: Option<String>,
    /// Its `LD_PRELOAD`.
    #[serde(default)]
    pub preload: Option<String>,
    /// Its `GLIBC_TUNABLES`.
    #[serde(default)]
    pub tunables: Option<String>,
}

/// A list of paths.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PreloadList {
    /// Its name in messages.
    pub name: String,
    /// It was learnt by itself, so no user needs to record it again.
    #[serde(default)]
    pub is_learnt: bool,
    /// Processes should use nothing else. Files of any size are stored, and requests beyond the list are what is recorded.
    #[serde(default)]
    pub is_complete: bool,
    /// Its entries, each as a line of a closure: see `docs/internals/closure.md`. Invalid lines are skipped.
    pub entries: Vec<String>,
}
