//! The site's program that is run for each finding.
//!
//! It is run by a thread of its own, one at a time and for a limited time, so it can't delay the watching. Beyond a
//! limit, findings are dropped and counted.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::finding::Finding;
use crate::message::log;

/// Findings that wait.
const WAITING_MAX: usize = 16;
/// The time of one run.
const TIME_MAX: Duration = Duration::from_secs(10);
/// How often its end is checked.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// A handle of the thread.
#[derive(Debug)]
pub struct Hook {
    findings: SyncSender<Finding>,
}

impl Hook {
    /// Starts the thread.
    ///
    /// # Errors
    /// The program is not an executable file with an absolute path.
    pub fn start(program: &Path) -> Result<Hook> {
        let shown = program.display();
        let is_file = program.is_absolute() && program.is_file();
        ensure!(is_file, "--command {shown} is not a file; name a program by its absolute path");
        let is_executable = rustix::fs::access(program, rustix::fs::Access::EXEC_OK).is_ok();
        ensure!(is_executable, "--command {shown} is not executable: `chmod +x {shown}`");
        let (findings, waiting) = sync_channel(WAITING_MAX);
        let program = program.to_owned();
        let run = move || run_all(&program, &waiting);
        thread::Builder::new().name("hook".into()).spawn(run).context("there can't be another thread")?;
        Ok(Hook { findings })
    }

    /// Has the program run for a finding.
    pub fn notify(&self, finding: &Finding) {
        if let Err(TrySendError::Full(_)) = self.findings.try_send(finding.clone()) {
            log("warning: --command is too slow: a finding was not passed on");
        }
    }
}

fn run_all(program: &Path, waiting: &Receiver<Finding>) {
    for finding in waiting {
        if let Err(error) = run(program, &finding, TIME_MAX) {
            log(format_args!("warning: --command {}: {error:#}", program.display()));
        }
    }
}

/// Runs the program once. After `time_max` it is killed.
fn run(program: &Path, finding: &Finding, time_max: Duration) -> Result<()> {
    let mut command = Command::new(program);
    command.envs(finding.variables()).stdin(Stdio::null()).stdout(Stdio::null());
    let mut child = command.spawn().context("it can't be executed")?;
    let deadline = Instant::now() + time_max;
    loop {
        if let Some(status) = child.try_wait()? {
            ensure!(status.success(), "it failed ({status})");
            return Ok(());
        }
        if Instant::now() >= deadline {
            child.kill()?;
            child.wait()?;
            anyhow::bail!("it was killed after {} s", time_max.as_secs_f32());
        }
        thread::sleep(CHECK_INTERVAL);
    }
}

#[cfg(test)]
mod tests {
    use super::super::judge::{Change, Counted, Load};
    use super::super::mounts::Mounted;
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::sync::Arc;

    fn finding() -> Finding {
        let mounted = Arc::new(Mounted { device: "0:1".into(), point: "/sw".into(), kind: "NFS".into() });
        Finding::of(&Change::Began(Load {
            mounted,
            job: None,
            uid: 0,
            program: String::new(),
            processes: 0,
            per_second: 5.0,
            counted: Counted::Opens,
            share: 1.0,
            is_at_least: false,
            directories: Vec::new(),
        }))
    }

    #[test]
    fn programs_get_the_finding_and_end() {
        let directory = tempfile::tempdir().unwrap();
        let script = |name: &str, text: &str| {
            let path = directory.path().join(name);
            fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
            path
        };
        let seen = directory.path().join("seen");
        let good =
            script("good", &format!("echo $HEADWATER_FINDING_EVENT $HEADWATER_FINDING_PER_SECOND >{}", seen.display()));
        run(&good, &finding(), TIME_MAX).unwrap();
        assert_eq!(fs::read_to_string(&seen).unwrap(), "began 5\n");
        let error = |program: &Path| run(program, &finding(), Duration::from_millis(100)).unwrap_err().to_string();
        assert!(error(&script("bad", "exit 3")).contains("exit status: 3"));
        assert!(error(&script("slow", "exec sleep 1000")).contains("killed"));
        let refusal = |program: &Path| Hook::start(program).unwrap_err().to_string();
        assert!(refusal(Path::new("notify")).contains("absolute") && refusal(&seen).contains("chmod"));
    }
}
