//! The daemon's process.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use headwater_daemon::Config;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::FdFlags;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use zeroize::Zeroizing;

/// How often a daemon that is to end is checked, in case it hangs in the kernel.
const CHECK_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// How long a killed daemon is waited for: its threads may be taking requests from the kernel.
const KILL_TIMEOUT: Duration = Duration::from_secs(1);
/// The longest line of a daemon's output.
const LINE_BYTES_MAX: usize = 64 << 10;

/// A daemon's process. Dropping it kills the process without waiting.
#[derive(Debug)]
pub(crate) struct DaemonProcess {
    child: Child,
    /// Readable once it has ended.
    ended: OwnedFd,
    stdin: ChildStdin,
    stdout: Option<File>,
    received: Vec<u8>,
    started: Instant,
}

impl DaemonProcess {
    /// Starts `headwater daemon` from `executable`, with these descriptors under their numbers.
    pub(crate) fn start(executable: &Path, config: &Config, inherited: &[BorrowedFd<'_>]) -> io::Result<DaemonProcess> {
        let mut command = Command::new(executable);
        command.arg0("headwater").arg("daemon").stdin(Stdio::piped()).stdout(Stdio::piped());
        let line = Zeroizing::new(serde_json::to_vec(config)?);
        // No other process is started meanwhile, so only the daemon inherits them.
        inherited.iter().try_for_each(|fd| rustix::io::fcntl_setfd(fd, FdFlags::empty()))?;
        let spawned = command.spawn();
        inherited.iter().try_for_each(|fd| rustix::io::fcntl_setfd(fd, FdFlags::CLOEXEC))?;
        let mut child = spawned?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let (Some(mut stdin), Some(stdout)) = (stdin, stdout) else { return Err(io::ErrorKind::BrokenPipe.into()) };
        let stdout = File::from(OwnedFd::from(stdout));
        rustix::io::ioctl_fionbio(&stdout, true)?;
        let ended = pidfd_open(Pid::from_child(&child), PidfdFlags::empty())?;
        // A daemon that ends before reading this is noticed by its end.
        let _ = stdin.write_all(&line).and_then(|()| stdin.write_all(b"\n"));
        Ok(DaemonProcess { child, ended, stdin, stdout: Some(stdout), received: Vec::new(), started: Instant::now() })
    }

    /// Returns its PID.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns how long ago it was started.
    pub(crate) fn age(&self) -> Duration {
        self.started.elapsed()
    }

    /// Returns true once it has ended, or has been killed and hangs in the kernel: a thread that sends a notification
    /// may wait for an answer that only a successor sends. A killed thread that still runs may be taking a request from
    /// the kernel, which would not resend it to a successor that begins before.
    pub(crate) fn has_died(&self) -> bool {
        is_readable(self.ended()) || hangs(&PathBuf::from(format!("/proc/{}", self.id())))
    }

    /// Returns its exit status once all of its threads have ended.
    pub(crate) fn status(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Returns a descriptor that is readable once it has ended.
    pub(crate) fn ended(&self) -> BorrowedFd<'_> {
        self.ended.as_fd()
    }

    /// Returns its standard output, until that ends.
    pub(crate) fn output(&self) -> Option<BorrowedFd<'_>> {
        self.stdout.as_ref().map(AsFd::as_fd)
    }

    /// Sends a line to it, which is lost if it has died.
    pub(crate) fn send_line(&mut self, line: &str) {
        let _ = self.stdin.write_all(line.as_bytes()).and_then(|()| self.stdin.write_all(b"\n"));
    }

    /// Returns the next line of its output, without its end; `None` if there is none.
    pub(crate) fn line(&mut self) -> Option<String> {
        loop {
            if let Some(end) = self.received.iter().position(|&byte| byte == b'\n') {
                let line: Vec<u8> = self.received.drain(..=end).take(end).collect();
                return Some(String::from_utf8_lossy(&line).into_owned());
            }
            let mut buffer = [0; 4096];
            match self.stdout.as_mut()?.read(&mut buffer) {
                Ok(bytes) if bytes > 0 && self.received.len() < LINE_BYTES_MAX => {
                    self.received.extend_from_slice(&buffer[..bytes]);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return None,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                _ => self.stdout = None,
            }
        }
    }

    /// Waits until it has died, and kills it after `timeout`. A process that outlives that by [`KILL_TIMEOUT`] can't be
    /// ended, and is not waited for.
    pub(crate) fn wait(&mut self, timeout: Duration) {
        let mut deadline = Instant::now() + timeout;
        let mut is_killed = false;
        while !self.has_died() {
            if Instant::now() >= deadline {
                if is_killed {
                    return;
                }
                tracing::warn!(pid = self.id(), "the daemon does not end in time and is killed");
                let _ = self.child.kill();
                (is_killed, deadline) = (true, Instant::now() + KILL_TIMEOUT);
            }
            let _ = poll(&mut [PollFd::new(&self.ended, PollFlags::IN)], Some(&CHECK_INTERVAL));
        }
    }
}

/// Returns true if a process, by its directory in /proc, has been killed, and all threads that are left wait in the
/// kernel.
fn hangs(process: &Path) -> bool {
    let threads = std::fs::read_dir(process.join("task")).into_iter().flatten().flatten();
    matches!(state(process), Some('Z' | 'X'))
        && threads.map(|thread| thread.path()).all(|thread| state(&thread) != Some('R'))
}

/// Returns true if reading would not wait.
pub(crate) fn is_readable(fd: BorrowedFd<'_>) -> bool {
    matches!(poll(&mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)], Some(&Timespec::default())), Ok(1..))
}

/// Reads the state of a process or thread, by its directory in /proc; see proc_pid_stat(5). The name before it may
/// contain anything.
pub(crate) fn state(process: &Path) -> Option<char> {
    let status = std::fs::read_to_string(process.join("stat")).ok()?;
    status.rsplit_once(") ")?.1.chars().next()
}

impl Drop for DaemonProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.try_wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first thread ends; the other one runs or waits, as the argument selects.
    const PROGRAM: &str = "
import ctypes, os, sys, threading, time
def run():
    while True: pass
threading.Thread(target=run if sys.argv[1] == 'runs' else lambda: time.sleep(60)).start()
ctypes.CDLL(None).syscall({'x86_64': 60, 'aarch64': 93}[os.uname().machine], 0)
";

    #[test]
    fn a_process_whose_threads_run_does_not_hang() {
        for (what, expected) in [("runs", false), ("waits", true)] {
            let mut child = Command::new("python3").args(["-c", PROGRAM, what]).spawn().unwrap();
            let process = PathBuf::from(format!("/proc/{}", child.id()));
            let deadline = Instant::now() + Duration::from_secs(20);
            while state(&process) != Some('Z') || hangs(&process) != expected {
                assert!(Instant::now() < deadline, "{what}: {:?}", state(&process));
                std::thread::sleep(Duration::from_millis(5));
            }
            std::thread::sleep(Duration::from_millis(50));
            assert_eq!(hangs(&process), expected, "{what}");
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}
