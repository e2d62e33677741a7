//! A process's place in its launch, from the variables that the launcher gave it.
//!
//! # Which launcher
//!
//! A process often has variables of several: `mpirun` in an allocation of Slurm's leaves Slurm's in
//! place, and on other nodes those of the step that its daemons are. The innermost launcher knows the
//! process, so the first of these that holds decides:
//!
//! 1. `PMIX_NAMESPACE` is Slurm's for this very step (`slurm.pmix.JOB.STEP`): Slurm.
//! 2. `PMI_RANK` and `PMI_SIZE` are `FLUX_TASK_RANK` and `FLUX_JOB_SIZE`, and Open MPI, PRRTE and JSM
//!    have left nothing: Flux, which answers PMI itself.
//! 3. `PRTE_LAUNCHED`, or a `PMIX_NAMESPACE` that begins as PRRTE's do: PRRTE.
//! 4. `OMPI_COMM_WORLD_RANK` and a variable of `orted`'s (`OMPI_MCA_orte_hnp_uri` or
//!    `OMPI_MCA_ess_base_jobid`): Open MPI up to 4.
//! 5. `PMI_RANK` or `PMI_ID`, with `HYDI_CONTROL_FD`, or with `MPI_LOCALRANKID` and a rank that isn't
//!    PALS's: hydra.
//! 6. `JSM_NAMESPACE_RANK`: JSM, which sets Open MPI's variables too.
//! 7. `FLUX_TASK_RANK`: Flux.
//! 8. `SLURM_PROCID` in a step that tasks were started in: Slurm. A batch script and the shell of an
//!    allocation are no place.
//! 9. `PALS_RANKID`: PALS. It comes this late because Slurm and Flux set it too on machines of HPE's.
//! 10. `OMPI_COMM_WORLD_RANK`: Open MPI or one of its descendants.
//! 11. `PMIX_RANK` and `PMIX_NAMESPACE`: something that speaks PMIx.
//! 12. `PMI_RANK` and `PMI_SIZE`: something that speaks PMI, taken for hydra.
//! 13. `PBS_NODENUM` of a task that isn't the job's script (`PBS_TASKNUM` above 1): `pbsdsh`.
//!
//! What the outer ones say is used for one thing alone: the nodes of the allocation, of which the
//! launch may use a part ([`Hosts::exact`]).
//!
//! # Nonsense
//!
//! A value that is no number, or contradicts another (a rank beyond the size), is as if it weren't
//! there.

use std::ffi::OsString;
use std::path::PathBuf;

use headwater_topology::hosts::Hostlist;

use crate::Launcher;

mod allocation;
mod detect;
mod launchers;
#[cfg(test)]
mod tests;
mod variables;

use variables::Variables;

/// What a process can tell of its launch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Who started it.
    pub launcher: Launcher,
    /// Its number among the launch's processes, from 0.
    pub rank: Option<u32>,
    /// How many processes the launch has.
    pub size: Option<u32>,
    /// Its number among the launch's processes on this node, from 0.
    pub local_rank: Option<u32>,
    /// How many processes the launch has on this node.
    pub local_size: Option<u32>,
    /// This node's number among the launch's nodes, from 0.
    pub node: Option<u32>,
    /// How many nodes the launch has.
    pub nodes: Option<u32>,
    /// The nodes.
    pub hosts: Option<Hosts>,
    /// Names of switches and of this node, from the top of the network down, with dots between.
    pub switches: Option<String>,
    /// Tells this launch apart from all others that run on this node at the same time. All of the
    /// launch's processes on a node have the same; on another node it may be another.
    pub identity: Option<String>,
}

/// Nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hosts {
    /// Who they are.
    pub names: Names,
    /// They are those of the launch, the node with number 0 first. Else they are those of the allocation
    /// that the launch is in, and it may use a part of them.
    pub exact: bool,
}

/// Who nodes are.
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

impl Place {
    /// The place of the process with these variables; `None` if no launcher started it. `variable` gives
    /// a variable's value.
    pub fn of(variable: &dyn Fn(&str) -> Option<OsString>) -> Option<Place> {
        let variables = Variables::new(variable);
        let launcher = detect::launcher(&variables)?;
        let mut place = Place { launcher, ..launchers::place(launcher, &variables) };
        if place.hosts.is_none() {
            place.hosts = allocation::hosts(launcher, &variables);
        }
        Some(place.checked())
    }

    /// Nothing but the launcher.
    fn unknown(launcher: Launcher) -> Place {
        Place {
            launcher,
            rank: None,
            size: None,
            local_rank: None,
            local_size: None,
            node: None,
            nodes: None,
            hosts: None,
            switches: None,
            identity: None,
        }
    }

    /// The place without numbers that contradict others.
    fn checked(mut self) -> Place {
        let positive = |n: &u32| *n > 0;
        self.size = self.size.filter(positive);
        self.nodes = self.nodes.filter(positive);
        self.local_size = self.local_size.filter(positive).filter(|&n| self.size.is_none_or(|size| n <= size));
        let below = |number: Option<u32>, bound: Option<u32>| number.filter(|&n| bound.is_none_or(|b| n < b));
        self.rank = below(self.rank, self.size);
        self.local_rank = below(below(self.local_rank, self.size), self.local_size);
        self.node = below(self.node, self.nodes);
        self
    }
}
