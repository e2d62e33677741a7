//! Pages of source files that the kernel keeps, although their content may have changed.
//!
//! The kernel drops a file's pages when its size or its time of modification differs from what it knows. Neither need
//! differ when another node has changed the content: file systems count the time in ticks of a clock, some in seconds,
//! and programs set it. Each opening looks the file up by its name. If the pages may be out of date then, the answer
//! shows another time of modification, for this one moment, and the kernel drops them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use headwater_abi::Attr;
use headwater_fuse::{Entry, NodeId};

/// How long content may change after a version was first seen without another time of modification or change. The
/// coarsest file systems count seconds, and some only even ones.
const TICK_MAX: Duration = Duration::from_secs(2);

/// The files of which the kernel has pages.
#[derive(Debug, Default)]
pub(crate) struct KeptPages {
    /// Only this node's processes change files, and its kernel knows what they do.
    is_alone: AtomicBool,
    /// The kernel may have pages that are not in `files`.
    has_unknown: AtomicBool,
    files: Mutex<HashMap<NodeId, Kept>>,
}

#[derive(Debug)]
struct Kept {
    /// The version at the last look-up, and when it was first seen.
    version: Option<(Version, Instant)>,
    pages: Pages,
}

/// A file's size, time of modification and time of change.
type Version = (u64, (i64, u32), (i64, u32));

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pages {
    None,
    /// Of the version, for certain.
    OfVersion,
    /// Of the version, or of one that has the same times.
    Doubtful,
}

impl KeptPages {
    /// Makes the state of a mount. With `has_other_nodes`, these change files too; with `has_predecessor`, another
    /// daemon may have supplied pages.
    pub(crate) fn new(has_other_nodes: bool, has_predecessor: bool) -> KeptPages {
        let (is_alone, has_unknown) = (!has_other_nodes, has_predecessor);
        KeptPages { is_alone: is_alone.into(), has_unknown: has_unknown.into(), files: Mutex::default() }
    }

    /// Returns true if no other node changes what the kernel keeps.
    pub(super) fn is_alone(&self) -> bool {
        self.is_alone.load(Ordering::Relaxed)
    }

    /// Notes that a process outside of the session changes files.
    pub(super) fn note_outsider(&self) {
        if self.is_alone.swap(false, Ordering::Relaxed) {
            self.has_unknown.store(true, Ordering::Relaxed);
        }
    }

    /// Notes that the kernel gets pages of this node from a READ or keeps those of a WRITE.
    pub(crate) fn supplied(&self, node: NodeId) {
        if self.is_alone() {
            return;
        }
        let now = Instant::now();
        let mut files = self.lock();
        let kept = files.entry(node).or_insert(Kept { version: None, pages: Pages::None });
        let is_settled = kept.version.is_some_and(|(_, since)| now >= since + TICK_MAX);
        kept.pages = if is_settled && kept.pages != Pages::Doubtful { Pages::OfVersion } else { Pages::Doubtful };
    }

    /// Returns true if the kernel has to drop this node's pages now that the file has these attributes.
    pub(crate) fn are_outdated(&self, node: NodeId, attr: &Attr) -> bool {
        let version = (attr.size, attr.mtime, attr.ctime);
        let mut files = self.lock();
        if self.is_alone() || (!self.has_unknown.load(Ordering::Relaxed) && !files.contains_key(&node)) {
            return false;
        }
        let kept = files.entry(node).or_insert(Kept { version: None, pages: Pages::Doubtful });
        let is_another = kept.version.is_none_or(|(known, _)| known != version);
        if is_another {
            kept.version = Some((version, Instant::now()));
        }
        let is_outdated = kept.pages == Pages::Doubtful || (is_another && kept.pages != Pages::None);
        if is_outdated {
            kept.pages = Pages::None;
        }
        is_outdated
    }

    /// Forgets a node that the kernel has forgotten.
    pub(super) fn forget(&self, node: NodeId) {
        self.lock().remove(&node);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<NodeId, Kept>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes the answer to a LOOKUP drop the file's pages. The kernel asks for the attributes before it shows them.
pub(super) fn drop_pages(entry: &mut Entry) {
    entry.attr.mtime.1 ^= 1;
    entry.attr_ttl = Duration::ZERO;
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: NodeId = NodeId(7);

    fn attr(mtime: i64, ctime: i64) -> Attr {
        Attr { size: 10, mtime: (mtime, 0), ctime: (ctime, 0), ..Attr::default() }
    }

    fn age(kept: &KeptPages, by: Duration) {
        let mut files = kept.lock();
        let (_, since) = files.get_mut(&NODE).unwrap().version.as_mut().unwrap();
        *since -= by;
    }

    #[test]
    fn pages_are_outdated_with_another_version() {
        let kept = KeptPages::new(true, false);
        assert!(!kept.are_outdated(NODE, &attr(1, 1)), "there are none");
        kept.supplied(NODE);
        assert!(kept.are_outdated(NODE, &attr(1, 1)) && !kept.are_outdated(NODE, &attr(1, 1)));
        age(&kept, TICK_MAX);
        kept.supplied(NODE);
        assert!(!kept.are_outdated(NODE, &attr(1, 1)), "the version can't change any more");
        assert!(kept.are_outdated(NODE, &attr(1, 2)), "the time of modification was set");
        assert!(!kept.are_outdated(NODE, &attr(3, 3)), "the kernel has none");
    }

    #[test]
    fn pages_of_a_version_that_may_still_change_are_doubtful() {
        let kept = KeptPages::new(true, false);
        kept.supplied(NODE);
        kept.are_outdated(NODE, &attr(1, 1));
        for _ in 0..3 {
            kept.supplied(NODE);
            assert!(kept.are_outdated(NODE, &attr(1, 1)));
        }
        kept.supplied(NODE);
        age(&kept, TICK_MAX);
        kept.supplied(NODE);
        assert!(kept.are_outdated(NODE, &attr(1, 1)), "some are from before");
        kept.supplied(NODE);
        assert!(!kept.are_outdated(NODE, &attr(1, 1)));
        kept.forget(NODE);
        assert!(!kept.are_outdated(NODE, &attr(2, 2)));
    }

    #[test]
    fn a_predecessor_may_have_supplied_pages() {
        let kept = KeptPages::new(true, true);
        assert!(kept.are_outdated(NODE, &attr(1, 1)) && !kept.are_outdated(NODE, &attr(1, 1)));
    }

    #[test]
    fn a_node_that_is_alone_knows_its_own_changes() {
        let kept = KeptPages::new(false, true);
        kept.supplied(NODE);
        assert!(!kept.are_outdated(NODE, &attr(1, 1)));
        kept.note_outsider();
        assert!(kept.are_outdated(NODE, &attr(1, 1)), "the kernel has pages from before");
        assert!(!kept.are_outdated(NODE, &attr(1, 1)));
    }
}
