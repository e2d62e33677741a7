//! The owner of a node's zygotes: it has ranks forked, reports their ends to their proxies, and ends after its last
//! proxy.
//!
//! Its one thread is the ranks' parent, so the kernel kills them with it. While a zygote does its imports, other
//! requests wait; most of them need the same zygote.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read, Seek};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::SocketFlags;
use rustix::net::sockopt::socket_peercred;
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions, geteuid, pidfd_open, pidfd_send_signal, waitpid};
use signal_hook::consts::SIGCHLD;

use super::node::{BUILD, Forked, socket};
use super::packet::{self, Answer, GO};
use super::request::{self, Request};
use super::zygotes::{PendingRequest, Zygotes};
use crate::options::inner::WarmOptions;
use crate::process::{self, Side};
use crate::session::signals::SignalForwarder;

/// How long the owner waits for its first proxy, which on a busy node is slow to connect.
const FIRST_MAX: Duration = Duration::from_secs(20);
/// How long the owner stays after its last proxy.
const EMPTY_MAX: Duration = Duration::from_secs(1);
/// How often it then checks that the node's directory exists.
const CHECK_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// Descriptors of its own that it polls, before those of proxies.
const OWN: usize = 3;
/// Limit of connected proxies.
const PROXIES_MAX: usize = 8192;
/// Limit of connections that the kernel queues.
const BACKLOG_MAX: i32 = 4096;

/// Owns a node's zygotes in a background process: it is no child of the caller, has its own session, and inherits no
/// descriptors. Closes standard output once proxies can connect.
///
/// Call it before any thread is started.
pub fn serve(options: &WarmOptions) -> Result<u8> {
    process::close_inherited();
    if let Side::Parent(_) = process::fork()? {
        return Ok(0);
    }
    let _ = rustix::process::setsid();
    let _ = rustix::thread::set_name(c"headwater-warm");
    // Imports have no input, and their output is discarded.
    let null = File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stderr(&null)?;
    std::env::set_current_dir("/")?;
    // Zygotes inherit the action, and constructors may examine it.
    process::restore_sigpipe();
    let mut owner = Owner::open(&options.node)?;
    rustix::stdio::dup2_stdout(&null)?;
    drop(null);
    owner.run()?;
    Ok(0)
}

struct Owner {
    node: PathBuf,
    listener: OwnedFd,
    /// Readable when a child's state has changed.
    children: UnixStream,
    /// Signals to this process.
    signals: SignalForwarder,
    zygotes: Zygotes,
    proxies: BTreeMap<u64, Proxy>,
    next: u64,
    /// Processes from zygotes, of this owner and of earlier ones.
    forked: Forked,
}

struct Proxy {
    socket: OwnedFd,
    stage: Stage,
}

enum Stage {
    /// It has sent no request.
    New,
    /// It was notified that a zygote is ready.
    Ready(Box<PendingRequest>),
    /// Its rank runs.
    Running { pid: Pid, rank: OwnedFd },
    /// The proxy has ended, and its rank was killed.
    Lost { pid: Pid },
}

impl Owner {
    fn open(node: &Path) -> Result<Owner> {
        let path = socket(node);
        // The starting proxy has checked that no owner answers.
        let _ = fs::remove_file(&path);
        let listener =
            packet::listen(&path, BACKLOG_MAX).with_context(|| format!("{} can't be made", path.display()))?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
        let (children, notifier) = UnixStream::pair()?;
        children.set_nonblocking(true)?;
        signal_hook::low_level::pipe::register(SIGCHLD, notifier)?;
        let signals = SignalForwarder::begin()?;
        let zygotes = Zygotes::new();
        let forked = Forked::of(node);
        Ok(Owner { node: node.into(), listener, children, signals, zygotes, proxies: BTreeMap::new(), next: 0, forked })
    }

    fn run(&mut self) -> Result<()> {
        let mut empty_until = Instant::now() + FIRST_MAX;
        loop {
            if !self.proxies.is_empty() {
                empty_until = Instant::now() + EMPTY_MAX;
            } else if Instant::now() >= empty_until || !self.node.exists() {
                return Ok(());
            }
            let ready = self.wait()?;
            self.pass_on_signals();
            self.reap();
            for number in ready {
                self.receive(number);
            }
            self.accept();
        }
    }

    /// Waits for an event; returns the proxies that have sent a packet or closed their connection.
    fn wait(&self) -> Result<Vec<u64>> {
        let flag = PollFlags::IN;
        let received = |proxy: &&Proxy| !matches!(proxy.stage, Stage::Lost { .. });
        let known = self.proxies.iter().filter(|(_, proxy)| received(proxy));
        let numbers: Vec<u64> = known.clone().map(|(&number, _)| number).collect();
        let signals = PollFd::from_borrowed_fd(self.signals.readable(), flag);
        let own = [PollFd::new(&self.listener, flag), PollFd::new(&self.children, flag), signals];
        let mut fds: Vec<PollFd> =
            own.into_iter().chain(known.map(|(_, proxy)| PollFd::new(&proxy.socket, flag))).collect();
        // While ranks run, no timer disturbs the node's cores.
        let timeout = self.proxies.is_empty().then_some(&CHECK_INTERVAL);
        match poll(&mut fds, timeout) {
            Err(rustix::io::Errno::INTR) => return Ok(Vec::new()),
            polled => polled?,
        };
        let ready = fds[OWN..].iter().zip(numbers).filter(|(fd, _)| !fd.revents().is_empty());
        Ok(ready.map(|(_, number)| number).collect())
    }

    /// Sends what a rank has sent to its parent, which to the kernel is this process, to its proxy's. Other signals have
    /// their default actions.
    fn pass_on_signals(&mut self) {
        for signal in self.signals.pending() {
            let is_senders =
                |proxy: &&Proxy| matches!(proxy.stage, Stage::Running { pid, .. } if Some(pid) == signal.sender);
            let Some(proxy) = self.proxies.values().find(is_senders) else {
                let _ = signal_hook::low_level::emulate_default_handler(signal.number);
                continue;
            };
            let parent = socket_peercred(&proxy.socket).ok().and_then(|peer| process::parent_of(peer.pid));
            if let Some(Ok(parent)) = parent.map(|parent| pidfd_open(parent, PidfdFlags::empty())) {
                process::signal(&parent, signal.number, false);
            }
        }
    }

    fn accept(&mut self) {
        let is_waiting = |listener: &OwnedFd| {
            let mut fds = [PollFd::new(listener, PollFlags::IN)];
            poll(&mut fds, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
        };
        while self.proxies.len() < PROXIES_MAX && is_waiting(&self.listener) {
            let Ok(socket) = rustix::net::accept_with(&self.listener, SocketFlags::CLOEXEC) else { return };
            if socket_peercred(&socket).is_ok_and(|peer| peer.uid == geteuid()) {
                self.proxies.insert(self.next, Proxy { socket, stage: Stage::New });
                self.next += 1;
            }
        }
    }

    /// Receives a packet of a proxy.
    fn receive(&mut self, number: u64) {
        // It may have been reaped meanwhile.
        let Some(proxy) = self.proxies.remove(&number) else { return };
        let received = packet::receive(&proxy.socket).ok().flatten();
        let remaining = match (received, proxy.stage) {
            (received, Stage::Running { pid, rank }) => {
                // A proxy sends nothing while its rank runs, so it has closed the connection.
                drop(received);
                let _ = pidfd_send_signal(&rank, Signal::KILL);
                Some(Proxy { socket: proxy.socket, stage: Stage::Lost { pid } })
            }
            (Some((bytes, fds)), Stage::New) => self.prepare(proxy.socket, &bytes, fds),
            (Some((bytes, _)), Stage::Ready(pending)) if bytes == GO => self.begin(proxy.socket, &pending),
            (_, stage @ Stage::Lost { .. }) => Some(Proxy { socket: proxy.socket, stage }),
            _ => None,
        };
        if let Some(remaining) = remaining {
            self.proxies.insert(number, remaining);
        }
    }

    /// Prepares a zygote for a request.
    fn prepare(&mut self, socket: OwnedFd, bytes: &[u8], fds: Vec<OwnedFd>) -> Option<Proxy> {
        let pending = decode_request(bytes, fds);
        let answer = match &pending {
            Ok(pending) => self.zygotes.prepare(pending),
            Err(why) => Answer::Refused(why.clone()),
        };
        reply(&socket, &answer, &[])?;
        let pending = pending.ok().filter(|_| matches!(answer, Answer::Ready(_)))?;
        Some(Proxy { socket, stage: Stage::Ready(Box::new(pending)) })
    }

    /// Starts the rank.
    fn begin(&mut self, socket: OwnedFd, pending: &PendingRequest) -> Option<Proxy> {
        let made = self.zygotes.spawn(pending).and_then(|pid| {
            // The rank has not been reaped, so its PID is not reused.
            let rank = pidfd_open(pid, PidfdFlags::empty()).map_err(|error| error.to_string());
            rank.map(|rank| (pid, rank)).inspect_err(|_| kill(pid))
        });
        let (pid, rank) = match made {
            Ok(made) => made,
            Err(why) => {
                reply(&socket, &Answer::Refused(why), &[]);
                return None;
            }
        };
        *(if pending.request.is_child { &mut self.forked.children } else { &mut self.forked.ranks }) += 1;
        self.forked.note(&self.node);
        if reply(&socket, &Answer::Started, &[rank.as_fd()]).is_none() {
            let _ = pidfd_send_signal(&rank, Signal::KILL);
            return Some(Proxy { socket, stage: Stage::Lost { pid } });
        }
        Some(Proxy { socket, stage: Stage::Running { pid, rank } })
    }

    /// Reports stopped and ended ranks to their proxies.
    fn reap(&mut self) {
        while matches!((&self.children).read(&mut [0; 256]), Ok(256)) {}
        self.proxies.retain(|_, proxy| {
            let (Stage::Running { pid, .. } | Stage::Lost { pid }) = proxy.stage else { return true };
            let status = match waitpid(Some(pid), WaitOptions::NOHANG | WaitOptions::UNTRACED) {
                Ok(Some((_, status))) => status,
                Ok(None) | Err(rustix::io::Errno::INTR) => return true,
                Err(_) => return false,
            };
            if status.stopped() {
                // A failure means that the proxy has ended, which is handled next.
                reply(&proxy.socket, &Answer::Stopped, &[]);
                return true;
            }
            let signal = status.terminating_signal().map(|signal| Answer::Killed(signal as u8));
            let exited = || Answer::Exited(status.exit_status().unwrap_or(0) as u8);
            reply(&proxy.socket, &signal.unwrap_or_else(exited), &[]);
            false
        });
    }
}

/// Kills a rank that no proxy knows.
fn kill(pid: Pid) {
    let _ = rustix::process::kill_process(pid, Signal::KILL);
    let _ = waitpid(Some(pid), WaitOptions::empty());
}

/// Sends an answer; `None` if that fails.
fn reply(socket: &OwnedFd, answer: &Answer, fds: &[std::os::fd::BorrowedFd]) -> Option<()> {
    packet::send(socket, &answer.encode(), fds, false).ok()
}

/// Decodes a request, which is passed in a memory file, and its descriptors.
fn decode_request(bytes: &[u8], fds: Vec<OwnedFd>) -> Result<PendingRequest, String> {
    if bytes != BUILD.as_bytes() {
        return Err("the node's zygotes belong to another build of headwater".into());
    }
    let mut fds = fds.into_iter();
    let (Some(body), Some(cwd)) = (fds.next(), fds.next()) else { return Err("its request is incomplete".into()) };
    let mut text = Vec::new();
    let mut body = File::from(body);
    let got = body.rewind().and_then(|()| body.take(request::BYTES_MAX as u64 + 1).read_to_end(&mut text));
    let request = got.ok().filter(|&bytes| bytes <= request::BYTES_MAX).and_then(|_| Request::decode(&text));
    match request.filter(|request| request.build == BUILD.as_bytes()) {
        Some(request) => Ok(PendingRequest { request, cwd, fds: fds.collect() }),
        None => Err("its request can't be read".into()),
    }
}
