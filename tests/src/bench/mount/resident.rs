//! A daemon's memory beside the files' bytes.

use std::fs;

use super::skip::is_skipped;
use super::tree::{FILES, Measured, Times};
use crate::bench::{Report, Table};
use crate::harness::{Fixture, Program, View};

const MANY: usize = 1_000_000;
const A_DIRECTORY: usize = 1000;

pub(in crate::bench) fn run(report: &mut Report) {
    report.heading("The mount: memory of the daemon");
    if is_skipped(report) {
        return;
    }
    let mut table = Table::new(["MiB", "private and file pages", "shared (table)", "all", "supervisor", "target"]);
    let measured = Measured::new();
    let view = View::of(&measured.fixture.shared());
    table.row(row("after mounting", &view, ""));
    Times::of(&measured.program("walk,stat,read", 1, 1, &[view.path()]).run());
    table.row(row(&format!("after {FILES} files were found and read"), &view, "16 private"));
    view.unmount();
    drop(measured);
    let fixture = many();
    let view = View::of(&fixture.shared());
    let found = Program::shell(&format!("find {} -type f -size -1 | wc -l", view.path().display()));
    let found = found.start().finish_within(std::time::Duration::from_secs(600));
    assert_eq!(found.stdout.trim(), MANY.to_string(), "{found:?}");
    table.row(row(&format!("after {MANY} files were found and statted"), &view, "64 in all"));
    view.unmount();
    report.line(
        "Resident sets as the kernel reports them. The table and the store lie in a RAM disk; the store is not mapped.\n",
    );
    report.table(&table);
}

/// A million empty files in a RAM disk.
fn many() -> Fixture {
    let fixture = Fixture::new_in("benchmany", "/dev/shm");
    for directory in 0..MANY / A_DIRECTORY {
        let dir = fixture.dir(&format!("{}/{}", directory / 100, directory % 100));
        (0..A_DIRECTORY).for_each(|n| drop(fs::File::create(dir.join(format!("file_{n}"))).expect("room for a file")));
    }
    fixture
}

fn row(what: &str, view: &View, target: &str) -> Vec<String> {
    let status = |pids: Vec<i32>| {
        let texts = pids.iter().map(|pid| fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default());
        texts.collect::<String>()
    };
    let mib = |text: &str, name: &str| {
        let lines = text.lines().filter_map(|line| line.strip_prefix(name)?.split_whitespace().nth(1));
        lines.filter_map(|number| number.parse::<f64>().ok()).sum::<f64>() / 1024.0
    };
    let (daemon, supervisor) = (status(view.daemons()), status(view.supervisors()));
    let shown = |value: f64| format!("{value:.1}");
    vec![
        what.to_owned(),
        shown(mib(&daemon, "RssAnon") + mib(&daemon, "RssFile")),
        shown(mib(&daemon, "RssShmem")),
        shown(mib(&daemon, "VmRSS")),
        shown(mib(&supervisor, "VmRSS")),
        target.to_owned(),
    ]
}
