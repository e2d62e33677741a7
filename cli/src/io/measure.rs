//! Measures the cost of page protection, memory and files of a directory for the cost model, in a second or two.
//!
//! Files are read without the node's cache, if the kernel drops it. Effects of other nodes and of a server's cache are
//! not measured.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::ptr;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use headwater_figures::text::nanoseconds;
use headwater_model::io::{Curve, Parameters, Storage};
use rustix::fs::{Advice, fadvise};
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};

/// Sizes that are measured, in bytes; of a file, the larger ones as far as time allows.
const SIZES: [usize; 4] = [64 << 10, 1 << 20, 8 << 20, 32 << 20];
/// Rounds of a memory measurement, of which the quickest counts.
const ROUNDS: usize = 3;
/// Time limit of writing, and of each kind of reading.
const FILE_TIME_MAX: Duration = Duration::from_millis(400);
/// One operation on a file.
const BLOCK: usize = 1 << 20;
/// A small operation, which shows the latency.
const SMALL: usize = 4096;
/// Limit of threads that read together.
const THREADS_MAX: usize = 4;

/// Measures into `parameters`; returns a description of the results.
///
/// # Errors
/// No file can be made in the directory, or there is no memory.
pub fn measure(directory: &Path, parameters: &mut Parameters) -> Result<String> {
    let mut memory = Memory::new(SIZES[SIZES.len() - 1]).context("there is no memory to measure with")?;
    let untouched = memory.protection(SIZES[SIZES.len() - 1]);
    memory.bytes().fill(1);
    parameters.protection = curve(SIZES.map(|size| (size, memory.protection(size))))?;
    parameters.copy = curve(SIZES.map(|size| (size, memory.copy(size))))?;
    let (read, write) = files(directory).with_context(|| {
        format!("{} can't be measured: name a directory where files can be made", directory.display())
    })?;
    let rate = |storage: &Storage| {
        let (bytes, seconds) = storage.single.points()[storage.single.points().len() - 1];
        bytes / seconds / 1e6
    };
    let time = |curve: &Curve| nanoseconds((curve.seconds((32 << 20) as f64) * 1e9) as u64);
    let description = format!(
        "measured: protection of 32 MB {} ({} if untouched), copy {}; one reader {:.0} MB/s, {:.1} times that by {} at \
         once, one writer {:.0} MB/s\n",
        time(&parameters.protection),
        nanoseconds((untouched * 1e9) as u64),
        time(&parameters.copy),
        rate(&read),
        read.node_speedup_max,
        readers(),
        rate(&write),
    );
    (parameters.read, parameters.write) = (read, write);
    Ok(description)
}

fn curve(points: impl IntoIterator<Item = (usize, f64)>) -> Result<Curve> {
    // The clock may not have advanced.
    let points = points.into_iter().map(|(bytes, seconds)| (bytes as f64, seconds.max(1e-9))).collect();
    Curve::new(points).map_err(anyhow::Error::msg)
}

/// Pages whose protection is changed.
struct Memory {
    start: *mut u8,
    bytes: usize,
}

impl Memory {
    fn new(bytes: usize) -> Result<Memory> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses the place, so nothing else is there.
        let start = unsafe { mmap_anonymous(ptr::null_mut(), bytes, access, MapFlags::PRIVATE)? };
        Ok(Memory { start: start.cast(), bytes })
    }

    fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: the pages are there and readable and writable whenever no method runs, zeroed at first, and no other
        // code has their address.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.bytes) }
    }

    /// Returns the seconds of one change of protection of the first `bytes`; a transformation makes two.
    fn protection(&mut self, bytes: usize) -> f64 {
        let set = |flags| {
            // SAFETY: these are this value's own pages; nothing uses them until all rights are back.
            let _ = unsafe { mprotect(self.start.cast(), bytes.min(self.bytes), flags) };
        };
        quickest(|| {
            set(MprotectFlags::empty());
            set(MprotectFlags::READ | MprotectFlags::WRITE);
        }) / 2.0
    }

    /// Returns the seconds of a copy of `bytes`, extrapolated from at most half of the pages.
    fn copy(&mut self, bytes: usize) -> f64 {
        let half = bytes.min(self.bytes / 2);
        let (from, to) = self.bytes().split_at_mut(half);
        quickest(|| to[..half].copy_from_slice(from)) * (bytes as f64 / half as f64)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the pages are this value's own, and it ends.
        let _ = unsafe { munmap(self.start.cast(), self.bytes) };
    }
}

fn quickest(mut work: impl FnMut()) -> f64 {
    let rounds = (0..ROUNDS).map(|_| {
        let started = Instant::now();
        work();
        started.elapsed().as_secs_f64()
    });
    rounds.fold(f64::INFINITY, f64::min)
}

/// Measures reading and writing in a directory.
fn files(directory: &Path) -> Result<(Storage, Storage)> {
    let path = directory.join(format!(".headwater-measure-{}", std::process::id()));
    let mut file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
    // The file vanishes with its descriptor, however this process ends.
    fs::remove_file(&path)?;
    let block = vec![b'x'; BLOCK];
    let largest = SIZES[SIZES.len() - 1];
    let written = timed(largest, |at, size| Ok(file.write(&block[..size.min(largest - at)])?))?;
    let bytes = written.last().map_or(0, |point| point.0);
    file.sync_data()?;
    let forget = || fadvise(&file, 0, None, Advice::DontNeed);
    forget()?;
    let mut space = vec![0; BLOCK];
    let read = timed(bytes, |at, size| Ok(file.read_at(&mut space[..size], at as u64)?))?;
    let (bytes, one) = *read.last().context("nothing could be read")?;
    forget()?;
    let together = together(&file, bytes)?;
    let mut read = Storage::new(curve(read)?, 1.0);
    read.node_speedup_max = (one / together).clamp(1.0, readers() as f64);
    read.speedup_max = read.node_speedup_max;
    Ok((read, Storage::new(curve(written)?, 1.0)))
}

/// Calls `one` for small pieces and then large ones, until `bytes` or the time limit. Returns seconds since the start
/// for some sizes.
fn timed(bytes: usize, mut one: impl FnMut(usize, usize) -> Result<usize>) -> Result<Vec<(usize, f64)>> {
    let started = Instant::now();
    let mut points: Vec<(usize, f64)> = Vec::new();
    let (mut at, mut next) = (0, SMALL);
    while at < bytes && started.elapsed() < FILE_TIME_MAX {
        let size = if at < SMALL { SMALL - at } else { BLOCK.min(bytes - at) };
        match one(at, size)? {
            0 => break,
            done => at += done,
        }
        if at >= next || at >= bytes {
            points.push((at, started.elapsed().as_secs_f64()));
            next = SIZES.into_iter().find(|size| *size > at).unwrap_or(usize::MAX);
        }
    }
    if points.last().is_some_and(|point| point.0 < at) {
        points.push((at, started.elapsed().as_secs_f64()));
    }
    Ok(points)
}

fn readers() -> usize {
    thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX)
}

/// Returns the seconds in which several threads read the file's first `bytes`, each a part.
fn together(file: &File, bytes: usize) -> Result<f64> {
    let started = Instant::now();
    let part = bytes.div_ceil(readers());
    thread::scope(|scope| {
        let read = |number: usize| {
            move || -> std::io::Result<()> {
                let (mut at, end) = (number * part, bytes.min((number + 1) * part));
                let mut space = vec![0; BLOCK];
                while at < end {
                    match file.read_at(&mut space[..BLOCK.min(end - at)], at as u64)? {
                        0 => break,
                        done => at += done,
                    }
                }
                Ok(())
            }
        };
        let threads: Vec<_> = (0..readers()).map(|number| scope.spawn(read(number))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("it reads"))
    })?;
    Ok(started.elapsed().as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_measured_can_be_used_and_nothing_is_left() {
        let directory = tempfile::tempdir().unwrap();
        let mut parameters = Parameters::default();
        let description = measure(directory.path(), &mut parameters).unwrap();
        assert!(description.contains("one reader"), "{description}");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
        assert_eq!(Parameters::parse(&parameters.write()).unwrap(), parameters);
        assert_eq!(parameters.protection.points().len(), SIZES.len());
        assert!(parameters.read.single.points().len() > 2 && parameters.read.node_speedup_max >= 1.0);
        assert!(measure(Path::new("/nonexistent"), &mut parameters).is_err());
    }
}
