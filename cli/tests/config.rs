//! Files with defaults: their effect on sessions, and what is reported of them.

mod site;

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use site::{Site, text};

/// Writes the user's file.
fn write(site: &Site, lines: &str) {
    fs::create_dir_all(site.path("config/headwater")).unwrap();
    site.write("config/headwater/headwater.toml", lines);
}

/// Has the command read the user's file.
fn with_file(site: &Site, mut command: Command) -> Command {
    command.env_remove("HEADWATER_CONFIG").env("XDG_CONFIG_HOME", site.path("config"));
    command
}

/// Runs another command of headwater, without variables.
fn headwater(site: &Site, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_headwater"));
    command.env_clear().args(arguments).stdin(Stdio::null());
    with_file(site, command).output().unwrap()
}

fn summary(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

#[test]
fn the_users_file_sets_defaults_below_variables_and_the_command_line() {
    let site = Site::new();
    let json = site.path("work/summary.json");
    let shared = site.path("shared");
    write(
        &site,
        &format!(
            "shared = ['{}']\nsummary-json = '{}'\nfan-out = 1\nsummary = true\nstore-max = '64M'\n",
            shared.display(),
            json.display()
        ),
    );
    let run = |arguments: &[&str], variables: &[(&str, &str)]| {
        let mut command = with_file(&site, site.plain_command(&[arguments, &["--", "env"]].concat()));
        let output = command.envs(variables.iter().copied()).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        (summary(&json)["overlay"]["depth"].as_u64().unwrap(), text(&output.stdout), text(&output.stderr))
    };
    let (depth, environment, messages) = run(&["--nodes", "3"], &[]);
    assert_eq!(depth, 2, "a fan-out of 1 makes a chain");
    assert!(messages.contains("3 processes on 3 nodes"), "{messages}");
    for name in ["SHARED", "FAN_OUT", "SUMMARY", "STORE_MAX"] {
        assert!(!environment.contains(&format!("HEADWATER_{name}=")), "{environment}");
    }
    let (depth, _, messages) = run(&["--nodes", "3"], &[("HEADWATER_FAN_OUT", "2"), ("HEADWATER_NO_SUMMARY", "1")]);
    assert_eq!((depth, messages), (1, String::new()));
    assert_eq!(run(&["--nodes", "3", "--fan-out", "2"], &[("HEADWATER_FAN_OUT", "1")]).0, 1);
    assert_eq!(run(&["--nodes", "3", "--trees", "1"], &[]).0, 1, "one tree of the default's fan-out");
    site.assert_clean();
}

#[test]
fn unknown_keys_are_reported_once_and_the_program_runs() {
    let site = Site::new();
    write(&site, "# written for a newer version\nstoer-max = '2G'\n");
    let output = with_file(&site, site.command(&["--nodes", "2", "--", "sh", "-c", "exit 3"])).output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    let path = site.path("config/headwater/headwater.toml").display().to_string();
    let unknown = format!("{path}:2: the key `stoer-max` is unknown; the nearest known one is `store-max`\n");
    assert_eq!(text(&output.stderr), format!("headwater: warning: {unknown}"));
    let check = headwater(&site, &["config", "--check"]);
    assert_eq!((check.status.code(), text(&check.stderr)), (Some(1), format!("headwater: {unknown}")));
    site.assert_clean();
}

#[test]
fn a_wrong_value_is_an_error_with_its_line() {
    let site = Site::new();
    write(&site, "\nstore-max = 'much'\n");
    let output = with_file(&site, site.command(&["--", "true"])).output().unwrap();
    let path = site.path("config/headwater/headwater.toml").display().to_string();
    let expected = format!("headwater: {path}:2: `store-max`: write a size as 4096, 512M or 2G\n");
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(125), expected));
    assert_eq!(headwater(&site, &["run", "--help"]).status.code(), Some(0));
    assert_eq!(headwater(&site, &["closures"]).status.code().map(|code| code == 125), Some(true), "no home directory");
    let mut missing = site.command(&["--", "true"]);
    let output = missing.env("HEADWATER_CONFIG", "/nonexistent").output().unwrap();
    assert_eq!(text(&output.stderr), "headwater: /nonexistent: HEADWATER_CONFIG names it, and it is not there\n");
    site.assert_clean();
}

#[test]
fn values_are_shown_with_where_they_come_from() {
    let site = Site::new();
    write(&site, "shared = ['/a', '/b']\nnuma-replicas = true\n");
    let path = site.path("config/headwater/headwater.toml").display().to_string();
    let table = text(&headwater(&site, &["config"]).stdout);
    let line = |name: &str| {
        let line = table.lines().find(|line| line.split_whitespace().next() == Some(name));
        line.unwrap_or_else(|| panic!("{table}")).split_whitespace().skip(1).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(line("shared"), format!("/a /b {path}:1"));
    assert_eq!((line("via"), line("store-max")), ("auto default".into(), "- default".into()));
    assert!(table.contains("\nScope\n") && !table.contains("\n  nodes "), "{table}");
    let files = text(&headwater(&site, &["config", "--files"]).stdout);
    assert!(files.contains(&path) && files.contains("/etc/headwater/headwater.toml"), "{files}");
    let json: Value = serde_json::from_slice(&headwater(&site, &["config", "--json"]).stdout).unwrap();
    let option = |name| json["options"].as_array().unwrap().iter().find(|option| option["key"] == name).unwrap();
    assert_eq!(option("numa-replicas")["value"], true);
    assert_eq!((&option("shared")["from"], &option("shared")["line"]), (&"user".into(), &1.into()));
    assert_eq!(json["files"][0]["state"], "read");
    let check = headwater(&site, &["config", "--check"]);
    assert_eq!((check.status.code(), text(&check.stderr)), (Some(0), String::new()));
}

#[test]
fn commands_find_what_the_files_of_others_made() {
    let site = Site::new();
    let (shared, jobs) = (site.path("shared"), site.path("jobs"));
    write(&site, &format!("shared = '{}'\njob-dir = '{}'\nfuture = 1\n", shared.display(), jobs.display()));
    let started = headwater(&site, &["start", "--", "/bin/sh"]);
    let session = text(&started.stdout).trim().to_owned();
    assert!(jobs.join(&session).is_file(), "{}", text(&started.stderr));
    assert_eq!(text(&started.stderr).matches("`future` is unknown").count(), 1, "{}", text(&started.stderr));
    let stopped = headwater(&site, &["stop", &session]);
    assert_eq!(stopped.status.code(), Some(0), "{}", text(&stopped.stderr));
    assert!(!jobs.join(&session).exists());
}

/// The Slurm plugin starts this command.
#[test]
fn a_plugins_front_end_reads_the_file() {
    let site = Site::new();
    let front = |lines: &str, options: &str| {
        write(&site, lines);
        let output = headwater(&site, &["front", &format!("--options={options}"), "--", "sh"]);
        text(&output.stdout).lines().next().unwrap_or_default().to_owned()
    };
    let shared = format!("shared = '{}'\n", site.path("shared").display());
    let job = front(&format!("{shared}via = 'audit'\n"), "");
    assert!(job.starts_with('{') && job.contains(&site.path("shared").display().to_string()), "{job}");
    assert_eq!(front("via = 'off'\n", ""), "off: via=off");
    assert!(front(&format!("{shared}via = 'off'\n"), "via=audit").starts_with('{'));
    assert!(front("via = 'air'\n", "").starts_with("failed: "), "a wrong file leaves the job as it is");
}
