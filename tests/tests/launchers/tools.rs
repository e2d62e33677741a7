//! A tool that brings its own daemons to the nodes: the launcher of `integrations/launch`, in C.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use headwater_tests::harness::services::Ssh;
use headwater_tests::harness::{Fixture, Output, headwater_binary, wait_until};
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

fn begin(args: &[&str]) -> Child {
    let mut command = Command::new(headwater_binary());
    command.args(args).env("HEADWATER_TOOL_NODE", "0").env("HEADWATER_TOOL_NODES", "1");
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    piped.spawn().expect("the command can be started")
}

fn line_of(child: &mut Child) -> String {
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().expect("a pipe")).read_line(&mut line).expect("a pipe");
    line
}

/// As the Slurm plugin asks it to, before Slurm kills what is left of a step.
#[test]
fn a_node_that_leaves_has_reported() {
    let fixture = Fixture::new("leaving");
    let file = fixture.file("lib/text", "content\n", 0o644).display().to_string();
    let options = format!("--options=verbose,shared={}", fixture.shared().display());
    let mut front = begin(&["front", &options, "--", "cat"]);
    let job = line_of(&mut front);
    let mut node = begin(&["node", "--has-owner", "-"]);
    node.stdin.as_mut().expect("a pipe").write_all(job.as_bytes()).expect("it reads the job");
    let socket = line_of(&mut node);
    let session = Path::new(socket.trim()).parent().expect("a session's directory").to_owned();
    let name = session.file_name().and_then(|name| name.to_str()).expect("a plain name");
    let output = Command::new(headwater_binary()).args(["exec", "--job", name, "--", "cat", &file]).output();
    assert_eq!(output.expect("it can be started").stdout, b"content\n");
    node.stdin.as_mut().expect("a pipe").write_all(b"leave\n").expect("the agent reads");
    assert!(wait_until(Duration::from_secs(30), || !session.exists()), "the agent ends while its front end runs");
    let mut summary = String::new();
    front.stdin.take().expect("a pipe").write_all(b"\n").expect("the front end reads");
    front.stderr.take().expect("a pipe").read_to_string(&mut summary).expect("text");
    assert!(summary.contains("1 process on 1 node") && summary.contains("1 file "), "{summary}");
    assert!(!summary.contains("lost"), "{summary}");
    assert!(front.wait().is_ok_and(|status| status.success()) && node.wait().is_ok_and(|status| status.success()));
}
