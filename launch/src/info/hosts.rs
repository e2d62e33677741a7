//! The nodes of a launch.

use std::path::PathBuf;

use headwater_topology::hosts::Hostlist;

/// Nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hosts {
    /// Their names.
    pub names: Names,
    /// They are those of the launch, the node with number 0 first. Else they are those of the allocation
    /// that the launch is in, and it may use a part of them.
    pub exact: bool,
}

/// Names of nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Names {
    /// These.
    List(Hostlist),
    /// Each line of this file names one; a node may stand in it several times. It may exist on the
    /// allocation's first node alone.
    File(PathBuf),
    /// What the command `flux getattr hostlist` prints, in the syntax of a [`Hostlist`].
    FluxAttribute,
}
