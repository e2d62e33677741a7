//! An import on more and more nodes while the shared file system serves a fixed rate.

use std::fmt::Write;
use std::path::Path;
use std::time::Instant;

use headwater_figures::results::{SCALE, drawings};

use super::counts::import;
use super::fixture::python_environment;
use super::statistics::Sample;
use super::{Report, Table};
use crate::counting_fs::{Caching, Mounted};
use crate::harness::{Headwater, Program, Running};

const RATE: u64 = 1000;
/// Times that each but the slowest is measured.
const RUNS: usize = 3;
const NODES: [usize; 3] = [1, 4, 16];

pub(super) fn run(report: &mut Report) {
    report.heading(&format!("import scipy.stats, the shared file system serving {RATE} operations a second"));
    let environment = match python_environment() {
        Ok(environment) => environment,
        Err(reason) => return report.line(format!("skipped: {reason}")),
    };
    let ways = ["without Headwater", "with Headwater", "from node-local copies"];
    let mut all = ways.map(|_| Vec::new());
    local(&environment, 1);
    for nodes in NODES {
        // In turn, so that what else the machine does falls on both.
        let pairs: Result<Vec<(f64, f64)>, String> =
            (0..RUNS).map(|_| Ok((with(&environment, nodes)?, local(&environment, nodes)))).collect();
        let measured = pairs.and_then(|pairs| {
            let (with, local) = pairs.into_iter().unzip();
            Ok([vec![without(&environment, nodes)?], with, local])
        });
        match measured {
            Ok(measured) => all.iter_mut().zip(measured).for_each(|(of_way, seconds)| of_way.push(seconds)),
            Err(reason) => return report.line(format!("skipped: {reason}")),
        }
    }
    let at = |way: usize, point: usize| Sample::new(all[way][point].clone()).median();
    let wait = at(0, 0) - at(2, 0);
    let mut table = Table::new(["seconds, one process a node", "1 node", "4 nodes", "16 nodes"]);
    let row = |name: &str, of: &dyn Fn(usize) -> String| [name.to_string(), of(0), of(1), of(2)];
    for (number, way) in ways.iter().enumerate() {
        table.row(row(way, &|point| format!("{:.2}", at(number, point))));
    }
    table.row(row("with, beyond local", &|point| format!("{:.2}", at(1, point) - at(2, point))));
    table.row(row("that over one process's wait", &|point| format!("{:.2}", (at(1, point) - at(2, point)) / wait)));
    table.row(row("target", &|_| "1.30".into()));
    report.line(format!(
        "All processes start at once; the time is until the last has ended, sessions' starts and ends included \
         (medians of {RUNS}; without Headwater once). One \
         process alone waits {wait:.2} s for the file system: its time on it less its time from a local copy. Each \
         node has the kernel's caches for itself, empty at first, valid for three seconds as a network file system's.\n"
    ));
    report.table(&table);
    if let Some(file) = report.svg.clone() {
        let mut csv = format!("{SCALE}\n");
        for (way, of_way) in ways.iter().zip(&all) {
            for (nodes, seconds) in
                NODES.iter().zip(of_way).flat_map(|(nodes, all)| all.iter().map(move |s| (nodes, s)))
            {
                let _ = writeln!(csv, "{way},{nodes},{seconds:.2}");
            }
        }
        save(report, &file, &csv);
    }
}

/// Writes the measurements beside `file`, and the drawing that is made of them.
fn save(report: &mut Report, file: &Path, csv: &str) {
    let write = |file: &Path, text: &str| {
        std::fs::write(file, text).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    };
    write(&file.with_extension("csv"), csv);
    let name = file.file_stem().unwrap_or_default().to_string_lossy();
    for one in drawings(&name, csv).expect("what was written can be read") {
        write(&file.with_file_name(&one.file), &one.svg);
        report.line(format!("\n![{} by nodes]({})", one.title, one.file));
    }
}

/// Seconds until all of these have ended.
fn together(programs: impl Iterator<Item = Program>) -> f64 {
    let started = Instant::now();
    let running: Vec<Running> = programs.map(|program| program.start()).collect();
    for running in running {
        let output = running.finish_within(std::time::Duration::from_secs(900));
        assert_eq!(output.status, 0, "{output:?}");
    }
    started.elapsed().as_secs_f64()
}

fn local(environment: &Path, nodes: usize) -> f64 {
    let python = environment.join("bin/python3");
    let program = Program::new(python).args(["-c", "import scipy.stats"]).env("PYTHONDONTWRITEBYTECODE", "1");
    together((0..nodes).map(|_| program.clone()))
}

fn mount(environment: &Path, nodes: usize) -> Result<Mounted, String> {
    let mut mounted = Mounted::new(environment, nodes, Caching::USUAL)?;
    mounted.set_rate(RATE);
    Ok(mounted)
}

fn without(environment: &Path, nodes: usize) -> Result<f64, String> {
    let mounted = mount(environment, nodes)?;
    Ok(together((0..nodes).map(|node| import(&mounted, node))))
}

fn with(environment: &Path, nodes: usize) -> Result<f64, String> {
    let mounted = mount(environment, 1)?;
    let started = Instant::now();
    let session = Headwater::new(mounted.path()).on(nodes, 1).run(&import(&mounted, 0));
    let seconds = started.elapsed().as_secs_f64();
    assert_eq!(session.output.status, 0, "{:?}", session.output);
    Ok(seconds)
}
