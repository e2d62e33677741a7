//! Programs without any pattern: small messages, and computing with some output. How long they take with the library,
//! and which system calls it adds after their start.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::Bench;
use super::mpi::Mpi;
use super::run::library;
use crate::bench::statistics::Sample;
use crate::bench::{Report, Table};
use crate::harness::has_program;

const SOURCE: &str = "bench/mpiio_quiet.c";
const RANKS: usize = 2;
/// The programs, with the number of their operations.
const MODES: [(&str, &str); 2] = [("messages", "500000"), ("compute", "2000")];
/// Fewer, where each system call is traced.
const TRACED: &str = "200";
const PAIRS_MIN: usize = 41;
/// The same within one run, of which there are as many pairs as thousands.
const CALLS: [&str; 2] = ["calls", "500000"];
/// Calls by which a process waits, as often as the others' pace has it.
const WAITING: [&str; 11] = [
    "poll",
    "ppoll",
    "select",
    "pselect6",
    "epoll_wait",
    "epoll_pwait",
    "sched_yield",
    "futex",
    "nanosleep",
    "clock_nanosleep",
    "restart_syscall",
];

/// Calls that start processes and threads.
const STARTING: [&str; 4] = ["clone", "clone3", "fork", "vfork"];
const GENERATIONS_MAX: usize = 64;

impl Bench<'_> {
    pub(super) fn quiet(&self, report: &mut Report) {
        report.heading("Programs without a pattern");
        report.line(format!(
            "{RANKS} ranks on one node. Ratios are of a plain run to one with the library, in interleaved pairs; the \
             bound is the one that their median is above with 95 % certainty, by order statistics. System calls are \
             those of all ranks between the program's start and end, without those that wait. *messages*: of each run \
             the median of its blocks of 1,000, ranks bound to processors. *empty*: the same with a library that does \
             nothing, by which pairs of runs differ anyway. *calls*: the messages of one run with the library, in \
             pairs of blocks past it, by the functions of MPI's library themselves, and as programs call them.\n"
        ));
        let head = [
            "MPI",
            "program",
            "pairs",
            "plain, ms",
            "median ratio",
            "bound",
            "empty",
            "bound of empty",
            "calls, plain",
            "calls, library",
        ];
        let mut table = Table::new(head);
        for mpi in &self.mpis {
            let compiled =
                mpi.compile(SOURCE, self.directory).and_then(|binary| Ok((binary, empty_library(self.directory)?)));
            let (binary, empty) = match compiled {
                Ok(compiled) => compiled,
                Err(reason) => {
                    report.line(format!("({}: {reason})\n", mpi.name));
                    continue;
                }
            };
            let modes = MODES.iter().map(|mode| self.quiet_case(mpi, &binary, &empty, *mode));
            for cells in modes.chain([calls_case(mpi, &binary)]) {
                match cells {
                    Ok(cells) => table.row(cells),
                    Err(reason) => report.line(format!("({}: {reason})\n", mpi.name)),
                }
            }
        }
        report.table(&table);
    }

    fn quiet_case(
        &self,
        mpi: &Mpi,
        binary: &Path,
        empty: &Path,
        (mode, count): (&str, &str),
    ) -> Result<Vec<String>, String> {
        println!("  {}, {mode}", mpi.name);
        let ours = library(mpi);
        let variants = [None, ours.as_deref(), Some(empty)];
        let (mut plain, mut ratios) = (Vec::new(), [Vec::new(), Vec::new()]);
        for round in 0..self.options.rounds.max(PAIRS_MIN) {
            let mut seconds = [0.0; 3];
            for variant in (0..variants.len()).map(|turn| (turn + round) % variants.len()) {
                seconds[variant] = seconds_of(&run(mpi, &[], binary, [mode, count], variants[variant])?)?;
            }
            plain.push(seconds[0] * 1e3);
            ratios.iter_mut().zip(&seconds[1..]).for_each(|(ratios, with)| ratios.push(seconds[0] / with));
        }
        let [ours, empty] = [0, 1].map(|variant| {
            (variants[variant + 1].is_some()).then(|| Sample::new(std::mem::take(&mut ratios[variant])))
        });
        let cells = |sample: Option<Sample>| {
            [sample.as_ref().map(Sample::median), sample.as_ref().and_then(Sample::median_bound)].map(number)
        };
        let calls = |with: Option<&Path>, is_there: bool| -> Result<String, String> {
            if !is_there || !has_program("strace") {
                return Ok("-".into());
            }
            let trace = self.directory.join("trace");
            let strace = ["strace", "-f", "-qq", "-o", &trace.display().to_string()].map(String::from);
            run(mpi, &strace, binary, [mode, TRACED], with)?;
            Ok(shown(&between(&fs::read_to_string(&trace).map_err(|error| error.to_string())?)))
        };
        let head = [mpi.name.into(), mode.into(), plain.len().to_string()];
        let median = format!("{:.1}", Sample::new(plain).median());
        let system_calls = [calls(None, true)?, calls(variants[1], variants[1].is_some())?];
        Ok(head.into_iter().chain([median]).chain(cells(ours)).chain(cells(empty)).chain(system_calls).collect())
    }
}

/// A library that does nothing.
fn empty_library(directory: &Path) -> Result<PathBuf, String> {
    let library = directory.join("empty.so");
    let compiled = Command::new("cc").args(["-shared", "-fPIC", "-x", "c", "/dev/null", "-o"]).arg(&library).output();
    let compiled = compiled.map_err(|error| format!("cc: {error}"))?;
    let printed = String::from_utf8_lossy(&compiled.stderr).into_owned();
    if compiled.status.success() { Ok(library) } else { Err(printed) }
}

/// The library's cost for each call.
fn calls_case(mpi: &Mpi, binary: &Path) -> Result<Vec<String>, String> {
    println!("  {}, {}", mpi.name, CALLS[0]);
    let ours = library(mpi);
    let printed = if ours.is_some() { run(mpi, &[], binary, CALLS, ours.as_deref())? } else { String::new() };
    let ratios: Vec<f64> =
        printed.split_whitespace().filter_map(|word| word.strip_prefix("ratio=")?.parse().ok()).collect();
    let (pairs, ratio) = (ratios.len(), (!ratios.is_empty()).then(|| Sample::new(ratios)));
    let none = || "-".to_owned();
    Ok(vec![
        mpi.name.into(),
        CALLS[0].into(),
        pairs.to_string(),
        none(),
        number(ratio.as_ref().map(Sample::median)),
        number(ratio.as_ref().and_then(Sample::median_bound)),
        none(),
        none(),
        none(),
        none(),
    ])
}

fn number(value: Option<f64>) -> String {
    value.map_or_else(|| "-".into(), |value| format!("{value:.3}"))
}

/// Runs it behind these arguments, perhaps with a library. Returns its standard error.
fn run(mpi: &Mpi, before: &[String], binary: &Path, args: [&str; 2], with: Option<&Path>) -> Result<String, String> {
    let launcher = mpi.args(RANKS, None);
    let all: Vec<&String> = before.iter().chain(&launcher).collect();
    let mut command = Command::new(all[0]);
    Mpi::prepare(&mut command);
    command.args(&all[1..]).stdin(Stdio::null());
    if let Some(library) = with {
        command.arg("env").arg(format!("LD_PRELOAD={}", library.display())).args(["HEADWATER_IO=auto"]);
    }
    let output = command.arg(binary).args(args).output().map_err(|error| error.to_string())?;
    let printed = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success() { Ok(printed) } else { Err(format!("{}: {printed}", output.status)) }
}

fn seconds_of(printed: &str) -> Result<f64, String> {
    let seconds = printed.split_whitespace().find_map(|word| word.strip_prefix("seconds=")?.parse().ok());
    seconds.ok_or_else(|| format!("it prints no time: {printed}"))
}

/// How often each system call that does not wait was begun by each rank, its threads and children, between the rank's
/// marks. What the launcher does is not counted.
fn between(trace: &str) -> BTreeMap<String, u32> {
    let (mut parents, mut measured, mut counts) = (HashMap::new(), HashSet::new(), BTreeMap::new());
    for line in trace.lines() {
        let Some((process, rest)) = line.split_once(' ') else { continue };
        let rest = rest.trim_start();
        let name = rest.strip_prefix("<... ").unwrap_or(rest);
        let name = &name[..name.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(name.len())];
        let is_begun = rest[name.len().min(rest.len())..].starts_with('(') && !rest.starts_with('<');
        if STARTING.contains(&name)
            && let Some((_, child)) = rest.rsplit_once("= ")
        {
            parents.insert(child.split(' ').next().unwrap_or_default(), process);
        }
        if rest.contains("/headwater-begin") {
            measured.insert(process);
            continue;
        }
        if rest.contains("/headwater-end") {
            measured.remove(process);
        }
        let ancestors = std::iter::successors(Some(process), |process| parents.get(process).copied());
        if is_begun && !WAITING.contains(&name) && ancestors.take(GENERATIONS_MAX).any(|one| measured.contains(one)) {
            *counts.entry(name.to_owned()).or_default() += 1;
        }
    }
    counts
}

fn shown(counts: &BTreeMap<String, u32>) -> String {
    let each: Vec<String> = counts.iter().map(|(name, count)| format!("{count} {name}")).collect();
    if each.is_empty() { "none".into() } else { each.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_between_the_marks_are_counted() {
        let trace = "1 clone3({flags=0}, 88) = 2\n2 clone(child_stack=0, <unfinished ...>\n2 <... clone resumed>) = 3\n\
                     2 write(1, \"early\", 1) = 1\n2 access(\"/headwater-begin\", F_OK) = -1\n\
                     1 write(1, \"launcher\", 1) = 1\n2 poll([], 0, 0) = 0\n2 write(1, \"a(\", 2 <unfinished ...>\n\
                     3 close(3) = 0\n2 <... write resumed>) = 2\n3 --- SIGCHLD {si_signo=SIGCHLD} ---\n\
                     3 +++ exited with 0 +++\n2 access(\"/headwater-end\", F_OK) = -1\n2 close(3) = 0\n";
        assert_eq!(shown(&between(trace)), "1 close, 1 write");
        assert_eq!(shown(&between("")), "none");
    }
}
