//! Content of files that outlives a session, in a directory on the node: see `docs/internals/cache.md`.
//!
//! A file's attributes lead to the digest of its content, and the digest to the content. Nothing in the directory is
//! trusted: content is hashed before it is used. All of it may be removed at any time, by anybody.

mod directory;
mod key;
mod layout;
mod objects;
mod quota;
mod usage;

pub use directory::Cache;
pub use key::Key;
pub use objects::Found;
pub use usage::Usage;
