//! A large file on nodes that all read it at once, beside what it costs at least to pass it on.

use std::fs;
use std::path::Path;
use std::time::Instant;

use super::statistics::Sample;
use super::{Report, Table};
use crate::harness::{Fixture, Headwater, Mechanism, Program};
use crate::model::Content;

const FILE_BYTES: u64 = 1 << 30;
const NODES: [usize; 4] = [1, 2, 4, 8];
const ROUNDS: usize = 3;
const WAYS: [(&str, Mechanism); 2] = [("audit", Mechanism::Audit), ("namespace", Mechanism::Namespace)];
const TICKS_PER_SECOND: f64 = 100.0;

/// What one run took.
#[derive(Clone, Copy)]
struct Cost {
    seconds: f64,
    /// Of all processors and nodes.
    processor_seconds: f64,
}

pub(super) fn run(report: &mut Report) {
    report.heading("A file of 1 GiB, read by one process on each node at once");
    let fixture = Fixture::new("bulk");
    let file = fixture.file("large", Content::noise(1, FILE_BYTES).read(0, FILE_BYTES), 0o644);
    let link = fixture.build("bench/link.c", "bin/link", &["-O2"]);
    let cat = Program::shell(&format!("cat {} > /dev/null", file.display()));
    // One round before all others warms the file's pages.
    let mut floors = Vec::new();
    let mut costs: Vec<Vec<Cost>> = WAYS.iter().flat_map(|_| NODES).map(|_| Vec::new()).collect();
    for round in 0..=ROUNDS {
        let floor = floor(&link, &file);
        let measured = WAYS.iter().flat_map(|&(_, via)| NODES.map(|nodes| (via, nodes)));
        let measured = measured.map(|(via, nodes)| with_headwater(&fixture.shared(), via, nodes, &cat));
        for (costs, cost) in costs.iter_mut().zip(measured).filter(|_| round > 0) {
            costs.push(cost);
        }
        if round > 0 {
            floors.push(floor);
        }
    }
    let [link_seconds, floor_seconds] =
        [median(&floors, |cost| cost.seconds), median(&floors, |cost| cost.processor_seconds)];
    let rate = |seconds: f64| FILE_BYTES as f64 / 1e6 / seconds;
    let mut table =
        Table::new(["by", "nodes", "MB/s", "over the floor's", "processor s a node", "over the floor's", "target"]);
    for ((way, nodes), costs) in WAYS.iter().flat_map(|&(way, _)| NODES.map(|nodes| (way, nodes))).zip(&costs) {
        let seconds = median(costs, |cost| cost.seconds);
        let processor_seconds = median(costs, |cost| cost.processor_seconds) / nodes as f64;
        let target = if way == "audit" { "1.25" } else { "1.4" };
        table.row([
            way.to_owned(),
            nodes.to_string(),
            format!("{:.0}", rate(seconds)),
            format!("{:.2}", link_seconds / seconds),
            format!("{processor_seconds:.2}"),
            format!("{:.2}", processor_seconds / floor_seconds),
            target.to_owned(),
        ]);
    }
    report.line(format!(
        "All content goes through the stores and trees. The floor: one process sends the file by sendfile over loopback, \
         another receives it into a mapped file on a RAM disk, a third reads that: {:.0} MB/s on the link, and \
         {floor_seconds:.2} processor seconds together, without encryption and digests. All nodes share this machine's \
         processors. Medians of {ROUNDS} rounds.\n",
        rate(link_seconds)
    ));
    report.table(&table);
}

/// Passes the file on once and reads the copy.
fn floor(link: &Path, file: &Path) -> Cost {
    let copy = Path::new("/dev/shm").join(format!("headwater-bulk-{}", std::process::id()));
    let before = processor_seconds();
    let sent = Program::new(link).arg(file).arg(&copy).run();
    let seconds = sent.stdout.trim().parse().unwrap_or_else(|_| panic!("{sent:?}"));
    let read = Program::shell(&format!("cat {} > /dev/null", copy.display())).run();
    fs::remove_file(&copy).expect("link has made it");
    assert_eq!(read.status, 0, "{read:?}");
    Cost { seconds, processor_seconds: processor_seconds() - before }
}

fn with_headwater(shared: &Path, via: Mechanism, nodes: usize, program: &Program) -> Cost {
    let headwater = Headwater::new(shared).via(via).on(nodes, 1).store_of_its_own();
    let headwater =
        headwater.option("--stored-file-max=1T").option("--store-max=2G").option("--closures=/dev/null/none");
    let (before, started) = (processor_seconds(), Instant::now());
    let session = headwater.start(program).finish();
    assert_eq!(session.output.status, 0, "{:?}", session.output);
    Cost { seconds: started.elapsed().as_secs_f64(), processor_seconds: processor_seconds() - before }
}

fn median(costs: &[Cost], of: impl Fn(&Cost) -> f64) -> f64 {
    Sample::new(costs.iter().map(of).collect()).median()
}

/// Processor seconds of this process's children that have ended, and of theirs.
fn processor_seconds() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // Behind the name, which may contain anything: cutime and cstime are the 16th and 17th field.
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields).split_whitespace();
    fields.skip(13).take(2).filter_map(|field| field.parse::<f64>().ok()).sum::<f64>() / TICKS_PER_SECOND
}
