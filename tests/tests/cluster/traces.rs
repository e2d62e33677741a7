//! The parts of a cluster, and what is left of it.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use headwater_cluster::Running;

use crate::await_end;

const KINDS: [&str; 5] = ["net", "mnt", "uts", "ipc", "pid"];

/// The namespaces of a running cluster.
pub struct Traces {
    namespaces: BTreeSet<PathBuf>,
}

impl Traces {
    pub fn of(running: &Running) -> Traces {
        let holders = running.nodes.iter().map(|node| node.holder.pid).chain([running.switch.pid]);
        let namespaces: BTreeSet<PathBuf> = holders.flat_map(namespaces_of).collect();
        let own: BTreeSet<PathBuf> = namespaces_of(std::process::id()).into_iter().collect();
        assert_eq!(namespaces.len(), KINDS.len() * (running.nodes.len() + 1), "every node has its own of each kind");
        assert!(namespaces.is_disjoint(&own), "and none is the host's");
        let traces = Traces { namespaces };
        assert!(!traces.processes().is_empty());
        host_is_untouched();
        traces
    }

    /// Waits until nothing is left. The processes end one by the other; only the first is waited for by the process
    /// that ended it.
    pub fn await_nothing(&self) {
        await_end("a cluster", || self.processes().is_empty());
        // A namespace without processes lives on where it is mounted.
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        for namespace in &self.namespaces {
            let name = namespace.to_str().unwrap();
            assert!(!mounts.contains(name), "{name} is mounted");
        }
        host_is_untouched();
    }

    /// The processes that are in one of the namespaces, or whose children would be.
    fn processes(&self) -> Vec<String> {
        let mut found = Vec::new();
        for entry in fs::read_dir("/proc").unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let Ok(pid) = name.parse::<u32>() else { continue };
            if namespaces_of(pid).iter().any(|namespace| self.namespaces.contains(namespace)) {
                found.push(format!("{pid}: {}", fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default()));
            }
        }
        found
    }
}

fn namespaces_of(pid: u32) -> Vec<PathBuf> {
    let kinds = KINDS.iter().copied().chain(["pid_for_children"]);
    let found: BTreeSet<PathBuf> =
        kinds.filter_map(|kind| fs::read_link(format!("/proc/{pid}/ns/{kind}")).ok()).collect();
    found.into_iter().collect()
}

/// Panics if the host sees a mount or a device of any cluster.
fn host_is_untouched() {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let ours: Vec<&str> = mounts.lines().filter(|line| line.contains(" - tmpfs cluster ")).collect();
    assert_eq!(ours, Vec::<&str>::new(), "mounts on the host");
    for device in fs::read_to_string("/proc/net/dev").unwrap().lines().filter_map(|line| line.split_once(':')) {
        assert!(!device.0.trim().starts_with("node0"), "the host has the device {}", device.0);
    }
}
