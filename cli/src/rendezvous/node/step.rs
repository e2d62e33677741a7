//! The step of a batch system that this agent is part of. Slurm with `proctrack/cgroup` kills what is left of a step on
//! a node, the agent included, as soon as the step's last task there has ended. So the agent reports in between, and
//! leaves when the last task ends.

use std::collections::HashSet;
use std::env;
use std::fs;
use std::time::{Duration, Instant};

use headwater_launch::info::LaunchInfo;
use mio::Token;
use rustix::process::Pid;

use super::host;

/// When the first report is due after the start. Each further one is due after twice the pause.
const PAUSE: Duration = Duration::from_millis(30);
/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// A step that ends with its tasks.
#[derive(Debug)]
pub struct Step {
    /// The tasks that run.
    tasks: HashSet<Token>,
    /// How many have ended.
    ended: u32,
    /// How many the step has on this node.
    total: Option<u32>,
    pause: Duration,
    /// When the next report is due; `None` while one is being made.
    due: Option<Instant>,
}

impl Step {
    /// Returns the step of this process, if the batch system kills what is left of it.
    pub fn of_this_process(info: Option<&LaunchInfo>) -> Option<Step> {
        let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        is_in_step(&groups).then(|| Step::new(info.and_then(|info| info.local_size)))
    }

    fn new(total: Option<u32>) -> Step {
        Step { tasks: HashSet::new(), ended: 0, total, pause: PAUSE, due: Some(Instant::now() + PAUSE) }
    }

    /// Notes a process that has attached. What a task starts is no task, and other steps may use the session, too.
    pub fn note(&mut self, process: Pid, token: Token) {
        let variable = host::variables_of(process);
        let is_task = variable("SLURM_TASK_PID").is_some_and(|task| *task == *process.as_raw_nonzero().to_string());
        if is_task && ["SLURM_JOB_ID", "SLURM_STEP_ID"].iter().all(|name| variable(name) == env::var_os(name)) {
            self.tasks.insert(token);
        }
    }

    /// Notes the end of a process; returns whether all tasks have ended.
    pub fn note_end(&mut self, token: Token) -> bool {
        self.ended += u32::from(self.tasks.remove(&token));
        self.tasks.is_empty() && self.total.is_some_and(|total| self.ended >= total)
    }

    /// Returns how long it is until a report is due: zero if it is to be made now. `None` while one is being made.
    pub fn until_report(&mut self, now: Instant) -> Option<Duration> {
        let wait = self.due?.saturating_duration_since(now);
        if wait.is_zero() {
            self.due = None;
        }
        Some(wait)
    }

    /// Notes that a report has been made, or has failed.
    pub fn reported(&mut self) {
        self.pause = (2 * self.pause).min(PAUSE_MAX);
        self.due = Some(Instant::now() + self.pause);
    }
}

/// Returns whether these control groups (proc_pid_cgroup(5)) are those of a step of Slurm.
fn is_in_step(groups: &str) -> bool {
    let paths = groups.lines().filter_map(|line| line.splitn(3, ':').nth(2));
    paths.flat_map(|path| path.split('/').zip(path.split('/').skip(1))).any(|(job, step)| {
        let is_number = |text: Option<&str>| text.is_some_and(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
        is_number(job.strip_prefix("job_")) && is_number(step.strip_prefix("step_"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_known_by_their_groups() {
        for groups in [
            "0::/system.slice/slurmstepd.scope/job_5/step_0/user/task_1\n",
            "0::/system.slice/node001_slurmstepd.scope/job_5/step_12/user/task_special\n",
            "9:memory:/\n4:freezer:/slurm_node001/uid_0/job_17/step_0\n0::/init.scope\n",
        ] {
            assert!(is_in_step(groups), "{groups}");
        }
        for groups in ["0::/\n", "0::/slurmstepd.scope/job_5/step_batch/user/task_0\n", "0::/job_x/step_0\n", ""] {
            assert!(!is_in_step(groups), "{groups}");
        }
    }

    #[test]
    fn it_ends_with_its_last_task() {
        let mut step = Step::new(Some(2));
        step.tasks.insert(Token(1));
        assert!(!step.note_end(Token(1)), "another one has not begun");
        step.tasks.extend([Token(2)]);
        assert!(!step.note_end(Token(3)), "no task");
        assert!(step.note_end(Token(2)));
        assert!(!Step::new(None).note_end(Token(1)));
    }

    #[test]
    fn pauses_between_reports_grow() {
        let mut step = Step::new(None);
        let first = step.due.unwrap();
        let before = Duration::from_millis(1);
        assert_eq!(step.until_report(first - before), Some(before));
        assert_eq!(step.until_report(first), Some(Duration::ZERO));
        assert_eq!(step.until_report(first), None, "it is being made");
        step.reported();
        assert!(step.until_report(first).unwrap() >= PAUSE);
        for _ in 0..20 {
            step.reported();
        }
        assert_eq!(step.pause, PAUSE_MAX);
    }
}
