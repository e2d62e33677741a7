//! Programs that a launcher starts; `env` with a marker stands for the launcher.

mod site;

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use site::{Site, eventually, text};

/// Prints whether it is served, and ends with its own status.
const PROGRAM: &str = "echo ${HEADWATER_NODE-alone} of ${HEADWATER_NODES-none}; exit 7";

fn jobs(site: &Site) -> PathBuf {
    site.path("work/jobs")
}

fn launch(site: &Site, options: &[&str]) -> Command {
    let mut arguments = vec!["--marker", "@"];
    arguments.extend(options);
    arguments.extend(["--", "env", "LAUNCHED=1", "@", "sh", "-c", PROGRAM]);
    site.command(&arguments)
}

#[track_caller]
fn check(output: &Output, printed: &str, complaint: &str) {
    assert_eq!((output.status.code(), &*text(&output.stdout)), (Some(7), printed), "{output:?}");
    let complaints = text(&output.stderr);
    match complaint {
        "" => assert_eq!(complaints, ""),
        _ => assert!(complaints.contains(complaint), "{complaints}"),
    }
}

#[test]
fn it_is_served_and_nothing_is_left() {
    let site = Site::new();
    let jobs = jobs(&site).display().to_string();
    check(&launch(&site, &["--job-dir", &jobs]).output().unwrap(), "0 of 1\n", "");
    assert_eq!(fs::read_dir(&jobs).unwrap().count(), 0);
    assert_eq!(fs::metadata(&jobs).unwrap().permissions().mode() & 0o777, 0o700);
    site.assert_clean();
}

#[test]
fn two_jobs_on_one_node_are_independent() {
    let site = Site::new();
    let jobs = jobs(&site).display().to_string();
    let start = || {
        let mut command = launch(&site, &["--job-dir", &jobs]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let both = [start(), start()];
    both.into_iter().for_each(|job| check(&job.wait_with_output().unwrap(), "0 of 1\n", ""));
    site.assert_clean();
}

#[test]
fn a_launcher_that_does_not_wait_needs_a_session() {
    let site = Site::new();
    let flux =
        site.write("work/flux", "#!/bin/sh\nwhile [ $1 = submit ] || [ $1 = --wait ]; do shift; done\nexec \"$@\"\n");
    fs::set_permissions(&flux, fs::Permissions::from_mode(0o755)).unwrap();
    let jobs = jobs(&site).display().to_string();
    let submit = |more: &[&str]| {
        let arguments = ["--job-dir", &jobs, "--", "./flux", "submit"];
        site.command(&[&arguments, more, &["sh", "-c", PROGRAM]].concat()).output().unwrap()
    };
    check(&submit(&[]), "alone of none\n", "headwater start");
    check(&submit(&["--wait"]), "0 of 1\n", "");
    site.assert_clean();
}

#[test]
fn a_signal_ends_the_start_of_a_session_whose_nodes_do_not_come() {
    let site = Site::new();
    let srun = site.write("work/srun", "#!/bin/sh\necho >called\nexec sleep 300\n");
    fs::set_permissions(&srun, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", site.path("work").display(), std::env::var("PATH").unwrap());
    let mut start = Command::new(env!("CARGO_BIN_EXE_headwater"));
    start.args(["start", "--stays", "--shared"]).arg(site.path("shared")).current_dir(site.path("work"));
    start.envs([("HEADWATER_LIBDIR", site.path("lib")), ("HEADWATER_STORE", site.path("store"))]);
    start.env("HEADWATER_JOB_DIR", jobs(&site)).env("HEADWATER_CONFIG", "").env("PATH", path);
    start.envs([("SLURM_JOB_ID", "7"), ("SLURM_JOB_NUM_NODES", "1")]).env_remove("SLURM_STEP_ID");
    let start = start.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    eventually("the step begins", || site.path("work/called").exists());
    kill_process(Pid::from_child(&start), Signal::TERM).unwrap();
    let output = start.wait_with_output().unwrap();
    assert_eq!(text(&output.stdout), "failed: interrupted, before the job's nodes served\n", "{output:?}");
    assert_eq!(fs::read_dir(jobs(&site)).unwrap().count(), 0);
    site.assert_clean();
}

#[test]
fn what_fails_before_the_launch_means_the_plain_command() {
    let site = Site::new();
    let jobs = jobs(&site).display().to_string();
    let plain = "alone of none\n";
    check(&launch(&site, &["--job-dir", "/proc/nowhere"]).output().unwrap(), plain, "--job-dir");
    let taken = TcpListener::bind("0.0.0.0:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    check(&launch(&site, &["--job-dir", &jobs, "--ports", &port]).output().unwrap(), plain, "--ports");
    let no_session = ["--job-dir", &jobs, "--session", "0123456789abcdef"];
    check(&launch(&site, &no_session).output().unwrap(), plain, "has ended");
    site.assert_clean();
}

#[test]
fn a_store_whose_path_no_socket_takes() {
    let site = Site::new();
    let (jobs, store) = (jobs(&site).display().to_string(), site.path(&format!("store/{}", "long".repeat(25))));
    fs::create_dir(&store).unwrap();
    let options = ["--job-dir", &jobs, "--store", &store.display().to_string()];
    check(&launch(&site, &options).output().unwrap(), "alone of none\n", "too long for a socket");
    fs::remove_dir(store).unwrap();
    site.assert_clean();
}

#[test]
fn the_next_port_is_taken() {
    let site = Site::new();
    let taken = TcpListener::bind("0.0.0.0:0").unwrap();
    let first = taken.local_addr().unwrap().port();
    let ports = format!("{first}-{}", first.saturating_add(50));
    let jobs = jobs(&site).display().to_string();
    check(&launch(&site, &["--job-dir", &jobs, "--ports", &ports]).output().unwrap(), "0 of 1\n", "");
    site.assert_clean();
}

#[test]
fn nodes_have_paths_of_their_own() {
    let site = Site::new();
    let (here, there) = (jobs(&site), site.path("work/there"));
    let map = format!("{}={}", here.display(), there.display());
    let here = here.display().to_string();
    let options = ["--job-dir", &here, "--map", &map];
    check(&launch(&site, &options).output().unwrap(), "alone of none\n", &there.display().to_string());
    symlink(&here, &there).unwrap();
    check(&launch(&site, &options).output().unwrap(), "0 of 1\n", "");
    site.assert_clean();
}

#[test]
fn what_is_no_job_of_this_user_is_left_alone() {
    let site = Site::new();
    let file = site.write("work/job", "{\"version\": 0, \"release\": \"0.0\"}");
    let exec = || {
        let mut command = site.plain_command(&[] as &[&str]);
        let mut exec = Command::new(command.get_program());
        exec.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        exec.args(["exec", "--store"]).arg(site.path("store")).arg("--job").arg(&file);
        command = exec;
        command.args(["--", "sh", "-c", PROGRAM]).output().unwrap()
    };
    check(&exec(), "alone of none\n", "can be read or changed by others");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    check(&exec(), "alone of none\n", "started by headwater 0.0 (wire version 0)");
    fs::write(&file, "nonsense").unwrap();
    check(&exec(), "alone of none\n", "no job file");
    fs::remove_file(&file).unwrap();
    check(&exec(), "alone of none\n", "--job-dir");
    site.assert_clean();
}
