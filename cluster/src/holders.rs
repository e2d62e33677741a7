//! Starting the processes that hold the namespaces: `switch.sh` as PID 1 of the switch's, and below
//! it, for each node, `node.sh` as PID 1 of the node's.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, BufRead, BufReader, PipeReader, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use crate::links::{self, Shaping};
use crate::options::hidden_shares;
use crate::run::not_started;
use crate::wires::Wires;
use crate::{Error, INTERFACES_MAX, NODES_MAX, Node, Options, Process, Running, check};

const SWITCH_SCRIPT: &str = include_str!("switch.sh");
const NODE_SCRIPT: &str = include_str!("node.sh");
/// Limit of shown lines of a failed start.
const COMPLAINTS_MAX: usize = 20;

/// The processes and threads on which a cluster depends.
#[derive(Debug)]
pub struct Lifeline {
    /// The parent of the switch's PID 1. The cluster lives as long as its standard input is open, unless
    /// [`stay`] is called.
    pub parent: Child,
    /// The thread that carries packets, if the kernel doesn't; never in a detached cluster.
    _wires: Option<Wires>,
}

/// Starts a cluster. A `detached` one has no terminal, is no child of the caller, and may outlive it.
pub fn start(name: &str, count: usize, options: &Options, detached: bool) -> Result<(Running, Lifeline), Error> {
    check()?;
    if !(1..=NODES_MAX).contains(&count) {
        let problem = format!("expected from 1 to {NODES_MAX}");
        return Err(Error::Invalid { what: "number of nodes", value: count.to_string(), problem });
    }
    if !(1..=INTERFACES_MAX).contains(&options.interfaces) {
        let (value, problem) = (options.interfaces.to_string(), format!("expected from 1 to {INTERFACES_MAX}"));
        return Err(Error::Invalid { what: "number of interfaces", value, problem });
    }
    let shares = hidden_shares(&options.shares)?;
    let shaping = Shaping::find(options.rate, options.delay, detached)?;
    let names: Vec<String> = (1..=count).map(Node::name_of).collect();
    let mut tree = Tree::spawn(&names, options.ram_disk_mib, &shares, detached)?;
    let (switch, holders) = tree.await_ready(&names)?;
    let nodes: Vec<Node> = (1..)
        .zip(names.iter().zip(holders))
        .map(|(number, (name, holder))| Node {
            name: name.clone(),
            address: Node::address_of(number),
            interfaces: options.interfaces,
            holder,
        })
        .collect();
    let wires = links::make(switch.pid, &nodes, &shaping)?;
    let running = Running { name: name.to_owned(), switch, nodes, rate: options.rate, delay: options.delay };
    Ok((running, Lifeline { parent: tree.keep(), _wires: wires }))
}

/// Lets a detached cluster live until it is ended or all of its nodes are.
pub fn stay(Lifeline { parent: mut child, .. }: Lifeline) -> io::Result<()> {
    child.stdin.take().expect("the lifeline is a pipe").write_all(b"stay\n")?;
    // The child is `setsid`, which has ended.
    child.wait().map(|_| ())
}

/// The starting processes. They end when this is dropped.
struct Tree {
    /// The started program, until it is reaped.
    child: Option<Child>,
    /// The output of all of them.
    output: BufReader<PipeReader>,
    switch: Option<Process>,
}

impl Tree {
    fn spawn(names: &[String], ram_disk_mib: u32, shares: &[PathBuf], detached: bool) -> Result<Tree, Error> {
        let broken = |error: io::Error| Error::Step { step: "a pipe".to_owned(), output: error.to_string() };
        let (reader, writer) = io::pipe().map_err(broken)?;
        let unshare = ["--net", "--mount", "--uts", "--ipc", "--pid", "--fork", "--kill-child", "--propagation=slave"];
        // `setsid` detaches the cluster from the terminal's signals, and leaves the program to the host's init.
        let (program, before) =
            if detached { ("setsid", ["--fork", "unshare"].as_slice()) } else { ("unshare", [].as_slice()) };
        let mut command = Command::new(program);
        command
            .args(before)
            .args(unshare)
            .args(["--", "sh", "-c", SWITCH_SCRIPT, "headwater-switch", NODE_SCRIPT])
            .args(names);
        command.env_clear().envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
        command.env("LC_ALL", "C").env("CLUSTER_HOSTS", hosts(names)).env("CLUSTER_RAM_MIB", ram_disk_mib.to_string());
        let lines = shares.iter().fold(String::new(), |lines, share| lines + &share.display().to_string() + "\n");
        command.env("CLUSTER_SHARES", lines).current_dir("/").stdin(Stdio::piped());
        command.stdout(writer.try_clone().map_err(broken)?).stderr(writer);
        let child = command.spawn().map_err(|error| not_started(program, error))?;
        // Closes this process's write ends.
        drop(command);
        Ok(Tree { child: Some(child), output: BufReader::new(reader), switch: None })
    }

    /// Waits until every PID 1 is ready; returns the switch's and the nodes' ones, in their order.
    fn await_ready(&mut self, names: &[String]) -> Result<(Process, Vec<Process>), Error> {
        let mut ready = BTreeMap::new();
        let mut complaints = Vec::new();
        let failed = |name: &str, complaints: &[String]| Error::Step {
            step: format!("the namespaces of {name}"),
            output: if complaints.is_empty() { "ended without a message".to_owned() } else { complaints.join("; ") },
        };
        while ready.len() < 1 + names.len() {
            let mut line = String::new();
            if !self.output.read_line(&mut line).is_ok_and(|length| length > 0) {
                return Err(failed("the switch", &complaints));
            }
            let fields: Vec<&str> = line.split_whitespace().collect();
            match fields.as_slice() {
                ["ready", name, pid] => {
                    let process = pid.parse().ok().and_then(Process::of).ok_or_else(|| failed(name, &complaints))?;
                    if *name == "switch" {
                        self.switch = Some(process);
                    }
                    ready.insert((*name).to_owned(), process);
                }
                ["end", name] => return Err(failed(name, &complaints)),
                _ if complaints.len() < COMPLAINTS_MAX => complaints.push(line.trim().to_owned()),
                _ => {}
            }
        }
        let switch = self.switch.ok_or_else(|| failed("the switch", &complaints))?;
        let nodes: Option<Vec<Process>> = names.iter().map(|name| ready.get(name).copied()).collect();
        Ok((switch, nodes.ok_or_else(|| failed("the nodes", &complaints))?))
    }

    /// Returns the child. The processes live as long as its standard input is open.
    fn keep(mut self) -> Child {
        self.child.take().expect("it is taken here only")
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        // Before the switch's PID 1 is known, closing its standard input ends it.
        let ended = self.switch.is_none_or(|switch| switch.kill().is_ok());
        drop(child.stdin.take());
        if !ended {
            return;
        }
        let _ = child.wait();
        // Ending processes hold the pipe.
        let _ = io::copy(&mut self.output, &mut io::sink());
    }
}

fn hosts(names: &[String]) -> String {
    let mut text = "127.0.0.1 localhost\n::1 localhost\n".to_owned();
    for (number, name) in (1..).zip(names) {
        let _ = writeln!(text, "{} {name}", Node::address_of(number));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hosts_file_has_every_node() {
        let names: Vec<String> = (1..=NODES_MAX).map(Node::name_of).collect();
        let text = hosts(&names);
        assert_eq!(text.lines().count(), 2 + NODES_MAX);
        assert!(text.ends_with("10.77.0.250 node250\n") && text.contains("\n10.77.0.1 node001\n"));
    }
}
