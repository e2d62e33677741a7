//! What a run that is served can't gain.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use headwater_closure::program::{behind_env, script_arguments};

use crate::via::Program;

/// Bytes of a `#!` line that are read.
const LINE_BYTES_MAX: u64 = 256;

/// Programs whose work is to start others.
const STARTERS: &[&str] = &[
    "sh",
    "bash",
    "dash",
    "zsh",
    "ksh",
    "csh",
    "tcsh",
    "fish",
    "env",
    "nice",
    "time",
    "timeout",
    "make",
    "ninja",
    "cmake",
    "ctest",
    "xargs",
    "find",
    "torchrun",
    "accelerate",
    "deepspeed",
    "snakemake",
    "nextflow",
    "dask",
    "ray",
];

/// What is known of a run before it starts.
#[derive(Clone, Copy, Debug, Default)]
pub struct Start {
    /// Number of processes on all nodes.
    pub processes: u32,
    /// Whether the program starts other programs, as far as its name tells.
    pub has_others: bool,
    /// Whether a cache, a seal or a list has what the program needs.
    pub knows_files: bool,
    /// Whether this run leaves a list for the next one.
    pub leaves_list: bool,
}

/// Returns a note if it is the first start of one process on one node.
pub fn first_alone(start: Start) -> Option<String> {
    let Start { processes, has_others, knows_files, leaves_list } = start;
    if processes != 1 || has_others || knows_files {
        return None;
    }
    let later = if leaves_list { ". Later starts fetch ahead what this one uses" } else { "" };
    Some(format!(
        "note: one process on one node: its first start is seldom faster than without Headwater. More processes or nodes gain \
         (--ppn, --nodes, a launcher){later}"
    ))
}

/// Returns whether the program's work is to start others, as its name or that of its interpreter tells. `open` opens a
/// file for reading.
pub fn starts_others(file: &Path, program: &Program, open: &dyn Fn(&Path) -> io::Result<File>) -> bool {
    let is_starter = |file: &Path| STARTERS.iter().any(|starter| file.file_name() == Some(OsStr::new(starter)));
    let interpreted = || {
        let mut line = Vec::new();
        open(file).ok()?.take(LINE_BYTES_MAX).read_to_end(&mut line).ok()?;
        let arguments = script_arguments(&line)?;
        let interpreter = behind_env(&arguments).or(arguments.first().map(AsRef::as_ref))?;
        Some(is_starter(Path::new(interpreter)))
    };
    is_starter(file) || program.starts_others() || interpreted().unwrap_or(false)
}

/// Returns a note if the user demands audit for a program that can't be audited, or that starts others where it can't.
pub fn unaudited(is_demanded: bool, program: &Program) -> Option<String> {
    let itself = || {
        Some(format!("{}, so --via audit serves only programs that it starts, and not itself", program.not_audited()?))
    };
    let others = || Some(format!("{}, which reads the source files", program.starts_unaudited()?));
    let why = others().or_else(itself).filter(|_| is_demanded)?;
    Some(format!("note: {why}. Leave out --via audit, or use --via namespace"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_start_of_one_process_gains_nothing() {
        let one = Start { processes: 1, ..Start::default() };
        assert!(first_alone(one).unwrap().ends_with("(--ppn, --nodes, a launcher)"));
        assert!(
            first_alone(Start { leaves_list: true, ..one })
                .unwrap()
                .ends_with("Later starts fetch ahead what this one uses")
        );
        for other in [
            Start { processes: 2, ..one },
            Start { has_others: true, ..one },
            Start { knows_files: true, leaves_list: true, ..one },
        ] {
            assert_eq!(first_alone(other), None, "{other:?}");
        }
    }

    #[test]
    fn some_programs_start_others() {
        let directory = tempfile::tempdir().unwrap();
        let is_one = |name: &str, text: &str| {
            let file = directory.path().join(name);
            std::fs::write(&file, text).unwrap();
            starts_others(&file, &Program::named(name), &|path| File::open(path))
        };
        assert!(is_one("bash", "") && is_one("make", "") && is_one("mpirun", ""));
        assert!(is_one("job", "#!/bin/sh -e\n") && is_one("job2", "#!/usr/bin/env bash\n"));
        assert!(!is_one("python3", "\x7fELF") && !is_one("app", "") && !is_one("app.py", "#!/usr/bin/env python3\n"));
    }

    #[test]
    fn a_static_program_is_not_audited() {
        let program = Program::static_named("tool");
        assert!(
            unaudited(true, &program)
                .unwrap()
                .starts_with("note: tool is statically linked, so --via audit serves only")
        );
        assert_eq!((unaudited(false, &program), unaudited(true, &Program::named("tool"))), (None, None));
        assert!(unaudited(true, &Program::named("ch-run")).unwrap().contains("what ch-run starts, which reads"));
    }
}
