//! One node, and running programs on it.

use std::ffi::OsStr;
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
    /// Its address.
    pub address: Ipv4Addr,
    /// The PID 1 of its PID namespace.
    pub holder: Process,
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

    /// Returns its hardware address, which follows from its address.
    pub(crate) fn hardware_address(&self) -> String {
        let [a, b, c, d] = self.address.octets();
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

    /// Kills all processes of the node and removes its link, as when a node loses power. Returns when its processes
    /// have ended. The node can't be restarted.
    pub fn kill(&self) -> Result<(), Error> {
        self.holder
            .kill()
            .map_err(|error| Error::Step { step: format!("ending {}", self.name), output: error.to_string() })
    }
}
