//! The listings that show new names after a generation has begun.
//!
//! The kernel caches absent names, and must be notified of each that exists now; the directory's listing shows these.
//! So changed directories that the kernel knows are listed at once.

use std::collections::BTreeMap;

use headwater_abi::Path;
use headwater_proto::ClientId;

/// Directories that are being listed, each with its request.
#[derive(Debug, Default)]
pub(crate) struct Settling {
    pub(crate) listing: BTreeMap<Path, ClientId>,
}

impl Settling {
    /// Removes an answered request. Returns false if it is none of these.
    pub(crate) fn answered(&mut self, client: ClientId) -> bool {
        let before = self.listing.len();
        self.listing.retain(|_, of| *of != client);
        self.listing.len() < before
    }
}
