//! Errors of making and using a cluster.

use std::io;
use std::path::PathBuf;

/// Names the object, the cause and the next step.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Namespaces with networks and mounts of their own are root's to make.
    #[error("a cluster's namespaces need root, and this process runs as user {user}: run the command with sudo")]
    NotRoot {
        /// The effective user.
        user: u32,
    },
    /// A size, name or value that no cluster can have.
    #[error("{what} `{value}`: {problem}")]
    Invalid {
        /// The name of the value.
        what: &'static str,
        /// The value.
        value: String,
        /// What is wrong, and what is expected.
        problem: String,
    },
    /// A program is not installed or can't be started.
    #[error("cannot start `{program}`, which makes the cluster: {source}; it comes with the package {package}")]
    Program {
        /// Its name.
        program: &'static str,
        /// The Debian package that has it.
        package: &'static str,
        /// Why it doesn't start.
        source: io::Error,
    },
    /// A step failed; all earlier steps were undone.
    #[error("{step}: {output}")]
    Step {
        /// What was being made.
        step: String,
        /// What the program wrote.
        output: String,
    },
    /// The kernel can't do this to a link.
    #[error(
        "this kernel cannot {what} ({output}): load the module {module} (modprobe {module}), use a kernel \
         that is built with {config}, or leave out {option}"
    )]
    Kernel {
        /// What was wanted.
        what: &'static str,
        /// The module that does it.
        module: &'static str,
        /// The kernel's option.
        config: &'static str,
        /// The option that requested it.
        option: &'static str,
        /// What `tc` wrote.
        output: String,
    },
    /// Neither the kernel nor a thread of this process can delay packets.
    #[error(
        "nothing can delay packets here: this kernel cannot ({output}), and a program that carries them cannot \
         ({wires}): load the module sch_netem (modprobe sch_netem) or, for a program's own cluster, tun (modprobe tun), \
         use a kernel that is built with CONFIG_NET_SCH_NETEM or CONFIG_TUN, or leave out --delay"
    )]
    Delay {
        /// What `tc` wrote.
        output: String,
        /// The reason against wires.
        wires: String,
    },
    /// A cluster of this name is up.
    #[error(
        "cluster `{name}` is up: {what}; take it down first (cargo xtask cluster down --name {name}), or use another name"
    )]
    Exists {
        /// Its name.
        name: String,
        /// What runs.
        what: String,
    },
    /// No cluster of this name is up.
    #[error("no cluster `{name}` is up ({others}); make it: cargo xtask cluster up N --name {name}")]
    Unknown {
        /// The name.
        name: String,
        /// The clusters that are up.
        others: String,
    },
    /// The cluster has no such node.
    #[error("cluster `{cluster}` has no node `{node}`: its nodes are {nodes}")]
    NoNode {
        /// The cluster's name.
        cluster: String,
        /// The requested node.
        node: String,
        /// The nodes of the cluster.
        nodes: String,
    },
    /// A node's processes were killed.
    #[error("{node} of cluster `{cluster}` has died: take the cluster down and make it again")]
    Dead {
        /// The cluster's name.
        cluster: String,
        /// The node's name.
        node: String,
    },
    /// The records of running clusters can't be read or written.
    #[error("{path}: {problem}; it has the records of running clusters, and may be removed when none runs")]
    State {
        /// The file or directory.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
}
