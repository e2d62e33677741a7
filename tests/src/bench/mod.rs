//! The benchmarks: numbers in tables, with ratios taken in one run. They judge nothing; the targets
//! stand beside the numbers.

mod counts;
mod fixture;
mod io;
mod lookup;
mod memory;
mod mount;
mod overlay;
mod plot;
mod scale;
mod simulate;
mod spawn;
mod startup;
mod statistics;
mod storm;
mod table;

use std::path::PathBuf;

pub use fixture::python_environment;
pub use table::Table;

type Measure = fn(&mut Report);

/// What can be measured, by name; `mount` names all that begin with it, and so do `overlay`, `simulate` and
/// `spawn`.
const ALL: [(&str, Measure); 27] = [
    ("startup", startup::run),
    ("operations", counts::run),
    ("scale", scale::run),
    ("memory", memory::run),
    ("lookup", lookup::run),
    ("mount-warm", mount::warm),
    ("mount-cold", mount::cold),
    ("mount-parallel", mount::parallel),
    ("mount-upcalls", mount::upcalls),
    ("mount-memory", mount::resident),
    ("mount-kills", mount::kills),
    ("overlay-broadcast", overlay::broadcast),
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

/// Where the results go.
#[derive(Default)]
pub struct Report {
    markdown: String,
    /// Where drawings go, if anywhere.
    pub svg: Option<PathBuf>,
}

impl Report {
    /// Prints a line of text.
    pub fn line(&mut self, text: impl AsRef<str>) {
        println!("{}", text.as_ref());
        self.markdown.push_str(text.as_ref());
        self.markdown.push('\n');
    }

    /// Prints a heading.
    pub fn heading(&mut self, text: &str) {
        self.line("");
        self.line(format!("## {text}"));
        self.line("");
    }

    /// Prints a table.
    pub fn table(&mut self, table: &Table) {
        self.line(table.to_string());
    }
}

/// Runs the benchmarks that the arguments name, or all: `[--markdown FILE] [--svg FILE] [NAME…]`.
/// `storm` and `io`, which take an hour and much of the machine, are measured alone: `storm [OPTION…]`, `io [OPTION…]`. `Err` says what is
/// wrong with the arguments or the files.
pub fn run(arguments: &[String]) -> Result<(), String> {
    if let Some(("storm", words)) = arguments.split_first().map(|(first, rest)| (first.as_str(), rest)) {
        return storm::run(words);
    }
    if let Some(("io", words)) = arguments.split_first().map(|(first, rest)| (first.as_str(), rest)) {
        return io::run(words);
    }
    let mut report = Report::default();
    let (mut names, mut markdown) = (Vec::new(), None);
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        match argument.as_str() {
            "--markdown" => markdown = Some(PathBuf::from(rest.next().ok_or("--markdown needs a file")?)),
            "--svg" => report.svg = Some(PathBuf::from(rest.next().ok_or("--svg needs a file")?)),
            name if ALL.iter().any(|(known, _)| is_named(known, name)) => names.push(name),
            other => {
                let known: Vec<&str> = ALL.iter().map(|(name, _)| *name).collect();
                return Err(format!("no benchmark {other}; there are {}", known.join(", ")));
            }
        }
    }
    let line = arguments.join(" ");
    report.line("# Benchmarks");
    report.line("");
    report.line(format!("`cargo xtask bench{}{line}` on {}.", if line.is_empty() { "" } else { " " }, machine()));
    for (name, measure) in ALL {
        if names.is_empty() || names.iter().any(|given| is_named(name, given)) {
            measure(&mut report);
        }
    }
    if let Some(file) = markdown {
        std::fs::write(&file, report.markdown).map_err(|e| format!("{}: {e}", file.display()))?;
    }
    Ok(())
}

/// Whether `given` names the benchmark `name`, or a group that it belongs to.
fn is_named(name: &str, given: &str) -> bool {
    name.strip_prefix(given).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

/// The processor, kernel and C library.
fn machine() -> String {
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or(": unknown processor");
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let libc = std::process::Command::new("getconf").arg("GNU_LIBC_VERSION").output();
    let libc = libc.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_string()).unwrap_or_default();
    format!("{cores} cores of {}, Linux {}, {libc}", model.trim_start_matches([':', '\t', ' ']), kernel.trim())
}
