//! The owner of a node's zygotes: it has ranks made, tells their proxies what becomes of them, and ends when there are
//! none.
//!
//! It has one thread, which is the ranks' parent: the kernel kills them when that ends. While a zygote does its imports
//! nobody else is answered, and most of those who wait want the same one.

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

use super::node::{BUILD, count, ranks_of, socket};
use super::packet::{self, Answer, GO};
use super::request::{self, Request};
use super::zygotes::{PendingRequest, Zygotes};
use crate::options::inner::WarmOptions;
use crate::process::{self, Side};

/// How long it stays without a proxy.
const EMPTY_MAX: Duration = Duration::from_secs(1);
/// How often it then looks whether the node is still there.
const CHECK_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// Proxies that are connected at once, at most.
const PROXIES_MAX: usize = 8192;
/// Proxies that the kernel has wait until they are taken.
const BACKLOG_MAX: i32 = 4096;

/// Owns the zygotes of a node, in a process that goes on by itself: not a child of the caller, in a session of its own,
/// and with none of its descriptors. Closes standard output once proxies can reach it.
///
/// Call it before any thread is started.
pub fn serve(options: &WarmOptions) -> Result<u8> {
    process::close_inherited();
    if let Side::Parent(_) = process::fork()? {
        return Ok(0);
    }
    let _ = rustix::process::setsid();
    let _ = rustix::thread::set_name(c"headwater-warm");
    // What imports print is nobody's, and so is what they read.
    let null = File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stderr(&null)?;
    std::env::set_current_dir("/")?;
    // As zygotes have it, whose constructors may look.
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
    /// Readable when a child has changed.
    children: UnixStream,
    zygotes: Zygotes,
    proxies: BTreeMap<u64, Proxy>,
    next: u64,
    /// Ranks that have come from zygotes, of this owner and of those before it.
    ranks: u32,
}

struct Proxy {
    socket: OwnedFd,
    stage: Stage,
}

enum Stage {
    /// It has said nothing.
    New,
    /// It was told that there is a zygote.
    Ready(Box<PendingRequest>),
    /// Its rank runs.
    Running { pid: Pid, rank: OwnedFd },
    /// Its rank was killed since the proxy has gone.
    Lost { pid: Pid },
}

impl Owner {
    fn open(node: &Path) -> Result<Owner> {
        let path = socket(node);
        // Who starts an owner has looked whether there is one.
        let _ = fs::remove_file(&path);
        let listener =
            packet::listen(&path, BACKLOG_MAX).with_context(|| format!("{} can't be made", path.display()))?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
        let (children, notifier) = UnixStream::pair()?;
        children.set_nonblocking(true)?;
        signal_hook::low_level::pipe::register(SIGCHLD, notifier)?;
        let zygotes = Zygotes::new();
        let ranks = ranks_of(node);
        Ok(Owner { node: node.into(), listener, children, zygotes, proxies: BTreeMap::new(), next: 0, ranks })
    }

    fn run(&mut self) -> Result<()> {
        let mut empty_since = Instant::now();
        loop {
            if !self.proxies.is_empty() {
                empty_since = Instant::now();
            } else if empty_since.elapsed() >= EMPTY_MAX || !self.node.exists() {
                return Ok(());
            }
            let ready = self.wait()?;
            self.reap();
            for number in ready {
                self.receive(number);
            }
            self.accept();
        }
    }

    /// Waits until something happens; the proxies that have said something, or have gone.
    fn wait(&self) -> Result<Vec<u64>> {
        let flag = PollFlags::IN;
        let received = |proxy: &&Proxy| !matches!(proxy.stage, Stage::Lost { .. });
        let known = self.proxies.iter().filter(|(_, proxy)| received(proxy));
        let numbers: Vec<u64> = known.clone().map(|(&number, _)| number).collect();
        let own = [PollFd::new(&self.listener, flag), PollFd::new(&self.children, flag)];
        let mut fds: Vec<PollFd> =
            own.into_iter().chain(known.map(|(_, proxy)| PollFd::new(&proxy.socket, flag))).collect();
        // While ranks run, nothing but what happens to them disturbs the node's cores.
        let timeout = self.proxies.is_empty().then_some(&CHECK_INTERVAL);
        match poll(&mut fds, timeout) {
            Err(rustix::io::Errno::INTR) => return Ok(Vec::new()),
            polled => polled?,
        };
        let ready = fds[2..].iter().zip(numbers).filter(|(fd, _)| !fd.revents().is_empty());
        Ok(ready.map(|(_, number)| number).collect())
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

    /// Hears what a proxy says.
    fn receive(&mut self, number: u64) {
        // It may have been reaped meanwhile.
        let Some(proxy) = self.proxies.remove(&number) else { return };
        let received = packet::receive(&proxy.socket).ok().flatten();
        let remaining = match (received, proxy.stage) {
            (received, Stage::Running { pid, rank }) => {
                // A proxy whose rank runs says nothing: it has gone.
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

    /// Sees to a zygote for what is asked.
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

    /// Has the rank made.
    fn begin(&mut self, socket: OwnedFd, pending: &PendingRequest) -> Option<Proxy> {
        let made = self.zygotes.spawn(pending).and_then(|pid| {
            // It has not been waited for: its number is its own.
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
        self.ranks += 1;
        // The number is for people.
        let _ = fs::write(count(&self.node), self.ranks.to_string());
        if reply(&socket, &Answer::Started, &[rank.as_fd()]).is_none() {
            let _ = pidfd_send_signal(&rank, Signal::KILL);
            return Some(Proxy { socket, stage: Stage::Lost { pid } });
        }
        Some(Proxy { socket, stage: Stage::Running { pid, rank } })
    }

    /// Tells proxies what has become of their ranks.
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
                // Unless it has gone, which is seen next.
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

/// Ends a rank that nobody knows of.
fn kill(pid: Pid) {
    let _ = rustix::process::kill_process(pid, Signal::KILL);
    let _ = waitpid(Some(pid), WaitOptions::empty());
}

/// `None` if the proxy can't be told.
fn reply(socket: &OwnedFd, answer: &Answer, fds: &[std::os::fd::BorrowedFd]) -> Option<()> {
    packet::send(socket, &answer.encode(), fds, false).ok()
}

/// A request, which comes in a file in memory, and what it is about.
fn decode_request(bytes: &[u8], fds: Vec<OwnedFd>) -> Result<PendingRequest, String> {
    if bytes != BUILD.as_bytes() {
        return Err("another build of headwater has the node's zygotes".into());
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
