//! What operators and users see of a step of Slurm: a report over all of its hosts, and the guard's warning.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use headwater_tests::harness::services::Slurm;
use headwater_tests::harness::{Program, headwater_binary, skipped, wait_until};
use rustix::process::Signal;
use serde_json::Value;

use crate::site::{NODES, Site, in_any_order};

/// How long the guard may take to name a storm.
const NAMED_MAX: Duration = Duration::from_secs(10);
/// How long a step may take until its storm begins.
const BEGIN_MAX: Duration = Duration::from_secs(30);

/// Opens a file again and again.
const STORM: &str = "
import os, sys
while True:
    for number in range(20):
        os.close(os.open(f'{sys.argv[1]}/pkg/m{number}.py', os.O_RDONLY))
";

#[test]
fn a_report_has_all_hosts_of_a_step() {
    let Some(site) = Site::new() else { return };
    let _slurm = match Slurm::start(&site.cluster, &site.directory("slurm")) {
        Ok(slurm) => slurm,
        Err(reason) => return skipped(reason),
    };
    let args = site.args("srun -N4 -n8");
    let expected = site.plain(&args);
    let page = site.directory("reports").join("step.html");
    site.forget();
    let (output, summary) = site.served(&["--report", &page.display().to_string()], &args);
    assert_eq!(in_any_order(output), in_any_order(expected));
    let text = fs::read_to_string(page.with_extension("json")).expect("a report beside the page");
    let report: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(report["missing_ranks"], serde_json::json!([]), "{report}");
    let nodes = report["nodes"].as_array().expect("nodes");
    let hosts: Vec<&str> = nodes.iter().filter_map(|node| node["name"].as_str()).collect();
    let cluster: Vec<&str> = site.cluster.nodes().iter().map(|node| node.name.as_str()).collect();
    assert_eq!((hosts.len(), nodes.len()), (NODES, NODES), "{nodes:?}");
    assert!(cluster[..NODES].iter().all(|name| hosts.contains(name)), "{hosts:?} {cluster:?}");
    assert_eq!(report["shared_fs"]["files"], summary["shared_fs"]["files_read"], "{summary}");
    assert!(fs::read_to_string(page).expect("a page").contains(hosts[NODES - 1]));
}

#[test]
fn the_guard_names_the_job_of_a_step() {
    let Some(site) = Site::new() else { return };
    let directory = site.directory("slurm");
    let _slurm = match Slurm::start(&site.cluster, &directory) {
        Ok(slurm) => slurm,
        Err(reason) => return skipped(reason),
    };
    // It runs on this machine, which sees the processes of all nodes: they have one mount of the file system.
    let (hook, seen, begun) = (directory.join("hook"), directory.join("seen"), directory.join("begun"));
    let text = "#!/bin/sh\necho \"$HEADWATER_FINDING_EVENT $HEADWATER_FINDING_JOB_KIND $HEADWATER_FINDING_JOB_ID\" >>";
    fs::write(&hook, format!("{text}{}\n", seen.display())).expect("an own directory");
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).expect("an own file");
    let mount = site.shared().display().to_string();
    let options = ["guard", "--interval", "2", "--operations-per-second", "200", "--mount", &mount, "--command"];
    let guard = Program::new(headwater_binary()).args(options).arg(&hook).start();
    let script = format!("echo $SLURM_JOB_ID >{}; exec python3 -c \"$1\" {mount}", begun.display());
    let words = ["srun", "-N1", "-n2", "sh", "-c", &script, "storm", STORM].map(String::from);
    let step = site.on_first(&words).start();
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    assert!(wait_until(BEGIN_MAX, || read(&begun).ends_with('\n')), "the step begins");
    let named = format!("began slurm {}", read(&begun).lines().next().unwrap_or_default());
    let is_named = wait_until(NAMED_MAX, || read(&seen).lines().any(|line| line == named));
    step.signal(Signal::TERM);
    step.finish();
    guard.signal(Signal::TERM);
    let output = guard.finish();
    assert!(is_named, "{named} is not in {:?}: {output:?}", read(&seen));
}
