//! A process's information about its launch.

use crate::Launcher;

/// A process's information about its launch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaunchInfo {
    /// The launcher that started it.
    pub launcher: Launcher,
    /// Its number among the launch's processes, from 0.
    pub rank: Option<u32>,
    /// Number of processes of the launch.
    pub size: Option<u32>,
    /// Its number among the launch's processes on this node, from 0.
    pub local_rank: Option<u32>,
    /// Number of processes of the launch on this node.
    pub local_size: Option<u32>,
    /// This node's number among the launch's nodes, from 0.
    pub node: Option<u32>,
    /// Number of nodes of the launch.
    pub nodes: Option<u32>,
}

impl LaunchInfo {
    /// Returns information in which only the launcher is known.
    pub(super) fn unknown(launcher: Launcher) -> LaunchInfo {
        LaunchInfo { launcher, rank: None, size: None, local_rank: None, local_size: None, node: None, nodes: None }
    }

    /// Removes numbers that contradict others.
    pub(super) fn checked(mut self) -> LaunchInfo {
        let positive = |n: &u32| *n > 0;
        self.size = self.size.filter(positive);
        self.nodes = self.nodes.filter(positive);
        self.local_size = self.local_size.filter(positive).filter(|&n| self.size.is_none_or(|size| n <= size));
        let below = |number: Option<u32>, bound: Option<u32>| number.filter(|&n| bound.is_none_or(|b| n < b));
        self.rank = below(self.rank, self.size);
        self.local_rank = below(below(self.local_rank, self.size), self.local_size);
        self.node = below(self.node, self.nodes);
        self
    }
}
