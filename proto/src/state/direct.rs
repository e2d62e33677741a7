//! Decides for each file system whether this node's processes read large files directly.
//!
//! The first large content that processes request comes through the trees, as always. Meanwhile the nodes that compare
//! read samples of the same file from the file system, all at once, without storing them. Each compares both rates once
//! enough bytes have come: content that the file system supplies faster than the trees is left to it from then on.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use headwater_abi::{Attr, Path};

use crate::pending::Key;
use crate::{Output, Time};

/// Bytes of the first sample; each further one has twice as many. Few come before the trees' first bytes if the file
/// system is slow.
const FIRST_SAMPLE_BYTES: u64 = 256 << 10;
/// Samples of a file at most, 32 MiB together.
const SAMPLES_MAX: u32 = 7;
/// How long samples are read, in microseconds: nodes begin one after the other, and a file system that all share has to
/// serve all at once.
const SAMPLING_US: u64 = 100_000;
/// Bytes of samples without which nothing is decided: the first one includes the opening.
const SAMPLED_BYTES_MIN: u64 = sampled_bytes(2);
/// What a file system must give each node to be read directly by all, in bytes per millisecond. One that gives less is
/// the limit for all, so it is read once.
const DIRECT_RATE_MIN: u64 = 100_000;
/// Bytes through the trees after which the decision is made.
const RECEIVED_BYTES_MIN: u64 = 4 << 20;
/// How long requests have to be pending before so few bytes that no more are awaited decide, in milliseconds.
const PENDING_MS_MIN: Time = 20;
/// How much faster the file system must be, in halves: three halves.
const GAIN_HALVES_MIN: u128 = 3;
/// File systems that are compared.
const DEVICES_MAX: usize = 8;
/// Nodes that compare. With more nodes in the session, the file system is expected to give all of them together no
/// more than these measured.
pub const COMPARING_NODES_MAX: u32 = 16;

type Device = (u32, u32);

/// Rates of reading large files, in bytes per millisecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rates {
    /// Files of more bytes are large.
    pub file_bytes_min: u64,
    /// From the file system.
    pub direct: u64,
    /// Through the trees.
    pub trees: u64,
}

/// The comparisons of a node.
#[derive(Debug)]
pub(crate) struct DirectReading {
    /// Smaller files are always stored.
    file_bytes_min: u64,
    /// Nodes for each that compares, rounded up.
    nodes_each: u32,
    devices: BTreeMap<Device, Comparison>,
}

#[derive(Debug)]
enum Comparison {
    Running(Measurement),
    Stored,
    Direct(Rates),
}

/// What has been measured so far.
#[derive(Debug, Default)]
struct Measurement {
    /// Requests of processes for large content.
    requests: Vec<Key>,
    /// When these were last looked at, and how long some were pending until then, in milliseconds.
    checked: Time,
    pending_ms: Time,
    received_bytes: u64,
    /// Samples that were begun, and those that were read.
    begun: u32,
    read: u32,
    /// The file of the samples, and its bytes.
    sampled: Option<(Path, u64)>,
    sampled_us: u64,
}

impl DirectReading {
    /// Returns comparisons for one of `ranks` nodes, of files of more than `file_bytes_min` bytes.
    pub(crate) fn new(file_bytes_min: u64, ranks: u32) -> DirectReading {
        let nodes_each = ranks.div_ceil(COMPARING_NODES_MAX).max(1);
        DirectReading { file_bytes_min, nodes_each, devices: BTreeMap::new() }
    }

    /// Returns whether processes read the file with these attributes directly.
    pub(crate) fn covers(&self, attr: &Attr) -> bool {
        attr.size > self.file_bytes_min && matches!(self.devices.get(&device(attr)), Some(Comparison::Direct(_)))
    }

    /// Returns the rates of the first file system that is read directly.
    pub(crate) fn rates(&self) -> Option<Rates> {
        self.devices.values().find_map(|comparison| match comparison {
            Comparison::Direct(rates) => Some(*rates),
            _ => None,
        })
    }

    /// Notes that processes wait for content of a file. Returns the first sample to read, if its file system is to be
    /// compared from now on, by all nodes.
    pub(crate) fn requested(&mut self, now: Time, key: Key, attr: &Attr) -> Option<Output> {
        if attr.size <= self.file_bytes_min {
            return None;
        }
        let sample = self.begin(&key.0, attr);
        if let Some(Comparison::Running(measurement)) = self.devices.get_mut(&device(attr))
            && !measurement.requests.contains(&key)
        {
            if measurement.requests.is_empty() {
                measurement.checked = now;
            }
            measurement.requests.push(key);
        }
        sample
    }

    /// Notes that other nodes begin to compare the file system of a file. Returns whether that is new here, and the
    /// first sample to read if this node compares, too.
    pub(crate) fn announced(&mut self, path: &Path, attr: &Attr) -> (bool, Option<Output>) {
        let is_new = self.is_new(attr);
        if is_new && self.file_bytes_min == u64::MAX {
            self.devices.insert(device(attr), Comparison::Stored);
        }
        let sample = if attr.size > self.file_bytes_min { self.begin(path, attr) } else { None };
        (is_new, sample)
    }

    fn is_new(&self, attr: &Attr) -> bool {
        !self.devices.contains_key(&device(attr)) && self.devices.len() < DEVICES_MAX
    }

    /// Begins to compare a file system, unless that was done before. Returns the first sample.
    fn begin(&mut self, path: &Path, attr: &Attr) -> Option<Output> {
        if !self.is_new(attr) {
            return None;
        }
        let mut measurement = Measurement { sampled: Some((path.clone(), attr.size)), ..Measurement::default() };
        let sample = measurement.sample();
        self.devices.insert(device(attr), Comparison::Running(measurement));
        sample
    }

    /// Notes that bytes of a file's content have come into the store. Those of small files don't count: they are not what
    /// is compared. Nor do bytes that come while no process waits, since the time that they took does not count either.
    pub(crate) fn received(&mut self, attr: &Attr, bytes: u64) {
        if attr.size > self.file_bytes_min
            && let Some(Comparison::Running(measurement)) = self.devices.get_mut(&device(attr))
            && !measurement.requests.is_empty()
        {
            measurement.received_bytes += bytes;
        }
    }

    /// Notes how long a sample took; `None` if it could not be read. Returns the next sample, unless there are enough.
    pub(crate) fn sampled(&mut self, path: &Path, us: Option<u64>) -> Option<Output> {
        let comparison = self.devices.values_mut().find(|comparison| comparison.is_sampling(path))?;
        let Comparison::Running(measurement) = comparison else { return None };
        let Some(us) = us else {
            *comparison = Comparison::Stored;
            return None;
        };
        measurement.read += 1;
        measurement.sampled_us += us.max(1);
        measurement.sample()
    }

    /// Decides what can be decided. Returns whether a file system is read directly from now on.
    pub(crate) fn decide(&mut self, now: Time, mut is_pending: impl FnMut(&Key) -> bool) -> bool {
        let mut is_any_direct = false;
        for comparison in self.devices.values_mut() {
            let Comparison::Running(measurement) = comparison else { continue };
            if !measurement.requests.is_empty() {
                measurement.pending_ms += now.saturating_sub(measurement.checked);
                measurement.requests.retain(|key| is_pending(key));
            }
            measurement.checked = now;
            let Some(is_direct) = measurement.is_direct(self.nodes_each) else { continue };
            let rates = measurement.rates(self.file_bytes_min);
            *comparison = if is_direct { Comparison::Direct(rates) } else { Comparison::Stored };
            is_any_direct |= is_direct;
        }
        is_any_direct
    }
}

impl Comparison {
    fn is_sampling(&self, path: &Path) -> bool {
        match self {
            Comparison::Running(measurement) => {
                measurement.sampled.as_ref().is_some_and(|(sampled, _)| sampled == path)
            }
            Comparison::Stored | Comparison::Direct(_) => false,
        }
    }
}

impl Measurement {
    /// Returns the next sample; `None` if there were enough. Samples lie apart, so that no cache of one place stands
    /// for all, and take half of the file at most.
    fn sample(&mut self) -> Option<Output> {
        let (path, size) = self.sampled.as_ref()?;
        let is_last = self.begun >= SAMPLES_MAX || sampled_bytes(self.begun + 1) > size / 2;
        if is_last || self.sampled_us >= SAMPLING_US {
            self.sampled = None;
            return None;
        }
        let bytes = FIRST_SAMPLE_BYTES << self.begun;
        // At the end of its part, since programs begin at the file's beginning.
        let offset = sampled_bytes(self.begun + 1) * (size / sampled_bytes(SAMPLES_MAX)).max(2) - bytes;
        let path = path.clone();
        self.begun += 1;
        Some(Output::TimeRead { path, offset, bytes })
    }

    /// Returns the decision; `None` if more has to be measured.
    fn is_direct(&self, nodes_each: u32) -> Option<bool> {
        let sampled = sampled_bytes(self.read);
        // The other nodes' samples may be yet to begin, and small samples show latency.
        if sampled < SAMPLED_BYTES_MIN || self.sampled.is_some() {
            return None;
        }
        // Microseconds for as many bytes of either, times the factors of both sides.
        let needed_us = |bytes: u64| {
            u128::from(self.sampled_us) * u128::from(bytes) * u128::from(nodes_each) * GAIN_HALVES_MIN
                / (2 * u128::from(sampled))
        };
        let pending_us = u128::from(self.pending_ms) * 1000;
        let has_enough = self.received_bytes >= RECEIVED_BYTES_MIN;
        let bytes = if has_enough { self.received_bytes } else { RECEIVED_BYTES_MIN };
        let is_faster = self.direct_rate() / u64::from(nodes_each) >= DIRECT_RATE_MIN && needed_us(bytes) < pending_us;
        (has_enough || is_faster && self.pending_ms >= PENDING_MS_MIN).then_some(is_faster)
    }

    fn direct_rate(&self) -> u64 {
        sampled_bytes(self.read) * 1000 / self.sampled_us.max(1)
    }

    fn rates(&self, file_bytes_min: u64) -> Rates {
        Rates { file_bytes_min, direct: self.direct_rate(), trees: self.received_bytes / self.pending_ms.max(1) }
    }
}

/// Returns the bytes of the first samples.
const fn sampled_bytes(samples: u32) -> u64 {
    FIRST_SAMPLE_BYTES * ((1 << samples) - 1)
}

fn device(attr: &Attr) -> Device {
    (attr.dev_major, attr.dev_minor)
}

#[cfg(test)]
mod tests {
    use super::*;
    use headwater_abi::wire::Aspect;

    const FILE: u64 = 100 << 20;

    fn attr(minor: u32, size: u64) -> Attr {
        Attr { dev_minor: minor, size, ..Attr::default() }
    }

    fn key(block: u32) -> Key {
        (Path::new(b"/sw/large").unwrap(), Aspect::Block(block))
    }

    /// Receives `bytes` within `ms`, while each MiB of samples takes `us`, and at most `samples` are read. Returns whether
    /// the file is read directly then.
    fn compare(ranks: u32, (bytes, ms): (u64, Time), us: u64, samples: usize) -> bool {
        let mut direct = DirectReading::new(16 << 20, ranks);
        let attr = attr(1, FILE);
        let mut sample = direct.requested(1000, key(0), &attr);
        for _ in 0..samples {
            let Some(Output::TimeRead { bytes, .. }) = sample else { break };
            sample = direct.sampled(&key(0).0, Some((us * bytes) >> 20));
            direct.decide(1000, |_| true);
        }
        direct.received(&attr, bytes);
        direct.decide(1000 + ms, |_| false);
        direct.covers(&attr)
    }

    #[test]
    fn what_is_faster_by_half_is_read_directly() {
        // 4 MiB in 15 ms.
        for (us, is_direct) in [(400, true), (2000, true), (3000, false)] {
            assert_eq!(compare(4, (4 << 20, 15), us, 7), is_direct, "{us} us");
        }
        assert!(!compare(4, (4 << 20, 15), 400, 6), "other nodes may not have begun");
        assert!(!compare(4, (1 << 20, 10), 400, 7), "more bytes are awaited");
        assert!(compare(4, (1 << 20, 50), 400, 7), "and not any longer");
    }

    #[test]
    fn what_gives_each_node_little_is_not_read_by_all() {
        assert!(compare(4, (4 << 20, 1000), 10_000, 7), "105 MB/s");
        assert!(!compare(4, (4 << 20, 1000), 11_000, 7), "95 MB/s");
    }

    #[test]
    fn slow_file_systems_are_sampled_for_a_while() {
        let mut direct = DirectReading::new(16 << 20, 4);
        let mut sample = direct.requested(0, key(0), &attr(1, FILE));
        let mut sampled = Vec::new();
        while let Some(Output::TimeRead { offset, bytes, .. }) = sample {
            sampled.push((offset, bytes));
            sample = direct.sampled(&key(0).0, Some(bytes / 20));
        }
        let kib = |offset: u64, bytes: u64| (offset << 10, bytes << 10);
        assert_eq!(sampled, [kib(512, 256), kib(1792, 512), kib(4352, 1024), kib(9472, 2048)]);
    }

    #[test]
    fn samples_take_half_of_a_file_at_most() {
        for size in [17, 20, 40, 63, 64, 100, 5000].map(|mib: u64| mib << 20) {
            let mut direct = DirectReading::new(16 << 20, 4);
            let mut sample = direct.requested(0, key(0), &attr(1, size));
            let (mut end, mut all) = (0, 0);
            while let Some(Output::TimeRead { offset, bytes, .. }) = sample {
                assert!(offset >= end, "{size}: they lie apart");
                (end, all) = (offset + bytes, all + bytes);
                sample = direct.sampled(&key(0).0, Some(1));
            }
            assert!(end <= size && all <= size / 2 && all >= (4 << 20) - FIRST_SAMPLE_BYTES, "{size}: {all}");
        }
    }

    #[test]
    fn nodes_that_do_not_compare_count() {
        assert!(compare(16, (4 << 20, 15), 400, 7));
        assert!(compare(64, (4 << 20, 15), 400, 7), "a quarter of 2.6 GB/s");
        assert!(!compare(512, (4 << 20, 15), 400, 7), "a 32nd of it");
    }

    #[test]
    fn each_file_system_is_compared_once() {
        let mut direct = DirectReading::new(16 << 20, 4);
        assert!(direct.requested(0, key(0), &attr(1, 16 << 20)).is_none(), "a small file");
        let path = |minor: u32| Path::new(alloc::format!("/sw/{minor}").as_bytes()).unwrap();
        for minor in 0..DEVICES_MAX as u32 {
            let first = direct.requested(0, (path(minor), Aspect::Block(0)), &attr(minor, FILE));
            let expected = Output::TimeRead { path: path(minor), offset: 512 << 10, bytes: FIRST_SAMPLE_BYTES };
            assert_eq!(first, Some(expected));
            assert!(direct.requested(0, key(1), &attr(minor, FILE)).is_none());
            assert_eq!(direct.announced(&path(minor), &attr(minor, FILE)), (false, None));
        }
        assert!(direct.requested(0, key(0), &attr(99, FILE)).is_none(), "too many");
        assert_eq!(direct.announced(&path(99), &attr(99, FILE)), (false, None));
        assert!(direct.sampled(&path(1), None).is_none());
        assert!(direct.sampled(&path(1), Some(1)).is_none(), "it is decided");
        (0..SAMPLES_MAX).for_each(|_| drop(direct.sampled(&path(2), Some(100))));
        direct.received(&attr(2, 1000), 1000);
        direct.received(&attr(2, FILE), 8 << 20);
        assert!(direct.decide(100, |_| true));
        assert!(direct.covers(&attr(2, FILE)) && !direct.covers(&attr(2, 1)) && !direct.covers(&attr(3, FILE)));
        let rates = Rates { file_bytes_min: 16 << 20, direct: (127 << 18) * 1000 / 700, trees: (8 << 20) / 100 };
        assert_eq!(direct.rates(), Some(rates));
        assert!(!direct.decide(200, |_| true), "told once");
    }

    #[test]
    fn announced_comparisons_begin_without_a_request() {
        let mut direct = DirectReading::new(16 << 20, 4);
        let (is_new, sample) = direct.announced(&key(0).0, &attr(1, FILE));
        assert!(is_new && sample.is_some());
        while direct.sampled(&key(0).0, Some(100)).is_some() {}
        assert!(!direct.decide(5000, |_| true), "nothing was requested");
        assert!(direct.requested(5000, key(0), &attr(1, FILE)).is_none());
        direct.received(&attr(1, FILE), 4 << 20);
        assert!(direct.decide(5020, |_| true));
        // A node that does not compare passes it on once.
        let mut other = DirectReading::new(u64::MAX, 32);
        assert_eq!(other.announced(&key(0).0, &attr(1, FILE)), (true, None));
        assert_eq!(other.announced(&key(0).0, &attr(1, FILE)), (false, None));
        assert!(other.requested(0, key(0), &attr(1, FILE)).is_none() && !other.covers(&attr(1, FILE)));
    }

    #[test]
    fn bytes_without_a_request_do_not_count() {
        let mut direct = DirectReading::new(16 << 20, 4);
        let attr = attr(1, FILE);
        direct.requested(0, key(0), &attr);
        while direct.sampled(&key(0).0, Some(100)).is_some() {}
        direct.decide(1, |_| false);
        direct.received(&attr, 8 << 20);
        assert!(!direct.decide(2, |_| true));
        direct.requested(10, key(1), &attr);
        direct.received(&attr, 4 << 20);
        assert!(direct.decide(25, |_| true), "what was pushed before took no time");
    }

    #[test]
    fn time_without_a_request_does_not_count() {
        let mut direct = DirectReading::new(16 << 20, 4);
        let attr = attr(1, FILE);
        direct.requested(0, key(0), &attr);
        while direct.sampled(&key(0).0, Some(16_000)).is_some() {}
        direct.received(&attr, 3 << 20);
        direct.decide(5, |_| false);
        direct.decide(1000, |_| false);
        direct.requested(1000, key(1), &attr);
        direct.received(&attr, 1 << 20);
        direct.decide(1002, |_| false);
        assert!(!direct.covers(&attr), "4 MiB took 7 ms; directly they take 16");
    }
}
