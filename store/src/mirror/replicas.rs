//! The state of the copies for memory domains.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::rc::Rc;

use headwater_abi::Path;

/// The further domains' mirrors.
#[derive(Debug, Default)]
pub(super) struct Replicas {
    /// Domains and their mirrors' directories.
    pub(super) domains: Vec<(u32, Rc<OwnedFd>)>,
    /// Bytes of all copies of a file that has some.
    pub(super) made: BTreeMap<Path, u64>,
    /// The same files, those made last at the end.
    pub(super) order: Vec<Path>,
    pub(super) bytes: u64,
    /// Bytes of those whose first copy has been evicted and not removed yet.
    pub(super) going: BTreeMap<Path, u64>,
}
