//! mpi4py's own tests, on two ranks: Debian's module for its default MPI, with the tests of the same release's source.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::outcomes::{FAILED, Outcomes, PASSED, SKIPPED};
use super::{debian, python};
use crate::shell::{Finished, Shell};

/// The directory of Debian's Python modules.
const MODULES: &str = "/usr/lib/python3/dist-packages";
/// Debian's Open MPI hangs in it without Headwater, too, where processes are started by processes of the job.
const LEFT_OUT: &str = "test_spawn";
/// Each rank's output for itself.
const RANK: &str = "exec \"$@\" > \"$RESULT/${OMPI_COMM_WORLD_RANK:-$PMI_RANK}\" 2>&1";

pub fn prepare(shell: &Shell, directory: &Path) -> Result<()> {
    python::install(shell, directory)?;
    debian::once(directory, "mpi4py", || {
        debian::copy(shell, Path::new(MODULES).join("mpi4py"), directory.join("modules/mpi4py"))
            .context("the package python3-mpi4py is missing")?;
        let _ = debian::copy(shell, Path::new(MODULES).join("numpy"), directory.join("modules/numpy"));
        let script = "import mpi4py; print(mpi4py.__version__)";
        let version = shell.run(shell.command("/usr/bin/python3").args(["-Ic", script]))?;
        let wanted = format!("mpi4py=={}", version.trim());
        let mut pip = shell.command("/usr/bin/python3");
        pip.args(["-m", "pip", "download", "-q", "--no-deps", "--no-binary=mpi4py", "--dest"]).arg(directory);
        shell.run(pip.arg(&wanted))?;
        let archive = directory.join(format!("mpi4py-{}.tar.gz", version.trim()));
        fs::create_dir_all(directory.join("source"))?;
        let mut tar = shell.command("tar");
        tar.arg("-xzf").arg(archive).arg("-C").arg(directory.join("source")).arg("--strip-components=1");
        shell.run(&mut tar)?;
        Ok(())
    })
}

pub fn units(directory: &Path) -> Result<Vec<String>> {
    let mut units: Vec<String> = fs::read_dir(directory.join("source/test"))?
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter_map(|name| Some(name.strip_suffix(".py").filter(|name| name.starts_with("test_"))?.to_owned()))
        .filter(|name| name != LEFT_OUT)
        .collect();
    units.sort();
    Ok(units)
}

pub fn command(shell: &Shell, directory: &Path, unit: &str) -> Command {
    let mut command = shell.command("mpiexec");
    command.current_dir(directory.join("source"));
    command.args(["--oversubscribe", "--allow-run-as-root", "-n", "2", "sh", "-c", RANK, "sh"]);
    command.arg(python::interpreter(directory)).args(["test/runtests.py", "-v", "--no-builddir", "-i"]);
    command.arg(format!("^{unit}$"));
    command.env("PYTHONPATH", directory.join("modules")).env("RESULT", directory.join("result"));
    command
}

pub fn outcomes(directory: &Path, _unit: &str, _finished: &Finished) -> Outcomes {
    let mut outcomes = Outcomes::new();
    for rank in ["0", "1"] {
        let output = fs::read(directory.join("result").join(rank)).unwrap_or_default();
        for (test, outcome) in parse(&String::from_utf8_lossy(&output)) {
            outcomes.insert(format!("{test} {rank}"), outcome);
        }
    }
    outcomes
}

/// Reads lines of `unittest`: `name (module.Class) ... ok`.
fn parse(output: &str) -> Outcomes {
    let outcome = |line: &str| {
        let (test, end) = line.split_once(" ... ")?;
        let end = match end.split_whitespace().next()? {
            "ok" | "expected" => PASSED,
            "skipped" => SKIPPED,
            _ => FAILED,
        };
        Some((test.replace(' ', ""), end.to_owned()))
    };
    output.lines().filter_map(outcome).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_unittest() {
        let outcomes = parse("a (m.C) ... ok\nb (m.C) ... skipped 'why'\nc (m.C) ... ERROR\n\nRan 3 tests\n");
        let found: Vec<_> = outcomes.iter().map(|(name, outcome)| (name.as_str(), outcome.as_str())).collect();
        assert_eq!(found, [("a(m.C)", PASSED), ("b(m.C)", SKIPPED), ("c(m.C)", FAILED)]);
    }
}
