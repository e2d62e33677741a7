//! `headwater stats`, `clear` and `refresh`, on sessions that run.

mod site;

use std::fs;
use std::process::{Command, Output};

use rustix::process::{Signal, kill_process};
use serde_json::Value;
use site::running::{Running, processes_called};
use site::{Site, eventually, has_namespaces, text};

/// Runs `headwater` with these arguments and the site's store.
fn headwater(site: &Site, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_headwater"));
    command.args(arguments).env("HEADWATER_STORE", site.path("store")).env_remove("HEADWATER_SESSION");
    command.output().unwrap()
}

fn succeed(site: &Site, arguments: &[&str]) -> String {
    let output = headwater(site, arguments);
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

fn json(site: &Site, arguments: &[&str]) -> Value {
    serde_json::from_str(&succeed(site, arguments)).unwrap()
}

/// Starts a session whose processes run `script`, and waits until each has printed `ready`.
fn start(site: &Site, via: &str, nodes: usize, script: &str) -> Running {
    let mut command = site.command(&["--via", via, "--no-summary", "--nodes", &nodes.to_string()]);
    command.args(["--", "sh", "-c", script]);
    Running::start(command, nodes)
}

/// Returns shell code that waits for a file. It ends if the directory is removed, since the test has failed.
fn wait(name: &str) -> String {
    format!("while [ ! -e {name} ]; do [ -e $PWD ] || exit 1; sleep 0.01; done;")
}

#[test]
fn statistics_of_a_session() {
    if !has_namespaces() {
        return;
    }
    let site = Site::new();
    (0..3).for_each(|number| drop(site.write(&format!("shared/{number}"), "content")));
    let shared = site.path("shared").display().to_string();
    let script = format!("cat {shared}/0 {shared}/1 {shared}/2 > /dev/null; echo ready; {}", wait("go"));
    let running = start(&site, "namespace", 2, &script);
    let shown = json(&site, &["stats", "--json"]);
    let name = shown["session"].as_str().unwrap();
    assert_eq!(shown["nodes"].as_object().unwrap().len(), 2);
    for (number, node) in shown["nodes"].as_object().unwrap() {
        assert_eq!(node["rank"].to_string(), *number);
        assert!(node["session"].as_str().unwrap().starts_with(name));
        assert_eq!(node["holds"]["files"], 3);
        assert_eq!(node["bytes"]["store"], 21);
        assert_eq!((&node["generation"], &node["changed"]["count"]), (&1.into(), &0.into()));
        let read = node["operations"].as_array().unwrap().iter().find(|operation| operation["name"] == "read").unwrap();
        assert_eq!((read["bytes"].as_u64(), read["from_original"].as_u64()), (Some(21), Some(0)));
        assert!(read["latency"]["p50_ns"].as_u64() <= read["latency"]["max_ns"].as_u64());
    }
    assert_eq!(shown["nodes"]["0"]["shared_fs"]["files_read"], 3);
    assert_eq!(shown["nodes"]["1"]["shared_fs"]["operations"], 0);
    let table = succeed(&site, &["stats", "--node", "1", "--session", &name[..6]]);
    assert!(table.starts_with(&format!("session {name}: 1 of 2 nodes\n")), "{table}");
    let lines: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert!(lines.iter().any(|line| line.first() == Some(&"1") && line.get(7) == Some(&"3")), "{table}");
    let is_link = |line: &Vec<&str>| line.starts_with(&["1", "n0", "reader", "parent", "up"]);
    assert!(lines.iter().any(is_link), "{table}");
    assert!(lines.iter().any(|line| line.first() == Some(&"read") && line.len() == 11), "{table}");
    let mount_point = shown["nodes"]["1"]["mount"]["mount_point"].as_str().unwrap();
    if std::path::Path::new(mount_point).exists() {
        let by_mount = json(&site, &["stats", "--json", mount_point]);
        assert_eq!(by_mount["nodes"].as_object().unwrap().keys().collect::<Vec<_>>(), ["1"]);
    }
    site.write("work/go", "");
    assert_eq!(running.end().0, Some(0));
    site.assert_clean();
}

#[test]
fn a_session_is_chosen() {
    let site = Site::new();
    let none = headwater(&site, &["stats"]);
    assert_eq!(none.status.code(), Some(125));
    assert!(text(&none.stderr).contains("no session of this user lives"), "{}", text(&none.stderr));
    let script = format!("echo ready; {}", wait("go"));
    let one = start(&site, "audit", 1, &script);
    let name = json(&site, &["stats", "--json"])["session"].as_str().unwrap().to_owned();
    let other = start(&site, "audit", 2, &script);
    let several = headwater(&site, &["stats"]);
    assert_eq!(several.status.code(), Some(125));
    let printed = text(&several.stderr);
    assert!(
        printed.contains("--session") && printed.contains(&format!("{name}  0\n")) && printed.contains("  0 1\n"),
        "{printed}"
    );
    assert_eq!(json(&site, &["stats", "--json", "--session", &name])["session"], *name);
    let missing = headwater(&site, &["stats", "--session", &name, "--node", "7"]);
    assert!(text(&missing.stderr).contains("has no node 7"), "{}", text(&missing.stderr));
    assert!(text(&headwater(&site, &["stats", "--session", "xyz"]).stderr).contains("no session xyz"));
    assert!(text(&headwater(&site, &["stats", "/nonexistent"]).stderr).contains("can't be examined"));
    assert!(text(&headwater(&site, &["stats", "/proc"]).stderr).contains("has a mount at /proc"));
    assert_eq!(headwater(&site, &["clear"]).status.code(), Some(125), "what is to be cleared must be printed");
    // A stopped daemon does not answer, and the command waits for a bounded time.
    let daemons = processes_called(&site, "daemon");
    daemons.iter().for_each(|&daemon| kill_process(daemon, Signal::STOP).unwrap());
    let silent = headwater(&site, &["stats", "--session", &name]);
    daemons.iter().for_each(|&daemon| kill_process(daemon, Signal::CONT).unwrap());
    assert_eq!(silent.status.code(), Some(125));
    assert!(text(&silent.stderr).contains("silent for 5 s"), "{}", text(&silent.stderr));
    site.write("work/go", "");
    assert_eq!((one.end().0, other.end().0), (Some(0), Some(0)));
    site.assert_clean();
}

#[test]
fn programs_that_start_later_see_what_is_new() {
    if !has_namespaces() {
        return;
    }
    let site = Site::new();
    for name in ["same", "changed", "removed"] {
        site.write(&format!("shared/{name}"), &format!("first {name}\n"));
    }
    let shared = site.path("shared").display().to_string();
    let show =
        format!("cat {shared}/same {shared}/changed; ls {shared}; cat {shared}/removed {shared}/added 2>/dev/null;");
    let script = format!(
        "exec 9<{shared}/changed; {show} echo ready; {} {show} {} {show} cat <&9;",
        wait("go1"),
        wait("go2.$HEADWATER_RANK")
    );
    let first = "first same\nfirst changed\nchanged\nremoved\nsame\nfirst removed\n";
    let mut command = site.command(&["--via", "namespace", "--no-summary", "--nodes", "2", "--", "sh", "-c"]);
    command.arg(format!(
        "({script}) > out.$HEADWATER_RANK & p=$!; {} echo ready; wait $p",
        "while ! grep -q ready out.$HEADWATER_RANK; do [ -e $PWD ] || exit 1; sleep 0.01; done;"
    ));
    let running = Running::start(command, 2);
    site.write("shared/changed", "second, and longer\n");
    site.write("shared/added", "second added\n");
    fs::remove_file(site.path("shared/removed")).unwrap();
    site.write("work/go1", "");
    let out = |rank: u32| fs::read_to_string(site.path(&format!("work/out.{rank}"))).unwrap();
    for rank in [0, 1] {
        eventually("nothing new is seen", || out(rank) == format!("{first}ready\n{first}"));
    }
    let refreshed = json(&site, &["refresh", "--json", "--node", "1"]);
    assert_eq!((&refreshed["generation"], &refreshed["changed"]), (&2.into(), &3.into()));
    // A daemon's replacement knows the generations.
    let daemons = processes_called(&site, "daemon");
    daemons.iter().for_each(|&daemon| kill_process(daemon, Signal::KILL).unwrap());
    for rank in [0, 1] {
        eventually("a successor", || {
            let stats = headwater(&site, &["stats", "--json", "--node", &rank.to_string()]);
            serde_json::from_slice(&stats.stdout)
                .is_ok_and(|shown: Value| shown["nodes"][rank.to_string()]["generation"] == 2)
        });
        site.write(&format!("work/go2.{rank}"), "");
    }
    assert_eq!(running.end().0, Some(0));
    let second = "first same\nsecond, and longer\nadded\nchanged\nsame\nsecond added\n";
    for rank in [0, 1] {
        assert_eq!(out(rank), format!("{first}ready\n{first}{second}first changed\n"), "rank {rank}");
    }
    site.assert_clean();
}

#[test]
fn copies_are_discarded_and_fetched_again() {
    if !has_namespaces() {
        return;
    }
    let site = Site::new();
    (0..20).for_each(|number| drop(site.write(&format!("shared/{number:02}"), &format!("content {number}\n"))));
    let shared = site.path("shared").display().to_string();
    let script = format!(
        "cat {shared}/* | cksum; exec 9<{shared}/07; echo ready; {} cat {shared}/* | cksum; cat <&9",
        wait("go")
    );
    let mut command = site.command(&["--via", "namespace", "--no-summary", "--nodes", "2", "--", "sh", "-c"]);
    command.arg(format!("if [ $HEADWATER_RANK = 1 ]; then {script}; else echo ready; {} fi", wait("go")));
    let mut child = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
    eventually("everything is there", || {
        let stats = headwater(&site, &["stats", "--json", "--node", "1"]);
        serde_json::from_slice(&stats.stdout).is_ok_and(|shown: Value| shown["nodes"]["1"]["holds"]["files"] == 20)
    });
    eventually("the file is open", || {
        let cleared = json(&site, &["clear", "--json", "--node", "1", &format!("{shared}/07")]);
        cleared["1"]["kept_in_use"] == 1
    });
    let printed = succeed(&site, &["clear", "--node", "1", "--subtree", &shared]);
    assert!(
        printed.starts_with("node 1: 19 files discarded") && printed.contains("1 retained, since a process has"),
        "{printed}"
    );
    assert_eq!(json(&site, &["stats", "--json"])["nodes"]["0"]["holds"]["files"], 20);
    site.write("work/go", "");
    let output = child.wait_with_output_text();
    let sums: Vec<&str> = output.lines().filter(|line| *line != "ready").collect();
    assert_eq!(sums.len(), 3, "{output}");
    assert_eq!((sums[0] == sums[1], sums[2]), (true, "content 7"), "{output}");
    site.assert_clean();
}

trait OutputText {
    fn wait_with_output_text(&mut self) -> String;
}

impl OutputText for std::process::Child {
    fn wait_with_output_text(&mut self) -> String {
        let mut all = String::new();
        std::io::Read::read_to_string(self.stdout.as_mut().unwrap(), &mut all).unwrap();
        assert!(self.wait().unwrap().success());
        all
    }
}
