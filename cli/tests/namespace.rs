//! `headwater run --via namespace` by a user who may mount: any program, under original paths.

mod site;

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use site::{Site, compile, has_namespaces, program_source, skipped, text};

/// Returns a site whose programs run in a namespace; prints the reason and returns `None` if none can be made.
fn site() -> Option<Site> {
    has_namespaces().then(Site::new)
}

/// `headwater run --via namespace` over `shared`.
fn command(site: &Site, arguments: &[&str]) -> Command {
    let mut command = site.command(&["--via", "namespace"]);
    command.args(arguments);
    command
}

/// Runs a command with and without a namespace, and compares its output; returns the output and the summary.
#[track_caller]
fn same(site: &Site, arguments: &[&str]) -> (String, Value) {
    let json = site.path("work/summary.json");
    let plain = Command::new(arguments[0]).args(&arguments[1..]).current_dir(site.path("work")).output().unwrap();
    let mut command = command(site, &["--summary-json"]);
    let output = command.arg(&json).arg("--").args(arguments).output().unwrap();
    assert_eq!(
        (text(&output.stdout), text(&output.stderr)),
        (text(&plain.stdout), text(&plain.stderr)),
        "{arguments:?}"
    );
    assert_eq!(output.status.code(), plain.status.code());
    let summary: Value = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
    assert_eq!(summary["via"], "namespace", "{summary:#}");
    (text(&output.stdout), summary)
}

fn shell(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn programs_of_every_kind_find_their_files() {
    let Some(site) = site() else { return };
    site.write("shared/data", "the data\n");
    let data = site.path("shared/data");
    for (name, flags) in [("static", &["-static"][..]), ("pie", &["-pie", "-fPIE"]), ("static-pie", &["-static-pie"])] {
        let program = site.path("shared").join(name);
        compile("read.c", flags, &program);
        let (stdout, summary) = same(&site, &[shell(&program), shell(&data)]);
        let own = program.canonicalize().unwrap();
        assert_eq!(stdout, format!("the data\n{0}\n{0}\n", own.display()), "{name}");
        assert_eq!(summary["shared_fs"]["files_read"], 2, "the program and its data: {summary:#}");
    }
    same(&site, &["sh", "-c", &format!("cat {0} < {0}; test -x {1} && echo yes", shell(&data), shell(&data))]);
    site.assert_clean();
}

#[test]
fn go_programs_find_their_files() {
    let Some(site) = site() else { return };
    let program = site.path("shared/read-go");
    let mut compiler = Command::new("go");
    compiler.args(["build", "-o"]).arg(&program).arg(program_source("read.go"));
    compiler.env("CGO_ENABLED", "0").env("GOCACHE", site.path("go")).env("GO111MODULE", "off");
    let built = compiler.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|s| s.success());
    if skipped((!built).then_some("there is no Go compiler")) {
        return;
    }
    let data = site.write("shared/data", "the data\n");
    let (stdout, _) = same(&site, &[shell(&program), shell(&data)]);
    assert_eq!(stdout, format!("the data\n{}\n", program.canonicalize().unwrap().display()));
    site.assert_clean();
}

#[test]
fn java_and_node_find_their_files() {
    let Some(site) = site() else { return };
    let data = site.write("shared/data", "the data\n");
    fs::copy(program_source("read.js"), site.path("shared/read.js")).unwrap();
    if !skipped(Command::new("node").arg("-v").output().is_err().then_some("there is no Node.js")) {
        same(&site, &["node", shell(&site.path("shared/read.js")), shell(&data)]);
    }
    let mut compiler = Command::new("javac");
    compiler.arg("-d").arg(site.path("shared/classes")).arg(program_source("Read.java"));
    if !skipped((!compiler.status().is_ok_and(|s| s.success())).then_some("there is no Java compiler")) {
        same(&site, &["java", "-cp", shell(&site.path("shared/classes")), "Read", shell(&data)]);
    }
    site.assert_clean();
}

#[test]
fn static_programs_get_a_namespace_or_nothing() {
    let Some(site) = site() else { return };
    let program = site.path("shared/static");
    compile("read.c", &["-static"], &program);
    let chosen = |variables: &[(&str, &str)]| {
        let mut command = site.command(&["--via", "auto", "--show-scope", "--"]);
        text(&command.arg(&program).envs(variables.iter().copied()).output().unwrap().stdout)
    };
    assert!(chosen(&[]).contains("via namespace: this user can make a mount namespace"), "{}", chosen(&[]));
}

#[test]
fn excluded_directories_and_other_mounts_are_passed_through() {
    let Some(site) = site() else { return };
    for directory in ["shared/out/deep", "shared/nested"] {
        fs::create_dir_all(site.path(directory)).unwrap();
    }
    site.write("shared/out/deep/file", "original\n");
    symlink(site.path("shared"), site.path("link")).unwrap();
    let script = format!(
        "mount -t tmpfs headwater-test {0}/out/deep && echo mounted > {0}/out/deep/file && exec \"$@\"",
        shell(&site.path("shared"))
    );
    let mut outer = Command::new("unshare");
    outer.args(["--mount", "--propagation", "private", "sh", "-c", &script, "sh"]);
    let mut inner = site.plain_command(&["--via", "namespace", "--shared"]);
    inner.arg(site.path("link")).arg("--exclude").arg(site.path("shared/out"));
    let types =
        format!("cat {0}/out/deep/file; stat -f -c %T {0} {0}/nested {0}/out/deep", shell(&site.path("shared")));
    outer.arg(inner.get_program()).args(inner.get_args()).args(["--", "sh", "-c", &types]);
    outer.envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?)))).current_dir(site.path("work"));
    let output = outer.output().unwrap();
    assert_eq!(
        (text(&output.stdout), text(&output.stderr)),
        ("mounted\nfuseblk\nfuseblk\ntmpfs\n".into(), String::new())
    );
    site.assert_clean();
}

#[test]
fn the_working_directory_is_the_view_of_it() {
    let Some(site) = site() else { return };
    fs::create_dir_all(site.path("shared/in")).unwrap();
    let script = "pwd; stat -f -c %T .";
    let mut command = command(&site, &["--", "sh", "-c", script]);
    let output = command.current_dir(site.path("shared/in")).output().unwrap();
    let expected = format!("{}\nfuseblk\n", site.path("shared/in").canonicalize().unwrap().display());
    assert_eq!(text(&output.stdout), expected, "{}", text(&output.stderr));
    fs::create_dir(site.path("gone")).unwrap();
    let script = format!("cd {0} && rmdir {0} && \"$@\"", shell(&site.path("gone")));
    let mut outer = Command::new("sh");
    outer.args(["-c", &script, "sh", env!("CARGO_BIN_EXE_headwater"), "run", "--via", "namespace", "--shared"]);
    outer.arg(site.path("shared")).arg("--store").arg(site.path("store")).args(["--", "readlink", "/proc/self/cwd"]);
    let output = outer.output().unwrap();
    assert!(text(&output.stdout).contains("gone (deleted)"), "{}{}", text(&output.stdout), text(&output.stderr));
    site.assert_clean();
}

#[test]
fn nothing_of_it_is_seen_outside_or_left() {
    let Some(site) = site() else { return };
    let own = site.path("").display().to_string();
    let script = format!("grep -c {own} /proc/self/mounts; echo $LD_AUDIT$HEADWATER_TABLE; echo $HEADWATER_SESSION");
    let output = command(&site, &["--nodes", "2", "--ppn", "2", "--", "sh", "-c", &script]).output().unwrap();
    let stdout = text(&output.stdout);
    let lines: Vec<&str> = stdout.lines().collect();
    let count = |wanted: &dyn Fn(&str) -> bool| lines.iter().filter(|line| wanted(line)).count();
    let counts = (count(&|l| l == "1"), count(&str::is_empty), count(&|l| l.len() == 16), lines.len());
    assert_eq!(counts, (4, 4, 4, 12), "{stdout}{}", text(&output.stderr));
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    assert!(!mounts.contains(&own), "{mounts}");
    site.assert_clean();
}

#[test]
fn what_can_not_be_entered_is_done_without() {
    let site = Site::new();
    let mut command = Command::new(env!("CARGO_BIN_EXE_headwater"));
    command.args(["exec", "--enter"]).arg(site.path("store/supervisor")).args([
        "--",
        "sh",
        "-c",
        "echo it ran; exit 7",
    ]);
    let output = command.output().unwrap();
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(7), "it ran\n".into()));
    let stderr = text(&output.stderr);
    assert!(stderr.lines().count() == 1 && stderr.contains("The program runs outside"), "{stderr}");
}

#[test]
fn without_fuse_the_next_mechanism_is_taken() {
    let site = Site::new();
    // A device that is not FUSE's.
    let script = "mount --bind /dev/null /dev/fuse && exec \"$@\"";
    let in_container = |via: &str| {
        let mut outer = Command::new("unshare");
        outer.args(["--mount", "--propagation", "private", "sh", "-c", script, "sh"]);
        let inner = site.command(&["--via", via, "--summary-json"]);
        outer.arg(inner.get_program()).args(inner.get_args()).arg(site.path("work/summary.json"));
        outer.envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?)))).current_dir(site.path("work"));
        outer.args(["--", "sh", "-c", "echo ${LD_AUDIT:+audited}"]);
        let output = outer.output().unwrap();
        let summary: Value = serde_json::from_slice(&fs::read(site.path("work/summary.json")).unwrap()).unwrap();
        (text(&output.stdout), text(&output.stderr), summary)
    };
    let unshared = Command::new("unshare").args(["--mount", "true"]).status().is_ok_and(|s| s.success());
    if skipped((!unshared).then_some("this user can make no mount namespace")) {
        return;
    }
    for (via, warns) in [("auto", false), ("namespace", true), ("mount", true)] {
        let (stdout, stderr, summary) = in_container(via);
        assert_eq!((&*stdout, &summary["via"]), ("audited\n", &"audit".into()), "{via}: {stderr}");
        assert_eq!(stderr.contains("Going on with --via audit"), warns, "{via}: {stderr}");
        assert!(!summary["via_reason"].as_str().unwrap().is_empty());
    }
    site.assert_clean();
}

#[test]
fn off_is_the_plain_program() {
    let site = Site::new();
    let json = site.path("work/summary.json");
    let mut command = site.command(&["--via", "off", "--summary-json"]);
    let output = command.arg(&json).args(["--", "sh", "-c", "echo $LD_AUDIT; exit 4"]).output().unwrap();
    assert_eq!((output.status.code(), text(&output.stdout), text(&output.stderr)), (Some(4), "\n".into(), "".into()));
    let summary: Value = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
    assert_eq!((&summary["via"], &summary["off"]), (&"off".into(), &"--via off".into()));
    site.assert_clean();
}

#[test]
fn a_mounts_programs_have_its_prefix() {
    let Some(site) = site() else { return };
    fs::create_dir(site.path("shared/bin")).unwrap();
    let tool =
        site.write("shared/bin/tool", "#!/bin/sh\necho $0; echo $PATH; echo $HEADWATER_MOUNT; cat ${0%/*}/../data\n");
    fs::set_permissions(&tool, fs::Permissions::from_mode(0o755)).unwrap();
    site.write("shared/data", "the data\n");
    let bin = site.path("shared/bin");
    for name in ["tool", shell(&tool)] {
        let mut command = site.command(&["--via", "mount", "--", name]);
        let output = command.env("PATH", format!("{}:/usr/bin:/bin", bin.display())).output().unwrap();
        let stdout = text(&output.stdout);
        let lines: Vec<&str> = stdout.lines().collect();
        let [own, path, mount, data] = lines[..] else { panic!("{stdout}{}", text(&output.stderr)) };
        assert_eq!(own, format!("{mount}{}", tool.display()));
        assert_eq!(path, format!("{mount}{}:/usr/bin:/bin", bin.display()));
        assert!(mount.ends_with("/n0/view"), "{mount}");
        assert_eq!(data, "the data");
    }
    site.assert_clean();
}
