//! Every end of a cluster, and that none leaves anything.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use headwater_cluster::{Cluster, Error, Options, Process, Registry, Running, check};
use headwater_tests::harness::{kill, skipped};

use crate::commands::waiting;
use crate::traces::Traces;
use crate::{await_end, cluster};

/// Set where this program is started again to make a cluster of its own.
const OWNER: &str = "HEADWATER_TEST_CLUSTER_OWNER";

#[test]
fn dropped() {
    dropped_with(&Options { rate: "1gbit".parse().ok(), ..Options::default() });
}

#[test]
fn dropped_with_delays() {
    dropped_with(&Options { rate: "1gbit".parse().ok(), ..delayed() });
}

fn delayed() -> Options {
    Options { delay: "2ms".parse().ok(), ..Options::default() }
}

fn dropped_with(options: &Options) {
    let Some(cluster) = cluster(4, options) else { return };
    let traces = Traces::of(cluster.running());
    let mut busy = waiting(cluster.on(3), "ends with its cluster");
    drop(cluster);
    traces.await_nothing();
    assert!(!busy.wait().unwrap().success());
}

fn kill_by_hand(process: Process) {
    kill(i32::try_from(process.pid).unwrap());
}

#[test]
fn switch_killed() {
    for options in [Options::default(), delayed()] {
        let Some(cluster) = cluster(3, &options) else { return };
        let traces = Traces::of(cluster.running());
        kill_by_hand(cluster.running().switch);
        traces.await_nothing();
    }
}

/// Not a test: the process that the next tests start and end. It prints what it made and, when it has dropped that,
/// what is left.
#[test]
fn owner() {
    let Ok(delay) = std::env::var(OWNER) else { return };
    let before = holdings();
    let made = Cluster::up(3, &Options { delay: delay.parse().ok(), ..Options::default() });
    match &made {
        Ok(cluster) => println!("\n{OWNER}{}", serde_json::to_string(cluster.running()).unwrap()),
        Err(error) => println!("\n{OWNER}{error}"),
    }
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
    drop(made);
    assert_eq!(holdings(), before, "what is left in the owner");
}

/// How many descriptors this process has, and how many threads.
fn holdings() -> [usize; 2] {
    ["/proc/self/fd", "/proc/self/task"].map(|directory| fs::read_dir(directory).unwrap().count())
}

/// Starts `owner` with this folder first on PATH, and with a delay if it is to have one.
fn start_owner(first_on_path: &Path, delay: &str) -> (Child, String) {
    let rest = std::env::var("PATH").unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "ends::owner", "--nocapture"]).env(OWNER, delay);
    command.env("PATH", format!("{}:{rest}", first_on_path.display()));
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.as_mut().unwrap()).lines().map_while(Result::ok);
    let line =
        lines.find_map(|line| line.strip_prefix(OWNER).map(str::to_owned)).expect("the owner prints what it made");
    (child, line)
}

#[test]
fn owner_killed() {
    if let Err(reason) = check() {
        return skipped(reason);
    }
    let nothing = tempfile::tempdir().unwrap();
    for delay in ["", "2ms"] {
        let (mut owner, line) = start_owner(nothing.path(), delay);
        let Ok(running) = serde_json::from_str::<Running>(&line) else {
            assert_eq!(delay, "2ms", "{line}");
            return skipped(line);
        };
        let traces = Traces::of(&running);
        owner.kill().unwrap();
        owner.wait().unwrap();
        traces.await_nothing();
    }
}

#[test]
fn nothing_is_left_in_the_owner() {
    if let Err(reason) = check() {
        return skipped(reason);
    }
    let nothing = tempfile::tempdir().unwrap();
    for delay in ["", "2ms"] {
        let (mut owner, _) = start_owner(nothing.path(), delay);
        drop(owner.stdin.take());
        assert!(owner.wait().unwrap().success(), "with the delay {delay:?}");
    }
}

/// Has `program` fail where `commands` do; expects the error to name it, and the third node.
fn check_failure(program: &str, commands: &str) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(program);
    let real = std::env::split_paths(&std::env::var_os("PATH").unwrap()).map(|f| f.join(program)).find(|p| p.exists());
    fs::write(&path, format!("#!/bin/sh\nreal={}\n{commands}\n", real.unwrap().display())).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    let (mut owner, line) = start_owner(folder.path(), "");
    assert!(line.contains("no luck") && line.contains("node003"), "{program}: {line}");
    // Every process of the cluster would have the folder in its environment, as its owner has it.
    await_end("a failed cluster", || with_environment(folder.path()) == [owner.id()]);
    drop(owner.stdin.take());
    owner.wait().unwrap();
}

fn with_environment(word: &Path) -> Vec<u32> {
    let word = word.to_str().unwrap();
    let pids = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok());
    let has = |pid: &u32| {
        String::from_utf8_lossy(&fs::read(format!("/proc/{pid}/environ")).unwrap_or_default()).contains(word)
    };
    pids.filter(has).collect()
}

#[test]
fn failed() {
    if let Err(reason) = check() {
        return skipped(reason);
    }
    let moves = "[ \"$(cat /proc/sys/kernel/hostname) $2\" = 'node003 --move' ] && { echo no luck >&2; exit 1; }";
    check_failure("mount", &format!("{moves}\nexec $real \"$@\""));
    let third = "case $lines in *10.77.0.3/*) echo no luck >&2; exit 1;; esac";
    check_failure("ip", &format!("lines=$(cat)\n{third}\nprintf '%s\\n' \"$lines\" | $real \"$@\""));
}

#[test]
fn by_name() {
    if let Err(reason) = check() {
        return skipped(reason);
    }
    let parent = tempfile::tempdir().unwrap();
    let directory = parent.path().join("clusters");
    let open = || Registry::open_at(&directory).unwrap();
    let first = open().up("first", 2, &Options::default()).unwrap();
    let second = open().up("second", 3, &Options::default()).unwrap();
    let traces = [Traces::of(&first), Traces::of(&second)];
    let again = open().up("first", 2, &Options::default()).unwrap_err();
    assert!(matches!(again, Error::Exists { .. }) && again.to_string().contains("2 nodes (node001 to node002)"));
    assert_eq!(open().list().unwrap().iter().map(|r| r.name.as_str()).collect::<Vec<_>>(), ["first", "second"]);
    assert_eq!(open().get("second").unwrap().find("3").unwrap().name, "node003");

    assert!(open().down("first").unwrap());
    traces[0].await_nothing();
    assert!(!open().down("first").unwrap());
    assert!(second.is_alive());
    // Killed by hand, one after another, it ends with the last.
    for node in &second.nodes {
        kill_by_hand(node.holder);
    }
    traces[1].await_nothing();
    await_end("the switch", || open().list().unwrap().is_empty());
    assert!(!directory.exists(), "the directory is removed with the last cluster");
}
