//! The simulator as an instrument: how long every node of a large start takes to simulate, and how far a
//! sample of the nodes is from all of them.

use std::fmt::Write;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{Report, Table};
use crate::harness::{headwater_binary, processor_ticks};

const FILES: usize = 1000;
const DIRECTORIES: usize = 40;
const FILE_BYTES: usize = 9000;
const NODES: u32 = 10_000;
/// Sizes at which a sample is compared with all nodes.
const COMPARED: [u32; 3] = [1000, 4000, 10_000];
/// The interval at which the memory of a run is read.
const CHECKED_EVERY: Duration = Duration::from_millis(100);

/// The output and the usage of a run of the command.
struct Run {
    wall_seconds: f64,
    processor_seconds: f64,
    memory_gb: f64,
    simulated_seconds: f64,
    messages: f64,
}

/// Every one of ten thousand nodes.
pub(super) fn exact(report: &mut Report) {
    report.heading(&format!("Simulating {NODES} nodes, each a node of its own, and {FILES} files"));
    let run = match simulate(NODES, &["--exact"]) {
        Ok(run) => run,
        Err(reason) => return report.line(format!("failed: {reason}")),
    };
    let mut table = Table::new(["", "measured", "target"]);
    table.row(["wall, s", &format!("{:.0}", run.wall_seconds), "120"]);
    table.row(["processor, s", &format!("{:.0}", run.processor_seconds), ""]);
    table.row(["memory at most, GB", &format!("{:.2}", run.memory_gb), "8"]);
    table.row(["messages, millions", &format!("{:.1}", run.messages / 1e6), ""]);
    table.row(["the simulated start, s", &format!("{:.3}", run.simulated_seconds), ""]);
    report.table(&table);
}

/// A sample beside all nodes.
pub(super) fn sample(report: &mut Report) {
    report.heading("A sample of the nodes beside all of them");
    let mut table = Table::new(["simulated start, s", "all nodes", "a sample", "ratio"]);
    for shape in [&["--fan-out", "8"][..], &["--groups", "16"], &[]] {
        for nodes in COMPARED {
            let runs = simulate(nodes, &[shape, &["--exact"]].concat()).and_then(|all| {
                Ok((all.simulated_seconds, simulate(nodes, &[shape, &["--sample"]].concat())?.simulated_seconds))
            });
            let (all, sample) = match runs {
                Ok(runs) => runs,
                Err(reason) => return report.line(format!("failed: {reason}")),
            };
            let name = if shape.is_empty() { "striped".to_owned() } else { shape.join(" ") };
            let cells = [all, sample, sample / all].map(|value| format!("{value:.3}"));
            table.row([format!("{nodes} nodes, {name}")].into_iter().chain(cells));
        }
    }
    report.table(&table);
}

/// Files in some directories, each looked up in another before.
fn trace() -> String {
    let mut text = String::new();
    for number in 0..FILES {
        let at = format!("/sw/lib/python3/site-packages/package{}", number % DIRECTORIES);
        let _ = writeln!(text, "0.0003 absent - {at}/module{number}.so");
        let _ = writeln!(text, "0.0001 open {FILE_BYTES} {at}/__pycache__/module{number}.pyc");
    }
    text
}

fn simulate(nodes: u32, options: &[&str]) -> Result<Run, String> {
    let directory = tempfile::tempdir().map_err(|e| e.to_string())?;
    let file = directory.path().join("files.trace");
    std::fs::write(&file, trace()).map_err(|e| e.to_string())?;
    let mut command = Command::new(headwater_binary());
    command.args(["simulate", "--json", "--ppn", "12", "--fs", "lustre", "--nodes", &nodes.to_string()]);
    command.args(["--trace".as_ref(), file.as_os_str()]).args(options).stdout(Stdio::piped());
    let started = Instant::now();
    let mut child = command.spawn().map_err(|e| format!("{command:?}: {e}"))?;
    let process = child.id();
    let (mut processor_ticks_used, mut memory_gb) = (0, 0.0f64);
    // The output is one line: it fits in the pipe.
    while child.try_wait().map_err(|e| e.to_string())?.is_none() {
        processor_ticks_used = processor_ticks(process as i32).max(processor_ticks_used);
        memory_gb = memory_gb.max(memory_of(process));
        std::thread::sleep(CHECKED_EVERY);
    }
    let wall_seconds = started.elapsed().as_secs_f64();
    let output = child.wait_with_output().map_err(|e| e.to_string())?;
    let printed: Value = serde_json::from_slice(&output.stdout).map_err(|e| format!("{command:?}: {e}"))?;
    let number = |name: &str| printed["runs"][0][name].as_f64().unwrap_or(f64::NAN);
    Ok(Run {
        wall_seconds,
        processor_seconds: processor_ticks_used as f64 / 100.0,
        memory_gb,
        simulated_seconds: number("seconds"),
        messages: number("messages"),
    })
}

/// The most memory that a process has had, in gigabytes.
fn memory_of(process: u32) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    line.split_whitespace().next().and_then(|word| word.parse::<f64>().ok()).unwrap_or(0.0) * 1024.0 / 1e9
}
