//! The simulated ranks: all of them, or a sample that represents the others.
//!
//! A sample has each tree's root, and from some ranks the whole path up to the root of the tree in which they
//! forward. Children that are left out are *ghosts*. What a node sends to a ghost occupies its processor and
//! its card. As soon as a node itself, or a simulated child, requests something, its ghosts request it too,
//! since all processes do the same at about the same time. So each node in the sample does all the work that
//! it would do among all, and the same machinery measures its time.
//!
//! A rank in the sample may have a parent in some tree that is not in it. It then takes the place of a child
//! of another node that is, at the same depth of that tree: its *foster parent*. Both see the ranks that they
//! would see among all. The foster parent must be the child's parent in the very trees in which it replaces
//! the rank's own: otherwise what goes down one tree would come back in another. If there is no such child,
//! the parent is simulated.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use headwater_topology::{Forest, Rank, TreeId};

/// Ranks of a sample that are chosen for each layout of the trees, beside those on their paths up.
const CHOSEN: u64 = 1;
/// Ranks of a sample that are chosen in all.
const CHOSEN_MIN: u64 = 8;

/// The simulated ranks, by site.
#[derive(Debug)]
pub(crate) struct Crowd {
    pub(crate) members: Vec<u32>,
    sites: HashMap<u32, u32>,
    is_all: bool,
    /// By (rank, parent): the foster parent, and its child that the rank replaces.
    fosters: HashMap<(u32, u32), (u32, u32)>,
    /// By (foster parent, child): the ranks that replace the child, with their parents.
    stand_ins: HashMap<(u32, u32), Vec<(u32, u32)>>,
}

/// The children of a node in a tree that are not simulated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ghosts {
    pub(crate) tree: u32,
    pub(crate) ranks: Vec<u32>,
}

impl Crowd {
    pub(crate) fn all(ranks: u32) -> Crowd {
        Crowd {
            members: (0..ranks).collect(),
            sites: HashMap::new(),
            is_all: true,
            fosters: HashMap::new(),
            stand_ins: HashMap::new(),
        }
    }

    pub(crate) fn len(&self) -> u32 {
        self.members.len() as u32
    }

    pub(crate) fn is_all(&self) -> bool {
        self.is_all
    }

    /// Makes a sample: spread over all ranks, with the first and the last.
    pub(crate) fn sample(forest: &Forest, seed: u64) -> Crowd {
        let mut members = sampled(forest, seed);
        while members.len() < forest.ranks() as usize {
            let sites = members.iter().copied().zip(0..).collect();
            let (fosters, stand_ins) = (HashMap::new(), HashMap::new());
            let listed = members.iter().copied().collect();
            let mut crowd = Crowd { members: listed, sites, is_all: false, fosters, stand_ins };
            let missing = crowd.find_fosters(forest);
            if missing.is_empty() {
                return crowd;
            }
            // A parent without a replacement takes part itself, with the ranks above it.
            for parent in missing {
                let trees = forest.tree_ids().filter(|&tree| forest.contains(tree, parent));
                let trees = trees.filter(|&tree| !forest.children(tree, parent).is_empty());
                members
                    .extend(trees.flat_map(|tree| forest.ancestors(tree, parent)).chain([parent]).map(|rank| rank.0));
            }
        }
        Crowd::all(forest.ranks())
    }

    /// Returns the site of a rank that is simulated.
    pub(crate) fn site(&self, rank: u32) -> Option<u32> {
        if self.is_all { Some(rank) } else { self.sites.get(&rank).copied() }
    }

    /// Returns the rank as which a rank sends to its parent, and the receiver.
    pub(crate) fn upward(&self, rank: u32, parent: u32) -> (u32, u32) {
        self.fosters.get(&(rank, parent)).map_or((rank, parent), |&(foster, child)| (child, foster))
    }

    /// Returns whether another rank takes the parent's place.
    pub(crate) fn is_fostered(&self, rank: u32, parent: u32) -> bool {
        self.fosters.contains_key(&(rank, parent))
    }

    /// Returns the receivers of what a rank sends to its child: ranks of the sample, each with the apparent
    /// sender.
    pub(crate) fn downward(&self, parent: u32, child: u32) -> impl Iterator<Item = (u32, u32)> + '_ {
        let itself = self.site(child).map(|_| (child, parent));
        let others = self.stand_ins.get(&(parent, child)).map_or(&[][..], Vec::as_slice);
        itself.into_iter().chain(others.iter().copied())
    }

    /// Returns a rank's ghosts that no rank replaces, in each tree where it has some.
    pub(crate) fn ghosts(&self, forest: &Forest, rank: u32) -> Vec<Ghosts> {
        if self.is_all {
            return Vec::new();
        }
        let of_tree = |tree: TreeId| {
            let children = forest.children(tree, Rank(rank)).into_iter().map(|child| child.0);
            let ranks: Vec<u32> = children.filter(|&child| self.downward(rank, child).next().is_none()).collect();
            (!ranks.is_empty()).then_some(Ghosts { tree: tree.0, ranks })
        };
        forest.tree_ids().filter(|&tree| forest.contains(tree, Rank(rank))).filter_map(of_tree).collect()
    }

    /// Assigns each rank whose parent is not in the sample a foster parent of the same depth, with a child in
    /// the same trees. Returns the parents for which there is none.
    fn find_fosters(&mut self, forest: &Forest) -> BTreeSet<Rank> {
        let mut missing = BTreeSet::new();
        for tree in forest.tree_ids() {
            let depth = |rank: u32| forest.ancestors(tree, Rank(rank)).count();
            let mut by_depth: BTreeMap<usize, Vec<u32>> = BTreeMap::new();
            let forwards =
                |&&rank: &&u32| forest.contains(tree, Rank(rank)) && !forest.children(tree, Rank(rank)).is_empty();
            for &rank in self.members.iter().filter(forwards) {
                by_depth.entry(depth(rank)).or_default().push(rank);
            }
            for rank in self.members.clone().into_iter().filter(|&rank| forest.contains(tree, Rank(rank))) {
                let Some(parent) = forest.parent(tree, Rank(rank)).map(|parent| parent.0) else { continue };
                if self.site(parent).is_some() || self.fosters.contains_key(&(rank, parent)) {
                    continue;
                }
                // The deepest level may have no forwarding rank: then the one above.
                let Some((_, candidates)) = by_depth.range(..=depth(parent)).next_back() else { continue };
                let at = candidates.partition_point(|&candidate| candidate < parent) % candidates.len();
                let place = forest.children(tree, Rank(parent)).iter().position(|child| child.0 == rank).unwrap_or(0);
                let pairs = (0..candidates.len()).flat_map(|number| {
                    let foster = candidates[(at + number) % candidates.len()];
                    let children = forest.children(tree, Rank(foster));
                    (0..children.len()).map(move |number| (foster, children[(place + number) % children.len()].0))
                });
                // Otherwise it would get messages of other trees, in which it may itself be above its foster
                // parent.
                let joined = joined(forest, rank, parent);
                // Preferably a child that no rank replaces yet: then no rank gets what another has requested.
                let fitting = pairs.filter(|&(foster, child)| joins(forest, child, foster, &joined));
                let found = fitting.min_by_key(|&(foster, child)| self.downward(foster, child).count());
                let Some((foster, child)) = found else {
                    missing.insert(Rank(parent));
                    continue;
                };
                self.fosters.insert((rank, parent), (foster, child));
                self.stand_ins.entry((foster, child)).or_default().push((rank, parent));
            }
        }
        missing
    }
}

/// Returns the trees in which a rank has another for its parent.
fn joined(forest: &Forest, rank: u32, parent: u32) -> Vec<TreeId> {
    forest.tree_ids().filter(|&tree| is_below(forest, tree, rank, parent)).collect()
}

/// Returns whether these are the trees in which it has.
fn joins(forest: &Forest, rank: u32, parent: u32, trees: &[TreeId]) -> bool {
    forest.tree_ids().all(|tree| is_below(forest, tree, rank, parent) == trees.contains(&tree))
}

fn is_below(forest: &Forest, tree: TreeId, rank: u32, parent: u32) -> bool {
    forest.contains(tree, Rank(rank)) && forest.parent(tree, Rank(rank)) == Some(Rank(parent))
}

fn sampled(forest: &Forest, seed: u64) -> BTreeSet<u32> {
    let ranks = u64::from(forest.ranks());
    let chosen = (CHOSEN * u64::from(forest.layouts())).max(CHOSEN_MIN).min(ranks);
    let mut random = seed;
    let mut next = || {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % ranks
    };
    let mut members: BTreeSet<u32> = forest.tree_ids().map(|tree| forest.root(tree).0).collect();
    members.extend(0..forest.servers());
    if forest.is_striped() {
        // No two readers have the same positions in all trees: their parents can't be replaced.
        let up = |rank: u32| forest.tree_ids().flat_map(move |tree| forest.ancestors(tree, Rank(rank)));
        let above: Vec<Rank> = members.iter().flat_map(|&reader| up(reader)).collect();
        members.extend(above.into_iter().map(|rank| rank.0));
    }
    for number in 0..chosen {
        for rank in [number * (ranks - 1) / (chosen - 1).max(1), next()] {
            let rank = Rank(rank as u32);
            members.insert(rank.0);
            let trees: Vec<TreeId> = forest.tree_ids().filter(|&tree| forest.contains(tree, rank)).collect();
            // Each in turn follows another tree up, and its own.
            let turn = trees.get(number as usize % trees.len().max(1)).copied();
            let own = trees.iter().copied().filter(|&tree| !forest.children(tree, rank).is_empty());
            for tree in own.chain(turn) {
                members.extend(forest.ancestors(tree, rank).map(|rank| rank.0));
            }
        }
    }
    members
}

#[cfg(test)]
mod tests {
    use super::*;
    use headwater_topology::{Branching, Shape};

    fn check(ranks: u32, servers: u32, shape: Shape) {
        let forest = Forest::new(ranks, servers, shape);
        let crowd = Crowd::sample(&forest, 1);
        assert!(crowd.members.len() <= 1500, "{} of {ranks}, {shape:?}", crowd.members.len());
        for &rank in &crowd.members {
            for tree in forest.tree_ids().filter(|&tree| forest.contains(tree, Rank(rank))) {
                let Some(parent) = forest.parent(tree, Rank(rank)) else { continue };
                // The sender to this rank is simulated, and what it sends arrives.
                let (foster, child) = crowd.fosters.get(&(rank, parent.0)).copied().unwrap_or((parent.0, rank));
                assert!(crowd.site(foster).is_some(), "{rank} in {tree:?}");
                assert!(forest.tree_ids().any(|tree| forest.children(tree, Rank(foster)).contains(&Rank(child))));
                assert!(crowd.downward(foster, child).any(|to| to == (rank, parent.0)));
            }
            for ghosts in crowd.ghosts(&forest, rank) {
                assert!(ghosts.ranks.iter().all(|&ghost| crowd.site(ghost).is_none()));
            }
        }
    }

    #[test]
    fn sampled_ranks_have_parents() {
        for ranks in [1, 2, 5, 64, 1000, 8300, 100_000, 1_000_000] {
            check(ranks, 0, Shape::default_of(ranks));
            check(ranks, 0, Shape::Single(Branching::KAry(8)));
            check(ranks, 0, Shape::Single(Branching::Binomial));
            check(ranks, 0, Shape::Striped { trees: 2, readers: 1 });
        }
        check(8300, 50, Shape::default_of(8300));
        check(1_000_000, 0, Shape::Partitioned { groups: 50, branching: Branching::KAry(8) });
    }

    #[test]
    fn ghosts_are_the_children_that_are_left_out() {
        let forest = Forest::new(1000, 0, Shape::Single(Branching::KAry(8)));
        let mut crowd = Crowd::sample(&forest, 1);
        crowd.members = vec![0, 3, 5];
        crowd.sites = [(0, 0), (3, 1), (5, 2)].into();
        assert_eq!(crowd.ghosts(&forest, 0), [Ghosts { tree: 0, ranks: vec![1, 2, 4, 6, 7, 8] }]);
        assert_eq!(crowd.ghosts(&forest, 3)[0].ranks.len(), 8);
        assert_eq!(crowd.ghosts(&forest, 500), []);
        assert_eq!(Crowd::all(1000).ghosts(&forest, 0), []);
    }
}
