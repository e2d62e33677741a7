//! Daemons as threads of a test, on loopback, with temporary directories as stores and as the shared
//! file system.

#![allow(dead_code, reason = "each test file uses a part")]

pub mod mounted;
pub mod tmpfs;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use headwater_abi::client::{REPLY_BYTES, Request, Status, Want, decode_reply};
use headwater_abi::table::{AtomicU64, Reader};
use headwater_daemon::protocol::{Answer, CONTROL_VERSION, Response};
use headwater_daemon::stats::NodeStats;
use headwater_daemon::{
    Branching, Config, Geometry, Kinds, LinkProtection, Policy, Report, SessionId, SessionKey, Shape,
};
use headwater_store::layout::NodeDir;
use tempfile::TempDir;

/// The time limit of every wait.
pub const TEST_TIMEOUT: Duration = Duration::from_secs(10);
pub const SESSION: SessionId = SessionId(0x5e55);
pub const KEY: [u8; 32] = [7; 32];
/// Each rank but the first has the one before it as its parent.
pub const CHAIN: Shape = Shape::Single(Branching::KAry(1));

/// The directory that simulates the shared file system, and a session over it.
pub struct Cluster {
    pub dir: TempDir,
    pub nodes: Vec<Node>,
    pub addresses: Vec<SocketAddr>,
}

/// One daemon.
pub struct Node {
    pub dir: NodeDir,
    lifeline: Option<UnixStream>,
    output: BufReader<UnixStream>,
    thread: Option<JoinHandle<Result<(), headwater_daemon::DaemonError>>>,
    is_mounted: bool,
}

impl Cluster {
    /// Prepares a shared tree; no daemon runs yet.
    pub fn prepare() -> Cluster {
        let dir = TempDir::new().unwrap();
        std::fs::create_dir_all(dir.path().join("shared")).unwrap();
        std::fs::create_dir_all(dir.path().join("session")).unwrap();
        std::fs::write(dir.path().join("session/lock"), b"").unwrap();
        Cluster { dir, nodes: Vec::new(), addresses: Vec::new() }
    }

    /// Starts `ranks` daemons, each with its configuration changed by `change`, and waits until all are ready.
    pub fn run(&mut self, ranks: u32, change: impl Fn(&mut Config)) {
        let listeners: Vec<TcpListener> = (0..ranks).map(|_| listener()).collect();
        let listeners = listeners.into_iter().map(|listener| vec![listener]).collect();
        self.run_on(listeners, change);
    }

    /// Starts a daemon with each of these sets of listeners, and waits until all are ready.
    pub fn run_on(&mut self, listeners: Vec<Vec<TcpListener>>, change: impl Fn(&mut Config)) {
        let ranks = listeners.len() as u32;
        self.addresses = listeners.iter().map(|own| own[0].local_addr().unwrap()).collect();
        for (rank, listeners) in (0..).zip(listeners) {
            let mut config = self.config(rank, ranks);
            change(&mut config);
            self.nodes.push(Node::start(config, listeners));
        }
        for node in &mut self.nodes {
            assert_eq!(node.line(), r#"{"ready":true}"#);
        }
    }

    /// Starts one daemon of `ranks` without waiting for it.
    pub fn start(&mut self, rank: u32, ranks: u32, change: impl Fn(&mut Config)) {
        let listener = listener();
        self.addresses = vec![listener.local_addr().unwrap(); ranks as usize];
        let mut config = self.config(rank, ranks);
        change(&mut config);
        self.nodes.push(Node::start(config, vec![listener]));
    }

    pub fn config(&self, rank: u32, ranks: u32) -> Config {
        Config {
            rank,
            ranks,
            servers: 0,
            shape: Shape::Single(Branching::KAry(3)),
            policy: Policy::Pull,
            session: SESSION,
            key: SessionKey(KEY),
            peers: self.addresses.clone(),
            listener_fd: -1,
            node_dir: self.dir.path().join(format!("session/n{rank}")),
            session_lock: self.dir.path().join("session/lock"),
            store_bytes_max: 1 << 30,
            disk: None,
            scope: vec![(true, self.shared("").to_str().unwrap().trim_end_matches('/').into())],
            opened: Vec::new(),
            table: Some(Geometry { slot_count: 1 << 12, ino_slot_count: 1 << 12, heap_bytes: 4 << 20 }),
            mount: None,
            recover: false,
            lifeline_fd: None,
            whole_file_bytes_max: 16 << 20,
            // Several nodes read nothing past the trees.
            stored_file_bytes_max: (ranks > 1).then_some(u64::MAX),
            serve: Kinds::all(),
            follows_fork: true,
            cache: None,
            preload: None,
            record_to: None,
            report_to: None,
            numa_replicas: None,
            numa_replicas_for: Vec::new(),
            fabric: None,
            link_protection: LinkProtection::Encrypt,
            rails: None,
            names: Vec::new(),
            node_names: String::new(),
            is_site_export: false,
        }
    }

    /// A path of the shared file system.
    pub fn shared(&self, name: &str) -> PathBuf {
        self.dir.path().join("shared").join(name)
    }

    /// Writes a file of the shared file system, its directories included.
    pub fn write(&self, name: &str, content: &[u8]) {
        let path = self.shared(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    /// Requests a path of the shared file system from a node.
    pub fn ask(&self, node: usize, name: &str, want: Want) -> Status {
        self.nodes[node].ask(&self.shared(name), want)
    }

    /// Ends all daemons properly and returns their reports.
    pub fn stop(&mut self) -> Vec<Report> {
        for node in &mut self.nodes {
            node.lifeline.as_ref().unwrap().write_all(b"stop\n").unwrap();
        }
        let reports = self.nodes.iter_mut().map(|node| {
            let report = serde_json::from_str(&node.line()).unwrap();
            node.thread.take().unwrap().join().unwrap().unwrap();
            // A supervisor, which these tests do without, removes that of a daemon with a mount.
            assert_eq!(node.dir.path().exists(), node.is_mounted, "the node's directory is left behind");
            report
        });
        reports.collect()
    }
}

impl Node {
    fn start(config: Config, listeners: Vec<TcpListener>) -> Node {
        let (lifeline, daemon_lifeline) = UnixStream::pair().unwrap();
        let (output, mut daemon_output) = UnixStream::pair().unwrap();
        output.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
        let dir = NodeDir::new(&config.node_dir);
        let is_mounted = config.mount.is_some();
        let thread = std::thread::spawn(move || {
            headwater_daemon::run(&config, listeners, daemon_lifeline.into(), &mut daemon_output)
        });
        Node { dir, lifeline: Some(lifeline), output: BufReader::new(output), thread: Some(thread), is_mounted }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("the daemon prints nothing");
        line.trim_end().to_owned()
    }

    /// Closes the daemon's input, and waits until it has ended.
    pub fn orphan(&mut self) -> String {
        self.lifeline = None;
        self.thread.take().unwrap().join().unwrap().unwrap();
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).unwrap();
        rest
    }

    /// Requests a path and waits for the final answer.
    pub fn ask(&self, path: &Path, want: Want) -> Status {
        let mut stream = self.send(path, want, 1);
        final_status(&mut stream).expect("the daemon ends the request without an answer")
    }

    /// Sends a request.
    pub fn send(&self, path: &Path, want: Want, generation: u64) -> UnixStream {
        let path = headwater_abi::Path::new(path.as_os_str().as_encoded_bytes()).unwrap();
        let mut stream = UnixStream::connect(self.dir.socket()).unwrap();
        stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
        stream.write_all(&Request { want, generation, path }.encode()).unwrap();
        stream
    }

    /// A snapshot of the shared table.
    pub fn table(&self) -> Table {
        let bytes = std::fs::read(self.dir.table()).unwrap();
        let words = bytes.chunks_exact(8).map(|w| AtomicU64::new(u64::from_le_bytes(w.try_into().unwrap())));
        Table(words.collect())
    }

    /// Returns the location of a path's copy.
    pub fn copy(&self, path: &Path) -> PathBuf {
        let mut copy = self.dir.root().into_os_string();
        copy.push(path);
        copy.into()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.lifeline = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A table's words.
pub struct Table(Vec<AtomicU64>);

impl Table {
    pub fn reader(&self) -> Reader<'_> {
        Reader::open(&self.0).expect("a table")
    }
}

/// Reads the final answer of a connection; `None` if it is closed without one.
pub fn final_status(stream: &mut UnixStream) -> Option<Status> {
    let mut reply = [0; REPLY_BYTES];
    loop {
        stream.read_exact(&mut reply).ok()?;
        match decode_reply(&reply).expect("a reply") {
            Status::Pending => {}
            status => return Some(status),
        }
    }
}

/// Sends a request to a daemon's control socket, and waits for the final answer.
pub fn control(node: &Node, command: &serde_json::Value) -> Answer {
    let mut stream = UnixStream::connect(node.dir.control()).unwrap();
    stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
    let request = serde_json::json!({"version": CONTROL_VERSION, "command": command});
    writeln!(stream, "{request}").unwrap();
    for line in BufReader::new(stream).lines() {
        let response: Response = serde_json::from_str(&line.unwrap()).unwrap();
        if response.answer != Answer::Pending {
            return response.answer;
        }
    }
    panic!("the daemon ends the request without an answer");
}

/// Returns a daemon's statistics.
pub fn stats(node: &Node) -> NodeStats {
    match control(node, &"stats".into()) {
        Answer::Stats(stats) => *stats,
        other => panic!("{other:?}"),
    }
}

fn listener() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").unwrap()
}

/// Waits until a condition holds.
pub fn eventually(what: &str, holds: impl Fn() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < TEST_TIMEOUT, "{what}: not within the limit");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A shared object whose loader maps the first page of `pages`; `fill` distinguishes contents.
pub fn elf(pages: usize, fill: u8) -> Vec<u8> {
    let mut file = vec![fill; pages * 4096];
    file[..64].fill(0);
    file[..16].copy_from_slice(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0");
    let put = |file: &mut [u8], at: usize, bytes: &[u8]| file[at..at + bytes.len()].copy_from_slice(bytes);
    let machine: u16 = if cfg!(target_arch = "x86_64") { 62 } else { 183 };
    put(&mut file, 16, &3u16.to_le_bytes());
    put(&mut file, 18, &machine.to_le_bytes());
    put(&mut file, 20, &1u32.to_le_bytes());
    put(&mut file, 32, &64u64.to_le_bytes());
    put(&mut file, 52, &64u16.to_le_bytes());
    put(&mut file, 54, &56u16.to_le_bytes());
    put(&mut file, 56, &1u16.to_le_bytes());
    // One PT_LOAD of the first page.
    file[64..120].fill(0);
    put(&mut file, 64, &1u32.to_le_bytes());
    put(&mut file, 68, &5u32.to_le_bytes());
    put(&mut file, 96, &4096u64.to_le_bytes());
    put(&mut file, 104, &4096u64.to_le_bytes());
    put(&mut file, 112, &4096u64.to_le_bytes());
    file
}

/// Bytes allocated to a file.
pub fn allocated(path: &Path) -> u64 {
    std::fs::metadata(path).unwrap().blocks() * 512
}
