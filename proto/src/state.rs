//! Parts of a node's state that several of its files share.

pub(crate) mod confirm;
pub(crate) mod direct;
pub(crate) mod parent;
pub(crate) mod refresh;
