//! A finding: as a line for people, as JSON, and as variables.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use headwater_figures::text::grouped;
use serde::Serialize;

use super::jobs::{Job, JobKind};
use super::judge::{Change, Counted, Load};
use crate::users;

/// What a shell takes as it is; other characters of a name are replaced in variables.
const PLAIN: &str = "._+-/:@%,=";

/// What has happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// A job is over the limit.
    Began,
    /// It is below half of it again.
    Ended,
}

/// A finding. Its fields are those of the JSON.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    /// What has happened.
    pub event: Event,
    /// When, in milliseconds since 1970.
    pub time_unix_ms: u64,
    /// Where the file system is mounted.
    pub mount: String,
    /// Its type.
    pub file_system: String,
    /// The job; `None` if the operations can't be attributed.
    pub job: Option<Job>,
    /// Its user.
    pub uid: Option<u32>,
    /// The user's name, if this node's own list has it.
    pub user: Option<String>,
    /// The program with most opens.
    pub program: Option<String>,
    /// Processes that opened files in the samples.
    pub processes: usize,
    /// Its rate on this node, per second; of an end the highest.
    pub per_second: u64,
    /// Whether the rate counts opens, or operations that the file system counts.
    pub counted: &'static str,
    /// Whether the rate is a lower bound.
    pub is_at_least: bool,
    /// Its part of all opens on this node.
    pub share_percent: u64,
    /// Directories with most opens.
    pub directories: Vec<String>,
    /// From the begin to the end, in seconds.
    pub duration_s: Option<u64>,
}

impl Finding {
    /// Makes the finding of a decision, at the present time.
    pub fn of(change: &Change) -> Finding {
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let user = |load: &Load| load.job.as_ref().and_then(|_| users::name(load.uid));
        match change {
            Change::Began(load) => Finding::new(Event::Began, unix, load, None, user(load)),
            Change::Ended(after, load) => Finding::new(Event::Ended, unix, load, Some(*after), user(load)),
        }
    }

    fn new(event: Event, unix: Duration, load: &Load, duration: Option<Duration>, user: Option<String>) -> Finding {
        let is_known = load.job.is_some();
        Finding {
            event,
            time_unix_ms: unix.as_millis() as u64,
            mount: load.mounted.point.display().to_string(),
            file_system: load.mounted.kind.clone(),
            job: load.job.clone(),
            uid: is_known.then_some(load.uid),
            user,
            program: is_known.then(|| load.program.clone()),
            processes: load.processes,
            per_second: load.per_second.round() as u64,
            counted: counted(load.counted),
            is_at_least: load.is_at_least,
            share_percent: (load.share * 100.0).round() as u64,
            directories: load.directories.iter().map(|directory| directory.display().to_string()).collect(),
            duration_s: duration.map(|duration| duration.as_secs()),
        }
    }

    /// Returns it as a line of JSON, without an end of line.
    pub fn json(&self) -> String {
        serde_json::to_string(self).expect("it has texts and numbers alone")
    }

    /// Returns it as variables. Characters with a meaning for shells are replaced by `?`, except in the JSON.
    pub fn variables(&self) -> Vec<(&'static str, String)> {
        let job = self.job.as_ref();
        let event = if self.event == Event::Began { "began" } else { "ended" };
        let number = |number: Option<u64>| number.map(|number| number.to_string()).unwrap_or_default();
        vec![
            ("HEADWATER_FINDING_EVENT", event.to_owned()),
            ("HEADWATER_FINDING_MOUNT", plain(&self.mount)),
            ("HEADWATER_FINDING_FILE_SYSTEM", plain(&self.file_system)),
            ("HEADWATER_FINDING_JOB_KIND", job.map_or("none", |job| job.kind.name()).to_owned()),
            ("HEADWATER_FINDING_JOB_ID", job.map(|job| plain(&job.id)).unwrap_or_default()),
            ("HEADWATER_FINDING_UID", number(self.uid.map(u64::from))),
            ("HEADWATER_FINDING_PROGRAM", self.program.as_deref().map(plain).unwrap_or_default()),
            ("HEADWATER_FINDING_PER_SECOND", self.per_second.to_string()),
            ("HEADWATER_FINDING_COUNTED", self.counted.to_owned()),
            ("HEADWATER_FINDING_SHARE_PERCENT", self.share_percent.to_string()),
            ("HEADWATER_FINDING_DIRECTORIES", plain(&self.directories.join(":"))),
            ("HEADWATER_FINDING_JSON", self.json()),
        ]
    }

    fn fmt_job(&self, f: &mut fmt::Formatter<'_>, job: &Job) -> fmt::Result {
        write!(f, "{job} (user ")?;
        match (&self.user, self.uid) {
            (Some(user), _) => write!(f, "{user}")?,
            (None, uid) => write!(f, "{}", uid.unwrap_or_default())?,
        }
        let processes = if self.processes == 1 { "process" } else { "processes" };
        write!(f, ", {}, {} {processes})", self.program.as_deref().unwrap_or_default(), grouped(self.processes as u64))
    }
}

/// Returns the name of what a rate counts.
pub fn counted(counted: Counted) -> &'static str {
    match counted {
        Counted::Opens => "opens",
        Counted::Operations => "operations",
    }
}

fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_alphanumeric() || PLAIN.contains(c) { c } else { '?' }).collect()
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Finding { mount, file_system, counted, .. } = self;
        let rate = grouped(self.per_second);
        match (&self.job, self.event) {
            (Some(job), Event::Began) => {
                self.fmt_job(f, job)?;
                let least = if self.is_at_least { "at least " } else { "" };
                write!(f, " makes {least}{rate} {counted}/s on {mount} ({file_system})")?;
                write!(f, ", {} % of this node's", self.share_percent)?;
                if let Some(directory) = self.directories.first() {
                    write!(f, ", most in {directory}")?;
                }
                let program = self.program.as_deref().unwrap_or_default();
                let whose = if job.kind == JobKind::Unit { "Start" } else { "Its user can start" };
                write!(
                    f,
                    ". {whose} the program with `headwater run`; `headwater explain -- {program}` shows its files"
                )
            }
            (Some(job), Event::Ended) => {
                self.fmt_job(f, job)?;
                let seconds = grouped(self.duration_s.unwrap_or_default());
                write!(f, " is below the limit on {mount} again, after {seconds} s with at most {rate} {counted}/s")
            }
            (None, Event::Began) => write!(
                f,
                "{mount} ({file_system}) has {rate} {counted}/s of processes that open no files, or end at once: \
                 no job can be named. Compare the jobs on this node"
            ),
            (None, Event::Ended) => {
                let seconds = grouped(self.duration_s.unwrap_or_default());
                write!(f, "processes without a known job are below the limit on {mount} again, after {seconds} s")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::mounts::Mounted;
    use super::*;
    use std::sync::Arc;

    fn load(job: Option<&str>) -> Load {
        let mounted = Mounted { device: "0:45".into(), point: "/sw".into(), kind: "NFS".into() };
        Load {
            mounted: Arc::new(mounted),
            job: job.map(|id| Job { kind: JobKind::Slurm, id: id.into() }),
            uid: 1000,
            program: "python3".into(),
            processes: 64,
            per_second: 12_345.4,
            counted: Counted::Operations,
            share: 0.971,
            is_at_least: false,
            directories: vec!["/sw/lib/python3.12".into(), "/sw/b".into()],
        }
    }

    fn finding(event: Event, job: Option<&str>, duration: Option<Duration>) -> Finding {
        let user = job.map(|_| "alice".into());
        Finding::new(event, Duration::from_millis(7), &load(job), duration, user)
    }

    #[test]
    fn people_read_object_cause_and_next_step() {
        let check = |finding: Finding, expected: &str| assert_eq!(finding.to_string(), expected);
        check(
            finding(Event::Began, Some("4242"), None),
            "Slurm job 4242 (user alice, python3, 64 processes) makes 12,345 operations/s on /sw (NFS), 97 % of this \
             node's, most in /sw/lib/python3.12. Its user can start the program with `headwater run`; `headwater \
             explain -- python3` shows its files",
        );
        check(
            finding(Event::Ended, Some("4242"), Some(Duration::from_secs(40))),
            "Slurm job 4242 (user alice, python3, 64 processes) is below the limit on /sw again, after 40 s with at most \
             12,345 operations/s",
        );
        check(
            finding(Event::Began, None, None),
            "/sw (NFS) has 12,345 operations/s of processes that open no files, or end at once: no job can be named. \
             Compare the jobs on this node",
        );
    }

    #[test]
    fn programs_read_json_and_variables() {
        let json: serde_json::Value = serde_json::from_str(&finding(Event::Began, Some("4242"), None).json()).unwrap();
        assert_eq!(json["event"], "began");
        assert_eq!(json["job"], serde_json::json!({"kind": "slurm", "id": "4242"}));
        assert_eq!((&json["uid"], &json["user"]), (&1000.into(), &"alice".into()));
        assert_eq!((&json["per_second"], &json["share_percent"]), (&12345.into(), &97.into()));
        let variables = finding(Event::Ended, Some("1;`rm`$x\n"), None).variables();
        let value = |name: &str| variables.iter().find(|(n, _)| *n == name).unwrap().1.clone();
        assert_eq!(value("HEADWATER_FINDING_JOB_ID"), "1??rm??x?");
        assert_eq!(value("HEADWATER_FINDING_DIRECTORIES"), "/sw/lib/python3.12:/sw/b");
        let unnamed = finding(Event::Began, None, None);
        assert!(unnamed.json().contains(r#""job":null,"uid":null,"user":null"#), "{}", unnamed.json());
    }
}
