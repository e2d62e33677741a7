//! Many small files to all nodes.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use headwater_cluster::Cluster;

use super::copies::{self, Seconds};
use super::links;
use super::setup::{cluster, fixture, noise, shown};
use crate::bench::statistics::Sample;
use crate::bench::{Report, Table};
use crate::harness::nodes::{Nodes, Plan};
use crate::harness::{Fixture, Program, Running};

const NODES: usize = 16;
const FILES: usize = 5000;
const DIRECTORIES: usize = 10;
const FILE_BYTES: usize = 4096;
const RATE: &str = "200mbit";
const ROUNDS: usize = 3;
/// How long it may take until a file that one node requests is everywhere.
const PUSHED_MAX: Duration = Duration::from_secs(120);
/// Files that a node requests at once.
const AT_ONCE: usize = 32;

pub(in crate::bench) fn run(report: &mut Report) {
    report.heading(&format!("The overlay: {FILES} files of {} KB to {NODES} nodes", FILE_BYTES >> 10));
    let Some(cluster) = cluster(report, NODES, Some(RATE)) else { return };
    let fixture = fixture("files");
    let list = fill(&fixture);
    let tar = fixture.outside("files.tar");
    let packed = Program::new("tar").arg("-cf").arg(&tar).arg("-C").arg(fixture.shared()).arg("data").run();
    assert_eq!(packed.status, 0, "{packed:?}");
    let tar_bytes = tar.metadata().expect("tar wrote it").len();
    let scope = fixture.shared();
    let mut rows: Vec<(&str, Result<Vec<Seconds>, String>)> = vec![
        ("Headwater, 32 files at once on each node", Ok(Vec::new())),
        ("Headwater, pushed: one node requests", Ok(Vec::new())),
        ("Headwater, `cat` of one file after the other on each node", Ok(Vec::new())),
        ("tar, plain TCP to each in turn", Ok(Vec::new())),
        ("tar, `scp` to each in turn", Ok(Vec::new())),
        ("tar, `sbcast`", Ok(Vec::new())),
    ];
    for round in 0..ROUNDS {
        let own = fixture.outside(&round.to_string());
        std::fs::create_dir(&own).expect("an own directory");
        let none = |copying| Ok(Seconds { copying, unpacking: 0.0 });
        let measures: [&dyn Fn() -> Result<Seconds, String>; 6] = [
            &|| none(requested(&cluster, &scope, &list)),
            &|| none(pushed(&cluster, &scope, &list)),
            &|| none(read(&cluster, &scope)),
            &|| none((1..NODES).map(|n| links::transfers(&[(cluster.on(1), cluster.on(n + 1))], tar_bytes)).sum()),
            &|| copies::scp(&cluster, &own, &tar),
            &|| copies::sbcast(&cluster, &own, &tar),
        ];
        for ((name, seconds), measure) in rows.iter_mut().zip(measures) {
            let measured = measure();
            eprintln!("{name}: {measured:.2?} s");
            match (seconds, measured) {
                (Ok(seconds), Ok(measured)) => seconds.push(measured),
                (seconds, Err(reason)) => *seconds = Err(reason),
                (Err(_), Ok(_)) => {}
            }
        }
    }
    show(report, rows, tar_bytes);
}

fn show(report: &mut Report, rows: Vec<(&str, Result<Vec<Seconds>, String>)>, tar_bytes: u64) {
    report.line(format!(
        "Links of {RATE}. The time is until all nodes have all files; a tar file ({:.1} MB) is copied and then unpacked \
         everywhere at once. Medians of {ROUNDS} rounds in which all take turns, each of Headwater's in a new session.\n",
        tar_bytes as f64 / 1e6
    ));
    let mut table =
        Table::new(["", "copied, s", "unpacked, s", "together, s (10 to 90 %)", "to Headwater's", "target"]);
    let mut ours = None;
    let mut reasons = Vec::new();
    for (name, measured) in rows {
        let seconds = match measured {
            Ok(seconds) => seconds,
            Err(reason) => {
                reasons.push(format!("Not measured: {reason}."));
                continue;
            }
        };
        let of = |part: &dyn Fn(&Seconds) -> f64| Sample::new(seconds.iter().map(part).collect());
        let (copying, unpacking) = (of(&|s| s.copying), of(&|s| s.unpacking));
        let all = of(&|s| s.copying + s.unpacking);
        let first = *ours.get_or_insert(all.median());
        let is_ours = name.starts_with("Headwater");
        table.row([
            name.to_string(),
            format!("{:.2}", copying.median()),
            if unpacking.median() > 0.0 { format!("{:.2}", unpacking.median()) } else { String::new() },
            shown(&all, 2),
            format!("{:.1}", all.median() / first),
            if is_ours || name.contains("plain") { String::new() } else { "≥ 5".into() },
        ]);
    }
    report.table(&table);
    reasons.into_iter().for_each(|reason| report.line(reason));
}

/// Makes the files, in some directories; a list of them.
fn fill(fixture: &Fixture) -> std::path::PathBuf {
    let mut text = String::new();
    for number in 0..FILES {
        let path = directory(Path::new(""), number * DIRECTORIES / FILES).join(format!("file{number}"));
        let path = fixture.file(&path.display().to_string(), noise(FILE_BYTES, number as u64), 0o644);
        let _ = writeln!(text, "{}", path.display());
    }
    let list = fixture.outside("list");
    std::fs::write(&list, text).expect("an own directory");
    list
}

/// Seconds until each node has requested all files and has them.
fn requested(cluster: &Cluster, scope: &Path, list: &Path) -> f64 {
    let nodes = Nodes::start(cluster, &Plan::of(&[scope]));
    let mut askers = nodes.askers();
    let started = Instant::now();
    askers.iter_mut().for_each(|asker| asker.ask_all(AT_ONCE, list));
    nodes.await_requested(&mut askers);
    let seconds = started.elapsed().as_secs_f64();
    drop(askers);
    nodes.stop();
    seconds
}

/// Seconds until each node has all files, which one node requests.
fn pushed(cluster: &Cluster, scope: &Path, list: &Path) -> f64 {
    let nodes = Nodes::start(cluster, &Plan::of(&[scope]).policy("push"));
    let mut askers = nodes.askers();
    let started = Instant::now();
    askers[0].ask_all(AT_ONCE, list);
    nodes.await_requested(&mut askers[..1]);
    for rank in 0..NODES {
        let has = || (0..DIRECTORIES).map(|number| names(&nodes.copy(rank, &directory(scope, number)))).sum::<usize>();
        while has() < FILES {
            assert!(started.elapsed() < PUSHED_MAX, "{} files arrive at rank {rank}", has());
            sleep(Duration::from_millis(20));
        }
    }
    let seconds = started.elapsed().as_secs_f64();
    drop(askers);
    nodes.stop();
    seconds
}

fn directory(scope: &Path, number: usize) -> PathBuf {
    scope.join(format!("data/{number}"))
}

/// How many names a directory has, if it is there.
fn names(directory: &Path) -> usize {
    std::fs::read_dir(directory).map_or(0, Iterator::count)
}

/// Seconds until a program on each node has read all files.
fn read(cluster: &Cluster, scope: &Path) -> f64 {
    let nodes = Nodes::start(cluster, &Plan::of(&[scope]));
    let program = Program::shell("cat \"$0\"/*/* | cksum").arg(scope.join("data"));
    let expected = program.run();
    let started = Instant::now();
    let running: Vec<Running> = (0..NODES).map(|rank| nodes.program(rank, &program).start()).collect();
    running.into_iter().for_each(|running| assert_eq!(running.finish(), expected));
    let seconds = started.elapsed().as_secs_f64();
    nodes.stop();
    seconds
}
