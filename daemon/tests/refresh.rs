//! Generations: processes from before a refresh retain the old files, later ones see the new files.

mod support;

use std::fs::File;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};

use headwater_abi::Kind;
use headwater_abi::client::{Status, Want};
use headwater_abi::table::{AtomicU64, Reader, State, word};
use headwater_daemon::protocol::{Answer, Refreshed};
use headwater_store::layout::NodeDir;
use support::{CHAIN, Cluster, Node, control, eventually, final_status, stats};

fn refresh(node: &Node, paths: &[&Path]) -> Refreshed {
    match control(node, &serde_json::json!({ "refresh": paths })) {
        Answer::Refreshed(refreshed) => refreshed,
        other => panic!("{other:?}"),
    }
}

/// The view of a process of one generation on a node.
struct Process<'a> {
    node: &'a Node,
    dir: NodeDir,
    words: Vec<AtomicU64>,
    /// Open as long as the process runs.
    _counters: File,
}

impl<'a> Process<'a> {
    /// Starts a process.
    fn start(node: &'a Node) -> Process<'a> {
        let dir = node.dir.newest();
        let counters = File::open(dir.counters()).unwrap();
        Process { node, words: words(&dir.table()), dir, _counters: counters }
    }

    /// Sends a request, and reads the table again.
    fn ask(&mut self, path: &Path, want: Want) -> Status {
        let mut stream = self.node.send(path, want, self.dir.generation());
        let status = final_status(&mut stream).unwrap();
        self.words = words(&self.dir.table());
        status
    }

    fn state(&self, path: &Path) -> Option<(Kind, State)> {
        let reader = Reader::open(&self.words).unwrap();
        reader.find(path.as_os_str().as_encoded_bytes()).map(|record| (record.kind, record.state))
    }

    /// Returns the copy's content, if the table names a copy.
    fn content(&self, path: &Path) -> Option<Vec<u8>> {
        let (_, state) = self.state(path)?;
        state.contains(State::WHOLE).then(|| std::fs::read(self.copy(path)).unwrap())
    }

    fn copy(&self, path: &Path) -> PathBuf {
        let reader = Reader::open(&self.words).unwrap();
        let mut copy = String::from_utf8(reader.header_bytes(word::STORE_AT).unwrap()).unwrap();
        copy += path.to_str().unwrap();
        copy.into()
    }
}

fn words(table: &Path) -> Vec<AtomicU64> {
    let mut bytes = std::fs::read(table).unwrap();
    let word = |number: usize| u64::from_le_bytes(bytes[number * 8..][..8].try_into().unwrap());
    bytes.truncate((word(word::HEAP_AT) + word(word::HEAP_USED)) as usize);
    bytes.chunks_exact(8).map(|word| AtomicU64::new(u64::from_le_bytes(word.try_into().unwrap()))).collect()
}

const NAMES: [&str; 5] = ["lib/same", "lib/modified", "lib/replaced", "lib/removed", "other/same"];

/// Writes a tree that all nodes know, and then changes it.
fn known_and_changed(ranks: u32) -> Cluster {
    let mut cluster = Cluster::prepare();
    NAMES.iter().for_each(|name| cluster.write(name, format!("first {name}").as_bytes()));
    symlink("same", cluster.shared("lib/link")).unwrap();
    cluster.write("gone/deep/file", b"first");
    cluster.run(ranks, |config| config.shape = CHAIN);
    for node in 0..ranks as usize {
        for name in NAMES.iter().chain(&["gone/deep/file", "lib/link"]) {
            assert_eq!(cluster.ask(node, name, Want::WHOLE), Status::Done);
        }
        assert_eq!(cluster.ask(node, "lib/added", Want::ATTR), Status::Done);
    }
    cluster
}

fn change(cluster: &Cluster) {
    cluster.write("lib/modified", b"second, and longer");
    cluster.write("lib/replacement", b"second");
    std::fs::rename(cluster.shared("lib/replacement"), cluster.shared("lib/replaced")).unwrap();
    std::fs::remove_file(cluster.shared("lib/removed")).unwrap();
    cluster.write("lib/added", b"second");
    std::fs::remove_file(cluster.shared("lib/link")).unwrap();
    symlink("modified", cluster.shared("lib/link")).unwrap();
    std::fs::remove_dir_all(cluster.shared("gone")).unwrap();
    cluster.write("gone", b"a file now");
}

fn old_processes_keep_and_new_ones_find(ranks: u32) {
    let mut cluster = known_and_changed(ranks);
    let mut old: Vec<Process<'_>> = cluster.nodes.iter().map(Process::start).collect();
    change(&cluster);
    let before = stats(&cluster.nodes[0]);
    // Requested at the far end of the tree.
    let refreshed = refresh(cluster.nodes.last().unwrap(), &[]);
    // lib, lib/modified, replaced, removed and link; gone, deep and file; the scope's root.
    assert_eq!((refreshed.generation, refreshed.changed), (2, Some(9)));
    assert_eq!(refreshed.files, 2, "lib/same and other/same");
    let after = stats(&cluster.nodes[0]);
    assert_eq!((after.generation, after.generations_kept), (2, 1));
    assert_eq!(after.shared_fs.files_read, before.shared_fs.files_read, "nothing is read to find changes");
    assert_eq!(after.shared_fs.directories_read, before.shared_fs.directories_read);

    let shared = |name: &str| cluster.shared(name);
    for (rank, node) in cluster.nodes.iter().enumerate() {
        eventually("the generation", || stats(node).generation == 2);
        let mut new = Process::start(node);
        assert_eq!(new.dir.generation(), 2);
        for name in ["lib/same", "other/same"] {
            assert_eq!(new.content(&shared(name)), Some(format!("first {name}").into_bytes()), "it is retained");
            let inode = |process: &Process<'_>| std::fs::metadata(process.copy(&shared(name))).unwrap().ino();
            assert_eq!(inode(&new), inode(&old[rank]), "and is stored once");
        }
        for name in ["lib/modified", "lib/replaced", "lib/removed", "lib/link", "gone/deep/file"] {
            assert_eq!(new.state(&shared(name)), None, "{name} is no longer known");
        }
        for (name, content) in [
            ("lib/modified", "second, and longer"),
            ("lib/replaced", "second"),
            ("lib/added", "second"),
            ("gone", "a file now"),
            ("lib/same", "first lib/same"),
        ] {
            assert_eq!(new.ask(&shared(name), Want::WHOLE), Status::Done, "{name}");
            assert_eq!(new.content(&shared(name)).as_deref(), Some(content.as_bytes()), "{name}");
        }
        assert_eq!(new.ask(&shared("lib/link"), Want::ATTR | Want::NO_FOLLOW), Status::Done);
        assert_eq!(new.state(&shared("lib/link")).unwrap().0, Kind::Link);
        assert_eq!(new.ask(&shared("lib/removed"), Want::ATTR), Status::Done);
        assert_eq!(new.state(&shared("lib/removed")), None, "its directory's listing lacks it");

        let old = &mut old[rank];
        for name in NAMES {
            assert_eq!(old.content(&shared(name)), Some(format!("first {name}").into_bytes()), "{name}");
        }
        assert_eq!(old.content(&shared("gone/deep/file")), Some(b"first".to_vec()));
        assert_eq!(
            old.ask(&shared("lib/added"), Want::WHOLE),
            Status::Fallback,
            "the older generation learns nothing new"
        );
        assert_eq!(old.content(&shared("lib/modified")), Some(b"first lib/modified".to_vec()));
    }
    let [root, leaf] = [0, ranks as usize - 1].map(|node| stats(&cluster.nodes[node]));
    assert_eq!(root.shared_fs.files_read, before.shared_fs.files_read + 4, "only new files are read");
    if ranks > 1 {
        assert_eq!(leaf.shared_fs.files_read, 0);
    }
    drop(old);
    cluster.stop();
}

#[test]
fn one_node() {
    old_processes_keep_and_new_ones_find(1);
}

#[test]
fn three_nodes() {
    old_processes_keep_and_new_ones_find(3);
}

#[test]
fn nothing_has_changed() {
    let mut cluster = known_and_changed(3);
    let reads = stats(&cluster.nodes[0]).shared_fs;
    let refreshed = refresh(&cluster.nodes[1], &[]);
    assert_eq!((refreshed.generation, refreshed.changed, refreshed.files), (1, Some(0), 6));
    for node in &cluster.nodes {
        assert_eq!((stats(node).generation, stats(node).generations_kept), (1, 0), "there is no need for another");
        let mut new = Process::start(node);
        for name in NAMES {
            assert_eq!(new.ask(&cluster.shared(name), Want::WHOLE), Status::Done);
            assert_eq!(new.content(&cluster.shared(name)), Some(format!("first {name}").into_bytes()));
        }
    }
    let now = stats(&cluster.nodes[0]).shared_fs;
    assert_eq!((now.files_read, now.directories_read), (reads.files_read, reads.directories_read));
    cluster.stop();
}

#[test]
fn only_named_paths_are_checked() {
    let mut cluster = known_and_changed(2);
    change(&cluster);
    let (before, gone) = (stats(&cluster.nodes[0]).shared_fs.operations, cluster.shared("gone"));
    let refreshed = refresh(&cluster.nodes[1], &[&gone]);
    // It, the two below it, and the directory that it is in.
    assert_eq!((refreshed.generation, refreshed.changed), (2, Some(4)));
    // Directories may have been replaced, so each of their paths' names is looked up again, once.
    let on_the_way = gone.ancestors().skip(1).filter(|directory| directory.parent().is_some()).count() as u64;
    let after = stats(&cluster.nodes[0]).shared_fs.operations;
    assert!(after <= before + on_the_way + 4, "{before}, {after}");
    eventually("the generation", || stats(&cluster.nodes[0]).generation == 2);
    for node in &cluster.nodes {
        let new = Process::start(node);
        assert_eq!(new.content(&cluster.shared("lib/modified")), Some(b"first lib/modified".to_vec()));
        assert_eq!(new.state(&gone), None);
    }
    cluster.stop();
}

#[test]
fn what_was_found_changed_is_known_again() {
    let mut cluster = known_and_changed(2);
    let modified = cluster.shared("lib/modified");
    cluster.write("lib/modified", b"second, and longer");
    for node in &cluster.nodes {
        control(node, &serde_json::json!({"clear": [{"path": modified, "subtree": false}]}));
    }
    cluster.ask(1, "lib/modified", Want::WHOLE);
    let is_passthrough =
        |node: &Node| Process::start(node).state(&modified).is_some_and(|(_, s)| s.contains(State::PASSTHROUGH));
    cluster.nodes.iter().for_each(|node| eventually("the source file is used", || is_passthrough(node)));
    refresh(&cluster.nodes[0], &[]);
    for node in &cluster.nodes {
        eventually("the generation", || stats(node).generation == 2);
        let mut new = Process::start(node);
        assert_eq!(new.ask(&modified, Want::WHOLE), Status::Done);
        assert_eq!(new.content(&modified), Some(b"second, and longer".to_vec()));
        assert!(!new.state(&modified).unwrap().1.contains(State::PASSTHROUGH));
        let directory = new.state(modified.parent().unwrap()).unwrap().1;
        assert!(!directory.contains(State::LISTING_PASSTHROUGH));
    }
    cluster.stop();
}

#[test]
fn paths_that_the_job_writes_stay_passthrough() {
    let mut cluster = known_and_changed(3);
    let mut old = Process::start(&cluster.nodes[1]);
    let path = cluster.shared("lib/modified");
    cluster.write("other/same", b"second");
    refresh(&cluster.nodes[0], &[]);
    eventually("the generation", || cluster.nodes.iter().all(|node| stats(node).generation == 2));
    // A process that started before writes.
    assert_eq!(old.ask(&path, Want::PASSTHROUGH), Status::Done);
    cluster.write("lib/modified", b"by the job");
    for node in &cluster.nodes {
        let is_passthrough =
            || Process::start(node).state(&path).is_some_and(|(_, state)| state.contains(State::PASSTHROUGH));
        eventually("all nodes use the source file", is_passthrough);
    }
    assert!(old.state(&path).unwrap().1.contains(State::PASSTHROUGH));
    let same = cluster.shared("other/same");
    assert_eq!(Process::start(&cluster.nodes[0]).ask(&same, Want::WHOLE), Status::Done);
    cluster.write("other/same", b"third and longer");
    refresh(&cluster.nodes[2], &[]);
    for node in &cluster.nodes {
        eventually("the generation", || stats(node).generation == 3);
        let mut new = Process::start(node);
        assert!(new.state(&path).unwrap().1.contains(State::PASSTHROUGH), "it may still write");
        assert_eq!(new.ask(&path, Want::WHOLE), Status::Done);
        assert_eq!(new.content(&path).filter(|_| !new.state(&path).unwrap().1.contains(State::PASSTHROUGH)), None);
    }
    cluster.stop();
}

#[test]
fn generations_follow_each_other_and_share_what_stays() {
    let mut cluster = known_and_changed(2);
    let same = cluster.shared("lib/same");
    let first = Process::start(&cluster.nodes[1]);
    for round in 0..5 {
        cluster.write("lib/modified", format!("round {round}").as_bytes());
        assert_eq!(refresh(&cluster.nodes[round % 2], &[]).generation, round as u64 + 2);
        for node in &cluster.nodes {
            eventually("the generation", || stats(node).generation == round as u64 + 2);
            let mut new = Process::start(node);
            assert_eq!(new.ask(&cluster.shared("lib/modified"), Want::WHOLE), Status::Done);
            assert_eq!(new.content(&cluster.shared("lib/modified")), Some(format!("round {round}").into_bytes()));
        }
    }
    assert_eq!(first.content(&cluster.shared("lib/modified")), Some(b"first lib/modified".to_vec()));
    let newest = Process::start(&cluster.nodes[1]);
    let inode = |process: &Process<'_>| std::fs::metadata(process.copy(&same)).unwrap().ino();
    assert_eq!(inode(&first), inode(&newest));
    // Content that is evicted now is removed from all of them.
    let clear = serde_json::json!({"clear": [{"path": same, "subtree": false}]});
    assert!(matches!(control(&cluster.nodes[1], &clear), Answer::Cleared(cleared) if cleared.files == 1));
    drop(newest);
    let first = Process { words: words(&first.dir.table()), ..first };
    assert_eq!(first.content(&same), None);
    drop(first);
    cluster.stop();
}

#[test]
fn an_unused_generation_is_removed() {
    let mut cluster = known_and_changed(1);
    let node = &cluster.nodes[0];
    let old = Process::start(node);
    cluster.write("lib/modified", &[b'x'; 100_000]);
    refresh(node, &[]);
    let mut new = Process::start(node);
    assert_eq!(new.ask(&cluster.shared("lib/modified"), Want::WHOLE), Status::Done);
    let both = stats(node);
    assert_eq!((both.generation, both.generations_kept), (2, 1));
    let (dir, used) = (old.dir.generation_dir(), both.memory.store);
    drop(old);
    eventually("the older generation's end", || stats(node).generations_kept == 0);
    assert!(!dir.exists() && new.dir.table().exists());
    let after = stats(node);
    assert!(after.memory.store < used, "the older version's bytes are released");
    assert_eq!(
        after.bytes.store,
        100_000
            + ["lib/same", "lib/replaced", "lib/removed", "other/same"].iter().map(|n| n.len() as u64 + 6).sum::<u64>()
            + 5
    );
    assert_eq!(new.content(&cluster.shared("lib/same")), Some(b"first lib/same".to_vec()));
    cluster.stop();
}

#[test]
fn without_a_new_generation_the_source_files_are_used() {
    let mut cluster = known_and_changed(2);
    let (modified, same) = (cluster.shared("lib/modified"), cluster.shared("lib/same"));
    // A file blocks the path of the leaf's second generation.
    std::fs::write(cluster.nodes[1].dir.of_generation(2).generation_dir(), b"").unwrap();
    cluster.write("lib/modified", b"second, and longer");
    assert_eq!(refresh(&cluster.nodes[0], &[]).generation, 2);
    let is_passthrough = |path: &Path| {
        let process = Process::start(&cluster.nodes[1]);
        assert_eq!(process.dir.generation(), 1);
        process.state(path).is_some_and(|(_, state)| state.contains(State::PASSTHROUGH))
    };
    eventually("the source file is used", || is_passthrough(&modified));
    assert!(!is_passthrough(&same));
    let mut process = Process::start(&cluster.nodes[1]);
    assert_eq!(process.content(&same), Some(b"first lib/same".to_vec()));
    assert_eq!(process.ask(&cluster.shared("other/same"), Want::WHOLE), Status::Done, "everything else works");
    assert_eq!(process.ask(&modified, Want::WHOLE), Status::Done);
    assert_eq!(std::fs::read(process.copy(&modified)).unwrap(), b"first lib/modified", "nothing is mixed up");
    // The next one can be made. Paths that changed before stay passthrough, new changes are known.
    let mut root = Process::start(&cluster.nodes[0]);
    assert_eq!(root.ask(&cluster.shared("lib"), Want::LISTING), Status::Done);
    cluster.write("other/same", b"third");
    assert_eq!(refresh(&cluster.nodes[1], &[]).generation, 3);
    let mut third = Process::start(&cluster.nodes[1]);
    assert_eq!(third.dir.generation(), 3);
    assert!(third.state(&modified).unwrap().1.contains(State::PASSTHROUGH));
    assert_eq!(third.ask(&cluster.shared("other/same"), Want::WHOLE), Status::Done);
    assert_eq!(third.content(&cluster.shared("other/same")), Some(b"third".to_vec()));
    cluster.write("lib/modified", b"fourth");
    assert_eq!(root.ask(&modified, Want::WHOLE), Status::Fallback);
    cluster.stop();
}

#[test]
fn a_node_sends_the_version_that_it_speaks_of() {
    let mut cluster = Cluster::prepare();
    cluster.write("lib/small", b"first");
    cluster.write("lib/large", &[1; 600_000]);
    cluster.run(3, |config| config.shape = CHAIN);
    for node in [0, 1, 2] {
        for name in ["lib/small", "lib/large"] {
            assert_eq!(cluster.ask(node, name, Want::WHOLE), Status::Done);
        }
    }
    cluster.write("lib/small", b"other");
    cluster.write("lib/large", &[2; 600_000]);
    refresh(&cluster.nodes[2], &[]);
    eventually("the generation", || cluster.nodes.iter().all(|node| stats(node).generation == 2));
    // The middle one has both, and forwards the new content.
    for node in [1, 2] {
        let mut new = Process::start(&cluster.nodes[node]);
        for (name, content) in [("lib/small", b"other".to_vec()), ("lib/large", vec![2; 600_000])] {
            assert_eq!(new.ask(&cluster.shared(name), Want::WHOLE), Status::Done);
            assert!(new.content(&cluster.shared(name)) == Some(content), "{name} on {node}");
        }
    }
    cluster.stop();
}
