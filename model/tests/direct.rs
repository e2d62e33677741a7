//! Large files on file systems that supply them faster than the trees, and slower.

use headwater_model::{Detail, FileSystem, Machine, Network, Outcome, Trace, with_headwater};
use headwater_topology::{Forest, Shape};

const FILES: u64 = 4;
const FILE_BYTES: u64 = 64 << 20;

fn start(nodes: u32, client_gb: f64, total_gb: f64) -> Outcome {
    let lines: String = (0..FILES).map(|file| format!("1 load {FILE_BYTES} /sw/lib/lib{file}.so\n")).collect();
    let trace = Trace::parse(&(lines + "0 open 1000 /sw/small\n")).unwrap();
    let file_system = FileSystem { client_gb, total_gb, ..FileSystem::default() };
    let machine = Machine { network: Network::default(), file_system, processes: 4, seed: 1 };
    let forest = Forest::new(nodes, 0, Shape::default_of(nodes));
    with_headwater(&trace, &machine, forest, Detail::Exact, &mut |_| {}).unwrap()
}

#[test]
fn a_fast_file_system_is_read_directly() {
    let fast = start(8, 5.0, 100.0);
    // The first file comes through the trees.
    assert!(fast.direct_bytes >= 8 * (FILES - 1) * FILE_BYTES, "{fast:?}");
    let slow = start(8, 0.4, 0.4);
    assert_eq!(slow.direct_bytes, 0, "{slow:?}");
    assert!(slow.counts.bytes < (FILES + 1) * FILE_BYTES, "each is read once, and samples: {slow:?}");
    assert!(fast.seconds < slow.seconds, "{fast:?}, {slow:?}");
}

#[test]
fn many_nodes_share_what_some_measure() {
    // Sixteen nodes measure 0.5 GB/s each, of which 64 nodes would have a quarter. To a reader nothing comes through the
    // trees, so its own processes may do without a second copy.
    let (outcome, of_one) = (start(64, 0.5, 8.0), FILES * FILE_BYTES);
    assert!(outcome.direct_bytes <= of_one && outcome.counts.bytes < 3 * of_one, "{outcome:?}");
}
