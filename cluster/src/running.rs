//! A running cluster.

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::links::{Delay, Rate};
use crate::node::Node;
use crate::process::Process;

/// A running cluster, as far as another process needs to know it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Running {
    /// Its name.
    pub name: String,
    /// The PID 1 of the namespaces that hold the bridge and everything else.
    pub switch: Process,
    /// Its nodes, in the order of their numbers.
    pub nodes: Vec<Node>,
    /// The limit of each link.
    pub rate: Option<Rate>,
    /// The added delay of packets.
    pub delay: Option<Delay>,
}

impl Running {
    /// Returns whether it is up.
    pub fn is_alive(&self) -> bool {
        self.switch.is_alive()
    }

    /// Returns the node with this name, or with this number, from 1.
    pub fn find(&self, node: &str) -> Result<&Node, Error> {
        let number = node.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
        let found = number.map_or_else(|| self.nodes.iter().find(|n| n.name == node), |index| self.nodes.get(index));
        found.ok_or_else(|| Error::NoNode {
            cluster: self.name.clone(),
            node: node.to_owned(),
            nodes: self.node_names(),
        })
    }

    /// Returns the names of its nodes, as one text.
    pub fn node_names(&self) -> String {
        match self.nodes.as_slice() {
            [] => String::new(),
            [only] => only.name.clone(),
            [first, .., last] => format!("{} to {}", first.name, last.name),
        }
    }

    /// Kills all its processes, and waits for their end.
    pub fn end(&self) -> Result<(), Error> {
        self.switch.kill().map_err(|error| Error::Step {
            step: format!("ending the switch of cluster `{}`, process {}", self.name, self.switch.pid),
            output: error.to_string(),
        })
    }
}
