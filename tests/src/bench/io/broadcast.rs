//! A file that one rank reads and broadcasts to the ranks of 8 nodes, from a server with a link of 1 Gbit/s.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use headwater_cluster::{Cluster, Options as ClusterOptions};
use headwater_figures::text;

use super::Bench;
use super::mpi::Mpi;
use super::nodes::{RAM_DISK_MIB, Site, limit_server};
use super::rounds::{Rounds, median, spread};
use super::run::{Job, Program, Variant};
use crate::bench::statistics::Sample;
use crate::bench::{Report, Table};
use crate::harness::services::gluster::VOLUME;

const NODES: usize = 8;
const BYTES: u64 = 256 << 20;
const SERVER: &str = "1gbit";
const HEAD: [&str; 9] = [
    "MPI",
    "one reading, s",
    "as it is, ms",
    "library, ms",
    "by hand, ms",
    "library, times as fast",
    "by hand, times as fast",
    "library, of one reading",
    "bytes that the server sent, of the file's, library",
];

impl Bench<'_> {
    pub(super) fn broadcast(&self, report: &mut Report) {
        let bytes = BYTES.min(self.options.bytes_max);
        report.heading(&format!("A broadcast file of {}, {NODES} nodes, a server of {SERVER}", text::bytes(bytes)));
        let measured = headwater_cluster::check().map_err(|error| error.to_string()).and_then(|()| {
            let shares = vec![crate::workspace()];
            let options = ClusterOptions { ram_disk_mib: RAM_DISK_MIB, shares, ..ClusterOptions::default() };
            let cluster = Cluster::up(NODES + 1, &options).map_err(|error| error.to_string())?;
            let site = Site::new(&cluster, self.directory)?;
            limit_server(&cluster, SERVER)?;
            let mut table = Table::new(HEAD);
            for mpi in &self.mpis {
                match self.broadcast_by(mpi, &site, bytes, report) {
                    Ok(row) => table.row(row),
                    Err(reason) => report.line(format!("({}: {reason})\n", mpi.name)),
                }
            }
            report.table(&table);
            Ok(())
        });
        if let Err(reason) = measured {
            report.line(format!("({reason})\n"));
        }
    }

    fn broadcast_by(&self, mpi: &Mpi, site: &Site<'_>, bytes: u64, report: &mut Report) -> Result<[String; 9], String> {
        let binary = self.compiled(mpi, Program::Broadcast, report).ok_or("not compiled")?;
        let (mut rounds, mut readings, mut sent) = (Rounds::default(), Vec::new(), Vec::new());
        let directory = Path::new(VOLUME).join("io");
        let server = site.cluster.nodes().last().ok_or("no server")?;
        let job = Job {
            mpi,
            program: Program::Broadcast,
            binary: &binary,
            bytes,
            steps: 1,
            ranks: NODES,
            hosts: Some(&site.hosts),
            directory: &directory,
            report: &self.directory.join("report"),
        };
        let before = || site.renew(self.directory, bytes, NODES);
        let traffic = || server.traffic_on(0).map(|(_, sent)| sent).map_err(|error| error.to_string());
        let start = |name: &str| -> Command { site.cluster.on(1).command(name) };
        for _ in 0..self.options.rounds {
            println!("  {}, round {}", mpi.name, rounds.count());
            before()?;
            readings.push(one_reading(site, &directory.join("in"))?);
            rounds.once(&job, &[Variant::Plain, Variant::Twin, Variant::Library], &start, &before)?;
            before()?;
            let earlier = traffic()?;
            job.run(Variant::Library, &start)?;
            sent.push((traffic()? - earlier) as f64 / bytes as f64);
        }
        let reading = Sample::new(readings);
        let seconds = |variant| median(rounds.milliseconds(variant, 0), 0);
        let of_reading =
            rounds.milliseconds(Variant::Library, 0).map(|library| library.median() / 1e3 / reading.median());
        Ok([
            mpi.name.to_owned(),
            format!("{:.2}", reading.median()),
            seconds(Variant::Plain),
            seconds(Variant::Library),
            seconds(Variant::Twin),
            spread(rounds.speedup(Variant::Library, 0)),
            spread(rounds.speedup(Variant::Twin, 0)),
            of_reading.map_or_else(|| "-".into(), |of| format!("{of:.2}")),
            format!("{:.2}", Sample::new(sent).median()),
        ])
    }
}

/// Seconds in which one node reads the file.
fn one_reading(site: &Site<'_>, file: &Path) -> Result<f64, String> {
    let mut command = site.cluster.on(1).command("dd");
    command.arg(format!("if={}", file.display())).args(["of=/dev/null", "bs=4M", "status=none"]);
    let begin = Instant::now();
    let status = command.status().map_err(|error| error.to_string())?;
    status.success().then(|| begin.elapsed().as_secs_f64()).ok_or_else(|| format!("dd: {status}"))
}
