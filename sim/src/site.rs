//! One node with its driver's model: table, store, processes, links.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use headwater_abi::wire::{Aspect, Fact, FileHead, TransferId};
use headwater_abi::{Kind, Path, Want};
use headwater_proto::{ClientId, Node, Rank};

use crate::reader::{Piece, Reads};
use crate::store::Store;
use crate::tree::{Look, Outcome, resolve};

/// A process that waits.
#[derive(Clone, Debug)]
pub(crate) struct Waiting {
    pub(crate) path: Path,
    pub(crate) want: Want,
    /// The block that it wants beyond that.
    pub(crate) block: Option<u32>,
    pub(crate) must_succeed: bool,
}

/// A link's end, while it is up.
#[derive(Debug, Default)]
pub(crate) struct Link {
    /// What is being received: as the driver knows it.
    pub(crate) incoming: BTreeMap<TransferId, (Piece, FileHead)>,
    /// The files of chunks that were put out and not yet sent.
    pub(crate) chunks: VecDeque<Path>,
    /// Wants that were sent and nothing was heard of since.
    pub(crate) wants: BTreeMap<(Path, Aspect), u64>,
}

/// A node and everything around it.
#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) node: Node,
    pub(crate) is_alive: bool,
    pub(crate) facts: BTreeMap<Path, Fact>,
    /// Content that processes may use.
    pub(crate) resident: BTreeMap<Path, FileHead>,
    /// Blocks that they may use.
    pub(crate) blocks: BTreeMap<Path, BTreeSet<u32>>,
    /// Files that were here in blocks: their names may have files of their own in the store.
    pub(crate) inodes_in_blocks: BTreeSet<u64>,
    /// Content whose eviction is refused, which the node has yet to hear.
    pub(crate) refused: VecDeque<Path>,
    pub(crate) live: BTreeMap<Path, bool>,
    pub(crate) listings_live: BTreeSet<Path>,
    pub(crate) store: Store,
    pub(crate) reads: Reads,
    pub(crate) waiting: BTreeMap<ClientId, Waiting>,
    pub(crate) links: BTreeMap<Rank, Link>,
    pub(crate) timer: Option<u64>,
}

impl Site {
    pub(crate) fn new(node: Node) -> Site {
        Site {
            node,
            is_alive: true,
            facts: BTreeMap::new(),
            resident: BTreeMap::new(),
            blocks: BTreeMap::new(),
            inodes_in_blocks: BTreeSet::new(),
            refused: VecDeque::new(),
            live: BTreeMap::new(),
            listings_live: BTreeSet::new(),
            store: Store::default(),
            reads: Reads::default(),
            waiting: BTreeMap::new(),
            links: BTreeMap::new(),
            timer: None,
        }
    }

    /// Whether processes may use this block.
    pub(crate) fn has_block(&self, path: &Path, block: u32) -> bool {
        let is_whole = self.resident.get(path).is_some_and(|head| head.whole);
        is_whole || self.blocks.get(path).is_some_and(|blocks| blocks.contains(&block))
    }

    pub(crate) fn is_live(&self, path: &Path) -> bool {
        self.live.contains_key(path)
            || std::iter::successors(path.parent(), Path::parent).any(|p| self.live.get(&p) == Some(&true))
    }

    /// Where the table says that a path leads.
    pub(crate) fn resolve(&self, path: &Path, want: Want, in_scope: impl Fn(&Path) -> bool) -> Outcome {
        resolve(path, !want.contains(Want::NO_FOLLOW), in_scope, |at| self.look(at))
    }

    fn look(&self, path: &Path) -> Look {
        if self.is_live(path) {
            return Look::Live;
        }
        match self.facts.get(path) {
            Some(Fact::Absent) => Look::Absent,
            Some(Fact::Error(_)) => Look::Error,
            Some(Fact::Link(_, target)) => Look::Link(target.to_vec()),
            Some(Fact::Listing(..) | Fact::Unlistable(_)) => Look::Dir,
            Some(Fact::Attr(attr)) if attr.kind() == Kind::Dir => Look::Dir,
            Some(Fact::Attr(_)) => Look::Other,
            None => self.look_in_listing(path),
        }
    }

    fn look_in_listing(&self, path: &Path) -> Look {
        let Some(directory) = path.parent() else { return Look::Unknown };
        match self.facts.get(&directory) {
            Some(Fact::Listing(_, listing)) if listing.find(path.name()).is_none() => {
                if self.listings_live.contains(&directory) { Look::Live } else { Look::Absent }
            }
            _ => Look::Unknown,
        }
    }
}
