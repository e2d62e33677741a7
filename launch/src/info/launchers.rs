//! Each launcher's own variables.

use super::detect::slurm_step;
use super::launch_info::LaunchInfo;
use super::variables::{TOOL_NODES, Variables};
use crate::Launcher;

/// Returns the information in this launcher's own variables.
pub fn info(launcher: Launcher, variables: &Variables<'_>) -> LaunchInfo {
    let unknown = LaunchInfo::unknown(launcher);
    match launcher {
        Launcher::Slurm => slurm(variables, unknown),
        Launcher::OpenMpi => open_mpi(variables, unknown),
        Launcher::Prrte | Launcher::Pmix => pmix(variables, unknown),
        Launcher::Hydra => hydra(variables, unknown),
        Launcher::Pals => pals(variables, unknown),
        Launcher::Flux => flux(variables, unknown),
        Launcher::Jsm => jsm(variables, unknown),
        Launcher::Pbs => LaunchInfo { node: variables.number("PBS_NODENUM"), ..unknown },
        Launcher::Tool => tool(variables, unknown),
        Launcher::Marked => unknown,
    }
}

/// Reads Slurm's, from srun(1), "Output environment variables". In a heterogeneous step the numbers and the
/// nodes are those of all components.
fn slurm(variables: &Variables<'_>, unknown: LaunchInfo) -> LaunchInfo {
    let node = variables.number("SLURM_NODEID");
    let per_node = variables.text("SLURM_STEP_TASKS_PER_NODE").or_else(|| variables.text("SLURM_TASKS_PER_NODE"));
    LaunchInfo {
        rank: variables.number("SLURM_PROCID"),
        size: variables.first_number(&["SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SLURM_NPROCS"]),
        local_rank: variables.number("SLURM_LOCALID"),
        local_size: node.zip(per_node).and_then(|(node, counts)| tasks_on(&counts, node)),
        node,
        nodes: variables.first_number(&["SLURM_STEP_NUM_NODES", "SLURM_NNODES"]),
        ..unknown
    }
}

/// Returns a node's number of tasks, by counts such as `2(x3),1`.
fn tasks_on(counts: &str, mut node: u32) -> Option<u32> {
    let number = |text: &str| text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse::<u32>().ok())?;
    for part in counts.split(',') {
        let (count, times) = match part.strip_suffix(')').and_then(|part| part.split_once("(x")) {
            Some((count, times)) => (count, number(times)?),
            None => (part, 1),
        };
        if node < times {
            return number(count);
        }
        node -= times;
    }
    None
}

/// Returns the number of nodes in a list of `orted`'s, which ends in `@` and the nodes of each kind, as
/// `n[1:0-2]@0(3)`.
fn nodes_of_regex(regex: &str) -> Option<u32> {
    let (_, kinds) = regex.rsplit_once('@')?;
    let count = |kind: &str| kind.strip_suffix(')')?.split_once('(')?.1.parse::<u32>().ok();
    kinds.split(',').try_fold(0u32, |sum, kind| sum.checked_add(count(kind)?))
}

/// Reads Open MPI 4's, from mpirun(1), "Exported environment variables", and those that `orted` sets. It
/// counts nodes twice if ranks are placed by a file.
fn open_mpi(variables: &Variables<'_>, unknown: LaunchInfo) -> LaunchInfo {
    let size = variables.number("OMPI_COMM_WORLD_SIZE");
    let listed = variables.text("OMPI_MCA_orte_node_regex").and_then(|regex| nodes_of_regex(&regex));
    let nodes = variables.number("OMPI_MCA_orte_num_nodes");
    LaunchInfo {
        rank: variables.number("OMPI_COMM_WORLD_RANK"),
        size,
        local_rank: variables.number("OMPI_COMM_WORLD_LOCAL_RANK"),
        local_size: variables.number("OMPI_COMM_WORLD_LOCAL_SIZE"),
        nodes: nodes.map(|nodes| [listed, size].into_iter().flatten().fold(nodes, u32::min)),
        ..unknown
    }
}

/// Reads PMIx's, which has the rest in its server; Open MPI 5 adds its variables.
fn pmix(variables: &Variables<'_>, unknown: LaunchInfo) -> LaunchInfo {
    LaunchInfo {
        rank: variables.first_number(&["PMIX_RANK", "OMPI_COMM_WORLD_RANK"]),
        size: variables.first_number(&["OMPI_COMM_WORLD_SIZE", "OMPI_WORLD_SIZE"]),
        local_rank: variables.number("OMPI_COMM_WORLD_LOCAL_RANK"),
        local_size: variables.first_number(&["OMPI_COMM_WORLD_LOCAL_SIZE", "OMPI_WORLD_LOCAL_SIZE"]),
        ..unknown
    }
}

/// Reads those of MPICH's `src/pm/hydra/proxy`. If hydra starts its proxies as a step of Slurm's it sets a
/// variable, and then that step is the launch's.
fn hydra(variables: &Variables<'_>, unknown: LaunchInfo) -> LaunchInfo {
    let info = LaunchInfo {
        rank: variables.first_number(&["PMI_RANK", "PMI_ID"]),
        size: variables.number("PMI_SIZE"),
        local_rank: variables.number("MPI_LOCALRANKID"),
        local_size: variables.number("MPI_LOCALNRANKS"),
        ..unknown.clone()
    };
    if !variables.has("SLURM_EXTERNAL_LAUNCHER") || slurm_step(variables).is_none() {
        return info;
    }
    let LaunchInfo { node, nodes, .. } = slurm(variables, unknown);
    LaunchInfo { node, nodes, ..info }
}

/// Reads PALS's, and those of the PMI that it serves. Slurm sets both as PALS does
/// (`src/plugins/mpi/cray_shasta`).
fn pals(variables: &Variables<'_>, unknown: LaunchInfo) -> LaunchInfo {
    LaunchInfo {
        rank: variables.number("PALS_RANKID"),
        size: variables.first_number(&["PALS_SIZE", "PMI_SIZE"]),
        local_rank: variables.first_number(&["PALS_LOCAL_RANKID", "PMI_LOCAL_RANK"]),
        local_size: variables.first_number(&["PALS_LOCAL_SIZE", "PMI_LOCAL_SIZE"]),
        node: variables.number("PALS_NODEID"),
        ..unknown
    }
}

/// Reads Flux's, from flux-environment(7).
fn flux(variables: &Variables<'_>, unknown: LaunchInfo) -> LaunchInfo {
    LaunchInfo {
        rank: variables.number("FLUX_TASK_RANK"),
        size: variables.number("FLUX_JOB_SIZE"),
        local_rank: variables.number("FLUX_TASK_LOCAL_ID"),
        nodes: variables.number("FLUX_JOB_NNODES"),
        ..unknown
    }
}

/// Reads JSM's.
fn jsm(variables: &Variables<'_>, unknown: LaunchInfo) -> LaunchInfo {
    LaunchInfo {
        rank: variables.number("JSM_NAMESPACE_RANK"),
        size: variables.number("JSM_NAMESPACE_SIZE"),
        local_rank: variables.number("JSM_NAMESPACE_LOCAL_RANK"),
        local_size: variables.number("JSM_NAMESPACE_LOCAL_SIZE"),
        ..unknown
    }
}

/// Reads those that `headwater_node_begin` sets (`abi/include/headwater-launch.h`).
fn tool(variables: &Variables<'_>, unknown: LaunchInfo) -> LaunchInfo {
    let number = |name| variables.number(name);
    LaunchInfo { node: number("HEADWATER_TOOL_NODE"), nodes: number(TOOL_NODES), ..unknown }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_of_a_node() {
        let check = |counts, node, expected| assert_eq!(tasks_on(counts, node), expected, "{counts} {node}");
        for (node, tasks) in [2, 2, 2, 1].into_iter().enumerate() {
            check("2(x3),1", node as u32, Some(tasks));
        }
        check("2(x3),1", 4, None);
        check("16(x4000000000),3", 4_000_000_000, Some(3));
        check("", 0, None);
        check("-1", 0, None);
        check("2(x", 0, None);
        check("2(x-1),1", 0, None);
        check("2(x99999999999)", 0, None);
        check("a,b", 1, None);
    }
}
