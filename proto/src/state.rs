//! Parts of a node's state that several of its files share.

pub(crate) mod block_download;
pub(crate) mod memory;
pub(crate) mod parent;
pub(crate) mod refresh;
pub(crate) mod version_reports;
