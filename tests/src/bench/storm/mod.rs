//! The storm: many processes start at once from one file system server, real ones of GlusterFS, Slurm and
//! Headwater; with Headwater, without it, and from memory, in turn.

mod broadcast;
mod options;
mod results;
mod software;
mod stage;

use std::collections::BTreeSet;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

pub(super) use self::options::Options;
use self::results::{Case, Measurements, Needs, Results};
use self::software::{Software, variables};
use self::stage::{Measured, Stage, Start, Variant};
use super::Table;
use super::statistics::Sample;
use crate::counting_fs::{Caching, Mounted};
use crate::harness::Program;
use crate::harness::services::gluster::Server;

/// Set in the process that has a namespace of its own.
const INSIDE: &str = "HEADWATER_STORM_INSIDE";
/// The time of each metadata operation of the slow server.
const DELAY_US: u32 = 1000;
/// The rate of the slow link.
const RATE: &str = "1gbit";
/// A start without Headwater that takes longer than this, all rounds together, is not repeated.
const PLAIN_SECONDS_MAX: f64 = 60.0;
/// Headwater's own cost is measured so many times more often.
const LAUNCHES: usize = 5;

/// Measures what the command line `args` selects.
///
/// # Errors
/// What the machine lacks.
pub(super) fn run(options: Options, args: &[String]) -> Result<(), String> {
    let options = options.in_order();
    headwater_cluster::check().map_err(|e| e.to_string())?;
    let directory = crate::workspace().join("target/bench/storm");
    std::fs::create_dir_all(&directory).map_err(|e| format!("{}: {e}", directory.display()))?;
    if std::env::var_os(INSIDE).is_none() {
        return Err(in_own_namespace(&directory, args));
    }
    let software = Software::prepare(&options, &directory)?;
    let memory = directory.join("memory");
    let mut results = Results::create(&options.out)?;
    results.report.line("# The storm\n");
    let line = args.join(" ");
    results.report.line(format!("`cargo xtask bench storm {line}` on {}.\n", super::machine()));
    results.report.line(method(&options));
    if options.workloads.iter().any(|workload| *workload != "broadcast") {
        let cluster = stage::cluster(options.nodes_max(), None)?;
        let stage = Stage::set(&cluster, &memory, &software.directories)?;
        Storm { options: &options, software: &software, stage: &stage, results: &mut results }.measure();
    }
    if options.workloads.contains(&"broadcast")
        && let Err(reason) = broadcast::measure(&options, &memory, RATE, &mut results)
    {
        results.failure(&format!("broadcast: {reason}"));
    }
    results.save();
    println!("results are in {}", options.out.display());
    Ok(())
}

/// Becomes the same program in a mount namespace of its own, in which `memory` below `directory` is a file system in
/// memory. All nodes see it, and it disappears with the last of the processes, whatever ends them. Returns the reason
/// if that is impossible.
fn in_own_namespace(directory: &Path, args: &[String]) -> String {
    let script = "mkdir -p \"$0/memory\"; mount -n -t tmpfs -o size=75% storm \"$0/memory\"; exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "slave", "sh", "-euc", script]).arg(directory);
    command.arg(std::env::current_exe().unwrap_or_default()).arg("storm").args(args).env(INSIDE, "1");
    format!("unshare: {}", command.exec())
}

fn method(options: &Options) -> String {
    format!(
        "Nodes are namespaces of one machine, one more is the GlusterFS server, whose files are in memory; before each \
         start the volume is mounted anew, so that nothing is cached on a node. The launcher is `srun`, and times are \
         from its start to its end, with Headwater those of `headwater run -- srun`, sessions' starts and ends \
         included. Starts without Headwater, with it, and from memory are made in turn, {} times; those without are \
         not repeated once they took {PLAIN_SECONDS_MAX} s together. In memory there is one copy for all nodes. The \
         server of *slow-metadata* has one thread and takes {} ms longer for each look-up, opening and reading; that \
         of *slow-link* sends {RATE}/s. Pynamic's {} libraries have 1/{} of the paper's size: the stores of all \
         nodes are in this machine's memory.\n",
        options.rounds,
        DELAY_US / 1000,
        crate::pynamic::Plan::paper(1).libraries(),
        options.divisor
    )
}

struct Storm<'a> {
    options: &'a Options,
    software: &'a Software,
    stage: &'a Stage<'a>,
    results: &'a mut Results,
}

impl Storm<'_> {
    fn measure(&mut self) {
        let of = |workload: &str| self.options.workloads.contains(&workload);
        if of("launch") {
            self.launch();
        }
        let imports = self.options.workloads.iter().copied().filter(|w| !["launch", "broadcast"].contains(w));
        let imports: Vec<&'static str> = imports.collect();
        for &server in self.options.servers.iter().filter(|_| !imports.is_empty()) {
            let kind = match server {
                "slow-metadata" => Server::SlowMetadata { delay_us: DELAY_US },
                "slow-link" => Server::SlowLink(RATE.parse().expect("a rate")),
                _ => Server::Quick,
            };
            if let Err(reason) = self.stage.gluster.unmount().and_then(|()| self.stage.gluster.set(kind)) {
                self.results.failure(&format!("{server}: {reason}"));
                continue;
            }
            for &workload in &imports {
                self.workload(server, workload);
            }
        }
    }

    fn workload(&mut self, server: &'static str, workload: &'static str) {
        let (processes, factor) =
            if workload.starts_with("pynamic") { (self.options.processes, 1.1) } else { (1, 1.15) };
        let needs = self.needs(workload).unwrap_or_else(|reason| {
            self.results.failure(&format!("what {workload} needs: {reason}"));
            Needs::default()
        });
        // All that is started from memory has been in the processor's caches once.
        let alone = Case { server, workload, nodes: 1, processes: 1, is_alone: true };
        let alone = self.case(alone, &[Variant::Plain, Variant::Floor], self.options.rounds);
        let median = |variant| alone.seconds(variant).map_or(f64::NAN, |sample| sample.median());
        let reading = (median(Variant::Plain) - median(Variant::Floor)).max(0.0);
        let recorded = self.stage.record(&|root| self.software.args(workload, root));
        if let Err(reason) = &recorded {
            self.results.failure(&format!("a closure of {workload}: {reason}"));
        }
        let mut variants = vec![Variant::Plain, Variant::Headwater, Variant::Recorded, Variant::Floor];
        variants.retain(|variant| {
            self.options.variants.contains(&variant.name()) && (*variant != Variant::Recorded || recorded.is_ok())
        });
        let mut all = Vec::new();
        for &nodes in &self.options.nodes {
            let case = Case { server, workload, nodes, processes, is_alone: false };
            let mut measured = self.case(case.clone(), &variants, self.options.rounds);
            if workload == "numpy" {
                measured.runs.extend(self.case(case, &[Variant::OwnFilesToo], 1).runs);
            }
            all.push(measured);
        }
        self.results.workload(&all, needs, reading, factor);
    }

    /// Measures the variants of a case in turn. A variant that fails is reported and not tried again.
    fn case(&mut self, case: Case, variants: &[Variant], rounds: usize) -> Measurements {
        let Case { server, workload, nodes, processes, .. } = case;
        println!("  {workload}, {server}, nodes: {nodes}, processes on each: {processes}");
        let args = |root: &Path| self.software.args(workload, root);
        let srun: &[&str] = if workload == "pynamic-mpi" { &["--mpi=pmi2"] } else { &[] };
        let mut measurements = Measurements { case, runs: Vec::new() };
        let mut variants = variants.to_vec();
        for round in 0..rounds {
            variants.retain(|&variant| {
                let spent: f64 = measurements.of(variant).map(|measured| measured.seconds).sum();
                if variant == Variant::Plain && spent > PLAIN_SECONDS_MAX {
                    return true;
                }
                let started = self.stage.start(&Start { variant, nodes, processes, srun, args: &args });
                let measured = started.and_then(|measured| self.checked(workload, nodes * processes, measured));
                let written = measured.and_then(|measured| {
                    self.results.run(&measurements.case, variant, round, &measured)?;
                    measurements.runs.push((variant, measured));
                    Ok(())
                });
                if let Err(reason) = &written {
                    self.results
                        .failure(&format!("{workload}, {server}, nodes: {nodes}, {}: {reason}", variant.name()));
                }
                written.is_ok()
            });
        }
        measurements
    }

    /// The measurement, if all processes of Pynamic have printed the right sum; with MPI it is the first alone.
    fn checked(&self, workload: &str, processes: usize, measured: Measured) -> Result<Measured, String> {
        let expected = match workload {
            "pynamic" => processes,
            "pynamic-mpi" => 1,
            _ => 0,
        };
        let right = measured.stdout.matches(&format!("checksum {}", self.software.checksum)).count();
        match right == expected {
            true => Ok(measured),
            false => Err(format!("{right} right sums instead of {expected} were printed: {}", measured.stdout)),
        }
    }

    /// The requests of one process, by the tests' file system that counts.
    fn needs(&self, workload: &str) -> Result<Needs, String> {
        let mut mounted = Mounted::new(&self.stage.memory, 1, Caching { ttl_ms: 600_000, pages: true })?;
        let args = self.software.args(workload, mounted.path());
        let program = Program::new(&args[0]).args(&args[1..]);
        let program = variables(mounted.path()).iter().fold(program, |program, (name, value)| program.env(name, value));
        let output = program.run();
        if output.status != 0 {
            return Err(format!("{output:?}"));
        }
        let counts = mounted.counts();
        let paths = counts["paths"].as_object().ok_or("no paths were counted")?;
        let count = |counts: &Value, kind: &str| counts[kind].as_u64().unwrap_or(0);
        let is_there = |counts: &Value| {
            ["open", "opendir", "readlink"].iter().any(|kind| count(counts, kind) > 0)
                || count(counts, "lookup") > count(counts, "failed_lookup")
        };
        let those = |is: &dyn Fn(&Value) -> bool| paths.values().filter(|counts| is(counts)).count();
        Ok(Needs {
            files: those(&|counts| count(counts, "open") > 0),
            names: those(&is_there),
            absent: those(&|counts| !is_there(counts) && count(counts, "failed_lookup") > 0),
        })
    }

    /// Headwater's own cost, with everything warm: of a launch alone, and of one in a session that lives.
    fn launch(&mut self) {
        let rounds = self.options.rounds * LAUNCHES;
        let nodes: BTreeSet<usize> = self.options.nodes.iter().copied().collect();
        let head = ["ms, medians (10 to 90 %)", "srun", "own cost, a launch alone", "own cost, in a session"];
        let mut table = Table::new([&head[..], &["bound at 16 nodes"]].concat());
        for nodes in nodes {
            let case = Case { server: "quick", workload: "launch", nodes, processes: 1, is_alone: false };
            let mut alone = self.case(case.clone(), &[Variant::Plain, Variant::Headwater], rounds + 1);
            let mut again = self.launches_in_a_session(case, rounds + 1);
            // The first of each found nothing warm.
            for measured in [&mut alone, &mut again] {
                measured.runs.drain(..measured.runs.len().min(2));
            }
            // Of pairs, so that what else the machine does falls on both.
            let own = |measured: &Measurements, variant| {
                let pairs = measured.of(Variant::Plain).zip(measured.of(variant));
                let own: Vec<f64> = pairs.map(|(plain, with)| (with.seconds - plain.seconds) * 1000.0).collect();
                (!own.is_empty()).then(|| Sample::new(own))
            };
            let shown =
                |own: Option<Sample>| own.map_or("-".into(), |own| format!("{:.0} ({})", own.median(), own.spread()));
            let plain = alone.seconds(Variant::Plain).map_or("-".into(), |s| format!("{:.0}", s.median() * 1000.0));
            let cells = [shown(own(&alone, Variant::Headwater)), shown(own(&again, Variant::Session))];
            table.row([nodes.to_string(), plain].into_iter().chain(cells).chain(["50".into()]));
        }
        self.results.report.heading("Headwater's own cost: a program that does nothing");
        self.results.report.line(format!("One process a node; {rounds} pairs, after one of each.\n"));
        self.results.report.table(&table);
        self.results.save();
    }

    fn launches_in_a_session(&mut self, case: Case, rounds: usize) -> Measurements {
        let mut measurements = Measurements { case, runs: Vec::new() };
        let Case { workload, nodes, processes, .. } = measurements.case;
        let args = |root: &Path| self.software.args(workload, root);
        let done = self.stage.in_session(|session| {
            for round in 0..rounds {
                for variant in [Variant::Plain, Variant::Session] {
                    let start = Start { variant, nodes, processes, srun: &[], args: &args };
                    let measured = self.stage.start_again(&start, session)?;
                    self.results.run(&measurements.case, variant, round, &measured)?;
                    measurements.runs.push((variant, measured));
                }
            }
            Ok(())
        });
        if let Err(reason) = done {
            self.results.failure(&format!("launches in a session, nodes: {nodes}: {reason}"));
        }
        measurements
    }
}
