//! The files that all users see, how often they are read, and what a refresh changes.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};

use headwater_tests::harness::user;

use crate::site::{FOLLOW_MAX, READERS, Site};
use headwater_tests::{harness::wait_until, needs_root};

/// Files that are more than one message: fetched as a whole, and in blocks.
const SIZES: [usize; 4] = [0, 1000, 700_000, 20 << 20];

/// Makes files, links and directories; the checksums that an ordinary user is to see.
fn tree(site: &Site) -> String {
    for (number, size) in SIZES.into_iter().enumerate() {
        let content: Vec<u8> = (0..size).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        site.source.file(&format!("lib/file{number}"), content, 0o644);
    }
    site.source.file("app/run", "#!/bin/sh\necho ran as $(id -u)\n", 0o755);
    site.source.link("../lib/file1", "app/inside");
    site.source.link("/etc/hostname", "app/outside");
    let sums = std::process::Command::new("sh").args(["-c", CHECK]).current_dir(site.source.shared()).output();
    String::from_utf8(sums.expect("there is a shell").stdout).expect("checksums are text").trim_end().to_owned()
}

/// Prints all that a user can see of the files.
const CHECK: &str = "cksum lib/*; cat app/run; find . -printf '%P %y %m %s %l %U %G %n\\n' | sort";

#[test]
fn everybody_sees_what_few_have_read() {
    needs_root!();
    let Some(site) = Site::new("export") else { return };
    let expected = tree(&site);
    let _services = site.start_all(&[1, 2, 3, 4]);
    for (node, user) in [(3, &user::ORDINARY), (4, &user::OTHER_USER), (3, &user::OTHER_USER)] {
        assert_eq!(site.as_user(node, user, CHECK), expected, "node {node}");
    }
    let uid = user::ORDINARY[1].rsplit('=').next().expect("setpriv's option");
    assert_eq!(site.as_user(3, &user::ORDINARY, "app/run"), format!("ran as {uid}"));
    assert_eq!(site.as_user(3, &user::ORDINARY, "readlink app/outside"), "/etc/hostname");
    assert!(site.as_user(3, &user::ORDINARY, "touch app/new; echo x >> lib/file1").contains("Read-only file system"));

    // The second tier: what a node has read comes from its own store, and the kernel's memory.
    let before = [3, 4].map(|node| site.stat(node, "hits.parent"));
    assert_eq!(site.as_user(3, &user::OTHER_USER, CHECK), expected);
    assert_eq!([3, 4].map(|node| site.stat(node, "hits.parent")), before, "nothing is requested twice");

    // A node that joins late is served by one of the readers, which has read everything.
    let late = site.start(5);
    assert_eq!(site.as_user(5, &user::ORDINARY, CHECK), expected);
    for number in 1..SIZES.len() {
        let opens = site.opens(&format!("lib/file{number}"));
        assert!((1..=READERS as u64).contains(&opens), "file{number} was opened {opens} times for three nodes");
    }
    assert_eq!(late.end(site.node(5), "TERM"), Some(0));
    site.assert_clean(5);
}

#[test]
fn later_look_ups_find_what_is_new() {
    needs_root!();
    let Some(site) = Site::new("refreshed") else { return };
    site.source.file("lib/libx.so", "one\n", 0o644);
    site.source.file("lib/libkept.so", "kept\n", 0o644);
    let services = site.start_all(&[1, 2, 3, 4]);
    let listing = "cat lib/*; cat lib/libnew.so";
    let before = "kept\none\ncat: lib/libnew.so: No such file or directory";
    for node in [3, 4] {
        assert_eq!(site.as_user(node, &user::ORDINARY, listing), before, "node {node}");
    }
    // A program that has a file open, and continues to read it after the refresh.
    let script = "exec 5<lib/libx.so; echo open; read go; cat <&5";
    let mut running = site.user_command(3, &user::ORDINARY, script).spawn().expect("nsenter is installed");
    let mut output = BufReader::new(running.stdout.take().expect("a pipe"));
    let mut line = String::new();
    output.read_line(&mut line).expect("a pipe");
    assert_eq!(line, "open\n");

    // As a package is installed: a new file replaces the old one.
    site.source.file("lib/.libx.so", "two\n", 0o644);
    fs::rename(site.source.path("lib/.libx.so"), site.source.path("lib/libx.so")).expect("an own directory");
    site.source.file("lib/libnew.so", "new\n", 0o644);
    for node in [3, 4] {
        assert_eq!(site.as_user(node, &user::ORDINARY, listing), before, "the view is a snapshot");
    }
    // Issued on a node that is no reader.
    site.headwater(4, &["refresh"]);
    let after = "kept\nnew\ntwo\nnew";
    for node in [3, 4] {
        let follows = wait_until(FOLLOW_MAX, || site.as_user(node, &user::ORDINARY, listing) == after);
        assert!(follows, "node {node}: {}", site.as_user(node, &user::ORDINARY, listing));
    }
    running.stdin.take().expect("a pipe").write_all(b"go\n").expect("it waits");
    line.clear();
    output.read_to_string(&mut line).expect("a pipe");
    assert_eq!(line, "one\n", "what was open stays what it was");
    running.wait().expect("it ends");
    for (number, service) in (1..).zip(services) {
        assert_eq!(service.end(site.node(number), "TERM"), Some(0), "node {number}");
        site.assert_clean(number);
    }
}
