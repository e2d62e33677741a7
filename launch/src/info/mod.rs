//! A process's rank, node and size in its launch, from the variables that the launcher set.
//!
//! # Which launcher
//!
//! A process often has variables of several launchers: `mpirun` in an allocation of Slurm's leaves Slurm's in
//! place, and on other nodes those of its daemons' step. The innermost launcher knows the process, so the
//! first of these that applies decides:
//!
//! 0. `HEADWATER_TOOL_NODES`: a tool that started the node agent by `<headwater-launch.h>`.
//! 1. `PMIX_NAMESPACE` is Slurm's for this very step (`slurm.pmix.JOB.STEP`): Slurm.
//! 2. `PMI_RANK` and `PMI_SIZE` are `FLUX_TASK_RANK` and `FLUX_JOB_SIZE`, and there is no variable of Open
//!    MPI, PRRTE or JSM: Flux, which serves PMI itself.
//! 3. `PRTE_LAUNCHED`, or a `PMIX_NAMESPACE` with PRRTE's prefix: PRRTE.
//! 4. `OMPI_COMM_WORLD_RANK` and a variable of `orted`'s (`OMPI_MCA_orte_hnp_uri` or
//!    `OMPI_MCA_ess_base_jobid`): Open MPI up to 4.
//! 5. `PMI_RANK` or `PMI_ID`, with `HYDI_CONTROL_FD`, or with `MPI_LOCALRANKID` and a rank that isn't
//!    PALS's: hydra.
//! 6. `JSM_NAMESPACE_RANK`: JSM, which sets Open MPI's variables too.
//! 7. `FLUX_TASK_RANK`: Flux.
//! 8. `SLURM_PROCID` in a step that tasks were started in: Slurm. A batch script and the shell of an
//!    allocation have no launch.
//! 9. `PALS_RANKID`: PALS. It comes late because Slurm and Flux set it too on HPE's machines.
//! 10. `OMPI_COMM_WORLD_RANK`: Open MPI or one of its descendants.
//! 11. `PMIX_RANK` and `PMIX_NAMESPACE`: a launcher with PMIx.
//! 12. `PMI_RANK` and `PMI_SIZE`: a launcher with PMI, taken for hydra.
//! 13. `PBS_NODENUM` of a task that isn't the job's script (`PBS_TASKNUM` above 1): `pbsdsh`.
//!
//! # Invalid values
//!
//! A value that is no number, or contradicts another (a rank beyond the size), is ignored.

mod detect;
mod launch_info;
mod launchers;
#[cfg(test)]
mod tests;
mod variables;

use std::ffi::OsString;

pub use self::launch_info::LaunchInfo;
pub use self::variables::TOOL_NODES;

use self::variables::Variables;

impl LaunchInfo {
    /// Returns the information of the process with these variables; `None` if no launcher started it.
    /// `variable` returns a variable's value.
    pub fn of(variable: &dyn Fn(&str) -> Option<OsString>) -> Option<LaunchInfo> {
        let variables = Variables::new(variable);
        let launcher = detect::launcher(&variables)?;
        Some(launchers::info(launcher, &variables).checked())
    }
}
