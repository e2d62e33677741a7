//! A volume on three nodes.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use headwater_cluster::{Cluster, Options};
use headwater_tests::harness::services::gluster::{Counts, Gluster, Server, VOLUME};
use headwater_tests::harness::{processes_using, skipped, wait_until};

const FILES: u64 = 20;
const FILE_BYTES: u64 = 1000;
const DELAY: Duration = Duration::from_millis(20);
/// How long processes may take to end after their node has.
const END_MAX: Duration = Duration::from_secs(5);

/// Reads all files on the first of the nodes; how long that took.
fn read(cluster: &Cluster, node: usize) -> Duration {
    let started = Instant::now();
    let output = cluster.on(node).command("sh").args(["-c", &format!("cat {VOLUME}/files/*")]).output().unwrap();
    assert_eq!(output.stdout.len() as u64, FILES * FILE_BYTES, "{output:?}");
    started.elapsed()
}

/// The server's counts while two nodes read all files.
fn counted(cluster: &Cluster, gluster: &Gluster) -> (Duration, Counts) {
    gluster.mount(2).unwrap();
    gluster.reset().unwrap();
    let took = read(cluster, 1) + read(cluster, 2);
    let counts = gluster.counts().unwrap();
    gluster.unmount().unwrap();
    (took, counts)
}

/// A node's network namespace, as the kernel names it.
fn network(cluster: &Cluster, node: usize) -> String {
    let output = cluster.on(node).command("readlink").arg("/proc/self/ns/net").output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[test]
fn the_server_counts_and_can_be_slow() {
    if let Err(reason) = headwater_cluster::check() {
        return skipped(reason);
    }
    let directory = headwater_tests::scratch("gluster");
    let files = directory.path().join("files");
    fs::create_dir(&files).unwrap();
    (0..FILES).for_each(|n| fs::write(files.join(n.to_string()), vec![b'x'; FILE_BYTES as usize]).unwrap());
    let options = Options { shares: vec![directory.path().to_path_buf()], ..Options::default() };
    let cluster = Cluster::up(3, &options).unwrap();
    let gluster = match Gluster::start(&cluster) {
        Err(reason) if reason.contains("is not installed") => return skipped(reason),
        started => started.unwrap(),
    };
    gluster.fill(&[files]).unwrap();
    let (_, quick) = counted(&cluster, &gluster);
    assert_eq!((quick.opens, quick.bytes), (2 * FILES, 2 * FILES * FILE_BYTES), "{quick:?}");
    assert!(quick.lookups >= 2 * FILES && quick.reads >= 2 * FILES, "{quick:?}");
    gluster.set(Server::SlowMetadata { delay_us: DELAY.as_micros() as u32 }).unwrap();
    let (slow, counts) = counted(&cluster, &gluster);
    assert_eq!(counts.opens, quick.opens, "{counts:?}");
    assert!(slow >= DELAY * (counts.opens + counts.reads) as u32, "{slow:?}, {counts:?}");
    gluster.set(Server::SlowLink("80mbit".parse().unwrap())).unwrap();
    assert_eq!(counted(&cluster, &gluster).1.bytes, quick.bytes);
    gluster.mount(1).unwrap();
    // Other tests have volumes at the same path, in nodes of their own.
    let spaces: Vec<String> = (1..=3).map(|node| network(&cluster, node)).collect();
    let is_of_these = |pid: i32| {
        let space = fs::read_link(format!("/proc/{pid}/ns/net"));
        space.is_ok_and(|space| spaces.iter().any(|own| Path::new(own) == space))
    };
    let users =
        || -> Vec<_> { processes_using(Path::new(VOLUME)).into_iter().filter(|(pid, _)| is_of_these(*pid)).collect() };
    assert!(!users().is_empty(), "a client");
    drop(cluster);
    assert!(wait_until(END_MAX, || users().is_empty()), "{:?}", users());
}
