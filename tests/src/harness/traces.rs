//! What a session might leave behind.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// The processes that have to do with `path`: it stands in their environment or arguments, or they
/// have a file below it open, mapped, or as their program. (process ID, command line.)
pub fn processes_using(path: &Path) -> Vec<(i32, String)> {
    let needle = path.as_os_str().as_bytes();
    let own = std::process::id() as i32;
    let processes = fs::read_dir("/proc").expect("/proc is mounted");
    let numbers = processes.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let users = numbers.filter(|&pid| pid != own && uses(pid, needle));
    users.map(|pid| (pid, command_line(pid))).collect()
}

fn command_line(pid: i32) -> String {
    let bytes = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).replace('\0', " ")
}

fn uses(pid: i32, needle: &[u8]) -> bool {
    let contains = |bytes: &[u8]| bytes.windows(needle.len()).any(|window| window == needle);
    let in_file = |name: &str| fs::read(format!("/proc/{pid}/{name}")).is_ok_and(|bytes| contains(&bytes));
    let in_link = |path: &Path| fs::read_link(path).is_ok_and(|target| contains(target.as_os_str().as_bytes()));
    let open = || fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten().any(|fd| in_link(&fd.path()));
    in_file("environ") || in_file("cmdline") || in_file("maps") || open()
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
