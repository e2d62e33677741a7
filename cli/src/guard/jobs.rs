//! Which job a process belongs to, from /proc.
//!
//! Control groups come first, because users can't change them. A variable of a batch system comes next: a process can
//! set it to another job's number, so findings show the user too, which the kernel knows.

use std::fmt;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::MetadataExt;

use serde::Serialize;

/// Bytes of an environment that are searched.
const ENVIRONMENT_BYTES_MAX: u64 = 256 << 10;
/// Characters of a name that are shown.
const NAME_CHARS_MAX: usize = 64;
/// Variables of batch systems with a job's number.
const VARIABLES: [(&str, JobKind); 4] = [
    ("SLURM_JOB_ID", JobKind::Slurm),
    ("PBS_JOBID", JobKind::Pbs),
    ("LSB_JOBID", JobKind::Lsf),
    ("FLUX_JOB_ID", JobKind::Flux),
];

/// What a job is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum JobKind {
    /// A job of Slurm.
    Slurm,
    /// A job of PBS.
    Pbs,
    /// A job of LSF.
    Lsf,
    /// A job of Flux.
    Flux,
    /// A unit of systemd: a service, or the scope of a login.
    Unit,
    /// Processes of one session (setsid(2)).
    Session,
}

/// A job, or what is nearest to one.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct Job {
    /// What it is of.
    pub kind: JobKind,
    /// Its number or name there.
    pub id: String,
}

/// A process that opened files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its job.
    pub job: Job,
    /// Its user.
    pub uid: u32,
    /// Its executable's name.
    pub program: String,
}

impl JobKind {
    /// Returns its name in JSON and in variables.
    pub fn name(self) -> &'static str {
        match self {
            JobKind::Slurm => "slurm",
            JobKind::Pbs => "pbs",
            JobKind::Lsf => "lsf",
            JobKind::Flux => "flux",
            JobKind::Unit => "unit",
            JobKind::Session => "session",
        }
    }
}

impl fmt::Display for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            JobKind::Slurm => write!(f, "Slurm job {}", self.id),
            JobKind::Pbs => write!(f, "PBS job {}", self.id),
            JobKind::Lsf => write!(f, "LSF job {}", self.id),
            JobKind::Flux => write!(f, "Flux job {}", self.id),
            JobKind::Unit => write!(f, "{}", self.id),
            JobKind::Session => write!(f, "session {}", self.id),
        }
    }
}

impl Process {
    /// Returns the process with this PID; `None` if it has ended.
    pub fn of(pid: i32) -> Option<Process> {
        let path = |name: &str| format!("/proc/{pid}/{name}");
        let groups = fs::read_to_string(path("cgroup")).unwrap_or_default();
        let job = of_batch_group(&groups)
            .or_else(|| of_environment(&environment(&path("environ"))))
            .or_else(|| of_unit(&groups))
            .or_else(|| Some(session(&fs::read_to_string(path("stat")).ok()?)));
        // A process that ends has no executable, and had perhaps no environment any more.
        let executable = fs::read_link(path("exe")).ok()?;
        let program = executable.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let uid = fs::metadata(format!("/proc/{pid}")).ok()?.uid();
        Some(Process { job: job?, uid, program: shown(program.trim_end_matches(" (deleted)")) })
    }

    /// Returns whether it belongs to a service of Headwater, which reads for others.
    pub fn is_of_headwater(&self) -> bool {
        self.job.kind == JobKind::Unit && self.job.id.starts_with("headwater-")
    }
}

/// Returns a name without control characters, and of limited length.
fn shown(name: &str) -> String {
    name.trim_end().chars().map(|c| if c.is_control() { '?' } else { c }).take(NAME_CHARS_MAX).collect()
}

fn environment(path: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Ok(file) = File::open(path) {
        // What can't be read has no variables.
        let _ = file.take(ENVIRONMENT_BYTES_MAX).read_to_end(&mut bytes);
    }
    bytes
}

/// Returns the components of each control group of a process (proc_pid_cgroup(5)).
fn components(groups: &str) -> impl Iterator<Item = Vec<&str>> {
    groups.lines().filter_map(|line| Some(line.splitn(3, ':').nth(2)?.split('/').collect()))
}

/// Returns the job of a batch system that has a control group for each job.
fn of_batch_group(groups: &str) -> Option<Job> {
    components(groups).find_map(|path| {
        let is_slurms = path.iter().any(|name| name.starts_with("slurm") || name.ends_with("_slurmstepd.scope"));
        let number = path.iter().find_map(|name| name.strip_prefix("job_")).filter(|id| is_slurms && is_number(id));
        // OpenPBS: pbs_jobs.service/jobid/12.server.
        let below = || path.iter().skip_while(|name| **name != "pbs_jobs.service").skip(1);
        let job = below().find(|name| **name != "jobid" && !name.is_empty());
        number
            .map(|id| Job { kind: JobKind::Slurm, id: id.into() })
            .or_else(|| Some(Job { kind: JobKind::Pbs, id: shown(job?) }))
    })
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns the job that the variables of a batch system name.
fn of_environment(environment: &[u8]) -> Option<Job> {
    let value = |name: &str| {
        let mut variables = environment.split(|&byte| byte == 0);
        variables.find_map(|variable| variable.strip_prefix(name.as_bytes())?.strip_prefix(b"="))
    };
    VARIABLES.iter().find_map(|(name, kind)| {
        let id = value(name).filter(|id| !id.is_empty())?;
        Some(Job { kind: *kind, id: shown(&String::from_utf8_lossy(id)) })
    })
}

/// Returns the innermost unit of systemd.
fn of_unit(groups: &str) -> Option<Job> {
    let is_unit = |name: &&str| name.ends_with(".service") || name.ends_with(".scope");
    let unit = components(groups).find_map(|path| path.into_iter().rfind(is_unit))?;
    Some(Job { kind: JobKind::Unit, id: shown(unit) })
}

/// Returns the session of a process with this line of state (proc_pid_stat(5)).
fn session(stat: &str) -> Job {
    let behind_name = stat.rsplit_once(") ").map_or("", |(_, fields)| fields);
    let id = behind_name.split(' ').nth(3).unwrap_or("0");
    Job { kind: JobKind::Session, id: shown(id) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_of_control_groups() {
        let check = |groups: &str, expected: Option<&str>| {
            let found = of_batch_group(groups).or_else(|| of_unit(groups)).map(|job| job.to_string());
            assert_eq!(found.as_deref(), expected, "{groups}");
        };
        check("0::/system.slice/slurmstepd.scope/job_4242/step_0/user/task_0\n", Some("Slurm job 4242"));
        check("0::/system.slice/n1_slurmstepd.scope/job_7/step_batch/user\n", Some("Slurm job 7"));
        check(
            "5:cpuset:/slurm/uid_1000/job_17/step_batch\n1:name=systemd:/system.slice/slurmd.service\n",
            Some("Slurm job 17"),
        );
        check("0::/pbs_jobs.service/jobid/12.server\n", Some("PBS job 12.server"));
        check("0::/user.slice/user-1000.slice/session-3.scope\n", Some("session-3.scope"));
        check("0::/user.slice/user-1.slice/job_4\n", None);
        check("0::/user.slice/user-1.slice/slurm/job_x4\n", None);
        check("0::/\n", None);
        check("", None);
    }

    #[test]
    fn jobs_of_variables() {
        let check = |environment: &str, expected: Option<&str>| {
            assert_eq!(of_environment(environment.as_bytes()).map(|job| job.to_string()).as_deref(), expected);
        };
        check("A=1\0SLURM_JOB_ID=12\0PBS_JOBID=3.s\0", Some("Slurm job 12"));
        check("PBS_JOBID=3.s\0", Some("PBS job 3.s"));
        check("FLUX_JOB_ID=ƒ2\n", Some("Flux job ƒ2"));
        check("SLURM_JOB_ID=\0XSLURM_JOB_ID=3\0", None);
    }

    #[test]
    fn sessions_are_behind_any_name() {
        assert_eq!(session("12 (a) b) S 1 12 77 0 -1").to_string(), "session 77");
    }

    #[test]
    fn this_process_has_a_job() {
        let own = Process::of(std::process::id() as i32).unwrap();
        assert_eq!(own.uid, rustix::process::geteuid().as_raw());
        assert!(own.program.starts_with("headwater") && !own.job.id.is_empty(), "{own:?}");
        assert_eq!(Process::of(i32::MAX), None);
    }
}
