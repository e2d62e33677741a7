//! The usage log of a site: what ordinary users' sessions leave in a file and at a socket, and that neither can change
//! a run.

mod site;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use serde_json::Value;
use site::{Site, TIMEOUT, skipped, text};

/// An ordinary user.
const USER: &str = "1";

/// Returns a site that an ordinary user may use, with a copy of /etc for [`run`].
fn site() -> Option<Site> {
    let is_root = rustix::process::geteuid().is_root();
    if skipped((!is_root).then_some("only root can set what a site's file says")) {
        return None;
    }
    let site = Site::new();
    for (name, mode) in [("", 0o755), ("shared", 0o755), ("lib", 0o755), ("work", 0o777), ("store", 0o1777)] {
        fs::set_permissions(site.path(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    let copied = Command::new("cp").args(["-a", "/etc"]).arg(site.path("etc")).output().unwrap();
    assert!(site.path("etc/passwd").is_file(), "{copied:?}");
    let can = run(&site, "", &["--version"], &[]);
    (!skipped((!can.status.success()).then_some("another user can't run headwater"))).then_some(site)
}

/// Runs headwater as an ordinary user where the site's file has these lines. It ends in time.
fn run(site: &Site, lines: &str, arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    fs::create_dir_all(site.path("etc/headwater")).unwrap();
    site.write("etc/headwater/headwater.toml", lines);
    let mut command = Command::new("unshare");
    let script = "mount --bind \"$0\" /etc && exec setpriv --reuid=\"$1\" --regid=\"$1\" --clear-groups -- \"${@:2}\"";
    command.args(["--mount", "--propagation", "private", "bash", "-c", script]).arg(site.path("etc")).arg(USER);
    command.arg(env!("CARGO_BIN_EXE_headwater")).args(arguments).current_dir(site.path("work")).env("USER", "someone");
    let plain = site.plain_command(&[] as &[&str]);
    for (name, value) in plain.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let began = Instant::now();
    let output = command.envs(variables.iter().copied()).output().unwrap();
    assert!(began.elapsed() < TIMEOUT, "{output:?}");
    output
}

/// Runs a program with arguments, on two nodes.
fn run_program(site: &Site, lines: &str, options: &[&str]) -> Output {
    let shared = site.path("shared").display().to_string();
    let program = ["--nodes", "2", "--", "/bin/sh", "-c", "exit 3", "secret"];
    run(site, lines, &[&["run", "--shared", &shared], options, &program].concat(), &[])
}

fn check(line: &str) {
    let json: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"));
    let field = |name: &str| json[name].to_string();
    let fields = ["uid", "program", "nodes", "processes", "mechanism"].map(field);
    assert_eq!(fields, [USER, "\"sh\"", "2", "2", "\"audit\""], "{line}");
    let users = fs::read_to_string("/etc/passwd").unwrap();
    let user = users.lines().find(|line| line.split(':').nth(2) == Some(USER)).and_then(|line| line.split(':').next());
    assert_eq!(json["user"].as_str(), Some(user.unwrap_or("someone")), "{line}");
    assert!(json["duration_ms"].as_f64().unwrap() > 0.0 && json["saved_operations"].is_u64(), "{line}");
    assert!(!line.contains("secret") && !line.contains("/bin"), "{line}");
}

#[test]
fn each_session_leaves_a_line_in_a_file() {
    let Some(site) = site() else { return };
    let log = site.write("usage.jsonl", "");
    fs::set_permissions(&log, fs::Permissions::from_mode(0o622)).unwrap();
    let lines = format!("usage-log = '{}'\n", log.display());
    for _ in 0..2 {
        // HEADWATER_CONFIG is empty, as a user may have it.
        let output = run_program(&site, &lines, &[]);
        assert_eq!((output.status.code(), text(&output.stderr)), (Some(3), String::new()));
    }
    let logged = fs::read_to_string(&log).unwrap();
    assert_eq!(logged.lines().count(), 2, "{logged}");
    logged.lines().for_each(check);
    let off = run(&site, &lines, &["run", "--via", "off", "--", "/bin/true"], &[]);
    assert!(off.status.success());
    let last = fs::read_to_string(&log).unwrap().lines().last().unwrap().to_owned();
    assert!(last.contains(r#""program":"true""#) && last.contains(r#""mechanism":"off""#), "{last}");
    assert!(run_program(&site, "", &[]).status.code() == Some(3), "without the key");
    assert_eq!(fs::read_to_string(&log).unwrap().lines().count(), 3);
}

/// The Slurm plugin starts this command; it ends with its input.
#[test]
fn a_plugins_front_end_leaves_a_line() {
    let Some(site) = site() else { return };
    let log = site.write("usage.jsonl", "");
    fs::set_permissions(&log, fs::Permissions::from_mode(0o622)).unwrap();
    let options = format!("--options=shared={},via=audit", site.path("shared").display());
    let output = run(&site, &format!("usage-log = '{}'\n", log.display()), &["front", &options, "--", "sh"], &[]);
    assert!(output.status.success() && text(&output.stdout).starts_with('{'), "{output:?}");
    let logged = fs::read_to_string(&log).unwrap();
    let json: Value = serde_json::from_str(&logged).unwrap();
    assert_eq!((&json["program"], &json["mechanism"], &json["nodes"]), (&"sh".into(), &"off".into(), &0.into()));
}

#[test]
fn a_socket_gets_a_datagram_and_can_be_full() {
    let Some(site) = site() else { return };
    let path = site.path("log");
    let log = UnixDatagram::bind(&path).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
    log.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let lines = format!("usage-log = '{}'\n", path.display());
    assert_eq!(run_program(&site, &lines, &[]).status.code(), Some(3));
    let mut bytes = [0; 2048];
    let length = log.recv(&mut bytes).unwrap();
    let message = text(&bytes[..length]);
    let (head, line) = message.split_once(": ").unwrap();
    assert!(head.starts_with("<14>headwater["), "{message}");
    check(line);
    // Each sender has a limit of its own, too.
    let fill = || {
        let sender = UnixDatagram::unbound().unwrap();
        sender.set_nonblocking(true).unwrap();
        sender.send_to(b"x", &path)
    };
    while fill().is_ok() {}
    let output = run_program(&site, &lines, &[]);
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(3), String::new()));
    let output = run_program(&site, &lines, &["--verbose"]);
    assert!(text(&output.stderr).contains("usage-log: "), "{}", text(&output.stderr));
}

#[test]
fn a_log_that_is_not_there_changes_nothing() {
    let Some(site) = site() else { return };
    for lines in ["usage-log = '/nonexistent/usage'\n", "usage-log = '/dev/full'\n", "usage-log = '/etc/shadow'\n"] {
        let output = run_program(&site, lines, &[]);
        assert_eq!((output.status.code(), text(&output.stderr)), (Some(3), String::new()), "{lines}");
    }
}

#[test]
fn the_key_is_the_sites_alone() {
    let site = Site::new();
    fs::create_dir_all(site.path("config/headwater")).unwrap();
    site.write("config/headwater/headwater.toml", "\nusage-log = '/tmp/mine'\n");
    let mut command = site.command(&["--", "true"]);
    let command = command.env_remove("HEADWATER_CONFIG").env("XDG_CONFIG_HOME", site.path("config"));
    let output = command.output().unwrap();
    let printed = text(&output.stderr);
    assert_eq!(output.status.code(), Some(125), "{printed}");
    let place = site.path("config/headwater/headwater.toml");
    let expected = format!("{}:2: `usage-log` can't be set in a user's file", place.display());
    assert!(printed.contains(&expected), "{printed}");
    assert!(!Path::new("/tmp/mine").exists());
}

#[test]
fn a_wrong_value_is_a_warning_of_the_site() {
    let Some(site) = site() else { return };
    let shared = site.path("shared").display().to_string();
    let arguments = ["run", "--shared", &shared, "--", "/bin/true"];
    let output = run(&site, "usage-log = 'here'\n", &arguments, &[("HEADWATER_CONFIG", "/dev/null")]);
    let printed = text(&output.stderr);
    assert!(printed.contains("`usage-log`: write syslog, or the absolute path"), "{printed}");
    assert!(output.status.success(), "{printed}");
}
