//! All trees of a session, and the assignment of paths and chunks to them.

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::rank::Rank;
use crate::stripes::{Member, Stripe, Stripes};
use crate::tree::{Branching, Tree};

/// The most striped trees; a rank has a parent in each.
pub const TREES_MAX: u32 = 64;
/// For how many nodes one reader suffices by default (Cielo had one server for 150 to 200 nodes).
pub const READERS_NODES: u32 = 200;
/// Ranks of a tree, beside its root and the dedicated servers, that may become its reader.
pub const SUCCESSORS_MAX: u32 = 15;
const TREES_DEFAULT: u32 = 8;

/// A tree's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TreeId(pub u32);

/// The shape of a forest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Shape {
    /// One tree, one reader: rank 0.
    Single(Branching),
    /// Several trees over the same nodes, each of which forwards in one of them (SplitStream,
    /// SOSP'03). A node has about as many children in its tree as there are trees, so the number of
    /// trees is the fan-out too.
    Striped {
        /// Number of layouts of the nodes, at most [`TREES_MAX`]; below two it is a chain.
        trees: u32,
        /// Number of ranks that read: the first ones. With dedicated servers it is their number.
        readers: u32,
    },
    /// Groups of neighbouring ranks with a tree and a reader each (SPINDLE, ICS'13, §3.4.2), so
    /// that each file is read once for each group.
    Partitioned {
        /// Number of groups.
        groups: u32,
        /// The branching of each group's tree.
        branching: Branching,
    },
}

impl Shape {
    /// Returns a shape that suits most sessions of this many ranks: striped above a few nodes.
    pub fn default_of(ranks: u32) -> Shape {
        match ranks {
            0..4 => Shape::Single(Branching::KAry(TREES_DEFAULT)),
            _ => Shape::Striped {
                trees: TREES_DEFAULT.min(ranks - 2),
                readers: ranks.div_ceil(READERS_NODES).clamp(2, TREES_DEFAULT),
            },
        }
    }
}

/// The trees over a session's ranks, as a pure function of their number, the number of dedicated
/// servers and the shape. Equal arguments give equal forests on every node.
///
/// Ranks and trees in arguments must exist; others are a programmer's error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forest {
    ranks: u32,
    servers: u32,
    plan: Plan,
    /// Ranks of a tree, beside its root and the servers, that may become its reader.
    successors_max: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Plan {
    Branched { groups: u32, branching: Branching },
    Striped { stripes: Stripes, readers: u32 },
}

#[derive(Clone, Copy)]
enum Position {
    Root,
    /// A dedicated server that is not the root: its distance from the root in the circle of servers.
    Server(u32),
    /// Its number in a branched tree, or its position in a striped one.
    Branch(Rank),
    Stripe(Member),
}

impl Forest {
    /// `ranks` is at least 1. The first `servers` of them run no program and are the readers; at least one
    /// rank runs programs. A shape too large for `ranks` is cut to fit: a striped forest has no more trees
    /// than nodes that forward, and at most half of the nodes read unless they are servers; of two ranks or
    /// fewer it is a chain.
    pub fn new(ranks: u32, servers: u32, shape: Shape) -> Forest {
        assert!(ranks > 0, "a forest has a rank");
        let servers = servers.min(ranks - 1);
        let branched = |groups: u32, branching| Plan::Branched { groups: groups.clamp(1, ranks - servers), branching };
        let plan = match shape {
            Shape::Single(branching) => branched(1, branching),
            Shape::Partitioned { groups, branching } => branched(groups, branching),
            Shape::Striped { trees, readers } => {
                let readers = if servers > 0 { servers } else { readers.clamp(1, (ranks / 2).max(1)) };
                let (bodies, guests) = (ranks - readers, if servers > 0 { 0 } else { readers - 1 });
                match trees.min(bodies).min(TREES_MAX) {
                    0 | 1 => branched(1, Branching::KAry(1)),
                    trees => Plan::Striped { stripes: Stripes::new(trees, bodies, guests), readers },
                }
            }
        };
        Forest { ranks, servers, plan, successors_max: SUCCESSORS_MAX }
    }

    /// Returns the same forest in which only dedicated servers ever read, because the others can't access the
    /// source. Without servers, only the trees' roots do.
    pub fn read_by_servers_alone(self) -> Forest {
        Forest { successors_max: 0, ..self }
    }

    /// Returns how many ranks of a tree, beside its root and the servers, may become its reader.
    pub(crate) fn successors_max(&self) -> u32 {
        self.successors_max
    }

    /// Returns the number of ranks.
    pub fn ranks(&self) -> u32 {
        self.ranks
    }

    /// Returns how many of the first ranks run no program.
    pub fn servers(&self) -> u32 {
        self.servers
    }

    /// Returns a number that differs between different forests.
    pub fn fingerprint(&self) -> u64 {
        let plan = match self.plan {
            Plan::Branched { groups, branching } => match branching {
                Branching::KAry(fan_out) => [1, groups, fan_out],
                Branching::Binomial => [2, groups, 0],
            },
            Plan::Striped { stripes, readers } => [3, stripes.trees(), readers],
        };
        let alone = (self.successors_max < SUCCESSORS_MAX).then_some(self.successors_max);
        let words = [self.ranks, self.servers].into_iter().chain(plan).chain(alone);
        words.fold(0, |hash, word| mixed(hash.wrapping_add(u64::from(word)).wrapping_add(0x9e37_79b9_7f4a_7c15)))
    }

    /// Returns whether the chunks of one file go down several trees.
    pub fn is_striped(&self) -> bool {
        matches!(self.plan, Plan::Striped { .. })
    }

    /// Returns the number of trees. Every reader is the root of one at least.
    pub fn trees(&self) -> u32 {
        match self.plan {
            Plan::Branched { groups, .. } => groups,
            Plan::Striped { stripes, readers } => stripes.trees().max(readers),
        }
    }

    /// Returns how many trees differ below their roots: with more readers than layouts, the layouts repeat.
    pub fn layouts(&self) -> u32 {
        match self.plan {
            Plan::Branched { groups, .. } => groups,
            Plan::Striped { stripes, .. } => stripes.trees(),
        }
    }

    /// Returns every tree.
    pub fn tree_ids(&self) -> impl Iterator<Item = TreeId> + use<> {
        (0..self.trees()).map(TreeId)
    }

    /// Returns the rank that reads for a tree while it is alive.
    pub fn root(&self, tree: TreeId) -> Rank {
        assert!(tree.0 < self.trees(), "{tree:?} of {}", self.trees());
        match self.plan {
            Plan::Branched { .. } if self.servers > 0 => Rank(tree.0 % self.servers),
            Plan::Branched { groups, .. } => Rank(self.group_start(groups, tree.0)),
            Plan::Striped { readers, .. } => Rank(tree.0 % readers),
        }
    }

    /// Returns whether a rank takes part in a tree: in partitions it does in its own group's, and servers do
    /// in all.
    pub fn contains(&self, tree: TreeId, rank: Rank) -> bool {
        self.position(tree, rank).is_some()
    }

    /// Returns how many ranks take part in a tree.
    pub fn members(&self, tree: TreeId) -> u32 {
        match self.plan {
            Plan::Branched { groups, .. } => {
                self.servers + self.group_start(groups, tree.0 + 1) - self.group_start(groups, tree.0)
            }
            Plan::Striped { .. } => self.ranks,
        }
    }

    /// Returns the tree in which `rank` requests a path. `path_hash` is any hash of the path; every bit of it
    /// counts.
    pub fn tree_of_path(&self, rank: Rank, path_hash: u64) -> TreeId {
        match self.plan {
            Plan::Branched { groups: 1, .. } => TreeId(0),
            // A server has no parent.
            Plan::Branched { groups, .. } if rank.0 < self.servers => TreeId(rank.0 % groups),
            Plan::Branched { groups, .. } => TreeId(self.group(groups, rank)),
            Plan::Striped { .. } => {
                TreeId(((u128::from(mixed(path_hash)) * u128::from(self.trees())) >> u64::BITS) as u32)
            }
        }
    }

    /// Returns the tree in which a large file's chunk goes down, where chunk 0 is the file's first. The
    /// file's reader, the root of [`Forest::tree_of_path`], sends the chunk to this tree's root.
    pub fn tree_of_chunk(&self, rank: Rank, path_hash: u64, chunk: u64) -> TreeId {
        let tree = self.tree_of_path(rank, path_hash);
        let Plan::Striped { stripes, .. } = self.plan else { return tree };
        let trees = stripes.trees();
        // With more readers than layouts, several trees have the same layout: use one of each, beginning with
        // the path's own tree.
        let base = (tree.0 - tree.0 % trees).min(self.trees() - trees);
        TreeId(base + ((u64::from(tree.0 - base) + chunk % u64::from(trees)) % u64::from(trees)) as u32)
    }

    /// Returns the rank one hop nearer to the tree's root.
    pub fn parent(&self, tree: TreeId, rank: Rank) -> Option<Rank> {
        match (self.position(tree, rank)?, self.plan) {
            (Position::Root, _) => None,
            (Position::Server(_), _) => Some(self.root(tree)),
            (Position::Branch(number), _) => self.branched(tree).parent(number).map(|up| self.branch(tree, up)),
            (Position::Stripe(member), _) => match self.stripe(tree).parent(member) {
                Some(body) => Some(self.member(tree, Member::Body(body))),
                None => Some(self.root(tree)),
            },
        }
    }

    /// Returns the ranks one hop further from the tree's root, in the order in which to serve them: those
    /// that forward first, other servers last.
    pub fn children(&self, tree: TreeId, rank: Rank) -> Vec<Rank> {
        let below = |number| self.branched(tree).children(number).map(|down| self.branch(tree, down));
        match (self.position(tree, rank), self.plan) {
            (None | Some(Position::Server(_)), _) => Vec::new(),
            (Some(Position::Branch(number)), _) => below(number).collect(),
            (Some(Position::Stripe(member)), _) => {
                self.stripe(tree).children(member).map(|down| self.member(tree, down)).collect()
            }
            (Some(Position::Root), Plan::Branched { .. }) => {
                below(Rank::ROOT).chain(self.other_servers(tree)).collect()
            }
            (Some(Position::Root), Plan::Striped { .. }) => {
                let head = self.member(tree, Member::Body(self.stripe(tree).head()));
                core::iter::once(head).chain(self.other_servers(tree)).collect()
            }
        }
    }

    /// Returns the ranks from the parent up to the tree's root.
    pub fn ancestors(&self, tree: TreeId, rank: Rank) -> impl Iterator<Item = Rank> + use<> {
        let forest = *self;
        core::iter::successors(forest.parent(tree, rank), move |&r| forest.parent(tree, r))
    }

    /// Returns every rank that is the parent or a child of `rank` in some tree, ascending.
    pub fn neighbours(&self, rank: Rank) -> Vec<Rank> {
        let around = |tree| self.children(tree, rank).into_iter().chain(self.parent(tree, rank));
        let mut ranks: Vec<Rank> = self.tree_ids().flat_map(around).collect();
        ranks.sort_unstable();
        ranks.dedup();
        ranks
    }

    /// Returns the hops from a root to the furthest rank: exact in k-ary and binomial trees, an upper limit
    /// in striped ones.
    pub fn depth_max(&self) -> u32 {
        let depth = |tree| match self.plan {
            Plan::Branched { .. } => self.branched(tree).depth().max(u32::from(self.servers > 1)),
            Plan::Striped { .. } => 1 + self.stripe(tree).depth_max(),
        };
        self.tree_ids().map(depth).max().unwrap_or(0)
    }

    /// Returns a rank's number in a tree: 0 is the root, parents come before children, servers before all
    /// others.
    pub(crate) fn order(&self, tree: TreeId, rank: Rank) -> Option<u32> {
        Some(match self.position(tree, rank)? {
            Position::Root => 0,
            Position::Server(distance) => distance,
            Position::Branch(number) => self.servers.saturating_sub(1) + number.0,
            Position::Stripe(member) => self.servers.max(1) + self.stripe(tree).order(member),
        })
    }

    /// Returns the rank with this number in a tree, below [`Forest::members`].
    pub(crate) fn at(&self, tree: TreeId, order: u32) -> Rank {
        match self.plan {
            _ if order == 0 => self.root(tree),
            _ if order < self.servers => Rank((self.root(tree).0 + order) % self.servers),
            Plan::Branched { .. } => self.branch(tree, Rank(order - self.servers.saturating_sub(1))),
            Plan::Striped { .. } => self.member(tree, self.stripe(tree).at(order - self.servers.max(1))),
        }
    }

    fn other_servers(&self, tree: TreeId) -> impl Iterator<Item = Rank> + '_ {
        let root = self.root(tree).0;
        (1..self.servers).map(move |distance| Rank((root + distance) % self.servers))
    }

    fn position(&self, tree: TreeId, rank: Rank) -> Option<Position> {
        assert!(rank.0 < self.ranks, "{rank:?} of {}", self.ranks);
        let root = self.root(tree);
        if rank == root {
            return Some(Position::Root);
        }
        if rank.0 < self.servers {
            return Some(Position::Server((rank.0 + self.servers - root.0) % self.servers));
        }
        match self.plan {
            Plan::Branched { groups, .. } => {
                let is_in = self.group(groups, rank) == tree.0;
                let number = rank.0 - self.group_start(groups, self.group(groups, rank));
                is_in.then_some(Position::Branch(Rank(number + u32::from(self.servers > 0))))
            }
            Plan::Striped { readers, .. } => Some(Position::Stripe(match rank.0.checked_sub(readers) {
                Some(body) => Member::Body(body),
                None => Member::Guest(rank.0 - u32::from(rank > root)),
            })),
        }
    }

    fn group_start(&self, groups: u32, group: u32) -> u32 {
        let nodes = u64::from(self.ranks - self.servers);
        self.servers + (u64::from(group) * nodes / u64::from(groups)) as u32
    }

    /// Returns the group of a rank that is no server.
    fn group(&self, groups: u32, rank: Rank) -> u32 {
        let (nodes, node) = (u64::from(self.ranks - self.servers), u64::from(rank.0 - self.servers));
        (((node + 1) * u64::from(groups) - 1) / nodes) as u32
    }

    /// Returns a group's tree, over the numbers in it; with servers, 0 is the root.
    fn branched(&self, tree: TreeId) -> Tree {
        let Plan::Branched { groups, branching } = self.plan else { unreachable!("a striped forest has no such tree") };
        let nodes = self.group_start(groups, tree.0 + 1) - self.group_start(groups, tree.0);
        Tree::new(nodes + u32::from(self.servers > 0), branching)
    }

    /// Returns the rank with a number in a group's tree.
    fn branch(&self, tree: TreeId, number: Rank) -> Rank {
        let Plan::Branched { groups, .. } = self.plan else { unreachable!("a striped forest has no such tree") };
        match number {
            Rank::ROOT => self.root(tree),
            number => Rank(self.group_start(groups, tree.0) + number.0 - u32::from(self.servers > 0)),
        }
    }

    fn stripe(&self, tree: TreeId) -> Stripe {
        let Plan::Striped { stripes, .. } = self.plan else { unreachable!("a branched forest has no stripes") };
        stripes.tree(tree.0 % stripes.trees())
    }

    fn member(&self, tree: TreeId, member: Member) -> Rank {
        let Plan::Striped { readers, .. } = self.plan else { unreachable!("a branched forest has no stripes") };
        match member {
            Member::Body(body) => Rank(readers + body),
            Member::Guest(guest) => Rank(guest + u32::from(guest >= self.root(tree).0)),
        }
    }
}

/// Mixes every bit of the hash into every bit (the finalizer of SplitMix64: Steele, Lea, Flood, OOPSLA'14).
fn mixed(hash: u64) -> u64 {
    let hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}
