//! Nodes on one machine, for tests and for trying things out: each is a set of namespaces (network,
//! mount, UTS, IPC, PID) with a host name, an address, a link, and RAM disks of its own at `/run`,
//! `/tmp`, `/var/tmp` and `/dev/shm`. All else of the file system is the host's.
//!
//! ```no_run
//! # use headwater_cluster::{Cluster, Options};
//! let options = Options { rate: Some("200mbit".parse()?), ..Options::default() };
//! let cluster = Cluster::up(4, &options)?;
//! let output = cluster.on(2).command("getent").args(["hosts", "node003"]).output()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A cluster leaves nothing behind because it consists of processes alone. The bridge lies in a network
//! namespace of its own, the *switch*; each node's PID namespace lies below the switch's, so that the
//! kernel ends everything that runs in any node when the switch's PID 1 ends; and the last process to
//! leave a namespace takes its mounts and devices along. Nothing is mounted, and no device made, where
//! the host would see it.
//!
//! A [`Cluster`] ends with the program that made it, however that ends. One that stays until it is taken
//! down is made by a [`Registry`], which keeps its name.
//!
//! Links are the kernel's work. Only where they have a delay and the kernel lacks `sch_netem`, a thread of
//! the program carries each packet of a [`Cluster`], between TAP devices; a cluster that stays is refused.

mod error;
mod holders;
mod links;
mod node;
mod process;
mod registry;
mod run;
mod wires;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use self::holders::Lifeline;

pub use error::Error;
pub use links::{Delay, Rate};
pub use node::Node;
pub use process::Process;
pub use registry::Registry;

/// The most nodes that a cluster has.
pub const NODES_MAX: usize = 250;

/// Where each node has a RAM disk of its own.
pub const RAM_DISKS: [&str; 4] = ["/run", "/tmp", "/var/tmp", "/dev/shm"];

/// What the nodes are like.
#[derive(Clone, Debug)]
pub struct Options {
    /// What each link carries, in each direction; as much as it can if `None`.
    pub rate: Option<Rate>,
    /// The time that a packet takes from node to node, added where it is sent.
    pub delay: Option<Delay>,
    /// The size of each RAM disk. Memory is taken as it is used.
    pub ram_disk_mib: u32,
    /// Directories that a RAM disk would hide and that every node sees all the same, under their path.
    pub shares: Vec<PathBuf>,
}

impl Default for Options {
    fn default() -> Options {
        Options { rate: None, delay: None, ram_disk_mib: 1024, shares: Vec::new() }
    }
}

/// A running cluster, as far as another process needs to know it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Running {
    /// Its name.
    pub name: String,
    /// The PID 1 of the namespaces that hold the bridge and everything else.
    pub switch: Process,
    /// Its nodes, in the order of their numbers.
    pub nodes: Vec<Node>,
    /// What each link carries.
    pub rate: Option<Rate>,
    /// What delays packets.
    pub delay: Option<Delay>,
}

impl Running {
    /// True until it was taken down, or all of its processes were killed.
    pub fn is_alive(&self) -> bool {
        self.switch.is_alive()
    }

    /// The node with this name, or with this number, which counts from 1.
    pub fn find(&self, node: &str) -> Result<&Node, Error> {
        let number = node.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
        let found = number.map_or_else(|| self.nodes.iter().find(|n| n.name == node), |index| self.nodes.get(index));
        found.ok_or_else(|| Error::NoNode {
            cluster: self.name.clone(),
            node: node.to_owned(),
            nodes: self.node_names(),
        })
    }

    /// The names of its nodes, as one text.
    pub fn node_names(&self) -> String {
        match self.nodes.as_slice() {
            [] => String::new(),
            [only] => only.name.clone(),
            [first, .., last] => format!("{} to {}", first.name, last.name),
        }
    }

    /// Ends all that runs in it, and returns when it has ended.
    pub fn end(&self) -> Result<(), Error> {
        self.switch.kill().map_err(|error| Error::Step {
            step: format!("ending the switch of cluster `{}`, process {}", self.name, self.switch.pid),
            output: error.to_string(),
        })
    }
}

/// A cluster that lives as long as this value, and not longer than this process.
#[derive(Debug)]
pub struct Cluster {
    running: Running,
    lifeline: Lifeline,
}

impl Cluster {
    /// Makes a cluster of `nodes` nodes. If a step fails, what was made before it is gone.
    pub fn up(nodes: usize, options: &Options) -> Result<Cluster, Error> {
        let (running, lifeline) = holders::start("test", nodes, options, false)?;
        Ok(Cluster { running, lifeline })
    }

    /// The node with this number, which counts from 1 as the nodes' names do.
    ///
    /// # Panics
    /// If there is none.
    pub fn on(&self, number: usize) -> &Node {
        assert!((1..=self.nodes().len()).contains(&number), "the nodes are 1 to {}", self.nodes().len());
        &self.running.nodes[number - 1]
    }

    /// Its nodes, in the order of their numbers.
    pub fn nodes(&self) -> &[Node] {
        &self.running.nodes
    }

    /// What another process needs to know of it.
    pub fn running(&self) -> &Running {
        &self.running
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let ended = self.running.end();
        drop(self.lifeline.parent.stdin.take());
        // What can't be ended is not waited for twice.
        if ended.is_ok() {
            let _ = self.lifeline.parent.wait();
        }
    }
}

/// Whether clusters can be made here: the caller is root, and the programs are installed.
pub fn check() -> Result<(), Error> {
    let user = rustix::process::geteuid();
    if !user.is_root() {
        return Err(Error::NotRoot { user: user.as_raw() });
    }
    run::check_programs()
}

/// The directories of `shares` that a RAM disk would hide, as the kernel names them.
fn hidden_shares(shares: &[PathBuf]) -> Result<Vec<PathBuf>, Error> {
    let mut hidden = Vec::new();
    for share in shares {
        let invalid = |problem: String| Error::Invalid { what: "share", value: share.display().to_string(), problem };
        let path = share.canonicalize().map_err(|error| invalid(error.to_string()))?;
        if !path.is_dir() {
            return Err(invalid("expected a directory".to_owned()));
        }
        if path.to_str().is_none_or(|text| text.contains('\n')) {
            return Err(invalid("expected a name in UTF-8 without line breaks".to_owned()));
        }
        if RAM_DISKS.iter().any(|disk| Path::new(disk).starts_with(&path)) {
            return Err(invalid(format!("a directory above or at a RAM disk ({})", RAM_DISKS.join(", "))));
        }
        if RAM_DISKS.iter().any(|disk| path.starts_with(disk)) {
            hidden.push(path);
        }
    }
    Ok(hidden)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_share(share: &str, expected: Option<&[&str]>) {
        let expected = expected.map(|paths| paths.iter().map(PathBuf::from).collect::<Vec<_>>());
        assert_eq!(hidden_shares(&[share.into()]).ok(), expected, "{share}");
    }

    #[test]
    fn only_what_is_hidden_is_bound() {
        let below = tempfile::tempdir_in("/tmp").unwrap();
        let path = below.path().canonicalize().unwrap();
        let path = path.to_str().unwrap();
        check_share(path, Some(&[path]));
        check_share("/usr", Some(&[]));
        for wrong in ["/", "/tmp", "/dev", "/nowhere", "/etc/passwd"] {
            check_share(wrong, None);
        }
    }
}
