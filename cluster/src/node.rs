//! One node, and running programs on it.

use std::ffi::OsStr;
use std::io;
use std::net::Ipv4Addr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::{Deserialize, Serialize};

use crate::{Error, Process};

/// A node of a running cluster.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Node {
    /// Its host name, which every node of the cluster knows.
    pub name: String,
    /// Its address on `eth0`.
    pub address: Ipv4Addr,
    /// The number of its interfaces.
    #[serde(default = "one")]
    pub interfaces: usize,
    /// The PID 1 of its PID namespace.
    pub holder: Process,
}

fn one() -> usize {
    1
}

impl Node {
    /// Returns the name of the node with this number, from 1.
    pub(crate) fn name_of(number: usize) -> String {
        format!("node{number:03}")
    }

    /// Returns the address of the node with this number.
    pub(crate) fn address_of(number: usize) -> Ipv4Addr {
        Ipv4Addr::new(10, 77, 0, u8::try_from(number).expect("a cluster has at most 250 nodes"))
    }

    /// Returns the name of the interface with this number, from 0.
    pub fn interface(number: usize) -> String {
        format!("eth{number}")
    }

    /// Returns its address on the interface with this number. Each has a network of its own, with 16 bits.
    pub fn address_on(&self, number: usize) -> Ipv4Addr {
        let [a, b, c, d] = self.address.octets();
        Ipv4Addr::new(a, b + u8::try_from(number).expect("a node has few interfaces"), c, d)
    }

    /// Returns the name of the switch's port for the interface with this number.
    pub fn port(&self, number: usize) -> String {
        if number == 0 { self.name.clone() } else { format!("{}-{number}", self.name) }
    }

    /// Returns the hardware address of the interface with this number, which follows from its address.
    pub(crate) fn hardware_address(&self, number: usize) -> String {
        let [a, b, c, d] = self.address_on(number).octets();
        format!("02:00:{a:02x}:{b:02x}:{c:02x}:{d:02x}")
    }

    /// Returns whether it lives.
    pub fn is_alive(&self) -> bool {
        self.holder.is_alive()
    }

    /// Returns a command that runs `program` on this node, in the caller's working directory or, if the node does not
    /// see that, in the root. It ends with the status of `program`. If it is killed, so is `program`.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        self.command_in(&self.working_directory(), program)
    }

    /// The same in `directory`.
    pub fn command_in(&self, directory: &Path, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--target={}", self.holder.pid));
        command.args(["--net", "--mount", "--uts", "--ipc", "--pid", "--", "env", "-C"]).arg(directory);
        command.args(["setpriv", "--pdeathsig=KILL", "--"]).arg(program);
        command
    }

    fn working_directory(&self) -> PathBuf {
        let is_seen = |here: &Path| {
            let there = Path::new(&format!("/proc/{}/root", self.holder.pid)).join(here.strip_prefix("/").ok()?);
            let (here, there) = (here.metadata().ok()?, there.metadata().ok()?);
            Some((here.dev(), here.ino()) == (there.dev(), there.ino()))
        };
        let here = std::env::current_dir().ok();
        here.filter(|here| is_seen(here) == Some(true)).unwrap_or_else(|| "/".into())
    }

    /// Returns the bytes that the interface with this number has received and sent.
    ///
    /// # Errors
    /// The node is dead.
    pub fn traffic_on(&self, number: usize) -> io::Result<(u64, u64)> {
        // The table is that of the process's network.
        let table = std::fs::read_to_string(format!("/proc/{}/net/dev", self.holder.pid))?;
        traffic_in(&table, &Node::interface(number)).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Kills all processes of the node and removes its link, as when a node loses power. Returns when its processes
    /// have ended. The node can't be restarted.
    pub fn kill(&self) -> Result<(), Error> {
        self.holder
            .kill()
            .map_err(|error| Error::Step { step: format!("ending {}", self.name), output: error.to_string() })
    }
}

/// Returns the bytes that an interface has received and sent, from the kernel's table.
fn traffic_in(table: &str, interface: &str) -> Option<(u64, u64)> {
    let line = table.lines().find_map(|line| line.trim_start().strip_prefix(interface)?.strip_prefix(':'))?;
    let mut fields = line.split_whitespace().map(|field| field.parse().ok());
    Some((fields.next()??, fields.nth(7)??))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traffic_is_read_from_the_kernels_table() {
        let table = "Inter-|   Receive  |  Transmit\n face |bytes packets errs\n  \
                     eth1: 5 1 0 0 0 0 0 0 7 2 0 0 0 0 0 0\n eth10: 9 1 0 0 0 0 0 0 8 2 0 0 0 0 0 0\n";
        assert_eq!(traffic_in(table, "eth1"), Some((5, 7)));
        assert_eq!(traffic_in(table, "eth0"), None);
    }

    #[test]
    fn interfaces_have_networks_of_their_own() {
        let holder = Process::of(std::process::id()).expect("this process lives");
        let node = Node { name: Node::name_of(3), address: Node::address_of(3), interfaces: 2, holder };
        assert_eq!((node.address_on(0), node.address_on(1)), ([10, 77, 0, 3].into(), [10, 78, 0, 3].into()));
        assert_eq!((node.port(0), node.port(1)), ("node003".into(), "node003-1".into()));
        assert_eq!(node.hardware_address(1), "02:00:0a:4e:00:03");
    }
}
