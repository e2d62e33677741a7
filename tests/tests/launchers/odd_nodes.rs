//! Nodes that differ from the others in what Headwater might take for granted.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use headwater_tests::harness::services::{Ssh, succeeds};
use serde_json::Value;

use crate::site::Site;
use crate::ssh::{VARIABLES, launcher, with_ssh};

const ALL: [usize; 4] = [1, 2, 3, 4];

#[test]
fn nodes_that_differ() {
    with_ssh(Site::new(), |site, ssh| {
        clocks(site, ssh);
        names_and_addresses(site, ssh);
        what_kernels_can(site, ssh);
        variables_that_are_dropped(site, ssh);
    });
}

/// Runs the site's program on all nodes. Returns the summary. `case` is the shell command by which each node starts it.
fn served(site: &Site, ssh: &Ssh, case: &str) -> Value {
    let wrapper = site.directory("ssh").join("wrapper");
    fs::write(&wrapper, format!("#!/bin/sh\ncase $(hostname) in\n{case}\nesac\nexec \"$@\"\n")).unwrap();
    fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o755)).unwrap();
    let before = format!("{VARIABLES} {}", wrapper.display());
    check(site, &launcher(site, ssh, &ALL, &before), site.program())
}

/// Runs the program by a script, whose nodes are all served. Returns the summary.
fn check(site: &Site, script: &Path, program: Vec<String>) -> Value {
    let args = [vec![script.display().to_string(), "@".into()], program].concat();
    site.check_output(&["--marker", "@"], &args, ALL.len())
}

/// A node that claims to have been up for thirty years.
fn clocks(site: &Site, ssh: &Ssh) {
    let unshare = "unshare --time --monotonic 1000000000 --boottime 1000000000 --fork --kill-child";
    if succeeds(site.cluster.on(2), &format!("{unshare} -- true")) {
        served(site, ssh, &format!("node002) exec {unshare} -- \"$@\";;"));
    } else {
        println!("skipped: the kernel has no time namespaces");
    }
}

/// Nodes that have wrong addresses of others, and of themselves; and two that have one name.
fn names_and_addresses(site: &Site, ssh: &Ssh) {
    let hosts: Vec<String> = site.cluster.nodes().iter().map(|node| format!("127.0.0.1 {}", node.name)).collect();
    let others = hosts.join("\\n").replace("127.0.0.1", "10.77.0.200");
    for (number, hosts) in [(2, hosts.join("\\n")), (3, others), (4, String::new())] {
        assert!(succeeds(site.cluster.on(number), &format!("printf '{hosts}' >/etc/hosts")));
    }
    assert!(succeeds(site.cluster.on(3), "hostname node002"));
    served(site, ssh, "");
    assert!(succeeds(site.cluster.on(3), "hostname node003"));
}

/// One node without FUSE, and one on which nothing can be mounted.
fn what_kernels_can(site: &Site, ssh: &Ssh) {
    assert!(succeeds(site.cluster.on(2), "mount --bind /dev/null /dev/fuse"));
    let no_mounts = "setpriv --inh-caps=-sys_admin --bounding-set=-sys_admin --";
    let summary = served(site, ssh, &format!("node003) exec {no_mounts} \"$@\";;"));
    assert_eq!(summary["via"], "audit on 2, namespace on 2", "{summary}");
    assert!(succeeds(site.cluster.on(2), "umount /dev/fuse"));
}

/// A launcher that passes no variable on.
fn variables_that_are_dropped(site: &Site, ssh: &Ssh) {
    check(site, &launcher(site, ssh, &ALL, "env -i"), site.program_with_variables());
}
