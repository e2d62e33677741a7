//! Whether those who have locks still exist.
//!
//! A lock of `flock`, or one with `F_OFD_…`, belongs to an open file description, which processes share and inherit: it
//! ends with the last descriptor. An epoll instance forgets a description just then, and lists those that it has
//! (epoll(7), proc_pid_fdinfo(5)). A lock of `fcntl` belongs to a process, and ends when that closes its descriptor.

use std::collections::HashSet;
use std::fs;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use headwater_abi::Path;
use headwater_fuse::Lock;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use serde::{Deserialize, Serialize};

/// How many ancestors of a process are examined.
const ANCESTORS_MAX: usize = 16;

/// The open file descriptions of holders.
pub(super) struct Watch {
    epoll: Option<OwnedFd>,
    last: u64,
}

/// What a holder's locks live as long as.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Life {
    /// The number of the description, if it is watched.
    description: Option<u64>,
    /// For a lock of a process, that one. If the description can't be watched, those that have it: a shell, whose child
    /// `flock 9` has taken the lock. The locks live as long as one of them has it open; none: without a limit.
    processes: Vec<Process>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Process {
    pid: u32,
    /// When it started, in ticks since the machine's start.
    started: u64,
    /// The descriptor, if it is known.
    descriptor: Option<i32>,
}

impl Watch {
    /// Continues with a predecessor's instance, or begins with an empty one.
    pub(super) fn new<'a>(inherited: Option<OwnedFd>, lives: impl Iterator<Item = &'a Life>) -> Watch {
        let create = || epoll::create(CreateFlags::CLOEXEC);
        let epoll = inherited.map_or_else(create, Ok);
        let epoll = epoll.inspect_err(|error| tracing::warn!(%error, "no epoll instance for locks")).ok();
        let mut watch = Watch { epoll, last: 0 };
        let known = lives.filter_map(|life| life.description);
        watch.last = known.chain(watch.descriptions().into_iter().flatten()).max().unwrap_or_default();
        watch
    }

    /// Returns what the lock of this thread, which waits for it, lives as long as. `path` is the file's, if it has one.
    pub(super) fn begin(&mut self, lock: &Lock, thread: u32, path: Option<&Path>) -> Life {
        let call = SystemCall::of(thread);
        let is_of_process = !lock.is_flock && call.is_none_or(|call| !call.is_of_description());
        let descriptor = call.map(|call| call.descriptor).or_else(|| opened(lock.pid, path?));
        let description = descriptor.and_then(|descriptor| {
            let watched = self.watch(lock.pid, descriptor);
            watched.inspect_err(|error| tracing::debug!(%error, pid = lock.pid, "a description can't be watched")).ok()
        });
        let processes = if is_of_process {
            Process::of(lock.pid, descriptor).into_iter().collect()
        } else if description.is_none() {
            descriptor.map(|descriptor| sharing(lock.pid, descriptor)).unwrap_or_default()
        } else {
            Vec::new()
        };
        Life { description, processes }
    }

    fn watch(&mut self, pid: u32, descriptor: i32) -> Result<u64, Errno> {
        let epoll = self.epoll.as_ref().ok_or(Errno::MFILE)?;
        let pid = Pid::from_raw(pid as i32).ok_or(Errno::SRCH)?;
        let process = pidfd_open(pid, PidfdFlags::empty())?;
        // Another descriptor of the description, until it is watched.
        let mut file = pidfd_getfd(process, descriptor, PidfdGetfdFlags::empty())?;
        self.last += 1;
        // Of one description, the instance takes each number of a descriptor once. It may have several holders.
        loop {
            match epoll::add(epoll, &file, EventData::new_u64(self.last), EventFlags::empty()) {
                Err(Errno::EXIST) => file = fcntl_dupfd_cloexec(&file, file.as_raw_fd() + 1)?,
                result => return result.map(|()| self.last),
            }
        }
    }

    /// Returns the numbers of the descriptions that exist; `None` if that can't be read now.
    pub(super) fn descriptions(&self) -> Option<HashSet<u64>> {
        let epoll = self.epoll.as_ref()?;
        let text = fs::read_to_string(format!("/proc/self/fdinfo/{}", epoll.as_raw_fd())).ok()?;
        Some(text.lines().filter_map(watched).collect())
    }
}

impl Life {
    /// Returns true if the holder is still there, given the descriptions that are.
    pub(super) fn is_there(&self, descriptions: Option<&HashSet<u64>>) -> bool {
        let has_ended = |number| descriptions.is_some_and(|descriptions| !descriptions.contains(&number));
        !self.description.is_some_and(has_ended)
            && (self.processes.is_empty() || self.processes.iter().any(Process::has_it_open))
    }
}

impl Process {
    fn of(pid: u32, descriptor: Option<i32>) -> Option<Process> {
        stat(pid).map(|stat| Process { pid, started: stat.started, descriptor })
    }

    fn has_it_open(&self) -> bool {
        let has = |descriptor| {
            let link = fs::symlink_metadata(format!("/proc/{}/fd/{descriptor}", self.pid));
            !link.is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound)
        };
        stat(self.pid).is_some_and(|stat| stat.started == self.started) && self.descriptor.is_none_or(has)
    }
}

/// Returns a descriptor by which a process has the file at `path` open. Unlike its system calls and descriptors
/// themselves, their names can be read without the right to trace it.
fn opened(pid: u32, path: &Path) -> Option<i32> {
    let mut open = fs::read_dir(format!("/proc/{pid}/fd")).ok()?.flatten();
    let found = open
        .find(|entry| fs::read_link(entry.path()).is_ok_and(|link| link.as_os_str().as_bytes() == path.as_bytes()))?;
    found.file_name().to_str()?.parse().ok()
}

/// Returns a process and those of its ancestors that have the same file open by the same descriptor.
fn sharing(pid: u32, descriptor: i32) -> Vec<Process> {
    let file = |pid| fs::read_link(format!("/proc/{pid}/fd/{descriptor}")).ok();
    let known = file(pid);
    let ancestors = std::iter::successors(Some(pid), |pid| stat(*pid).map(|stat| stat.parent));
    let sharing = ancestors.take(ANCESTORS_MAX).take_while(|pid| known.is_some() && file(*pid) == known);
    sharing.filter_map(|pid| Process::of(pid, Some(descriptor))).collect()
}

/// Returns true if this thread wants a lock that belongs to a description, by `F_OFD_…`.
pub(super) fn is_of_description(thread: u32) -> bool {
    SystemCall::of(thread).is_some_and(|call| call.is_of_description())
}

/// A system call in progress: proc_pid_syscall(5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SystemCall {
    descriptor: i32,
    command: u64,
}

impl SystemCall {
    fn of(thread: u32) -> Option<SystemCall> {
        SystemCall::parse(&fs::read_to_string(format!("/proc/{thread}/syscall")).ok()?)
    }

    fn parse(text: &str) -> Option<SystemCall> {
        let mut fields = text.split_whitespace();
        // "running" has no fields behind it.
        fields.next()?;
        let mut argument = || u64::from_str_radix(fields.next()?.strip_prefix("0x")?, 16).ok();
        let descriptor = i32::try_from(argument()? as u32).ok()?;
        Some(SystemCall { descriptor, command: argument()? })
    }

    /// Returns true for the commands of `fcntl` whose locks belong to a description.
    fn is_of_description(&self) -> bool {
        [libc::F_OFD_GETLK, libc::F_OFD_SETLK, libc::F_OFD_SETLKW].iter().any(|known| *known as u64 == self.command)
    }
}

/// Returns the number that was given with a watched description, of a line of an epoll instance.
fn watched(line: &str) -> Option<u64> {
    let mut fields = line.strip_prefix("tfd:")?.split_whitespace();
    fields.find(|field| *field == "data:")?;
    u64::from_str_radix(fields.next()?, 16).ok()
}

/// Facts of proc_pid_stat(5).
struct Stat {
    parent: u32,
    started: u64,
}

/// Returns the facts of a process, unless it has ended.
fn stat(pid: u32) -> Option<Stat> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name may contain anything.
    let fields: Vec<&str> = stat.get(stat.rfind(')')? + 1..)?.split_whitespace().collect();
    let state = fields.first()?;
    // Of a process whose first thread has ended, others may go on.
    let threads = || fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count);
    let has_ended = matches!(*state, "Z" | "X") && threads() < 2;
    let found = Stat { parent: fields.get(1)?.parse().ok()?, started: fields.get(19)?.parse().ok()? };
    (!has_ended).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn system_calls_are_read() {
        let text = "72 0x9 0x7 0x7ffc 0x0 0x0 0x0 0x7ffc 0x7f00\n";
        assert_eq!(SystemCall::parse(text), Some(SystemCall { descriptor: 9, command: 7 }));
        assert!(SystemCall::parse("72 0x9 0x25 0x0").is_some_and(|call| call.is_of_description()));
        assert_eq!(SystemCall::parse("running\n"), None);
    }

    #[test]
    fn lines_of_an_epoll_instance_are_read() {
        assert_eq!(watched("tfd:        5 events:       19 data:               1f  pos:0 ino:61 sdev:d"), Some(0x1f));
        assert_eq!(watched("flags:\t02"), None);
    }

    #[test]
    fn a_description_is_there_until_its_last_descriptor_is_closed() {
        let mut watch = Watch::new(None, std::iter::empty());
        let (first, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        let second = first.try_clone().unwrap();
        let number = watch.watch(std::process::id(), first.as_raw_fd()).unwrap();
        drop(first);
        assert_eq!(watch.descriptions(), Some(HashSet::from([number])));
        drop(second);
        // A child that another test starts has it until it executes its program.
        while watch.descriptions() != Some(HashSet::new()) {
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_description_with_several_holders_is_there_for_each() {
        let mut watch = Watch::new(None, std::iter::empty());
        let (file, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        let numbers: HashSet<u64> =
            (0..8).map(|_| watch.watch(std::process::id(), file.as_raw_fd()).unwrap()).collect();
        assert_eq!(numbers.len(), 8);
        assert_eq!(watch.descriptions(), Some(numbers));
    }

    #[test]
    fn a_descriptor_is_found_by_the_files_path() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = Path::new(file.path().as_os_str().as_bytes()).unwrap();
        assert_eq!(opened(std::process::id(), &path), Some(file.as_raw_fd()));
        assert_eq!(opened(std::process::id(), &Path::new(b"/none").unwrap()), None);
    }

    #[test]
    fn who_shares_a_descriptor_is_found_among_the_ancestors() {
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", "sleep 60 & echo $!; wait"]).stdout(std::process::Stdio::piped());
        let mut shell = shell.spawn().unwrap();
        let mut line = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(shell.stdout.take().unwrap()), &mut line).unwrap();
        let child: u32 = line.trim().parse().unwrap();
        let pids = |descriptor| sharing(child, descriptor).iter().map(|process| process.pid).collect::<Vec<_>>();
        // This process has another standard output.
        assert_eq!(pids(1), [child, shell.id()]);
        assert_eq!(pids(99), [0; 0]);
        rustix::process::kill_process(Pid::from_raw(child as i32).unwrap(), rustix::process::Signal::KILL).unwrap();
        shell.wait().unwrap();
    }

    #[test]
    fn a_process_is_there_until_it_ends_or_closes_its_descriptor() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let process = |descriptor| Process::of(child.id(), Some(descriptor)).unwrap();
        let (with, without) = (process(0), process(99));
        assert!(with.has_it_open() && !without.has_it_open());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!with.has_it_open());
    }
}
