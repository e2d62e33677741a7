//! Decides for each file system whether this node's processes read large files directly.
//!
//! The first large content that processes request comes through the trees, as always. Meanwhile the driver reads
//! samples of the same file from the file system, without storing them. Both rates are compared once enough bytes have
//! come: content that the file system supplies faster than the trees is left to it from then on.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use headwater_abi::{Attr, Path};

use crate::pending::Key;
use crate::{Output, Time};

/// Bytes of the samples, one after the other. Few come before the trees' first bytes if the file system is slow.
const SAMPLES: [u64; 4] = [256 << 10, 512 << 10, 1 << 20, 2 << 20];
/// Bytes of samples without which nothing is decided: the first one includes the opening.
const SAMPLED_BYTES_MIN: u64 = SAMPLES[0] + SAMPLES[1];
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
    samples: usize,
    sampled_bytes: u64,
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
    /// compared.
    pub(crate) fn requested(&mut self, now: Time, key: Key, attr: &Attr) -> Option<Output> {
        if attr.size <= self.file_bytes_min {
            return None;
        }
        let is_new = !self.devices.contains_key(&device(attr));
        if is_new && self.devices.len() >= DEVICES_MAX {
            return None;
        }
        let start = || Comparison::Running(Measurement { checked: now, ..Measurement::default() });
        let Comparison::Running(measurement) = self.devices.entry(device(attr)).or_insert_with(start) else {
            return None;
        };
        let sample = is_new.then(|| measurement.sample(&key.0, attr));
        if !measurement.requests.contains(&key) {
            measurement.requests.push(key);
        }
        sample
    }

    /// Notes that bytes of a file's content have come into the store. Those of small files don't count: they are not what
    /// is compared.
    pub(crate) fn received(&mut self, attr: &Attr, bytes: u64) {
        if attr.size > self.file_bytes_min
            && let Some(Comparison::Running(measurement)) = self.devices.get_mut(&device(attr))
        {
            measurement.received_bytes += bytes;
        }
    }

    /// Notes how long a sample took; `None` if it could not be read. Returns the next sample, unless there are enough.
    pub(crate) fn sampled(&mut self, path: &Path, attr: &Attr, us: Option<u64>) -> Option<Output> {
        let comparison = self.devices.get_mut(&device(attr))?;
        let Comparison::Running(measurement) = comparison else { return None };
        let Some(us) = us else {
            *comparison = Comparison::Stored;
            return None;
        };
        measurement.sampled_bytes += sample(measurement.samples - 1, attr).1;
        measurement.sampled_us += us.max(1);
        (measurement.samples < SAMPLES.len()).then(|| measurement.sample(path, attr))
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

impl Measurement {
    /// Returns the next sample.
    fn sample(&mut self, path: &Path, attr: &Attr) -> Output {
        let (offset, bytes) = sample(self.samples, attr);
        self.samples += 1;
        Output::TimeRead { path: path.clone(), offset, bytes }
    }

    /// Returns the decision; `None` if more has to be measured.
    fn is_direct(&self, nodes_each: u32) -> Option<bool> {
        if self.sampled_bytes < SAMPLED_BYTES_MIN {
            return None;
        }
        // Microseconds for as many bytes of either, times the factors of both sides.
        let needed_us = |bytes: u64| {
            u128::from(self.sampled_us) * u128::from(bytes) * u128::from(nodes_each) * GAIN_HALVES_MIN
                / (2 * u128::from(self.sampled_bytes))
        };
        let pending_us = u128::from(self.pending_ms) * 1000;
        if self.received_bytes >= RECEIVED_BYTES_MIN {
            return Some(needed_us(self.received_bytes) < pending_us);
        }
        let is_too_slow = self.pending_ms >= PENDING_MS_MIN && needed_us(RECEIVED_BYTES_MIN) < pending_us;
        is_too_slow.then_some(true)
    }

    fn rates(&self, file_bytes_min: u64) -> Rates {
        Rates {
            file_bytes_min,
            direct: self.sampled_bytes * 1000 / self.sampled_us.max(1),
            trees: self.received_bytes / self.pending_ms.max(1),
        }
    }
}

/// Returns a sample's offset and bytes. The samples lie apart, so that no cache of one place stands for all.
fn sample(number: usize, attr: &Attr) -> (u64, u64) {
    let offset = attr.size / (2 * SAMPLES.len() as u64) * (2 * number as u64 + 1);
    (offset, SAMPLES[number].min(attr.size - offset))
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

    /// Receives `bytes` within `ms`, while samples take `us` each. Returns whether the file is read directly then.
    fn compare(ranks: u32, (bytes, ms): (u64, Time), us: &[u64]) -> bool {
        let mut direct = DirectReading::new(16 << 20, ranks);
        let attr = attr(1, FILE);
        let mut sample = direct.requested(1000, key(0), &attr);
        for &us in us {
            assert!(sample.is_some());
            sample = direct.sampled(&key(0).0, &attr, Some(us));
            direct.decide(1000, |_| true);
        }
        direct.received(&attr, bytes);
        direct.decide(1000 + ms, |_| false);
        direct.covers(&attr)
    }

    #[test]
    fn what_is_faster_by_half_is_read_directly() {
        let all = |us: u64| [us, 2 * us, 4 * us, 8 * us];
        // 4 MiB in 15 ms; the samples' 3.75 MiB in 1.5, 7.5 and 15 ms.
        for (us, is_direct) in [(100, true), (500, true), (1000, false)] {
            assert_eq!(compare(4, (4 << 20, 15), &all(us)), is_direct, "{us} us");
        }
        assert!(compare(4, (4 << 20, 15), &[100, 200]), "two samples are enough");
        assert!(!compare(4, (4 << 20, 15), &[100]));
        assert!(!compare(4, (1 << 20, 10), &all(100)), "more bytes are awaited");
        assert!(compare(4, (1 << 20, 50), &all(100)), "and not any longer");
    }

    #[test]
    fn nodes_that_do_not_compare_count() {
        let all = [100, 200, 400, 800];
        assert!(compare(16, (4 << 20, 15), &all));
        assert!(compare(64, (4 << 20, 15), &all), "a quarter of 2.5 GB/s");
        assert!(!compare(512, (4 << 20, 15), &all), "a 32nd of it");
    }

    #[test]
    fn each_file_system_is_compared_once() {
        let mut direct = DirectReading::new(16 << 20, 4);
        assert!(direct.requested(0, key(0), &attr(1, 16 << 20)).is_none(), "a small file");
        for minor in 0..DEVICES_MAX as u32 {
            let first = direct.requested(0, key(0), &attr(minor, FILE));
            let expected = Output::TimeRead { path: key(0).0, offset: FILE / 8, bytes: SAMPLES[0] };
            assert_eq!(first, Some(expected));
            assert!(direct.requested(0, key(1), &attr(minor, FILE)).is_none());
        }
        assert!(direct.requested(0, key(0), &attr(99, FILE)).is_none(), "too many");
        assert!(direct.sampled(&key(0).0, &attr(1, FILE), None).is_none());
        assert!(direct.sampled(&key(0).0, &attr(1, FILE), Some(1)).is_none(), "it is decided");
        direct.sampled(&key(0).0, &attr(2, FILE), Some(100));
        direct.sampled(&key(0).0, &attr(2, FILE), Some(200));
        direct.received(&attr(2, 1000), 1000);
        direct.received(&attr(2, FILE), 8 << 20);
        assert!(direct.decide(100, |_| true));
        assert!(direct.covers(&attr(2, FILE)) && !direct.covers(&attr(2, 1)) && !direct.covers(&attr(3, FILE)));
        let rates = Rates { file_bytes_min: 16 << 20, direct: (768 << 10) * 1000 / 300, trees: (8 << 20) / 100 };
        assert_eq!(direct.rates(), Some(rates));
        assert!(!direct.decide(200, |_| true), "told once");
    }

    #[test]
    fn time_without_a_request_does_not_count() {
        let mut direct = DirectReading::new(16 << 20, 4);
        let attr = attr(1, FILE);
        direct.requested(0, key(0), &attr);
        direct.sampled(&key(0).0, &attr, Some(1000));
        direct.sampled(&key(0).0, &attr, Some(2000));
        direct.received(&attr, 3 << 20);
        direct.decide(5, |_| false);
        direct.decide(1000, |_| false);
        direct.requested(1000, key(1), &attr);
        direct.received(&attr, 1 << 20);
        direct.decide(1002, |_| false);
        assert!(!direct.covers(&attr), "4 MiB took 7 ms; directly they take 16");
    }
}
