//! What a node's predecessor had published.

use headwater_abi::wire::{Fact, FileHead};

/// What was published about a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Memory {
    /// What it is.
    Fact(Fact),
    /// All of its content is in the store. Its fact comes before.
    Content {
        /// What it looks like.
        head: FileHead,
        /// Whether a path that was restored before has the same file in the store.
        is_linked: bool,
    },
    /// The job changes it, and with `tree` everything below it. All facts come before.
    Passthrough {
        /// Everything below it too.
        tree: bool,
    },
}
