//! Counters of served requests: number, source, bytes and latency.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use hdrhistogram::Histogram;
use headwater_fuse::Operation;

/// Significant digits of a latency.
const LATENCY_DIGITS: u8 = 2;

/// Counters of one mount, in parts that workers use without contention.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    parts: [Mutex<BTreeMap<&'static str, Count>>; PARTS],
}

/// Parts of the counters; more workers than this share some.
const PARTS: usize = 8;

/// Counters of one operation.
#[derive(Clone, Debug)]
pub struct Count {
    /// Answered from the table and the store at once.
    pub from_table: u64,
    /// Answered once the node had fetched something.
    pub asked: u64,
    /// Answered from the source file.
    pub from_original: u64,
    /// Answered with an error number; an absent name that the kernel remembers is none.
    pub errors: u64,
    /// Bytes of content.
    pub bytes: u64,
    /// Time from request to answer, in nanoseconds. Its size grows with the logarithm of the longest time.
    pub latency: Histogram<u64>,
}

/// What one attempt adds to the counters.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    used_source: Cell<bool>,
    failed: Cell<bool>,
    bytes: Cell<u64>,
}

impl Tally {
    /// Notes that the source file was used.
    pub(crate) fn used_source(&self) {
        self.used_source.set(true);
    }

    /// Notes that the answer is an error number.
    pub(crate) fn error(&self) {
        self.failed.set(true);
    }

    /// Adds bytes that were read or written.
    pub(crate) fn bytes(&self, bytes: usize) {
        self.bytes.set(self.bytes.get() + bytes as u64);
    }
}

impl Counters {
    /// Counts one answered request of `worker`; `is_asked` if the node was asked.
    pub(crate) fn count(
        &self,
        worker: usize,
        operation: &Operation<'_>,
        is_asked: bool,
        tally: &Tally,
        took: Duration,
    ) {
        let mut part = self.parts[worker % PARTS].lock().unwrap_or_else(PoisonError::into_inner);
        let count = part.entry(name_of(operation)).or_default();
        let level = if tally.used_source.get() {
            &mut count.from_original
        } else if is_asked {
            &mut count.asked
        } else {
            &mut count.from_table
        };
        *level += 1;
        count.errors += u64::from(tally.failed.get());
        count.bytes += tally.bytes.get();
        count.took(took);
    }

    /// Returns all counters so far, by operation.
    pub(crate) fn sum(&self) -> BTreeMap<&'static str, Count> {
        let mut sum = BTreeMap::<_, Count>::new();
        for part in &self.parts {
            for (name, count) in &*part.lock().unwrap_or_else(PoisonError::into_inner) {
                sum.entry(*name).or_default().add(count);
            }
        }
        sum
    }
}

impl Count {
    /// Returns the number of requests.
    pub fn requests(&self) -> u64 {
        self.from_table + self.asked + self.from_original
    }

    /// Records the time from a request to its answer.
    pub fn took(&mut self, took: Duration) {
        // Fails only without memory to grow.
        let _ = self.latency.record(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
    }

    fn add(&mut self, other: &Count) {
        self.from_table += other.from_table;
        self.asked += other.asked;
        self.from_original += other.from_original;
        self.errors += other.errors;
        self.bytes += other.bytes;
        // Fails only for a histogram of fixed size.
        let _ = self.latency.add(&other.latency);
    }
}

impl Default for Count {
    fn default() -> Count {
        Count {
            from_table: 0,
            asked: 0,
            from_original: 0,
            errors: 0,
            bytes: 0,
            latency: Histogram::new(LATENCY_DIGITS).expect("so many digits are allowed"),
        }
    }
}

/// FUSE_IOCTL: mostly isatty().
const IOCTL: u32 = 39;

fn name_of(operation: &Operation<'_>) -> &'static str {
    match operation {
        Operation::Init(_) | Operation::Destroy | Operation::Interrupt { .. } => "connection",
        Operation::Lookup { .. } => "lookup",
        Operation::Forget { .. } | Operation::BatchForget(_) => "forget",
        Operation::Getattr | Operation::Statx => "getattr",
        Operation::Readlink => "readlink",
        Operation::Access => "access",
        Operation::Open { .. } | Operation::Create { .. } => "open",
        Operation::Read { .. } => "read",
        Operation::Write { .. } => "write",
        Operation::Flush | Operation::Release { .. } | Operation::Releasedir => "release",
        Operation::Getlk(_) | Operation::Setlk { .. } => "lock",
        Operation::Fsync { .. } | Operation::Fsyncdir { .. } => "fsync",
        Operation::Lseek { .. } => "lseek",
        Operation::Opendir => "opendir",
        Operation::Readdir { plus: false, .. } => "readdir",
        Operation::Readdir { plus: true, .. } => "readdirplus",
        Operation::Statfs => "statfs",
        Operation::Getxattr { .. } | Operation::Listxattr { .. } => "getxattr",
        Operation::Setattr(_) => "setattr",
        Operation::Setxattr { .. } | Operation::Removexattr { .. } => "setxattr",
        Operation::Fallocate { .. } | Operation::CopyFileRange => "allocate",
        Operation::Mknod { .. } | Operation::Mkdir { .. } | Operation::Symlink { .. } | Operation::Link { .. } => {
            "create"
        }
        Operation::Unlink { .. } | Operation::Rmdir { .. } => "remove",
        Operation::Rename { .. } => "rename",
        Operation::Unknown(IOCTL) => "ioctl",
        Operation::Unknown(_) => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_add_up() {
        let counters = Counters::default();
        let read = Operation::Read { offset: 0, bytes: 10 };
        let count = |worker, is_asked, used_source, took| {
            let tally = Tally::default();
            tally.bytes(10);
            if used_source {
                tally.used_source();
                tally.error();
            }
            counters.count(worker, &read, is_asked, &tally, Duration::from_micros(took));
        };
        for worker in 0..20 {
            count(worker, false, false, 100);
            count(worker, true, false, 1000);
        }
        count(0, true, true, 1000);
        let sum = counters.sum();
        let read = &sum["read"];
        assert_eq!((read.from_table, read.asked, read.from_original, read.requests()), (20, 20, 1, 41));
        assert_eq!((read.errors, read.bytes), (1, 410));
        let median = read.latency.value_at_quantile(0.4) as f64;
        assert!((99_000.0..101_000.0).contains(&median), "{median}");
        assert_eq!(sum.len(), 1);
    }
}
