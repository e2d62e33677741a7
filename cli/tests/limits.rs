//! Programs on nodes where memory, room in the RAM disk or the size of files is short: they end as they do
//! without Headwater.

mod site;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use rustix::process::geteuid;
use site::{Site, compile, has_namespaces, text};

/// Bytes of each file that the programs read.
const FILE_BYTES: usize = 4 << 20;

/// Returns a program that reads `files` files of the shared directory twice and prints their contents.
fn reader(site: &Site, files: usize) -> String {
    for number in 0..files {
        fs::write(site.path("shared").join(number.to_string()), vec![number as u8; FILE_BYTES]).unwrap();
    }
    let shared = site.path("shared");
    format!("for turn in 1 2; do for n in $(seq 0 {}); do cksum {}/$n; done; done", files - 1, shared.display())
}

fn plainly(script: &str) -> String {
    text(&Command::new("sh").args(["-c", script]).output().unwrap().stdout)
}

/// Runs a session whose processes are started by `before`, a shell command.
fn run(site: &Site, before: &str, via: &str, options: &[&str], script: &str) -> Output {
    let inner = site.command(&[&["--via", via], options, &["--", "sh", "-c", script]].concat());
    let mut outer = Command::new("sh");
    outer.args(["-c", &format!("{before}; exec \"$0\" \"$@\"")]).arg(inner.get_program()).args(inner.get_args());
    for (name, value) in inner.get_envs() {
        match value {
            Some(value) => outer.env(name, value),
            None => outer.env_remove(name),
        };
    }
    outer.current_dir(site.path("work")).output().unwrap()
}

/// A control group with a memory limit; removed when dropped.
struct Group {
    directory: PathBuf,
    is_version_2: bool,
}

impl Group {
    fn new(name: &str, bytes_max: u64) -> Result<Group, String> {
        let name = format!("headwater-test-{name}-{}", std::process::id());
        let version_1 = Path::new("/sys/fs/cgroup/memory");
        let version_2 = Path::new("/sys/fs/cgroup");
        let (directory, file) = if version_1.join("memory.limit_in_bytes").exists() {
            (version_1.join(name), "memory.limit_in_bytes")
        } else {
            (version_2.join(name), "memory.max")
        };
        fs::create_dir(&directory).map_err(|error| format!("no control group can be made: {error}"))?;
        let group = Group { directory, is_version_2: file == "memory.max" };
        fs::write(group.directory.join(file), bytes_max.to_string())
            .map_err(|error| format!("no control group bounds memory: {error}"))?;
        Ok(group)
    }

    fn processes(&self) -> PathBuf {
        self.directory.join("cgroup.procs")
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.directory.join(name)).unwrap()
    }

    /// Returns how many processes the kernel has killed for lack of memory.
    fn killed(&self) -> u64 {
        let events = self.read(if self.is_version_2 { "memory.events" } else { "memory.oom_control" });
        let line = events.lines().find_map(|line| line.strip_prefix("oom_kill "));
        line.map_or(0, |number| number.parse().unwrap())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Its pages are freed with the store; the kernel may take a moment to notice that it is empty.
        for _ in 0..100 {
            if fs::remove_dir(&self.directory).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}

/// A tmpfs as the store of a site; unmounted when dropped.
struct RamDisk(PathBuf);

impl RamDisk {
    fn mount(site: &Site, size: &str) -> Result<RamDisk, String> {
        let at = site.path("store");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"]).arg(&at);
        let output = mount.output().map_err(|error| format!("needs the mount command: {error}"))?;
        if output.status.success() {
            Ok(RamDisk(at))
        } else {
            Err(format!("no tmpfs can be mounted: {}", String::from_utf8_lossy(&output.stderr).trim()))
        }
    }
}

impl Drop for RamDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// Returns what a test needs, or prints the reason why it is missing.
fn available<T>(needed: Result<T, String>) -> Option<T> {
    needed.inspect_err(|why| println!("skipped: {why}")).ok()
}

fn can_mount() -> bool {
    let is_root = geteuid().is_root();
    if !is_root {
        println!("skipped: needs root to mount and to make control groups");
    }
    is_root && has_namespaces()
}

#[test]
fn a_job_in_a_small_group_is_not_killed() {
    if !can_mount() {
        return;
    }
    let site = Site::new();
    let Some(_disk) = available(RamDisk::mount(&site, "1g")) else { return };
    let Some(group) = available(Group::new("memory", 128 << 20)) else { return };
    let script = reader(&site, 60);
    let before = format!("echo $$ > {}", group.processes().display());
    let json = site.path("work/summary.json");
    let options = ["--store-max", "1G", "--summary-json", json.to_str().unwrap()];
    let output = run(&site, &before, "namespace", &options, &script);
    assert_eq!(group.killed(), 0, "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(0), plainly(&script)));
    let summary: serde_json::Value = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
    assert!(summary["daemons_lost"] == 0 && summary["shared_fs"]["files_read"].as_u64() > Some(30), "{summary}");
    site.assert_no_process();
}

#[test]
fn a_ram_disk_that_is_too_small_is_survived() {
    if !can_mount() {
        return;
    }
    // From one without room for the table to one with room for a part of the files.
    for size in ["256k", "3500k", "5m", "8m", "16m"] {
        let site = Site::new();
        let Some(_disk) = available(RamDisk::mount(&site, size)) else { return };
        let script = reader(&site, 5);
        for via in ["namespace", "audit"] {
            let output = run(&site, "true", via, &["--store-max", "1G"], &script);
            assert_eq!((output.status.code(), text(&output.stdout)), (Some(0), plainly(&script)), "{via} in {size}");
            let is_served = !String::from_utf8_lossy(&output.stderr).contains("runs without Headwater");
            assert_eq!(is_served, !["256k", "3500k"].contains(&size), "{via} in {size}");
        }
        site.assert_clean();
    }
}

#[test]
fn a_bound_of_file_sizes_is_survived() {
    if !has_namespaces() {
        return;
    }
    let site = Site::new();
    let script = reader(&site, 2);
    for (limit, is_served) in [("ulimit -S -f 1000", true), ("ulimit -f 1000", false)] {
        let json = site.path("work/summary.json");
        let options = ["--summary-json", json.to_str().unwrap()];
        let output = run(&site, limit, "namespace", &options, &script);
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(0), plainly(&script)), "{limit}");
        let printed = String::from_utf8_lossy(&output.stderr);
        assert_eq!(!printed.contains("The program runs without Headwater"), is_served, "{limit}: {printed}");
        site.assert_clean();
    }
}

#[test]
fn a_program_runs_where_no_thread_may_be_started() {
    let site = Site::new();
    let refusing = site.path("refusing");
    compile("refusing.c", &[], &refusing);
    let before = format!("set -- \"$0\" \"$@\"; exec {} \"$@\"", refusing.display());
    let output = run(&site, &before, "audit", &[], "exec printf '%s' content");
    assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(0), "content"), "{output:?}");
    assert!(text(&output.stderr).contains("no thread can be started"), "{output:?}");
    site.assert_clean();
}
