//! The benchmarks: numbers in tables, with ratios taken in one run. They judge nothing; the targets are beside the
//! numbers.

mod bulk;
mod counts;
mod fixture;
mod image;
mod io;
mod job_memory;
mod lookup;
mod memory;
mod mount;
mod overlay;
mod report;
mod scale;
mod simulate;
mod spawn;
mod startup;
mod statistics;
mod storm;
mod table;
mod torch;

use std::path::PathBuf;

use clap::{Parser, Subcommand};

pub use fixture::python_environment;
pub use report::{Report, machine};
pub(crate) use statistics::Sample;
pub use table::Table;

type Measure = fn(&mut Report);

/// All benchmarks, by name; `mount` names all that begin with it, and so do `overlay`, `simulate` and `spawn`.
const ALL: [(&str, Measure); 32] = [
    ("startup", startup::run),
    ("operations", counts::run),
    ("scale", scale::run),
    ("memory", memory::run),
    ("job-memory", job_memory::run),
    ("lookup", lookup::run),
    ("mount-warm", mount::warm),
    ("mount-cold", mount::cold),
    ("mount-parallel", mount::parallel),
    ("mount-upcalls", mount::fuse_requests),
    ("mount-memory", mount::resident),
    ("mount-kills", mount::kills),
    ("bulk", bulk::run),
    ("torch", torch::run),
    ("image", image::run),
    ("overlay-broadcast", overlay::broadcast),
    ("overlay-interfaces", overlay::interfaces),
    ("overlay-latency", overlay::latency),
    ("overlay-files", overlay::files),
    ("overlay-kills", overlay::kills),
    ("overlay-start", overlay::start),
    ("overlay-encryption", overlay::encryption),
    ("overlay-simulated", overlay::simulated),
    ("simulate-exact", simulate::exact),
    ("simulate-sample", simulate::sample),
    ("spawn-libraries", spawn::libraries),
    ("spawn-tiny", spawn::tiny),
    ("spawn-python", spawn::python),
    ("spawn-large-parent", spawn::large_parent),
    ("spawn-memory", spawn::memory),
    ("spawn-warm-ranks", spawn::warm_ranks),
    ("spawn-paper", spawn::paper),
];

/// Measures, with ratios taken in one run, and prints tables.
#[derive(Parser)]
#[command(name = "cargo xtask bench", bin_name = "cargo xtask bench", args_conflicts_with_subcommands = true)]
#[command(after_help = names())]
struct Arguments {
    #[command(subcommand)]
    alone: Option<Alone>,
    /// The selected benchmarks; without any name, all but the commands.
    #[arg(value_name = "NAME", value_parser = name)]
    names: Vec<String>,
    /// Also write the tables to this file.
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// Also write the tables' cells to this file: an array of tables, each one of rows, each one of strings.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Also draw the times by numbers of nodes, into this file.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

/// Benchmarks that take an hour and much of the machine, and are run alone.
#[derive(Subcommand)]
enum Alone {
    /// Many processes start at once from one file system server.
    Storm(storm::Options),
    /// Naive I/O of MPI programs.
    Io(io::Options),
}

fn names() -> String {
    let names: Vec<&str> = ALL.iter().map(|(name, _)| *name).collect();
    format!("Names, of which the first word selects all that begin with it: {}", names.join(", "))
}

fn name(prefix: &str) -> Result<String, String> {
    ALL.iter().any(|(name, _)| is_named(name, prefix)).then(|| prefix.to_owned()).ok_or_else(names)
}

/// Runs the benchmarks that the command line names, or all. `Err` names the wrong files or what the machine lacks; the
/// process ends if the command line is wrong.
pub fn run() -> Result<(), String> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let Arguments { alone, names, markdown, json, svg } = Arguments::parse();
    match alone {
        Some(Alone::Storm(options)) => return storm::run(options, &args[1..]),
        Some(Alone::Io(options)) => return io::run(options, &args[1..]),
        None => {}
    }
    let mut report = Report { svg, ..Report::default() };
    let line = args.join(" ");
    report.line("# Benchmarks");
    report.line("");
    report.line(format!("`cargo xtask bench{}{line}` on {}.", if line.is_empty() { "" } else { " " }, machine()));
    for (name, measure) in ALL {
        if names.is_empty() || names.iter().any(|prefix| is_named(name, prefix)) {
            measure(&mut report);
        }
    }
    if let Some(file) = json {
        let text = serde_json::to_string(&report.tables).map_err(|e| e.to_string())?;
        std::fs::write(&file, text).map_err(|e| format!("{}: {e}", file.display()))?;
    }
    if let Some(file) = markdown {
        std::fs::write(&file, report.markdown).map_err(|e| format!("{}: {e}", file.display()))?;
    }
    Ok(())
}

/// Whether `prefix` names the benchmark `name`, or a group that it belongs to.
fn is_named(name: &str, prefix: &str) -> bool {
    name.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

/// The options in a line, or what is wrong with it.
#[cfg(test)]
fn parsed<T: clap::Args>(line: &str) -> Result<T, String> {
    let command = T::augment_args(clap::Command::new("bench").no_binary_name(true));
    let matches = command.try_get_matches_from(line.split_whitespace()).map_err(|error| error.to_string())?;
    T::from_arg_matches(&matches).map_err(|error| error.to_string())
}
