//! An unknown launcher, whose program a marker shows: a script with ssh.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use headwater_tests::harness::services::Ssh;
use headwater_tests::harness::skipped;

use crate::site::{Site, in_any_order};

/// Has a test use ssh, or prints why it can't.
pub fn with_ssh(site: Option<Site>, test: impl Fn(&Site, &Ssh)) {
    let Some(site) = site else { return };
    match Ssh::start(&site.cluster, &site.directory("ssh")) {
        Ok(ssh) => test(&site, &ssh),
        Err(reason) => skipped(reason),
    }
}

/// The names of a cluster's nodes with these numbers.
pub fn names(site: &Site, nodes: &[usize]) -> Vec<String> {
    nodes.iter().map(|&number| site.cluster.on(number).name.clone()).collect()
}

/// A script that starts the arguments behind it on these nodes by ssh, with `before` before them. A node that doesn't
/// answer for some seconds is dropped.
pub fn launcher(site: &Site, ssh: &Ssh, nodes: &[usize], before: &str) -> PathBuf {
    let script = site.directory("ssh").join("launch");
    let text = format!(
        "#!/bin/bash\nargs=$(printf ' %q' {before} \"$@\")\nfor node in {}; do \
         {} -o ServerAliveInterval=1 -o ServerAliveCountMax=3 root@$node \"$args\" & done\nwait\n",
        names(site, nodes).join(" "),
        ssh.agent.display()
    );
    fs::write(&script, text).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    script
}

/// Variables of programs that are started by ssh.
pub const VARIABLES: &str = "env PYTHONPATH=\"$PYTHONPATH\" PYTHONDONTWRITEBYTECODE=1";

/// The arguments of a script with ssh that starts the site's program on these nodes, with a marker before it.
pub fn marked(site: &Site, ssh: &Ssh, nodes: &[usize]) -> Vec<String> {
    marked_launcher(site, ssh, nodes).into_iter().chain(site.program()).collect()
}

/// The same without the program.
pub fn marked_launcher(site: &Site, ssh: &Ssh, nodes: &[usize]) -> [String; 2] {
    [launcher(site, ssh, nodes, VARIABLES).display().to_string(), "@".into()]
}

#[test]
fn a_script_with_ssh() {
    with_ssh(Site::new(), |site, ssh| {
        let marked = marked(site, ssh, &[1, 2, 3, 4]);
        let plain: Vec<String> = marked.iter().filter(|word| *word != "@").cloned().collect();
        let expected = site.plain(&plain);
        assert_eq!(expected.status, 0, "{expected:?}");
        let (output, summary) = site.served(&["--marker", "@"], &marked);
        assert_eq!(in_any_order(output), in_any_order(expected));
        assert_eq!(summary["nodes"], 4, "{summary}");
    });
}
