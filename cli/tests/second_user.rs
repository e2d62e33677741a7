//! Two users of one machine are isolated from each other.

mod site;

use std::fs;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use site::running::Running;
use site::{Site, skipped, text};

/// The session's user, and the other one.
const USER: u32 = 1;
const OTHER_USER: u32 = 7;

/// Returns a site with a public store directory, like `/dev/shm`.
fn site() -> Option<Site> {
    let is_root = rustix::process::geteuid().is_root();
    if skipped((!is_root).then_some("only root can be two other users")) {
        return None;
    }
    let can = by(USER, Command::new(env!("CARGO_BIN_EXE_headwater")).arg("--version")).output();
    if skipped((!can.is_ok_and(|output| output.status.success())).then_some("another user can't run headwater")) {
        return None;
    }
    let site = Site::new();
    for (name, mode) in [("", 0o755), ("shared", 0o755), ("lib", 0o755), ("work", 0o777), ("store", 0o1777)] {
        fs::set_permissions(site.path(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    Some(site)
}

/// Returns the command, run by this user.
fn by(user: u32, command: &Command) -> Command {
    let mut changed = Command::new("setpriv");
    changed.arg(format!("--reuid={user}")).arg(format!("--regid={user}")).arg("--clear-groups");
    changed.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => changed.env(name, value),
            None => changed.env_remove(name),
        };
    }
    if let Some(directory) = command.get_current_dir() {
        changed.current_dir(directory);
    }
    changed
}

/// Runs `headwater` with these arguments as the other user.
fn attempt(site: &Site, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_headwater"));
    command.args(arguments).env("HEADWATER_STORE", site.path("store"));
    by(OTHER_USER, &command).output().unwrap()
}

#[test]
fn a_second_user_finds_changes_and_ends_nothing() {
    let Some(site) = site() else { return };
    site.write("shared/data", "of the job\n");
    let summary = site.path("work/summary.json");
    let (go, data) = (site.path("work/go"), site.path("shared/data"));
    let script = format!("echo ready; until [ -e {} ]; do sleep 0.02; done; cat {}", go.display(), data.display());
    let mut command = site.command(&["--nodes", "2", "--summary-json"]);
    command.arg(&summary).args(["--", "sh", "-c", &script]);
    let running = Running::start(by(USER, &command), 2);

    let base = site.path("store").join(format!("headwater-{USER}"));
    let session = fs::read_dir(&base).unwrap().map(|entry| entry.unwrap().path()).find(|path| path.is_dir()).unwrap();
    let name = session.file_name().unwrap().to_str().unwrap().to_owned();
    for arguments in [
        &["stats"][..],
        &["stats", "--session", &name],
        &["clear", "--all", "--session", &name],
        &["refresh", "--session", &name],
    ] {
        let output = attempt(&site, arguments);
        assert_eq!(output.status.code(), Some(125), "{arguments:?}: {output:?}");
        assert!(text(&output.stderr).contains("lives on this machine"), "{arguments:?}: {output:?}");
    }
    let supervisor = session.join("n0/supervisor");
    let entered = attempt(&site, &["exec", "--enter", supervisor.to_str().unwrap(), "--", "true"]);
    assert!(text(&entered.stderr).contains("outside of the node's namespace"), "{entered:?}");
    let fixed = attempt(&site, &["doctor", "--fix", "--json"]);
    let findings: Value = serde_json::from_slice(&fixed.stdout).unwrap();
    assert_eq!(findings["removed"], Value::Array(Vec::new()));
    // The other user's session lies beside it, and removes nothing of it.
    let own = by(OTHER_USER, &site.command(&["--", "true"])).output().unwrap();
    assert_eq!((own.status.code(), text(&own.stderr)), (Some(0), String::new()));

    fs::write(go, "").unwrap();
    assert_eq!(running.end(), (Some(0), "of the job\n".repeat(2)));
    let summary: Value = serde_json::from_slice(&fs::read(summary).unwrap()).unwrap();
    assert_eq!((&summary["daemons_lost"], &summary["off"]), (&0.into(), &Value::Null), "{summary:#}");
    site.assert_clean();
}

#[test]
fn names_that_another_user_has_taken_are_evaded() {
    let Some(site) = site() else { return };
    let taken = site.path("store").join(format!("headwater-{USER}"));
    fs::create_dir(&taken).unwrap();
    chown(&taken, Some(OTHER_USER), Some(OTHER_USER)).unwrap();
    let summary = site.path("work/summary.json");
    let mut command = site.command(&["--summary-json"]);
    command.arg(&summary).args(["--", "sh", "-c", "echo ready; read line; exit 3"]);
    let mut command = by(USER, &command);
    command.stdin(Stdio::piped());
    let mut running = Running::start(command, 1);
    let mut stats = Command::new(env!("CARGO_BIN_EXE_headwater"));
    stats.args(["stats", "--json"]).env("HEADWATER_STORE", site.path("store"));
    let seen = by(USER, &stats).output().unwrap();
    assert!(seen.status.success(), "{seen:?}");
    running.child.stdin.take().unwrap().write_all(b"go on\n").unwrap();
    assert_eq!(running.end(), (Some(3), String::new()));
    let summary: Value = serde_json::from_slice(&fs::read(summary).unwrap()).unwrap();
    assert_eq!((&summary["via"], &summary["daemons_lost"]), (&"audit".into(), &0.into()));
    assert_eq!(entries(&site.path("store")), [taken.file_name().unwrap().to_str().unwrap()]);
    fs::remove_dir(taken).unwrap();
    site.assert_clean();
}

fn entries(directory: &Path) -> Vec<String> {
    let names = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name());
    names.map(|name| name.into_string().unwrap()).collect()
}
