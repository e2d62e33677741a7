//! The nodes of the allocation that a launch is in.

use headwater_topology::hosts::Hostlist;

use super::hosts::{Hosts, Names};
use super::variables::Variables;
use crate::Launcher;

/// Returns the resource manager's list, if the launcher may run in its allocations.
pub fn hosts(launcher: Launcher, variables: &Variables<'_>) -> Option<Hosts> {
    let list = match launcher {
        Launcher::Jsm => lsf(variables),
        _ => slurm(variables).or_else(|| pbs(variables)).or_else(|| lsf(variables)),
    };
    list.map(|names| Hosts { names, exact: false })
}

fn slurm(variables: &Variables<'_>) -> Option<Names> {
    let names = ["SLURM_JOB_NODELIST", "SLURM_NODELIST"];
    names.iter().find_map(|name| variables.hostlist(name)).map(Names::List)
}

/// Reads PBS's and Torque's, from qsub(1B).
fn pbs(variables: &Variables<'_>) -> Option<Names> {
    variables.text("PBS_NODEFILE").map(|file| Names::File(file.into()))
}

/// Reads LSF's, from bsub(1): names, each with its number of slots. The first is the node of the job's
/// script; in jobs for `jsrun` that is a separate node with one slot.
fn lsf(variables: &Variables<'_>) -> Option<Names> {
    if let Some(text) = variables.text("LSB_MCPU_HOSTS") {
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        let (pairs, []) = words.as_chunks::<2>() else { return None };
        let is_launch_node = pairs.len() > 1 && pairs[0][1] == "1" && pairs[1][1] != "1";
        let names = pairs.iter().skip(usize::from(is_launch_node)).map(|[name, _]| *name);
        return Hostlist::from_names(names).ok().filter(|list| !list.is_empty()).map(Names::List);
    }
    variables.text("LSB_DJOB_HOSTFILE").map(|file| Names::File(file.into()))
}
