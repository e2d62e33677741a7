//! Which jobs are named: a decision from samples, without I/O and without a clock.
//!
//! A job's rate is the mean of its rates in the samples of an interval. Where the file system counts its operations, the
//! job has as large a share of them as of the opens.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::jobs::{Job, Process};
use super::mounts::Mounted;

/// Jobs that are distinguished on a file system in an interval; the opens of others are those of no job.
const JOBS_MAX: usize = 1024;
/// Processes that are counted of a job.
const PROCESSES_MAX: usize = 4096;
/// Directories and programs that are distinguished of a job.
const NAMES_MAX: usize = 64;
/// Directories that are named.
const DIRECTORIES_NAMED_MAX: usize = 3;
/// Fewer opens than this have no shares, and no rate above the limit.
const OPENS_MIN: u64 = 20;
/// A job is named until its rate falls below this part of the limit.
const END_PART: f64 = 0.5;

/// A sample of a file system: all opens in a known time.
#[derive(Debug)]
pub struct Sample {
    /// The file system.
    pub mounted: Arc<Mounted>,
    /// The time that the opens are of: how long they were reported, or were to be if a burst has ended the sample.
    pub time: Duration,
    /// Opens of known processes, with their PIDs.
    pub opens: Vec<(i32, Arc<Process>, u64)>,
    /// Opens of processes that had ended.
    pub opens_of_ended: u64,
    /// Opens of processes that were not examined, because they were too many.
    pub opens_unexamined: u64,
    /// Whether processes were examined at once, so that those that end soon are known by some of them.
    pub is_prompt: bool,
    /// Whether opens are missing.
    pub has_overflowed: bool,
    /// Directories of some of the files, with the PIDs.
    pub directories: Vec<(i32, PathBuf)>,
}

/// What is known of a job on a file system in an interval.
#[derive(Debug, Default)]
struct Tally {
    /// The sum of its rates in the samples, in opens per second.
    rates: f64,
    opens: u64,
    uid: u32,
    processes: HashMap<i32, ()>,
    programs: HashMap<String, u64>,
    directories: HashMap<PathBuf, u64>,
}

/// The samples of an interval of one file system.
#[derive(Debug)]
struct Window {
    mounted: Arc<Mounted>,
    samples: u32,
    jobs: HashMap<Job, Tally>,
    rates_of_ended: f64,
    opens: u64,
    /// Whether some samples were prompt: then processes that had ended in others are like those that are known.
    has_prompt: bool,
    is_at_least: bool,
}

/// What a rate counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// Opens of files and directories.
    Opens,
    /// Operations that the client has sent to servers.
    Operations,
}

/// A job on a file system.
#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    /// The file system.
    pub mounted: Arc<Mounted>,
    /// The job; `None` if the operations can't be attributed.
    pub job: Option<Job>,
    /// Its user.
    pub uid: u32,
    /// The program with most opens.
    pub program: String,
    /// Processes that opened files in the samples.
    pub processes: usize,
    /// Its rate, per second.
    pub per_second: f64,
    /// What the rate counts.
    pub counted: Counted,
    /// Its part of all opens on this node, from 0 to 1.
    pub share: f64,
    /// Whether the rate is too low, because opens were missed.
    pub is_at_least: bool,
    /// Directories with most opens.
    pub directories: Vec<PathBuf>,
}

/// A decision.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// The job is over the limit.
    Began(Load),
    /// The job is below it again: after which time, and its last known state, with its highest rate.
    Ended(Duration, Load),
}

/// What was decided so far.
#[derive(Debug)]
pub struct Judge {
    per_second_max: f64,
    windows: BTreeMap<String, Window>,
    /// By device and job: when it began, and its highest rate.
    over: BTreeMap<(String, Option<Job>), (Duration, Load)>,
    /// The last rate of each file system, for all jobs together.
    rates: BTreeMap<String, (Arc<Mounted>, f64, Counted)>,
}

impl Judge {
    /// Makes a judge that names jobs with more operations per second.
    pub fn new(per_second_max: u32) -> Judge {
        let (windows, over, rates) = Default::default();
        Judge { per_second_max: f64::from(per_second_max), windows, over, rates }
    }

    /// Takes a sample.
    pub fn note(&mut self, sample: &Sample) {
        let window = self.windows.entry(sample.mounted.device.clone()).or_insert_with(|| Window {
            mounted: Arc::clone(&sample.mounted),
            samples: 0,
            jobs: HashMap::new(),
            rates_of_ended: 0.0,
            opens: 0,
            has_prompt: false,
            is_at_least: false,
        });
        window.add(sample);
    }

    /// Ends the interval of a file system at `now`, a time since any start. `operations` is the rate that the file
    /// system counts, per second.
    ///
    /// Without a sample nothing changes: the file system may not have answered. Nor does it by a few opens in a short
    /// time.
    pub fn evaluate(&mut self, device: &str, now: Duration, operations: Option<f64>) -> Vec<Change> {
        let Some(window) = self.windows.remove(device) else { return Vec::new() };
        let counted = if operations.is_some() { Counted::Operations } else { Counted::Opens };
        let rate = operations.unwrap_or_else(|| window.rate());
        if operations.is_none() && window.opens < OPENS_MIN && rate >= self.per_second_max {
            return Vec::new();
        }
        self.rates.insert(device.to_owned(), (Arc::clone(&window.mounted), rate, counted));
        self.settle(device, now, window.loads(operations))
    }

    /// Compares the loads of a file system with the limit.
    fn settle(&mut self, device: &str, now: Duration, loads: Vec<Load>) -> Vec<Change> {
        let mut changes = Vec::new();
        let mut high = Vec::new();
        for load in loads {
            let key = (device.to_owned(), load.job.clone());
            let limit = if self.over.contains_key(&key) { END_PART * self.per_second_max } else { self.per_second_max };
            if load.per_second < limit {
                continue;
            }
            high.push(key.clone());
            match self.over.get_mut(&key) {
                Some((_, highest)) if highest.per_second >= load.per_second => {}
                Some((_, highest)) => *highest = load,
                None => {
                    self.over.insert(key, (now, load.clone()));
                    changes.push(Change::Began(load));
                }
            }
        }
        let ended: Vec<_> = self.over.keys().filter(|key| key.0 == device && !high.contains(key)).cloned().collect();
        for key in ended {
            let (began, load) = self.over.remove(&key).expect("it is one of the keys");
            changes.push(Change::Ended(now.saturating_sub(began), load));
        }
        changes
    }

    /// Returns the jobs that are over the limit, each with its highest rate.
    pub fn over(&self) -> impl Iterator<Item = &Load> {
        self.over.values().map(|(_, load)| load)
    }

    /// Returns the last rate of each file system, per second.
    pub fn rates(&self) -> impl Iterator<Item = &(Arc<Mounted>, f64, Counted)> {
        self.rates.values()
    }

    /// Forgets a file system that is not mounted any more. Returns what ended with it.
    pub fn forget(&mut self, device: &str, now: Duration) -> Vec<Change> {
        self.windows.remove(device);
        self.rates.remove(device);
        self.settle(device, now, Vec::new())
    }
}

impl Window {
    fn add(&mut self, sample: &Sample) {
        let seconds = sample.time.as_secs_f64().max(1e-6);
        let known: u64 = sample.opens.iter().map(|(_, _, opens)| opens).sum();
        let all = known + sample.opens_of_ended + sample.opens_unexamined;
        // Processes that were not examined are taken to be like the others. Without others, they have no job.
        let is_alike = known > 0;
        let of_ended = sample.opens_of_ended + if is_alike { 0 } else { sample.opens_unexamined };
        let scale = all as f64 / (known + of_ended).max(1) as f64;
        self.samples += 1;
        self.opens += all;
        self.has_prompt |= sample.is_prompt;
        self.is_at_least |= sample.has_overflowed;
        self.rates_of_ended += of_ended as f64 * scale / seconds;
        for (pid, process, opens) in &sample.opens {
            let rate = *opens as f64 * scale / seconds;
            if self.jobs.len() >= JOBS_MAX && !self.jobs.contains_key(&process.job) {
                self.rates_of_ended += rate;
                continue;
            }
            let tally = self.jobs.entry(process.job.clone()).or_default();
            tally.rates += rate;
            tally.opens += opens;
            tally.uid = process.uid;
            count(&mut tally.programs, &process.program, *opens, NAMES_MAX);
            if tally.processes.len() < PROCESSES_MAX {
                tally.processes.insert(*pid, ());
            }
            for (_, directory) in sample.directories.iter().filter(|(of, _)| of == pid) {
                count(&mut tally.directories, directory, 1, NAMES_MAX);
            }
        }
    }

    /// Returns the opens of all jobs, per second.
    fn rate(&self) -> f64 {
        let all = self.jobs.values().map(|tally| tally.rates).sum::<f64>() + self.rates_of_ended;
        all / f64::from(self.samples.max(1))
    }

    /// Returns each job's load, and that of no job.
    fn loads(&self, operations: Option<f64>) -> Vec<Load> {
        let known = self.jobs.values().map(|tally| tally.rates).sum::<f64>();
        let of_ended = if self.has_prompt && known > 0.0 { 0.0 } else { self.rates_of_ended };
        let all = self.rate();
        let counted = if operations.is_some() { Counted::Operations } else { Counted::Opens };
        let has_shares = self.opens >= OPENS_MIN;
        let share = |rates: f64| rates / (known + of_ended).max(f64::MIN_POSITIVE);
        let mut loads: Vec<Load> = Vec::new();
        for (job, tally) in self.jobs.iter().filter(|_| has_shares) {
            let share = share(tally.rates);
            loads.push(Load {
                mounted: Arc::clone(&self.mounted),
                job: Some(job.clone()),
                uid: tally.uid,
                program: most(&tally.programs).into_iter().next().cloned().unwrap_or_default(),
                processes: tally.processes.len(),
                per_second: operations.unwrap_or(all) * share,
                counted,
                share,
                is_at_least: self.is_at_least && operations.is_none(),
                directories: most(&tally.directories).into_iter().take(DIRECTORIES_NAMED_MAX).cloned().collect(),
            });
        }
        let rest = if has_shares { share(of_ended) } else { 1.0 };
        loads.push(Load {
            mounted: Arc::clone(&self.mounted),
            job: None,
            uid: 0,
            program: String::new(),
            processes: 0,
            per_second: operations.unwrap_or(all) * rest,
            counted,
            share: rest,
            is_at_least: self.is_at_least && operations.is_none(),
            directories: Vec::new(),
        });
        loads.sort_by(|a, b| b.per_second.total_cmp(&a.per_second));
        loads
    }
}

/// Adds to a name's count, unless there are too many names.
fn count<T: Clone + Eq + std::hash::Hash>(counts: &mut HashMap<T, u64>, name: &T, number: u64, names_max: usize) {
    if let Some(count) = counts.get_mut(name) {
        *count += number;
    } else if counts.len() < names_max {
        counts.insert(name.clone(), number);
    }
}

/// Returns names by their counts, the largest first.
fn most<T: Ord>(counts: &HashMap<T, u64>) -> Vec<&T> {
    let mut names: Vec<(&T, &u64)> = counts.iter().collect();
    names.sort_by(|a, b| b.1.cmp(a.1).then_with(|| a.0.cmp(b.0)));
    names.into_iter().map(|(name, _)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::super::jobs::JobKind;
    use super::*;

    const DEVICE: &str = "0:45";

    fn process(job: &str) -> Arc<Process> {
        let job = Job { kind: JobKind::Slurm, id: job.into() };
        Arc::new(Process { job, uid: 1000, program: "python3".into() })
    }

    /// Returns a sample of 100 ms with these opens: job, PID, number.
    fn sample(opens: &[(&str, i32, u64)]) -> Sample {
        let mounted = Mounted { device: DEVICE.into(), point: "/sw".into(), kind: "NFS".into() };
        Sample {
            mounted: Arc::new(mounted),
            time: Duration::from_millis(100),
            opens: opens.iter().map(|(job, pid, number)| (*pid, process(job), *number)).collect(),
            opens_of_ended: 0,
            opens_unexamined: 0,
            is_prompt: false,
            has_overflowed: false,
            directories: opens.iter().map(|(job, pid, _)| (*pid, format!("/sw/{job}").into())).collect(),
        }
    }

    /// Returns the changes after an interval of these samples, as text.
    fn after(judge: &mut Judge, at_s: u64, samples: &[Sample], operations: Option<f64>) -> Vec<String> {
        samples.iter().for_each(|sample| judge.note(sample));
        let name = |load: &Load| load.job.as_ref().map_or("none".into(), |job| job.id.clone());
        let changes = judge.evaluate(DEVICE, Duration::from_secs(at_s), operations);
        let shown = |change: &Change| match change {
            Change::Began(load) => format!("{} {:.0}/s {:.2}", name(load), load.per_second, load.share),
            Change::Ended(after, load) => format!("{} ended {} {:.0}/s", name(load), after.as_secs(), load.per_second),
        };
        changes.iter().map(shown).collect()
    }

    #[test]
    fn a_job_over_the_limit_is_named_once_and_its_end_too() {
        let mut judge = Judge::new(1000);
        let quiet = || sample(&[("1", 10, 99), ("2", 20, 5)]);
        let storm = |opens| sample(&[("1", 10, opens), ("1", 11, opens), ("2", 20, 5)]);
        assert_eq!(after(&mut judge, 5, &[quiet(), quiet()], None), [""; 0]);
        assert_eq!(after(&mut judge, 10, &[storm(100), storm(200)], None), ["1 3000/s 0.98"]);
        let load = judge.over().next().unwrap();
        assert_eq!((load.processes, &*load.program, load.directories.len()), (2, "python3", 1));
        assert_eq!(after(&mut judge, 15, &[storm(300)], None), [""; 0]);
        assert_eq!(after(&mut judge, 20, &[storm(26)], None), [""; 0], "it is named until half of the limit");
        assert_eq!(after(&mut judge, 25, &[storm(24)], None), ["1 ended 15 6000/s"]);
        assert_eq!(judge.over().count(), 0);
    }

    #[test]
    fn a_burst_counts_by_its_part_of_the_interval() {
        let mut judge = Judge::new(1000);
        let samples = [sample(&[("1", 10, 400)]), sample(&[]), sample(&[]), sample(&[]), sample(&[])];
        assert_eq!(after(&mut judge, 5, &samples, None), [""; 0]);
        let short = Sample { time: Duration::from_millis(5), ..sample(&[("1", 10, 50)]) };
        assert_eq!(after(&mut judge, 10, &[sample(&[]), short], None), ["1 5000/s 1.00"]);
    }

    #[test]
    fn counted_operations_are_shared_by_opens() {
        let mut judge = Judge::new(1000);
        let samples = || [sample(&[("1", 10, 30), ("2", 20, 10)])];
        assert_eq!(after(&mut judge, 5, &samples(), Some(8000.0)), ["1 6000/s 0.75", "2 2000/s 0.25"]);
        assert_eq!(judge.rates().next().unwrap().1, 8000.0);
        assert_eq!(after(&mut judge, 10, &samples(), Some(10.0)), ["1 ended 5 6000/s", "2 ended 5 2000/s"]);
        // Programs that examine files without opening them.
        assert_eq!(after(&mut judge, 15, &[sample(&[("1", 10, 3)])], Some(8000.0)), ["none 8000/s 1.00"]);
    }

    #[test]
    fn processes_that_were_not_examined_are_like_the_others() {
        let mut judge = Judge::new(1000);
        let many = Sample { opens_unexamined: 300, ..sample(&[("1", 10, 90), ("2", 20, 10)]) };
        assert_eq!(after(&mut judge, 5, &[many], None), ["1 3600/s 0.90"]);
        let ended = Sample { opens_of_ended: 300, has_overflowed: true, ..sample(&[("2", 10, 30)]) };
        assert_eq!(after(&mut judge, 10, &[ended], None), ["none 3000/s 0.91", "1 ended 5 3600/s"]);
        assert!(judge.over().all(|load| load.is_at_least));
        let mut judge = Judge::new(1000);
        let prompt = Sample { is_prompt: true, ..sample(&[("1", 10, 300)]) };
        let ended = Sample { opens_of_ended: 300, ..sample(&[]) };
        assert_eq!(after(&mut judge, 5, &[ended, prompt], None), ["1 3000/s 1.00"]);
        let mut judge = Judge::new(1000);
        let none = Sample { opens_unexamined: 300, ..sample(&[]) };
        assert_eq!(after(&mut judge, 5, &[none], None), ["none 3000/s 1.00"]);
    }

    #[test]
    fn a_file_system_that_is_gone_ends_its_findings() {
        let mut judge = Judge::new(1000);
        assert_eq!(after(&mut judge, 5, &[sample(&[("1", 10, 200)])], None).len(), 1);
        assert_eq!(judge.forget(DEVICE, Duration::from_secs(8)).len(), 1);
        assert_eq!((judge.rates().count(), judge.over().count()), (0, 0));
    }
}
