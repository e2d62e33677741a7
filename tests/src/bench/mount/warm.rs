//! Once touched: what the kernel answers by itself, against a RAM disk and the local disk.

use std::path::Path;

use super::skip::is_skipped;
use super::tree::{BIG_BYTES, FILES, Measured, Times, in_memory};
use crate::bench::fixture::python_environment;
use crate::bench::statistics::Sample;
use crate::bench::{Report, Table};
use crate::harness::{Program, View, has_program};

const ROUNDS: usize = 21;
const IMPORT_ROUNDS: usize = 11;
const PYTHON_ROUNDS: usize = 11;
/// Rounds after the first whose FUSE requests are counted, each by itself.
const COUNTED_ROUNDS: usize = 4;

/// (action, its name, in megabytes a second, target of the ratio to the RAM disk)
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
    if is_skipped(report) {
        return;
    }
    let measured = Measured::new();
    let memory = in_memory(&measured.fixture.shared());
    let view = View::of(&measured.fixture.shared());
    let dirs = [view.path().to_path_buf(), memory.path().to_path_buf(), measured.fixture.shared()];
    let actions: Vec<&str> = ROWS.iter().map(|row| row.0).collect();
    let round = measured.program(&actions.join(","), 1, 1, &dirs);
    let first = Times::of(&round.run());
    let later = requests_of_later_rounds(&view, &round);
    let times = Times::of(&measured.program(&actions.join(","), ROUNDS, 1, &dirs).run());
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
    if has_program("python3") {
        let rounds: Vec<Times> = (0..PYTHON_ROUNDS).map(|_| Times::of(&opens(&measured, &dirs).run())).collect();
        let us = |round: &Times, dir: usize| round.first("open", dir) * 1e3 / FILES as f64;
        let sample = |dir: usize| Sample::new(rounds.iter().map(|round| us(round, dir)).collect());
        row(&mut table, "the same by Python's open", us(&rounds[0], 0), [0, 1, 2].map(sample), "≤ 1.5");
    }
    let import = import(&mut table);
    report.line(format!(
        "{FILES} files of 1 KB in a tree of three levels, one of 100 MB; medians of {ROUNDS} rounds in which the mount, a \
         copy in a RAM disk and the source file on the local disk take turns; \"first\" is the mount's first round in a new \
         session. The mount's source files are those on the local disk.\n"
    ));
    report.table(&table);
    report.line(format!("FUSE requests in the rounds after the first: {later} (target 0). {import}"));
    report.line(
        "Not counted are the one STATFS of each find and the IOCTL of each isatty, which no file system can prevent the \
         kernel from repeating. A READ in a later round is of pages that the kernel has reclaimed meanwhile, or reads \
         ahead now.\n",
    );
    view.unmount();
}

/// Opens, reads and closes all small files of each directory, by Python.
fn opens<P: AsRef<Path>>(measured: &Measured, dirs: &[P]) -> Program {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/bench/opens.py");
    let program = Program::new("python3").arg(script).arg(&measured.list);
    program.args(dirs.iter().map(|dir| dir.as_ref().as_os_str()))
}

/// The FUSE requests of the next rounds, each.
fn requests_of_later_rounds(view: &View, round: &Program) -> String {
    let count = |_| {
        let before = view.fuse_requests();
        let output = round.run();
        assert_eq!(output.status, 0, "{output:?}");
        (view.fuse_requests() - before).to_string()
    };
    (0..COUNTED_ROUNDS).map(count).collect::<Vec<_>>().join(", ")
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

/// The row of the import; a sentence on its FUSE requests.
fn import(table: &mut Table) -> String {
    let environment = match python_environment() {
        Ok(environment) => environment,
        Err(reason) => return format!("The import was skipped: {reason}."),
    };
    let measured = Measured::of_environment(&environment, "scipy.stats");
    let memory = in_memory(&measured.fixture.shared());
    let view = View::of(&measured.fixture.shared());
    let dirs = [view.path().to_path_buf(), memory.path().to_path_buf(), measured.fixture.shared()];
    let round = measured.program("run", 1, 1, &dirs);
    let first = Times::of(&round.run());
    let after_first = view.fuse_requests();
    let later = requests_of_later_rounds(&view, &round);
    let times = Times::of(&measured.program("run", IMPORT_ROUNDS, 1, &dirs).run());
    row(
        table,
        "import scipy.stats, ms",
        first.first("run", 0),
        [0, 1, 2].map(|dir| Sample::new(times.ms("run", dir))),
        "≤ 1.1",
    );
    view.unmount();
    format!("Of the import: {after_first} the first time, then {later}.")
}
