//! Daemons and supervisors as separate processes: this executable, started again.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::chown;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Mutex;

use headwater_abi::client::{Request, Status, Want};
use headwater_daemon::Config;
use headwater_store::layout::NodeDir;
use headwater_supervisor::SupervisorConfig;
use rustix::io::FdFlags;

use crate::support::{Cluster, TEST_TIMEOUT, final_status};

/// The environment variable that marks started processes.
const STARTED: &str = "HEADWATER_HOSTILE_PEERS";
/// How many small files a session has.
pub const FILES: usize = 300;
/// Serializes starts of processes in all tests, so that only one process inherits each socket.
static STARTING: Mutex<()> = Mutex::new(());

/// Runs as `headwater daemon` if started so. A supervisor finds it by its name, which no other test
/// may contain.
#[test]
fn daemon() {
    if std::env::var_os(STARTED).is_some() {
        headwater_daemon::run_from_stdio();
    }
}

/// Runs as `headwater supervise` if started so.
#[test]
fn supervise() {
    if std::env::var_os(STARTED).is_some() {
        headwater_supervisor::supervise_from_stdio();
    }
}

/// A session whose daemons are processes.
pub struct Session {
    pub nodes: Vec<Process>,
    listeners: Vec<TcpListener>,
    user: Option<u32>,
    /// Last, because its drop removes the directories.
    pub cluster: Cluster,
}

/// A running daemon or supervisor; it ends when this is dropped.
pub struct Process {
    pub dir: NodeDir,
    child: Child,
    output: BufReader<ChildStdout>,
    lifeline: Option<ChildStdin>,
    log: PathBuf,
}

impl Session {
    /// Binds sockets for `ranks` daemons, none of which runs yet, and writes `FILES` files `fN` with their numbers.
    pub fn prepare(ranks: u32) -> Session {
        let mut cluster = Cluster::prepare();
        for number in 0..FILES {
            cluster.write(&format!("f{number}"), number.to_string().as_bytes());
        }
        let listeners: Vec<TcpListener> = (0..ranks).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        cluster.addresses = listeners.iter().map(|listener| listener.local_addr().unwrap()).collect();
        Session { cluster, nodes: Vec::new(), listeners, user: None }
    }

    /// Gives all files to another user, as far as all users can reach them.
    pub fn belong_to(mut self, user: u32) -> Session {
        self.user = Some(user);
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        for name in ["", "session", "session/lock", "shared"] {
            chown(self.cluster.dir.path().join(name), Some(user), Some(user)).unwrap();
        }
        std::fs::set_permissions(self.cluster.dir.path(), open).unwrap();
        self
    }

    /// Starts the next `count` daemons and waits until they are ready.
    pub fn start(&mut self, count: usize, change: impl Fn(&mut Config)) {
        let first = self.nodes.len();
        for rank in first..first + count {
            let mut config = self.config(rank);
            change(&mut config);
            let line = serde_json::to_string(&config).unwrap();
            self.spawn("process::daemon", rank, &line);
        }
        for node in &mut self.nodes[first..] {
            node.wait_ready();
        }
    }

    /// Starts the supervisor of the next daemon and waits until that is ready.
    pub fn start_supervisor(&mut self, supervisor: impl FnOnce(Config) -> SupervisorConfig) {
        let rank = self.nodes.len();
        let line = serde_json::to_string(&supervisor(self.config(rank))).unwrap();
        self.spawn("process::supervise", rank, &line);
        self.nodes[rank].wait_ready();
    }

    pub fn address(&self, rank: usize) -> SocketAddr {
        self.cluster.addresses[rank]
    }

    /// Requests all of the file with this number from a daemon, and checks the copy.
    pub fn ask(&self, rank: usize, number: usize) -> Option<Status> {
        let path = self.cluster.shared(&format!("f{number}"));
        let status = self.nodes[rank].ask(&path);
        if status == Some(Status::Done) {
            assert_eq!(std::fs::read_to_string(self.nodes[rank].copy(&path)).unwrap(), number.to_string());
        }
        status
    }

    /// Returns the session's directory.
    pub fn dir(&self) -> PathBuf {
        self.cluster.dir.path().join("session")
    }

    fn config(&self, rank: usize) -> Config {
        let mut config = self.cluster.config(rank as u32, self.listeners.len() as u32);
        config.listener_fd = self.listeners[rank].as_raw_fd();
        config
    }

    fn spawn(&mut self, role: &str, rank: usize, line: &str) {
        let dir = NodeDir::new(self.dir().join(format!("n{rank}")));
        let log = self.cluster.dir.path().join(format!("log{rank}"));
        let mut command = Command::new(std::env::current_exe().unwrap());
        // Several test threads, because a single one writes its tests' names into their output.
        command.args(["--exact", role]).env(STARTED, "1").env("RUST_TEST_THREADS", "2").env("HEADWATER_LOG", "info");
        command.current_dir("/").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(File::create(&log).unwrap());
        if let Some(user) = self.user {
            command.uid(user).gid(user);
        }
        let listener = &self.listeners[rank];
        let starting = STARTING.lock().unwrap();
        rustix::io::fcntl_setfd(listener, FdFlags::empty()).unwrap();
        let spawned = command.spawn();
        rustix::io::fcntl_setfd(listener, FdFlags::CLOEXEC).unwrap();
        drop(starting);
        let mut child = spawned.expect("this executable can be started");
        let (mut lifeline, output) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        writeln!(lifeline, "{line}").unwrap();
        self.nodes.push(Process { dir, child, output, lifeline: Some(lifeline), log });
    }
}

impl Process {
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn ask(&self, path: &Path) -> Option<Status> {
        let path = headwater_abi::Path::new(path.as_os_str().as_encoded_bytes()).unwrap();
        let mut stream = UnixStream::connect(self.dir.socket()).ok()?;
        stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
        stream.write_all(&Request { want: Want::WHOLE, generation: 1, path }.encode()).ok()?;
        final_status(&mut stream)
    }

    /// Returns the location of a path's copy.
    pub fn copy(&self, path: &Path) -> PathBuf {
        let mut copy = self.dir.root().into_os_string();
        copy.push(path);
        copy.into()
    }

    /// Counts the log's lines that contain this.
    pub fn logged(&self, what: &str) -> usize {
        self.log().lines().filter(|line| line.contains(what)).count()
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }

    /// Returns the bytes of anonymous memory; see proc_pid_status(5).
    pub fn memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
        line.trim().trim_end_matches("kB").trim().parse::<u64>().unwrap() * 1024
    }

    /// Counts open descriptors; `None` if this user may not see them.
    pub fn descriptors(&self) -> Option<usize> {
        std::fs::read_dir(format!("/proc/{}/fd", self.id())).ok().map(Iterator::count)
    }

    fn wait_ready(&mut self) {
        let mut line = String::new();
        while !line.contains(r#"{"ready":true}"#) {
            line.clear();
            let bytes = self.output.read_line(&mut line).unwrap();
            assert!(bytes > 0, "it ended before it was ready:\n{}", self.log());
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.lifeline.take().map(OwnedFd::from));
        let _ = self.output.read_to_end(&mut Vec::new());
        let _ = self.child.wait();
    }
}
