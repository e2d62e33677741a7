//! Readers, daemons and services that are killed, and return.

use headwater_tests::harness::user;
use headwater_tests::harness::wait_until;
use headwater_tests::needs_root;

use crate::site::{FOLLOW_MAX, Site, shell};

#[test]
fn killed_readers_are_replaced_and_return() {
    needs_root!();
    let Some(site) = Site::new("readers") else { return };
    for number in 0..4 {
        site.source.file(&format!("file{number}"), format!("content {number}\n"), 0o644);
    }
    let mut services = site.start_all(&[1, 2, 3, 4]);
    site.await_content(3, "file0", "content 0");
    // Of this file the attributes are known, and nothing more.
    assert_eq!(site.as_user(3, &user::ORDINARY, "stat -c %s file3"), "10");
    site.kill_daemon(1);
    let ended = wait_until(FOLLOW_MAX, || services[0].ended().is_some());
    assert!(ended, "the service manager is notified of the daemon's death");
    // The other reader reads for all.
    site.await_content(3, "file1", "content 1");
    site.await_content(4, "file1", "content 1");
    services.remove(1).signal(site.node(2), "KILL");
    // No reader is left: stored files are served, and other requests wait.
    assert_eq!(site.as_user(3, &user::ORDINARY, "cat file0 file1"), "content 0\ncontent 1");
    let reads = site.user_command(3, &user::ORDINARY, "cat file2").spawn().expect("nsenter is installed");
    site.assert_clean(1);
    let _reader = site.start(1);
    let read = reads.wait_with_output().expect("it ends");
    assert_eq!(String::from_utf8_lossy(&read.stdout), "content 2\n", "it arrives when a reader has returned");
    // A directory that has changed since it was read is not mixed with the older state: it is read as a whole.
    site.source.file("file3", "changed, too\n", 0o644);
    site.await_content(3, "file3", "changed, too");
    // A reader without any state reports changes nevertheless.
    site.source.file("file0", "changed meanwhile\n", 0o644);
    site.headwater(3, &["refresh"]);
    for node in [3, 4] {
        site.await_content(node, "file0", "changed meanwhile");
        site.await_content(node, "file3", "changed, too");
    }
}

#[test]
fn mounts_outlive_daemons_and_services() {
    needs_root!();
    let Some(site) = Site::new("mounts") else { return };
    site.source.file("early", "early\n", 0o644);
    site.source.file("late", "late\n", 0o644);
    let _readers = site.start_all(&[1, 2]);
    let (node, join) = (site.node(3), site.start(3));
    site.await_content(3, "early", "early");
    let mount = || shell(node, "grep fuse.headwater /proc/self/mountinfo");
    let before = mount();
    site.kill_daemon(3);
    assert_eq!(site.as_user(3, &user::ORDINARY, "cat early late"), "early\nlate", "another daemon takes over");
    let daemon = site.stat(3, "pid");
    join.signal(node, "USR1");
    let replaced = wait_until(FOLLOW_MAX, || site.stats_now(3).is_some_and(|stats| stats["pid"] != daemon));
    assert!(replaced, "a reload starts a daemon");
    // As `systemctl restart` does by the unit, and as a crash would.
    assert_eq!(join.end(node, "HUP"), Some(0));
    assert_eq!(site.as_user(3, &user::ORDINARY, "cat early"), "early");
    let again = site.start(3);
    again.signal(node, "KILL");
    drop(again);
    let last = site.start(3);
    assert_eq!((site.as_user(3, &user::ORDINARY, "cat early late"), mount()), ("early\nlate".into(), before));
    assert_eq!(last.end(node, "TERM"), Some(0));
    site.assert_clean(3);
    let mut joined = site.start(3);
    site.headwater(3, &["unmount", crate::site::EXPORT]);
    let ended = wait_until(FOLLOW_MAX, || joined.ended().is_some());
    assert!(ended, "the process that watches a mount ends with it");
    site.assert_clean(3);
}
