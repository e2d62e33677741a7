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
//! A cluster leaves nothing behind because it consists only of processes. The bridge lies in a network
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
mod options;
mod process;
mod registry;
mod run;
mod running;
mod wires;

use self::holders::Lifeline;

pub use error::Error;
pub use links::{Delay, Rate};
pub use node::Node;
pub use options::{INTERFACES_MAX, NODES_MAX, Options, RAM_DISKS};
pub use process::Process;
pub use registry::Registry;
pub use run::check;
pub use running::Running;

/// A cluster that lives as long as this value, and not longer than this process.
#[derive(Debug)]
pub struct Cluster {
    running: Running,
    lifeline: Lifeline,
}

impl Cluster {
    /// Makes a cluster of `nodes` nodes. If a step fails, all earlier steps are undone.
    pub fn up(nodes: usize, options: &Options) -> Result<Cluster, Error> {
        let (running, lifeline) = holders::start("test", nodes, options, false)?;
        Ok(Cluster { running, lifeline })
    }

    /// Returns the node with this number, from 1 as in the nodes' names.
    ///
    /// # Panics
    /// If there is none.
    pub fn on(&self, number: usize) -> &Node {
        assert!((1..=self.nodes().len()).contains(&number), "the nodes are 1 to {}", self.nodes().len());
        &self.running.nodes[number - 1]
    }

    /// Returns its nodes, in the order of their numbers.
    pub fn nodes(&self) -> &[Node] {
        &self.running.nodes
    }

    /// Returns its description for other processes.
    pub fn running(&self) -> &Running {
        &self.running
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let ended = self.running.end();
        drop(self.lifeline.parent.stdin.take());
        // After a failure, waiting could block.
        if ended.is_ok() {
            let _ = self.lifeline.parent.wait();
        }
    }
}
