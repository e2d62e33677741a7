//! The attempts to serve a request.

/// One attempt to serve a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Attempt {
    /// Answers of the node so far.
    pub(crate) rounds: u8,
    /// The node can't help: use the source file.
    pub(crate) must_use_source: bool,
    /// Don't wait for a file system.
    pub(crate) at_once: bool,
}
