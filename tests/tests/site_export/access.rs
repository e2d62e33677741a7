//! Files that not all users may read stay with the readers, whichever user requests them.

use std::fs;

use headwater_tests::harness::{headwater_binary, user, wait_until};
use headwater_tests::needs_root;

use crate::site::{FOLLOW_MAX, Site, await_message, chmod};

/// A user whose group has the files that are not for others.
const MEMBER: [&str; 4] = ["setpriv", "--reuid=7", "--regid=9", "--clear-groups"];
/// The superuser.
const ROOT: [&str; 2] = ["env", "--"];

#[test]
fn only_what_is_for_everybody_leaves_a_reader() {
    needs_root!();
    let Some(site) = Site::new("modes") else { return };
    let source = &site.source;
    let secret = "for the group alone\n";
    source.file("group", secret, 0o640);
    source.file("closed/file", "in a closed directory\n", 0o644);
    source.file("known/file", "by its name alone\n", 0o644);
    source.file("known/group", secret, 0o640);
    source.file("listed/file", "names alone\n", 0o644);
    source.file("plain", "for all\n", 0o644);
    source.file("closed/open/deep", "below\n", 0o644);
    for name in ["group", "closed", "known/group"] {
        std::os::unix::fs::chown(source.path(name), None, Some(9)).expect("root may");
    }
    chmod(&source.path("closed"), 0o750);
    chmod(&source.path("known"), 0o711);
    chmod(&source.path("listed"), 0o754);
    let _services = site.start_all(&[1, 2, 3, 4]);
    let denied = |user: &[&str], script: &str| {
        for node in [3, 4] {
            let printed = site.as_user(node, user, &format!("{script}; echo $?"));
            let is_denied = printed.contains("Permission denied") && !printed.ends_with('0');
            assert!(is_denied, "{user:?} on node {node}: {script}: {printed:?}");
        }
    };
    // Even users with a right at the source: readers can't distinguish the users that make a request.
    for user in [&user::ORDINARY[..], &user::OTHER_USER, &MEMBER, &ROOT] {
        assert_eq!(site.as_user(3, user, "cat plain known/file"), "for all\nby its name alone", "{user:?}");
        for script in ["cat group", "cat known/group", "cat closed/file", "stat closed/open/deep", "ls closed"] {
            denied(user, script);
        }
        denied(user, "ls known");
        let seen = site.as_user(3, user, "stat -c '%n %a %s' group closed known known/group");
        assert_eq!(seen, format!("group 640 {0}\nclosed 750 4096\nknown 711 4096\nknown/group 640 {0}", secret.len()));
        assert_eq!(site.as_user(3, user, "ls"), "closed\ngroup\nknown\nlisted\nplain");
    }
    for reader in [1, 2] {
        assert_eq!(site.opens("group") + site.opens("closed/file"), site.opens("group"), "reader {reader}");
        let shared_memory = site.outside(reader, "/dev/shm");
        let found = std::process::Command::new("grep").args(["-rl", secret.trim()]).arg(shared_memory).output();
        assert_eq!(String::from_utf8_lossy(&found.expect("grep is installed").stdout), "", "in a reader's store");
    }

    // A mode that changes counts from the next refresh on.
    chmod(&source.path("group"), 0o644);
    chmod(&source.path("plain"), 0o600);
    site.headwater(3, &["refresh"]);
    site.await_content(3, "group", secret.trim());
    let is_denied = wait_until(FOLLOW_MAX, || site.as_user(4, &ROOT, "cat plain").contains("Permission denied"));
    assert!(is_denied, "{}", site.as_user(4, &ROOT, "cat plain"));
}

#[test]
fn a_peer_with_another_key_is_refused() {
    needs_root!();
    let Some(site) = Site::new("keys") else { return };
    site.source.file("plain", "for all\n", 0o644);
    let _services = site.start_all(&[1, 2]);
    let key = site.outside(3, "/run/key");
    fs::remove_file(&key).expect("it was copied");
    let made = site.node(3).command(headwater_binary()).args(["key", "/run/key"]).output();
    assert!(made.expect("nsenter is installed").status.success());
    let (join, manager) = site.begin(3);
    let is_cause = |message: &str| message.contains("it does not prove the key: its key is another");
    await_message(&manager, is_cause).expect("it reports the cause");
    // The mount is there, and waits for readers that refuse it.
    let patient = ["timeout", "--signal=KILL", "1"].into_iter().chain(user::ORDINARY).collect::<Vec<_>>();
    assert_eq!(site.as_user(3, &patient, "cat plain; echo $?"), "");
    assert_eq!((site.opens("plain"), site.stat(3, "hits.parent")), (0, 0));
    assert_eq!(join.end(site.node(3), "TERM"), Some(0));
    site.assert_clean(3);

    chmod(&key, 0o640);
    let (mut refused, _) = site.begin(3);
    assert!(wait_until(FOLLOW_MAX, || refused.ended().is_some_and(|status| !status.success())));
    site.assert_clean(3);
}
