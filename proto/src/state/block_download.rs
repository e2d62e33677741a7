//! Content that is downloaded block by block.

use alloc::collections::BTreeSet;
use alloc::sync::Arc;

use headwater_abi::wire::{Aspect, FileHead};

#[derive(Debug)]
pub(crate) struct BlockDownload {
    pub(crate) aspect: Aspect,
    pub(crate) head: Arc<FileHead>,
    /// The first block that has not been requested.
    pub(crate) next: u32,
    pub(crate) in_flight: BTreeSet<u32>,
}
