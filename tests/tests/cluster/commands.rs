//! How commands on a node end.

use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use headwater_cluster::{Node, Options};

use crate::{await_end, cluster, shell};

#[test]
fn a_status_is_the_commands_own() {
    let Some(cluster) = cluster(1, &Options::default()) else { return };
    for (commands, code, signal) in [
        ("exit 0", Some(0), None),
        ("exit 7", Some(7), None),
        ("exit 255", Some(255), None),
        ("kill -TERM $$", None, Some(15)),
        ("kill -KILL $$", None, Some(9)),
    ] {
        let status = cluster.on(1).command("sh").args(["-c", commands]).status().unwrap();
        assert_eq!((status.code(), status.signal()), (code, signal), "{commands}");
    }
    let absent = cluster.on(1).command("/nowhere").stderr(Stdio::null()).status().unwrap();
    assert_eq!(absent.code(), Some(127));
}

/// A command that waits on the node, where this word identifies it.
pub fn waiting(node: &Node, word: &str) -> Child {
    let mut command = node.command("sh");
    command.args(["-c", "echo ready; read -r line", word]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    child
}

#[test]
fn a_command_ends_with_the_one_that_started_it() {
    let Some(cluster) = cluster(1, &Options::default()) else { return };
    let node = cluster.on(1);
    for signal in ["TERM", "KILL", "INT"] {
        let word = format!("waits-for-{signal}");
        let mut child = waiting(node, &word);
        let count = format!(
            "cat /proc/[0-9]*/cmdline | tr '\\0' '\\n' | grep -cx 'waits-for-[{}]{}' || :",
            &signal[..1],
            &signal[1..]
        );
        assert_eq!(shell(node, &count), "1", "{signal}");
        let sent = Command::new("sh").args(["-c", &format!("kill -{signal} {}", child.id())]).status().unwrap();
        assert!(sent.success());
        child.wait().unwrap();
        await_end("the command on the node", || shell(node, &count) == "0");
    }
}

#[test]
fn streams_and_directories_are_the_callers() {
    let Some(cluster) = cluster(1, &Options::default()) else { return };
    let here = std::env::current_dir().unwrap();
    // A node has these for itself, so the caller's directory is not there.
    let is_there = !["/tmp", "/var/tmp", "/run", "/dev/shm"].iter().any(|own| here.starts_with(own));
    let expected = if is_there { here.as_path() } else { Path::new("/") };
    assert_eq!(Path::new(&shell(cluster.on(1), "pwd -P")), expected);
    let usr = cluster.on(1).command_in(Path::new("/usr"), "pwd").output().unwrap();
    assert_eq!(usr.stdout, b"/usr\n");
    let mut cat = cluster.on(1).command("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(&mut cat.stdin.take().unwrap(), b"to and fro").unwrap();
    assert_eq!(cat.wait_with_output().unwrap().stdout, b"to and fro");
}
