//! Several processes at once on one mount whose names the kernel has dropped: each operation is a FUSE request.

use super::skip::is_skipped;
use super::tree::{FILES, Measured, Times, drop_names};
use crate::bench::statistics::Sample;
use crate::bench::{Report, Table};
use crate::harness::View;

const ROUNDS: usize = 7;
const PROCESSES: [usize; 4] = [1, 2, 4, 8];

pub(in crate::bench) fn run(report: &mut Report) {
    report.heading("The mount, several processes at once");
    if is_skipped(report) {
        return;
    }
    let measured = Measured::new();
    let view = View::of(&measured.fixture.shared());
    Times::of(&measured.program("walk,read", 1, 1, &[view.path()]).run());
    let mut table = Table::new(["operations a second, thousands", "1", "2", "4", "8 processes", "8 to 1", "target"]);
    for (action, name) in [("stat", "look-ups of known files"), ("read", "look-up, open and read of stored files")] {
        let mut samples = PROCESSES.map(|_| Vec::new());
        for _ in 0..ROUNDS {
            for (processes, sample) in PROCESSES.into_iter().zip(&mut samples) {
                drop_names();
                let before = view.fuse_requests();
                let times = Times::of(&measured.program(action, 1, processes, &[view.path()]).run());
                assert!(view.fuse_requests() - before >= FILES as u64, "every look-up was a FUSE request");
                sample.push(FILES as f64 / times.first(action, 0));
            }
        }
        let medians = samples.map(|sample| Sample::new(sample).median());
        let mut row = vec![name.to_owned()];
        row.extend(medians.iter().map(|median| format!("{median:.0}")));
        row.extend([format!("{:.2}", medians[3] / medians[0]), "> 1".into()]);
        table.row(row);
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    report.line(format!(
        "Medians of {ROUNDS}; the kernel forgets all names before each round, the node's table and store know all. On {cores} \
         cores, which the processes share with the daemon.\n"
    ));
    report.table(&table);
    view.unmount();
}
