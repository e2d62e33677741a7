//! The patterns by the number of nodes and by size, in one, two and three dimensions: the paper's figures 4 to 9, from a
//! GlusterFS server. Each run is a line of a file, from which the curves are drawn.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use headwater_cluster::{Cluster, Options as ClusterOptions, Rate};
use headwater_figures::results::{IO, drawings};

use super::Bench;
use super::mpi::{Hosts, Mpi};
use super::nodes::{LINK, RAM_DISK_MIB, SERVER, Site, limit_server};
use super::rounds::{Rounds, times};
use super::run::{Job, Program, Variant};
use crate::bench::Report;
use crate::harness::services::gluster::VOLUME;

/// Numbers of nodes, all with the middle size, and sizes, all on this many nodes.
const NODES: [usize; 5] = [1, 2, 4, 8, 16];
const SIZES_MB: [u64; 4] = [4, 16, 64, 256];
const NODES_OF_SIZES: usize = 4;
const MB_OF_NODES: u64 = 64;
const WAYS: [(Variant, &str); 3] = [(Variant::Plain, "plain"), (Variant::Library, "library"), (Variant::Twin, "twin")];

impl Bench<'_> {
    pub(super) fn curves(&self, report: &mut Report) {
        report.heading(&format!("By nodes and by size: nodes with {LINK} links, a server of {SERVER}"));
        match self.measure_curves(report) {
            Ok(()) => report.line(format!("Data and curves: {}\n", self.options.curves.display())),
            Err(reason) => report.line(format!("({reason})\n")),
        }
    }

    fn measure_curves(&self, report: &mut Report) -> Result<(), String> {
        headwater_cluster::check().map_err(|error| error.to_string())?;
        let directory = &self.options.curves;
        fs::create_dir_all(directory).map_err(|error| format!("{}: {error}", directory.display()))?;
        let rate: Rate = LINK.parse().expect("a rate");
        let shares = vec![crate::workspace()];
        let options =
            ClusterOptions { rate: Some(rate), ram_disk_mib: RAM_DISK_MIB, shares, ..ClusterOptions::default() };
        let most = NODES[NODES.len() - 1];
        let cluster = Cluster::up(most + 1, &options).map_err(|error| error.to_string())?;
        let site = Site::new(&cluster, self.directory)?;
        limit_server(&cluster, SERVER)?;
        let csv = fs::read_to_string(directory.join("runs.csv")).unwrap_or_default();
        for round in 0..self.options.rounds {
            for mpi in &self.mpis {
                let round = next_round(&csv, mpi.name) + round;
                let dimensions = |program: &Program| self.options.dimensions.contains(&program.dimensions());
                for program in Program::DIMENSIONS.into_iter().filter(dimensions) {
                    for (nodes, mb) in cases(self.options.bytes_max, &self.options.nodes) {
                        if let Err(reason) = self.case(mpi, &site, (program, nodes, mb), round, report) {
                            report.line(format!("({}, {program:?}, {nodes} nodes, {mb} MB: {reason})\n", mpi.name));
                        }
                    }
                }
            }
        }
        draw(directory)
    }

    /// Runs one case in all ways, and adds its lines to the data.
    fn case(
        &self,
        mpi: &Mpi,
        site: &Site<'_>,
        (program, nodes, mb): (Program, usize, u64),
        round: usize,
        report: &mut Report,
    ) -> Result<(), String> {
        let binary = self.compiled(mpi, program, report).ok_or("not compiled")?;
        let hosts = Hosts { agent: site.hosts.agent.clone(), names: site.hosts.names[..nodes].to_vec() };
        let job = Job {
            mpi,
            program,
            binary: &binary,
            bytes: mb << 20,
            steps: 1,
            ranks: nodes,
            hosts: Some(&hosts),
            directory: &Path::new(VOLUME).join("io"),
            report: &self.directory.join("report"),
        };
        let before = || site.renew(self.directory, mb << 20, nodes);
        let start = |name: &str| -> Command { site.cluster.on(1).command(name) };
        let mut rounds = Rounds::default();
        rounds.once(&job, &WAYS.map(|(variant, _)| variant), &start, &before)?;
        let last = rounds.last().ok_or("no round")?;
        for (variant, way) in WAYS {
            let Some(times) = times(last, variant) else { continue };
            let [reading, writing] = times.seconds;
            let dimensions = program.dimensions();
            let line =
                format!("GlusterFS,{},{dimensions},{nodes},{mb},{round},{way},{reading:.4},{writing:.4}", mpi.name);
            println!("  {line}");
            append(&self.options.curves.join("runs.csv"), &line)?;
        }
        Ok(())
    }
}

/// Nodes and MB of all cases, or of those with some numbers of nodes.
fn cases(bytes_max: u64, only: &[usize]) -> Vec<(usize, u64)> {
    let by_nodes = NODES.into_iter().map(|nodes| (nodes, MB_OF_NODES));
    let by_size = SIZES_MB.into_iter().map(|mb| (NODES_OF_SIZES, mb)).filter(|&(_, mb)| mb != MB_OF_NODES);
    let is_wanted = |nodes: usize| only.is_empty() || only.contains(&nodes);
    by_nodes.chain(by_size).filter(|&(nodes, mb)| mb << 20 <= bytes_max && is_wanted(nodes)).collect()
}

/// Returns the number of the first round with this MPI that the data doesn't have.
fn next_round(csv: &str, mpi: &str) -> usize {
    let fields = csv.lines().skip(1).map(|line| line.split(',').collect::<Vec<_>>());
    let rounds = fields.filter(|line| line.get(1) == Some(&mpi)).filter_map(|line| line.get(5)?.parse::<usize>().ok());
    rounds.max().map_or(0, |last| last + 1)
}

/// Adds a line to the data, which begins with its heading.
fn append(file: &Path, line: &str) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", file.display());
    let mut out = OpenOptions::new().create(true).append(true).open(file).map_err(failed)?;
    if out.metadata().map_err(failed)?.len() == 0 {
        writeln!(out, "{IO}").map_err(failed)?;
    }
    writeln!(out, "{line}").map_err(failed)
}

fn draw(directory: &Path) -> Result<(), String> {
    let failed = |file: &Path, error: std::io::Error| format!("{}: {error}", file.display());
    let data = directory.join("runs.csv");
    let csv = fs::read_to_string(&data).map_err(|error| failed(&data, error))?;
    for one in drawings("runs", &csv)? {
        let file = directory.join(&one.file);
        fs::write(&file, &one.svg).map_err(|error| failed(&file, error))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_case_is_there_once() {
        assert_eq!(cases(u64::MAX, &[]), [(1, 64), (2, 64), (4, 64), (8, 64), (16, 64), (4, 4), (4, 16), (4, 256)]);
        assert_eq!(cases(16 << 20, &[]), [(4, 4), (4, 16)]);
        assert_eq!(cases(u64::MAX, &[2, 8]), [(2, 64), (8, 64)]);
    }

    #[test]
    fn rounds_are_added() {
        let csv = format!("{IO}\nGlusterFS,openmpi4,1,4,4,2,plain,1,1\n");
        assert_eq!((next_round("", "openmpi4"), next_round(&csv, "openmpi4"), next_round(&csv, "mpich5")), (0, 3, 0));
    }
}
