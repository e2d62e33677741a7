//! What a run that is served can't gain.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use headwater_closure::program::{behind_env, script_arguments};

use crate::via::{Mechanism, Program, set_id_user_in};

/// Bytes of a `#!` line that are read.
const LINE_BYTES_MAX: usize = 256;
/// Bytes of a script that are read.
const SCRIPT_BYTES_MAX: usize = 64 << 10;

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
        let arguments = script_arguments(&start_of(file, LINE_BYTES_MAX, open)?)?;
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

/// Returns a note if it is a script that names a program to which a user namespace does harm. `open` opens a file for
/// reading.
pub fn harmed(file: &Path, mechanism: Mechanism, open: &dyn Fn(&Path) -> io::Result<File>) -> Option<String> {
    if mechanism != (Mechanism::Namespace { has_user_namespace: true }) {
        return None;
    }
    let text = start_of(file, SCRIPT_BYTES_MAX, open)?;
    script_arguments(&text)?;
    let program = set_id_user_in(&String::from_utf8_lossy(&text))?;
    Some(format!(
        "note: {} names {program}, which may use set-ID programs; these gain nothing in a user namespace. If it fails, \
         use --via audit, or headwater run within the script",
        file.display()
    ))
}

/// Returns the first bytes of a file. What `open` returns may share its offset with others.
fn start_of(file: &Path, bytes_max: usize, open: &dyn Fn(&Path) -> io::Result<File>) -> Option<Vec<u8>> {
    let mut start = vec![0; bytes_max];
    let bytes = open(file).ok()?.read_at(&mut start, 0).ok()?;
    start.truncate(bytes);
    Some(start)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Seek, SeekFrom};

    fn already_read(path: &Path) -> io::Result<File> {
        let mut file = File::open(path)?;
        file.seek(SeekFrom::End(0))?;
        Ok(file)
    }

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
            starts_others(&file, &Program::named(name), &already_read)
        };
        assert!(is_one("bash", "") && is_one("make", "") && is_one("mpirun", ""));
        assert!(is_one("job", "#!/bin/sh -e\n") && is_one("job2", "#!/usr/bin/env bash\n"));
        assert!(!is_one("python3", "\x7fELF") && !is_one("app", "") && !is_one("app.py", "#!/usr/bin/env python3\n"));
    }

    #[test]
    fn scripts_may_name_what_a_user_namespace_harms() {
        let directory = tempfile::tempdir().unwrap();
        let note = |text: &str, has_user_namespace| {
            let file = directory.path().join("job.sh");
            std::fs::write(&file, text).unwrap();
            harmed(&file, Mechanism::Namespace { has_user_namespace }, &already_read)
        };
        let job = "#!/bin/sh\nsquashfuse a.sqfs /tmp/a; app\n";
        assert!(note(job, true).unwrap().contains("job.sh names squashfuse"));
        assert_eq!(note(job, false), None);
        for other in ["#!/bin/sh\n# no squashfuse\nnot-podman x\n", "squashfuse a\n", ""] {
            assert_eq!(note(other, true), None, "{other}");
        }
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
