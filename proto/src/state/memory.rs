//! What a node's predecessor has published.

use headwater_abi::wire::{Fact, FileHead};

/// A predecessor's publication about a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Memory {
    /// What it is.
    Fact(Fact),
    /// All of its content is stored. Its fact comes before.
    Content {
        /// Its head.
        head: FileHead,
        /// Whether a path that was restored before shares the stored file.
        is_linked: bool,
    },
    /// A passthrough path, and with `tree` everything below it. All facts come before.
    Passthrough {
        /// Everything below it too.
        tree: bool,
    },
}
