//! Requests to the shared file system in a session, by nodes and processes.

use super::fixture::python_environment;
use super::{Report, Table};
use crate::counting_fs::{Caching, Mounted};
use crate::harness::{Headwater, Program};

pub(super) fn run(report: &mut Report) {
    report.heading("Operations on the shared file system: import scipy.stats");
    let environment = match python_environment() {
        Ok(environment) => environment,
        Err(reason) => return report.line(format!("skipped: {reason}")),
    };
    let columns = [
        "opens",
        "directory reads",
        "look-ups",
        "failed look-ups",
        "link reads",
        "reads",
        "bytes",
        "most opens of a file",
    ];
    let mut table = Table::new([&["", "processes"], &columns[..]].concat());
    let shapes = [
        ("plain", 1, 1),
        ("plain", 1, 8),
        ("with", 1, 1),
        ("with", 1, 8),
        ("with", 4, 1),
        ("with", 4, 8),
        ("with", 16, 1),
    ];
    for (kind, nodes, processes) in shapes {
        // Each shape starts with empty caches.
        let mut mounted = match Mounted::new(&environment, nodes, Caching { ttl_ms: 600_000, pages: true }) {
            Ok(mounted) => mounted,
            Err(reason) => return report.line(format!("skipped: {reason}")),
        };
        let program = import(&mounted, 0);
        if kind == "plain" {
            let running: Vec<_> = (0..processes).map(|_| program.start()).collect();
            running.into_iter().for_each(|running| assert_eq!(running.finish().status, 0));
        } else {
            let session = Headwater::new(mounted.path()).on(nodes, processes).run(&program);
            assert_eq!(session.output.status, 0, "{:?}", session.output);
        }
        let counts = mounted.counts();
        let total = |kind: &str| counts["total"][kind].to_string();
        let paths = counts["paths"].as_object().expect("counts by path").values();
        let most = paths.filter_map(|path| path["open"].as_u64()).max().unwrap_or(0);
        let name = if kind == "plain" { "without Headwater".to_string() } else { format!("with, nodes: {nodes}") };
        table.row([
            name,
            (nodes * processes).to_string(),
            total("open"),
            total("opendir"),
            total("lookup"),
            total("failed_lookup"),
            total("readlink"),
            total("read"),
            counts["bytes_read"].to_string(),
            most.to_string(),
        ]);
    }
    report.line("Counted by the tests' file system; the kernel caches names that exist, attributes and pages for the\nwhole run, names that do not exist never. Without Headwater this is one node.\n");
    report.table(&table);
}

/// The import on one of the mounts.
pub(super) fn import(mounted: &Mounted, mount: usize) -> Program {
    let python = mounted.mounts()[mount].join("bin/python3");
    Program::new(python).args(["-c", "import scipy.stats"]).env("PYTHONDONTWRITEBYTECODE", "1")
}
