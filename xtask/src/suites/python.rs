//! CPython's own tests, as Debian packages them. The interpreter and its library are copied, so that all of it is in
//! the scope, and so are the directories in which tests work.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::debian;
use super::outcomes::{FAILED, Outcomes, PASSED, SKIPPED};
use crate::shell::{Finished, Shell};

/// Tests of calls to the operating system.
const MODULES: &[&str] = &[
    "asyncio",
    "bz2",
    "cmd_line",
    "cmd_line_script",
    "compileall",
    "concurrent_futures",
    "ctypes",
    "dbm",
    "dbm_dumb",
    "dbm_gnu",
    "dbm_ndbm",
    "eintr",
    "embed",
    "ensurepip",
    "epoll",
    "faulthandler",
    "fcntl",
    "file",
    "file_eintr",
    "filecmp",
    "fileinput",
    "fileio",
    "fork1",
    "ftplib",
    "genericpath",
    "getpath",
    "glob",
    "gzip",
    "httpservers",
    "imp",
    "import",
    "importlib",
    "inspect",
    "io",
    "largefile",
    "linecache",
    "locale",
    "logging",
    "lzma",
    "mailbox",
    "mailcap",
    "mimetypes",
    "mmap",
    "modulefinder",
    "multiprocessing_fork",
    "multiprocessing_forkserver",
    "multiprocessing_main_handling",
    "multiprocessing_spawn",
    "netrc",
    "openpty",
    "os",
    "pathlib",
    "pipes",
    "pkg",
    "pkgutil",
    "platform",
    "plistlib",
    "poll",
    "popen",
    "posix",
    "posixpath",
    "pty",
    "py_compile",
    "pydoc",
    "regrtest",
    "repl",
    "resource",
    "runpy",
    "select",
    "selectors",
    "shelve",
    "shutil",
    "signal",
    "site",
    "socket",
    "socketserver",
    "source_encoding",
    "sqlite3",
    "ssl",
    "stat",
    "subprocess",
    "support",
    "sys",
    "sysconfig",
    "tarfile",
    "tempfile",
    "thread",
    "threadedtempfile",
    "threading",
    "threadsignals",
    "tools",
    "trace",
    "traceback",
    "unicode_file",
    "unicode_file_functions",
    "unittest",
    "urllib",
    "uuid",
    "venv",
    "wait3",
    "wait4",
    "warnings",
    "zipapp",
    "zipfile",
    "zipimport",
    "zipimport_support",
    "zoneinfo",
];

/// Quick ones of each kind.
pub const SHORT: &[&str] = &["test_os", "test_posix", "test_mmap", "test_fcntl", "test_import", "test_zipimport"];

/// Tests that need a terminal, much space or another machine are not about files.
const RESOURCES: &str = "all,-gui,-audio,-largefile,-cpu,-network,-urlfetch";
const TEST_SECONDS_MAX: &str = "300";
/// These wait for a hypervisor's connection for ever.
const LEFT_OUT: &str = "*V[sS][oO][cC][kK]*";

pub fn prepare(shell: &Shell, directory: &Path) -> Result<()> {
    install(shell, directory)?;
    ensure!(library(directory)?.join("test/regrtest.py").exists(), "the package libpython3.N-testsuite is missing");
    Ok(())
}

/// A copy of Debian's Python, as one that is installed below `directory`.
pub fn install(shell: &Shell, directory: &Path) -> Result<()> {
    debian::once(directory, "python", || {
        let script = "import sys; print('python%d.%d' % sys.version_info[:2])";
        let output = shell.run(shell.command("/usr/bin/python3").args(["-Ic", script]))?;
        let name = output.trim();
        debian::copy(shell, Path::new("/usr/lib").join(name), directory.join("lib").join(name))?;
        fs::create_dir_all(directory.join("bin"))?;
        for to in [name, "python3"] {
            fs::copy(Path::new("/usr/bin").join(name), directory.join("bin").join(to))?;
        }
        Ok(())
    })
}

/// The interpreter that `install` made.
pub fn interpreter(directory: &Path) -> PathBuf {
    directory.join("bin/python3")
}

fn library(directory: &Path) -> Result<PathBuf> {
    let mut entries = fs::read_dir(directory.join("lib"))?.filter_map(|entry| Some(entry.ok()?.path()));
    entries.next().context("Python's library has not been copied")
}

pub fn units(directory: &Path) -> Result<Vec<String>> {
    let tests = library(directory)?.join("test");
    let is_there = |name: &String| tests.join(name).is_dir() || tests.join(format!("{name}.py")).is_file();
    Ok(MODULES.iter().map(|module| format!("test_{module}")).filter(is_there).collect())
}

pub fn command(shell: &Shell, directory: &Path, unit: &str) -> Command {
    let mut command = shell.command(interpreter(directory));
    command.args(["-m", "test", "-u", RESOURCES, "--timeout", TEST_SECONDS_MAX, "-i", LEFT_OUT, "--junit-xml"]);
    command.arg(results(directory)).arg("--tempdir").arg(directory.join("tmp")).arg(unit);
    command
}

fn results(directory: &Path) -> PathBuf {
    directory.join("result/junit.xml")
}

pub fn outcomes(directory: &Path, _unit: &str, _finished: &Finished) -> Outcomes {
    parse(&fs::read_to_string(results(directory)).unwrap_or_default())
}

/// The worst of each name's outcomes: parameters of a test aren't part of its name.
fn parse(xml: &str) -> Outcomes {
    let mut outcomes = Outcomes::new();
    for case in xml.split("<testcase ").skip(1) {
        let Some(name) = case.split_once("name=\"").and_then(|(_, rest)| rest.split('"').next()) else { continue };
        let has = |tag: &str| case.contains(tag);
        let outcome = match (has("<failure") || has("<error"), has("<skipped")) {
            (true, _) => FAILED,
            (_, true) => SKIPPED,
            _ => PASSED,
        };
        let known = outcomes.entry(name.to_owned()).or_insert_with(|| outcome.to_owned());
        if outcome == FAILED || known == PASSED {
            outcome.clone_into(known);
        }
    }
    outcomes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_of_cases() {
        let xml = "<testsuite><testcase name=\"a\" status=\"run\"/><testcase name=\"b\"><failure type=\"x\">why</failure>\
                   </testcase><testcase name=\"c\"><skipped>why</skipped></testcase><testcase name=\"b\"/></testsuite>";
        let outcomes = parse(xml);
        let found: Vec<_> = outcomes.iter().map(|(name, outcome)| (name.as_str(), outcome.as_str())).collect();
        assert_eq!(found, [("a", PASSED), ("b", FAILED), ("c", SKIPPED)]);
    }
}
