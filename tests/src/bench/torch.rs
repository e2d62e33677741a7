//! `import torch`: gigabytes of libraries, of which a part is touched.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::fs::statvfs;

use super::statistics::Sample;
use super::{Report, Table};
use crate::harness::{Headwater, Mechanism, Program, Running, Session};

/// Times that each way is measured, in turn.
const RUNS: usize = 5;
const NODES: [usize; 2] = [1, 4];
/// What the environment takes, with what pip needs while it installs it, in bytes.
const ROOM: u64 = 14 << 30;
const TIME_MAX: Duration = Duration::from_secs(600);

/// One way to start it.
#[derive(Clone, Copy)]
struct Way {
    name: &'static str,
    /// `None`: without Headwater.
    via: Option<Mechanism>,
    /// A session before has left its closure.
    is_learnt: bool,
    /// A session before has left its content on the node.
    is_cached: bool,
    /// Also what the disk supplies faster than the trees.
    stores_all: bool,
}

const PLAIN: Way = Way { name: "plain", via: None, is_learnt: false, is_cached: false, stores_all: false };
const NAMESPACE: Way = Way { name: "namespace", via: Some(Mechanism::Namespace), ..PLAIN };
const AUDIT: Way = Way { name: "audit", via: Some(Mechanism::Audit), ..PLAIN };
const WAYS: [Way; 9] = [
    PLAIN,
    NAMESPACE,
    Way { name: "namespace, learnt", is_learnt: true, ..NAMESPACE },
    Way { name: "namespace, learnt and cached", is_learnt: true, is_cached: true, ..NAMESPACE },
    Way { name: "namespace, all stored", stores_all: true, ..NAMESPACE },
    AUDIT,
    Way { name: "audit, learnt", is_learnt: true, ..AUDIT },
    Way { name: "audit, learnt and cached", is_learnt: true, is_cached: true, ..AUDIT },
    Way { name: "audit, all stored", stores_all: true, ..AUDIT },
];

/// What one start took.
struct Start {
    seconds: f64,
    /// Bytes in the store of the node that has most.
    stored: u64,
}

pub(super) fn run(report: &mut Report) {
    report.heading("import torch (PyPI's build, with CUDA's libraries), from a warm local disk");
    let environment = match environment() {
        Ok(environment) => environment,
        Err(reason) => return report.line(format!("skipped: {reason}")),
    };
    let mut table = Table::new([
        "one process a node",
        "1 node, s",
        "over plain",
        "4 nodes, s",
        "over plain",
        "stored on a node, MB",
    ]);
    let measured = NODES.map(|nodes| measure(&environment, nodes));
    for (number, way) in WAYS.iter().enumerate() {
        let mut cells = vec![way.name.to_owned()];
        for starts in &measured {
            let seconds = |way: usize| Sample::new(starts[way].iter().map(|start| start.seconds).collect());
            let (own, plain) = (seconds(number), seconds(0));
            cells.push(format!("{:.2} ({})", own.median(), own.spread()));
            cells.push(format!("{:.2}", own.median() / plain.median()));
        }
        let stored = measured.iter().flat_map(|starts| &starts[number]).map(|start| start.stored).max();
        cells.push(format!("{:.0}", stored.unwrap_or_default() as f64 / 1e6));
        table.row(cells);
    }
    report.line(format!(
        "All processes start at once; the time is until the last has ended, sessions' starts and ends included (medians \
         of {RUNS}, 10 to 90 %). All nodes share this machine's processors.\n"
    ));
    report.table(&table);
}

/// The directory of a Python environment with torch, made at the first use.
pub(in crate::bench) fn environment() -> Result<PathBuf, String> {
    let venv = crate::workspace().join("target/bench/torch");
    let python = venv.join("bin/python3");
    let imports = || Command::new(&python).args(["-c", "import torch"]).output().is_ok_and(|o| o.status.success());
    if !imports() {
        let parent = crate::workspace().join("target");
        let free = statvfs(&parent).map(|found| found.f_bavail * found.f_frsize).map_err(|error| error.to_string())?;
        if free < ROOM {
            return Err(format!("torch takes up to {} GB, and {} has {}", ROOM >> 30, parent.display(), free >> 30));
        }
        println!("making a Python environment with torch in {}, some minutes", venv.display());
        let mut steps = [Command::new("python3"), Command::new(&python)];
        steps[0].args(["-m", "venv", "--copies", "--clear"]).arg(&venv);
        steps[1].args([
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "--no-cache-dir",
            "torch",
            "numpy",
        ]);
        for step in &mut steps {
            let output = step.output().map_err(|error| format!("{step:?}: {error}"))?;
            if !output.status.success() {
                return Err(format!("{step:?}: {}", String::from_utf8_lossy(&output.stderr)));
            }
        }
        if !imports() {
            return Err("torch was installed and can't be imported".into());
        }
    }
    venv.canonicalize().map_err(|error| error.to_string())
}

/// Measures all ways in turn. Returns the starts of each.
fn measure(environment: &Path, nodes: usize) -> Vec<Vec<Start>> {
    let scratch = crate::scratch("torch");
    let left = |way: &str, what: &str| scratch.path().join(format!("{way}-{what}"));
    let mut starts: Vec<Vec<Start>> = WAYS.iter().map(|_| Vec::new()).collect();
    // The first round leaves what the others find, and warms the disk's pages.
    for round in 0..=RUNS {
        for (way, starts) in WAYS.iter().zip(&mut starts) {
            let closures = if way.is_learnt { "closures".to_owned() } else { format!("closures-{round}") };
            let mut options = vec![format!("--closures={}", left(way.name, &closures).display())];
            if way.is_cached {
                options.push(format!("--cache={}", left(way.name, "cache").display()));
            }
            if way.stores_all {
                options.push("--stored-file-max=1T".to_owned());
            }
            let start = start(environment, nodes, *way, &options);
            if round > 0 {
                starts.push(start);
            }
        }
    }
    starts
}

fn start(environment: &Path, nodes: usize, way: Way, options: &[String]) -> Start {
    let program =
        Program::new(environment.join("bin/python3")).args(["-c", "import torch"]).env("PYTHONDONTWRITEBYTECODE", "1");
    let started = Instant::now();
    let Some(via) = way.via else {
        let running: Vec<Running> = (0..nodes).map(|_| program.start()).collect();
        for running in running {
            assert_eq!(running.finish_within(TIME_MAX).status, 0);
        }
        return Start { seconds: started.elapsed().as_secs_f64(), stored: 0 };
    };
    let headwater = Headwater::new(environment).via(via).on(nodes, 1).store_of_its_own();
    let headwater = options.iter().fold(headwater, |headwater, option| headwater.option(option));
    let session: Session = headwater.start(&program).finish_within(TIME_MAX);
    let seconds = started.elapsed().as_secs_f64();
    assert_eq!(session.output.status, 0, "{:?}", session.output);
    Start { seconds, stored: session.number("memory.store_bytes") }
}
