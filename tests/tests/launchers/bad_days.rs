//! Failures in the middle: programs get the same results or end, and nothing is left.

use std::fs;
use std::time::Duration;

use headwater_tests::harness::services::{SLURM_CONF, Slurm, Ssh, succeeds};
use headwater_tests::harness::{Output, Running, skipped, wait_until};

use crate::site::{Site, in_any_order};
use crate::ssh::{VARIABLES, launcher, marked_launcher, with_ssh};

/// How long programs may take to be in the middle.
const BEGUN_MAX: Duration = Duration::from_secs(30);
/// How long a launcher may take to end.
const ENDED_MAX: Duration = Duration::from_secs(40);

const ENDLESS: &str = "
import os, pkg.m0, time
os.write(1, b'begun\\n')
time.sleep(600)
";

/// Waits for a file of the shared directory, then imports what was not requested before.
const WAITS: &str = "
import os, sys, time, pkg.m0
os.write(1, b'begun\\n')
while not os.path.exists(sys.argv[1]): time.sleep(0.05)
import pkg.m1, pkg.m2
os.write(1, f'{pkg.m0.value + pkg.m1.value + pkg.m2.value}\\n'.encode())
";

fn begun(running: &Running, processes: usize) {
    let is_begun = || running.stdout().matches("begun").count() == processes;
    assert!(wait_until(BEGUN_MAX, is_begun), "{}", running.stdout());
}

fn args(launcher: &str, script: &str, arguments: &[String]) -> Vec<String> {
    let program = ["python3", "-c", script].map(String::from);
    launcher.split(' ').map(String::from).chain(program).chain(arguments.iter().cloned()).collect()
}

#[test]
fn ends_of_slurms_steps() {
    let Some(site) = Site::new() else { return };
    let _slurm = match Slurm::start(&site.cluster, &site.directory("slurm")) {
        Ok(slurm) => slurm,
        Err(reason) => return skipped(reason),
    };
    let node = site.cluster.on(1);
    let endless = args("srun -N4 -n4", ENDLESS, &[]);
    let cancel = format!("SLURM_CONF={SLURM_CONF} scancel --user=root");
    // Slurm does not end programs whose srun was killed.
    let killed = format!("pkill -KILL -x srun; sleep 1; {cancel}");
    let ends = [
        ("kill -9 of headwater run", "pkill -KILL -f '[h]eadwater run'"),
        ("kill -9 of the launcher", &*killed),
        ("scancel", &cancel),
        ("Ctrl-C twice", "pkill -INT -f '[h]eadwater run'; sleep 0.2; pkill -INT -f '[h]eadwater run'"),
    ];
    for (what, end) in ends {
        let running = site.begin(&[], &endless);
        begun(&running, 4);
        assert!(succeeds(node, end), "{what}");
        running.finish_within(ENDED_MAX);
        site.assert_clean();
        // Slurm's own cleaning takes its time; the next step must not wait for it.
        assert!(wait_until(ENDED_MAX, || succeeds(
            node,
            &format!("export SLURM_CONF={SLURM_CONF}; [ $(sinfo -h -t idle -o %D) = 4 ]")
        )));
    }
}

/// Starts programs that wait on such nodes, makes something fail, and lets them continue.
fn disturbed(site: &Site, ssh: &Ssh, nodes: &[usize], disturb: impl Fn()) -> (Output, usize) {
    let go = site.directory("jobs").with_file_name("go");
    let _ = fs::remove_file(&go);
    let script = launcher(site, ssh, nodes, VARIABLES);
    let launcher = format!("{} @", script.display());
    let running = site.begin(&["--marker", "@"], &args(&launcher, WAITS, &[go.display().to_string()]));
    begun(&running, nodes.len());
    disturb();
    fs::write(&go, "").unwrap();
    (in_any_order(running.finish_within(ENDED_MAX)), nodes.len())
}

#[test]
fn programs_go_on_whatever_dies_beside_them() {
    with_ssh(Site::new(), whatever_dies);
}

fn whatever_dies(site: &Site, ssh: &Ssh) {
    let all = [1, 2, 3, 4];
    let check = |what: &str, nodes: &[usize], disturb: &dyn Fn()| {
        let (output, expected) = disturbed(site, ssh, nodes, disturb);
        let results = output.stdout.lines().filter(|line| *line == "9").count();
        assert_eq!(results, expected, "{what}: {output:?}");
        site.assert_clean();
    };
    let on = |number: usize, script: &str| assert!(succeeds(site.cluster.on(number), script), "{script}");
    check("a daemon dies", &all, &|| on(2, "pkill -KILL -f '[h]eadwater daemon'"));
    check("a node's part dies", &all, &|| on(3, "pkill -KILL -f '[h]eadwater node'"));
    check("a supervisor dies", &all, &|| on(1, "pkill -KILL -f '[h]eadwater supervise'; true"));
}

#[test]
fn a_node_without_room_uses_the_source_files() {
    with_ssh(Site::new(), a_full_node);
}

fn a_full_node(site: &Site, ssh: &Ssh) {
    let full = site.cluster.on(2);
    let fill = "head -c 8G /dev/zero >/dev/shm/full; head -c 8G /dev/zero >/tmp/full; true";
    assert!(succeeds(full, fill));
    let (output, expected) = disturbed(site, ssh, &[1, 2, 3], || {});
    assert_eq!(output.stdout.lines().filter(|line| *line == "9").count(), expected, "{output:?}");
    assert!(succeeds(full, "rm /dev/shm/full /tmp/full"));
    site.assert_clean();
}

#[test]
fn a_node_that_crashes_while_it_starts() {
    with_ssh(Site::of(6), |site, ssh| {
        // The first of the nodes reads for all.
        for (nodes, sign) in
            [([2, 3, 4], "ls /dev/shm/headwater-*/*/join"), ([3, 4, 5], "pgrep -f '[h]eadwater daemon'")]
        {
            let crashing = site.cluster.on(nodes[0]);
            // It is still starting when it crashes, however long that takes.
            let waits = format!("[ $(hostname) != {} ] || sleep 600; exec \"$@\"", crashing.name);
            let program = ["sh", "-c", &waits, "sh"].map(String::from).into_iter().chain(site.program());
            let args: Vec<String> = marked_launcher(site, ssh, &nodes).into_iter().chain(program).collect();
            let running = site.begin(&["--marker", "@"], &args);
            assert!(wait_until(BEGUN_MAX, || succeeds(crashing, sign)), "{sign}: {}", running.stdout());
            crashing.kill().expect("a node can be killed");
            let output = running.finish_within(ENDED_MAX);
            let results = output.stdout.lines().filter(|line| line.starts_with("36100 ")).count();
            assert_eq!(results, nodes.len() - 1, "{sign}: {output:?}");
            site.assert_clean();
        }
    });
}
