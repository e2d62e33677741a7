//! The session of a batch system's job, which all steps of the job share.
//!
//! A link beside the job file, named by the job, leads to the session. On Slurm, Flux and PBS a command of its own, which
//! takes no resources of others, keeps the session's nodes for as long as the session lasts: what a step starts ends with
//! it.

use std::collections::BTreeSet;
use std::env;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;

use headwater_launch::command::Prepared;
use headwater_launch::info::TOOL_NODES;

use super::file::{Job, JobFile, directory_or_default};
use crate::options::run::ServiceOptions;
use crate::session::directory::is_session_name;
use crate::via::Via;

/// Batch systems, and their variables with the job's number. An instance of Flux lies within the other systems' jobs.
const JOBS: [(&str, &str); 4] =
    [("flux", "FLUX_ENCLOSING_ID"), ("slurm", "SLURM_JOB_ID"), ("pbs", "PBS_JOBID"), ("lsf", "LSB_JOBID")];
/// What the step that keeps the nodes runs there.
const KEEPER: [&str; 2] = ["sleep", "infinity"];

/// The job's link to its session; it is removed when this is dropped.
#[derive(Debug)]
pub struct Claim {
    link: PathBuf,
    session: PathBuf,
}

impl Claim {
    /// Makes a session the one of this process's job. `None` outside of jobs, and if the job has a session already.
    pub fn make(file: &JobFile) -> Option<Claim> {
        let directory = file.path().parent()?;
        let link = directory.join(name_of_job(|name| env::var(name).ok())?);
        let session = PathBuf::from(file.path().file_name()?);
        if !link.exists() {
            // The link of a session that was killed.
            let _ = fs::remove_file(&link);
        }
        symlink(&session, &link).ok()?;
        Some(Claim { link, session })
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if fs::read_link(&self.link).is_ok_and(|session| session == self.session) {
            let _ = fs::remove_file(&self.link);
        }
    }
}

/// Returns the session of this process's job, if it has one that serves what these options ask for.
pub fn session(options: &ServiceOptions) -> Option<(String, Job)> {
    let directory = directory_or_default(options.job_dir.as_deref()).ok()?;
    let link = directory.join(name_of_job(|name| env::var(name).ok())?);
    let name = fs::read_link(link).ok()?.into_os_string().into_string().ok()?;
    let (_, job) = Job::of_session(&name, Some(&directory)).ok()?;
    serves(&job, options).then_some((name, job))
}

/// Returns whether a session serves what these options ask for.
fn serves(job: &Job, options: &ServiceOptions) -> bool {
    let scope = &job.service.scope;
    let is_in = |directory: &PathBuf| {
        let directory = fs::canonicalize(directory).unwrap_or_else(|_| directory.clone());
        let above = |(_, path): &&(bool, String)| directory.starts_with(path);
        let nearest = scope.iter().filter(above).max_by_key(|(_, path)| path.len());
        nearest.is_some_and(|(is_served, _)| *is_served)
    };
    let of_job = &job.service;
    (options.via == Via::Auto || options.via == of_job.via)
        && (options.served.kinds(), options.served.follow_fork) == (of_job.serve, of_job.follows_fork)
        && options.shared.iter().all(is_in)
        && !options.exclude.iter().any(is_in)
}

/// Returns the command that keeps the job's nodes; `prefix` is what makes a program of the launcher take part. `None` if
/// the batch system has no such command, or in a step, which can't speak for the job.
pub fn keeper(prefix: Vec<OsString>) -> Option<Vec<OsString>> {
    let (system, _) = batch_job(&|name| env::var(name).ok())?;
    let start = match system {
        "flux" => keeper_of_flux(),
        "slurm" => keeper_of_slurm(),
        "pbs" => keeper_of_pbs(),
        _ => None,
    };
    Some(start?.into_iter().map(OsString::from).chain(prefix).chain(KEEPER.map(OsString::from)).collect())
}

fn is_set(name: &str) -> bool {
    env::var_os(name).is_some_and(|value| !value.is_empty())
}

/// Flux starts it beside its jobs. It doesn't count the hosts for the processes, of which several may be on one host.
fn keeper_of_flux() -> Option<Vec<String>> {
    if is_set("FLUX_TASK_RANK") {
        return None;
    }
    let counted = Command::new("flux").args(["hostlist", "--unique", "--count", "instance"]).output().ok()?;
    let hosts: u32 = String::from_utf8(counted.stdout).ok()?.trim().parse().ok()?;
    Some(on_hosts(&["flux", "exec", "--quiet", "--noinput"], hosts))
}

/// PBS starts it on all hosts of the job. Its script is the job's first task.
fn keeper_of_pbs() -> Option<Vec<String>> {
    let is_script = env::var("PBS_TASKNUM").is_ok_and(|task| task == "1");
    Some(on_hosts(&["pbsdsh", "--"], hosts_of_pbs().filter(|_| is_script)?))
}

/// Returns the number of nodes of a launch whose processes aren't told it, if it is that of this process's job.
pub fn nodes_of(launch: &Prepared) -> Option<u32> {
    launch.is_on_all_hosts.then(hosts_of_pbs).flatten()
}

/// Returns the number of hosts of this process's job of PBS, on the host that knows it.
fn hosts_of_pbs() -> Option<u32> {
    let list = fs::read_to_string(env::var_os("PBS_NODEFILE")?).ok()?;
    let hosts: BTreeSet<&str> = list.lines().filter(|host| !host.is_empty()).collect();
    u32::try_from(hosts.len()).ok().filter(|count| *count > 0)
}

/// Returns a command by which `launcher` tells what it starts the number of hosts.
fn on_hosts(launcher: &[&str], hosts: u32) -> Vec<String> {
    launcher.iter().copied().chain(["env"]).map(String::from).chain([format!("{TOOL_NODES}={hosts}")]).collect()
}

fn keeper_of_slurm() -> Option<Vec<String>> {
    let nodes: u32 = env::var("SLURM_JOB_NUM_NODES").ok()?.parse().ok()?;
    if is_set("SLURM_STEP_ID") {
        return None;
    }
    let options = [
        format!("--nodes={nodes}"),
        format!("--ntasks={nodes}"),
        "--ntasks-per-node=1".into(),
        "--job-name=headwater".into(),
    ];
    let shared = ["--overlap", "--mem=0", "--cpu-bind=none", "--mpi=none", "--input=none", "--quiet"];
    Some(["srun"].into_iter().chain(shared).map(String::from).chain(options).collect())
}

/// Returns the batch system whose job has these variables, and the job's number.
fn batch_job(variable: &dyn Fn(&str) -> Option<String>) -> Option<(&'static str, String)> {
    let id = |name| variable(name).filter(|id| !id.is_empty());
    JOBS.iter().find_map(|(system, name)| Some((*system, id(name)?)))
}

/// Returns the name of the link of the job with these variables.
fn name_of_job(variable: impl Fn(&str) -> Option<String>) -> Option<String> {
    let (system, id) = batch_job(&variable)?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-[]".contains(c);
    // Flux's own digits of numbers begin with this letter.
    let id = id.replace('ƒ', "f");
    let cluster = variable("SLURM_CLUSTER_NAME").filter(|_| system == "slurm");
    let name = [Some(system.to_owned()), cluster, Some(id)].into_iter().flatten().collect::<Vec<String>>().join("-");
    (name.chars().all(is_plain) && !is_session_name(name.as_ref())).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_named_by_its_batch_system() {
        let check = |variables: &[(&str, &str)], expected: Option<&str>| {
            let of = |name: &str| Some(variables.iter().find(|(key, _)| *key == name)?.1.to_owned());
            assert_eq!(name_of_job(of).as_deref(), expected);
        };
        check(&[("SLURM_JOB_ID", "12")], Some("slurm-12"));
        check(&[("SLURM_JOB_ID", "12"), ("SLURM_CLUSTER_NAME", "alps")], Some("slurm-alps-12"));
        check(&[("PBS_JOBID", "7[3].server"), ("SLURM_CLUSTER_NAME", "alps")], Some("pbs-7[3].server"));
        check(&[("SLURM_JOB_ID", "12"), ("FLUX_ENCLOSING_ID", "ƒSTcfgT")], Some("flux-fSTcfgT"));
        check(&[("FLUX_ENCLOSING_ID", ""), ("SLURM_JOB_ID", "12")], Some("slurm-12"));
        check(&[("LSB_JOBID", "../x")], None);
        check(&[], None);
    }
}
