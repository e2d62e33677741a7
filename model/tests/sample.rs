//! The sample represents all nodes: its results are those of the exact simulation.

use headwater_model::{Detail, FileSystem, Machine, Network, Outcome, Trace, with_headwater};
use headwater_topology::{Branching, Forest, Shape};

fn start(trace: &Trace, nodes: u32, shape: Shape, detail: Detail) -> Outcome {
    let machine = Machine {
        network: Network::default(),
        file_system: FileSystem::named("lustre").unwrap().unwrap(),
        processes: 4,
        seed: 1,
    };
    with_headwater(trace, &machine, Forest::new(nodes, 0, shape), detail, &mut |_| {}).unwrap()
}

fn check(trace: &Trace, nodes: u32, shape: Shape) {
    let exact = start(trace, nodes, shape, Detail::Exact);
    let sample = start(trace, nodes, shape, Detail::Sample);
    assert_eq!((exact.simulated, exact.fallbacks, sample.fallbacks), (nodes, 0, 0));
    assert!(sample.simulated < nodes, "{} of {nodes} are no sample", sample.simulated);
    let ratio = sample.seconds / exact.seconds;
    let found = format!("{shape:?} of {nodes}: {:.4} s, sampled {:.4} s", exact.seconds, sample.seconds);
    assert!((0.8..1.25).contains(&ratio), "{found}");
    // Files and directories are read once; readahead may differ a little.
    assert_eq!((sample.counts.opens, sample.counts.lists), (exact.counts.opens, exact.counts.lists), "{found}");
}

#[test]
fn small_files() {
    let text: String =
        (0..60).map(|n| format!("0 absent - /sw/p{0}/x{n}\n0 open 9000 /sw/p{0}/m{n}.py\n", n % 6)).collect();
    let trace = Trace::parse(&text).unwrap();
    for (nodes, shape) in [
        (300, Shape::Single(Branching::KAry(8))),
        (300, Shape::Partitioned { groups: 4, branching: Branching::KAry(4) }),
        (1000, Shape::Single(Branching::KAry(8))),
        (500, Shape::Striped { trees: 8, readers: 2 }),
        (1000, Shape::Striped { trees: 8, readers: 5 }),
    ] {
        check(&trace, nodes, shape);
    }
}

#[test]
fn libraries() {
    let trace = Trace::generate("pynamic:6:6:2:10").unwrap().unwrap();
    check(&trace, 300, Shape::Single(Branching::KAry(8)));
    check(&trace, 300, Shape::Striped { trees: 8, readers: 2 });
    // Nodes that forward in two trees, more readers than layouts of the trees, fewer trees.
    for (trees, readers) in [(8, 2), (8, 50), (2, 8)] {
        check(&trace, 1000, Shape::Striped { trees, readers });
    }
}

#[test]
fn a_seed_has_one_outcome() {
    let trace = Trace::generate("pynamic:2:2:2:1").unwrap().unwrap();
    let run = |nodes| start(&trace, nodes, Shape::default_of(nodes), Detail::Sample);
    assert_eq!(run(100_000), run(100_000));
    assert_eq!(run(100_000).counts.opens, 4);
}

/// Nodes that wait in vain end their links, and make them anew.
#[test]
fn a_slow_network_delays_the_program() {
    let mut network = Network { rate_gbit: 0.2, ..Network::default() };
    (network.node.cores, network.node.one_machine) = (2, true);
    let machine =
        Machine { network, file_system: FileSystem::named("lustre").unwrap().unwrap(), processes: 1, seed: 1 };
    let trace = Trace::named("import-numpy").unwrap().unwrap();
    let forest = Forest::new(100, 0, Shape::default_of(100));
    let outcome = with_headwater(&trace, &machine, forest, Detail::Exact, &mut |_| {}).unwrap();
    assert!(outcome.simulated == 100 && outcome.seconds > 10.0, "{outcome:?}");
}
