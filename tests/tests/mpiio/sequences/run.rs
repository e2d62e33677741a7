//! Jobs that carry out programs, and what their ranks logged.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use headwater_tests::harness::mpi::{Library, Mpi};
use headwater_tests::harness::services::Ssh;
use headwater_tests::harness::{Output, Program as Command};

use crate::nodes::Nodes;

/// How long a program may take, and one that is known to hang.
const SECONDS_MAX: u64 = 60;
const SECONDS_TRIED: u64 = 10;
/// The seconds of a job beside a program that hangs.
const SECONDS_OF_JOB: u64 = 300;
/// The shown part of an error's text.
const TEXT_MAX: usize = 3000;

/// The directory of the jobs.
pub struct Ground<'a> {
    pub mpi: &'a Mpi,
    pub ranks: usize,
    pub library: &'a Library,
    /// Several nodes, instead of this machine alone.
    pub nodes: Option<OnNodes<'a>>,
}

/// So many nodes, over which the ranks are spread.
#[derive(Clone, Copy)]
pub struct OnNodes<'a> {
    pub nodes: &'a Nodes,
    pub ssh: &'a Ssh,
    pub count: usize,
}

/// A program's number, and its plan.
pub type Numbered = (u64, String);

/// The ranks' logs of a program.
type Logs = Vec<String>;

/// The results of a job.
struct Run {
    /// By the numbers of programs that all ranks have ended.
    ended: BTreeMap<u64, Logs>,
    /// Of the program in which the job died.
    last: Logs,
    output: Output,
    report: String,
}

/// How a program with the library differs from the plain one.
pub enum Difference {
    /// The first line of a rank that isn't the same: its rank, and the lines.
    Line { rank: usize, plain: String, served: String },
    /// The job ended in it: its output, and where each rank was.
    Death(String),
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Difference::Line { rank, plain, served } => {
                write!(f, "rank {rank}: `{plain}`, with the library `{served}`")
            }
            Difference::Death(text) => write!(f, "the job ends: {text}"),
        }
    }
}

/// So many plain programs of a job may hang or die: in an MPI, or on a machine that does other things.
const PLAIN_DEATHS_MAX: usize = 2;

/// Runs that are compared, each with other pauses.
const STEADY_RUNS: u64 = 10;

pub struct Judged {
    pub differences: BTreeMap<u64, Difference>,
    /// The library's report.
    pub reports: Vec<String>,
}

/// How detailed logs are, how long a program may take, and the number from which the pauses of ranks follow.
#[derive(Clone, Copy, Default)]
pub struct Care {
    pub chunk: i64,
    pub pauses: u64,
    pub is_quick: bool,
}

/// A log's text ends in zeros.
fn read_log(path: &Path) -> String {
    let (mut text, mut piece) = (Vec::new(), vec![0; 1 << 16]);
    let Ok(mut file) = File::open(path) else { return String::new() };
    while let Ok(got) = file.read(&mut piece) {
        let end = piece[..got].iter().position(|byte| *byte == 0).unwrap_or(got);
        text.extend_from_slice(&piece[..end]);
        if end < piece.len() {
            break;
        }
    }
    String::from_utf8_lossy(&text).into_owned()
}

/// The programs of a log: number, lines, and whether it ends.
fn split(text: &str) -> Vec<(u64, String, bool)> {
    let mut programs: Vec<(u64, String, bool)> = Vec::new();
    for line in text.lines() {
        match (line.strip_prefix("program "), programs.last_mut()) {
            (Some(number), _) => programs.push((number.parse().unwrap_or(u64::MAX), String::new(), false)),
            (None, Some(last)) if line == "end" => last.2 = true,
            (None, Some(last)) => last.1.extend([line, "\n"]),
            (None, None) => {}
        }
    }
    programs
}

impl Ground<'_> {
    fn run(&self, programs: &[Numbered], library: bool, care: Care) -> Run {
        let scratch = match self.nodes {
            Some(on) => tempfile::tempdir_in(on.nodes.shared()).expect("the nodes' directory takes another"),
            None => headwater_tests::scratch("mpiio"),
        };
        let (dir, report) = (scratch.path().join("job"), scratch.path().join("report"));
        let plan = scratch.path().join("plan");
        fs::create_dir(&dir).unwrap();
        fs::write(&plan, programs.iter().map(|(_, text)| text.as_str()).collect::<String>()).unwrap();
        let seconds = if care.is_quick { SECONDS_TRIED } else { SECONDS_MAX };
        let mut args = if library { self.library.args(&report) } else { vec!["env".into()] };
        args.push(self.mpi.build("sequences").unwrap().display().to_string());
        args.extend([&dir, &plan].map(|path| path.display().to_string()));
        args.extend([care.chunk.to_string(), seconds.to_string(), care.pauses.to_string()]);
        let job = match self.nodes {
            Some(on) => on.nodes.launcher(self.mpi, on.ssh, on.count, self.ranks),
            None => self.mpi.launcher(self.ranks).in_dir(&dir),
        };
        let limit = (SECONDS_OF_JOB + seconds).to_string();
        let job: Command = job.args(args).behind(["timeout", "-k", "5", &limit]);
        let output = job.start().finish_within(std::time::Duration::from_secs(SECONDS_OF_JOB + seconds + 20));
        let logs: Vec<_> = (0..self.ranks).map(|rank| split(&read_log(&dir.join(format!("log.{rank}"))))).collect();
        let of = |number: u64| -> Vec<Option<&(u64, String, bool)>> {
            logs.iter().map(|log| log.iter().find(|one| one.0 == number)).collect()
        };
        let (mut ended, mut last) = (BTreeMap::new(), vec![]);
        for (number, _) in programs {
            let found = of(*number);
            let texts = found.iter().map(|one| one.map(|one| one.1.clone()).unwrap_or_default()).collect();
            if found.iter().all(|one| one.is_some_and(|one| one.2)) {
                ended.insert(*number, texts);
            } else {
                last = texts;
                break;
            }
        }
        Run { ended, last, output, report: fs::read_to_string(&report).unwrap_or_default() }
    }

    /// Runs programs plain and with the library. One in which the job dies is left out, and the rest run without it.
    /// One that doesn't end without the library, either, is not judged.
    ///
    /// # Panics
    /// If several plain programs don't end.
    pub fn judge(&self, programs: &[Numbered], care: Care) -> Judged {
        let mut programs = programs.to_vec();
        let total = programs.len();
        let plain = loop {
            let plain = self.run(&programs, false, care);
            if plain.ended.len() == programs.len() && plain.output.status == 0 {
                break plain;
            }
            let at = plain.ended.len().min(programs.len() - 1);
            let (number, text) = programs.remove(at);
            println!("{} seed {number} without the library: {}", self.mpi.name, death(&plain));
            assert!(total - programs.len() <= PLAIN_DEATHS_MAX, "{text}");
        };
        let mut judged = Judged { differences: BTreeMap::new(), reports: vec![] };
        let mut left = &programs[..];
        while !left.is_empty() {
            let served = self.run(left, true, care);
            for (number, logs) in &served.ended {
                if let Some(difference) = difference(&plain.ended[number], logs) {
                    judged.differences.insert(*number, difference);
                }
            }
            judged.reports.push(served.report.clone());
            let done = served.ended.len();
            if done == left.len() && served.output.status == 0 {
                break;
            }
            // A job that fails behind its last program is that one's failure.
            let at = done.min(left.len() - 1);
            judged.differences.insert(left[at].0, Difference::Death(death(&served)));
            left = &left[at + 1..];
        }
        judged
    }

    /// Whether plain runs of a program are alike, which they must be, however its ranks are delayed.
    pub fn is_steady(&self, program: &Numbered) -> bool {
        let run = |pauses| {
            let care = Care { pauses, ..Care::default() };
            self.run(std::slice::from_ref(program), false, care).ended.remove(&program.0)
        };
        let first = run(0);
        first.is_some() && (0..STEADY_RUNS).all(|pauses| run(pauses) == first)
    }
}

fn difference(plain: &Logs, served: &Logs) -> Option<Difference> {
    for (rank, (plain, served)) in plain.iter().zip(served).enumerate() {
        if plain == served {
            continue;
        }
        let (mut one, mut other) = (plain.lines(), served.lines());
        loop {
            match (one.next(), other.next()) {
                (None, None) => break,
                (a, b) if a == b => {}
                (a, b) => {
                    let text = |line: Option<&str>| line.unwrap_or("(nothing)").to_owned();
                    return Some(Difference::Line { rank, plain: text(a), served: text(b) });
                }
            }
        }
    }
    None
}

/// The output of a job that ended too early, and where its ranks were.
fn death(run: &Run) -> String {
    let last = run.last.iter().map(|log| log.lines().last().unwrap_or("(nothing)"));
    let stderr: String = run.output.stderr.chars().take(TEXT_MAX).collect();
    format!("status {}, the ranks' last lines {:?}\n{stderr}", run.output.status, last.collect::<Vec<_>>())
}
