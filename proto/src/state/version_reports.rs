//! Versions of paths that a node has to report.

use alloc::collections::{BTreeMap, BTreeSet};

use headwater_abi::Path;
use headwater_abi::wire::Version;

use crate::Rank;
use crate::topology::{Forest, TreeId};

#[derive(Debug)]
pub(crate) struct VersionReports {
    /// Versions that this node does not know, or that may be unknown elsewhere.
    pub(crate) unreported: BTreeMap<TreeId, BTreeMap<Path, Version>>,
    /// Trees whose new parent is to get all versions that this node knows.
    pub(crate) unsettled: BTreeSet<TreeId>,
    /// Whether this node may become a reader.
    pub(crate) may_read: bool,
}

impl VersionReports {
    pub(crate) fn new(forest: &Forest, own: Rank) -> VersionReports {
        let may_read = forest.tree_ids().any(|tree| forest.candidates(tree).any(|candidate| candidate == own));
        VersionReports { unreported: BTreeMap::new(), unsettled: BTreeSet::new(), may_read }
    }
}
