//! The variables and libraries of programs under `headwater run --io`, with an empty I/O library.

mod site;

use std::fs;
use std::process::{Command, Output};

use site::{Site, text};

/// Prints a process's variables, and whether the library is loaded.
const SHOW: &str = "env | grep ^HEADWATER_IO | sort; grep -c mpiio.so /proc/self/maps | grep -vx 0 >&2; \
                    echo preload ${LD_PRELOAD##*/}";

fn with_library() -> Site {
    let site = Site::new();
    let source = site.write("work/nothing.c", "int hw_nothing;\n");
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-o"]).arg(site.path("lib/libheadwater-mpiio.so")).arg(source);
    assert!(compiler.status().unwrap().success());
    site
}

#[track_caller]
fn check(output: &Output, expected: &str, is_loaded: bool) {
    assert_eq!(text(&output.stdout), expected, "{output:?}");
    let printed = text(&output.stderr);
    assert_eq!(printed.lines().any(|line| line.parse::<u32>().is_ok()), is_loaded, "{printed}");
}

#[test]
fn each_process_has_the_library_and_its_options() {
    let site = with_library();
    let arguments = ["--ppn", "2", "--io", "auto", "--io-profile", "profile", "--", "sh", "-c", SHOW];
    let profile = site.path("work").canonicalize().unwrap().join("profile").display().to_string();
    let expected = ["HEADWATER_IO=auto", &format!("HEADWATER_IO_PROFILE={profile}"), "preload libheadwater-mpiio.so"];
    for mut command in [site.plain_command(&arguments), site.command(&arguments)] {
        let output = command.output().unwrap();
        let printed = text(&output.stdout);
        let mut lines: Vec<&str> = printed.lines().collect();
        lines.sort_unstable();
        assert_eq!(lines, expected.map(|line| [line, line]).concat(), "{output:?}");
        assert!(text(&output.stderr).lines().all(|line| line.parse::<u32>().is_ok()), "{output:?}");
    }
}

#[test]
fn a_launchers_processes_know_that_all_ranks_have_it() {
    let site = with_library();
    let arguments =
        ["--marker", "@", "--io", "verify", "--io-report", "none", "--", "env", "A=1", "@", "sh", "-c", SHOW];
    let expected =
        "HEADWATER_IO=verify\nHEADWATER_IO_EVERYWHERE=yes\nHEADWATER_IO_REPORT=none\npreload libheadwater-mpiio.so\n";
    let jobs = site.path("work/jobs");
    for mut command in [site.plain_command(&arguments), site.command(&arguments)] {
        command.env("HEADWATER_JOB_DIR", &jobs);
        let unsure = expected.replace("HEADWATER_IO_EVERYWHERE=yes\n", "");
        check(&command.output().unwrap(), &unsure, true);
        // A launcher with the number of processes in its variables.
        for (name, value) in [("RANK", "0"), ("SIZE", "1"), ("LOCAL_RANK", "0"), ("LOCAL_SIZE", "1")] {
            command.env(format!("OMPI_COMM_WORLD_{name}"), value);
        }
        check(&command.output().unwrap(), expected, true);
        site.assert_clean();
    }
}

#[test]
fn the_users_own_come_first() {
    let site = with_library();
    let own = site.path("lib/libown.so");
    fs::copy(site.path("lib/libheadwater-mpiio.so"), &own).unwrap();
    let mut command = site.plain_command(&["--io", "observe", "--", "sh", "-c", "echo $LD_PRELOAD"]);
    let expected = format!("{}:{}\n", own.display(), site.path("lib/libheadwater-mpiio.so").display());
    let output = command.env("LD_PRELOAD", &own).output().unwrap();
    assert_eq!(text(&output.stdout), expected, "{output:?}");
}

#[test]
fn where_it_can_not_be_had_the_program_runs_without_it() {
    let site = with_library();
    let off = "HEADWATER_IO=off\npreload\n";
    let complain = |arguments: &[&str], part: &str, expected: &str| {
        let output = site.plain_command(arguments).output().unwrap();
        check(&output, expected, false);
        assert_eq!(text(&output.stderr).matches(part).count(), 1, "{output:?}");
    };
    let two = ["--marker", "@", "--io", "auto", "--", "env", "@", "sh", "-c", "exit 0", "@", "bash", "-c", "exit 0"];
    complain(&two, "this one has sh and bash", "");
    let fixed = site.path("work/fixed");
    site::compile("read.c", &["-static"], &fixed);
    let output = site.plain_command(&["--io", "auto", "--", fixed.to_str().unwrap()]).output().unwrap();
    assert!(text(&output.stderr).contains("statically linked, so no library can be loaded"), "{output:?}");
    fs::remove_file(site.path("lib/libheadwater-mpiio.so")).unwrap();
    complain(&["--io", "auto", "--", "sh", "-c", SHOW], "libheadwater-mpiio.so is missing", off);
    let output = site.plain_command(&["--", "sh", "-c", SHOW]).output().unwrap();
    check(&output, "preload\n", false);
    let stderr = text(&output.stderr);
    assert!(stderr.starts_with("headwater: nothing to serve: ") && stderr.lines().count() == 1, "{stderr}");
    let output = site.command(&["--", "sh", "-c", SHOW]).output().unwrap();
    assert_eq!(text(&output.stderr), "");
}

#[test]
fn a_session_takes_it_from_each_launch() {
    let site = with_library();
    let jobs = site.path("work/jobs").display().to_string();
    let headwater = |arguments: &[&str]| {
        let command = site.plain_command(&[] as &[&str]);
        let mut made = Command::new(command.get_program());
        made.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?)))).args(arguments);
        made.env("HEADWATER_JOB_DIR", &jobs).output().unwrap()
    };
    let started = headwater(&["start", "--shared", site.path("shared").to_str().unwrap(), "--", "sh"]);
    let session = text(&started.stdout).trim().to_owned();
    assert!(!session.is_empty(), "{started:?}");
    let run = |io: &[&str]| {
        let launcher = ["--marker", "@", "--", "env", "@", "sh", "-c", SHOW];
        headwater(&[&["run", "--session", &session], io, &launcher].concat())
    };
    let all = "HEADWATER_IO=auto\nHEADWATER_IO_EVERYWHERE=yes\npreload libheadwater-mpiio.so\n";
    check(&run(&["--io", "auto"]), all, true);
    check(&run(&[]), "preload\n", false);
    assert!(headwater(&["stop", &session]).status.success());
    site.assert_clean();
}
