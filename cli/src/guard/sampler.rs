//! A thread that samples the opens on one file system.
//!
//! In each second, opens are reported for half of it while there are few, and for less while there are many. So the
//! costs are bounded, here and in the processes that open files, and the part of the time is known.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::Timespec;
use rustix::io::Errno;

use super::fanotify::{Group, Naming, Opened};
use super::jobs::Process;
use super::judge::Sample;
use super::mounts::{Mounted, device_at};

/// A sample begins in each.
const PERIOD: Duration = Duration::from_secs(1);
/// The same after a sample with few opens.
const PERIOD_QUIET: Duration = Duration::from_secs(2);
/// So many are few.
const OPENS_QUIET: u64 = 10;
/// The longest time of a sample.
const TIME_MAX: Duration = Duration::from_millis(500);
/// The shortest.
const TIME_MIN: Duration = Duration::from_millis(1);
/// The queue is read so often, because the kernel merges the opens of one file by one process there.
const READ_INTERVAL: Duration = Duration::from_millis(10);
/// How long a sample of processes that end at once takes. They are examined at once, which wakes this thread up often.
const PROMPT_TIME_MAX: Duration = Duration::from_millis(5);
/// If at least one of so many opens is of a process that has ended, the next samples are of this kind.
const ENDED_PART: u64 = 4;
/// How many.
const PROMPT_SAMPLES: u32 = 10;
/// Opens that a sample should have at most: the next one is as much shorter.
const OPENS_WANTED_MAX: u64 = 500;
/// Readings of the queue that a sample should have at most, as each wakes this thread up.
const READINGS_WANTED_MAX: u32 = 5;
/// A sample with so many opens ends at the next reading.
const OPENS_MAX: u64 = 4 * OPENS_WANTED_MAX;
/// Notifications that are read in a sample if the kernel opens the file for each.
const DESCRIPTORS_MAX: u64 = 50;
/// The kernel's limit of a queue.
const QUEUED_MAX: u64 = 16_384;
/// Processes that are examined for the first time in a sample.
const EXAMINED_MAX: usize = 100;
/// Processes that are remembered.
const KNOWN_MAX: usize = 4096;
/// How long.
const KNOWN_AGE_MAX: Duration = Duration::from_secs(20);
/// Of so many opens, one has its directory looked up.
const DIRECTORY_EVERY: u64 = 32;

/// What a sampler reports.
#[derive(Debug)]
pub enum Report {
    /// The file system can be watched.
    Ready(Arc<Mounted>),
    /// It can't, or can't any longer.
    Failed(Arc<Mounted>, Failure),
    /// A sample.
    Sample(Sample),
}

/// Why a file system can't be watched.
#[derive(Debug)]
pub enum Failure {
    /// It is no longer mounted there.
    Gone,
    /// The kernel refuses it.
    Refused(String),
}

/// Starts a thread that samples a file system, until it is gone or `report` returns false.
///
/// # Errors
/// There can't be another thread.
pub fn start(mounted: Arc<Mounted>, mut report: impl FnMut(Report) -> bool + Send + 'static) -> io::Result<()> {
    let run = move || {
        // Before Linux 5.1 there are only descriptors.
        let group = Group::new(Naming::Identity).or_else(|error| match Errno::from_io_error(&error) {
            Some(Errno::INVAL) => Group::new(Naming::Descriptor),
            _ => Err(error),
        });
        let failure = match group {
            Ok(group) => Sampler::new(Arc::clone(&mounted), group).run(&mut report),
            Err(error) => Some(Failure::Refused(refusal_of_group(&error))),
        };
        if let Some(failure) = failure {
            // Without a receiver, this process ends.
            let _ = report(Report::Failed(mounted, failure));
        }
    };
    thread::Builder::new().name("sampler".into()).spawn(run).map(drop)
}

/// Returns cause and next step of a group that can't be made.
fn refusal_of_group(error: &io::Error) -> String {
    match Errno::from_io_error(error) {
        Some(Errno::PERM) => {
            "opens are reported to processes with CAP_SYS_ADMIN alone: run `headwater guard` as root, or by \
             headwater-guard.service"
                .into()
        }
        Some(Errno::NOSYS) => "this kernel has no fanotify: it must have CONFIG_FANOTIFY".into(),
        Some(Errno::MFILE) => {
            "the user has too many fanotify groups: raise /proc/sys/fs/fanotify/max_user_groups".into()
        }
        _ => format!("the kernel reports no opens: {error}"),
    }
}

/// Returns cause and next step of a mark that can't be made.
fn refusal_of_mark(error: &io::Error) -> String {
    match Errno::from_io_error(error) {
        Some(Errno::PERM) => {
            "opens on whole file systems are reported to processes with CAP_SYS_ADMIN alone: run `headwater guard` as \
             root, or by headwater-guard.service"
                .into()
        }
        Some(Errno::INVAL) => "this kernel watches no whole file systems: Linux 4.20 and newer do".into(),
        _ => format!("the kernel does not report its opens: {error}"),
    }
}

/// A process with this PID, as it was found.
#[derive(Clone, Debug)]
enum Known {
    Living(Arc<Process>),
    Ended,
}

#[derive(Debug)]
struct Sampler {
    mounted: Arc<Mounted>,
    group: Group,
    /// The time of the next sample.
    time: Duration,
    /// Whether the last sample had few opens.
    is_quiet: bool,
    known: HashMap<i32, (Instant, Known)>,
    /// Further samples whose processes are examined at once.
    prompt: u32,
    /// Opens since the last directory was looked up.
    opens_since: u64,
    own_pid: i32,
    random: u64,
}

impl Sampler {
    fn new(mounted: Arc<Mounted>, group: Group) -> Sampler {
        let own_pid = std::process::id() as i32;
        let mut seed = [0; 8];
        // Any seed does.
        let _ = rustix::rand::getrandom(&mut seed, rustix::rand::GetRandomFlags::NONBLOCK);
        let (known, random) = (HashMap::new(), u64::from_ne_bytes(seed) | 1);
        Sampler { mounted, group, time: TIME_MIN, is_quiet: false, known, prompt: 0, opens_since: 0, own_pid, random }
    }

    /// Samples until `report` returns false. Returns why it can't go on, if it can't.
    fn run(mut self, report: &mut impl FnMut(Report) -> bool) -> Option<Failure> {
        let mut is_ready = false;
        loop {
            let began = Instant::now();
            // Samples of several nodes, and of programs that act each second, must not coincide.
            let pause = PERIOD.saturating_sub(TIME_MAX).mul_f64(self.next_random());
            if is_ready {
                thread::sleep(pause);
            }
            let sampled = match self.sample() {
                Ok(sample) if is_ready => Report::Sample(sample),
                Ok(_) => Report::Ready(Arc::clone(&self.mounted)),
                Err(failure) => return Some(failure),
            };
            if !report(sampled) {
                return None;
            }
            is_ready = true;
            let period = if self.is_quiet { PERIOD_QUIET } else { PERIOD };
            thread::sleep(period.saturating_sub(began.elapsed()));
        }
    }

    /// Returns a number from 0 up to 1 (xorshift64; Marsaglia, Journal of Statistical Software 8.14, 2003).
    fn next_random(&mut self) -> f64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Takes one sample.
    fn sample(&mut self) -> Result<Sample, Failure> {
        // At a mount point without its mount lies another file system.
        if device_at(&self.mounted.point).as_ref() != Some(&self.mounted.device) {
            return Err(Failure::Gone);
        }
        self.mark()?;
        let began = Instant::now();
        let mut taken = Taken::default();
        let mut readings = 0;
        let is_prompt = self.prompt > 0;
        let wanted = if is_prompt { self.time.min(PROMPT_TIME_MAX) } else { self.time };
        while let Some(left) = wanted.checked_sub(began.elapsed()).filter(|left| !left.is_zero()) {
            // Without opens, this thread wakes up once.
            if self.group.wait(timespec(left)) {
                if !is_prompt {
                    readings += 1;
                    thread::sleep(READ_INTERVAL.min(wanted.saturating_sub(began.elapsed())));
                }
                self.read(&mut taken);
            }
            if taken.all >= OPENS_MAX {
                break;
            }
        }
        self.group.unmark();
        let time = began.elapsed();
        let is_cut = taken.all >= OPENS_MAX && time < wanted;
        self.read(&mut taken);
        self.leave(&mut taken)?;
        self.time = next_time(time, taken.all, readings);
        self.is_quiet = taken.all < OPENS_QUIET;
        self.forget();
        if is_prompt {
            self.prompt -= 1;
            // Those that could not be examined in time are like the others.
            taken.unexamined += std::mem::take(&mut taken.of_ended);
        } else if taken.of_ended * ENDED_PART >= taken.all.max(1) {
            self.prompt = PROMPT_SAMPLES;
        }
        Ok(Sample {
            mounted: Arc::clone(&self.mounted),
            // A burst has no further opens, and a storm is measured by the next samples.
            time: if is_cut { wanted } else { time },
            opens: taken.opens.into_iter().map(|(pid, (process, opens))| (pid, process, opens)).collect(),
            opens_of_ended: taken.of_ended,
            opens_unexamined: taken.unexamined,
            is_prompt,
            has_overflowed: taken.has_overflowed || is_cut,
            directories: taken.directories,
        })
    }

    /// Has opens reported from now on, by identities of files if they have any.
    fn mark(&mut self) -> Result<(), Failure> {
        let without_identity = [Errno::NODEV, Errno::XDEV, Errno::OPNOTSUPP];
        let mut marked = self.group.mark(&self.mounted.point);
        let errno = marked.as_ref().err().and_then(Errno::from_io_error);
        if errno.is_some_and(|errno| without_identity.contains(&errno)) && self.group.naming() == Naming::Identity {
            marked = Group::new(Naming::Descriptor).and_then(|group| {
                self.group = group;
                self.group.mark(&self.mounted.point)
            });
        }
        marked.map_err(|error| match Errno::from_io_error(&error) {
            Some(Errno::NOENT | Errno::NOTDIR) => Failure::Gone,
            _ => Failure::Refused(refusal_of_mark(&error)),
        })
    }

    /// Counts notifications with descriptors that are not read, and discards them.
    fn leave(&mut self, taken: &mut Taken) -> Result<(), Failure> {
        if self.group.naming() == Naming::Identity {
            return Ok(());
        }
        let left = self.group.queued();
        taken.all += left;
        taken.unexamined += left;
        taken.has_overflowed |= left >= QUEUED_MAX - DESCRIPTORS_MAX;
        if left > 0 {
            // The kernel opens no file for the old one's queue.
            let fresh = Group::new(Naming::Descriptor);
            self.group = fresh.map_err(|error| Failure::Refused(refusal_of_group(&error)))?;
        }
        Ok(())
    }

    /// Reads the queue, and attributes what is there to processes.
    fn read(&mut self, taken: &mut Taken) {
        let Sampler { group, known, opens_since, own_pid, mounted, .. } = self;
        let mut directory = None;
        let is_by_identity = group.naming() == Naming::Identity;
        let opens_max = if is_by_identity { u64::MAX } else { DESCRIPTORS_MAX.saturating_sub(taken.all) };
        let every = if is_by_identity { DIRECTORY_EVERY } else { 1 };
        let drained = group.drain(opens_max, |opened| {
            if opened.pid == *own_pid {
                return;
            }
            taken.all += 1;
            let known = match known.get(&opened.pid) {
                Some((_, known)) => known.clone(),
                None if taken.examined >= EXAMINED_MAX || known.len() >= KNOWN_MAX => {
                    taken.unexamined += 1;
                    return;
                }
                None => {
                    taken.examined += 1;
                    let found = Process::of(opened.pid).map_or(Known::Ended, |found| Known::Living(Arc::new(found)));
                    known.insert(opened.pid, (Instant::now(), found.clone()));
                    found
                }
            };
            let Known::Living(process) = known else {
                taken.of_ended += 1;
                return;
            };
            if process.is_of_headwater() {
                return;
            }
            taken.opens.entry(opened.pid).or_insert((process, 0)).1 += 1;
            *opens_since += 1;
            if *opens_since >= every {
                *opens_since = 0;
                // It is closed at the end, so that it does not keep the file system mounted.
                let open = || File::open(&mounted.point).ok();
                let at = if is_by_identity { directory.get_or_insert_with(open).as_ref() } else { None };
                taken.directories.extend(directory_of(&opened, at, mounted));
            }
        });
        taken.all += drained.lost;
        taken.unexamined += drained.lost;
        taken.has_overflowed |= drained.has_overflowed;
    }

    /// Forgets processes after a while: another one may have the PID then.
    fn forget(&mut self) {
        self.known.retain(|_, (found, _)| found.elapsed() < KNOWN_AGE_MAX);
    }
}

/// What a sample has so far.
#[derive(Debug, Default)]
struct Taken {
    all: u64,
    opens: HashMap<i32, (Arc<Process>, u64)>,
    of_ended: u64,
    unexamined: u64,
    examined: usize,
    has_overflowed: bool,
    directories: Vec<(i32, PathBuf)>,
}

/// Returns the directory of an opened file, if it can be seen at the mount point.
fn directory_of(opened: &Opened<'_>, at: Option<&File>, mounted: &Mounted) -> Option<(i32, PathBuf)> {
    let directory = opened.directory(at)?;
    directory.starts_with(&mounted.point).then_some((opened.pid, directory))
}

/// Returns the time of the next sample after one of this time with so many opens and readings.
fn next_time(time: Duration, opens: u64, readings: u32) -> Duration {
    let by_opens = time.mul_f64(OPENS_WANTED_MAX as f64 / opens.max(1) as f64);
    let by_readings = time.mul_f64(f64::from(READINGS_WANTED_MAX) / f64::from(readings.max(1)));
    // A shorter one can't have more readings.
    let by_readings = by_readings.max(READ_INTERVAL * READINGS_WANTED_MAX);
    by_opens.min(by_readings).clamp(TIME_MIN, TIME_MAX)
}

fn timespec(time: Duration) -> Timespec {
    Timespec { tv_sec: time.as_secs() as i64, tv_nsec: i64::from(time.subsec_nanos()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_with_many_opens_are_followed_by_shorter_ones() {
        let check = |ms: u64, opens, readings, expected_us: u128| {
            let next = next_time(Duration::from_millis(ms), opens, readings);
            assert_eq!(next.as_micros(), expected_us, "{ms} {opens} {readings}");
        };
        check(500, 0, 0, 500_000);
        check(500, 2000, 5, 125_000);
        check(100, 500, 5, 100_000);
        check(100, 50, 10, 50_000);
        check(25, 250, 2, 50_000);
        check(25, 10, 1, 125_000);
        check(1, 3, 1, 50_000);
        check(10, 1_000_000, 1, 1000);
    }

    #[test]
    fn refusals_have_a_cause_and_a_next_step() {
        let text = |errno: Errno| refusal_of_group(&errno.into());
        assert!(text(Errno::PERM).contains("CAP_SYS_ADMIN alone: run"), "{}", text(Errno::PERM));
        assert!(text(Errno::NOSYS).contains("CONFIG_FANOTIFY"));
        assert!(refusal_of_mark(&Errno::INVAL.into()).contains("Linux 4.20"));
    }
}
