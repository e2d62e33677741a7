//! A large file on nodes that all read it at once, beside what it costs at least to pass it on.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::Instant;

use super::statistics::Sample;
use super::{Report, Table};
use crate::harness::{Fixture, Headwater, Mechanism, Program};
use crate::model::Content;

const FILE_BYTES: u64 = 1 << 30;
const NODES: [usize; 4] = [1, 2, 4, 8];
const ROUNDS: usize = 3;
/// A way: its name, the mechanism, whether nodes may have mounts, and the target of processor time over the floor's.
const WAYS: [(&str, Mechanism, bool, &str); 3] = [
    ("audit", Mechanism::Audit, true, "1.25"),
    ("audit, without a mount", Mechanism::Audit, false, "1.25"),
    ("namespace", Mechanism::Namespace, true, "1.4"),
];
/// Runs what follows where `/dev/fuse` is another device.
const WITHOUT_FUSE: [&str; 7] = [
    "unshare",
    "--mount",
    "--propagation=private",
    "sh",
    "-c",
    "mount --bind /dev/null /dev/fuse && exec \"$@\"",
    "sh",
];
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
    let mut floors = NODES.map(|_| Vec::new());
    let mut costs: Vec<Vec<Cost>> = WAYS.iter().flat_map(|_| NODES).map(|_| Vec::new()).collect();
    for round in 0..=ROUNDS {
        let floor = NODES.map(|nodes| floor(&link, &file, nodes));
        let measured = WAYS.iter().flat_map(|&(_, via, mounts, _)| NODES.map(|nodes| (via, mounts, nodes)));
        let measured = measured.map(|(via, mounts, nodes)| with_headwater(&fixture.shared(), via, mounts, nodes, &cat));
        for (costs, cost) in costs.iter_mut().zip(measured).filter(|_| round > 0) {
            costs.push(cost);
        }
        for (floors, floor) in floors.iter_mut().zip(floor).filter(|_| round > 0) {
            floors.push(floor);
        }
    }
    let rate = |costs: &[Cost]| FILE_BYTES as f64 / 1e6 / median(costs, |cost| cost.seconds);
    let mut table = Table::new([
        "by",
        "nodes",
        "MB/s",
        "the floor's",
        "of it",
        "processor s a node",
        "the floor's",
        "over it",
        "target",
    ]);
    let rows = WAYS.iter().flat_map(|way| NODES.iter().zip(&floors).map(move |floor| (way, floor)));
    for ((&(way, _, _, target), (&nodes, floors)), costs) in rows.zip(&costs) {
        let floor_seconds = median(floors, |cost| cost.processor_seconds);
        let processor_seconds = median(costs, |cost| cost.processor_seconds) / nodes as f64;
        table.row([
            way.to_owned(),
            nodes.to_string(),
            format!("{:.0}", rate(costs)),
            format!("{:.0}", rate(floors)),
            format!("{:.2}", rate(costs) / rate(floors)),
            format!("{processor_seconds:.2}"),
            format!("{floor_seconds:.2}"),
            format!("{:.2}", processor_seconds / floor_seconds),
            target.to_owned(),
        ]);
    }
    report.line(format!(
        "All content goes through the stores and trees. The floor of one transfer: one process sends the file by sendfile \
         over loopback, another receives it into a mapped file on a RAM disk, a third reads that, without encryption and \
         digests; as many transfers at once as the nodes need, at least one. All share this machine's processors. \
         Medians of {ROUNDS} rounds.\n",
    ));
    report.table(&table);
}

/// Passes the file on and reads the copy, once for each node but the first. Returns the cost of one of these transfers.
fn floor(link: &Path, file: &Path, nodes: usize) -> Cost {
    let transfers = nodes.max(2) - 1;
    let before = processor_seconds();
    let seconds = thread::scope(|scope| {
        let threads: Vec<_> = (0..transfers).map(|number| scope.spawn(move || transfer(link, file, number))).collect();
        let seconds = threads.into_iter().map(|thread| thread.join().expect("it does not panic"));
        seconds.fold(0.0, f64::max)
    });
    Cost { seconds, processor_seconds: (processor_seconds() - before) / transfers as f64 }
}

/// Returns the seconds until the file had been received.
fn transfer(link: &Path, file: &Path, number: usize) -> f64 {
    let copy = Path::new("/dev/shm").join(format!("headwater-bulk-{}-{number}", std::process::id()));
    let sent = Program::new(link).arg(file).arg(&copy).run();
    let read = Program::shell(&format!("cat {} > /dev/null", copy.display())).run();
    fs::remove_file(&copy).expect("link has made it");
    assert_eq!(read.status, 0, "{read:?}");
    sent.stdout.trim().parse().unwrap_or_else(|_| panic!("{sent:?}"))
}

fn with_headwater(shared: &Path, via: Mechanism, mounts: bool, nodes: usize, program: &Program) -> Cost {
    let headwater = Headwater::new(shared).via(via).on(nodes, 1).store_of_its_own();
    let headwater = if mounts { headwater } else { headwater.behind(&WITHOUT_FUSE) };
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
