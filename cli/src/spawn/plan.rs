//! The arguments, variables, processors, input and output of each process.

use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;

use anyhow::{Context as _, Result, ensure};
use rustix::process::{Resource, getrlimit, setrlimit};
use rustix::thread::sched_getaffinity;

use super::library::{FileAction, Interpreter, Mechanism, Options, Process};
use super::options::{Cores, From, Output, RANK_MARK, SpawnOptions, with_rank};
use super::outlet::{Ends, Outlet};

/// The variable with a process's number.
const RANK: &str = "HEADWATER_RANK";
/// The variable with the number of processes.
const RANKS: &str = "HEADWATER_RANKS";
/// Descriptors of this process beside those of the pipes.
const OWN_FILES: u64 = 64;
/// Descriptors for one process: both ends of two pipes, while it is started.
const FILES_OF_ONE: u64 = 4;

/// Refuses contradictory options before any process is started.
pub fn check(options: &SpawnOptions) -> Result<()> {
    let by_posix_spawn = options.from == From::PosixSpawn;
    ensure!(
        !by_posix_spawn || (options.cores.is_none() && options.numa.is_none()),
        "--from posix_spawn can't place processes: leave --cores and --numa, or take --from exec"
    );
    if let Output::File(name) = &options.output {
        let differs = options.processes == 1 || contains_mark(name);
        ensure!(
            differs,
            "--output {}: all processes would write to one file: put {RANK_MARK} into its name",
            name.display()
        );
    }
    let Some(Cores(cores)) = &options.cores else { return Ok(()) };
    let allowed = sched_getaffinity(None).context("the processors of this process can't be read")?;
    let missing = cores.iter().find(|&&core| !allowed.is_set(core));
    let usable = (0..rustix::thread::CpuSet::MAX_CPU).filter(|&core| allowed.is_set(core));
    ensure!(
        missing.is_none(),
        "--cores: processor {} is not there, or not allowed for this process; it may use {}",
        missing.unwrap_or(&0),
        ranges(usable)
    );
    Ok(())
}

fn contains_mark(name: &OsStr) -> bool {
    name.as_bytes().windows(RANK_MARK.len()).any(|window| window == RANK_MARK.as_bytes())
}

/// Formats ascending numbers as a list such as 0-3,8.
fn ranges(numbers: impl Iterator<Item = usize>) -> String {
    let mut ranges = Vec::<(usize, usize)>::new();
    for number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => ranges.push((number, number)),
        }
    }
    let texts = ranges.into_iter().map(|(first, last)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    });
    texts.collect::<Vec<_>>().join(",")
}

/// Returns the variables of this process, without those that each process has.
pub fn environment(processes: u32) -> Vec<CString> {
    let own = std::env::vars_os().filter(|(name, _)| name != RANK && name != RANKS);
    let all = own.chain([(RANKS.into(), processes.to_string().into())]);
    all.filter_map(|(name, value)| CString::new([name.as_bytes(), b"=", value.as_bytes()].concat()).ok()).collect()
}

/// Returns the variables of one process.
pub fn variables(rank: u32) -> Vec<CString> {
    CString::new(format!("{RANK}={rank}")).into_iter().collect()
}

/// Returns the interpreter as a zygote, with its options before the program, which all processes share.
pub fn interpreter(options: &SpawnOptions) -> io::Result<Option<Interpreter>> {
    let Some(imports) = &options.imports else { return Ok(None) };
    let arguments =
        interpreter_arguments(&options.program).into_iter().map(|argument| CString::new(argument.as_bytes()));
    let arguments = arguments.collect::<Result<_, _>>()?;
    Ok(Some(Interpreter { arguments, imports: CString::new(imports.as_str())? }))
}

/// Returns an interpreter's name and options, out of a command.
pub fn interpreter_arguments(command: &[OsString]) -> Vec<OsString> {
    let mut arguments = command.iter().peekable();
    let mut leading: Vec<&OsString> = arguments.next().into_iter().collect();
    let is_option = |word: &&OsString| {
        word.as_bytes().starts_with(b"-") && !["-", "-c", "-m"].iter().any(|last| *last == word.as_os_str())
    };
    while let Some(argument) = arguments.next_if(is_option) {
        leading.push(argument);
        let takes_next = ["-W", "-X", "--check-hash-based-pycs"].iter().any(|option| *option == argument.as_os_str());
        leading.extend(takes_next.then(|| arguments.next()).flatten());
    }
    leading.into_iter().cloned().collect()
}

/// Makes the processes' descriptions.
#[derive(Debug)]
pub struct Plan<'a> {
    options: &'a SpawnOptions,
    outlet: Option<&'a mut Outlet>,
    open_files_max: Option<(u64, u64)>,
}

impl<'a> Plan<'a> {
    /// With an outlet, each process's output is labelled. Then this process raises its own limit of open files.
    pub fn new(options: &'a SpawnOptions, mechanism: Mechanism, outlet: Option<&'a mut Outlet>) -> Result<Plan<'a>> {
        let raised = if outlet.is_some() { raise_open_files(options.processes)? } else { None };
        ensure!(
            raised.is_none() || mechanism != Mechanism::PosixSpawn,
            "--from posix_spawn can't set a process's limits, and for the output of {} processes this one needs more \
             open files: raise them (ulimit -n), or take --output none",
            options.processes
        );
        Ok(Plan { options, outlet, open_files_max: raised })
    }

    /// Returns the options of a call whose first process has this number.
    pub fn common(&self, first: u32) -> Options {
        Options { numa: self.options.numa.unwrap_or_default(), first, open_files_max: self.open_files_max }
    }

    /// Returns the process with this number, and descriptors to hold until it is started.
    pub fn process(&mut self, rank: u32) -> io::Result<(Process, Option<Ends>)> {
        let (program, arguments) = self.options.program.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        let mut made = vec![CString::new(program.as_bytes())?];
        for argument in arguments {
            made.push(CString::new(with_rank(argument, rank))?);
        }
        let cores = self.options.cores.as_ref().map(|Cores(cores)| cores[rank as usize % cores.len()]);
        let (mut actions, ends) = self.output(rank)?;
        if rank > 0 {
            actions.push(FileAction::Open { fd: 0, path: c"/dev/null".into(), flags: libc::O_RDONLY, mode: 0 });
        }
        let process =
            Process { arguments: made, variables: variables(rank), cores: cores.into_iter().collect(), actions };
        Ok((process, ends))
    }

    fn output(&mut self, rank: u32) -> io::Result<(Vec<FileAction>, Option<Ends>)> {
        if let Some(outlet) = &mut self.outlet {
            return outlet.connect(rank).map(|(actions, ends)| (actions, Some(ends)));
        }
        let Output::File(name) = &self.options.output else { return Ok((Vec::new(), None)) };
        let path = CString::new(with_rank(name, rank))?;
        let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC;
        let open = FileAction::Open { fd: 1, path, flags, mode: 0o666 };
        Ok((vec![open, FileAction::Copy { from: 1, fd: 2 }], None))
    }
}

/// Returns the name of a process's output file, if it has one.
pub fn output_file(options: &SpawnOptions, rank: u32) -> Option<OsString> {
    match &options.output {
        Output::File(name) => Some(OsStr::from_bytes(&with_rank(name, rank)).to_owned()),
        Output::Label | Output::None => None,
    }
}

/// Raises the limit of open files for the processes' pipes. Returns the previous limits if they were changed.
fn raise_open_files(processes: u32) -> Result<Option<(u64, u64)>> {
    let before = getrlimit(Resource::Nofile);
    let (soft, hard) = (before.current.unwrap_or(u64::MAX), before.maximum.unwrap_or(u64::MAX));
    let needed = OWN_FILES + FILES_OF_ONE * u64::from(processes);
    if needed <= soft {
        return Ok(None);
    }
    ensure!(
        needed <= hard,
        "the output of {processes} processes needs {needed} open files, and {hard} are allowed: raise that (ulimit \
         -n), or take --output none or a file for each"
    );
    setrlimit(Resource::Nofile, rustix::process::Rlimit { current: Some(needed), maximum: before.maximum })
        .context("the limit of open files can't be raised")?;
    Ok(Some((soft, hard)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_as_ranges() {
        for (numbers, expected) in [(&[0, 1, 2, 3, 8][..], "0-3,8"), (&[5], "5"), (&[], ""), (&[1, 3, 4], "1,3-4")] {
            assert_eq!(ranges(numbers.iter().copied()), expected);
        }
    }
}
