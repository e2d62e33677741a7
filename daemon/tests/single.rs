//! One daemon: requested content is in the table and in the store once the request is answered.

mod support;

use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use headwater_abi::client::{Status, Want};
use headwater_abi::table::State;
use headwater_abi::{Kind, listing};
use support::{Cluster, allocated, elf};

#[test]
fn a_file_is_read_published_and_stored() {
    let mut cluster = Cluster::prepare();
    cluster.write("lib/a.txt", b"some text");
    let source = cluster.shared("lib/a.txt");
    std::fs::set_permissions(&source, std::fs::Permissions::from_mode(0o444)).unwrap();
    cluster.run(1, |_| ());
    assert_eq!(cluster.ask(0, "lib/a.txt", Want::WHOLE), Status::Done);
    let node = &cluster.nodes[0];
    let table = node.table();
    let record = table.reader().find(source.as_os_str().as_encoded_bytes()).expect("published");
    assert_eq!(record.kind, Kind::File);
    assert!(record.state.contains(State::ATTR | State::WHOLE | State::LOADABLE));
    assert!(!record.state.intersects(State::EXECUTABLE | State::SCRIPT | State::NATIVE_OBJECT));
    let (attr, metadata) = (record.attr().unwrap(), std::fs::metadata(&source).unwrap());
    assert_eq!((attr.ino, attr.size, attr.mode), (metadata.ino(), 9, metadata.mode()));
    assert_eq!(attr.mtime, (metadata.mtime(), metadata.mtime_nsec() as u32));

    let copy = node.copy(&source);
    let copied = std::fs::metadata(&copy).unwrap();
    assert_eq!(std::fs::read(&copy).unwrap(), b"some text");
    assert_eq!((copied.mode() & 0o7777, copied.mtime_nsec()), (0o444, metadata.mtime_nsec()));
    let by_inode = table.reader().find_inode(copied.ino()).expect("found by its copy's inode");
    assert_eq!(by_inode.path().unwrap(), source.as_os_str().as_encoded_bytes());
    cluster.stop();
}

#[test]
fn a_listing_answers_for_absent_names() {
    let mut cluster = Cluster::prepare();
    for name in ["lib/a.so", "lib/b.so", "lib/sub/c.so"] {
        cluster.write(name, b"x");
    }
    cluster.run(1, |_| ());
    assert_eq!(cluster.ask(0, "lib/absent.so", Want::ATTR), Status::Done);
    let table = cluster.nodes[0].table();
    let lib = cluster.shared("lib");
    let record = table.reader().find(lib.as_os_str().as_encoded_bytes()).expect("its directory is published");
    assert!(record.state.contains(State::LISTED));
    let names = record.names().unwrap();
    let d_type = |name: &[u8]| names.find(name).map(|found| found.map(|named| named.d_type));
    assert_eq!(d_type(b"absent.so"), Some(None));
    assert_eq!(d_type(b"a.so"), Some(Some(listing::d_type::FILE)));
    assert_eq!(d_type(b"sub"), Some(Some(listing::d_type::DIR)));
    assert_eq!(d_type(b".."), Some(Some(listing::d_type::DIR)));
    let reports = cluster.stop();
    assert_eq!(reports[0].shared_fs.files_read, 0, "no file is opened for an absent name");
    assert_eq!(reports[0].shared_fs.directories_read, 2, "the scope's root and lib");
}

#[test]
fn unloaded_sections_are_holes_until_they_are_wanted() {
    let mut cluster = Cluster::prepare();
    let content = elf(32, 0xab);
    cluster.write("lib/x.so", &content);
    cluster.run(1, |_| ());
    let (source, node) = (cluster.shared("lib/x.so"), 0);
    assert_eq!(cluster.ask(node, "lib/x.so", Want::LOADABLE), Status::Done);
    let copy = cluster.nodes[node].copy(&source);
    let ino = std::fs::metadata(&copy).unwrap().ino();
    let loadable = std::fs::read(&copy).unwrap();
    assert_eq!((loadable.len(), &loadable[..4096]), (content.len(), &content[..4096]));
    assert!(loadable[4096..].iter().all(|&b| b == 0), "unmapped parts are missing");
    assert_eq!(allocated(&copy), 4096);
    let state = |cluster: &Cluster| {
        cluster.nodes[node].table().reader().find(source.as_os_str().as_encoded_bytes()).unwrap().state
    };
    assert!(state(&cluster).contains(State::LOADABLE | State::NATIVE_OBJECT));
    assert!(!state(&cluster).contains(State::WHOLE));

    assert_eq!(cluster.ask(node, "lib/x.so", Want::WHOLE), Status::Done);
    assert_eq!(std::fs::read(&copy).unwrap(), content);
    assert!(state(&cluster).contains(State::LOADABLE | State::WHOLE));
    let (copied, metadata) = (std::fs::metadata(&copy).unwrap(), std::fs::metadata(&source).unwrap());
    assert_eq!(copied.ino(), ino, "the holes are filled in place");
    assert_eq!((copied.mtime(), copied.mtime_nsec()), (metadata.mtime(), metadata.mtime_nsec()));
    let report = cluster.stop().swap_remove(0);
    assert_eq!(report.shared_fs.bytes_read, content.len() as u64 * 2 - 4096, "stored parts are not read again");
    assert_eq!(report.memory.store_bytes, content.len() as u64);
}

#[test]
fn links_lead_into_the_mirror() {
    let mut cluster = Cluster::prepare();
    cluster.write("lib/real.so", b"real");
    symlink("real.so", cluster.shared("lib/relative.so")).unwrap();
    symlink(cluster.shared("lib/real.so"), cluster.shared("lib/absolute.so")).unwrap();
    symlink("/nowhere/at/all", cluster.shared("lib/out.so")).unwrap();
    cluster.run(1, |_| ());
    for name in ["lib/relative.so", "lib/absolute.so"] {
        assert_eq!(cluster.ask(0, name, Want::WHOLE), Status::Done);
        let node = &cluster.nodes[0];
        let table = node.table();
        let record = table.reader().find(cluster.shared(name).as_os_str().as_encoded_bytes()).unwrap();
        assert_eq!(record.kind, Kind::Link);
        assert_eq!(
            record.aux().unwrap(),
            std::fs::read_link(cluster.shared(name)).unwrap().as_os_str().as_encoded_bytes()
        );
        assert_eq!(std::fs::read(node.copy(&cluster.shared(name))).unwrap(), b"real", "{name}");
        let real = std::fs::canonicalize(node.copy(&cluster.shared(name))).unwrap();
        assert!(real.starts_with(std::fs::canonicalize(node.dir.root()).unwrap()), "{name} leads out of the mirror");
    }
    assert_eq!(cluster.ask(0, "lib/out.so", Want::ATTR | Want::NO_FOLLOW), Status::Done);
    let out = std::fs::read_link(cluster.nodes[0].copy(&cluster.shared("lib/out.so"))).unwrap();
    assert_eq!(out.to_str(), Some("/nowhere/at/all"));
    cluster.stop();
}

#[test]
fn hard_links_stay_hard_links() {
    let mut cluster = Cluster::prepare();
    cluster.write("bin/python3", &vec![b'p'; 100_000]);
    std::fs::hard_link(cluster.shared("bin/python3"), cluster.shared("bin/python3.11")).unwrap();
    cluster.run(1, |_| ());
    for name in ["bin/python3", "bin/python3.11"] {
        assert_eq!(cluster.ask(0, name, Want::WHOLE), Status::Done);
    }
    let ino = |name: &str| std::fs::metadata(cluster.nodes[0].copy(&cluster.shared(name))).unwrap().ino();
    assert_eq!(ino("bin/python3"), ino("bin/python3.11"));
    let report = cluster.stop().swap_remove(0);
    assert_eq!(report.shared_fs.files_read, 1);
}

#[test]
fn executables_are_marked_unless_they_are_privileged() {
    let mut cluster = Cluster::prepare();
    for (name, content, mode) in
        [("run.sh", &b"#!/bin/sh\n"[..], 0o755), ("plain.sh", b"#!/bin/sh\n", 0o644), ("su.sh", b"#!/bin/sh\n", 0o4755)]
    {
        cluster.write(name, content);
        std::fs::set_permissions(cluster.shared(name), std::fs::Permissions::from_mode(mode)).unwrap();
    }
    cluster.run(1, |_| ());
    for (name, executable) in [("run.sh", true), ("plain.sh", false), ("su.sh", false)] {
        assert_eq!(cluster.ask(0, name, Want::EXECUTE), Status::Done);
        let table = cluster.nodes[0].table();
        let record = table.reader().find(cluster.shared(name).as_os_str().as_encoded_bytes()).unwrap();
        assert!(record.state.contains(State::SCRIPT));
        assert_eq!(record.state.contains(State::EXECUTABLE), executable, "{name}");
        let copied = std::fs::metadata(cluster.nodes[0].copy(&cluster.shared(name))).unwrap();
        assert_eq!(copied.mode() & 0o7000, 0, "{name}");
    }
    cluster.stop();
}

#[test]
fn paths_outside_of_the_scope_are_the_sources() {
    let mut cluster = Cluster::prepare();
    cluster.run(1, |_| ());
    assert_eq!(cluster.nodes[0].ask("/etc/passwd".as_ref(), Want::WHOLE), Status::Fallback);
    let report = cluster.stop().swap_remove(0);
    assert_eq!(report.shared_fs.operations, 0);
}

#[test]
fn a_path_that_a_job_changes_is_passthrough() {
    let mut cluster = Cluster::prepare();
    cluster.write("pkg/a.py", b"pass");
    cluster.run(1, |_| ());
    assert_eq!(cluster.ask(0, "pkg/a.py", Want::WHOLE), Status::Done);
    assert_eq!(cluster.ask(0, "pkg/new.pyc", Want::PASSTHROUGH), Status::Done);
    let table = cluster.nodes[0].table();
    let state = |name: &str| table.reader().find(cluster.shared(name).as_os_str().as_encoded_bytes()).unwrap().state;
    assert!(state("pkg/new.pyc").contains(State::PASSTHROUGH));
    assert!(state("pkg").contains(State::LISTING_PASSTHROUGH));
    assert!(!state("pkg/a.py").contains(State::PASSTHROUGH));
    cluster.stop();
}

#[test]
fn clients_of_another_generation_use_the_source_files() {
    let mut cluster = Cluster::prepare();
    cluster.write("a", b"x");
    cluster.run(1, |_| ());
    let mut stream = cluster.nodes[0].send(&cluster.shared("a"), Want::WHOLE, 2);
    assert_eq!(support::final_status(&mut stream), Some(Status::Fallback));
    cluster.stop();
}
