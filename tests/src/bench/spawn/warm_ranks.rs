//! Ranks of one node that import the same: each by itself, or all from one process that has done so.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use super::super::fixture::python_environment;
use super::super::statistics::Sample;
use super::super::{Report, Table};
use super::comparison::row;
use crate::harness::headwater_binary;

const RANKS: usize = 16;
const ROUNDS: usize = 7;
const STATEMENT: &str = "import scipy.stats";

/// A session for several launches, with what they need.
struct Site {
    jobs: tempfile::TempDir,
    environment: std::path::PathBuf,
    session: String,
}

impl Site {
    fn start(environment: &Path) -> Site {
        let jobs = crate::scratch("warm-ranks");
        let mut site = Site { jobs, environment: environment.into(), session: String::new() };
        let mut command = site.headwater("start");
        command.arg("--shared").arg(environment).args(["--via", "audit"]).args(["--", "true"]);
        let output = command.output().expect("it was built");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        site.session = String::from_utf8_lossy(&output.stdout).trim().into();
        site
    }

    fn headwater(&self, what: &str) -> Command {
        let mut command = Command::new(headwater_binary());
        command.arg(what).arg("--job-dir").arg(self.jobs.path()).env("OPENBLAS_NUM_THREADS", "1");
        command.env("PYTHONDONTWRITEBYTECODE", "1").stdin(Stdio::null());
        command
    }

    /// Milliseconds from the command to the end of all ranks.
    fn launch(&self, options: &[&str]) -> f64 {
        let all = format!("for rank in $(seq {RANKS}); do \"$@\" & done; wait");
        let python = self.environment.join("bin/python3");
        let mut command = self.headwater("run");
        command
            .args(["--session", &self.session, "--marker", "@"])
            .args(options)
            .args(["--", "sh", "-c", &all, "sh", "@"]);
        command.arg(python).args(["-c", STATEMENT]);
        let begun = Instant::now();
        let output = command.output().expect("it was built");
        let took = begun.elapsed().as_secs_f64() * 1e3;
        let printed = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && printed.is_empty(), "{printed}");
        took
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = self.headwater("stop").arg(&self.session).output();
    }
}

/// The ranks of a launch in a session whose node has all files.
pub(in super::super) fn warm_ranks(report: &mut Report) {
    report.heading(&format!("{RANKS} ranks of `{STATEMENT}` on a node that has the files"));
    let environment = match python_environment() {
        Ok(environment) => environment,
        Err(reason) => return report.line(format!("not measured: {reason}")),
    };
    let site = Site::start(&environment);
    let zygote = ["--ranks-from", "zygote", "--warm-imports", "scipy.stats"];
    site.launch(&[]);
    let (mut forked, mut executed) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        executed.push(site.launch(&[]));
        forked.push(site.launch(&zygote));
    }
    let mut table = Table::new(["ms, medians (10 to 90 %)", "zygote", "exec", "ratio", "bound"]);
    row(&mut table, "to the end of all", [&Sample::new(forked), &Sample::new(executed)], "5");
    report.table(&table);
}
