//! The counts of the counting file system, and the time of each operation.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

/// A kind of operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Kind {
    /// A name looked up in a directory and found.
    Lookup,
    /// A name looked up in a directory that lacks it.
    FailedLookup,
    /// Attributes.
    Getattr,
    /// A file opened.
    Open,
    /// Bytes read.
    Read,
    /// A link read.
    Readlink,
    /// A directory opened.
    Opendir,
    /// Names read.
    Readdir,
    /// Anything that changes something.
    Change,
}

/// How many kinds there are.
pub const KINDS: usize = 9;

const NAMES: [&str; KINDS] =
    ["lookup", "failed_lookup", "getattr", "open", "read", "readlink", "opendir", "readdir", "change"];

impl Kind {
    /// The kind called `name` in counts and settings.
    pub fn from_name(name: &str) -> Option<usize> {
        NAMES.iter().position(|n| *n == name)
    }
}

/// Counts by kind and path.
#[derive(Default)]
pub struct Tally {
    paths: Mutex<BTreeMap<PathBuf, [u64; KINDS]>>,
    bytes_read: AtomicU64,
}

impl Tally {
    /// Counts one operation on `path`, which is relative to the mount.
    pub fn count(&self, kind: Kind, path: &Path) {
        let mut paths = self.paths.lock().expect("no counting thread panics");
        if let Some(counts) = paths.get_mut(path) {
            counts[kind as usize] += 1;
        } else {
            paths.entry(path.to_path_buf()).or_default()[kind as usize] += 1;
        }
    }

    /// Counts bytes handed out.
    pub fn count_bytes(&self, bytes: usize) {
        self.bytes_read.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Forgets everything.
    pub fn reset(&self) {
        self.paths.lock().expect("no counting thread panics").clear();
        self.bytes_read.store(0, Ordering::Relaxed);
    }

    /// `{"total": {kind: n}, "operations": n, "bytes_read": n, "paths": {path: {kind: n}}}`.
    pub fn to_json(&self) -> Value {
        let paths = self.paths.lock().expect("no counting thread panics");
        let mut total = [0; KINDS];
        let mut by_path = Map::new();
        for (path, counts) in paths.iter() {
            (0..KINDS).for_each(|k| total[k] += counts[k]);
            by_path.insert(path.to_string_lossy().into_owned(), named(counts, false));
        }
        json!({
            "total": named(&total, true),
            "operations": total.iter().sum::<u64>(),
            "bytes_read": self.bytes_read.load(Ordering::Relaxed),
            "paths": by_path,
        })
    }
}

fn named(counts: &[u64; KINDS], with_zeros: bool) -> Value {
    let counted = NAMES.iter().zip(counts).filter(|(_, n)| with_zeros || **n > 0);
    Value::Object(counted.map(|(name, n)| (name.to_string(), json!(n))).collect())
}

/// How much of a sleep that took too long is made good.
const LATENESS_MAX: Duration = Duration::from_micros(500);

/// How long operations take. All zero: as long as they take.
#[derive(Default)]
pub struct Pace {
    /// When the one server is free again; locked while it works, when the rate is limited.
    server: Mutex<Option<Instant>>,
    operation_ns: AtomicU64,
    bytes_per_second: AtomicU64,
    kind_ns: [AtomicU64; KINDS],
}

impl Pace {
    /// Makes one server handle every operation of all mounts, `per_second` of them at most; 0: no limit.
    pub fn set_rate(&self, per_second: u64) {
        self.operation_ns.store(1_000_000_000u64.checked_div(per_second).unwrap_or(0), Ordering::Relaxed);
    }

    /// Makes one server send the content of all mounts, `bytes_per_second` of it at most; 0: no limit.
    pub fn set_bandwidth(&self, bytes_per_second: u64) {
        self.bytes_per_second.store(bytes_per_second, Ordering::Relaxed);
    }

    /// Makes each operation of a kind (a number from [`Kind::from_name`]) take `ns` nanoseconds longer.
    pub fn set_delay(&self, kind: usize, ns: u64) {
        self.kind_ns[kind].store(ns, Ordering::Relaxed);
    }

    /// Takes the time that an operation of this kind takes.
    pub fn take(&self, kind: Kind) {
        let operation = self.operation_ns.load(Ordering::Relaxed);
        if operation > 0 {
            self.occupy(operation);
        }
        let delay = self.kind_ns[kind as usize].load(Ordering::Relaxed);
        if delay > 0 {
            wait(Duration::from_nanos(delay));
        }
    }

    /// Takes the time that sending so many bytes takes.
    pub fn take_bytes(&self, bytes: usize) {
        let ns = (bytes as u64 * 1_000_000_000).checked_div(self.bytes_per_second.load(Ordering::Relaxed));
        if let Some(ns) = ns {
            self.occupy(ns);
        }
    }

    fn occupy(&self, ns: u64) {
        let mut free = self.server.lock().expect("no serving thread panics");
        // The excess of the last sleep counts for this operation, so that the rate is exact.
        let earliest = Instant::now() - LATENESS_MAX;
        let done = free.map_or(earliest, |free| free.max(earliest)) + Duration::from_nanos(ns);
        std::thread::sleep(done.saturating_duration_since(Instant::now()));
        *free = Some(done);
    }
}

/// Sleeps for what a timer can do and spins for the rest.
fn wait(duration: Duration) {
    const TIMER: Duration = Duration::from_micros(80);
    let started = Instant::now();
    std::thread::sleep(duration.saturating_sub(TIMER));
    while started.elapsed() < duration {
        std::hint::spin_loop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_add_up_and_reset() {
        let tally = Tally::default();
        tally.count(Kind::Open, Path::new("a"));
        tally.count(Kind::Open, Path::new("a"));
        tally.count(Kind::FailedLookup, Path::new("b"));
        tally.count_bytes(10);
        let counts = tally.to_json();
        assert_eq!(counts["operations"], 3);
        assert_eq!(counts["total"]["failed_lookup"], 1);
        assert_eq!(counts["paths"]["a"], json!({"open": 2}));
        assert_eq!(counts["bytes_read"], 10);
        tally.reset();
        assert_eq!(tally.to_json()["operations"], 0);
    }

    #[test]
    fn a_rate_applies_to_all_threads_together() {
        let pace = Pace::default();
        pace.set_rate(1000);
        let started = Instant::now();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..5).for_each(|_| pace.take(Kind::Lookup)));
            }
        });
        assert!(started.elapsed() >= Duration::from_millis(19));
        let started = Instant::now();
        pace.take_bytes(1 << 20);
        assert!(started.elapsed() < Duration::from_millis(10));
        pace.set_bandwidth(1 << 30);
        (0..20).for_each(|_| pace.take_bytes(1 << 20));
        assert!(started.elapsed() >= Duration::from_millis(19));
    }
}
