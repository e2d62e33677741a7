//! Large files that several trees distribute, and small ones whose paths are spread over the trees.

mod support;

use std::time::{Duration, Instant};

use headwater_abi::client::{Status, Want};
use headwater_abi::table::State;
use headwater_abi::wire::BLOCK_BYTES;
use headwater_daemon::{Policy, Shape};
use support::{Cluster, elf};

/// More than a file's own reader reads alone.
const LARGE_BYTES: usize = 20 << 20;
/// Sessions that are tried at least, and for how long.
const SESSIONS_MIN: usize = 3;
const TRIES_MAX: Duration = Duration::from_secs(90);
/// Readers of the default shape.
const READERS: u64 = 2;

/// Returns bytes of which no two blocks are equal.
fn large() -> Vec<u8> {
    (0..LARGE_BYTES as u32).map(|n| (n / 5).wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect()
}

fn run(cluster: &mut Cluster, ranks: u32, policy: Policy) {
    cluster.run(ranks, |config| {
        config.shape = Shape::default_of(ranks);
        config.policy = policy;
    });
}

/// Requests the same path on all nodes at once.
fn ask_all(cluster: &Cluster, name: &str, want: Want) {
    std::thread::scope(|scope| {
        for node in 0..cluster.nodes.len() {
            scope.spawn(move || assert_eq!(cluster.ask(node, name, want), Status::Done, "{name} on {node}"));
        }
    });
}

/// Distributes a large file to all nodes. On a busy machine a node may seem dead and is bypassed,
/// so the counts have to be right in one of the sessions of some time.
fn all_have_a_large_file(ranks: u32, policy: Policy) {
    let began = Instant::now();
    let mut counts = Vec::new();
    while counts.last().is_none_or(|last: &Counts| !last.are_right()) {
        assert!(counts.len() < SESSIONS_MIN || began.elapsed() < TRIES_MAX, "{counts:?}");
        counts.push(large_file(ranks, policy));
    }
}

#[derive(Debug)]
struct Counts {
    opened: u64,
    read: u64,
    sent: Vec<u64>,
}

impl Counts {
    /// Whether each reader opens the file once, nothing is read or sent twice, and no node sends more than a file.
    fn are_right(&self) -> bool {
        // Of twenty blocks a tree has seven at most, and a push may cross a request.
        let (file, spare) = (LARGE_BYTES as u64, 3 * BLOCK_BYTES);
        let needed = (self.sent.len() as u64 - 1) * file;
        (self.opened, self.read) == (READERS, file)
            && self.sent.iter().all(|bytes| *bytes < file + spare)
            && self.sent.iter().sum::<u64>() < needed + spare
    }
}

fn large_file(ranks: u32, policy: Policy) -> Counts {
    let mut cluster = Cluster::prepare();
    let content = large();
    cluster.write("lib/large", &content);
    run(&mut cluster, ranks, policy);
    ask_all(&cluster, "lib/large", Want::WHOLE);
    let path = cluster.shared("lib/large");
    for node in &cluster.nodes {
        assert!(std::fs::read(node.copy(&path)).unwrap() == content, "the copy differs");
        let (of_copy, of_original) = (std::fs::metadata(node.copy(&path)).unwrap(), std::fs::metadata(&path).unwrap());
        assert_eq!(of_copy.modified().unwrap(), of_original.modified().unwrap());
        assert_eq!(of_copy.permissions(), of_original.permissions());
        let table = node.table();
        let record = table.reader().find(path.as_os_str().as_encoded_bytes()).unwrap();
        assert!(record.state.contains(State::WHOLE | State::LOADABLE));
    }
    let reports = cluster.stop();
    assert_eq!(reports.iter().map(|report| report.overlay.mismatches).sum::<u64>(), 0);
    Counts {
        opened: reports.iter().map(|report| report.shared_fs.files_read).sum(),
        read: reports.iter().map(|report| report.shared_fs.bytes_read).sum(),
        sent: reports.iter().map(|report| report.overlay.bytes).collect(),
    }
}

#[test]
fn five_nodes_share_the_sending_of_a_large_file() {
    all_have_a_large_file(5, Policy::Adaptive);
}

#[test]
fn no_child_that_pulls_receives_anything_twice() {
    all_have_a_large_file(4, Policy::Pull);
}

#[test]
fn of_a_large_object_the_blocks_come_that_a_loader_maps() {
    let mut cluster = Cluster::prepare();
    let mut content = elf(LARGE_BYTES / 4096, 0xcd);
    // The loader maps three blocks and a page, in the middle.
    let (offset, bytes) = (5 * BLOCK_BYTES + 4096, 2 * BLOCK_BYTES + 4096);
    for (at, value) in [(64 + 8, offset), (64 + 16, offset), (64 + 32, bytes), (64 + 40, bytes)] {
        content[at..at + 8].copy_from_slice(&value.to_le_bytes());
    }
    cluster.write("lib/x.so", &content);
    run(&mut cluster, 5, Policy::Pull);
    let path = cluster.shared("lib/x.so");
    ask_all(&cluster, "lib/x.so", Want::LOADABLE);
    let mapped = offset as usize..(offset + bytes) as usize;
    for node in &cluster.nodes {
        let copy = std::fs::read(node.copy(&path)).unwrap();
        assert!(copy[mapped.clone()] == content[mapped.clone()] && copy[..4096] == content[..4096]);
        let allocated = support::allocated(&node.copy(&path));
        assert!(allocated <= 5 * BLOCK_BYTES, "{allocated} bytes");
        let table = node.table();
        let state = table.reader().find(path.as_os_str().as_encoded_bytes()).unwrap().state;
        assert!(state.contains(State::LOADABLE) && !state.contains(State::WHOLE));
    }
    assert_eq!(cluster.ask(3, "lib/x.so", Want::WHOLE), Status::Done);
    assert!(std::fs::read(cluster.nodes[3].copy(&path)).unwrap() == content);
    let of_copy = std::fs::metadata(cluster.nodes[3].copy(&path)).unwrap();
    assert_eq!(of_copy.modified().unwrap(), std::fs::metadata(&path).unwrap().modified().unwrap());
    let reports = cluster.stop();
    let bytes_read: u64 = reports.iter().map(|report| report.shared_fs.bytes_read).sum();
    assert!(bytes_read <= LARGE_BYTES as u64 + 4 * BLOCK_BYTES, "{bytes_read} bytes read");
}

#[test]
fn paths_are_spread_over_the_readers() {
    let mut cluster = Cluster::prepare();
    for number in 0..60 {
        cluster.write(&format!("lib/d{}/f{number}", number % 6), format!("{number}").as_bytes());
    }
    run(&mut cluster, 6, Policy::Adaptive);
    for number in 0..60 {
        let name = format!("lib/d{}/f{number}", number % 6);
        ask_all(&cluster, &name, Want::WHOLE);
        let path = cluster.shared(&name);
        for node in &cluster.nodes {
            assert_eq!(std::fs::read_to_string(node.copy(&path)).unwrap(), number.to_string());
        }
    }
    let reports = cluster.stop();
    let read: Vec<u64> = reports.iter().map(|report| report.shared_fs.files_read).collect();
    assert_eq!(read.iter().sum::<u64>(), 60, "each file is opened once");
    let directories: u64 = reports.iter().map(|report| report.shared_fs.directories_read).sum();
    assert_eq!(directories, 8, "each directory is read once");
    assert!(read[0] > 10 && read[1] > 10 && read[2..].iter().all(|&files| files == 0), "two of them read: {read:?}");
}
