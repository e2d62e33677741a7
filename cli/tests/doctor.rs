//! The text and the JSON of `headwater doctor`.

mod site;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output};

use rustix::process::getuid;
use serde_json::Value;
use site::{Site, skipped, text};

fn doctor(site: &Site, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_headwater"));
    command
        .arg("doctor")
        .args(arguments)
        .env("HEADWATER_LIBDIR", site.path("lib"))
        .env("HEADWATER_STORE", site.path("store"));
    command
}

fn findings(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {}", text(&output.stderr)))
}

fn check<'a>(findings: &'a Value, name: &str) -> &'a Value {
    let found = findings["checks"].as_array().unwrap().iter().find(|check| check["name"] == name);
    found.unwrap_or_else(|| panic!("no {name} in {findings:#}"))
}

#[test]
fn every_check_has_a_result_and_a_next_step_unless_all_is_well() {
    let site = Site::new();
    let output = doctor(&site, &["--json"]).output().unwrap();
    let findings = findings(&output);
    assert_eq!(output.status.code(), Some(0), "{findings:#}");
    let machine = ["kernel", "/dev/fuse", "FUSE", "namespace", "user namespaces", "fusermount3", "audit", "store"];
    for name in machine.into_iter().chain(["encryption", "socket buffers", "links"]) {
        let check = check(&findings, name);
        assert_eq!(check["verdict"] == "ok", check["next"].is_null(), "{check:#}");
    }
    assert_eq!(check(&findings, "audit")["verdict"], "ok", "{findings:#}");
    assert_eq!(findings["mechanisms"]["audit"], true);
    assert!(!findings["via_reason"].as_str().unwrap().is_empty());
    let output = doctor(&site, &[]).output().unwrap();
    let stdout = text(&output.stdout);
    assert!(stdout.starts_with("ok       kernel ") && !stdout.contains('\x1b'), "{stdout}");
    assert!(stdout.contains("An ordinary program runs via "), "{stdout}");
}

#[test]
fn a_missing_feature_is_reported_with_the_next_step() {
    let site = Site::new();
    let mut command = doctor(&site, &["--json"]);
    command.env("HEADWATER_LIBDIR", site.path("work")).env("HEADWATER_STORE", site.path("nowhere"));
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1), "without a store nothing works");
    let findings = findings(&output);
    for (name, next) in [("audit", "cargo xtask dist"), ("store", "--store")] {
        let check = check(&findings, name);
        assert_eq!(check["verdict"], "missing", "{check:#}");
        assert!(check["next"].as_str().unwrap().contains(next), "{check:#}");
    }
    assert_eq!(findings["via"], "off");
}

#[test]
fn a_machine_without_fuse_is_recognized() {
    let site = Site::new();
    let unshared = Command::new("unshare").args(["--mount", "true"]).status().is_ok_and(|s| s.success());
    if skipped((!unshared).then_some("this user can make no mount namespace")) {
        return;
    }
    let inner = doctor(&site, &["--json"]);
    let mut outer = Command::new("unshare");
    outer.args([
        "--mount",
        "--propagation",
        "private",
        "sh",
        "-c",
        "mount --bind /dev/null /dev/fuse && exec \"$@\"",
        "sh",
    ]);
    outer.arg(inner.get_program()).args(inner.get_args());
    outer.envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let findings = findings(&outer.output().unwrap());
    assert_eq!((&findings["mechanisms"]["namespace"], &findings["via"]), (&false.into(), &"audit".into()));
    assert_eq!(check(&findings, "namespace")["verdict"], "missing", "{findings:#}");
}

#[test]
fn what_dead_sessions_left_is_found_and_removed() {
    let site = Site::new();
    let base = site.path("store").join(format!("headwater-{}", getuid().as_raw()));
    let dead = base.join("00000000000000aa");
    fs::create_dir_all(dead.join("n0/1/root")).unwrap();
    fs::write(dead.join("lock"), "").unwrap();
    fs::set_permissions(&base, fs::Permissions::from_mode(0o700)).unwrap();
    let before = findings(&doctor(&site, &["--json"]).output().unwrap());
    assert!(check(&before, "dead sessions")["found"].as_str().unwrap().starts_with("1, "), "{before:#}");
    let fixed = findings(&doctor(&site, &["--json", "--fix"]).output().unwrap());
    assert!(fixed["removed"][0].as_str().unwrap().contains("00000000000000aa"), "{fixed:#}");
    assert_eq!(check(&fixed, "dead sessions")["verdict"], "ok");
    site.assert_clean();
}

#[test]
fn stale_mounts_are_found_and_removed() {
    let site = Site::new();
    let unshared = Command::new("unshare").args(["--mount", "true"]).status().is_ok_and(|s| s.success());
    if skipped((!unshared).then_some("this user can make no mount namespace")) {
        return;
    }
    fs::create_dir(site.path("view")).unwrap();
    // In a namespace of its own, where no other test removes stale mounts. Both are killed at once: a survivor would
    // unmount.
    let script = "\"$1\" mount --root \"$2/shared\" --store \"$2/store\" \"$2/view\" >&2 || exit 1; \
                  living() { \
                    for pid in $(grep -lz \"$1/store\" /proc/[0-9]*/environ 2>/dev/null | cut -d/ -f3); do \
                      tr '\\0' ' ' 2>/dev/null < /proc/$pid/cmdline | grep -q -e '^headwater supervise' -e '^headwater daemon' && echo $pid; \
                    done; \
                  }; \
                  for n in $(seq 200); do pids=$(living \"$2\"); test -n \"$pids\" || break; kill -STOP $pids; kill -9 $pids; sleep 0.05; done; \
                  for n in $(seq 200); do stat \"$2/view\" >/dev/null 2>&1 || break; sleep 0.05; done; \
                  \"$1\" doctor --json; \"$1\" doctor --json --fix; stat -f -c %T \"$2/view\"";
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-c", script, "sh", env!("CARGO_BIN_EXE_headwater")]);
    command
        .arg(site.path("shared").parent().unwrap())
        .env("HEADWATER_LIBDIR", site.path("lib"))
        .env("HEADWATER_STORE", site.path("store"));
    let output = command.output().unwrap();
    let stdout = text(&output.stdout);
    let mut found = serde_json::Deserializer::from_str(&stdout).into_iter::<Value>();
    let (before, fixed) = (found.next().unwrap().unwrap(), found.next().unwrap().unwrap());
    let view = site.path("view").display().to_string();
    let stale = check(&before, "stale mounts")["found"].as_str().unwrap();
    assert!(stale.starts_with("1, ") && stale.ends_with(&view), "{before:#}{}", text(&output.stderr));
    assert!(fixed["removed"].to_string().contains(&view), "{fixed:#}");
    assert_eq!(check(&fixed, "stale mounts")["verdict"], "ok", "{fixed:#}");
    site.assert_clean();
}

#[test]
fn the_mpis_whose_io_can_be_made_parallel_are_named() {
    let site = Site::new();
    let verdict = || {
        let findings = findings(&doctor(&site, &["--json"]).output().unwrap());
        let check = check(&findings, "MPI I/O");
        (check["verdict"].as_str().unwrap().to_owned(), check["found"].as_str().unwrap().to_owned())
    };
    let (missing, found) = verdict();
    assert!(missing == "warning" && found.contains("libheadwater-mpiio.so is missing"), "{found}");
    fs::create_dir(site.path("lib/headwater")).unwrap();
    site.write("lib/libheadwater-mpiio.so", "");
    assert!(verdict().1.ends_with("has no part for any MPI"));
    for name in ["mpiio-openmpi4.so", "mpiio-mpich5.so", "else.so"] {
        site.write(&format!("lib/headwater/{name}"), "");
    }
    let (unloadable, found) = verdict();
    assert!(unloadable == "warning" && found.contains("can't load") && found.contains("file too short"), "{found}");
    let library = site.path("lib/libheadwater-mpiio.so");
    let built = Command::new("cc").args(["-shared", "-nostdlib", "-x", "c", "/dev/null", "-o"]).arg(&library).status();
    assert!(built.unwrap().success());
    let loads = format!("mpich5, openmpi4; /bin/sh loads {}", library.display());
    assert_eq!(verdict(), ("ok".into(), loads));
}
