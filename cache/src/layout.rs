//! Names in the cache's directory.

/// The version of the layout, which is part of the path: another version has another directory.
pub(crate) const VERSION: &str = "v1";
/// Where names lie, by the first two digits.
pub(crate) const NAMES: &str = "names";
/// Where content lies, by the first two digits.
pub(crate) const OBJECTS: &str = "objects";
/// What is being written.
pub(crate) const UNFINISHED: &str = "unfinished";
