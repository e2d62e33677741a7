//! Detection of a process's launcher; [`crate::info`] explains the order.

use super::variables::{TOOL_NODES, Variables};
use crate::Launcher;

/// Numbers of Slurm's steps from here on are special: no tasks are started in them.
const SLURM_SPECIAL_STEPS: u32 = 0xffff_fff0;

/// Returns the innermost launcher.
pub fn launcher(variables: &Variables<'_>) -> Option<Launcher> {
    let has = |name| variables.has(name);
    let step = slurm_step(variables);
    let namespace = variables.text("PMIX_NAMESPACE").unwrap_or_default();
    let orte = has("OMPI_COMM_WORLD_RANK") && (has("OMPI_MCA_orte_hnp_uri") || has("OMPI_MCA_ess_base_jobid"));
    let prrte = has("PRTE_LAUNCHED") || ["prte", "prrte"].iter().any(|start| namespace.starts_with(start));
    let pals = same(variables, "PALS_RANKID", "PMI_RANK");
    let hydra = has("HYDI_CONTROL_FD") || has("MPI_LOCALRANKID") && !pals;
    let found = match () {
        () if has(TOOL_NODES) => Launcher::Tool,
        () if step.as_ref().is_some_and(|step| namespace == format!("slurm.pmix.{step}")) => Launcher::Slurm,
        () if flux_answers_pmi(variables) && !orte && !prrte && !has("JSM_NAMESPACE_RANK") => Launcher::Flux,
        () if prrte => Launcher::Prrte,
        () if orte => Launcher::OpenMpi,
        () if hydra && (has("PMI_RANK") || has("PMI_ID")) => Launcher::Hydra,
        () if has("JSM_NAMESPACE_RANK") => Launcher::Jsm,
        () if has("FLUX_TASK_RANK") => Launcher::Flux,
        () if step.is_some() && has("SLURM_PROCID") => Launcher::Slurm,
        () if has("PALS_RANKID") => Launcher::Pals,
        () if has("OMPI_COMM_WORLD_RANK") => Launcher::OpenMpi,
        () if has("PMIX_RANK") && has("PMIX_NAMESPACE") => Launcher::Pmix,
        () if has("PMI_RANK") && has("PMI_SIZE") => Launcher::Hydra,
        () if has("PBS_NODENUM") && variables.number("PBS_TASKNUM").is_some_and(|task| task > 1) => Launcher::Pbs,
        () => return None,
    };
    Some(found)
}

fn flux_answers_pmi(variables: &Variables<'_>) -> bool {
    same(variables, "PMI_RANK", "FLUX_TASK_RANK") && same(variables, "PMI_SIZE", "FLUX_JOB_SIZE")
}

/// Returns whether two variables are the same number.
fn same(variables: &Variables<'_>, one: &str, other: &str) -> bool {
    variables.number(one).is_some_and(|number| variables.number(other) == Some(number))
}

/// Returns `JOB.STEP`, if tasks were started in it.
pub fn slurm_step(variables: &Variables<'_>) -> Option<String> {
    let job = variables.first_number(&["SLURM_JOB_ID", "SLURM_JOBID"])?;
    let step = variables.first_number(&["SLURM_STEP_ID", "SLURM_STEPID"])?;
    (step < SLURM_SPECIAL_STEPS).then(|| format!("{job}.{step}"))
}
