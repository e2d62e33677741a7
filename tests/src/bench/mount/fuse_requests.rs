//! The kernel's requests for a whole import, by processes that share it.

use super::skip::is_skipped;
use crate::bench::fixture::python_environment;
use crate::bench::{Report, Table};
use crate::counting_fs::{Caching, Mounted};
use crate::harness::{Program, View};

const PROCESSES: [usize; 4] = [1, 4, 8, 16];

pub(in crate::bench) fn run(report: &mut Report) {
    report.heading("The mount: FUSE requests of import scipy.stats");
    if is_skipped(report) {
        return;
    }
    let environment = match python_environment() {
        Ok(environment) => environment,
        Err(reason) => return report.line(format!("skipped: {reason}")),
    };
    let mut mounted = match Mounted::new(&environment, 1, Caching { ttl_ms: 600_000, pages: true }) {
        Ok(mounted) => mounted,
        Err(reason) => return report.line(format!("skipped: {reason}")),
    };
    let import = |root: &std::path::Path| {
        let program = Program::new(root.join("bin/python3")).args(["-c", "import scipy.stats"]);
        program.env("PYTHONDONTWRITEBYTECODE", "1")
    };
    let plain = import(mounted.path());
    mounted.reset();
    assert_eq!(plain.run().status, 0);
    let counts = mounted.counts();
    let paths = counts["paths"].as_object().expect("counts by path");
    let count = |kind: &str| paths.values().filter(|counts| counts[kind].as_u64().unwrap_or(0) > 0).count() as u64;
    let (found, opened) = (count("lookup"), count("open"));
    let head = ["processes", "FUSE requests", "a file found", "target", "a file opened", "in a second run", "target"];
    let mut table = Table::new(head);
    for processes in PROCESSES {
        let view = View::of(mounted.path());
        let running: Vec<_> = (0..processes).map(|_| import(view.path()).start()).collect();
        running.into_iter().for_each(|running| assert_eq!(running.finish().status, 0));
        let first = view.fuse_requests();
        assert_eq!(import(view.path()).run().status, 0);
        let second = view.fuse_requests() - first;
        let a_file = |files: u64| format!("{:.2}", first as f64 / files as f64);
        let row = [processes.to_string(), first.to_string(), a_file(found), "≤ 3".into(), a_file(opened)];
        table.row(row.into_iter().chain([second.to_string(), "0".into()]));
        view.unmount();
    }
    report.line(format!(
        "{found} unique files are found, {opened} of them opened. Each row is a new session. Left out: questions that the \
         kernel never remembers the answer of, which are Python's whether each file that it opens is a terminal.\n"
    ));
    report.table(&table);
}
