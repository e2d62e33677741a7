//! Several daemons: one reads, all receive.

mod support;

use headwater_abi::client::{Status, Want};
use headwater_abi::table::State;
use headwater_daemon::Policy;
use support::{Cluster, elf, eventually};

/// A tree with small and large files, directories and an object with holes.
fn tree(cluster: &Cluster) -> Vec<(String, Vec<u8>)> {
    let mut files = vec![
        ("lib/empty.py".to_owned(), Vec::new()),
        ("lib/small.py".to_owned(), b"import os\n".to_vec()),
        ("lib/large.npy".to_owned(), (0..1_000_000u32).map(|n| (n >> 3) as u8).collect()),
    ];
    files.extend((0..20).map(|n| (format!("lib/deep/er/f{n}.py"), vec![n as u8; 1000 * n])));
    for (name, content) in &files {
        cluster.write(name, content);
    }
    files
}

fn every_node_has_all(ranks: u32, policy: Policy) {
    let mut cluster = Cluster::prepare();
    let files = tree(&cluster);
    cluster.run(ranks, |config| config.policy = policy);
    std::thread::scope(|scope| {
        for node in (0..ranks as usize).rev() {
            let (cluster, files) = (&cluster, &files);
            scope.spawn(move || {
                for (name, _) in files {
                    assert_eq!(cluster.ask(node, name, Want::WHOLE), Status::Done, "{name} on {node}");
                }
                assert_eq!(cluster.ask(node, "lib/absent", Want::ATTR), Status::Done);
            });
        }
    });
    for node in &cluster.nodes {
        let table = node.table();
        for (name, content) in &files {
            let path = cluster.shared(name);
            assert!(std::fs::read(node.copy(&path)).unwrap() == *content, "{name} differs");
            let record = table.reader().find(path.as_os_str().as_encoded_bytes()).unwrap();
            assert!(record.state.contains(State::WHOLE), "{name}");
        }
    }
    let reports = cluster.stop();
    assert_eq!(reports[0].shared_fs.files_read, files.len() as u64, "each file is opened once");
    assert_eq!(reports[0].shared_fs.directories_read, 4, "each directory is read once");
    let bytes: usize = files.iter().map(|(_, content)| content.len()).sum();
    assert_eq!(reports[0].shared_fs.bytes_read, bytes as u64);
    assert!(reports[1..].iter().all(|report| report.shared_fs.operations == 0), "only the reader reads");
    if ranks > 1 {
        assert!(reports[0].overlay.bytes > bytes as u64 && reports[0].overlay.messages > 20);
        assert!(reports.iter().all(|report| report.first_byte_unix_ms <= report.last_file_unix_ms));
    }
    assert_eq!(
        reports[0].depth,
        match ranks {
            1 => 0,
            4 => 1,
            _ => 3,
        }
    );
}

#[test]
fn one_node() {
    every_node_has_all(1, Policy::Adaptive);
}

#[test]
fn four_nodes_pull() {
    every_node_has_all(4, Policy::Pull);
}

#[test]
fn sixteen_nodes_push() {
    every_node_has_all(16, Policy::Push);
}

#[test]
fn sixteen_nodes_adapt() {
    every_node_has_all(16, Policy::Adaptive);
}

#[test]
fn content_that_one_node_requests_is_pushed_to_all() {
    let mut cluster = Cluster::prepare();
    cluster.write("a.py", b"pushed");
    cluster.run(6, |config| config.policy = Policy::Push);
    assert_eq!(cluster.ask(5, "a.py", Want::WHOLE), Status::Done);
    let path = cluster.shared("a.py");
    for node in &cluster.nodes {
        eventually("the push", || {
            let table = node.table();
            let record = table.reader().find(path.as_os_str().as_encoded_bytes());
            record.is_some_and(|record| record.state.contains(State::WHOLE))
        });
        assert_eq!(std::fs::read(node.copy(&path)).unwrap(), b"pushed");
    }
    cluster.stop();
}

#[test]
fn holes_are_filled_on_every_node() {
    let mut cluster = Cluster::prepare();
    let content = elf(30, 0xcd);
    cluster.write("lib/x.so", &content);
    cluster.run(4, |_| ());
    let path = cluster.shared("lib/x.so");
    for node in 1..4 {
        assert_eq!(cluster.ask(node, "lib/x.so", Want::LOADABLE), Status::Done);
        assert_eq!(support::allocated(&cluster.nodes[node].copy(&path)), 4096);
    }
    assert_eq!(cluster.ask(3, "lib/x.so", Want::WHOLE), Status::Done);
    assert!(std::fs::read(cluster.nodes[3].copy(&path)).unwrap() == content);
    assert_eq!(support::allocated(&cluster.nodes[1].copy(&path)), 4096, "copies elsewhere retain their holes");
    let reports = cluster.stop();
    assert_eq!(reports[0].shared_fs.bytes_read, 2 * content.len() as u64 - 4096);
}

#[test]
fn loadable_and_whole_are_wanted_at_once() {
    let mut cluster = Cluster::prepare();
    for number in 0..60 {
        cluster.write(&format!("lib/x{number}.so"), &elf(10, number));
    }
    cluster.run(2, |_| ());
    for number in 0..60 {
        let name = format!("lib/x{number}.so");
        std::thread::scope(|scope| {
            let wants = [Want::LOADABLE, Want::WHOLE, Want::EXECUTE, Want::ATTR];
            for (node, want) in (0..2).flat_map(|node| wants.map(|want| (node, want))) {
                let (cluster, name) = (&cluster, &name);
                scope.spawn(move || {
                    assert_eq!(cluster.ask(node, name, want), Status::Done, "{name} {want:?} on {node}")
                });
            }
        });
        for node in &cluster.nodes {
            assert!(std::fs::read(node.copy(&cluster.shared(&name))).unwrap() == elf(10, number));
        }
    }
    cluster.stop();
}

#[test]
fn a_passthrough_path_is_passthrough_on_all_nodes() {
    let mut cluster = Cluster::prepare();
    cluster.write("pkg/a.py", b"pass");
    cluster.run(4, |_| ());
    assert_eq!(cluster.ask(3, "pkg/new", Want::PASSTHROUGH), Status::Done);
    let path = cluster.shared("pkg/new");
    for node in &cluster.nodes {
        eventually("the message", || {
            let table = node.table();
            let record = table.reader().find(path.as_os_str().as_encoded_bytes());
            record.is_some_and(|record| record.state.contains(State::PASSTHROUGH))
        });
    }
    cluster.stop();
}

#[test]
fn a_node_without_ancestors_reads() {
    let mut cluster = Cluster::prepare();
    cluster.write("a.py", b"x");
    cluster.run(2, |_| ());
    cluster.nodes[0].orphan();
    assert_eq!(cluster.ask(1, "a.py", Want::WHOLE), Status::Done);
    assert_eq!(cluster.nodes[1].orphan(), "");
}
