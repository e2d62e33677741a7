//! A tool that brings its own daemons to the nodes: the launcher of `integrations/launch`, in C.

use std::path::PathBuf;
use std::process::Command;

use headwater_tests::harness::services::Ssh;
use headwater_tests::harness::{Output, headwater_binary};
use headwater_tests::{prefix, workspace};

use crate::site::{NODES, Site, in_any_order};
use crate::ssh::{names, with_ssh};

fn build(site: &Site) -> PathBuf {
    let launcher = site.directory("tool").join("tiny-launcher");
    let mut compiler = Command::new("cc");
    compiler.args(["-Wall", "-Wextra", "-Werror", "-pedantic", "-o"]).arg(&launcher);
    compiler.arg(workspace().join("integrations/launch/tiny-launcher.c"));
    let output = compiler.arg(format!("-I{}", prefix().join("include").display())).output().expect("cc can be started");
    assert!(output.status.success(), "{output:?}");
    launcher
}

/// Runs the site's program on all nodes but the first, from the first.
fn run(site: &Site, ssh: &Ssh, options: &str) -> Output {
    let nodes: Vec<usize> = (2..=NODES).collect();
    let hosts: Vec<String> = names(site, &nodes).into_iter().map(|name| format!("root@{name}")).collect();
    let launcher = build(site).display().to_string();
    let args: Vec<String> =
        [launcher, options.into(), hosts.join(",")].into_iter().chain(site.program_with_variables()).collect();
    site.forget();
    site.on_first(&args).env("SSH", &ssh.agent).env("HEADWATER", headwater_binary()).run()
}

#[test]
fn a_launcher_in_c_serves_its_nodes() {
    with_ssh(Site::new(), |site, ssh| {
        let line = format!("36100 {}/pkg/m0.py", site.shared().display());
        let expected = vec![line; NODES - 1];
        for via in ["namespace", "audit"] {
            let options = format!("verbose,via={via},shared={}", site.shared().display());
            let output = in_any_order(run(site, ssh, &options));
            site.assert_clean();
            assert_eq!(output.stdout.lines().collect::<Vec<_>>(), expected, "{output:?}");
            assert_eq!(output.status, 0, "{output:?}");
            assert!(output.stderr.contains("nodes that take part: 3"), "{output:?}");
            assert!(output.stderr.contains("processes on 3 nodes"), "{output:?}");
            assert_eq!(site.repeated(), [""; 0], "{output:?}");
        }
        // Without a session the program runs all the same.
        let output = run(site, ssh, "shrd=/nowhere");
        assert_eq!((output.status, output.stdout.lines().count()), (0, NODES - 1), "{output:?}");
        assert!(output.stderr.contains("runs without Headwater: failed: unexpected argument '--shrd'"), "{output:?}");
    });
}
