//! The mechanisms.

use clap::ValueEnum;

/// How a suite's files reach its programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Via {
    /// A library in the program.
    Audit,
    /// A mount over the source directories.
    Namespace,
}

impl Via {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Via::Audit => "audit",
            Via::Namespace => "namespace",
        }
    }
}
