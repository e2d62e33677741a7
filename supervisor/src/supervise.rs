//! The supervisor's loop.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use headwater_daemon::Config;
use headwater_daemon::process;
use headwater_daemon::{Command, Control};
use headwater_daemon::{Leaving, Session};
use headwater_fuse::init::Opening;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::FileType;
use rustix::io::Errno;
use signal_hook::consts::SIGUSR1;

use crate::child::{DaemonProcess, is_readable};
use crate::client::{Refusal, Reply, Request, Status};
use crate::config::{SupervisorConfig, Via};
use crate::lock_store::LockStore;
use crate::mounting::{Mounting, is_busy, source, unmount};
use crate::own_server::OwnServer;
use crate::restarts::{Next, Restarts};
use crate::socket::{Peer, Socket};
use crate::stale::SignOfLife;

/// How long a daemon may take to end.
const END_TIMEOUT: Duration = Duration::from_secs(8);
/// How often it is checked whether a killed daemon hangs in the kernel. Everything else is an event, so that a node that
/// computes is hardly disturbed.
const CHECK_INTERVAL: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };
/// How often the daemon is checked while the kernel unmounts.
const UNMOUNT_CHECK_INTERVAL: Duration = Duration::from_millis(2);
/// The executable that this process runs, even if its file was replaced.
const OWN_EXECUTABLE: &str = "/proc/self/exe";

/// One node's supervisor.
pub(crate) struct Supervisor {
    config: SupervisorConfig,
    /// `None` once the supervisor is detached.
    control: Option<Control>,
    signals: Signals,
    socket: Socket,
    mounting: Mounting,
    locks: LockStore,
    server: Server,
    /// Daemons that were killed and have not ended yet.
    dying: Vec<DaemonProcess>,
    restarts: Restarts,
    starts: u64,
    executable: PathBuf,
    inherited: Inherited,
    session: Session,
    is_ready: bool,
    /// The daemon's reason for ending, if it has reported one.
    failed: Option<String>,
    _sign_of_life: Option<SignOfLife>,
}

/// What serves the kernel.
enum Server {
    Daemon(DaemonProcess),
    Own(OwnServer),
}

/// A line of the daemon's output: it is ready, or its reason for ending.
#[derive(Default, serde::Deserialize)]
#[serde(default)]
struct DaemonStatus {
    ready: bool,
    failed: Option<String>,
}

/// Descriptors that each daemon inherits.
struct Inherited {
    listeners: Vec<OwnedFd>,
    lifeline: OwnedFd,
    /// Open files for the first daemon; later ones open what they need.
    opened: Vec<OwnedFd>,
    /// The disk for content.
    disk: Option<OwnedFd>,
    /// The other end of the lifeline, if this process is the session's owner.
    owner: Option<OwnedFd>,
}

struct Signals {
    terminate: OwnedFd,
    restart: File,
}

/// Why the loop ends.
#[derive(Debug)]
enum End {
    /// On a command, with a report.
    Requested,
    /// The session's owner has ended.
    Orphaned,
    /// A peer has requested it.
    RequestedBy(Peer),
    /// The file system was unmounted by another process.
    Unmounted,
}

/// Returns how files are opened.
fn opening(config: &SupervisorConfig) -> Opening {
    match (&config.via, config.opening) {
        (Via::Namespace(_), Opening::Passthrough) => {
            if config.daemon.rank == 0 {
                tracing::warn!(
                    "files are opened as by --opening no-open: passthrough is for read-only mounts, since the kernel lets \
                     nothing write to a file that is open so"
                );
            }
            Opening::None
        }
        (_, opening) => opening,
    }
}

impl Supervisor {
    /// Mounts, and starts the first daemon.
    pub(crate) fn start(mut config: SupervisorConfig, control: Control) -> Result<Supervisor, String> {
        let shown = |what: &'static str| move |error: io::Error| format!("can't {what}: {error}");
        config.daemon.check().map_err(|error| error.to_string())?;
        let signals = Signals::catch().map_err(shown("catch signals"))?;
        let inherited = Inherited::take(&mut config.daemon).map_err(shown("use the inherited descriptors"))?;
        control.files().try_for_each(|file| rustix::io::ioctl_fionbio(file, true)).map_err(|e| e.to_string())?;
        // An executable in memory has no path.
        let own = std::env::current_exe().ok().filter(|path| path.exists());
        let executable = own.unwrap_or_else(|| OWN_EXECUTABLE.into());
        let dir = config.daemon.dir();
        std::fs::create_dir_all(dir.path()).map_err(shown("make the node's directory"))?;
        let session = Session::join(&config.daemon).map_err(|error| error.to_string())?;
        let socket = Socket::listen(&dir.supervisor()).map_err(shown("listen at the supervisor's socket"))?;
        let locks = LockStore::new().map_err(shown("prepare for locks"))?;
        let opening = opening(&config);
        let mounting = Mounting::make(&config, &executable, opening).map_err(|error| error.to_string())?;
        // Without it, processes that look for stale mounts access this one.
        let sign_of_life = SignOfLife::bind(&source(&config.daemon)).ok();
        let mut supervisor = Supervisor {
            config,
            control: Some(control),
            signals,
            socket,
            mounting,
            locks,
            server: Server::Own(OwnServer::none()),
            dying: Vec::new(),
            restarts: Restarts::default(),
            starts: 0,
            executable,
            inherited,
            session,
            is_ready: false,
            failed: None,
            _sign_of_life: sign_of_life,
        };
        supervisor.config.daemon.mount = Some(supervisor.mounting.config(supervisor.locks.config()));
        match supervisor.start_daemon(&supervisor.executable.clone()) {
            Ok(daemon) => supervisor.server = Server::Daemon(daemon),
            Err(error) => {
                supervisor.clean();
                return Err(format!("the daemon can't be started: {error}"));
            }
        }
        Ok(supervisor)
    }

    /// Supervises until a command ends it, and leaves nothing behind.
    pub(crate) fn run(mut self) -> Result<(), String> {
        loop {
            if let Err(error) = self.wait() {
                tracing::error!(%error, "the supervisor can't wait for events and ends");
                self.end(End::Orphaned);
                return Ok(());
            }
            if let Err(why) = self.check_daemon() {
                self.clean();
                return Err(why);
            }
            if let Some(end) = self.next_end() {
                let Some(end) = self.try_end(end) else { continue };
                self.end(end);
                return Ok(());
            }
            if rustix::io::read(&self.signals.restart, &mut [0; 64]).is_ok() {
                self.replace();
            }
        }
    }

    /// Waits for the next event.
    fn wait(&self) -> io::Result<()> {
        let mut fds = vec![
            PollFd::new(&self.signals.terminate, PollFlags::IN),
            PollFd::new(&self.signals.restart, PollFlags::IN),
            PollFd::new(&self.socket, PollFlags::IN),
            PollFd::from_borrowed_fd(self.locks.changes(), PollFlags::IN),
            // The end of the mount is a poll error, which is always reported.
            PollFd::new(&self.mounting.anchor, PollFlags::empty()),
        ];
        fds.extend(self.control.iter().flat_map(Control::files).map(|file| PollFd::new(file, PollFlags::IN)));
        if let Server::Daemon(daemon) = &self.server {
            fds.push(PollFd::from_borrowed_fd(daemon.ended(), PollFlags::IN));
            fds.extend(daemon.output().map(|output| PollFd::from_borrowed_fd(output, PollFlags::IN)));
        }
        // A daemon that hangs in the kernel causes no event.
        match poll(&mut fds, Some(&CHECK_INTERVAL)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Reads what the daemon reports, and starts another daemon if it has died.
    ///
    /// # Errors
    /// It died before it was ready.
    fn check_daemon(&mut self) -> Result<(), String> {
        self.dying.retain_mut(|daemon| daemon.status().is_none());
        self.locks.update();
        self.mounting.reap();
        while let Server::Daemon(daemon) = &mut self.server
            && let Some(line) = daemon.line()
        {
            let status: DaemonStatus = serde_json::from_str(&line).unwrap_or_default();
            if !self.is_ready && status.ready {
                self.mounting.served(self.config.daemon.preload.as_ref()).map_err(|error| error.to_string())?;
                self.is_ready = true;
                print(&line);
            } else if status.failed.is_some() {
                self.failed = status.failed;
            }
        }
        let Server::Daemon(daemon) = &mut self.server else { return Ok(()) };
        if !daemon.has_died() || !self.mounting.anchor.is_connected() {
            return Ok(());
        }
        let status = daemon.status().map_or_else(|| "not all of it yet".to_owned(), |status| status.to_string());
        let why = self.failed.take();
        if !self.is_ready {
            return Err(why.unwrap_or_else(|| format!("the daemon ended before it was ready ({status})")));
        }
        let status = why.unwrap_or(status);
        tracing::warn!(%status, "the daemon has died; another one takes over");
        let lived = daemon.age();
        self.succeed(Some(lived));
        Ok(())
    }

    /// Starts a daemon in place of one that died after `lived` or could not be started.
    fn succeed(&mut self, mut lived: Option<Duration>) {
        self.config.daemon.recover = true;
        self.config.daemon.opened.clear();
        self.inherited.opened.clear();
        self.mounting.abandon_unanswered();
        self.locks.update();
        self.config.daemon.mount = Some(self.mounting.config(self.locks.config()));
        loop {
            let executable = match self.restarts.died(lived.take()) {
                Next::Start => self.executable.clone(),
                Next::StartOwn => OWN_EXECUTABLE.into(),
                Next::GiveUp => break,
            };
            match self.start_daemon(&executable) {
                Ok(daemon) => {
                    self.follow(Server::Daemon(daemon));
                    return;
                }
                Err(error) => tracing::warn!(%error, "the daemon can't be started"),
            }
        }
        tracing::error!(
            "no daemon stays alive; the mounted files are served from their source files. See the daemon's earlier messages"
        );
        self.serve_from_source();
    }

    /// Replaces the server. The previous one is reaped when all of its threads have ended.
    fn follow(&mut self, server: Server) {
        if let Server::Daemon(daemon) = std::mem::replace(&mut self.server, server) {
            self.dying.push(daemon);
        }
    }

    fn serve_from_source(&mut self) {
        self.locks.update();
        match OwnServer::start(&self.config.daemon, &self.mounting.devices, &self.locks) {
            Ok(server) => self.follow(Server::Own(server)),
            Err(error) => {
                tracing::error!(%error, "the source files can't be served either; accesses to the mount hang")
            }
        }
    }

    fn start_daemon(&mut self, executable: &Path) -> io::Result<DaemonProcess> {
        let Inherited { listeners, lifeline, opened, disk, .. } = &self.inherited;
        let mut inherited = vec![lifeline.as_fd()];
        inherited.extend(listeners.iter().chain(opened).chain(disk).map(AsFd::as_fd));
        inherited.extend(self.mounting.devices.iter().map(AsFd::as_fd));
        inherited.extend(self.locks.descriptors());
        self.starts += 1;
        DaemonProcess::start(executable, &self.config.daemon, &inherited)
    }

    /// Replaces the daemon by one from the present executable.
    fn replace(&mut self) {
        if let Server::Daemon(daemon) = &mut self.server {
            daemon.send_line("hand over");
            daemon.wait(END_TIMEOUT);
            let lived = daemon.age().max(Duration::from_secs(1));
            self.succeed(Some(lived));
        }
    }

    /// Returns the reason to end, if there is one.
    fn next_end(&mut self) -> Option<End> {
        if !self.mounting.anchor.is_connected() {
            return Some(End::Unmounted);
        }
        if is_readable(self.signals.terminate.as_fd()) {
            return Some(End::Requested);
        }
        match self.control.as_mut().and_then(Control::command) {
            Some(Command::Stop) => return Some(End::Requested),
            Some(Command::Orphaned) => return Some(End::Orphaned),
            Some(Command::Detach) => self.control = None,
            Some(Command::HandOver) | None => {}
        }
        let peer = self.socket.next()?;
        match peer.request {
            Request::Stop | Request::Detach => Some(End::RequestedBy(peer)),
            Request::Enter => {
                self.send_namespaces(peer);
                None
            }
            Request::Restart => {
                self.replace();
                peer.answer(&Reply::default(), &[]);
                None
            }
            Request::Status => {
                let status = Status {
                    daemon: if let Server::Daemon(daemon) = &self.server { Some(daemon.id()) } else { None },
                    starts: self.starts,
                    mount_point: self.mounting.mount_point().display().to_string(),
                };
                peer.answer(&Reply { status: Some(status), refused: None }, &[]);
                None
            }
        }
    }

    fn send_namespaces(&self, peer: Peer) {
        let namespaces: Vec<BorrowedFd<'_>> = self.mounting.namespaces().iter().map(AsFd::as_fd).collect();
        let refused = namespaces.is_empty().then_some(Refusal::NoNamespace);
        peer.answer(&Reply { refused, status: None }, &namespaces);
    }

    /// Unmounts. The kernel may wait for answers meanwhile, so a daemon that dies now is replaced.
    fn unmount(&mut self, is_lazy: bool) -> io::Result<()> {
        if let Some(at) = self.mounting.visible_at().map(Path::to_owned) {
            let unmounts = move || unmount(&at, is_lazy);
            let unmounting = std::thread::Builder::new().name("unmount".into()).spawn(unmounts)?;
            while !unmounting.is_finished() {
                // A daemon that was never ready must not stop the unmounting.
                let _ = self.check_daemon();
                std::thread::sleep(UNMOUNT_CHECK_INTERVAL);
            }
            unmounting.join().map_err(|_| io::Error::other("unmounting panicked"))??;
        }
        self.mounting.release();
        Ok(())
    }

    /// Unmounts; lazily if the mount is in use. A peer's stop request is refused in that case.
    fn try_end(&mut self, end: End) -> Option<End> {
        let asks_first = matches!(&end, End::RequestedBy(peer) if peer.request == Request::Stop);
        match (self.unmount(false), end) {
            (Ok(()), end) => Some(end),
            (Err(error), End::RequestedBy(peer)) if asks_first => {
                let refused = Some(if is_busy(&error) { Refusal::Busy } else { Refusal::Other(error.to_string()) });
                peer.answer(&Reply { refused, status: None }, &[]);
                None
            }
            (Err(_), end) => {
                if let Err(error) = self.unmount(true) {
                    tracing::error!(%error, at = %self.mounting.mount_point().display(), "the mount can't be unmounted");
                }
                Some(end)
            }
        }
    }

    /// Ends the daemon, serves processes that still use the mount, and leaves nothing behind.
    fn end(mut self, end: End) {
        let wants_report = matches!(end, End::Requested);
        if let Server::Daemon(daemon) = &mut self.server {
            daemon.send_line("stop");
            daemon.wait(END_TIMEOUT);
            while let Some(line) = daemon.line() {
                if wants_report {
                    print(&line);
                }
            }
        }
        if self.mounting.anchor.is_connected() {
            self.config.daemon.recover = true;
            if let Server::Daemon(_) = &self.server {
                self.serve_from_source();
            }
        }
        let lingers = self.mounting.anchor.is_connected();
        // The starter need not wait for processes that still use the mount.
        if lingers && wants_report {
            print(&serde_json::json!({ "lingers": true }).to_string());
        }
        let leaving = match end {
            End::Orphaned => Leaving::Orphaned,
            _ if self.inherited.owner.is_some() => Leaving::Ownerless,
            _ => Leaving::Owned,
        };
        let Supervisor { session, server, socket, .. } = self;
        drop(socket);
        session.leave(leaving);
        if let End::RequestedBy(peer) = end {
            peer.answer(&Reply::default(), &[]);
        }
        if let Server::Own(server) = server
            && lingers
        {
            // Whatever reads the output of the session must not wait for processes that have closed theirs.
            let _ = process::close_stdio();
            server.wait();
        }
    }

    /// Removes everything after a failure.
    fn clean(mut self) {
        if let Err(error) = self.unmount(true) {
            tracing::error!(%error, at = %self.mounting.mount_point().display(), "the mount can't be unmounted");
        }
        // The starter notices the failure and removes the session.
        self.session.leave(Leaving::Owned);
    }
}

impl Inherited {
    /// Takes the configured descriptors, and creates a lifeline if there is none.
    fn take(config: &mut Config) -> io::Result<Inherited> {
        let opened = config.opened.iter().map(|(path, number)| process::inherited_file(path, *number));
        let opened = opened.map(|opened| opened.map(|(_, file)| file)).collect::<io::Result<_>>()?;
        let listeners = config.listener_fds().map(|number| Ok(process::inherited_listener(number)?.into()));
        let listeners = listeners.collect::<io::Result<_>>()?;
        let (lifeline, owner) = match config.lifeline_fd {
            Some(number) => (process::inherited(number, FileType::Fifo)?, None),
            None => {
                let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
                config.lifeline_fd = Some(read.as_raw_fd());
                (read, Some(write))
            }
        };
        let disk = config.disk.as_ref().map(|disk| process::inherited(disk.fd, FileType::Directory)).transpose()?;
        Ok(Inherited { listeners, lifeline, opened, disk, owner })
    }
}

impl Signals {
    fn catch() -> io::Result<Signals> {
        let terminate = process::catch_signals()?;
        let (read, write) = UnixStream::pair()?;
        read.set_nonblocking(true)?;
        signal_hook::low_level::pipe::register(SIGUSR1, write)?;
        Ok(Signals { terminate, restart: File::from(OwnedFd::from(read)) })
    }
}

/// Writes a line of JSON to standard output, for the starter. Returns false if that fails.
pub(crate) fn print(line: &str) -> bool {
    let mut output = io::stdout().lock();
    let printed = writeln!(output, "{line}").and_then(|()| output.flush());
    printed.inspect_err(|error| tracing::debug!(%error, "the supervisor's output can't be written")).is_ok()
}
