//! A store whose file system other programs fill while it is used.

mod support;

use std::time::{Duration, Instant};

use headwater_abi::client::{Status, Want};
use headwater_abi::table::State;
use headwater_daemon::stats::NodeStats;
use support::tmpfs::Tmpfs;
use support::{Cluster, stats};

/// Bytes of each file.
const BYTES: usize = 512 << 10;

/// Starts a session on a tmpfs of 16 MB with files `f0` to `f15`; `None` where tmpfs can't be mounted.
fn on_a_small_disk() -> Option<(Cluster, Tmpfs)> {
    let mut cluster = Cluster::prepare();
    let session = cluster.dir.path().join("session");
    let tmpfs = match Tmpfs::mount(session.clone(), "16m") {
        Ok(tmpfs) => tmpfs,
        Err(why) => {
            println!("skipped: {why}");
            return None;
        }
    };
    std::fs::write(session.join("lock"), b"").unwrap();
    for number in 0..16 {
        cluster.write(&format!("f{number}"), &vec![number; BYTES]);
    }
    cluster.run(1, |_| ());
    Some((cluster, tmpfs))
}

/// Waits until a condition holds that takes some seconds: evicted files exist for a while, and bounds are
/// raised slowly.
fn eventually(what: &str, holds: impl Fn() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < Duration::from_secs(60), "{what}: not within the limit");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn now(cluster: &Cluster) -> NodeStats {
    stats(&cluster.nodes[0])
}

fn is_resident(cluster: &Cluster, name: &str) -> bool {
    let (table, path) = (cluster.nodes[0].table(), cluster.shared(name));
    let record = table.reader().find(path.as_os_str().as_encoded_bytes());
    record.is_some_and(|record| record.state.contains(State::WHOLE))
}

#[test]
fn a_disk_that_others_fill_makes_the_store_smaller_until_there_is_room_again() {
    let Some((mut cluster, tmpfs)) = on_a_small_disk() else { return };
    for number in 0..8 {
        assert_eq!(cluster.ask(0, &format!("f{number}"), Want::WHOLE), Status::Done);
    }
    tmpfs.fill("others");
    assert_eq!(cluster.ask(0, "f8", Want::WHOLE), Status::Fallback, "there is no room, whatever the limit is");
    eventually("content is evicted", || now(&cluster).holds.evictions > 0);
    let full = now(&cluster).bytes;
    assert!(full.store_max < full.store_max_configured && full.store >= 4 * BYTES as u64, "{full:?}");
    eventually("eviction makes room for requested content", || {
        cluster.ask(0, "f9", Want::WHOLE) == Status::Done && now(&cluster).bytes.store <= now(&cluster).bytes.store_max
    });
    std::fs::remove_file(cluster.dir.path().join("session/others")).unwrap();
    eventually("the store may grow again", || {
        (0..16).all(|number| cluster.ask(0, &format!("f{number}"), Want::WHOLE) == Status::Done)
            && now(&cluster).holds.files == 16
    });
    cluster.stop();
}

#[test]
fn content_in_use_is_not_evicted_and_still_served() {
    let Some((mut cluster, tmpfs)) = on_a_small_disk() else { return };
    let open =
        |cluster: &Cluster, name: &str| std::fs::File::open(cluster.nodes[0].copy(&cluster.shared(name))).unwrap();
    for number in 0..8 {
        assert_eq!(cluster.ask(0, &format!("f{number}"), Want::WHOLE), Status::Done);
    }
    let files: Vec<_> = (0..8).map(|number| open(&cluster, &format!("f{number}"))).collect();
    tmpfs.fill("others");
    assert_eq!(cluster.ask(0, "f8", Want::WHOLE), Status::Fallback);
    eventually("the limit is lowered", || {
        let bytes = now(&cluster).bytes;
        bytes.store_max < bytes.store_max_configured
    });
    let stays = now(&cluster);
    assert_eq!((stays.holds.files, stays.holds.evictions), (8, 0));
    drop(files);
    eventually("it is evicted once it is unused", || now(&cluster).holds.evictions > 0);
    cluster.stop();
}

#[test]
fn a_disk_without_inodes_is_a_full_disk() {
    let mut cluster = Cluster::prepare();
    let session = cluster.dir.path().join("session");
    let _tmpfs = match Tmpfs::mount(session.clone(), "16m,nr_inodes=300") {
        Ok(tmpfs) => tmpfs,
        Err(why) => return println!("skipped: {why}"),
    };
    std::fs::write(session.join("lock"), b"").unwrap();
    for number in 0..400 {
        cluster.write(&format!("f{number}"), &[b'x'; 100]);
    }
    cluster.run(1, |_| ());
    for number in 0..400 {
        cluster.ask(0, &format!("f{number}"), Want::WHOLE);
    }
    let (table, directory) = (cluster.nodes[0].table(), cluster.shared(""));
    let is_whole = |number: &u32| {
        let path = directory.join(format!("f{number}"));
        let record = table.reader().find(path.as_os_str().as_encoded_bytes());
        record.is_some_and(|record| record.state.contains(State::WHOLE))
    };
    assert!((1..300).contains(&(0..400).filter(is_whole).count()));
    eventually("files are evicted for others", || now(&cluster).holds.evictions > 0);
    eventually("others are stored", || {
        cluster.ask(0, "f399", Want::WHOLE);
        is_resident(&cluster, "f399")
    });
    cluster.stop();
}

#[test]
fn a_table_on_a_full_disk_serves_on() {
    let Some((mut cluster, tmpfs)) = on_a_small_disk() else { return };
    for number in 0..8 {
        assert_eq!(cluster.ask(0, &format!("f{number}"), Want::WHOLE), Status::Done);
    }
    for number in 0..3000 {
        cluster.write(&format!("a-name-that-is-long-enough-to-fill-a-table-soon-{number}"), b"");
    }
    tmpfs.fill("others");
    for number in 0..3000 {
        cluster.ask(0, &format!("a-name-that-is-long-enough-to-fill-a-table-soon-{number}"), Want::ATTR);
    }
    assert!(is_resident(&cluster, "f7") || now(&cluster).holds.evictions > 0, "published content stays");
    eventually("the table has memory again", || {
        cluster.ask(0, "f15", Want::WHOLE) == Status::Done && is_resident(&cluster, "f15")
    });
    cluster.stop();
}
