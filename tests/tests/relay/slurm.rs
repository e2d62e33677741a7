//! `libheadwater-relay.so` in slurmd, and so in the slurmstepd of each step: they record the PIDs of a step's tasks
//! before any task may exec. So all tasks are exec'd as ever, and nothing is left.

use std::path::{Path, PathBuf};
use std::time::Duration;

use headwater_cluster::{Cluster, Node, Options};
use headwater_tests::harness::nodes::project;
use headwater_tests::harness::services::{SLURM_CONF, Slurm, output_of};
use headwater_tests::harness::{Output, Program, skipped, user, wait_until};

use crate::{Site, library, lines};

/// How long a step may take.
const STEP_MAX: Duration = Duration::from_secs(60);
/// Lists all processes on a node but itself.
const LIST: &str = "ps -eo args --no-headers";
/// A daemon's loaded libraries.
const RELAYED: &str = "grep -l headwater-relay.so /proc/[0-9]*/maps | wc -l";

/// A step's status, and how often it printed each line.
type Outcome = (i32, Vec<(String, usize)>);

fn step(cluster: &Cluster, user: &[&str], line: &str) -> Output {
    let command = cluster.on(1).command("sh");
    let program = Program::new(command.get_program()).args(command.get_args());
    let line = format!("cd /; export SLURM_CONF={SLURM_CONF}; exec {} {line}", user.join(" "));
    program.arg("-c").arg(line).start().finish_within(STEP_MAX)
}

/// Steps of root's and of others, with few tasks and with many, which fail and are killed.
fn steps(cluster: &Cluster, origin: &str) -> Vec<Outcome> {
    let run = |user: &[&str], line: String| {
        let output = step(cluster, user, &line);
        (output.status, lines(&output, false).into_iter().collect())
    };
    let mut all = Vec::new();
    for user in [&[][..], &user::ORDINARY] {
        for _ in 0..3 {
            all.push(run(user, format!("srun -N2 -n8 {origin} task")));
        }
        all.push(run(user, format!("srun -N1 -n16 --overcommit {origin} many")));
        all.push(run(user, format!("env ORIGIN_STATUS=3 srun -Q -N2 -n4 {origin} fails 2>/dev/null")));
        all.push(run(user, "srun -Q -N2 -n4 sh -c 'echo killed; kill -9 $$' 2>/dev/null".into()));
    }
    all
}

/// All that runs on a node.
fn processes(node: &Node) -> Vec<String> {
    let listed = output_of(node, &format!("exec {LIST}"));
    let mut all: Vec<String> = listed.lines().filter(|line| *line != LIST).map(str::to_owned).collect();
    all.sort();
    all
}

/// All that runs on a node that is done with starting.
fn processes_at_rest(node: &Node) -> Vec<String> {
    let mut seen = processes(node);
    let is_at_rest = || {
        let before = std::mem::replace(&mut seen, processes(node));
        before == seen
    };
    assert!(wait_until(STEP_MAX, is_at_rest), "the node doesn't become idle");
    seen
}

/// The outcome of all steps, and what runs on the nodes before and after them.
fn trial(library: Option<&Path>, origin: &Path) -> Result<Vec<Outcome>, String> {
    let directory = origin.parent().expect("it has a folder").to_path_buf();
    let shares: Vec<PathBuf> = vec![project().to_path_buf(), directory.clone()];
    let cluster = Cluster::up(2, &Options { shares, ..Options::default() })
        .map_err(|error| headwater_cluster::check().err().map_or_else(|| panic!("{error}"), |e| e.to_string()))?;
    let _slurm = match library {
        Some(library) => Slurm::start_preloaded(&cluster, &directory, library),
        None => Slurm::start(&cluster, &directory),
    }?;
    for node in cluster.nodes() {
        assert_eq!(output_of(node, RELAYED).trim() != "0", library.is_some(), "slurmd has it");
    }
    let before: Vec<Vec<String>> = cluster.nodes().iter().map(processes_at_rest).collect();
    let outcome = steps(&cluster, &origin.display().to_string());
    for (node, before) in cluster.nodes().iter().zip(before) {
        let is_as_before = || processes(node) == before;
        assert!(wait_until(STEP_MAX, is_as_before), "{before:#?}\nthen\n{:#?}", processes(node));
    }
    Ok(outcome)
}

#[test]
fn slurmd_and_its_steps() {
    let site = Site::new();
    let origin = PathBuf::from(&site.origin);
    let outcome = trial(None, &origin).and_then(|plain| Ok((plain, trial(Some(&library()), &origin)?)));
    match outcome {
        Err(reason) => skipped(reason),
        Ok((plain, relayed)) => {
            assert_eq!(plain[0], (0, vec![("task by exec".into(), 8)]), "{plain:?}");
            assert_eq!(relayed, plain);
        }
    }
}
