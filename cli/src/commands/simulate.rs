//! `headwater simulate` and `headwater plan`: predict the time of a start at any size.

use std::fs;
use std::io::{IsTerminal, Write, stderr, stdout};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use headwater_model::{Detail, Machine, Trace};
use headwater_topology::{Branching, Forest, Shape};

use crate::message::show;
use crate::simulate::options::{PlanOptions, SimulateOptions};
use crate::simulate::report::{Report, Row};
use crate::simulate::{plan, setup};

/// How often progress is shown on a terminal, and how often in a log.
const SHOWN_EVERY: Duration = Duration::from_millis(200);
const LOGGED_EVERY: Duration = Duration::from_secs(10);
/// The default branching of one tree.
const BRANCHING_DEFAULT: Branching = Branching::KAry(8);

/// `headwater simulate`.
///
/// # Errors
/// Input is malformed, or output can't be written.
pub fn simulate(options: &SimulateOptions) -> Result<u8> {
    let (trace, machine) = setup::load(&options.setup)?;
    let mut rows = Vec::new();
    let mut shown = Shown::new();
    for (&nodes, number) in options.nodes.0.iter().zip(1..) {
        let ranks = nodes.saturating_add(options.servers);
        let shape = shape(options, ranks)?;
        let forest = Forest::new(ranks, options.servers, shape);
        let detail = match (options.exact, options.sample) {
            (true, _) => Detail::Exact,
            (_, true) => Detail::Sample,
            _ => Detail::for_nodes(ranks),
        };
        let mut progress =
            |part: f64| shown.show(format_args!("{nodes} nodes, {number} of {}", options.nodes.0.len()), part);
        let with = headwater_model::with_headwater(&trace, &machine, forest, detail, &mut progress)?;
        let without = headwater_model::without_headwater(&trace, &machine, nodes)?;
        let ready_seconds = headwater_model::ready_seconds(&forest, &machine);
        rows.push(Row { nodes, ready_seconds, with, without, is_exact: with.simulated == ranks });
    }
    shown.clear();
    let report = Report { trace: &options.setup.trace, fs: &options.setup.fs, ppn: options.setup.ppn, rows };
    write(&options.setup.output, &trace, || report.csv(), || report.plot().svg())?;
    show(stdout(), if options.setup.json { report.json()? } else { report.text(&trace) });
    Ok(0)
}

/// `headwater plan`.
///
/// # Errors
/// As [`simulate`].
pub fn plan(options: &PlanOptions) -> Result<u8> {
    let (trace, machine): (Trace, Machine) = setup::load(&options.setup)?;
    let mut shown = Shown::new();
    let mut progress = |part: f64| shown.show(format_args!("{} nodes", options.nodes), part);
    let plan = headwater_model::plan(&trace, &machine, options.nodes, &mut progress)?;
    let without = headwater_model::without_headwater(&trace, &machine, options.nodes)?;
    shown.clear();
    let report = plan::Report { nodes: options.nodes, ppn: options.setup.ppn, without, plan };
    write(&options.setup.output, &trace, || report.csv(), || report.plot(&options.setup.trace).svg())?;
    show(stdout(), if options.setup.json { report.json()? } else { report.text(&trace) });
    Ok(0)
}

/// Returns the trees over `ranks`.
fn shape(options: &SimulateOptions, ranks: u32) -> Result<Shape> {
    let &SimulateOptions { trees, readers, groups, fan_out, .. } = options;
    Ok(match (groups, fan_out, Shape::default_of(ranks)) {
        (Some(groups), ..) => Shape::Partitioned { groups, branching: fan_out.unwrap_or(BRANCHING_DEFAULT) },
        (None, Some(branching), _) => Shape::Single(branching),
        (None, None, default) if trees.is_none() && readers.is_none() => default,
        (None, None, _) if trees == Some(1) && readers.is_none_or(|readers| readers == 1) => {
            Shape::Single(BRANCHING_DEFAULT)
        }
        (None, None, _) if trees == Some(1) => bail!("--trees 1 has one reader: leave --readers out, or use --groups"),
        (None, None, Shape::Striped { trees: default_trees, readers: default_readers }) => {
            Shape::Striped { trees: trees.unwrap_or(default_trees), readers: readers.unwrap_or(default_readers) }
        }
        (None, None, default) => default,
    })
}

/// Writes the requested files, by the extensions of their names.
fn write(
    paths: &[std::path::PathBuf],
    trace: &Trace,
    csv: impl Fn() -> String,
    svg: impl Fn() -> String,
) -> Result<()> {
    for path in paths {
        let text = match Path::extension(path).and_then(|end| end.to_str()) {
            Some("csv") => csv(),
            Some("svg") => svg(),
            Some("trace") => trace.to_text(),
            _ => bail!("--output {}: its name should end in .svg, .csv or .trace", path.display()),
        };
        fs::write(path, text).with_context(|| format!("--output {} can't be written", path.display()))?;
    }
    Ok(())
}

/// Progress: a line that changes on a terminal, lines now and then elsewhere.
struct Shown {
    is_terminal: bool,
    begun: Instant,
    last: Instant,
    is_shown: bool,
}

impl Shown {
    fn new() -> Shown {
        let now = Instant::now();
        Shown { is_terminal: stderr().is_terminal(), begun: now, last: now, is_shown: false }
    }

    fn show(&mut self, what: std::fmt::Arguments<'_>, part: f64) {
        let every = if self.is_terminal { SHOWN_EVERY } else { LOGGED_EVERY };
        if self.last.elapsed() < every {
            return;
        }
        self.last = Instant::now();
        let (done, elapsed) = (part * 100.0, self.begun.elapsed().as_secs());
        let _ = match self.is_terminal {
            true => write!(stderr(), "\r\x1b[Kheadwater: {what}: {done:.0} %, {elapsed} s"),
            false => writeln!(stderr(), "headwater: {what}: {done:.0} %, {elapsed} s"),
        };
        self.is_shown = self.is_terminal;
    }

    fn clear(&mut self) {
        if std::mem::take(&mut self.is_shown) {
            let _ = write!(stderr(), "\r\x1b[K");
        }
    }
}
