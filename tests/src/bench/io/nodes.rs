//! Four nodes with links of 200 Mbit/s, one rank on each, and a file server of 800 Mbit/s: the paper's figures 4 to 8,
//! predicted beside measured. The server is GlusterFS with its files in memory; each run has a file of its own, and
//! nodes that have mounted the volume anew.

use std::fs;
use std::path::Path;
use std::process::Command;

use headwater_cluster::{Cluster, Options as ClusterOptions, Rate};
use headwater_model::io::{Form, Parameters, Pattern, Work};

use headwater_figures::text;

use super::Bench;
use super::mpi::{Hosts, Mpi};
use super::rounds::{Rounds, spread};
use super::run::{Job, Program, Variant, fill};
use crate::bench::{Report, Table};
use crate::harness::headwater_binary;
use crate::harness::services::Ssh;
use crate::harness::services::gluster::{Gluster, VOLUME};

const NODES: usize = 4;
const BYTES: u64 = 256 << 20;
pub(super) const LINK: &str = "200mbit";
pub(super) const SERVER: &str = "800mbit";
/// The server's files are there, and its output: memory is taken as it is used.
pub(super) const RAM_DISK_MIB: u32 = 4096;
const HEAD: [&str; 10] = [
    "pattern",
    "as it is, s",
    "library, s",
    "by hand, s",
    "library, times as fast",
    "the same, exchanges not deferred",
    "by hand, times as fast",
    "library, of by hand",
    "predicted, times as fast",
    "predicted, of measured",
];

/// Nodes, a server, and access from the nodes to the server.
pub(super) struct Site<'a> {
    pub(super) cluster: &'a Cluster,
    pub(super) hosts: Hosts,
    gluster: Gluster<'a>,
    _ssh: Ssh,
}

impl Bench<'_> {
    pub(super) fn nodes(&self, report: &mut Report) {
        let bytes = BYTES.min(self.options.bytes_max);
        report.heading(&format!("{NODES} nodes with {LINK} links, a server of {SERVER}, {}", text::bytes(bytes)));
        let measured = headwater_cluster::check().map_err(|error| error.to_string()).and_then(|()| {
            let shares = vec![crate::workspace()];
            let rate: Rate = LINK.parse().expect("a rate");
            let options =
                ClusterOptions { rate: Some(rate), ram_disk_mib: RAM_DISK_MIB, shares, ..ClusterOptions::default() };
            let cluster = Cluster::up(NODES + 1, &options).map_err(|error| error.to_string())?;
            let site = Site::new(&cluster, self.directory)?;
            limit_server(&cluster, SERVER)?;
            let parameters = site.measured(self.directory)?;
            for mpi in &self.mpis {
                self.nodes_of(mpi, &site, (bytes, &parameters), report);
            }
            Ok(())
        });
        if let Err(reason) = measured {
            report.line(format!("({reason})\n"));
        }
    }

    fn nodes_of(&self, mpi: &Mpi, site: &Site<'_>, (bytes, parameters): (u64, &Parameters), report: &mut Report) {
        report.line(format!("{}:\n", mpi.name));
        let mut table = Table::new(HEAD);
        for program in Program::BOTH {
            let Some(binary) = self.compiled(mpi, program, report) else { continue };
            match self.rounds_of(mpi, program, &binary, site, bytes) {
                Ok(rounds) => rows(&mut table, program, (bytes, parameters), &rounds),
                Err(reason) => report.line(format!("({reason})\n")),
            }
        }
        report.table(&table);
    }

    fn rounds_of(
        &self,
        mpi: &Mpi,
        program: Program,
        binary: &Path,
        site: &Site<'_>,
        bytes: u64,
    ) -> Result<Rounds, String> {
        let mut rounds = Rounds::default();
        let report = self.directory.join("report");
        let volume = Path::new(VOLUME);
        for _ in 0..self.options.rounds {
            println!("  {}, {program:?}, round {}", mpi.name, rounds.count());
            let job = Job {
                mpi,
                program,
                binary,
                bytes,
                steps: 1,
                ranks: NODES,
                hosts: Some(&site.hosts),
                directory: &volume.join("io"),
                report: &report,
            };
            let before = || site.renew(self.directory, program.file_bytes(bytes, 1), NODES);
            let start = |name: &str| -> Command { site.cluster.on(1).command(name) };
            rounds.once(&job, &[Variant::Plain, Variant::Library, Variant::AtOnce, Variant::Twin], &start, &before)?;
        }
        Ok(rounds)
    }
}

impl<'a> Site<'a> {
    /// The last node is the server.
    pub(super) fn new(cluster: &'a Cluster, directory: &Path) -> Result<Site<'a>, String> {
        let keys = directory.join("ssh");
        let _ = fs::remove_dir_all(&keys);
        fs::create_dir_all(&keys).map_err(|error| format!("{}: {error}", keys.display()))?;
        let ssh = Ssh::start(cluster, &keys)?;
        let names =
            cluster.nodes().split_last().ok_or("a server is needed")?.1.iter().map(|node| node.name.clone()).collect();
        let hosts = Hosts { agent: ssh.agent.clone(), names };
        let gluster = Gluster::start(cluster)?;
        Ok(Site { cluster, gluster, hosts, _ssh: ssh })
    }

    /// The costs of memory and the volume on a node, as `headwater io predict` measures them.
    fn measured(&self, directory: &Path) -> Result<Parameters, String> {
        self.gluster.mount(NODES)?;
        let file = directory.join("parameters.toml");
        let mut command = self.cluster.on(1).command(headwater_binary());
        command.args(["io", "predict", "--bytes", "1M", "--ranks", "4", "--nodes", "4", "--link", LINK]);
        command.args(["--server", SERVER, "--measure", VOLUME, "--save"]).arg(&file);
        let output = command.output().map_err(|error| error.to_string())?;
        print!("  {}", String::from_utf8_lossy(&output.stderr));
        let text = fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
        Parameters::parse(&text).map_err(|error| error.to_string())
    }

    /// A volume with a new file and nothing else, which no node has seen. The first nodes mount it.
    pub(super) fn renew(&self, directory: &Path, bytes: u64, nodes: usize) -> Result<(), String> {
        self.gluster.unmount()?;
        let own = directory.join("volume/io");
        fs::create_dir_all(&own).map_err(|error| format!("{}: {error}", own.display()))?;
        if fs::metadata(own.join("in")).map_or(0, |file| file.len()) != bytes {
            fill(&own.join("in"), bytes)?;
        }
        self.gluster.clear()?;
        self.gluster.fill(&[own])?;
        self.gluster.mount(nodes)
    }
}

/// Limits the server's link, at both ends, to the server's rate.
pub(super) fn limit_server(cluster: &Cluster, rate: &str) -> Result<(), String> {
    let server = cluster.nodes().last().expect("a cluster has nodes");
    let rate: Rate = rate.parse().expect("a rate");
    let script = "tc qdisc del dev \"$0\" root 2>/dev/null; \
                  tc qdisc add dev \"$0\" root tbf rate \"$1\" burst \"$2\" latency 50ms";
    let (rate, burst) = (rate.to_string(), rate.burst_bytes().to_string());
    let mut inside = server.command("sh");
    inside.args(["-c", script, "eth0", &rate, &burst]);
    let mut outside = Command::new("nsenter");
    let switch = cluster.running().switch.pid.to_string();
    outside.args(["--net", "--target", &switch, "sh", "-c", script, &server.name, &rate, &burst]);
    for mut command in [inside, outside] {
        let output = command.output().map_err(|error| error.to_string())?;
        if !output.status.success() {
            return Err(format!("the server's link: {}", String::from_utf8_lossy(&output.stderr)));
        }
    }
    Ok(())
}

fn rows(table: &mut Table, program: Program, (bytes, parameters): (u64, &Parameters), rounds: &Rounds) {
    for (index, name) in program.patterns().into_iter().enumerate() {
        let seconds = |variant| {
            let sample = rounds.milliseconds(variant, index);
            sample.map_or_else(|| "-".into(), |sample| format!("{:.2}", sample.median() / 1e3))
        };
        let [library, by_hand] = [Variant::Library, Variant::Twin].map(|variant| rounds.speedup(variant, index));
        let of = |sample: &Option<crate::bench::statistics::Sample>| sample.as_ref().map(|sample| sample.median());
        let part = |whole: Option<f64>, part: Option<f64>| {
            whole.zip(part).map_or_else(|| "-".into(), |(whole, part)| format!("{:.0} %", 100.0 * part / whole))
        };
        let predicted = predicted(program, index, bytes, parameters);
        // Without the library, the prediction is for a program changed by hand.
        let measured = of(&library).or(of(&by_hand));
        table.row([
            name.to_owned(),
            seconds(Variant::Plain),
            seconds(Variant::Library),
            seconds(Variant::Twin),
            spread(rounds.speedup(Variant::Library, index)),
            spread(rounds.speedup(Variant::AtOnce, index)),
            spread(rounds.speedup(Variant::Twin, index)),
            part(of(&by_hand), of(&library)),
            format!("{predicted:.2}"),
            part(measured, Some(predicted)),
        ]);
    }
}

/// The predicted speedup.
fn predicted(program: Program, index: usize, bytes: u64, parameters: &Parameters) -> f64 {
    let name = program.patterns()[index];
    let pattern = Pattern::ALL.into_iter().find(|pattern| pattern.name() == name).expect("each pattern is known");
    let (form, pieces) = match program {
        Program::Rows | Program::Broadcast => (Form::Whole, 1),
        // A block has half of the matrix's rows.
        Program::Blocks | Program::Cubes => (Form::NodeRows, program.lines(bytes) as u32 / 2),
    };
    let (ranks, nodes) = (NODES as u32, NODES as u32);
    Work { pattern, form, bytes: bytes as f64, ranks, nodes, pieces }.predict(parameters).speedup()
}
