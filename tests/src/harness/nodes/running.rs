//! The daemons of a session, on their nodes.

use std::fs;
use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use headwater_cluster::{Cluster, Node};
use headwater_topology::{Forest, Shape};
use serde_json::{Value, json};

use super::daemon::Daemon;
use crate::harness::program::Program;
use crate::harness::session::headwater_binary;

/// The port of all daemons, each at its own node's address.
const PORT: u16 = 7077;
/// The session's directory on each node, in its RAM disk. `headwater` makes one of the same form.
const DIRECTORY: &str = "/dev/shm/headwater-0/00000000000000e5";
/// How long the daemons may take to be ready.
const READY_MAX: Duration = Duration::from_secs(30);
/// How long a daemon may take to end.
const STOP_MAX: Duration = Duration::from_secs(10);

/// The configuration of a session's daemons.
#[derive(Clone, Debug)]
pub struct Plan {
    shape: Option<Shape>,
    policy: &'static str,
    scope: Vec<PathBuf>,
    store_bytes_max: u64,
    absent: Vec<usize>,
    /// The number of interfaces that links use; zero: one connection, over the first.
    interfaces: usize,
}

/// A session over a cluster. Dropped, its daemons end.
pub struct Nodes<'a> {
    pub(super) cluster: &'a Cluster,
    plan: Plan,
    pub(super) daemons: Vec<Option<Daemon>>,
    /// How often a daemon was started on each node.
    starts: Vec<u32>,
}

impl Plan {
    /// With these directories in the scope, and everything else as it is by default.
    pub fn of(scope: &[&Path]) -> Plan {
        Plan {
            shape: None,
            policy: "adaptive",
            scope: scope.iter().map(|path| path.to_path_buf()).collect(),
            store_bytes_max: 1 << 30,
            absent: Vec::new(),
            interfaces: 0,
        }
    }

    /// With these trees.
    pub fn shape(mut self, shape: Shape) -> Plan {
        self.shape = Some(shape);
        self
    }

    /// `push`, `pull` or `adaptive`.
    pub fn policy(mut self, policy: &'static str) -> Plan {
        self.policy = policy;
        self
    }

    /// With links over so many interfaces of each node.
    pub fn interfaces(mut self, interfaces: usize) -> Plan {
        self.interfaces = interfaces;
        self
    }

    /// Ranks whose daemons are started later, or never.
    pub fn without(mut self, ranks: &[usize]) -> Plan {
        self.absent = ranks.to_vec();
        self
    }

    /// The trees over so many ranks.
    pub fn forest(&self, ranks: usize) -> Forest {
        let ranks = u32::try_from(ranks).expect("a cluster is small");
        Forest::new(ranks, 0, self.shape.unwrap_or_else(|| Shape::default_of(ranks)))
    }
}

impl<'a> Nodes<'a> {
    /// Starts the daemons and waits until all are ready.
    ///
    /// # Panics
    /// If one is not; with what it wrote.
    pub fn start(cluster: &'a Cluster, plan: &Plan) -> Nodes<'a> {
        let ranks = cluster.nodes().len();
        let mut nodes =
            Nodes { cluster, plan: plan.clone(), daemons: (0..ranks).map(|_| None).collect(), starts: vec![0; ranks] };
        for rank in 0..ranks {
            // The remains of killed daemons of an earlier session.
            let _ = fs::remove_dir_all(nodes.outside(rank, DIRECTORY));
        }
        let present: Vec<usize> = (0..ranks).filter(|rank| !plan.absent.contains(rank)).collect();
        nodes.launch(&present);
        nodes.await_ready(&present);
        nodes
    }

    /// Starts the daemon of a rank that has none (any more), and waits until it is ready.
    pub fn join(&mut self, rank: usize) {
        self.begin_join(rank);
        self.await_ready(&[rank]);
    }

    /// Starts the daemon of a rank that has none (any more).
    pub fn begin_join(&mut self, rank: usize) {
        self.launch(&[rank]);
    }

    /// Waits until all daemons that run are ready.
    pub fn await_all_ready(&mut self) {
        let running: Vec<usize> = (0..self.ranks()).filter(|&rank| self.is_up(rank)).collect();
        self.await_ready(&running);
    }

    /// How many ranks there are.
    pub fn ranks(&self) -> usize {
        self.daemons.len()
    }

    /// The trees.
    pub fn forest(&self) -> Forest {
        self.plan.forest(self.ranks())
    }

    /// The ranks that read the shared file system as long as all live.
    pub fn readers(&self) -> Vec<usize> {
        let forest = self.forest();
        let mut readers: Vec<usize> = forest.tree_ids().map(|tree| forest.root(tree).0 as usize).collect();
        readers.sort_unstable();
        readers.dedup();
        readers
    }

    /// A rank that has children in some tree and reads for none: the one with the most children.
    pub fn interior(&self) -> usize {
        let readers = self.readers();
        let others = (0..self.ranks()).filter(|rank| !readers.contains(rank));
        others.max_by_key(|&rank| (self.children(rank), std::cmp::Reverse(rank))).expect("not all ranks read")
    }

    /// A rank with the fewest children: none, if the trees leave a rank without any.
    pub fn leaf(&self) -> usize {
        (0..self.ranks()).min_by_key(|&rank| (self.children(rank), std::cmp::Reverse(rank))).expect("there are ranks")
    }

    fn children(&self, rank: usize) -> usize {
        let (forest, rank) = (self.forest(), headwater_topology::Rank(rank as u32));
        forest
            .tree_ids()
            .filter(|&tree| forest.contains(tree, rank))
            .map(|tree| forest.children(tree, rank).len())
            .sum()
    }

    /// The node of a rank.
    pub fn node(&self, rank: usize) -> &'a Node {
        self.cluster.on(rank + 1)
    }

    /// The same program on a node, served by its daemon.
    pub fn program(&self, rank: usize, program: &Program) -> Program {
        let dir = self.dir(rank);
        let exec = self.node(rank).command(headwater_binary());
        let args = std::iter::once(exec.get_program()).chain(exec.get_args()).map(ToOwned::to_owned);
        let library = format!("{dir}/lib/libheadwater-audit.so");
        let args = args.chain(["exec", "--audit", &library, "--"].map(Into::into));
        program.behind(args).env("HEADWATER_TABLE", format!("{dir}/table"))
    }

    /// The same program on a node, without Headwater.
    pub fn plain(&self, rank: usize, program: &Program) -> Program {
        let command = self.node(rank).command("env");
        program.behind(std::iter::once(command.get_program()).chain(command.get_args()))
    }

    /// Ends the daemons that run, by rank: their reports, but of those that hang. Checks that they leave
    /// nothing.
    pub fn stop(mut self) -> Vec<Option<Value>> {
        self.daemons.iter_mut().for_each(|daemon| drop(daemon.take_if(|daemon| daemon.is_paused)));
        self.daemons.iter_mut().flatten().for_each(Daemon::request_stop);
        let mut reports = Vec::new();
        for rank in 0..self.ranks() {
            reports.push(self.daemons[rank].take().map(|mut daemon| {
                let report = daemon.report(STOP_MAX);
                let left = self.outside(rank, &self.dir(rank));
                assert!(!left.exists(), "rank {rank} left {}", left.display());
                report
            }));
        }
        reports
    }

    /// The sum of a number of the reports, by its path, as `shared_fs.files_read`.
    pub fn sum(reports: &[Option<Value>], path: &str) -> u64 {
        let number = |report: &Value| path.split('.').fold(report, |value, key| &value[key]).as_u64();
        reports.iter().flatten().map(|report| number(report).unwrap_or_else(|| panic!("no {path} in {report}"))).sum()
    }

    /// A node's directory, as the node sees it. Each start of a daemon has a new one.
    pub(super) fn dir(&self, rank: usize) -> String {
        format!("{DIRECTORY}/n{}", self.starts[rank].saturating_sub(1))
    }

    /// A path of a node's RAM disk, as this process sees it.
    pub(super) fn outside(&self, rank: usize, path: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root{path}", self.node(rank).holder.pid))
    }

    /// The log of a rank's daemons.
    pub(super) fn log(&self, rank: usize) -> String {
        fs::read_to_string(self.outside(rank, &format!("{DIRECTORY}/log"))).unwrap_or_default()
    }

    /// The addresses at which a rank listens.
    fn addresses(&self, rank: usize) -> Vec<SocketAddr> {
        (0..self.plan.interfaces.max(1)).map(|number| (self.node(rank).address_on(number), PORT).into()).collect()
    }

    /// The interfaces that a rank's links use, if they are named.
    fn rails(&self, rank: usize, listeners: &[RawFd]) -> Option<Value> {
        let interface = |number| {
            let (name, address) = (Node::interface(number), self.node(rank).address_on(number));
            json!({ "name": name, "address": address, "prefix_bits": 16 })
        };
        let interfaces: Vec<Value> = (0..self.plan.interfaces).map(interface).collect();
        let peers: Vec<Vec<SocketAddr>> = (0..self.ranks()).map(|rank| self.addresses(rank)).collect();
        let rails = json!({ "interfaces": interfaces, "peers": peers, "listener_fds": listeners.get(1..) });
        Some(rails).filter(|_| self.plan.interfaces > 0)
    }

    fn launch(&mut self, ranks: &[usize]) {
        let library = headwater_binary().with_file_name("../lib/libheadwater-audit.so");
        let library =
            fs::read(&library).unwrap_or_else(|e| panic!("{}: {e}: run `cargo xtask dist`", library.display()));
        for &rank in ranks {
            assert!(self.daemons[rank].is_none(), "rank {rank} runs");
            self.starts[rank] += 1;
            self.prepare(rank, &library).unwrap_or_else(|e| panic!("the directory of rank {rank}: {e}"));
            let config = |listeners: &[RawFd]| self.config(rank, listeners);
            let log = self.outside(rank, &format!("{DIRECTORY}/log"));
            let daemon = Daemon::start(self.node(rank), &self.addresses(rank), config, &log);
            self.daemons[rank] = Some(daemon);
        }
    }

    /// Makes the directories that a launcher makes.
    fn prepare(&self, rank: usize, library: &[u8]) -> std::io::Result<()> {
        let mut private = fs::DirBuilder::new();
        private.recursive(true).mode(0o700);
        let dir = self.outside(rank, &self.dir(rank));
        private.create(dir.join("lib"))?;
        fs::write(self.outside(rank, &format!("{DIRECTORY}/lock")), "")?;
        let file =
            fs::File::options().write(true).create_new(true).mode(0o500).open(dir.join("lib/libheadwater-audit.so"));
        std::io::Write::write_all(&mut file?, library)
    }

    fn config(&self, rank: usize, listeners: &[RawFd]) -> Value {
        let ranks = self.ranks();
        let scope: Vec<(bool, &Path)> = self.plan.scope.iter().map(|dir| (true, dir.as_path())).collect();
        json!({
            "rank": rank,
            "ranks": ranks,
            "servers": 0,
            "shape": self.plan.shape.unwrap_or_else(|| Shape::default_of(ranks as u32)),
            "policy": self.plan.policy,
            "session": "e5".repeat(16),
            "key": "7e".repeat(32),
            "peers": (0..ranks).map(|rank| self.addresses(rank)[0]).collect::<Vec<_>>(),
            "listener_fd": listeners[0],
            "rails": self.rails(rank, listeners),
            "node_dir": self.dir(rank),
            "session_lock": format!("{DIRECTORY}/lock"),
            "store_bytes_max": self.plan.store_bytes_max,
            // These sessions are about the trees: no node reads large files past them.
            "stored_file_bytes_max": u64::MAX,
            "scope": scope,
        })
    }

    fn await_ready(&mut self, ranks: &[usize]) {
        let deadline = Instant::now() + READY_MAX;
        for &rank in ranks {
            let daemon = self.daemons[rank].as_mut().expect("it was started");
            if let Err(problem) = daemon.await_ready(deadline.saturating_duration_since(Instant::now())) {
                panic!("the daemon of rank {rank} is not ready: {problem}\n{}", self.log(rank));
            }
        }
    }
}
