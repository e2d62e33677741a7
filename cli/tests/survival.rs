//! Programs in a namespace survive the death of daemons and supervisors.

mod site;

use std::fs;
use std::io::Read;
use std::process::Stdio;

use rustix::process::{Signal, kill_process};
use serde_json::Value;
use site::running::{Running, processes_called};
use site::{Site, eventually, has_namespaces, text};

/// Number of files that a program reads while its daemons die.
const FILES: usize = 200;

/// Returns a program that prints `ready`, and then reads every file of `shared`. It waits for a name in `work` before
/// each fortieth file.
fn reader(site: &Site) -> String {
    for number in 0..FILES {
        site.write(&format!("shared/{number}"), &format!("{number}\n"));
    }
    format!(
        "echo ready; n=0; while [ $n -lt {FILES} ]; do \
         [ $((n % 40)) = 0 ] && while [ ! -e go$n ]; do sleep 0.01; done; \
         cat {0}/$n; n=$((n + 1)); done",
        site.path("shared").display()
    )
}

fn expected() -> String {
    (0..FILES).map(|number| format!("{number}\n")).collect()
}

fn go(site: &Site, from: usize) {
    site.write(&format!("work/go{from}"), "");
}

#[test]
fn daemons_that_die_are_replaced() {
    if !has_namespaces() {
        return;
    }
    let site = Site::new();
    let script = reader(&site);
    let mut command = site.command(&["--via", "namespace", "--", "sh", "-c", &script]);
    command.stderr(Stdio::piped());
    let mut running = Running::start(command, 1);
    let mut errors = running.child.stderr.take().unwrap();
    let daemons = || processes_called(&site, "daemon");
    for (turn, from) in (0..FILES).step_by(40).enumerate() {
        go(&site, from);
        for &dead in &daemons() {
            kill_process(dead, Signal::KILL).unwrap();
            // After too many deaths in a short time, no daemon is started, and the supervisor serves.
            if turn < 3 {
                eventually("there is another daemon", || daemons().iter().any(|&pid| pid != dead));
            }
        }
    }
    assert_eq!(running.end(), (Some(0), expected()));
    let mut printed = Vec::new();
    errors.read_to_end(&mut printed).unwrap();
    assert!(!text(&printed).contains("has ended"), "{}", text(&printed));
    site.assert_clean();
}

#[test]
fn a_daemon_serves_on_without_its_supervisor() {
    if !has_namespaces() {
        return;
    }
    let site = Site::new();
    let script = reader(&site);
    let json = site.path("work/summary.json");
    let mut command = site.command(&["--via", "namespace", "--nodes", "2", "--summary-json"]);
    command.arg(&json).args(["--", "sh", "-c", &script]).stderr(Stdio::piped());
    let mut running = Running::start(command, 2);
    let mut errors = running.child.stderr.take().unwrap();
    go(&site, 0);
    for supervisor in processes_called(&site, "supervise") {
        kill_process(supervisor, Signal::KILL).unwrap();
    }
    for from in (40..FILES).step_by(40) {
        go(&site, from);
    }
    let (status, output) = running.end();
    let mut lines: Vec<&str> = output.lines().collect();
    let mut twice: Vec<String> = (0..2 * FILES).map(|number| (number / 2).to_string()).collect();
    lines.sort_unstable();
    twice.sort_unstable();
    assert_eq!((status, lines.len()), (Some(0), 2 * FILES));
    assert_eq!(lines, twice);
    let mut printed = Vec::new();
    errors.read_to_end(&mut printed).unwrap();
    assert!(text(&printed).contains("the supervisor of node 0 has ended"), "{}", text(&printed));
    let summary: Value = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
    assert_eq!(summary["daemons_lost"], 2, "their reports are lost");
    site.assert_clean();
}
