//! The measurements: a line of `runs.csv` for each start, a table and a drawing for each workload.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;

use headwater_figures::results::{ALONE, drawings};

use super::stage::{Measured, Variant};
use crate::bench::statistics::Sample;
use crate::bench::{Report, Table};
use crate::harness::services::gluster::Counts;

const HEAD: &str = "server,workload,nodes,processes per node,way,round,seconds,cpu seconds,startup,import,visit,\
                    lookups,opens,reads,directory opens,directory reads,bytes,fallbacks";

/// A workload on some nodes.
#[derive(Clone, Debug)]
pub(super) struct Case {
    pub(super) server: &'static str,
    pub(super) workload: &'static str,
    pub(super) nodes: usize,
    pub(super) processes: usize,
    /// Whether it is one process alone, with which others are compared.
    pub(super) is_alone: bool,
}

/// The measurements of a case.
pub(super) struct Measurements {
    pub(super) case: Case,
    pub(super) runs: Vec<(Variant, Measured)>,
}

impl Measurements {
    /// The measurements of this variant.
    pub(super) fn of(&self, variant: Variant) -> impl Iterator<Item = &Measured> {
        self.runs.iter().filter(move |(of, _)| *of == variant).map(|(_, measured)| measured)
    }

    /// Seconds, if it was measured.
    pub(super) fn seconds(&self, variant: Variant) -> Option<Sample> {
        let seconds: Vec<f64> = self.of(variant).map(|measured| measured.seconds).collect();
        (!seconds.is_empty()).then(|| Sample::new(seconds))
    }

    /// The highest number of server operations in one of the runs.
    pub(super) fn count(&self, variant: Variant, which: fn(&Counts) -> u64) -> Option<u64> {
        self.of(variant).map(|measured| which(&measured.counts)).max()
    }
}

/// The needs of one process.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Needs {
    /// Files that it opens.
    pub(super) files: usize,
    /// Names that it looks up and that exist.
    pub(super) names: usize,
    /// Names that it looks up and that do not exist.
    pub(super) absent: usize,
}

/// The directory of the results.
pub(super) struct Results {
    pub(super) report: Report,
    directory: PathBuf,
    csv: File,
}

impl Results {
    /// In this directory, from which those of an earlier run are replaced.
    pub(super) fn create(directory: &PathBuf) -> Result<Results, String> {
        let text = |e: std::io::Error| format!("{}: {e}", directory.display());
        fs::create_dir_all(directory).map_err(text)?;
        let mut csv = File::create(directory.join("runs.csv")).map_err(text)?;
        writeln!(csv, "{HEAD}").map_err(text)?;
        Ok(Results { report: Report::default(), directory: directory.clone(), csv })
    }

    /// One start: a line of the file, and one of progress.
    pub(super) fn run(
        &mut self,
        case: &Case,
        variant: Variant,
        round: usize,
        measured: &Measured,
    ) -> Result<(), String> {
        let Case { server, workload, nodes, processes, .. } = case;
        let Measured { seconds, cpu_seconds, counts, fallbacks, .. } = measured;
        let Counts { lookups, opens, reads, directory_opens, directory_reads, bytes } = counts;
        let round = if case.is_alone { ALONE.to_owned() } else { round.to_string() };
        let phases: Vec<String> = ["startup", "import", "visit"].map(|phase| longest(&measured.stdout, phase)).into();
        let line = format!(
            "{server},{workload},{nodes},{processes},{},{round},{seconds:.3},{cpu_seconds:.2},{},{lookups},{opens},\
             {reads},{directory_opens},{directory_reads},{bytes},{fallbacks}",
            variant.name(),
            phases.join(",")
        );
        println!("    {line}");
        writeln!(self.csv, "{line}").map_err(|e| format!("runs.csv: {e}"))
    }

    /// The tables and the drawing of a workload. `reading`: seconds that one process alone waits for the server;
    /// `factor`: how many times the time from memory may take with Headwater, beside one reading.
    pub(super) fn workload(&mut self, all: &[Measurements], needs: Needs, reading: f64, factor: f64) {
        let Some(first) = all.first() else { return };
        let Case { server, workload, processes, .. } = first.case;
        self.report.heading(&format!("{workload}, {server}, processes on each node: {processes}"));
        self.report.line(format!(
            "One process alone waits {reading:.2} s for the server; the bound is {factor:.2} × from memory + that. It \
             opens {} files, and looks up {} names that exist and {} that do not.\n",
            needs.files, needs.names, needs.absent
        ));
        if workload == "pynamic" {
            self.report.line("On 32 nodes, *without / with* is to be 10 at least on the slow metadata server.\n");
        }
        self.times(all, reading, factor);
        self.counts(all, needs);
        self.draw(&format!("{server}-{workload}.svg"));
    }

    fn times(&mut self, all: &[Measurements], reading: f64, factor: f64) {
        let head = ["s, medians (10 to 90 %)", "without", "with Headwater", "and a closure", "from memory"];
        let mut table = Table::new([&head[..], &["without / with", "bound for with", "with / bound"]].concat());
        for one in all {
            let [plain, with, recorded, floor] =
                [Variant::Plain, Variant::Headwater, Variant::Recorded, Variant::Floor]
                    .map(|variant| one.seconds(variant));
            let shown = |sample: &Option<Sample>| {
                sample.as_ref().map_or("-".into(), |s| format!("{:.2} ({})", s.median(), s.spread()))
            };
            let median = |sample: &Option<Sample>| sample.as_ref().map(Sample::median);
            let bound = median(&floor).map(|floor| factor * floor + reading);
            let ratio = |above: Option<f64>, below: Option<f64>| {
                above.zip(below).map_or("-".into(), |(above, below)| format!("{:.2}", above / below))
            };
            table.row([
                nodes(one.case.nodes),
                shown(&plain),
                shown(&with),
                shown(&recorded),
                shown(&floor),
                ratio(median(&plain), median(&with)),
                bound.map_or("-".into(), |bound| format!("{bound:.2}")),
                ratio(median(&with), bound),
            ]);
        }
        self.report.table(&table);
    }

    fn counts(&mut self, all: &[Measurements], needs: Needs) {
        type Which = (&'static str, fn(&Counts) -> u64, String);
        let counted: [Which; 5] = [
            ("OPEN", |c| c.opens, format!("{} files, and 1 by `headwater run`", needs.files)),
            ("READ", |c| c.reads, "as on 1 node".into()),
            ("LOOKUP", |c| c.lookups, format!("{} names that are there, each again after 1 s", needs.names)),
            ("OPENDIR", |c| c.directory_opens, String::new()),
            ("bytes", |c| c.bytes, "as on 1 node".into()),
        ];
        let sizes = all.iter().map(|one| nodes(one.case.nodes));
        let mut table =
            Table::new(["server's operations".to_string()].into_iter().chain(sizes).chain(["bound".into()]));
        for (name, which, bound) in &counted {
            for variant in [Variant::Plain, Variant::Headwater] {
                let cells = all.iter().map(|one| one.count(variant, *which).map_or("-".into(), |n| n.to_string()));
                let bound = if variant == Variant::Plain { String::new() } else { bound.clone() };
                table.row([format!("{name}, {}", variant.name())].into_iter().chain(cells).chain([bound]));
            }
        }
        let fallbacks = all.iter().map(|one| one.of(Variant::Headwater).map(|measured| measured.fallbacks).max());
        let cells = fallbacks.map(|most| most.map_or("-".into(), |n| n.to_string()));
        let name = "requests served from source files, headwater".to_string();
        table.row([name].into_iter().chain(cells).chain(["0".into()]));
        if all.iter().any(|one| one.of(Variant::OwnFilesToo).next().is_some()) {
            let own = |one: &Measurements| {
                let [with, too] =
                    [Variant::Headwater, Variant::OwnFilesToo].map(|variant| one.count(variant, |c| c.opens));
                too.zip(with).map_or("-".into(), |(too, with)| (too as i64 - with as i64).to_string())
            };
            let cells = all.iter().map(own);
            let name = "OPEN of Headwater's own files beside, if they lie on the volume".to_string();
            table.row([name].into_iter().chain(cells).chain(["2, and 2 a node and 1 a process".into()]));
        }
        self.report.table(&table);
    }

    /// Draws this file of all starts so far.
    fn draw(&mut self, file: &str) {
        let drawn = fs::read_to_string(self.directory.join("runs.csv")).map_err(|error| format!("runs.csv: {error}"));
        match drawn.and_then(|csv| drawings("runs", &csv)) {
            Err(error) => self.failure(&error),
            Ok(drawn) => {
                for one in drawn.iter().filter(|one| one.file == file) {
                    self.report.line(format!("![{}]({file})", one.title));
                    if let Err(error) = fs::write(self.directory.join(file), &one.svg) {
                        self.failure(&format!("{file}: {error}"));
                    }
                }
            }
        }
        self.save();
    }

    /// A measurement that failed. All others continue.
    pub(super) fn failure(&mut self, what: &str) {
        self.report.line(format!("\nnot measured: {what}\n"));
    }

    /// Writes the report as it is so far.
    pub(super) fn save(&self) {
        let file = self.directory.join("README.md");
        if let Err(error) = fs::write(&file, &self.report.markdown) {
            println!("{}: {error}", file.display());
        }
    }
}

fn nodes(count: usize) -> String {
    if count == 1 { "1 node".into() } else { format!("{count} nodes") }
}

/// The largest of the numbers that follow a word, or nothing.
fn longest(stdout: &str, word: &str) -> String {
    let numbers = stdout.lines().filter_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let pairs: BTreeMap<&str, &str> = fields.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
        pairs.get(word)?.parse::<f64>().ok()
    });
    numbers.max_by(f64::total_cmp).map_or(String::new(), |number| format!("{number:.3}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_process_counts() {
        let stdout = "startup 0.100 import 2.5 visit 1.0 checksum 12\nstartup 0.05 import 3.25 visit 0.5 checksum 12\n";
        assert_eq!(["startup", "import", "visit"].map(|word| longest(stdout, word)), ["0.100", "3.250", "1.000"]);
        assert_eq!(longest("", "import"), "");
    }
}
