//! The possible remains of a session.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// The processes that use `path`: it is in their environment or arguments, or they have a file below it open, mapped,
/// or as their program. (process ID, command line.)
pub fn processes_using(path: &Path) -> Vec<(i32, String)> {
    let own = std::process::id() as i32;
    let processes = fs::read_dir("/proc").expect("/proc is mounted");
    let numbers = processes.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let users = numbers.filter(|&pid| pid != own && uses(pid, path));
    users.map(|pid| (pid, command_line(pid))).collect()
}

/// Those of them that are called like this: their process IDs.
pub(super) fn processes_called(path: &Path, name: &str) -> Vec<i32> {
    processes_using(path).into_iter().filter(|(_, line)| line.contains(name)).map(|(pid, _)| pid).collect()
}

fn command_line(pid: i32) -> String {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).replace('\0', " ")
}

/// Whether a process has to do with `path`, as [`processes_using`] means it.
pub fn uses(pid: i32, path: &Path) -> bool {
    let needle = path.as_os_str().as_bytes();
    let contains = |bytes: &[u8]| bytes.windows(needle.len()).any(|window| window == needle);
    let in_file = |name: &str| fs::read(format!("/proc/{pid}/{name}")).is_ok_and(|bytes| contains(&bytes));
    let in_link = |path: &Path| fs::read_link(path).is_ok_and(|target| contains(target.as_os_str().as_bytes()));
    let open = || fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten().any(|fd| in_link(&fd.path()));
    in_file("environ") || in_file("cmdline") || in_file("maps") || open()
}

/// The type of the file system that is mounted at `path` itself, of several the uppermost. It is not
/// entered, so its server may be dead.
pub fn mount_type(path: &Path) -> Option<String> {
    mount_line(path)?.split_once(" - ")?.1.split(' ').next().map(str::to_owned)
}

fn mount_line(path: &Path) -> Option<String> {
    let table = fs::read_to_string("/proc/self/mountinfo").expect("/proc is mounted");
    let is_here = |line: &&str| line.split(' ').nth(4) == path.to_str();
    table.lines().rev().find(is_here).map(str::to_owned)
}

/// Fails all requests to the server of the FUSE mount at `path`, which wakes every process that waits for it. Root
/// alone may.
pub fn abort_connection(path: &Path) {
    let device = mount_line(path).and_then(|line| line.split(' ').nth(2)?.split_once(':').map(|(_, n)| n.to_owned()));
    let Some(number) = device else { return };
    let script = "mount -t fusectl none /sys/fs/fuse/connections && echo 1 > \"/sys/fs/fuse/connections/$0/abort\"";
    let mut command = Command::new("unshare");
    let _ = command.args(["--mount", "--propagation", "private", "sh", "-c", script, &number]).output();
}

/// The mounts of this namespace that are Headwater's, as the mount table has them.
pub fn headwater_mounts() -> Vec<String> {
    let table = fs::read_to_string("/proc/self/mountinfo").expect("/proc is mounted");
    table.lines().filter(|line| line.contains(" - fuse.headwater ")).map(str::to_owned).collect()
}

/// Kills a process at once. It may have ended.
pub fn kill(pid: i32) {
    let _ = kill_process(Pid::from_raw(pid).expect("a process ID is positive"), Signal::KILL);
}

/// Whether a process has neither ended, with all of its threads, nor waits only to be collected.
pub fn is_running(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let threads = || fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count);
    stat.rsplit_once(") ").is_some_and(|(_, after)| !after.starts_with('Z') || threads() > 1)
}

/// Clock ticks, hundredths of a second, that a process has used; 0 if it has ended.
pub fn processor_ticks(pid: i32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name, in parentheses, may contain anything.
    let after_name = stat.rsplit_once(')').map_or("", |(_, after)| after);
    after_name.split_whitespace().skip(11).take(2).filter_map(|word| word.parse::<u64>().ok()).sum()
}

/// Waits until `met` or the time is over; whether it was met.
pub fn wait_until(time_max: Duration, mut met: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + time_max;
    loop {
        if met() {
            return true;
        }
        if Instant::now() > deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}
