//! One node with its driver's model: table, store, processes, links.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use headwater_abi::wire::{Aspect, Fact, FileHead, TransferId};
use headwater_abi::{Path, Want};
use headwater_proto::{ClientId, Memory, Node, Peer, Rank};

use crate::reader::{Piece, Reads};
use crate::store::{Segment, Store};
use crate::tree::{Outcome, PathState, resolve};

#[derive(Clone, Debug)]
pub(crate) struct Waiting {
    pub(crate) path: Path,
    pub(crate) want: Want,
    /// The block that it needs beyond that.
    pub(crate) block: Option<u32>,
    pub(crate) must_succeed: bool,
    pub(crate) since: u64,
}

/// A link's end, while it is up.
#[derive(Debug)]
pub(crate) struct Link {
    /// The number of the connection between the two.
    pub(crate) number: u64,
    /// Transfers that are being received, in the driver's view.
    pub(crate) incoming: BTreeMap<TransferId, (Piece, FileHead)>,
    /// The files of chunks that were put out and not yet sent.
    pub(crate) chunks: VecDeque<Path>,
    /// Requests that were sent and not answered yet.
    pub(crate) wants: BTreeMap<(Path, Aspect, u32), u64>,
}

impl Link {
    pub(crate) fn new(number: u64) -> Link {
        Link { number, incoming: BTreeMap::new(), chunks: VecDeque::new(), wants: BTreeMap::new() }
    }
}

/// A node's visible state: it outlives the node's process if that is recovered.
#[derive(Debug, Default)]
pub(crate) struct Table {
    pub(crate) facts: BTreeMap<Path, Fact>,
    pub(crate) resident: BTreeMap<Path, FileHead>,
    /// Blocks that they may use.
    pub(crate) blocks: BTreeMap<Path, BTreeSet<u32>>,
    /// Files that processes read from the shared file system.
    pub(crate) direct: BTreeSet<Path>,
    /// Files that processes read in the node's mount.
    pub(crate) in_mount: BTreeSet<Path>,
    pub(crate) passthrough: BTreeMap<Path, bool>,
    pub(crate) passthrough_listings: BTreeSet<Path>,
    pub(crate) generation: u64,
}

#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) node: Node,
    pub(crate) is_alive: bool,
    /// Counts the node's starts.
    pub(crate) life: u64,
    /// When its clock began.
    pub(crate) started: u64,
    /// Until when it pauses.
    pub(crate) paused_until: u64,
    /// Until when it sends wrong bytes.
    pub(crate) lies_until: u64,
    pub(crate) table: Table,
    /// Files that were here in blocks: their names may have separate files in the store.
    pub(crate) inodes_in_blocks: BTreeSet<u64>,
    /// Content whose eviction was refused, before the node is notified.
    pub(crate) refused: VecDeque<Path>,
    /// The bytes of the message that is being handled, if the store can take them.
    pub(crate) received_content: Option<Vec<Segment>>,
    /// Content that the store could not take, before the node is notified.
    pub(crate) unstored: VecDeque<Path>,
    /// Paths with such content, ever.
    pub(crate) lost: BTreeSet<Path>,
    pub(crate) store: Store,
    /// The limit of the store's bytes.
    pub(crate) store_bytes_max: u64,
    /// Bytes in the store at the last check, with the reserved ones.
    pub(crate) store_bytes: u64,
    pub(crate) reads: Reads,
    pub(crate) waiting: BTreeMap<ClientId, Waiting>,
    pub(crate) links: BTreeMap<Peer, Link>,
    /// Ranks that are to be linked to, since when.
    pub(crate) dialled: BTreeMap<Rank, u64>,
    /// Ranks whose link was lost, or given up.
    pub(crate) suspects: BTreeSet<Rank>,
    /// Its own pending refreshes, and the version of the tree at the request.
    pub(crate) refreshes: BTreeMap<u64, usize>,
    /// Whether it has ever checked for changes.
    pub(crate) looks_anew: bool,
    pub(crate) timer: Option<u64>,
}

impl Site {
    /// Makes the site of a node that has not been started.
    pub(crate) fn new(node: Node) -> Site {
        Site {
            node,
            is_alive: false,
            life: 0,
            started: 0,
            paused_until: 0,
            lies_until: 0,
            table: Table { generation: 1, ..Table::default() },
            inodes_in_blocks: BTreeSet::new(),
            refused: VecDeque::new(),
            received_content: None,
            unstored: VecDeque::new(),
            lost: BTreeSet::new(),
            store: Store::default(),
            store_bytes_max: 0,
            store_bytes: 0,
            reads: Reads::default(),
            waiting: BTreeMap::new(),
            links: BTreeMap::new(),
            dialled: BTreeMap::new(),
            suspects: BTreeSet::new(),
            refreshes: BTreeMap::new(),
            looks_anew: false,
            timer: None,
        }
    }

    /// Starts a process of the node, at this time, with room for so many bytes; it restores what was
    /// published if it `recovers`.
    pub(crate) fn start(&mut self, now: u64, mut node: Node, recovers: bool, store_bytes_max: u64) {
        let mut table = std::mem::take(&mut self.table);
        let mut store = std::mem::take(&mut self.store);
        if recovers {
            table.blocks.clear();
            table.resident.retain(|_, head| head.whole);
            let facts = table.facts.iter().map(|(path, fact)| (path, Memory::Fact(fact.clone())));
            let mut files = BTreeSet::new();
            let contents = table.resident.iter().map(|(path, head)| {
                let is_linked = store.file_of(path).is_some_and(|file| !files.insert(file));
                (path, Memory::Content { head: head.clone(), is_linked })
            });
            let passthrough = table.passthrough.iter().map(|(path, &tree)| (path, Memory::Passthrough { tree }));
            for (path, memory) in facts.chain(contents).chain(passthrough) {
                node.restore(path, memory);
            }
            node.restore_generation(table.generation);
            store.reduce(|path| table.resident.contains_key(path));
        } else {
            (table, store) = (Table { generation: 1, ..Table::default() }, Store::default());
        }
        let life = self.life + 1;
        let store_bytes = node.stats().store_bytes;
        *self =
            Site { is_alive: true, life, started: now, table, store, store_bytes_max, store_bytes, ..Site::new(node) };
    }

    /// Kills the process. What it has published stays.
    pub(crate) fn die(&mut self) {
        self.is_alive = false;
        self.links.clear();
        self.dialled.clear();
        self.waiting.clear();
        (self.paused_until, self.timer) = (0, None);
    }

    pub(crate) fn has_block(&self, path: &Path, block: u32) -> bool {
        let is_whole = self.table.resident.get(path).is_some_and(|head| head.whole);
        is_whole || self.table.blocks.get(path).is_some_and(|blocks| blocks.contains(&block))
    }

    pub(crate) fn is_passthrough(&self, path: &Path) -> bool {
        let passthrough = &self.table.passthrough;
        passthrough.contains_key(path)
            || (!passthrough.is_empty()
                && std::iter::successors(path.parent(), Path::parent).any(|p| passthrough.get(&p) == Some(&true)))
    }

    /// Returns where a path leads by the table.
    pub(crate) fn resolve(&self, path: &Path, want: Want, in_scope: impl Fn(&Path) -> bool) -> Outcome {
        resolve(path, !want.contains(Want::NO_FOLLOW), in_scope, |at| self.state_of(at))
    }

    fn state_of(&self, path: &Path) -> PathState {
        if self.is_passthrough(path) {
            return PathState::Passthrough;
        }
        match self.table.facts.get(path) {
            Some(fact) => PathState::of(fact),
            None => self.state_in_listing(path),
        }
    }

    fn state_in_listing(&self, path: &Path) -> PathState {
        let Some(directory) = path.parent() else { return PathState::Unknown };
        match self.table.facts.get(&directory) {
            Some(Fact::Listing(_, listing)) if listing.find(path.name()).is_none() => {
                if self.table.passthrough_listings.contains(&directory) {
                    PathState::Passthrough
                } else {
                    PathState::Absent
                }
            }
            _ => PathState::Unknown,
        }
    }

    /// Returns the rank that forbids this node to read for a tree: the first before it that is not dead in
    /// its view.
    pub(crate) fn obstacle(
        &self,
        candidates: impl Iterator<Item = Rank>,
        own: Rank,
        is_expired: impl Fn(u64) -> bool,
    ) -> Option<Rank> {
        let is_dead = |rank: &Rank| {
            let is_down = !self.links.contains_key(&Peer::Parent(*rank));
            self.suspects.contains(rank) || (is_down && self.dialled.get(rank).is_some_and(|&at| is_expired(at)))
        };
        candidates.take_while(|&rank| rank != own).find(|rank| !is_dead(rank))
    }
}
