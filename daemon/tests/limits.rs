//! A store that is full: content gives way, or its processes use the originals.

mod support;

use std::fs::File;
use std::path::PathBuf;
use std::process::Command;

use headwater_abi::client::{Status, Want};
use headwater_abi::table::State;
use headwater_daemon::TableGeometry;
use support::Cluster;

fn is_resident(cluster: &Cluster, name: &str) -> bool {
    let table = cluster.nodes[0].table();
    let path = cluster.shared(name);
    let record = table.reader().find(path.as_os_str().as_encoded_bytes());
    let resident = record.is_some_and(|record| record.state.contains(State::WHOLE));
    // The other way round a copy may stand a little longer than the table names it.
    assert!(!resident || cluster.nodes[0].copy(&path).exists(), "{name}: the table names what is not there");
    resident
}

#[test]
fn unused_content_gives_way() {
    let mut cluster = Cluster::prepare();
    for name in ["a", "b", "c"] {
        cluster.write(name, &vec![b'x'; 40 << 10]);
    }
    cluster.run(1, |config| config.store_bytes_max = 64 << 10);
    assert_eq!(cluster.ask(0, "a", Want::WHOLE), Status::Done);
    assert!(is_resident(&cluster, "a"));
    let held = File::open(cluster.nodes[0].copy(&cluster.shared("a"))).unwrap();
    assert_eq!(cluster.ask(0, "b", Want::WHOLE), Status::Fallback, "what is in use stays");
    assert!(is_resident(&cluster, "a") && !is_resident(&cluster, "b"));
    drop(held);
    assert_eq!(cluster.ask(0, "c", Want::WHOLE), Status::Done);
    assert!(!is_resident(&cluster, "a") && is_resident(&cluster, "c"));
    assert_eq!(cluster.stop()[0].memory.store_bytes, 80 << 10, "what was evicted a moment ago still stands");
}

#[test]
fn content_beyond_the_limit_is_the_originals() {
    let mut cluster = Cluster::prepare();
    cluster.write("large", &vec![b'x'; 100 << 10]);
    cluster.write("small", b"x");
    cluster.run(2, |config| config.store_bytes_max = 64 << 10);
    for node in [1, 0] {
        assert_eq!(cluster.ask(node, "large", Want::WHOLE), Status::Fallback);
        assert_eq!(cluster.ask(node, "small", Want::WHOLE), Status::Done);
    }
    cluster.stop();
}

#[test]
fn a_full_table_is_survived() {
    let mut cluster = Cluster::prepare();
    for number in 0..100 {
        cluster.write(&format!("f{number}"), b"x");
    }
    let table = TableGeometry { slot_count: 32, ino_slot_count: 32, heap_bytes: 64 << 10 };
    cluster.run(1, |config| config.table = Some(table));
    for number in 0..100 {
        cluster.ask(0, &format!("f{number}"), Want::WHOLE);
    }
    let table = cluster.nodes[0].table();
    let known = (0..100).filter(|number| {
        let path = cluster.shared(&format!("f{number}"));
        table.reader().find(path.as_os_str().as_encoded_bytes()).is_some()
    });
    assert!((1..16).contains(&known.count()));
    cluster.stop();
}

/// A small file system in memory, unmounted when dropped.
struct Tmpfs(PathBuf);

impl Tmpfs {
    fn mount(at: PathBuf) -> Result<Tmpfs, String> {
        if !rustix::process::geteuid().is_root() {
            return Err("needs root to mount tmpfs".to_owned());
        }
        let mount = Command::new("mount").args(["-t", "tmpfs", "-o", "size=4m", "tmpfs"]).arg(&at).output();
        match mount {
            Ok(output) if output.status.success() => Ok(Tmpfs(at)),
            Ok(output) => Err(format!("needs to mount tmpfs: {}", String::from_utf8_lossy(&output.stderr).trim())),
            Err(error) => Err(format!("needs the mount command: {error}")),
        }
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        // Lazily, because a table stays mapped in a test until the test's process ends.
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn a_full_file_system_is_survived() {
    let mut cluster = Cluster::prepare();
    let session = cluster.dir.path().join("session");
    let _tmpfs = match Tmpfs::mount(session.clone()) {
        Ok(tmpfs) => tmpfs,
        Err(why) => return eprintln!("skipped: {why}"),
    };
    std::fs::write(session.join("lock"), b"").unwrap();
    cluster.write("large", &vec![b'x'; 8 << 20]);
    cluster.write("small", b"x");
    cluster.run(1, |_| ());
    assert_eq!(cluster.ask(0, "large", Want::WHOLE), Status::Fallback);
    assert!(!is_resident(&cluster, "large"));
    assert_eq!(cluster.ask(0, "small", Want::WHOLE), Status::Done, "what was written of the large one is gone");
    assert!(is_resident(&cluster, "small"));
    cluster.stop();
}
