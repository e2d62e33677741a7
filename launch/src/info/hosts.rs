//! The nodes of a launch.

use std::path::PathBuf;

use headwater_topology::hosts::Hostlist;

/// Nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hosts {
    /// Their names.
    pub names: Names,
    /// Whether they are those of the launch, the node with number 0 first. Else they are those of the
    /// allocation, of which the launch may use a part.
    pub exact: bool,
}

/// Names of nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Names {
    /// A list.
    List(Hostlist),
    /// The file with a name on each line; a node may be in it several times. It may exist on the allocation's
    /// first node alone.
    File(PathBuf),
    /// The output of `flux getattr hostlist`, in the syntax of a [`Hostlist`].
    FluxAttribute,
}
