//! Ranks of an MPI program, which find each other by descriptors that the launcher gave them.

use headwater_tests::harness::services::environment;
use headwater_tests::harness::{Output, Program, headwater_binary, skipped};

use crate::fixture;

/// Sums the ranks, and says so.
const SCRIPT: &str = "
import os
from mpi4py import MPI
world = MPI.COMM_WORLD
total = world.allreduce(world.rank)
os.write(1, f'{world.rank} of {world.size}: {total}\\n'.encode())
";

fn sorted(output: &Output) -> Vec<&str> {
    let mut lines: Vec<&str> = output.stdout.lines().collect();
    lines.sort_unstable();
    lines
}

#[test]
fn ranks_of_hydra() {
    let Some(fixture) = fixture() else { return };
    let mpich = match environment("mpich", &["mpich", "mpi4py"]) {
        Ok(mpich) => mpich,
        Err(reason) => return skipped(reason),
    };
    let (mpiexec, python) = (mpich.join("bin/mpiexec"), mpich.join("bin/python3"));
    let launch = |before: &[&str]| {
        let words = [python.as_os_str(), "-c".as_ref(), SCRIPT.as_ref()];
        let program = Program::new(&mpiexec).args(["-launcher", "fork", "-n", "4"]).args(words);
        program.env("PYTHONDONTWRITEBYTECODE", "1").behind(before).run()
    };
    let expected = launch(&[]);
    assert_eq!(expected.status, 0, "{expected:?}");
    let binary = headwater_binary().display().to_string();
    let shared = fixture.shared().display().to_string();
    for (imports, zygotes, reason) in [("mpi4py", 4, ""), ("mpi4py.MPI", 0, "comes from no zygote: ")] {
        let (file, jobs) = (fixture.outside("summary.json").display().to_string(), fixture.outside("jobs"));
        let jobs = jobs.display().to_string();
        let run = [&*binary, "run", "--via", "audit", "--shared", &shared, "--job-dir", &jobs, "--summary-json", &file];
        let output = launch(&[&run[..], &["--warm-imports", imports, "--"]].concat());
        assert_eq!((sorted(&output), output.status), (sorted(&expected), 0), "{imports}: {output:?}");
        let summary = std::fs::read_to_string(&file).expect("it was written");
        let summary: serde_json::Value = serde_json::from_str(&summary).expect("JSON");
        assert_eq!(summary["from_zygotes"], zygotes, "{imports}: {output:?} {summary}");
        assert!(output.stderr.contains(reason), "{imports}: {output:?}");
    }
}
