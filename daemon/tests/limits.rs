//! A full store: content is evicted, or processes use the source files.

mod support;

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use headwater_abi::Kind;
use headwater_abi::client::{Status, Want};
use headwater_abi::listing::LISTING_BYTES_MAX;
use headwater_abi::table::State;
use headwater_daemon::Geometry;
use support::tmpfs::Tmpfs;
use support::{Cluster, stats};

fn is_resident(cluster: &Cluster, name: &str) -> bool {
    let table = cluster.nodes[0].table();
    let path = cluster.shared(name);
    let record = table.reader().find(path.as_os_str().as_encoded_bytes());
    let resident = record.is_some_and(|record| record.state.contains(State::WHOLE));
    // A copy may exist a little longer than the table names it.
    assert!(!resident || cluster.nodes[0].copy(&path).exists(), "{name}: the table names a missing copy");
    resident
}

#[test]
fn unused_content_is_evicted() {
    let mut cluster = Cluster::prepare();
    for name in ["a", "b", "c"] {
        cluster.write(name, &vec![b'x'; 40 << 10]);
    }
    cluster.run(1, |config| config.store_bytes_max = 100 << 10);
    assert_eq!(cluster.ask(0, "a", Want::WHOLE), Status::Done);
    assert!(is_resident(&cluster, "a"));
    let file = File::open(cluster.nodes[0].copy(&cluster.shared("a"))).unwrap();
    assert_eq!(cluster.ask(0, "b", Want::WHOLE), Status::Fallback, "a file in use stays");
    assert!(is_resident(&cluster, "a") && !is_resident(&cluster, "b"));
    drop(file);
    // A child that another test has forked has it open, too, until it executes its program.
    let started = Instant::now();
    while cluster.ask(0, "c", Want::WHOLE) != Status::Done {
        assert!(started.elapsed() < Duration::from_secs(60), "a file that no process uses still exists");
    }
    assert!(!is_resident(&cluster, "a") && is_resident(&cluster, "c"));
    assert_eq!(
        cluster.stop()[0].memory.store_bytes,
        80 << 10,
        "a recently evicted file still exists, within the bound"
    );
}

#[test]
fn content_that_a_leaf_has_evicted_comes_from_its_parent_again() {
    let mut cluster = Cluster::prepare();
    for name in ["a", "b"] {
        cluster.write(name, &vec![b'x'; 40 << 10]);
    }
    cluster.run(2, |config| config.store_bytes_max = if config.rank == 0 { 1 << 30 } else { 100 << 10 });
    for name in ["a", "b", "a", "b"] {
        let started = Instant::now();
        while cluster.ask(1, name, Want::WHOLE) != Status::Done {
            assert!(started.elapsed() < Duration::from_secs(60), "{name}: an evicted copy still exists");
            std::thread::sleep(Duration::from_millis(100));
        }
        assert!(stats(&cluster.nodes[1]).memory.store <= 100 << 10, "{name}");
    }
    assert!(stats(&cluster.nodes[1]).holds.evictions >= 2);
    let reports = cluster.stop();
    assert_eq!((reports[0].shared_fs.files_read, reports[1].shared_fs.operations), (2, 0));
}

#[test]
fn content_beyond_the_limit_is_left_to_the_source() {
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
    let table = Geometry { slot_count: 32, ino_slot_count: 32, heap_bytes: 64 << 10 };
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

/// A name of 250 bytes.
fn long_name(number: usize) -> String {
    format!("{number:0250}")
}

#[test]
fn a_directory_with_too_many_names_is_looked_up_name_by_name() {
    let mut cluster = Cluster::prepare();
    let most = LISTING_BYTES_MAX / (long_name(0).len() + 1) - 2;
    for (directory, names) in [("most", most), ("more", most + 10)] {
        (0..names).for_each(|number| cluster.write(&format!("{directory}/{}", long_name(number)), b""));
    }
    let table = Geometry { slot_count: 1 << 12, ino_slot_count: 1 << 12, heap_bytes: 64 << 20 };
    cluster.run(2, |config| config.table = Some(table));
    for (directory, is_listed) in [("most", true), ("more", false)] {
        let (there, absent) = (format!("{directory}/{}", long_name(7)), format!("{directory}/none"));
        for name in [&there, &absent] {
            assert_eq!(cluster.ask(1, name, Want::ATTR), Status::Done, "{name}");
        }
        let table = cluster.nodes[1].table();
        let find = |name: &str| table.reader().find(cluster.shared(name).as_os_str().as_encoded_bytes());
        let state = find(directory).unwrap().state;
        assert_eq!((state.contains(State::LISTED), state.contains(State::UNLISTABLE)), (is_listed, !is_listed));
        assert_eq!(find(&there).unwrap().kind, Kind::File);
        assert_eq!(find(&absent).map(|record| record.kind), (!is_listed).then_some(Kind::Absent));
    }
    cluster.stop();
}

#[test]
fn a_full_file_system_is_survived() {
    let mut cluster = Cluster::prepare();
    let session = cluster.dir.path().join("session");
    let _tmpfs = match Tmpfs::mount(session.clone(), "4m") {
        Ok(tmpfs) => tmpfs,
        Err(why) => return eprintln!("skipped: {why}"),
    };
    std::fs::write(session.join("lock"), b"").unwrap();
    cluster.write("large", &vec![b'x'; 8 << 20]);
    cluster.write("small", b"x");
    cluster.run(1, |_| ());
    assert_eq!(cluster.ask(0, "large", Want::WHOLE), Status::Fallback);
    assert!(!is_resident(&cluster, "large"));
    assert_eq!(cluster.ask(0, "small", Want::WHOLE), Status::Done, "the written part of the large one is removed");
    assert!(is_resident(&cluster, "small"));
    cluster.stop();
}

/// Bytes of a file system that are in use.
fn used(directory: &std::path::Path) -> u64 {
    let status = rustix::fs::statvfs(directory).unwrap();
    (status.f_blocks - status.f_bfree) * status.f_frsize
}

#[test]
fn what_is_evicted_and_still_in_use_is_counted() {
    const BOUND: u64 = 400 << 10;
    let mut cluster = Cluster::prepare();
    let session = cluster.dir.path().join("session");
    let _tmpfs = match Tmpfs::mount(session.clone(), "32m") {
        Ok(tmpfs) => tmpfs,
        Err(why) => return println!("skipped: {why}"),
    };
    std::fs::write(session.join("lock"), b"").unwrap();
    for number in 0..60 {
        cluster.write(&format!("f{number}"), &vec![b'x'; (number % 9 + 1) * 5000]);
    }
    cluster.run(1, |config| config.store_bytes_max = BOUND);
    let table = |cluster: &Cluster| stats(&cluster.nodes[0]).memory.table;
    let others = used(&session) - table(&cluster);
    let check = |cluster: &Cluster| {
        let taken = used(&session).saturating_sub(others + table(cluster));
        assert!(taken <= BOUND, "{taken} bytes are taken");
    };
    let mut evicted_copies = Vec::new();
    for number in 0..60 {
        cluster.ask(0, &format!("f{number}"), Want::WHOLE);
        check(&cluster);
        // A copy that was evicted without notice to processes that have looked it up.
        let evicted = (0..number)
            .map(|before| format!("f{before}"))
            .find(|before| cluster.nodes[0].copy(&cluster.shared(before)).exists() && !is_resident(&cluster, before));
        if let Some(copy) = evicted.and_then(|name| File::open(cluster.nodes[0].copy(&cluster.shared(&name))).ok()) {
            evicted_copies.push(copy);
        }
    }
    assert!(!evicted_copies.is_empty(), "something was evicted");
    let parked = cluster.nodes[0].dir.parked();
    let started = Instant::now();
    while std::fs::read_dir(&parked).unwrap().count() == 0 {
        assert!(started.elapsed() < Duration::from_secs(60), "a file in use is never parked");
        std::thread::sleep(Duration::from_millis(50));
        cluster.ask(0, &format!("f{}", started.elapsed().as_millis() % 60), Want::WHOLE);
        check(&cluster);
    }
    let copies =
        evicted_copies.iter().map(|copy| copy.metadata().unwrap()).map(|copy| (copy.ino(), copy.blocks() * 512));
    let bytes: u64 = copies.collect::<HashMap<_, _>>().into_values().sum();
    assert!(bytes > 0 && stats(&cluster.nodes[0]).memory.store >= bytes, "open copies are counted");
    drop(evicted_copies);
    while std::fs::read_dir(&parked).unwrap().count() > 0 {
        assert!(started.elapsed() < Duration::from_secs(60), "unused files are removed");
        std::thread::sleep(Duration::from_millis(50));
        check(&cluster);
    }
    cluster.stop();
}
