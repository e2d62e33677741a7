//! A rank's proxy: the process that the launcher started. It requests the rank, forwards signals, and ends with the
//! rank's status.

use std::collections::BTreeMap;
use std::ffi::{CString, OsString};
use std::fs::{self, File};
use std::io::{self, IsTerminal, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use headwater_store::layout::NodeDir;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FlockOperation, MemfdFlags, Mode, OFlags, flock, memfd_create};

use super::node::{BUILD, lock, socket};
use super::packet::{self, Answer, GO};
use super::request::Request;
use super::reseed;
use super::zygotes::START_MS_MAX;
use crate::message::log;
use crate::process;
use crate::self_exec;
use crate::session::signals::SignalForwarder;
use crate::spawn::on_behalf::{Description, describe};

/// Timeout of the owner's zygote.
const READY_MAX: Duration = Duration::from_millis(START_MS_MAX as u64 + 30_000);
/// Timeout of the owner's start.
const OPEN_MAX: Duration = Duration::from_secs(20);
const RETRY: Duration = Duration::from_millis(2);
/// The exit status of a rank that was killed.
const KILLED: u8 = 137;

/// The program that would be executed, and options of its zygote.
#[derive(Debug)]
pub struct RankSpec<'a> {
    /// The node's directory.
    pub node: &'a Path,
    /// The file.
    pub program: &'a Path,
    /// Its arguments, its name among them.
    pub arguments: &'a [OsString],
    /// Its environment.
    pub environment: &'a BTreeMap<OsString, OsString>,
    /// Modules that a Python interpreter imports before ranks are forked, separated by commas.
    pub imports: Option<&'a str>,
    /// The file with statements that reseed random modules in each rank.
    pub reseed: Option<&'a Path>,
    /// Whether a process from a zygote has started this one.
    pub is_child: bool,
    /// Whether this rank reports for its node.
    pub reports: bool,
    /// Whether the node's processes are audited.
    pub is_audited: bool,
}

/// Why a rank was not started.
#[derive(Debug)]
pub enum NotBegun {
    /// No zygote can fork it; the program is to be executed.
    Refused(String),
    /// The user's options can't be fulfilled.
    Wrong(String),
}

impl From<String> for NotBegun {
    fn from(why: String) -> NotBegun {
        NotBegun::Refused(why)
    }
}

/// Has a zygote fork the rank, and ends with its status. Returns only if the rank was not started.
pub fn become_rank(spec: &RankSpec) -> NotBegun {
    match begin(spec) {
        Ok(rank) => rank.wait_for_end(),
        Err(why) => why,
    }
}

/// A rank that runs.
struct Rank {
    owner: OwnedFd,
    /// The rank's pidfd.
    process: OwnedFd,
    signals: SignalForwarder,
}

fn begin(spec: &RankSpec) -> Result<Rank, NotBegun> {
    let (request, cwd, description) = describe_request(spec)?;
    let mut attempts = 0;
    let (owner, left_out) = loop {
        attempts += 1;
        // An owner that has just ended has not taken the request.
        match request_zygote(spec.node, &request, &cwd, &description) {
            Ok(ready) => break ready,
            Err(Failure::Ended) if attempts < 3 => {}
            Err(Failure::Ended) => return Err(String::from("the owner of the node's zygotes has ended").into()),
            Err(Failure::NotBegun(why)) => return Err(why),
        }
    };
    for module in left_out.iter().filter(|_| spec.reports) {
        let (name, why) = module.split_once(": ").unwrap_or((module, ""));
        log(format_args!("warning: {name} is not imported warm: {why}. Each rank imports it itself"));
    }
    // From now on signals are forwarded to the rank.
    let mut signals = SignalForwarder::begin().map_err(|error| format!("signals can't be watched: {error}"))?;
    let (answer, mut fds) = match packet::send(&owner, GO, &[], true).map(|()| answer(&owner, None)) {
        Ok(Ok(answered)) => answered,
        // If the rank has started, the kernel has killed it with the owner.
        _ => {
            log("the owner of the node's zygotes was killed while this rank started. The rank is killed too");
            std::process::exit(i32::from(KILLED));
        }
    };
    match (answer, fds.pop()) {
        (Answer::Started, Some(process)) => {
            // Otherwise pipes and sockets of the rank would stay open after it closed them.
            description.close_but(2);
            Ok(Rank { owner, process, signals })
        }
        (Answer::Refused(why), _) => {
            signals.end();
            Err(why.into())
        }
        _ => {
            log("the owner of the node's zygotes sent a malformed answer. The rank is killed");
            std::process::exit(i32::from(KILLED));
        }
    }
}

/// Returns the encoded request, the working directory, and this process's description.
fn describe_request(spec: &RankSpec) -> Result<(OwnedFd, OwnedFd, Description), String> {
    if io::stdin().is_terminal() {
        return Err("standard input is a terminal, which only a process of its session can read".into());
    }
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let cwd = rustix::fs::open(".", flags, Mode::empty()).map_err(|e| format!("its directory can't be opened: {e}"))?;
    if File::from(cwd.try_clone().map_err(text)?).metadata().is_ok_and(|directory| directory.nlink() == 0) {
        return Err("its directory was removed".into());
    }
    let strings = |arguments: Vec<Vec<u8>>| arguments.into_iter().map(CString::new).collect::<Result<Vec<_>, _>>();
    let arguments =
        strings(spec.arguments.iter().map(|argument| argument.as_bytes().to_vec()).collect()).map_err(text)?;
    let variables = spec.environment.iter().map(|(name, value)| [name.as_bytes(), b"=", value.as_bytes()].concat());
    let environment = strings(variables.collect()).map_err(text)?;
    process::inherited::leave_closed();
    let description =
        describe(&arguments, &environment, spec.imports.is_some()).map_err(|error| match error.kind() {
            io::ErrorKind::Unsupported => {
                String::from("it has more open files, or higher descriptors, than can be passed on")
            }
            _ => format!("this process can't be described: {error}"),
        })?;
    let arguments = || {
        // A script's options belong to the script.
        let mut start = [0; 2];
        let is_script = File::open(spec.program).and_then(|mut file| file.read_exact(&mut start)).is_ok();
        let is_script = is_script && start == *b"#!";
        let name = spec.arguments.first().cloned().into_iter();
        if is_script {
            return name.collect();
        }
        let mut arguments = crate::spawn::interpreter_arguments(spec.arguments);
        // The interpreter finds its libraries by its path, and the zygote has another working directory.
        if let Some(first) = arguments.first_mut().filter(|first| first.as_bytes().contains(&b'/')) {
            *first = std::path::absolute(&*first).map_or_else(|_| first.clone(), PathBuf::into_os_string);
        }
        arguments
    };
    let arguments = || arguments().into_iter().map(|argument: OsString| argument.as_bytes().to_vec()).collect();
    let request = Request {
        build: BUILD.into(),
        // The owner has another working directory.
        program: std::path::absolute(spec.program).map_err(text)?.into_os_string().into_vec(),
        interpreter: imports(spec)?.map(|imports| (arguments(), imports.into())),
        generation: if spec.is_audited { NodeDir::new(spec.node).newest().generation() } else { 0 },
        attributes: description.attributes,
        variables: description.variables,
        is_child: spec.is_child,
        groups: fs::read("/proc/self/cgroup").map_err(|error| format!("/proc/self/cgroup can't be read: {error}"))?,
        description: description.data.clone(),
    };
    let memory = memfd_create("headwater-warm", MemfdFlags::CLOEXEC).map_err(text)?;
    let mut file = File::from(memory);
    file.write_all(&request.encode()).map_err(text)?;
    Ok((file.into(), cwd, description))
}

/// Returns the zygote's imports, and on further lines by what its processes start others, and the table of reseeding.
fn imports(spec: &RankSpec) -> Result<Option<String>, String> {
    let Some(names) = spec.imports else { return Ok(None) };
    let table = spec.reseed.map(reseed::read).transpose()?.unwrap_or_default();
    Ok(Some(format!("{names}\n{}{table}", words(spec, names).unwrap_or_default())))
}

/// Returns the line with the words by which a process from the zygote starts others of its interpreter
/// (`spawn/zygote/python_children.c`). `None` if a path can't be passed so.
fn words(spec: &RankSpec, names: &str) -> Option<String> {
    let installed = self_exec::installed().ok()?;
    let path = |path: &Path| path.to_str().map(String::from);
    let mut words = vec![path(&installed)?, "exec".into(), "--zygote".into(), "--imports".into(), names.into()];
    if let Some(table) = spec.reseed {
        words.extend(["--reseed".into(), path(&std::path::absolute(table).ok()?)?]);
    }
    words.extend(["--node".into(), path(spec.node)?, "--".into()]);
    let is_plain = |word: &String| !word.contains(['\t', '\n']);
    words.iter().all(is_plain).then(|| format!(">{}\n", words.join("\t")))
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

enum Failure {
    /// The owner has ended.
    Ended,
    /// The rank was refused.
    NotBegun(NotBegun),
}

impl From<String> for Failure {
    fn from(why: String) -> Failure {
        Failure::NotBegun(NotBegun::Refused(why))
    }
}

/// Requests a zygote from the owner; returns the connection and the modules that were not imported.
fn request_zygote(
    node: &Path,
    request: &OwnedFd,
    cwd: &OwnedFd,
    description: &Description,
) -> Result<(OwnedFd, Vec<String>), Failure> {
    let owner = connect_owner(node)?;
    let fds: Vec<_> = [request.as_fd(), cwd.as_fd()].into_iter().chain(description.borrowed()).collect();
    packet::send(&owner, BUILD.as_bytes(), &fds, true).map_err(|_| Failure::Ended)?;
    match answer(&owner, Some(Instant::now() + READY_MAX)) {
        Ok((Answer::Ready(left_out), _)) => Ok((owner, left_out)),
        Ok((Answer::Refused(why), _)) => Err(why.into()),
        Ok((Answer::Wrong(why), _)) => Err(Failure::NotBegun(NotBegun::Wrong(why))),
        Ok(_) => Err(String::from("the owner of the node's zygotes sent a malformed answer").into()),
        Err(error) if error.kind() == io::ErrorKind::TimedOut => {
            let seconds = READY_MAX.as_secs();
            Err(format!("no zygote was ready within {seconds} seconds").into())
        }
        Err(_) => Err(Failure::Ended),
    }
}

/// Waits for an answer.
fn answer(owner: &OwnedFd, until: Option<Instant>) -> io::Result<(Answer, Vec<OwnedFd>)> {
    loop {
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        let left = left.map(|left| Timespec::try_from(left).unwrap_or_default());
        match poll(&mut [PollFd::new(owner, PollFlags::IN)], left.as_ref()) {
            Ok(0) => return Err(io::ErrorKind::TimedOut.into()),
            Err(rustix::io::Errno::INTR) => continue,
            polled => polled?,
        };
        let (bytes, fds) = packet::receive(owner)?.ok_or(io::ErrorKind::UnexpectedEof)?;
        let answer = Answer::decode(&bytes).ok_or(io::ErrorKind::InvalidData)?;
        return Ok((answer, fds));
    }
}

/// Connects to the owner; starts it if there is none.
fn connect_owner(node: &Path) -> Result<OwnedFd, String> {
    let path = socket(node);
    if let Ok(owner) = packet::connect(&path) {
        return Ok(owner);
    }
    let until = Instant::now() + OPEN_MAX;
    let failed = |error: &dyn std::fmt::Display| format!("the owner of the node's zygotes can't be started: {error}");
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let locked = rustix::fs::open(lock(node), flags, Mode::RUSR | Mode::WUSR).map_err(|e| failed(&e))?;
    while let Err(error) = flock(&locked, FlockOperation::NonBlockingLockExclusive) {
        if Instant::now() >= until {
            return Err(failed(&error));
        }
        thread::sleep(RETRY);
    }
    // The previous holder of the lock may have started it.
    if let Ok(owner) = packet::connect(&path) {
        return Ok(owner);
    }
    start(node, until).map_err(|e| failed(&e))?;
    packet::connect(&path).map_err(|e| failed(&e))
}

/// Starts the owner, and waits until it accepts connections.
fn start(node: &Path, until: Instant) -> io::Result<()> {
    let mut command = self_exec::command();
    command.arg("warm").arg(node).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut starter = command.spawn()?;
    if let Some(output) = starter.stdout.take() {
        let left = Timespec::try_from(until.saturating_duration_since(Instant::now())).unwrap_or_default();
        poll(&mut [PollFd::new(&output, PollFlags::IN)], Some(&left))?;
    }
    // The owner itself is a child of this process.
    starter.wait().map(drop)
}

impl Rank {
    /// Forwards signals until the rank has ended; ends with its status.
    fn wait_for_end(mut self) -> ! {
        loop {
            let mut fds =
                [self.owner.as_fd(), self.signals.readable()].map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
            let _ = poll(&mut fds, None);
            let has_answer = !fds[0].revents().is_empty();
            for signal in self.signals.pending() {
                process::signal(&self.process, signal.number, signal.from_kernel);
            }
            if !has_answer {
                continue;
            }
            match answer(&self.owner, None) {
                Ok((Answer::Exited(code), _)) => std::process::exit(i32::from(code)),
                Ok((Answer::Killed(signal), _)) => process::end_by(i32::from(signal)),
                Ok((Answer::Stopped, _)) => crate::session::signals::stop_here(),
                Ok(_) => {}
                Err(_) => self.give_up(),
            }
        }
    }

    /// Kills the rank after the owner's death.
    fn give_up(&self) -> ! {
        process::signal(&self.process, libc::SIGKILL, false);
        let _ = poll(&mut [PollFd::new(&self.process, PollFlags::IN)], None);
        log("the owner of the node's zygotes was killed. The rank is killed too");
        std::process::exit(i32::from(KILLED))
    }
}
