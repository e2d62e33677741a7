//! The overlay: real daemons on the nodes of a cluster, over links of a known rate.

mod broadcast;
mod copies;
mod encryption;
mod files;
mod kills;
mod latency;
mod links;
mod reserve;
mod simulated;
mod start;

use std::path::Path;
use std::time::Instant;

use headwater_cluster::{Cluster, Options, Rate};
use headwater_topology::{Branching, Shape};

use super::Report;
use super::statistics::Sample;
use crate::harness::Fixture;
use crate::harness::nodes::{Asker, Nodes, project};

pub(super) use broadcast::run as broadcast;
pub(super) use encryption::run as encryption;
pub(super) use files::run as files;
pub(super) use kills::run as kills;
pub(super) use latency::run as latency;
pub(super) use simulated::run as simulated;
pub(super) use start::run as start;

/// What the default is compared with.
const BINARY_TREE: Shape = Shape::Single(Branching::KAry(2));

/// A cluster whose links carry this much, as `tc` writes it; or a line that says why there is none.
fn cluster(report: &mut Report, nodes: usize, rate: Option<&str>) -> Option<Cluster> {
    let rate = rate.map(|rate| rate.parse::<Rate>().expect("a rate"));
    cluster_with(report, nodes, Options { rate, ..Options::default() })
}

/// A cluster with such links; or a line that says why there is none.
fn cluster_with(report: &mut Report, nodes: usize, options: Options) -> Option<Cluster> {
    let shares = vec![project().to_path_buf()];
    match Cluster::up(nodes, &Options { ram_disk_mib: 2048, shares, ..options }) {
        Ok(cluster) => Some(cluster),
        Err(reason) => {
            report.line(format!("skipped: {reason}"));
            None
        }
    }
}

/// A directory that stands for the shared file system, where no node's RAM disk hides it.
fn fixture(purpose: &str) -> Fixture {
    let place = crate::workspace().join("target/bench");
    std::fs::create_dir_all(&place).expect("cargo's directory takes another");
    Fixture::new_in(purpose, place.to_str().expect("a path in UTF-8"))
}

/// Bytes of which no two pieces are alike.
fn noise(bytes: usize, seed: u64) -> Vec<u8> {
    crate::model::Content::noise(seed, bytes as u64).read(0, bytes as u64)
}

/// Seconds until all ranks, which ask at once, have this file. Afterwards what they have is compared with
/// the original.
fn everywhere(nodes: &Nodes, askers: &mut [Asker], path: &Path) -> f64 {
    let started = Instant::now();
    askers.iter_mut().for_each(|asker| asker.ask(path));
    nodes.await_asked(askers);
    let seconds = started.elapsed().as_secs_f64();
    let original = std::fs::read(path).expect("an own file");
    for rank in 0..nodes.ranks() {
        let copy = std::fs::read(nodes.copy(rank, path)).unwrap_or_else(|e| panic!("rank {rank}: {e}"));
        assert!(copy == original, "rank {rank} has other bytes");
    }
    seconds
}

/// A median with its spread, to this many decimals.
fn shown(sample: &Sample, decimals: usize) -> String {
    format!("{:.decimals$} ({})", sample.median(), sample.spread())
}
