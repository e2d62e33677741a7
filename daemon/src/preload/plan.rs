//! What is to be fetched before a process asks.

use serde::{Deserialize, Serialize};

/// What is to be fetched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Preload {
    /// What this program is loaded with.
    Program(PreloadProgram),
    /// What this list names.
    List(PreloadList),
}

/// A program that is going to be started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PreloadProgram {
    /// Its file, absolute; links are followed.
    pub file: String,
    /// The working directory that it is started in.
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
    /// What messages call it.
    pub name: String,
    /// Its entries, each as a line of a closure: see `docs/internals/closure.md`. Others are left out.
    pub entries: Vec<String>,
}
