//! Common functions of the overlay's measurements.

use std::path::Path;
use std::time::Instant;

use headwater_cluster::{Cluster, Options, Rate};
use headwater_topology::{Branching, Shape};

use crate::bench::Report;
use crate::bench::statistics::Sample;
use crate::harness::Fixture;
use crate::harness::nodes::{Asker, Nodes, project};
use crate::model::Content;
use crate::workspace;

/// The shape that the default is compared with.
pub(super) const BINARY_TREE: Shape = Shape::Single(Branching::KAry(2));

/// Makes a cluster with links of this rate, as `tc` writes it; or reports why there is none.
pub(super) fn cluster(report: &mut Report, nodes: usize, rate: Option<&str>) -> Option<Cluster> {
    let rate = rate.map(|rate| rate.parse::<Rate>().expect("a rate"));
    cluster_with(report, nodes, Options { rate, ..Options::default() })
}

/// Makes a cluster with such links; or reports why there is none.
pub(super) fn cluster_with(report: &mut Report, nodes: usize, options: Options) -> Option<Cluster> {
    let shares = vec![project().to_path_buf()];
    match Cluster::up(nodes, &Options { ram_disk_mib: 2048, shares, ..options }) {
        Ok(cluster) => Some(cluster),
        Err(reason) => {
            report.line(format!("skipped: {reason}"));
            None
        }
    }
}

/// Makes a directory that represents the shared file system, where no node's RAM disk hides it.
pub(super) fn fixture(purpose: &str) -> Fixture {
    let directory = workspace().join("target/bench");
    std::fs::create_dir_all(&directory).expect("cargo's directory takes another");
    Fixture::new_in(purpose, directory.to_str().expect("a path in UTF-8"))
}

/// Returns bytes of which no two pieces are alike.
pub(super) fn noise(bytes: usize, seed: u64) -> Vec<u8> {
    Content::noise(seed, bytes as u64).read(0, bytes as u64)
}

/// Returns the seconds until all ranks, which request it at once, have this file. Compares their copies with the source
/// file afterwards.
pub(super) fn everywhere(nodes: &Nodes, askers: &mut [Asker], path: &Path) -> f64 {
    let started = Instant::now();
    askers.iter_mut().for_each(|asker| asker.request(path));
    nodes.await_requested(askers);
    let seconds = started.elapsed().as_secs_f64();
    let source = std::fs::read(path).expect("an own file");
    for rank in 0..nodes.ranks() {
        let copy = std::fs::read(nodes.copy(rank, path)).unwrap_or_else(|e| panic!("rank {rank}: {e}"));
        assert!(copy == source, "rank {rank} has other bytes");
    }
    seconds
}

/// Returns a median with its spread, to this many decimals.
pub(super) fn shown(sample: &Sample, decimals: usize) -> String {
    format!("{:.decimals$} ({})", sample.median(), sample.spread())
}
