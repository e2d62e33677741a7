//! Each node's own parts, and the shared ones.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

use headwater_cluster::{Node, Options, RAM_DISKS};

use crate::commands::waiting;
use crate::{cluster, shell};

/// Sends back received bytes, connection after connection.
const ECHO: &str = "
import socket
server = socket.create_server(('', 7000))
print('ready', flush=True)
while True:
    connection, _ = server.accept()
    connection.sendall(connection.recv(100) + b' from ' + socket.gethostname().encode())
    connection.close()
";
const QUERY: &str = "
import socket, sys
for name in sys.argv[1:]:
    connection = socket.create_connection((name, 7000))
    connection.sendall(socket.gethostname().encode())
    print(connection.makefile().read())
";

/// Has each of these nodes query each by its name; returns the answers, by the querying and then the answering node.
fn ask_all(nodes: &[&Node]) -> String {
    let mut servers = Vec::new();
    for node in nodes {
        let mut server = node.command("python3").args(["-c", ECHO]).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
        servers.push(server);
    }
    let names = nodes.iter().map(|node| &node.name);
    let query = |node: &&Node| node.command("python3").args(["-c", QUERY]).args(names.clone()).output().unwrap();
    let answers =
        nodes.iter().map(query).map(|output| String::from_utf8([output.stdout, output.stderr].concat()).unwrap());
    let answers = answers.collect();
    for mut server in servers {
        server.kill().unwrap();
        server.wait().unwrap();
    }
    answers
}

#[test]
fn names_and_addresses() {
    let Some(cluster) = cluster(4, &Options::default()) else { return };
    for (node, name) in cluster.nodes().iter().zip(["node001", "node002", "node003", "node004"]) {
        assert_eq!(node.name, name);
        assert_eq!(shell(node, "hostname"), name);
        assert_eq!(shell(node, "ls /sys/class/net >/dev/null; ip -o link | wc -l"), "2", "lo and eth0");
        for other in cluster.nodes() {
            let found = shell(node, &format!("getent ahostsv4 {}", other.name));
            assert!(found.starts_with(&format!("{} ", other.address)), "{found}");
        }
    }
    assert_ne!(fs::read_to_string("/proc/sys/kernel/hostname").unwrap().trim(), "node001", "the host's name");
}

#[test]
fn every_node_reaches_every_other_by_name() {
    let Some(cluster) = cluster(4, &Options::default()) else { return };
    let nodes: Vec<&Node> = cluster.nodes().iter().collect();
    let mut expected = String::new();
    for from in &nodes {
        for to in &nodes {
            expected += &format!("{} from {}\n", from.name, to.name);
        }
    }
    assert_eq!(ask_all(&nodes), expected);
}

#[test]
fn each_has_its_own_ram_disks() {
    let share = tempfile::tempdir_in("/tmp").unwrap();
    let unshared = tempfile::tempdir_in("/tmp").unwrap();
    let shares = vec![share.path().to_owned()];
    let Some(cluster) = cluster(3, &Options { ram_disk_mib: 8, shares, ..Options::default() }) else { return };
    for disk in RAM_DISKS {
        for node in cluster.nodes() {
            let file = format!("{disk}/headwater-cluster-test");
            let write = format!("test ! -e {file}; stat -f -c %T {disk}; echo {} >{file}", node.name);
            assert_eq!(shell(node, &write), "tmpfs", "{disk} on {}", node.name);
            assert!(!fs::exists(&file).unwrap(), "the host has {file}");
        }
        let full = format!("if head -c 9M /dev/zero >{disk}/big 2>/dev/null; then echo fits; else echo full; fi");
        assert_eq!(shell(cluster.on(1), &full), "full", "{disk} has 8 MiB");
    }
    let name = share.path().display();
    shell(cluster.on(1), &format!("echo seen >{name}/file"));
    assert_eq!(shell(cluster.on(3), &format!("cat {name}/file")), "seen");
    assert_eq!(fs::read_to_string(share.path().join("file")).unwrap(), "seen\n");
    shell(cluster.on(2), &format!("test ! -e {}", unshared.path().display()));
}

#[test]
fn each_has_its_own_processes() {
    let Some(cluster) = cluster(2, &Options::default()) else { return };
    let mut sleeper = cluster.on(1).command("sh");
    let mut child = sleeper.args(["-c", "echo $$; exec sleep 1000"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut pid = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut pid).unwrap();
    let sleepers = "cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -c 'sleep [1]000' || :";
    assert_eq!(shell(cluster.on(1), sleepers), "1");
    assert_eq!(shell(cluster.on(2), sleepers), "0");
    assert_eq!(shell(cluster.on(2), &format!("kill -0 {} 2>/dev/null || echo none", pid.trim())), "none");
    assert_eq!(shell(cluster.on(2), "tr '\\0' ' ' </proc/1/cmdline"), "sleep infinity");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_dead_node_takes_no_other_along() {
    let Some(cluster) = cluster(3, &Options::default()) else { return };
    let mut on_it = waiting(cluster.on(2), "dies with its node");
    cluster.on(2).kill().unwrap();
    assert!(!on_it.wait().unwrap().success(), "its processes end with it");
    assert!(
        !cluster.on(2).is_alive() && !cluster.on(2).command("true").stderr(Stdio::null()).status().unwrap().success()
    );
    assert!(cluster.on(1).is_alive());
    let expected = "node001 from node001\nnode001 from node003\nnode003 from node001\nnode003 from node003\n";
    assert_eq!(ask_all(&[cluster.on(1), cluster.on(3)]), expected);
}
