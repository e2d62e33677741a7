//! A process, identified by its PID and start time.

use std::fs;
use std::io::{self, ErrorKind};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};

/// Timeout of a process's end. A process that waits for a device or a server, or an init that does not reap its
/// children, can block its namespace's end.
const END_MAX: Timespec = Timespec { tv_sec: 20, tv_nsec: 0 };
/// The kernel's `PF_EXITING`, of the flags in `/proc/PID/stat`.
const EXITING: u32 = 4;

/// One process, as long as it lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// Its PID in the caller's PID namespace.
    pub pid: u32,
    /// Its start time, in the kernel's ticks since boot.
    start_ticks: u64,
}

impl Process {
    /// Returns the live process with this PID, if there is one.
    pub fn of(pid: u32) -> Option<Process> {
        let stat = Stat::of(pid)?;
        stat.lives.then_some(Process { pid, start_ticks: stat.start_ticks })
    }

    /// Returns whether it lives. A process that waits for its namespace's end, or to be reaped, is dead.
    pub fn is_alive(self) -> bool {
        Process::of(self.pid) == Some(self)
    }

    /// Kills it, and waits for its end. A PID 1 of a PID namespace ends after all other processes of the namespace.
    /// Does nothing if it is gone.
    pub fn kill(self) -> io::Result<()> {
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw).expect("a PID is positive");
        let descriptor = match pidfd_open(pid, PidfdFlags::empty()) {
            Err(Errno::SRCH) => return Ok(()),
            other => other?,
        };
        // The PID may have been reused before the descriptor was opened.
        if Stat::of(self.pid).is_none_or(|stat| stat.start_ticks != self.start_ticks) {
            return Ok(());
        }
        match pidfd_send_signal(&descriptor, Signal::KILL) {
            Err(Errno::SRCH) => return Ok(()),
            other => other?,
        }
        loop {
            match poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], Some(&END_MAX)) {
                Err(Errno::INTR) => {}
                Ok(0) => return Err(io::Error::new(ErrorKind::TimedOut, "killed, but not ended")),
                other => return Ok(other.map(|_| ())?),
            }
        }
    }
}

/// Fields of `/proc/PID/stat`.
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    lives: bool,
    start_ticks: u64,
}

impl Stat {
    fn of(pid: u32) -> Option<Stat> {
        Stat::parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    /// Parses the fields 3, 9 and 22 of proc(5).
    fn parse(stat: &str) -> Option<Stat> {
        // The second field, the program's name in parentheses, may contain any character.
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let is_over = matches!(*fields.first()?, "Z" | "X" | "x");
        let flags: u32 = fields.get(6)?.parse().ok()?;
        Some(Stat { lives: !is_over && flags & EXITING == 0, start_ticks: fields.get(19)?.parse().ok()? })
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn check(before: &str, flags: &str, expected: Option<(bool, u64)>) {
        let line = format!("{before} 1 2 3 4 5 {flags} 7 8 9 10 11 12 13 14 15 16 17 18 4711 20");
        let expected = expected.map(|(lives, start_ticks)| Stat { lives, start_ticks });
        assert_eq!(Stat::parse(&line), expected, "{line}");
    }

    #[test]
    fn fields_of_stat() {
        check("77 (a) b (c)) S", "4194304", Some((true, 4711)));
        check("77 (a) S", "4194308", Some((false, 4711)));
        check("77 (a) Z", "4194304", Some((false, 4711)));
        check("77 (a) S", "flags", None);
        assert_eq!(Stat::parse("77 (a) S 1 2"), None);
        assert_eq!(Stat::parse(""), None);
    }

    #[test]
    fn a_killed_process_is_dead_before_it_is_reaped() {
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        let process = Process::of(child.id()).unwrap();
        assert!(process.is_alive());
        process.kill().unwrap();
        assert!(!process.is_alive());
        child.wait().unwrap();
        process.kill().unwrap();
    }

    #[test]
    fn another_process_with_the_same_pid_is_left_alone() {
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        let process = Process::of(child.id()).unwrap();
        Process { start_ticks: process.start_ticks - 1, ..process }.kill().unwrap();
        assert!(process.is_alive());
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
