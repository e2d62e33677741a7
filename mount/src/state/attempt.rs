//! How often a request has been tried.

/// Which time a request is served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Attempt {
    /// Answers of the node that it has waited for.
    pub(crate) rounds: u8,
    /// The node can't help: the original is to be used.
    pub(crate) must_use_source: bool,
    /// Whoever serves must not wait for a file system.
    pub(crate) at_once: bool,
}
