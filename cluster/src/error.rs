//! Errors of making and using a cluster.

use std::io;
use std::path::PathBuf;

/// Names the object, the cause and the next step.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the messages say what the fields are")]
pub enum Error {
    /// Namespaces with networks and mounts of their own are root's to make.
    #[error("a cluster's namespaces need root, and this process runs as user {user}: run the command with sudo")]
    NotRoot { user: u32 },
    /// A size, name or value that no cluster can have.
    #[error("{what} `{value}`: {problem}")]
    Invalid { what: &'static str, value: String, problem: String },
    /// A program is not installed or can't be started.
    #[error("cannot start `{program}`, which makes the cluster: {source}; it comes with the package {package}")]
    Program { program: &'static str, package: &'static str, source: io::Error },
    /// A step failed; all earlier steps were undone.
    #[error("{step}: {output}")]
    Step { step: String, output: String },
    /// The kernel can't do this to a link.
    #[error(
        "this kernel cannot {what} ({output}): load the module {module} (modprobe {module}), use a kernel \
         that is built with {config}, or leave out {option}"
    )]
    Kernel { what: &'static str, module: &'static str, config: &'static str, option: &'static str, output: String },
    /// Neither the kernel nor a thread of this process can delay packets.
    #[error(
        "nothing can delay packets here: this kernel cannot ({output}), and a program that carries them cannot \
         ({wires}): load the module sch_netem (modprobe sch_netem) or, for a program's own cluster, tun (modprobe tun), \
         use a kernel that is built with CONFIG_NET_SCH_NETEM or CONFIG_TUN, or leave out --delay"
    )]
    Delay { output: String, wires: String },
    /// A cluster of this name is up.
    #[error(
        "cluster `{name}` is up: {what}; take it down first (cargo xtask cluster down --name {name}), or use another name"
    )]
    Exists { name: String, what: String },
    /// No cluster of this name is up.
    #[error("no cluster `{name}` is up ({others}); make it: cargo xtask cluster up N --name {name}")]
    Unknown { name: String, others: String },
    /// The cluster has no such node.
    #[error("cluster `{cluster}` has no node `{node}`: its nodes are {nodes}")]
    NoNode { cluster: String, node: String, nodes: String },
    /// A node's processes were killed.
    #[error("{node} of cluster `{cluster}` has died: take the cluster down and make it again")]
    Dead { cluster: String, node: String },
    /// The records of running clusters can't be read or written.
    #[error("{path}: {problem}; it has the records of running clusters, and may be removed when none runs")]
    State { path: PathBuf, problem: String },
}
