//! Content that is kept on the nodes for later sessions.

mod support;

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use headwater_abi::client::{Status, Want};
use headwater_daemon::{CacheOptions, Report, Shape};
use headwater_fuse::init::Opening;
use support::mounted::Mounted;
use support::{Cluster, elf};

/// Of changes that are younger than two seconds nothing is kept.
const AGE: Duration = Duration::from_millis(2100);
const NODES: u32 = 3;

struct Fixture {
    cluster: Cluster,
    cache: tempfile::TempDir,
    files: Vec<(&'static str, Want, Vec<u8>)>,
}

impl Fixture {
    fn new() -> Fixture {
        let numbers = |count: u32| (0..count).map(|n| (n >> 3) as u8 ^ n as u8).collect::<Vec<u8>>();
        let files = vec![
            ("lib/empty.py", Want::WHOLE, Vec::new()),
            ("lib/small.py", Want::WHOLE, b"import os\n".to_vec()),
            ("lib/some.npy", Want::WHOLE, numbers(1_000_000)),
            ("lib/large.npy", Want::WHOLE, numbers(5_000_000)),
            ("lib/x.so", Want::LOADABLE, elf(32, 0xab)),
            ("lib/text.so", Want::LOADABLE, numbers(100_000)),
        ];
        let fixture = Fixture { cluster: Cluster::prepare(), cache: tempfile::tempdir().unwrap(), files };
        fixture.files.iter().for_each(|(name, _, content)| fixture.cluster.write(name, content));
        std::thread::sleep(AGE);
        fixture
    }

    /// Runs a session in which each node uses each file.
    fn session(&mut self, shape: Shape) -> Vec<Report> {
        let cluster = &mut self.cluster;
        cluster.nodes.clear();
        let directory = self.cache.path().to_owned();
        cluster.run(NODES, |config| {
            // Each node has a disk of its own.
            let directory = directory.join(config.rank.to_string());
            config.cache = Some(CacheOptions { directory, bytes_max: Some(1 << 30) });
            config.shape = shape;
        });
        for (node, one) in cluster.nodes.iter().enumerate() {
            for (name, want, content) in &self.files {
                assert_eq!(cluster.ask(node, name, *want), Status::Done, "{name} on {node}");
                let copy = std::fs::read(one.copy(&cluster.shared(name))).unwrap();
                let mapped = if *name == "lib/x.so" { 4096 } else { content.len() };
                assert!(copy.len() == content.len() && copy[..mapped] == content[..mapped], "{name} on {node}");
            }
        }
        cluster.stop()
    }
}

/// Applies `change` to each file below `directory`.
fn each_file(directory: &Path, change: &dyn Fn(&Path)) {
    for entry in std::fs::read_dir(directory).unwrap().map(Result::unwrap) {
        match entry.file_type().unwrap().is_dir() {
            true => each_file(&entry.path(), change),
            false => change(&entry.path()),
        }
    }
}

fn check(shape: Shape) {
    let mut fixture = Fixture::new();
    let first = fixture.session(shape);
    assert!(first[0].shared_fs.files_read >= fixture.files.len() as u64);
    assert!(first.iter().all(|report| report.cached.files == 0));
    let second = fixture.session(shape);
    assert_eq!(second.iter().map(|report| report.shared_fs.bytes_read).sum::<u64>(), 0, "only attributes are read");
    let least = fixture.files.len() as u64;
    assert!(second.iter().all(|report| report.cached.files >= least), "{second:?}");
    let sent = |reports: &[Report]| reports.iter().map(|report| report.overlay.bytes).sum::<u64>();
    assert!(sent(&second) < 100_000 && sent(&first) > 10_000_000, "{} {}", sent(&first), sent(&second));
}

#[test]
fn a_later_session_reads_attributes_only() {
    check(support::CHAIN);
}

#[test]
fn a_later_session_with_striped_trees_reads_attributes_only() {
    check(Shape::Striped { trees: 3, readers: 2 });
}

#[test]
fn blocks_of_large_files_are_kept() {
    let cache = tempfile::tempdir().unwrap();
    let content: Vec<u8> = (0..40 << 20).map(|n: u32| (n / 1000) as u8 ^ n as u8).collect();
    let mut cluster = Cluster::prepare();
    cluster.write("large", &content);
    std::thread::sleep(AGE);
    let (root, dir) = (cluster.shared("").components().as_path().to_owned(), cluster.dir.path().to_owned());
    let mut session = |piece: std::ops::Range<usize>| {
        cluster.nodes.clear();
        let mounts = std::cell::RefCell::new(Vec::new());
        cluster.run(2, |config| {
            config.whole_file_bytes_max = 1 << 20;
            let directory = cache.path().join(config.rank.to_string());
            config.cache = Some(CacheOptions { directory, bytes_max: Some(1 << 30) });
            mounts.borrow_mut().push(Mounted::new(
                config,
                &dir.join(format!("mount{}", config.rank)),
                &root,
                Opening::None,
            ));
        });
        let mounts = mounts.into_inner().into_iter().collect::<Option<Vec<_>>>()?;
        let mut read = vec![0; piece.len()];
        let file = std::fs::File::open(mounts[1].path("large")).unwrap();
        file.read_exact_at(&mut read, piece.start as u64).unwrap();
        assert!(read == content[piece]);
        drop(file);
        let reports = cluster.stop();
        drop(mounts);
        for node in &cluster.nodes {
            std::fs::remove_dir_all(node.dir.path()).unwrap();
        }
        Some(reports)
    };
    let Some(first) = session(20 << 20..22 << 20) else { return };
    assert!(first[0].shared_fs.bytes_read >= 2 << 20 && first[1].cached.files == 0);
    let second = session(20 << 20..22 << 20).unwrap();
    assert!(second[1].cached.files >= 2, "{second:?}");
    assert!(second[0].shared_fs.bytes_read < first[0].shared_fs.bytes_read, "{first:?} {second:?}");
    let third = session(37 << 20..38 << 20).unwrap();
    assert!(third[0].shared_fs.bytes_read >= 1 << 20, "what was not kept is read: {third:?}");
}

#[test]
fn what_has_changed_or_is_damaged_is_read_again() {
    let mut fixture = Fixture::new();
    fixture.session(support::CHAIN);
    // Of the same size, with the same time of modification.
    let (name, _, content) = &mut fixture.files[2];
    content[500_000] ^= 1;
    let path = fixture.cluster.shared(name);
    let modified = path.metadata().unwrap().modified().unwrap();
    std::fs::write(&path, &*content).unwrap();
    std::fs::File::options().write(true).open(&path).unwrap().set_modified(modified).unwrap();
    let reports = fixture.session(support::CHAIN);
    assert_eq!(reports[0].shared_fs.bytes_read, 1_000_000);
    each_file(&fixture.cache.path().join("1"), &|path| {
        let bytes = std::fs::read(path).unwrap();
        std::fs::write(path, bytes.iter().map(|byte| byte ^ 0x10).collect::<Vec<u8>>()).unwrap();
    });
    each_file(&fixture.cache.path().join("2"), &|path| drop(std::fs::remove_file(path)));
    let reports = fixture.session(support::CHAIN);
    assert_eq!((reports[1].cached.files, reports[2].cached.files), (0, 0));
    assert!(reports[0].cached.files >= 5, "{:?}", reports[0]);
}

#[test]
fn a_cache_that_can_not_be_used_is_left_alone() {
    let mut fixture = Fixture::new();
    for rank in 0..NODES {
        std::fs::write(fixture.cache.path().join(rank.to_string()), "no directory").unwrap();
    }
    let reports = fixture.session(support::CHAIN);
    assert!(reports.iter().all(|report| report.cached.files == 0));
}
