//! `headwater run`: exit status, messages, options, the summary.

mod site;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use serde_json::Value;
use site::{Site, text};

#[test]
fn the_exit_status_is_the_programs() {
    let site = Site::new();
    for script in ["exit 0", "exit 3", "exit 255", "kill -TERM $$", "kill -KILL $$"] {
        let plain = Command::new("sh").args(["-c", script]).status().unwrap();
        assert_eq!(site.run(&["--", "sh", "-c", script]).status, plain, "{script}");
        let unserved = site.plain_command(&["--", "sh", "-c", script]).output().unwrap();
        assert_eq!(unserved.status, plain, "{script} without a session");
    }
    site.assert_clean();
}

#[test]
fn of_several_processes_the_highest_counts() {
    let site = Site::new();
    let output = site.run(&["--nodes", "2", "--ppn", "2", "--", "sh", "-c", "exit $((40 - HEADWATER_RANK))"]);
    assert_eq!(output.status.code(), Some(40));
    site.assert_clean();
}

#[test]
fn what_can_not_be_executed_is_reported_as_a_shell_does() {
    let site = Site::new();
    site.write("work/plain", "");
    site.write("work/script.py", "print()\n");
    site.write("work/lost", "#!/nonexistent/interpreter\n");
    site.write("work/tool", "#!/bin/sh\n");
    for name in ["work/lost", "work/tool"] {
        fs::set_permissions(site.path(name), fs::Permissions::from_mode(0o755)).unwrap();
    }
    for (program, status, message) in [
        ("no-such-program", 127, "no-such-program: command not found"),
        ("./no-such-program", 127, "./no-such-program: No such file or directory"),
        ("./plain", 126, "./plain: Permission denied; it is not executable: `chmod +x ./plain`"),
        (
            "script.py",
            127,
            "script.py: command not found; it is in this directory and not executable: write python3 ./script.py, or `chmod +x ./script.py`",
        ),
        ("tool", 127, "tool: command not found; it is in this directory: write ./tool"),
        ("/etc", 126, "/etc: Is a directory"),
        ("./plain/x", 126, "./plain/x: Not a directory"),
        ("./lost", 127, "./lost: cannot execute: required file not found"),
    ] {
        let output = site.run(&["--", program]);
        assert_eq!((output.status.code(), text(&output.stderr)), (Some(status), format!("headwater: {message}\n")));
    }
    site.assert_clean();
}

#[test]
fn a_wrong_command_line_is_125() {
    let site = Site::new();
    for arguments in
        [&["--no-such-option", "true"][..], &["--nodes", "0", "true"], &["--store-max", "lots", "true"], &[]]
    {
        let output = site.run(arguments);
        assert_eq!(output.status.code(), Some(125), "{arguments:?}");
        assert!(!output.stderr.is_empty() && output.stdout.is_empty());
    }
    let output = site.run(&["--nodes", "x", "true"]);
    assert_eq!(text(&output.stderr), "headwater: --nodes x: write a number from 1 to 1024\n");
    let output = site.command(&["true"]).env("HEADWATER_NODES", "x").output().unwrap();
    assert_eq!(text(&output.stderr), "headwater: HEADWATER_NODES=x: write a number from 1 to 1024\n");
    let empty = [("HEADWATER_NODES", ""), ("HEADWATER_EXCLUDE", ""), ("HEADWATER_VIA", ""), ("HEADWATER_QUIET", "")];
    let output = site.command(&["true"]).envs(empty).output().unwrap();
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
    let output = site.run(&["--push", "--pull", "true"]);
    let expected = "headwater: --push and --pull exclude each other: write one of them\n";
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(125), expected.into()));
    let output = site.command(&["--pull", "true"]).env("HEADWATER_PUSH", "1").output().unwrap();
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
    let help = site.run(&["--help"]);
    assert_eq!(help.status.code(), Some(0));
    assert!(text(&help.stdout).contains("Examples:"));
}

#[test]
fn help_has_pages_for_commands_and_groups() {
    let headwater =
        |arguments: &[&str]| Command::new(env!("CARGO_BIN_EXE_headwater")).args(arguments).output().unwrap();
    let run = headwater(&["help", "run"]);
    assert_eq!((run.status.code(), &run.stdout), (Some(0), &headwater(&["run", "--help"]).stdout));
    assert!(text(&headwater(&["help", "store"]).stdout).contains("--store-max <BYTES>"));
    assert!(text(&headwater(&["help"]).stdout).contains("doctor"));
    assert_eq!(headwater(&["version"]).stdout, headwater(&["--version"]).stdout);
    let unknown = headwater(&["help", "stroe"]);
    assert_eq!(unknown.status.code(), Some(125));
    assert!(text(&unknown.stderr).contains("`store`"), "{}", text(&unknown.stderr));
}

#[test]
fn a_misspelt_variable_is_reported_once_and_the_program_runs() {
    let site = Site::new();
    let mut command = site.command(&["--nodes", "2", "--", "sh", "-c", "exit 3"]);
    let output = command.env("HEADWATER_SHRAED", "/lustre/sw").output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    let expected =
        "headwater: warning: the variable HEADWATER_SHRAED is unknown; the nearest known one is HEADWATER_SHARED\n";
    assert_eq!(text(&output.stderr), expected);
    site.assert_clean();
}

#[test]
fn processes_know_their_node_and_rank() {
    let site = Site::new();
    let script = "echo $HEADWATER_NODE/$HEADWATER_NODES $HEADWATER_RANK/$HEADWATER_RANKS";
    let output = site.run(&["--nodes", "2", "--ppn", "2", "--", "sh", "-c", script]);
    let stdout = text(&output.stdout);
    let mut lines: Vec<&str> = stdout.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["0/2 0/4", "0/2 1/4", "1/2 2/4", "1/2 3/4"]);
}

#[test]
fn the_program_is_audited_and_nothing_else_of_its_environment_changes() {
    let site = Site::new();
    let mut command = site.command(&["--", "env"]);
    command
        .env("LD_LIBRARY_PATH", "/nonexistent/lib")
        .env("GLIBC_TUNABLES", "glibc.malloc.perturb=1")
        .env("OTHER", "x y");
    let stdout = text(&command.output().unwrap().stdout);
    let value = |name: &str| stdout.lines().find_map(|l| l.strip_prefix(&format!("{name}="))).map(str::to_owned);
    assert!(value("LD_AUDIT").unwrap().ends_with("/n0/lib/libheadwater-audit.so"), "{stdout}");
    assert_eq!(value("GLIBC_TUNABLES").as_deref(), Some("glibc.malloc.perturb=1"));
    assert!(value("HEADWATER_TABLE").unwrap().ends_with("/n0/table"));
    assert_eq!(value("HEADWATER_SESSION").map(|s| s.len()), Some(16));
    assert_eq!(value("LD_LIBRARY_PATH").as_deref(), Some("/nonexistent/lib"));
    assert_eq!(value("OTHER").as_deref(), Some("x y"));
    assert!(!stdout.contains("HEADWATER_CARRIED"));
}

#[test]
fn standard_input_goes_to_rank_0() {
    let site = Site::new();
    let script = "read line && echo $HEADWATER_RANK $line || echo $HEADWATER_RANK nothing";
    let mut command = site.command(&["--ppn", "2", "--", "sh", "-c", script]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"a line\n").unwrap();
    let stdout = text(&child.wait_with_output().unwrap().stdout);
    let mut lines: Vec<&str> = stdout.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["0 a line", "1 nothing"]);
}

#[test]
fn every_option_may_be_a_variable_and_the_command_line_wins() {
    let site = Site::new();
    let json = site.path("work/summary.json");
    let mut command = site.plain_command(&["--ppn", "1", "--no-summary", "--", "true"]);
    command.env("HEADWATER_SHARED", site.path("shared")).env("HEADWATER_SUMMARY_JSON", &json);
    command.env("HEADWATER_NODES", "3").env("HEADWATER_PPN", "7").env("HEADWATER_FAN_OUT", "1");
    command.env("HEADWATER_PUSH", "1").env("HEADWATER_SUMMARY", "1").env("HEADWATER_STORE_MAX", "64M");
    let output = command.output().unwrap();
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
    let summary: Value = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
    assert_eq!((&summary["nodes"], &summary["processes"]), (&3.into(), &3.into()));
    assert_eq!(summary["overlay"]["depth"], 2, "a fan-out of 1 makes a chain");
    let mut command = site.command(&["--", "true"]);
    let output = command.env("HEADWATER_SUMMARY", "1").output().unwrap();
    assert!(text(&output.stderr).contains("1 process on 1 node"));
    let mut command = site.command(&["--", "true"]);
    let output = command.env("HEADWATER_SHOW_SCOPE", "1").output().unwrap();
    assert!(text(&output.stdout).contains("--shared"));
}

#[test]
fn the_scope_is_shown_with_reasons() {
    let site = Site::new();
    fs::create_dir(site.path("shared/results")).unwrap();
    let mut command = site.command(&["--show-scope", "--exclude"]);
    command.arg(site.path("shared/results")).args(["--", "sh", "-c", "echo it ran"]);
    let stdout = text(&command.output().unwrap().stdout);
    let line = |sign: &str, name: &str| {
        let start = format!("{sign} {} ", site.path(name).canonicalize().unwrap().display());
        stdout.lines().find_map(|l| l.strip_prefix(&start)).map(|reason| reason.trim().to_owned())
    };
    assert_eq!(line("+", "shared").as_deref(), Some("--shared"), "{stdout}");
    assert_eq!(line("-", "shared/results").as_deref(), Some("--exclude"), "{stdout}");
    assert!(!stdout.contains("it ran"));
    site.assert_clean();
}

#[test]
fn the_json_summary_has_every_field() {
    let site = Site::new();
    let program = site.path("shared/program");
    fs::copy("/bin/true", &program).unwrap();
    let json = site.path("work/summary.json");
    let mut command = site.command(&["--nodes", "2", "--summary-json"]);
    assert!(command.arg(&json).arg("--").arg(&program).status().unwrap().success());
    let summary: Value = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
    for field in [
        "/nodes",
        "/processes",
        "/shared_fs/files_read",
        "/shared_fs/directories_read",
        "/shared_fs/bytes_read",
        "/shared_fs/operations",
        "/overlay/messages",
        "/overlay/bytes",
        "/overlay/depth",
        "/clients/lookups",
        "/clients/answered_by_table",
        "/clients/requests",
        "/clients/fallbacks",
        "/memory/store_bytes",
        "/memory/table_bytes",
        "/memory/daemon_rss_bytes_max",
        "/timeline/daemons_ready_ms",
        "/timeline/first_byte_ms",
        "/timeline/last_file_ms",
        "/timeline/program_exit_ms",
    ] {
        assert!(summary.pointer(field).is_some_and(Value::is_number), "{field} in {summary:#}");
    }
    let number = |field: &str| summary.pointer(field).and_then(Value::as_f64).unwrap();
    assert_eq!(number("/shared_fs/files_read"), 1.0, "two nodes run one program: {summary:#}");
    assert_eq!(number("/shared_fs/bytes_read"), fs::metadata("/bin/true").unwrap().len() as f64);
    assert!(number("/memory/daemon_rss_bytes_max") > 0.0 && number("/overlay/bytes") > number("/shared_fs/bytes_read"));
    assert!(number("/timeline/program_exit_ms") >= number("/timeline/daemons_ready_ms"));
    site.assert_clean();
}

#[test]
fn without_what_it_needs_the_program_runs_as_it_is() {
    let site = Site::new();
    let json = site.path("work/summary.json");
    let long = site.path(&"x".repeat(100));
    fs::create_dir(&long).unwrap();
    for (variable, value, expected) in [
        ("HEADWATER_LIBDIR", site.path("work"), "Build it with `cargo xtask dist`"),
        ("HEADWATER_STORE", site.path("nowhere"), "nowhere can't be used"),
        ("HEADWATER_STORE", long, "Name a shorter one with --store"),
        ("HEADWATER_SHARED", site.path("nowhere"), "there is no such directory"),
    ] {
        let mut command = site.command(&["--summary-json"]);
        command.arg(&json).args(["--", "sh", "-c", "echo $LD_AUDIT; exit 5"]).env(variable, value);
        if variable == "HEADWATER_SHARED" {
            command = site.plain_command(&["--summary-json"]);
            command.arg(&json).args(["--", "sh", "-c", "echo $LD_AUDIT; exit 5"]).env(variable, site.path("nowhere"));
        }
        let output = command.output().unwrap();
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(5), "\n".into()));
        assert!(text(&output.stderr).contains(expected), "{}", text(&output.stderr));
        let summary: Value = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
        assert!(summary["off"].is_string() && summary["shared_fs"]["operations"] == 0, "{summary:#}");
    }
    site.assert_clean();
}

#[test]
fn a_failed_recording_is_reported_and_the_programs_status_counts() {
    let site = Site::new();
    site.write("shared/file", "");
    let check = |via: &str, complaint: &str| {
        let run = site.plain_command(&[] as &[&str]);
        let mut record = Command::new(run.get_program());
        record.envs(run.get_envs().filter_map(|(name, value)| Some((name, value?)))).env("HEADWATER_VIA", via);
        record.args(["record", "-o", "/proc/closure", "--shared"]).arg(site.path("shared"));
        let output = record.args(["--", "sh", "-c", "exit 7"]).output().unwrap();
        assert_eq!(output.status.code(), Some(7), "{output:?}");
        assert!(text(&output.stderr).contains(complaint), "{output:?}");
    };
    check("audit", "warning: /proc/closure can't be written: name another file with -o");
    check("off", "warning: nothing was recorded");
    site.assert_clean();
}

#[test]
fn a_session_in_a_session_is_its_own() {
    let site = Site::new();
    let script = format!(
        "echo $HEADWATER_SESSION; {} run --shared {} -- sh -c 'echo $HEADWATER_SESSION; echo $LD_AUDIT; echo $HEADWATER_NODES'",
        env!("CARGO_BIN_EXE_headwater"),
        site.path("shared").display()
    );
    let output = site.run(&["--nodes", "2", "--", "sh", "-c", &format!("test $HEADWATER_RANK = 1 || {{ {script}; }}")]);
    let stdout = text(&output.stdout);
    let lines: Vec<&str> = stdout.lines().collect();
    assert_eq!(lines.len(), 4, "{stdout}{}", text(&output.stderr));
    assert_ne!(lines[0], lines[1]);
    assert!(lines[2].contains(lines[1]) && !lines[2].contains(':'), "{stdout}");
    assert_eq!(lines[3], "1");
    site.assert_clean();
}

#[test]
fn man_pages_and_completions_are_generated() {
    let site = Site::new();
    let generate = |what: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_headwater"));
        let directory = site.path(what);
        assert!(command.args(["generate", what]).arg(&directory).status().unwrap().success());
        move |name: &str| fs::read_to_string(directory.join(name)).unwrap()
    };
    let man = generate("man");
    assert!(
        man("headwater-run.1").contains("headwater\\-options") && man("headwater-options.7").contains("store\\-max")
    );
    let completion = generate("completions");
    for name in ["headwater.bash", "_headwater", "headwater.fish"] {
        assert!(completion(name).contains("store-max"), "{name}");
    }
}

#[test]
fn what_is_closed_stays_closed() {
    let site = Site::new();
    let list = ["--", "sh", "-c", "for i in 0 1 2; do test -e /proc/$$/fd/$i || echo $i >> $0; done"];
    for (script, expected) in [("\"$@\" >&-", "1\n"), ("\"$@\" <&- 2>&-", "0\n2\n"), ("\"$@\" </dev/null", "")] {
        for nodes in ["1", "2"] {
            let seen = site.path("seen");
            fs::write(&seen, "").unwrap();
            let headwater = site.command(&[&["--nodes", nodes][..], &list, &[seen.to_str().unwrap()]].concat());
            let mut command = Command::new("sh");
            command.args(["-c", script, "sh"]).arg(headwater.get_program()).args(headwater.get_args());
            command.envs(headwater.get_envs().filter_map(|(name, value)| Some((name, value?))));
            command.output().unwrap();
            let seen = fs::read_to_string(&seen).unwrap();
            let mut lines: Vec<_> = seen.lines().collect();
            lines.sort_unstable();
            lines.dedup();
            assert_eq!(lines, expected.lines().collect::<Vec<_>>(), "{script}, {nodes} nodes");
        }
    }
    site.assert_clean();
}

#[test]
fn signals_stay_ignored_and_blocked() {
    let site = Site::new();
    let field = |text: &str, name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        u64::from_str_radix(line.trim(), 16).unwrap()
    };
    for nodes in ["1", "2"] {
        let headwater = site.command(&["--nodes", nodes, "--", "cat", "/proc/self/status"]);
        let mut command = Command::new("env");
        command.args(["--ignore-signal=PIPE,CHLD,XFSZ,HUP", "--block-signal=USR2,CHLD"]);
        command.arg(headwater.get_program()).args(headwater.get_args());
        command.envs(headwater.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let output = command.output().unwrap();
        let status = text(&output.stdout);
        // The C library's own signals are ignored in what its `posix_spawn` starts.
        assert_eq!(field(&status, "SigIgn:") & 0x7fff_ffff, 0x0101_1001, "{status}");
        assert_eq!(field(&status, "SigBlk:"), 0x0001_0800, "{status}");
        assert_eq!(text(&output.stderr), "");
    }
    site.assert_clean();
}

#[test]
fn closed_outputs_do_no_harm() {
    let site = Site::new();
    let headwater = site.command(&["--nodes", "2", "--summary", "--verbose", "--", "sh", "-c", "exit 4"]);
    let mut command = Command::new("bash");
    command.args(["-c", "\"$@\" 2> >(:); exit $?", "bash"]).arg(headwater.get_program()).args(headwater.get_args());
    for (name, value) in headwater.get_envs().filter_map(|(n, v)| Some((n, v?))) {
        command.env(name, value);
    }
    assert_eq!(command.status().unwrap().code(), Some(4));
    let mut command = site.command(&["--show-scope", "--", "true"]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert!(child.wait().unwrap().success());
    site.assert_clean();
}
