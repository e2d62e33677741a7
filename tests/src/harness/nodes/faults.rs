//! Failures of a node during a session.

use std::thread;

use super::network;
use super::running::Nodes;
use headwater_cluster::Node;

impl Nodes<'_> {
    /// Kills a rank's daemon alone: its node's programs continue.
    pub fn kill_daemon(&mut self, rank: usize) {
        if let Some(mut daemon) = self.daemons[rank].take() {
            daemon.kill();
        }
    }

    /// Kills all that runs on a rank's node, and takes its link away.
    pub fn kill_node(&mut self, rank: usize) {
        let (node, daemon) = (self.node(rank), self.daemons[rank].take());
        let killed = thread::scope(|scope| {
            let killed = scope.spawn(|| node.kill());
            // A node has ended when all of its processes are reaped, and this one is a child of this process.
            daemon.into_iter().for_each(|mut daemon| daemon.await_end());
            killed.join()
        });
        killed.expect("it does not panic").unwrap_or_else(|error| panic!("{error}"));
    }

    /// True if a rank's daemon was started and not killed.
    pub fn is_up(&self, rank: usize) -> bool {
        self.daemons[rank].is_some()
    }

    /// Lets a rank's daemon hang: its connections stay open, and it sends nothing.
    pub fn pause(&mut self, rank: usize) {
        self.daemons[rank].as_mut().expect("it runs").pause();
    }

    /// Lets a daemon that hangs continue.
    pub fn resume(&mut self, rank: usize) {
        self.daemons[rank].as_mut().expect("it runs").resume();
    }

    /// Cuts these ranks off from all others: packets between them and the others are lost.
    pub fn cut_off(&mut self, ranks: &[usize]) {
        network::cut_off(self.cluster, &self.nodes(ranks));
    }

    /// Connects ranks again that were cut off.
    pub fn reconnect(&mut self, ranks: &[usize]) {
        network::reconnect(self.cluster, &self.nodes(ranks));
    }

    /// Pulls the cable of one of a rank's interfaces: packets are lost, and the interface stays up.
    pub fn unplug(&mut self, rank: usize, interface: usize) {
        network::unplug(self.cluster, self.node(rank), interface);
    }

    fn nodes(&self, ranks: &[usize]) -> Vec<&Node> {
        ranks.iter().map(|&rank| self.node(rank)).collect()
    }
}
