//! Counts how many of a launcher's nodes this machine is. To a launcher, two brokers of Flux or a host that is
//! listed twice are several nodes; here they share one node agent.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;

use headwater_launch::info::LaunchInfo;
use rustix::process::Pid;

/// The nodes of the launcher to which processes on this machine belong.
#[derive(Debug, Default)]
pub struct Nodes {
    /// The launcher's node numbers.
    numbers: BTreeSet<u32>,
    /// The first rank of each node.
    firsts: BTreeSet<u32>,
}

impl Nodes {
    /// Notes a process of the launch.
    pub fn note(&mut self, info: &LaunchInfo) {
        self.numbers.extend(info.node);
        self.firsts.extend(info.rank.filter(|_| info.local_rank == Some(0)));
    }

    /// Returns how many nodes have processes here.
    pub fn count(&self) -> u32 {
        self.numbers.len().max(self.firsts.len()).max(1) as u32
    }
}

/// Reads what the launcher passed to a process of this user, from its initial environment.
pub fn launch_info_of(process: Pid) -> Option<LaunchInfo> {
    LaunchInfo::of(&variables_of(process))
}

/// Returns what reads variables of the initial environment of a process of this user.
pub fn variables_of(process: Pid) -> impl Fn(&str) -> Option<OsString> {
    let bytes = fs::read(format!("/proc/{}/environ", process.as_raw_nonzero())).unwrap_or_default();
    move |name| variable(&bytes, name)
}

fn variable(environment: &[u8], name: &str) -> Option<OsString> {
    let mut entries = environment.split(|&byte| byte == 0);
    let value = entries.find_map(|entry| entry.strip_prefix(name.as_bytes())?.strip_prefix(b"="))?;
    Some(OsString::from_vec(value.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts the nodes of processes with these variables.
    fn count(processes: &[&str]) -> u32 {
        let mut nodes = Nodes::default();
        for process in processes {
            let environment = process.replace(' ', "\0").into_bytes();
            nodes.note(&LaunchInfo::of(&|name| variable(&environment, name)).expect("a launcher's"));
        }
        nodes.count()
    }

    #[test]
    fn a_machine_is_as_many_nodes_as_its_processes_say() {
        let flux = |rank: u32, local: u32| {
            format!("FLUX_TASK_RANK={rank} FLUX_TASK_LOCAL_ID={local} FLUX_JOB_SIZE=4 FLUX_JOB_NNODES=2 FLUX_JOB_ID=f")
        };
        assert_eq!(count(&[&flux(0, 0), &flux(1, 1)]), 1);
        assert_eq!(count(&[&flux(0, 0), &flux(1, 1), &flux(2, 0), &flux(3, 1)]), 2);
        let slurm = |rank: u32, node: u32| {
            format!("SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_PROCID={rank} SLURM_NODEID={node} SLURM_NTASKS=4")
        };
        assert_eq!(count(&[&slurm(1, 0), &slurm(3, 1)]), 2, "any process of a node counts");
        assert_eq!(count(&[]), 1);
    }
}
