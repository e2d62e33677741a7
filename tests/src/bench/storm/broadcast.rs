//! One file to all nodes, over links of a known rate: Headwater beside Slurm's `sbcast`.

use std::path::Path;

use super::options::Options;
use super::results::{Case, Results};
use super::stage::{self, Measured, Stage, Start, Variant};
use crate::bench::Table;
use crate::bench::statistics::Sample;
use crate::harness::services::gluster::VOLUME;

const NODES: usize = 16;
const FILE_BYTES: usize = 64 << 20;
/// The path of the file that `sbcast` writes on each node.
const TARGET: &str = "/dev/shm/file";

/// Measures both in turn. `memory` is a file system in memory.
pub(super) fn measure(options: &Options, memory: &Path, rate: &str, results: &mut Results) -> Result<(), String> {
    let nodes = NODES.min(options.nodes_max());
    let cluster = stage::cluster(nodes, Some(rate.parse().expect("a rate")))?;
    let directory = tempfile::tempdir_in(memory).map_err(|e| e.to_string())?;
    let files = directory.path().join("files");
    std::fs::create_dir(&files).map_err(|e| e.to_string())?;
    let noise = crate::model::Content::noise(1, FILE_BYTES as u64).read(0, FILE_BYTES as u64);
    std::fs::write(files.join("file"), noise).map_err(|e| e.to_string())?;
    let stage = Stage::set(&cluster, memory, &[files])?;
    let read = |root: &Path| {
        let file = format!("if={}", root.join("files/file").display());
        ["dd", &file, "of=/dev/null", "bs=1M", "status=none"].map(String::from).to_vec()
    };
    let server = &cluster.nodes().last().expect("a server").name;
    let sbcast = format!("salloc -Q -N{nodes} --exclude={server} sbcast -f {VOLUME}/files/file {TARGET}");
    let sbcast: Vec<String> = sbcast.split(' ').map(String::from).collect();
    let mut rows = ["with Headwater", "sbcast", "srun alone, from memory", "without, from the volume"]
        .map(|name| (name, Vec::<Measured>::new()));
    let case = Case { server: "links-1gbit", workload: "broadcast", nodes, processes: 1, is_alone: false };
    for round in 0..options.rounds {
        for (name, measured) in &mut rows {
            let start = |variant| stage.start(&Start { variant, nodes, processes: 1, srun: &[], args: &read });
            let (variant, run) = match *name {
                "with Headwater" => (Some(Variant::Headwater), start(Variant::Headwater)),
                "sbcast" => (None, stage.gluster.mount(nodes).and_then(|()| stage.measure(&sbcast, Path::new(VOLUME)))),
                "srun alone, from memory" => (Some(Variant::Floor), start(Variant::Floor)),
                _ => (Some(Variant::Plain), start(Variant::Plain)),
            };
            let run = run.map_err(|reason| format!("{name}: {reason}"))?;
            match variant {
                Some(variant) => results.run(&case, variant, round, &run)?,
                None => results.run(&Case { workload: "sbcast", ..case.clone() }, Variant::Plain, round, &run)?,
            }
            measured.push(run);
        }
    }
    results.report.heading(&format!("{} MiB to {nodes} nodes, links of {rate}/s", FILE_BYTES >> 20));
    let mut table = Table::new(["", "s (10 to 90 %)", "bound", "CPU s of the machine", "bytes from the server"]);
    for (name, measured) in rows {
        let seconds = Sample::new(measured.iter().map(|run| run.seconds).collect());
        let cpu = Sample::new(measured.iter().map(|run| run.cpu_seconds).collect());
        let bound = if name == "with Headwater" { "1.5" } else { "" };
        let seconds = format!("{:.2} ({})", seconds.median(), seconds.spread());
        table.row([name, &seconds, bound, &format!("{:.2}", cpu.median()), &measured[0].counts.bytes.to_string()]);
    }
    results.report.line("Each node's process reads the whole file; `sbcast` writes it to each node's memory.\n");
    results.report.table(&table);
    Ok(())
}
