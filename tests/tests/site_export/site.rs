//! Two readers and three nodes. The directory that is served is on the readers alone, at the path where the
//! nodes mount it.

use std::cell::{Cell, RefCell};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use headwater_cluster::{Cluster, Node, Options};
use headwater_tests::counting_fs::{Caching, Mounted};
use headwater_tests::harness::{Fixture, headwater_binary, nodes, skipped, user, wait_until};
use serde_json::Value;

/// How many of the nodes read.
pub const READERS: usize = 2;
/// How many see the directory.
pub const OTHERS: usize = 3;
/// The directory, on readers and others.
pub const EXPORT: &str = "/run/udsl";
/// The key's file on each node.
pub const KEY: &str = "/run/key";
/// How long a service may take to start.
const READY_MAX: Duration = Duration::from_secs(30);
/// How long something may take that follows from something else.
pub const FOLLOW_MAX: Duration = Duration::from_secs(20);
/// The readers and the others, as hostlists.
const LISTS: [&str; 4] = ["--readers", "node[001-002]", "--nodes", "node[003-005]"];

/// A cluster whose services are not started. Its fields end in this order.
pub struct Site {
    pub cluster: Cluster,
    mounted: RefCell<Mounted>,
    pub source: Fixture,
    services: Cell<u32>,
}

/// `headwater serve` or `headwater join` on a node. Dropped, it is killed.
pub struct Service {
    process: Child,
    /// Its number on its node.
    pub pid: String,
}

impl Site {
    /// `None`, with the reason on standard output, where there can't be one.
    pub fn new(purpose: &str) -> Option<Site> {
        let source = Fixture::new(purpose);
        let mounted = Mounted::new(&source.shared(), 1, Caching::NONE).map_err(skipped).ok()?;
        // Nodes have directories such as /tmp for themselves, and the project may lie below one.
        let shares = vec![mounted.scratch().to_path_buf(), nodes::project().to_path_buf()];
        let cluster = match Cluster::up(READERS + OTHERS, &Options { shares, ..Options::default() }) {
            Ok(cluster) => cluster,
            Err(reason) if headwater_cluster::check().is_err() => {
                skipped(reason);
                return None;
            }
            Err(error) => panic!("{error}"),
        };
        let site = Site { cluster, mounted: mounted.into(), source, services: Cell::new(0) };
        let served = site.mounted.borrow().path().display().to_string();
        for number in 1..=READERS + OTHERS {
            shell(site.node(number), &format!("mkdir {EXPORT}"));
        }
        for number in 1..=READERS {
            shell(site.node(number), &format!("mount -n --bind {served} {EXPORT}"));
        }
        let made = site.node(1).command(headwater_binary()).args(["key", KEY]).output().expect("nsenter is installed");
        assert!(made.status.success(), "{made:?}");
        for number in 2..=READERS + OTHERS {
            fs::copy(site.outside(1, KEY), site.outside(number, KEY)).expect("both are RAM disks");
        }
        Some(site)
    }

    /// The node with this number, which counts from 1: first the readers.
    pub fn node(&self, number: usize) -> &Node {
        self.cluster.on(number)
    }

    /// A path of a node's RAM disk, as this process sees it.
    pub fn outside(&self, number: usize, path: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root{path}", self.node(number).holder.pid))
    }

    /// Starts the node's service, and waits until it reports that it is ready.
    pub fn start(&self, number: usize) -> Service {
        self.start_all(&[number]).remove(0)
    }

    /// The same of several nodes at once.
    pub fn start_all(&self, numbers: &[usize]) -> Vec<Service> {
        let begun: Vec<_> = numbers.iter().map(|&number| self.begin(number)).collect();
        let is_ready = |(mut service, ready): (Service, UnixDatagram)| {
            await_message(&ready, |message| message.starts_with("READY=1\n"))
                .unwrap_or_else(|e| panic!("{e}: {:?}", service.ended()));
            service
        };
        begun.into_iter().map(is_ready).collect()
    }

    /// Starts the node's service; it reports on the socket when it is ready.
    pub fn begin(&self, number: usize) -> (Service, UnixDatagram) {
        self.services.set(self.services.get() + 1);
        let name = format!("ready{}", self.services.get());
        let socket = self.mounted.borrow().scratch().join(&name);
        let ready = UnixDatagram::bind(&socket).expect("an own directory");
        let subcommand = if number <= READERS { "serve" } else { "join" };
        let pid = format!("/run/{name}");
        let mut command = self.node(number).command("sh");
        let script = format!("echo $$ > {pid}.new && mv {pid}.new {pid} && exec \"$@\"");
        command
            .args(["-c", &script, "sh"])
            .arg(headwater_binary())
            .args([subcommand, "--export", EXPORT, "--key", KEY]);
        command.args(LISTS).env("NOTIFY_SOCKET", &socket).stdin(Stdio::null());
        let process = command.spawn().expect("nsenter is installed");
        let pid_file = self.outside(number, &pid);
        assert!(wait_until(FOLLOW_MAX, || pid_file.exists()), "nothing starts on node {number}");
        let pid = fs::read_to_string(pid_file).expect("it is there").trim().to_owned();
        (Service { process, pid }, ready)
    }

    /// The statistics of a node's daemon.
    pub fn stats(&self, number: usize) -> Value {
        let output = self.headwater(number, &["stats", "--json"]);
        let stats: Value = serde_json::from_str(&output).unwrap_or_else(|e| panic!("{e}: {output}"));
        stats["nodes"]["0"].clone()
    }

    /// The same while daemons start and end.
    pub fn stats_now(&self, number: usize) -> Option<Value> {
        let output = self.node(number).command(headwater_binary()).args(["stats", "--json"]).output().ok()?;
        let stats: Value = serde_json::from_slice(&output.stdout).ok()?;
        stats["nodes"].get("0").cloned()
    }

    /// A number of [`Site::stats`], by its path, such as `bytes.received`.
    pub fn stat(&self, number: usize, path: &str) -> u64 {
        let stats = self.stats(number);
        let value = path.split('.').fold(&stats, |value, key| &value[key]);
        value.as_u64().unwrap_or_else(|| panic!("no {path} in {stats}"))
    }

    /// The output of `headwater` on a node; it must succeed.
    pub fn headwater(&self, number: usize, arguments: &[&str]) -> String {
        let output =
            self.node(number).command(headwater_binary()).args(arguments).output().expect("nsenter is installed");
        assert!(output.status.success(), "headwater {arguments:?} on node {number}: {output:?}");
        String::from_utf8(output.stdout).expect("it writes text")
    }

    /// Kills the daemon of a node at once.
    pub fn kill_daemon(&self, number: usize) {
        let pid = self.stat(number, "pid");
        shell(self.node(number), &format!("kill -9 {pid}"));
    }

    /// How often files of this path have been opened on the shared file system since the start.
    pub fn opens(&self, path: &str) -> u64 {
        let counts = self.mounted.borrow_mut().counts();
        counts["paths"][path]["open"].as_u64().unwrap_or(0)
    }

    /// The output of an ordinary user's shell on a node, and its errors, line by line.
    pub fn as_user(&self, number: usize, user: &[&str], script: &str) -> String {
        let output = self.user_command(number, user, script).output().expect("nsenter is installed");
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    }

    /// The same as a command.
    pub fn user_command(&self, number: usize, user: &[&str], script: &str) -> Command {
        let mut command = self.node(number).command(user[0]);
        command.args(&user[1..]).args(["sh", "-c", &format!("cd {EXPORT}; {{ {script}; }} 2>&1")]);
        command.env("LC_ALL", "C").stdin(Stdio::piped()).stdout(Stdio::piped());
        command
    }

    /// Checks that an ordinary user of a node sees this content, sooner or later.
    pub fn await_content(&self, number: usize, file: &str, content: &str) {
        let mut seen = String::new();
        let is_there = wait_until(FOLLOW_MAX, || {
            seen = self.as_user(number, &user::ORDINARY, &format!("cat {file}"));
            seen == content
        });
        assert!(is_there, "node {number} sees {seen:?} in {file}, not {content:?}");
    }

    /// Checks that nothing of Headwater is left on a node.
    pub fn assert_clean(&self, number: usize) {
        // The machine's other mounts are seen on a node, too.
        let script = format!(
            "grep ' {EXPORT} .* fuse.headwater' /proc/self/mountinfo || ls -d /dev/shm/headwater-* || pgrep -a headwater || true"
        );
        let mut left = String::new();
        let is_clean = wait_until(FOLLOW_MAX, || {
            left = shell(self.node(number), &format!("{{ {script}; }} 2>/dev/null"));
            left.is_empty()
        });
        assert!(is_clean, "node {number} has left: {left}");
    }
}

impl Service {
    /// Sends it a signal.
    pub fn signal(&self, node: &Node, signal: &str) {
        shell(node, &format!("kill -{signal} {}", self.pid));
    }

    /// Sends it a signal, and waits for its end: its exit status.
    pub fn end(mut self, node: &Node, signal: &str) -> Option<i32> {
        self.signal(node, signal);
        let ended = wait_until(FOLLOW_MAX, || self.ended().is_some());
        assert!(ended, "the service on {} does not end after SIG{signal}", node.name);
        self.process.wait().expect("it has ended").code()
    }

    /// Its exit status, once it has ended by itself.
    pub fn ended(&mut self) -> Option<std::process::ExitStatus> {
        self.process.try_wait().expect("it is this process's")
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Receives messages of a service for its manager, up to one that `is_it`; returns that.
pub fn await_message(manager: &UnixDatagram, is_it: impl Fn(&str) -> bool) -> std::io::Result<String> {
    manager.set_read_timeout(Some(READY_MAX))?;
    let mut bytes = [0; 4096];
    loop {
        let count = manager.recv(&mut bytes)?;
        let message = String::from_utf8_lossy(&bytes[..count]);
        if is_it(&message) {
            return Ok(message.into_owned());
        }
    }
}

/// The output of a shell's commands on a node; they must succeed.
pub fn shell(node: &Node, commands: &str) -> String {
    let output = node.command("sh").args(["-euc", commands]).output().expect("nsenter is installed");
    assert!(output.status.success(), "{commands} on {}: {}", node.name, String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("the commands write text").trim().to_owned()
}

/// Changes a file's mode.
pub fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("an own file");
}
