//! The trees of a forest: complete, bounded, balanced, disjoint.

use std::collections::BTreeSet;

use headwater_topology::{Branching, Forest, Rank, Shape, TreeId, Up};
use proptest::prelude::*;

/// Checks that parents and children agree, and that every member is reached exactly once. Returns the depth.
fn check_tree(forest: &Forest, tree: TreeId) -> u32 {
    let root = forest.root(tree);
    assert_eq!(forest.parent(tree, root), None, "{forest:?}");
    let mut reached = BTreeSet::from([root]);
    let (mut level, mut depth) = (vec![root], 0);
    loop {
        let mut next = Vec::new();
        for &rank in &level {
            for child in forest.children(tree, rank) {
                assert_eq!(forest.parent(tree, child), Some(rank), "{forest:?} {tree:?} {child:?}");
                assert!(reached.insert(child), "{forest:?} {tree:?}: {child:?} is reached twice");
                next.push(child);
            }
        }
        if next.is_empty() {
            break;
        }
        (level, depth) = (next, depth + 1);
    }
    let members: BTreeSet<Rank> = (0..forest.ranks()).map(Rank).filter(|&rank| forest.contains(tree, rank)).collect();
    assert_eq!(reached, members, "{forest:?} {tree:?}");
    assert_eq!(members.len() as u32, forest.members(tree), "{forest:?} {tree:?}");
    depth
}

fn shapes() -> Vec<(u32, Shape)> {
    let branchings = [Branching::KAry(1), Branching::KAry(2), Branching::KAry(8), Branching::Binomial];
    let mut shapes = Vec::new();
    for branching in branchings {
        shapes.extend([0, 1, 5].map(|servers| (servers, Shape::Single(branching))));
        for groups in [1, 2, 3, 7] {
            shapes.extend([0, 2, 5].map(|servers| (servers, Shape::Partitioned { groups, branching })));
        }
    }
    for trees in 1..=8 {
        for (servers, readers) in [(0, 1), (0, 2), (0, 3), (0, trees), (0, 11), (1, 0), (2, 0), (13, 0)] {
            shapes.push((servers, Shape::Striped { trees, readers }));
        }
    }
    shapes
}

#[test]
fn every_member_is_reached_once() {
    for (servers, shape) in shapes() {
        for ranks in (1..70).chain([100, 127, 128, 250]) {
            let forest = Forest::new(ranks, servers, shape);
            let depths: Vec<u32> = forest.tree_ids().map(|tree| check_tree(&forest, tree)).collect();
            let (depth, depth_max) = (depths.into_iter().max().unwrap(), forest.depth_max());
            match shape {
                Shape::Striped { .. } => assert!(depth <= depth_max && depth_max <= depth + 1, "{forest:?} {depth}"),
                _ => assert_eq!(depth, depth_max, "{forest:?}"),
            }
        }
    }
}

#[test]
fn every_rank_that_runs_programs_is_in_its_trees() {
    for (servers, shape) in shapes() {
        for ranks in [1, 2, 5, 64, 97] {
            let forest = Forest::new(ranks, servers, shape);
            for rank in (0..ranks).map(Rank) {
                for hash in 0..20 {
                    assert!(forest.contains(forest.tree_of_path(rank, hash), rank), "{forest:?} {rank:?}");
                }
            }
            let roots: BTreeSet<Rank> = forest.tree_ids().map(|tree| forest.root(tree)).collect();
            if forest.servers() > 0 && matches!(shape, Shape::Striped { .. }) && ranks > forest.servers() + 2 {
                let is_striped = forest.trees() > 1;
                assert!(!is_striped || roots == (0..forest.servers()).map(Rank).collect(), "{forest:?}");
            }
        }
    }
}

/// Returns the trees in which a rank that is no root forwards, one for each layout.
fn forwards_in(forest: &Forest, layouts: u32, rank: Rank) -> Vec<u32> {
    (0..layouts).map(TreeId).map(|tree| forest.children(tree, rank).len() as u32).filter(|&count| count > 0).collect()
}

#[test]
fn stripes_are_disjoint_and_balanced() {
    for (trees, readers, servers) in (2..=8).flat_map(|trees| [(trees, 2, 0), (trees, trees, 0), (trees, 0, 3)]) {
        for ranks in (2 * (trees + readers + servers)..220).chain([1003]) {
            let forest = Forest::new(ranks, servers, Shape::Striped { trees, readers });
            let first = readers.max(servers);
            let bodies = ranks - first;
            let edges = bodies - 1 + if servers > 0 { 0 } else { readers - 1 };
            let (least, most) = (trees * edges / bodies, (trees * edges).div_ceil(bodies));
            let mut shared = 0;
            for rank in (first..ranks).map(Rank) {
                let counts = forwards_in(&forest, trees, rank);
                let total: u32 = counts.iter().sum();
                assert!((least..=most).contains(&total), "{forest:?} {rank:?}: {total} not {least}..={most}");
                assert!(counts.len() <= 2, "{forest:?} {rank:?} forwards in {counts:?}");
                shared += u32::from(counts.len() == 2);
            }
            assert!(shared < trees, "{forest:?}: {shared}");
            let divides = bodies % trees == 0 || trees == 2 && edges < bodies;
            assert_eq!(shared == 0, divides, "{forest:?}: {shared} are interior twice");
        }
    }
}

#[test]
fn the_depth_of_stripes_is_logarithmic() {
    for trees in 2..=8 {
        for readers in [1, 2, trees] {
            for ranks in (2 * (trees + readers)..400).chain([1000, 8300, 100_000, 1_000_000, u32::MAX]) {
                let forest = Forest::new(ranks, 0, Shape::Striped { trees, readers });
                // A complete tree over as many, and one hop more from the root to the head.
                let complete = Forest::new(ranks, 0, Shape::Single(Branching::KAry(trees))).depth_max();
                assert!(forest.depth_max() <= complete + 2, "{forest:?}: {} for {complete}", forest.depth_max());
            }
        }
    }
}

/// Returns what each rank sends of a file that its reader distributes, in units of one tree's share.
fn sent(forest: &Forest, layouts: u32, asker: Rank, hash: u64) -> Vec<u32> {
    let reader = forest.root(forest.tree_of_path(asker, hash));
    let mut units = vec![0; forest.ranks() as usize];
    for chunk in 0..u64::from(layouts) {
        let tree = forest.tree_of_chunk(asker, hash, chunk);
        if forest.root(tree) != reader {
            units[reader.0 as usize] += 1;
        }
        for rank in (0..forest.ranks()).map(Rank) {
            // The reader has the file, and servers need none.
            let wants = |child: &Rank| *child != reader && child.0 >= forest.servers();
            units[rank.0 as usize] += forest.children(tree, rank).into_iter().filter(wants).count() as u32;
        }
    }
    units
}

#[test]
fn nobody_sends_much_more_than_one_file() {
    let last = |ranks| Rank(ranks - 1);
    for ranks in (4..140).chain([200, 300]) {
        let two = Forest::new(ranks, 0, Shape::Striped { trees: 8, readers: 2 });
        let layouts = two.trees().min(ranks - 2);
        for hash in [1, 2, 3, 4] {
            assert_eq!(sent(&two, layouts, last(ranks), hash).into_iter().max(), Some(layouts), "{two:?}");
        }
        if ranks >= 56 {
            let eight = Forest::new(ranks, 0, Shape::Striped { trees: 8, readers: 8 });
            assert_eq!(sent(&eight, 8, last(ranks), 7).into_iter().max(), Some(9), "{eight:?}");
            let servers = Forest::new(ranks, 20, Shape::Striped { trees: 8, readers: 0 });
            assert_eq!(sent(&servers, 8, last(ranks), 7).into_iter().max(), Some(8), "{servers:?}");
        }
    }
    // One tree: the root and all inner ranks send as many files as they have children.
    let single = Forest::new(64, 0, Shape::Single(Branching::KAry(2)));
    assert_eq!(sent(&single, 1, last(64), 0).into_iter().max(), Some(2));
}

#[test]
fn chunks_are_dealt_in_turn() {
    for (ranks, servers, trees, readers) in [(64, 0, 8, 2), (64, 0, 4, 4), (200, 50, 8, 0), (30, 0, 3, 5)] {
        let forest = Forest::new(ranks, servers, Shape::Striped { trees, readers });
        let asker = Rank(ranks - 1);
        for hash in (0..300).map(|n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15)) {
            let path = forest.tree_of_path(asker, hash);
            assert_eq!(forest.tree_of_chunk(asker, hash, 0).0 % trees, path.0 % trees, "{forest:?}");
            let round = |start: u64| -> Vec<u32> {
                let chunks = start..start + u64::from(trees);
                chunks.map(|chunk| forest.tree_of_chunk(asker, hash, chunk).0 % trees).collect()
            };
            assert_eq!(round(0).iter().collect::<BTreeSet<_>>().len() as u32, trees, "{forest:?}");
            assert_eq!(round(0), round(u64::from(trees) * 1000), "{forest:?}");
            forest.tree_of_chunk(asker, hash, u64::MAX);
        }
    }
    let single = Forest::new(9, 0, Shape::Single(Branching::Binomial));
    assert_eq!(single.tree_of_chunk(Rank(3), 77, 5), TreeId(0));
}

#[test]
fn paths_are_spread_evenly_over_trees() {
    let forest = Forest::new(1000, 0, Shape::Striped { trees: 8, readers: 8 });
    let mut counts = [0; 8];
    // Poor hashes: small numbers.
    (0..8000).for_each(|hash| counts[forest.tree_of_path(Rank(500), hash).0 as usize] += 1);
    assert!(counts.iter().all(|&count| (850..1150).contains(&count)), "{counts:?}");
    let grouped = Forest::new(100, 0, Shape::Partitioned { groups: 4, branching: Branching::KAry(2) });
    assert_eq!([0, 24, 25, 99].map(|rank| grouped.tree_of_path(Rank(rank), 7).0), [0, 0, 1, 3]);
}

#[test]
fn default_shapes() {
    let trees = |ranks| {
        let forest = Forest::new(ranks, 0, Shape::default_of(ranks));
        let readers: BTreeSet<Rank> = forest.tree_ids().map(|tree| forest.root(tree)).collect();
        (forest.trees(), readers.len())
    };
    let expected = [(1, 1, 1), (2, 1, 1), (3, 1, 1), (4, 2, 2), (16, 8, 2), (400, 8, 2), (1000, 8, 5), (8300, 8, 8)];
    for (ranks, count, readers) in expected {
        assert_eq!(trees(ranks), (count, readers), "{ranks}");
    }
}

#[test]
fn a_rack_is_entered_by_few_edges() {
    let forest = Forest::new(1024, 0, Shape::Striped { trees: 8, readers: 2 });
    let rack = |rank: Rank| rank.0 / 32;
    let crosses = |tree, rank| forest.parent(tree, rank).is_some_and(|up| rack(up) != rack(rank));
    let crossing = |tree| (0..1024).map(Rank).filter(|&rank| crosses(tree, rank)).count();
    let total: usize = forest.tree_ids().map(crossing).sum();
    // At random it would be 31 of 32.
    assert!(total * 10 < 8 * 1023 * 3, "{total} of {} edges leave a rack", 8 * 1023);
}

fn any_forest(ranks_max: u32) -> impl Strategy<Value = Forest> {
    let branching = prop_oneof![(1..10u32).prop_map(Branching::KAry), Just(Branching::Binomial)];
    let shape = (0..3u32, 1..20u32, 1..20u32, branching).prop_map(|(kind, many, readers, branching)| match kind {
        0 => Shape::Single(branching),
        1 => Shape::Partitioned { groups: many, branching },
        _ => Shape::Striped { trees: many, readers },
    });
    (1..ranks_max, prop_oneof![Just(0), 1..20u32], shape)
        .prop_map(|(ranks, servers, shape)| Forest::new(ranks, servers, shape))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_forest_is_made_of_trees(forest in any_forest(500)) {
        for tree in forest.tree_ids() {
            prop_assert!(check_tree(&forest, tree) <= forest.depth_max());
        }
    }

    #[test]
    fn forests_of_any_size_agree_with_themselves(
        forest in any_forest(u32::MAX), rank in any::<u32>(), tree in any::<u32>()
    ) {
        let (rank, tree) = (Rank(rank % forest.ranks()), TreeId(tree % forest.trees()));
        prop_assume!(forest.contains(tree, rank));
        // A chain has as many hops as ranks.
        prop_assume!(forest.depth_max() < 1000);
        prop_assert!(forest.ancestors(tree, rank).count() as u32 <= forest.depth_max());
        match forest.parent(tree, rank) {
            Some(parent) => prop_assert!(forest.children(tree, parent).contains(&rank)),
            None => prop_assert_eq!(forest.root(tree), rank),
        }
        for child in forest.children(tree, rank) {
            prop_assert_eq!(forest.parent(tree, child), Some(rank));
        }
    }

    /// Every rank has its own, arbitrary view of the dead ranks. Following each rank's own next hop ends
    /// within the candidates and the depth.
    #[test]
    fn no_views_of_the_dead_form_a_cycle(forest in any_forest(200), seed in any::<u64>(), dead in 0..101u64) {
        let is_dead = |by: Rank, who: Rank| hash(seed, by, who) % 100 < dead;
        for tree in forest.tree_ids() {
            let candidates: Vec<Rank> = forest.candidates(tree).collect();
            for start in (0..forest.ranks()).map(Rank).filter(|&rank| forest.contains(tree, rank)) {
                let (mut rank, mut hops) = (start, 0);
                let end = loop {
                    match forest.next_alive(tree, rank, |who| is_dead(rank, who)) {
                        Up::To(next) => {
                            prop_assert!(!is_dead(rank, next), "{rank:?} turns to the dead");
                            prop_assert!(forest.may_turn_to(tree, rank, next));
                            prop_assert!(!forest.may_turn_to(tree, next, rank));
                            (rank, hops) = (next, hops + 1);
                        }
                        end => break end,
                    }
                    prop_assert!(hops < forest.ranks(), "a cycle from {start:?}");
                };
                prop_assert_eq!(end == Up::Reader, candidates.contains(&rank));
            }
        }
    }

    /// If all agree, all live ranks reach one reader, the first live candidate.
    #[test]
    fn equal_views_lead_to_one_reader(forest in any_forest(200), seed in any::<u64>(), dead in 0..90u64) {
        let is_dead = |who: Rank| hash(seed, Rank(0), who) % 100 < dead;
        for tree in forest.tree_ids() {
            let reader = forest.candidates(tree).find(|&rank| !is_dead(rank));
            for start in (0..forest.ranks()).map(Rank).filter(|&r| forest.contains(tree, r) && !is_dead(r)) {
                let mut rank = start;
                while let Up::To(next) = forest.next_alive(tree, rank, is_dead) {
                    rank = next;
                }
                match reader {
                    Some(reader) => prop_assert_eq!(rank, reader),
                    None => prop_assert!(forest.next_alive(tree, rank, is_dead) == Up::Unreachable),
                }
            }
        }
    }
}

fn hash(seed: u64, by: Rank, who: Rank) -> u64 {
    let mixed = (seed ^ (u64::from(by.0) << 32) ^ u64::from(who.0)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 33
}

#[test]
fn successors() {
    let forest = Forest::new(64, 0, Shape::Striped { trees: 8, readers: 2 });
    let tree = TreeId(3);
    let candidates: Vec<Rank> = forest.candidates(tree).collect();
    assert_eq!(candidates.len(), 16);
    assert_eq!(forest.children(tree, candidates[0]), [candidates[1]], "the head is the first to succeed");
    assert_eq!(forest.next_alive(tree, candidates[1], |rank| rank == candidates[0]), Up::Reader);
    let leaf = (0..64).map(Rank).find(|rank| !candidates.contains(rank)).unwrap();
    assert_eq!(forest.next_alive(tree, leaf, |rank| rank != leaf), Up::Unreachable, "a leaf that is cut off");
    assert_eq!(forest.next_alive(tree, candidates[0], |_| true), Up::Reader);
    let served = Forest::new(64, 3, Shape::Partitioned { groups: 3, branching: Branching::KAry(4) });
    let candidates: Vec<Rank> = served.candidates(TreeId(1)).take(4).collect();
    assert_eq!(candidates, [1, 2, 0, 23].map(Rank), "servers first, then the group's own");
    assert_eq!(served.next_alive(TreeId(1), Rank(23), |rank| rank == Rank(1)), Up::To(Rank(2)));
    assert_eq!(served.next_alive(TreeId(1), Rank(3), |_| false), Up::Unreachable, "another group's");
}

#[test]
fn with_servers_alone_no_other_rank_reads() {
    let shape = Shape::Partitioned { groups: 2, branching: Branching::KAry(2) };
    let usual = Forest::new(16, 2, shape);
    let alone = usual.read_by_servers_alone();
    assert_ne!(usual.fingerprint(), alone.fingerprint(), "peers that see it otherwise are refused");
    for tree in alone.tree_ids() {
        assert_eq!(alone.candidates(tree).collect::<BTreeSet<_>>(), [0, 1].map(Rank).into());
        for rank in (2..16).map(Rank).filter(|&rank| alone.contains(tree, rank)) {
            let is_server = |other: Rank| other.0 < 2;
            assert_eq!(
                alone.next_alive(tree, rank, |other| other != rank),
                Up::Unreachable,
                "{rank:?} can't reach a reader"
            );
            let Up::To(up) = alone.next_alive(tree, rank, |other| !is_server(other) || other == Rank(tree.0)) else {
                panic!("{rank:?} has no next hop");
            };
            assert_eq!(up, Rank(1 - tree.0), "the other server");
            assert_eq!(alone.parent(tree, rank), usual.parent(tree, rank));
        }
    }
}
