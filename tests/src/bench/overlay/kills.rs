//! Daemons that are killed in the middle of an import on all nodes.

use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use headwater_cluster::Cluster;

use super::setup::{cluster, shown};
use crate::bench::fixture::python_environment;
use crate::bench::statistics::Sample;
use crate::bench::{Report, Table};
use crate::harness::nodes::{Nodes, Plan};
use crate::harness::{Program, Running};

/// How long an import on all nodes may take.
const TIME_MAX: Duration = Duration::from_secs(300);
/// When daemons are killed, as a share of the time that it takes without.
const WHEN: f64 = 0.4;

/// Which daemons die.
type Victims = fn(&Nodes) -> Vec<usize>;

/// The event, the number of nodes, and the number of pairs that are measured.
const CASES: [(&str, usize, usize, Victims); 3] = [
    ("1 of 16, one that forwards", 16, 5, |nodes| vec![nodes.interior()]),
    ("a reader of 16", 16, 5, |nodes| vec![nodes.readers()[0]]),
    ("5 % of 64", 64, 3, |nodes| {
        let bystanders: Vec<usize> = (0..64).filter(|rank| !nodes.readers().contains(rank)).collect();
        // Three of the nodes, far from each other.
        bystanders.iter().copied().skip(7).step_by(21).collect()
    }),
];

pub(in crate::bench) fn run(report: &mut Report) {
    report.heading("The overlay: daemons killed during import scipy.stats on all nodes");
    let environment = match python_environment() {
        Ok(environment) => environment,
        Err(reason) => return report.line(format!("skipped: {reason}")),
    };
    let mut table =
        Table::new(["killed", "without, s", "with, s", "later, s (10 to 90 %)", "target", "pairs", "wrong ends"]);
    let mut open = None;
    for (name, count, pairs, victims) in CASES {
        if open.as_ref().is_none_or(|cluster: &Cluster| cluster.nodes().len() != count) {
            open = cluster(report, count, None);
        }
        let Some(cluster) = &open else { return };
        let measured: Vec<(f64, f64)> = (0..pairs)
            .map(|_| {
                let without = session(cluster, &environment, None, victims);
                let with = session(cluster, &environment, Some(without * WHEN), victims);
                eprintln!("{name}: {without:.2} s without, {with:.2} s with");
                (without, with)
            })
            .collect();
        let later = Sample::new(measured.iter().map(|(without, with)| with - without).collect());
        let (without, with) = measured.into_iter().unzip();
        let [without, with] = [without, with].map(|times| Sample::new(times).median());
        table.row([
            name.to_string(),
            format!("{without:.2}"),
            format!("{with:.2}"),
            shown(&later, 2),
            "≤ 2".into(),
            pairs.to_string(),
            "0".into(),
        ]);
    }
    report.line(format!(
        "One process on each node, all started at once; the time is until the last has ended. The daemons are killed \
         after {:.0} % of the time that the import took without, just before in a session of its own. A wrong result or \
         an error would have ended the benchmark. All nodes share this machine's processors.\n",
        WHEN * 100.0
    ));
    report.table(&table);
}

/// Seconds until the import has ended on all nodes, if daemons are killed after so many seconds.
fn session(cluster: &Cluster, environment: &Path, kill_after: Option<f64>, victims: Victims) -> f64 {
    let mut nodes = Nodes::start(cluster, &Plan::of(&[environment]));
    let script = "import scipy.stats; print(scipy.stats.norm.cdf(0), scipy.stats.__file__)";
    let python = Program::new(environment.join("bin/python3")).args(["-c", script]).env("PYTHONDONTWRITEBYTECODE", "1");
    let expected = format!("0.5 {}\n", module_file(environment).display());
    let started = Instant::now();
    let running: Vec<Running> = (0..nodes.ranks()).map(|rank| nodes.program(rank, &python).start()).collect();
    if let Some(seconds) = kill_after {
        sleep(Duration::from_secs_f64(seconds).saturating_sub(started.elapsed()));
        victims(&nodes).into_iter().for_each(|rank| nodes.kill_daemon(rank));
    }
    for (rank, running) in running.into_iter().enumerate() {
        let output = running.finish_within(TIME_MAX);
        assert!(output.status == 0 && output.stderr.is_empty(), "rank {rank}: {output:?}");
        assert_eq!(output.stdout, expected, "rank {rank}");
    }
    let seconds = started.elapsed().as_secs_f64();
    nodes.stop();
    seconds
}

fn module_file(environment: &Path) -> std::path::PathBuf {
    let versions = std::fs::read_dir(environment.join("lib")).expect("a Python environment").flatten();
    let mut files = versions.map(|version| version.path().join("site-packages/scipy/stats/__init__.py"));
    files.find(|file| file.is_file()).expect("an environment with scipy")
}
