//! Perl's core tests, from Debian's source package, run by a copy of the machine's own perl and its modules.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::debian;
use super::outcomes::{FAILED, Outcomes, PASSED, SKIPPED};
use crate::shell::{Finished, Shell};

/// Directories of tests in the source, each with the directory above it in which they run.
const UNITS: &[&str] = &[
    "t/base",
    "t/cmd",
    "t/comp",
    "t/io",
    "t/lib",
    "t/mro",
    "t/op",
    "t/run",
    "cpan/Archive-Tar/t",
    "cpan/AutoLoader/t",
    "cpan/DB_File/t",
    "cpan/Digest-MD5/t",
    "cpan/File-Fetch/t",
    "cpan/File-Path/t",
    "cpan/File-Temp/t",
    "cpan/IO-Compress/t",
    "cpan/IO-Zlib/t",
    "cpan/IPC-Cmd/t",
    "cpan/IPC-SysV/t",
    "cpan/Socket/t",
    "cpan/Sys-Syslog/t",
    "cpan/Test-Harness/t",
    "cpan/autodie/t",
    "dist/Dumpvalue/t",
    "dist/Env/t",
    "dist/IO/t",
    "dist/Module-CoreList/t",
    "dist/PathTools/t",
    "dist/SelfLoader/t",
    "dist/Storable/t",
    "dist/Term-ReadLine/t",
    "dist/Thread-Queue/t",
    "dist/lib/t",
    "dist/threads-shared/t",
    "dist/threads/t",
    "ext/DynaLoader/t",
    "ext/Fcntl/t",
    "ext/File-DosGlob/t",
    "ext/File-Find/t",
    "ext/File-Glob/t",
    "ext/FileCache/t",
    "ext/GDBM_File/t",
    "ext/IPC-Open3/t",
    "ext/NDBM_File/t",
    "ext/ODBM_File/t",
    "ext/POSIX/t",
    "ext/PerlIO-encoding/t",
    "ext/PerlIO-scalar/t",
    "ext/PerlIO-via/t",
    "ext/SDBM_File/t",
    "lib",
    "lib/File",
];
/// Quick ones of each kind.
pub const SHORT: &[&str] = &["t/base", "ext/File-Glob/t", "ext/Fcntl/t", "cpan/File-Path/t"];

/// Runs each file, and prints its name before its output and its exit status behind it. A test writes what it likes to
/// standard error.
const RUN: &str = "perl=$1 library=$2 name=$3 && shift 3 && for file in $name/*.t; do \
    echo \"@begin $file\"; timeout 120 \"$perl\" -I\"$library\" \"$file\" < /dev/null 2> /dev/null; \
    echo; echo \"@end $?\"; done";

pub fn prepare(shell: &Shell, directory: &Path) -> Result<()> {
    let source = debian::source(shell, "perl", directory)?;
    debian::once(directory, "perl", || {
        let shown = shell.run(shell.command("/usr/bin/perl").args(["-e", "print join qq{\\n}, @INC"]))?;
        // The first to have a file is the one that is used, so it is copied last.
        let installed: Vec<&str> = shown.lines().filter(|path| path.starts_with("/usr/") && is_core(path)).collect();
        for path in installed.iter().rev().filter(|path| Path::new(path).is_dir()) {
            debian::copy(shell, path, source.join("lib"))?;
        }
        for to in ["perl", "t/perl"] {
            fs::copy("/usr/bin/perl", source.join(to)).context("the package perl is missing")?;
        }
        Ok(())
    })
}

fn is_core(path: &str) -> bool {
    path.contains("/perl/") || path.ends_with("/perl-base")
}

pub fn units(directory: &Path) -> Result<Vec<String>> {
    let is_there = |unit: &&&str| directory.join("source").join(unit).is_dir();
    Ok(UNITS.iter().filter(is_there).map(|&unit| unit.to_owned()).collect())
}

pub fn command(shell: &Shell, directory: &Path, unit: &str) -> Command {
    let source = directory.join("source");
    // Tests of the core and of the library run in `t`, those of a distribution in its directory.
    let (directory_of_test, name) = match unit.rsplit_once('/') {
        Some(("t", _)) | None => ("t".to_owned(), unit.strip_prefix("t/").map_or(format!("../{unit}"), str::to_owned)),
        Some(("lib", _)) => ("t".to_owned(), format!("../{unit}")),
        Some((directory_of_test, name)) => (directory_of_test.to_owned(), name.to_owned()),
    };
    let mut command = shell.command("sh");
    command.current_dir(source.join(directory_of_test)).args(["-c", RUN, "sh"]);
    command.arg(source.join("perl")).arg(source.join("lib")).arg(name);
    command
}

pub fn outcomes(_directory: &Path, _unit: &str, finished: &Finished) -> Outcomes {
    parse(&finished.output)
}

/// Reads the Test Anything Protocol: `ok 1 - name # SKIP why`.
fn parse(output: &str) -> Outcomes {
    let mut outcomes = Outcomes::new();
    let mut file = "";
    for line in output.lines() {
        if let Some(name) = line.strip_prefix("@begin ") {
            file = name;
        } else if let Some(status) = line.strip_prefix("@end ") {
            outcomes
                .insert(format!("{file} ends"), if status == "0" { PASSED.into() } else { format!("status {status}") });
        } else if let Some((number, outcome)) = point(line) {
            outcomes.insert(format!("{file} {number}"), outcome.to_owned());
        }
    }
    outcomes
}

fn point(line: &str) -> Option<(u32, &'static str)> {
    let (is_ok, rest) = match line.strip_prefix("ok ") {
        Some(rest) => (true, rest),
        None => (false, line.strip_prefix("not ok ")?),
    };
    let number = rest.split_whitespace().next()?.parse().ok()?;
    let directive = rest.split_once('#').map_or("", |(_, directive)| directive.trim_start());
    let starts = |word: &str| directive.get(..word.len()).is_some_and(|d| d.eq_ignore_ascii_case(word));
    Some((
        number,
        if starts("skip") {
            SKIPPED
        } else if is_ok || starts("todo") {
            PASSED
        } else {
            FAILED
        },
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_of_files() {
        let outcomes =
            parse("@begin a.t\n1..3\nok 1 - x\nnot ok 2 - y\nok 3 # skip why\n\n@end 1\n@begin b.t\n@end 0\n");
        let found: Vec<_> = outcomes.iter().map(|(name, outcome)| (name.as_str(), outcome.as_str())).collect();
        let expected =
            [("a.t 1", PASSED), ("a.t 2", FAILED), ("a.t 3", SKIPPED), ("a.t ends", "status 1"), ("b.t ends", PASSED)];
        assert_eq!(found, expected);
    }
}
