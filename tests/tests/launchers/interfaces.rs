//! `--interfaces`: the names reach the nodes, whose links use all interfaces of these names that a node has.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use headwater_tests::harness::services::Ssh;
use headwater_tests::harness::skipped;

use crate::site::{NODES, Site, in_any_order};

/// Runs until all nodes have registered in time: the launcher does not pass their number.
const ATTEMPTS: usize = 4;
/// More than an interface carries that no link uses.
const USED_BYTES_MIN: u64 = 10_000;

/// A script that starts a program on all nodes.
fn launcher(site: &Site, ssh: &Ssh) -> PathBuf {
    let script = site.directory("ssh").join("launch");
    let text = format!(
        "#!/bin/bash\nargs=$(printf ' %q' PYTHONPATH=\"$PYTHONPATH\" PYTHONDONTWRITEBYTECODE=1 \"$@\")\n\
         for node in node001 node002 node003 node004; do ssh {} root@$node \"env $args\" & done\nwait\n",
        ssh.options
    );
    fs::write(&script, text).expect("an own directory");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("an own file");
    script
}

#[test]
fn links_use_the_named_interfaces_and_a_node_without_one_the_other() {
    let Some(site) = Site::with_interfaces(NODES, 2) else { return };
    let Ok(ssh) = Ssh::start(&site.cluster, &site.directory("ssh")).map_err(skipped) else { return };
    let flush = site.cluster.on(NODES).command("ip").args(["address", "flush", "dev", "eth1"]).status();
    assert!(flush.expect("ip is installed").success());
    let launcher = launcher(&site, &ssh).display().to_string();
    let program: Vec<String> = site.program().into_iter().collect();
    let expected = site.plain(&[vec![launcher.clone()], program.clone()].concat());
    let args = [vec![launcher, "@".into()], program].concat();
    let run = || {
        site.forget();
        site.served(&["--interfaces", "eth1,eth0", "--marker", "@"], &args)
    };
    let is_whole = |summary: &serde_json::Value| summary["nodes"] == NODES;
    let first = (1..ATTEMPTS).map(|_| run()).find(|(_, summary)| is_whole(summary));
    let (mut output, summary) = first.unwrap_or_else(run);
    let (warnings, others): (Vec<&str>, Vec<&str>) =
        output.stderr.lines().partition(|line| line.starts_with("headwater: warning: "));
    let warning = "warning: node004: no interface eth1 with an address";
    assert!(warnings.len() == 1 && warnings[0].contains(warning), "{warnings:?}");
    output.stderr = others.join("\n");
    assert_eq!(in_any_order(output), in_any_order(expected), "{summary}");
    assert_eq!((&summary["nodes"], &summary["clients"]["fallbacks"]), (&NODES.into(), &0.into()), "{summary}");
    assert!(summary["interface_failures"].is_null(), "{summary}");
    let carried = |number: usize| {
        let (received, sent) = site.cluster.on(number).traffic_on(1).expect("the node lives");
        received + sent
    };
    let carried: Vec<u64> = (1..=NODES).map(carried).collect();
    assert!(carried[..NODES - 1].iter().all(|bytes| *bytes > USED_BYTES_MIN), "{carried:?}");
    assert!(carried[NODES - 1] < USED_BYTES_MIN, "{carried:?}");
}
