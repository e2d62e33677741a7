//! Options of `headwater spawn`.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Args, ValueEnum, ValueHint};

use super::library::{Mechanism, Numa, Stop};
use crate::options::headings::{OUTPUT, PLACEMENT, ZYGOTES};
use crate::options::values::number;

/// Examples, and what does not fit into a line.
pub const SPAWN_HELP: &str = "\
Examples:
  headwater spawn -n 64 -- ./app input-{rank}.dat
  headwater spawn -n 4 --cores 0-3 -- ./app
  headwater spawn -n 128 --numa spread --output log.{rank} -- python3 work.py
  headwater spawn -n 500 --from zygote --report -- ./app
  headwater spawn -n 64 --from zygote --imports numpy,torch -- python3 work.py {rank}
  headwater spawn --relay -- xargs -P 8 -n 1 ./app <inputs
  headwater spawn --check -- ./app

A process has its number, from 0, in HEADWATER_RANK, and how many there are in HEADWATER_RANKS. The first one reads \
standard input, the others /dev/null.

Signals are passed on; Ctrl-C twice within 2 s kills. Killing headwater itself ends the processes.

Exit status: That of the first process that failed, 128+n if signal n ended it, or 0; a signal to headwater itself that \
ended its processes ends it, too; 127 if the program was not \
found, 126 if it could not be executed; 125 if headwater itself failed.";

/// The placeholder of a process's number.
pub const RANK_MARK: &str = "{rank}";
/// The most processes of one command.
const PROCESSES_MAX: u32 = 65_536;
/// The most processors that a set can name.
const CORES_MAX: usize = 1024;

/// Options of `headwater spawn`.
#[derive(Debug, Args)]
pub struct SpawnOptions {
    /// Number of processes
    #[arg(short = 'n', long, value_name = "N", default_value_t = 1,
          value_parser = number(1..=PROCESSES_MAX))]
    pub processes: u32,

    /// One processor for each process, from this list in turn, such as 0-3,8
    #[arg(long, value_name = "LIST", value_parser = parse_cores, conflicts_with = "numa", help_heading = PLACEMENT)]
    pub cores: Option<Cores>,

    /// Over the memory domains: fill (a core each, one domain after another), spread (a core each, the next domain for
    /// each process), domain (all cores of a domain, the next for each process)
    #[arg(long, value_name = "HOW", value_enum, hide_possible_values = true, help_heading = PLACEMENT)]
    pub numa: Option<Numa>,

    /// How processes are made: zygote (forks of the program, loaded once and stopped before it begins), exec
    /// (each starts the program; also vfork, clone3, posix_spawn, fork, pfork), or auto: by a zygote where that is
    /// faithful and pays
    #[arg(long, value_name = "HOW", value_enum, default_value = "auto", hide_possible_values = true,
          help_heading = ZYGOTES)]
    pub from: From,

    /// Where a zygote stops: load (before the first constructor: each process runs them all by itself), or main (when
    /// constructors have run, once for all processes: faster, for programs of which you know that it does no harm)
    #[arg(long, value_name = "WHERE", value_enum, default_value = "load", hide_possible_values = true,
          conflicts_with = "imports", help_heading = ZYGOTES)]
    pub stop: Stop,

    /// Start nothing: report whether the program's processes can come from a zygote, with all reasons if not; status 0
    /// if they can, else 1
    #[arg(long,
          conflicts_with_all = ["processes", "cores", "numa", "from", "output", "kill_on_failure", "report", "progress"],
          help_heading = ZYGOTES)]
    pub check: bool,

    /// With a zygote, and a Python interpreter as the program: modules, separated by commas, that it imports before it
    /// is forked
    #[arg(long, value_name = "MODULES", help_heading = ZYGOTES)]
    pub imports: Option<String>,

    /// Where the processes' output goes: label (here, each line behind its process's number), none (here, as it is),
    /// or a file for each process, whose name has {rank} in it
    #[arg(long, value_name = "WHERE", default_value = "label", value_hint = ValueHint::FilePath,
          value_parser = OsStringValueParser::new().map(Output::from), help_heading = OUTPUT)]
    pub output: Output,

    /// When a process fails, end the others: SIGTERM, and SIGKILL 5 s later
    #[arg(long)]
    pub kill_on_failure: bool,

    /// Report on standard error, at the end, how the processes were made and how long it took
    #[arg(long, help_heading = OUTPUT)]
    pub report: bool,

    /// Show how far starting has come: auto (on a terminal, if it takes longer than a second), always, never
    #[arg(long, value_name = "WHEN", value_enum, default_value = "auto", hide_possible_values = true,
          help_heading = OUTPUT)]
    pub progress: Progress,

    /// Start this launcher (xargs, make, a shell, mpiexec, …), and have zygotes make what it starts again and again;
    /// what can't be done faithfully and in time, it does itself
    #[arg(long,
          conflicts_with_all = ["processes", "cores", "numa", "from", "stop", "imports", "output", "kill_on_failure", "report", "progress", "check"],
          help_heading = ZYGOTES)]
    pub relay: bool,

    /// The program and its arguments, in which {rank} is the process's number
    #[arg(value_name = "PROGRAM", required = true, trailing_var_arg = true,
          value_hint = ValueHint::CommandWithArguments)]
    pub program: Vec<OsString>,
}

/// Processors, in the order in which processes get them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cores(pub Vec<usize>);

/// `--from`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum From {
    Auto,
    Zygote,
    Exec,
    Vfork,
    Clone3,
    PosixSpawn,
    Fork,
    Pfork,
}

/// `--output`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Lines behind their process's number.
    Label,
    /// The caller's descriptors.
    None,
    /// A file for each process.
    File(OsString),
}

/// `--progress`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Progress {
    Auto,
    Always,
    Never,
}

impl std::convert::From<OsString> for Output {
    fn from(text: OsString) -> Output {
        match text.to_str() {
            Some("label") => Output::Label,
            Some("none") => Output::None,
            _ => Output::File(text),
        }
    }
}

impl From {
    /// As the library has it.
    pub fn mechanism(self) -> Mechanism {
        match self {
            From::Auto => Mechanism::Auto,
            From::Zygote => Mechanism::Zygote,
            From::Exec | From::Vfork => Mechanism::Vfork,
            From::Clone3 => Mechanism::Clone3,
            From::PosixSpawn => Mechanism::PosixSpawn,
            From::Fork => Mechanism::Fork,
            From::Pfork => Mechanism::Pfork,
        }
    }
}

/// The text with the process's number in place of each mark.
pub fn with_rank(text: &OsStr, rank: u32) -> Vec<u8> {
    let (mut rest, mark, number) = (text.as_bytes(), RANK_MARK.as_bytes(), rank.to_string());
    let mut made = Vec::with_capacity(rest.len());
    while let Some(at) = rest.windows(mark.len()).position(|window| window == mark) {
        made.extend_from_slice(&rest[..at]);
        made.extend_from_slice(number.as_bytes());
        rest = &rest[at + mark.len()..];
    }
    made.extend_from_slice(rest);
    made
}

fn parse_cores(text: &str) -> Result<Cores, String> {
    let wrong = || String::from("write a list of processors as 0-3,8");
    let number = |text: &str| text.trim().parse::<usize>().ok().filter(|&core| core < CORES_MAX).ok_or_else(wrong);
    let mut cores = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (number(first)?, number(last)?);
        if last < first {
            return Err(wrong());
        }
        cores.extend(first..=last);
    }
    Ok(Cores(cores))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_processors() {
        for (text, expected) in [
            ("0", Some(vec![0])),
            ("0-3,8", Some(vec![0, 1, 2, 3, 8])),
            ("8,1,1", Some(vec![8, 1, 1])),
            ("", None),
            ("3-1", None),
            ("1,", None),
            ("-1", None),
            ("1024", None),
            ("all", None),
        ] {
            assert_eq!(parse_cores(text).ok(), expected.map(Cores), "{text}");
        }
    }

    #[test]
    fn marks_become_numbers() {
        for (text, expected) in [("{rank}", "7"), ("a{rank}b{rank}", "a7b7"), ("{rank", "{rank"), ("", ""), ("x", "x")]
        {
            assert_eq!(with_rank(OsStr::new(text), 7), expected.as_bytes());
        }
    }

    #[test]
    fn output_is_a_word_or_a_file() {
        assert_eq!(Output::from(OsString::from("label")), Output::Label);
        assert_eq!(Output::from(OsString::from("none")), Output::None);
        assert_eq!(Output::from(OsString::from("./none")), Output::File("./none".into()));
    }
}
