//! After a generation began, the kernel is told what may have come.
//!
//! It remembers that a name is absent, and is to be told of each name that is not any more; which
//! these are shows the directory's listing. So the directories that have changed are listed at once,
//! where the kernel knows them.

use std::collections::BTreeMap;

use headwater_abi::Path;
use headwater_proto::ClientId;

/// Directories that are being listed, and by which request.
#[derive(Debug, Default)]
pub(crate) struct Settling {
    pub(crate) listing: BTreeMap<Path, ClientId>,
}

impl Settling {
    /// A request is answered. False if it is none of these.
    pub(crate) fn answered(&mut self, client: ClientId) -> bool {
        let before = self.listing.len();
        self.listing.retain(|_, of| *of != client);
        self.listing.len() < before
    }
}
