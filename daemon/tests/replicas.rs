//! Copies for memory domains: a daemon with real files on a machine whose domains the test simulates.

mod support;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use headwater_abi::client::{Status, Want};
use headwater_abi::table::{State, word};
use headwater_daemon::Config;
use headwater_daemon::protocol::Answer;
use support::{Cluster, allocated, control, elf, eventually, final_status, stats};

/// Bytes of each library.
const BYTES: u64 = 64 << 10;

/// Simulates the kernel's description of these domains: the number, and KiB of free memory.
fn domains(cluster: &Cluster, simulated: &[(u32, u64)]) -> PathBuf {
    let directory = cluster.dir.path().join("domains");
    for (number, free) in simulated {
        let node = directory.join(format!("node{number}"));
        fs::create_dir_all(&node).unwrap();
        fs::write(node.join("cpulist"), "0-1023\n").unwrap();
        let meminfo = format!("Node {number} MemTotal: {:>9} kB\nNode {number} MemFree: {free:>9} kB\n", 1u64 << 30);
        fs::write(node.join("meminfo"), meminfo).unwrap();
    }
    directory
}

/// A session with libraries `lib0.so` to `lib7.so`, on a machine with domains 0, 1 and 12, of which 1 is the home.
fn session(change: impl Fn(&mut Config)) -> Cluster {
    let mut cluster = Cluster::prepare();
    for number in 0..8 {
        cluster.write(&format!("lib{number}.so"), &elf(16, number));
    }
    let directory = domains(&cluster, &[(0, 1 << 28), (1, 1 << 29), (12, 1 << 28)]);
    cluster.run(1, |config| {
        config.numa_replicas = Some(directory.clone());
        change(config);
    });
    cluster
}

/// Where a domain's copy stands.
fn replica(cluster: &Cluster, domain: u32, name: &str) -> PathBuf {
    let mut copy = cluster.nodes[0].dir.newest().root().into_os_string();
    copy.push(domain.to_string());
    copy.push(cluster.shared(name));
    copy.into()
}

fn first(cluster: &Cluster, name: &str) -> PathBuf {
    let mut copy = cluster.nodes[0].dir.newest().root().into_os_string();
    copy.push(cluster.shared(name));
    copy.into()
}

fn state(cluster: &Cluster, name: &str) -> State {
    let node = &cluster.nodes[0];
    let bytes = fs::read(node.dir.newest().table()).unwrap();
    let words: Vec<_> = bytes
        .chunks_exact(8)
        .map(|word| headwater_abi::table::AtomicU64::new(u64::from_le_bytes(word.try_into().unwrap())))
        .collect();
    let reader = headwater_abi::table::Reader::open(&words).unwrap();
    reader.find(cluster.shared(name).as_os_str().as_encoded_bytes()).map_or(State::empty(), |record| record.state)
}

fn is_replicated(cluster: &Cluster, name: &str) -> bool {
    state(cluster, name).contains(State::REPLICATED)
}

fn is_link(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_symlink())
}

/// Fetches a library and waits for its copies.
fn fetch(cluster: &Cluster, name: &str, want: Want) {
    let node = &cluster.nodes[0];
    let mut asked = node.send(&cluster.shared(name), want, node.dir.newest().generation());
    assert_eq!(final_status(&mut asked), Some(Status::Done), "{name}");
    eventually("a library's copies", || is_replicated(cluster, name));
}

/// Clears all content of the daemon; returns how many files it cleared, and how many are in use and stay.
fn clear(cluster: &Cluster) -> (u64, u64) {
    let command = serde_json::json!({"clear": [{"path": cluster.dir.path().join("shared"), "subtree": true}]});
    match control(&cluster.nodes[0], &command) {
        Answer::Cleared(cleared) => (cleared.files, cleared.kept_in_use),
        other => panic!("{other:?}"),
    }
}

#[test]
fn each_further_domain_has_a_copy_of_what_is_mapped() {
    let mut cluster = session(|_| ());
    cluster.write("data", &[7; 9000]);
    fs::create_dir(cluster.shared("link")).unwrap();
    std::os::unix::fs::symlink("../lib0.so", cluster.shared("link/lib.so")).unwrap();
    let absolute = cluster.shared("lib1.so");
    std::os::unix::fs::symlink(&absolute, cluster.shared("link/absolute.so")).unwrap();
    assert_eq!(cluster.ask(0, "data", Want::WHOLE), Status::Done);
    let header = fs::read(cluster.nodes[0].dir.table()).unwrap();
    let mask = u64::from_le_bytes(*header[word::DOMAINS * 8..].first_chunk().unwrap());
    assert_eq!(mask, 1 | 1 << 12, "the home has the first copy");
    assert_eq!(cluster.ask(0, "link/lib.so", Want::LOADABLE), Status::Done);
    fetch(&cluster, "lib0.so", Want::LOADABLE);
    fetch(&cluster, "lib1.so", Want::WHOLE);
    assert_eq!(cluster.ask(0, "link/absolute.so", Want::WHOLE), Status::Done);
    assert!(!state(&cluster, "lib0.so").contains(State::REPLICATED_WHOLE));
    assert!(state(&cluster, "lib1.so").contains(State::REPLICATED_WHOLE));
    for domain in [0, 12] {
        for name in ["lib0.so", "lib1.so", "link/lib.so", "link/absolute.so"] {
            let (copy, first) = (replica(&cluster, domain, name), first(&cluster, name));
            assert!(fs::read(&copy).unwrap() == fs::read(&first).unwrap(), "{name}");
            let (copy, first) = (fs::metadata(copy).unwrap(), fs::metadata(first).unwrap());
            assert_eq!((copy.mode(), copy.mtime(), copy.blocks()), (first.mode(), first.mtime(), first.blocks()));
            assert!(copy.ino() != first.ino(), "{name}");
        }
        assert!(!replica(&cluster, domain, "data").exists(), "a file that is only read has one copy");
    }
    let first = allocated(&first(&cluster, "lib0.so")) + allocated(&first(&cluster, "lib1.so"));
    let report = cluster.stop().remove(0);
    assert_eq!(report.memory.replica_bytes, 2 * first);
    assert_eq!(report.memory.store_bytes, 3 * first + 12288);
}

#[test]
fn only_what_patterns_name_is_copied() {
    let mut cluster = session(|config| config.numa_replicas_for = vec!["*/lib2.*".into(), "/nonexistent/*".into()]);
    assert_eq!(cluster.ask(0, "lib0.so", Want::LOADABLE), Status::Done);
    // Copies are made in the order of arrival.
    fetch(&cluster, "lib2.so", Want::LOADABLE);
    assert!(!is_replicated(&cluster, "lib0.so"));
    cluster.stop();
}

#[test]
fn what_comes_whole_later_is_loaded_from_the_copies_and_executed_from_the_first() {
    let mut cluster = session(|_| ());
    fetch(&cluster, "lib3.so", Want::LOADABLE);
    let before = fs::metadata(replica(&cluster, 0, "lib3.so")).unwrap().ino();
    assert_eq!(cluster.ask(0, "lib3.so", Want::WHOLE), Status::Done);
    fetch(&cluster, "lib4.so", Want::WHOLE);
    assert!(state(&cluster, "lib3.so").contains(State::WHOLE | State::REPLICATED));
    assert!(!state(&cluster, "lib3.so").contains(State::REPLICATED_WHOLE));
    assert_eq!(fs::metadata(replica(&cluster, 0, "lib3.so")).unwrap().ino(), before, "its user finds it");
    cluster.stop();
}

#[test]
fn one_domain_has_nothing_to_copy() {
    let mut cluster = Cluster::prepare();
    cluster.write("lib.so", &elf(4, 1));
    let directory = domains(&cluster, &[(0, 1 << 28)]);
    cluster.run(1, |config| config.numa_replicas = Some(directory.clone()));
    assert_eq!(cluster.ask(0, "lib.so", Want::WHOLE), Status::Done);
    let header = fs::read(cluster.nodes[0].dir.table()).unwrap();
    assert_eq!(header[word::DOMAINS * 8..][..8], [0; 8]);
    assert_eq!(fs::read_dir(cluster.nodes[0].dir.generation_dir()).unwrap().count(), 3, "table, counters, root");
    let report = cluster.stop().remove(0);
    assert_eq!((report.memory.replica_bytes, report.memory.store_bytes), (0, 4 * 4096));
}

#[test]
fn what_has_no_room_in_a_domain_is_not_copied() {
    let mut cluster = Cluster::prepare();
    cluster.write("large.so", &elf(300, 1));
    cluster.write("small.so", &elf(4, 1));
    // 64 MiB stay free.
    let directory = domains(&cluster, &[(0, 1 << 28), (1, (64 << 10) + 1000), (2, 1 << 27)]);
    cluster.run(1, |config| config.numa_replicas = Some(directory.clone()));
    assert_eq!(cluster.ask(0, "large.so", Want::WHOLE), Status::Done);
    fetch(&cluster, "small.so", Want::WHOLE);
    assert!(!is_replicated(&cluster, "large.so") && !replica(&cluster, 2, "large.so").exists());
    assert_eq!(fs::read_dir(cluster.nodes[0].dir.incoming()).unwrap().count(), 0, "and nothing of it is left");
    cluster.stop();
}

#[test]
fn copies_are_evicted_with_the_first_and_come_back_with_it() {
    let mut cluster = session(|_| ());
    fetch(&cluster, "lib2.so", Want::WHOLE);
    let open = fs::File::open(replica(&cluster, 12, "lib2.so")).unwrap();
    assert_eq!(clear(&cluster), (0, 1));
    assert!(is_replicated(&cluster, "lib2.so"), "an open copy of a domain retains the first");
    drop(open);
    assert_eq!(clear(&cluster), (1, 0));
    assert_eq!(state(&cluster, "lib2.so") & State::CONTENT, State::empty());
    assert!(replica(&cluster, 0, "lib2.so").exists(), "a process that has looked it up finds it");
    fetch(&cluster, "lib2.so", Want::WHOLE);
    for domain in [0, 12] {
        assert!(!is_link(&replica(&cluster, domain, "lib2.so")));
    }
    assert_eq!(clear(&cluster), (1, 0));
    eventually("evicted copies are removed", || {
        !replica(&cluster, 0, "lib2.so").exists() && !first(&cluster, "lib2.so").exists()
    });
    assert_eq!(stats(&cluster.nodes[0]).memory.store, 0);
    cluster.stop();
}

#[test]
fn content_takes_the_room_of_unused_copies() {
    // Eight libraries fit beside what is left to evicted content, and copies of two before all are there.
    let mut cluster = session(|config| config.store_bytes_max = 15 * BYTES);
    fetch(&cluster, "lib0.so", Want::WHOLE);
    let open = fs::File::open(replica(&cluster, 0, "lib0.so")).unwrap();
    fetch(&cluster, "lib1.so", Want::WHOLE);
    for number in 2..8 {
        assert_eq!(cluster.ask(0, &format!("lib{number}.so"), Want::WHOLE), Status::Done);
    }
    eventually("unused copies are evicted", || is_link(&replica(&cluster, 12, "lib1.so")));
    assert!(!is_link(&replica(&cluster, 0, "lib0.so")), "a file in use stays");
    let (link, first) = (replica(&cluster, 0, "lib1.so"), first(&cluster, "lib1.so"));
    assert_eq!(fs::metadata(link).unwrap().ino(), fs::metadata(first).unwrap().ino());
    assert!(is_replicated(&cluster, "lib1.so"), "its names lead to the first copy");
    for number in 0..8 {
        assert!(state(&cluster, &format!("lib{number}.so")).contains(State::WHOLE), "copies evict no content");
    }
    assert_eq!(cluster.stop().remove(0).memory.replica_bytes, 2 * BYTES);
    drop(open);
}

#[test]
fn a_new_generation_retains_copies_of_unchanged_files() {
    let mut cluster = session(|_| ());
    fetch(&cluster, "lib0.so", Want::WHOLE);
    fetch(&cluster, "lib1.so", Want::WHOLE);
    let old = |name: &str| {
        let mut copy = cluster.nodes[0].dir.root().into_os_string();
        copy.push("12");
        copy.push(cluster.shared(name));
        PathBuf::from(copy)
    };
    let before: Vec<u64> = ["lib0.so", "lib1.so"].map(|name| fs::metadata(old(name)).unwrap().ino()).into();
    // A process of the older generation retains it.
    let counters = fs::File::open(cluster.nodes[0].dir.counters()).unwrap();
    fs::remove_file(cluster.shared("lib1.so")).unwrap();
    cluster.write("lib1.so", &elf(20, 99));
    let refresh = serde_json::json!({"refresh": [cluster.shared("")]});
    assert!(matches!(control(&cluster.nodes[0], &refresh), Answer::Refreshed(_)));
    eventually("a generation", || cluster.nodes[0].dir.newest().generation() == 2);
    assert_eq!(fs::metadata(replica(&cluster, 12, "lib0.so")).unwrap().ino(), before[0]);
    assert!(is_replicated(&cluster, "lib0.so") && !is_replicated(&cluster, "lib1.so"));
    fetch(&cluster, "lib1.so", Want::WHOLE);
    assert_eq!(fs::metadata(replica(&cluster, 12, "lib1.so")).unwrap().len(), 20 * 4096);
    assert_eq!(fs::metadata(old("lib1.so")).unwrap().ino(), before[1]);
    drop(counters);
    eventually("the older generation is removed", || !cluster.nodes[0].dir.generation_dir().exists());
    let (store, replicas) = (3 * (BYTES + 20 * 4096), 2 * (BYTES + 20 * 4096));
    let report = cluster.stop().remove(0);
    assert_eq!((report.memory.store_bytes, report.memory.replica_bytes), (store, replicas));
}
