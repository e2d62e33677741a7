//! Once touched: what the kernel answers by itself, against a RAM disk and the local disk.

use super::tree::{BIG_BYTES, FILES, Measured, Times, in_memory};
use crate::bench::fixture::python_environment;
use crate::bench::statistics::Sample;
use crate::bench::{Report, Table};
use crate::harness::View;

const ROUNDS: usize = 21;
const IMPORT_ROUNDS: usize = 11;

/// (action, what it is called, in megabytes a second, target of the ratio to the RAM disk)
const ROWS: [(&str, &str, bool, &str); 6] = [
    ("find", "find, ms", false, "≤ 1.1"),
    ("stat", "stat of 10,000 files, µs each", false, "≤ 1.1"),
    ("read", "open, read, close of 10,000 files, µs each", false, "≤ 1.1"),
    ("absent", "stat of 10,000 absent names, µs each", false, "≤ 1.1"),
    ("big", "100 MB in sequence, MB/s", true, "≥ 0.9"),
    ("map", "100 MB mapped, MB/s", true, "≥ 0.9"),
];

pub(in crate::bench) fn run(report: &mut Report) {
    report.heading("The mount, once touched");
    if super::is_skipped(report) {
        return;
    }
    let measured = Measured::new();
    let memory = in_memory(&measured.fixture.shared());
    let view = View::of(&measured.fixture.shared());
    let dirs = [view.path().to_path_buf(), memory.path().to_path_buf(), measured.fixture.shared()];
    let actions: Vec<&str> = ROWS.iter().map(|row| row.0).collect();
    let first = Times::of(&measured.program(&actions.join(","), 1, 1, &dirs).run());
    let after_first = view.upcalls();
    let times = Times::of(&measured.program(&actions.join(","), ROUNDS, 1, &dirs).run());
    let upcalls = view.upcalls() - after_first;
    let head = ["", "first", "mount", "10 to 90 %", "RAM disk", "local disk", "to RAM disk", "target"];
    let mut table = Table::new(head);
    for (action, name, is_rate, target) in ROWS {
        let unit = |ms: f64| match (is_rate, action) {
            (true, _) => BIG_BYTES as f64 / 1e6 / (ms / 1e3),
            (false, "find") => ms,
            (false, _) => ms * 1e3 / FILES as f64,
        };
        let sample = |dir: usize| Sample::new(times.ms(action, dir).into_iter().map(unit).collect());
        row(&mut table, name, unit(first.first(action, 0)), [0, 1, 2].map(sample), target);
    }
    let import = import(&mut table);
    report.line(format!(
        "{FILES} files of 1 KB in a tree of three levels, one of 100 MB; medians of {ROUNDS} rounds in which the mount, a \
         copy in a RAM disk and the original on the local disk take turns; \"first\" is the mount's first round in a new \
         session. The mount's originals are those on the local disk.\n"
    ));
    report.table(&table);
    report.line(format!("Upcalls in the {ROUNDS} rounds after the first: {upcalls} (target 0). {import}"));
    view.unmount();
}

fn row(table: &mut Table, name: &str, first: f64, [mount, memory, disk]: [Sample; 3], target: &str) {
    let number = |value: f64| if value < 10.0 { format!("{value:.2}") } else { format!("{value:.0}") };
    table.row([
        name.to_owned(),
        number(first),
        number(mount.median()),
        mount.spread(),
        number(memory.median()),
        number(disk.median()),
        format!("{:.2}", mount.median() / memory.median()),
        target.to_owned(),
    ]);
}

/// The row of the import; a sentence on its upcalls.
fn import(table: &mut Table) -> String {
    let environment = match python_environment() {
        Ok(environment) => environment,
        Err(reason) => return format!("The import was skipped: {reason}."),
    };
    let measured = Measured::of_environment(&environment, "scipy.stats");
    let memory = in_memory(&measured.fixture.shared());
    let view = View::of(&measured.fixture.shared());
    let dirs = [view.path().to_path_buf(), memory.path().to_path_buf(), measured.fixture.shared()];
    let first = Times::of(&measured.program("run", 1, 1, &dirs).run());
    let after_first = view.upcalls();
    let times = Times::of(&measured.program("run", IMPORT_ROUNDS, 1, &dirs).run());
    let upcalls = view.upcalls() - after_first;
    row(
        table,
        "import scipy.stats, ms",
        first.first("run", 0),
        [0, 1, 2].map(|dir| Sample::new(times.ms("run", dir))),
        "≤ 1.1",
    );
    view.unmount();
    format!("Of the import: {after_first} the first time, {upcalls} in {IMPORT_ROUNDS} rounds after it.")
}
