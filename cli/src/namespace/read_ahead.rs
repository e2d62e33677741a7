//! Reads blocks of large files into the kernel's memory, through the view, while the programs start.
//!
//! A program that loads a large library waits for the kernel to read it, a page or a few at a time where it runs through
//! it backwards, and each read is a message to the daemon. What the last run of the program read is known.

use std::fs::{self, File};
use std::io;
use std::num::NonZero;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};

use headwater_abi::wire::BLOCK_BYTES;
use headwater_closure::recorded::{BlockRanges, Entry, Version, What};
use rustix::fs::{Advice, OFlags, fadvise, major, minor};

/// The kernel's read-ahead if it can't be read, in bytes.
const READ_AHEAD_BYTES: u64 = 128 << 10;
/// Blocks that are read at once. Beyond that the programs' own reads would wait for long.
const BLOCKS_MAX: usize = 8;

/// Reads the blocks that these lines of a closure name, of files that are as they were. What fails is left.
pub(super) fn read_ahead(lines: &[String]) {
    for entry in lines.iter().filter_map(|line| Entry::parse(line)) {
        if let What::Blocks(version, ranges) = &entry.what
            && let Ok(file) = File::options().read(true).custom_flags(flags()).open(&entry.path)
        {
            let _ = read_blocks(&file, version, ranges);
        }
    }
}

fn flags() -> i32 {
    (OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY).bits() as i32
}

fn read_blocks(file: &File, version: &Version, ranges: &BlockRanges) -> io::Result<()> {
    let now = file.metadata()?;
    let is_same = now.is_file()
        && (now.len(), now.mtime()) == (version.size, version.mtime_seconds)
        && now.mtime_nsec() == i64::from(version.mtime_nanoseconds);
    if !is_same {
        return Ok(());
    }
    // The kernel then takes twice its read-ahead at once.
    fadvise(file, 0, None, Advice::Sequential)?;
    let step = 2 * read_ahead_bytes(now.dev());
    for (index, block) in ranges.numbers().enumerate() {
        let start = u64::from(block) * BLOCK_BYTES;
        for offset in (start..start + BLOCK_BYTES).step_by(step as usize) {
            fadvise(file, offset, NonZero::new(step), Advice::WillNeed)?;
        }
        // Waits for the block, and those before it.
        if (index + 1) % BLOCKS_MAX == 0 {
            file.read_at(&mut [0], start)?;
        }
    }
    Ok(())
}

/// Returns the read-ahead of a file system's files, in bytes.
fn read_ahead_bytes(device: u64) -> u64 {
    let path = format!("/sys/class/bdi/{}:{}/read_ahead_kb", major(device), minor(device));
    let text = fs::read_to_string(path).unwrap_or_default();
    text.trim().parse().map_or(READ_AHEAD_BYTES, |kib: u64| (kib << 10).clamp(4096, BLOCK_BYTES))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_files_that_are_as_they_were_are_read() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        io::Write::write_all(&mut file, &vec![7; 3 << 20]).unwrap();
        let now = file.as_file().metadata().unwrap();
        let version =
            Version { size: now.len(), mtime_seconds: now.mtime(), mtime_nanoseconds: now.mtime_nsec() as u32 };
        let ranges = BlockRanges::new([0, 2, 9].into_iter());
        read_blocks(file.as_file(), &version, &ranges).unwrap();
        read_blocks(file.as_file(), &Version { size: 1, ..version }, &ranges).unwrap();
        read_ahead(&["blocks 1 1.000000000 0-3 /none".into(), "whole 1 1.000000000 /none".into(), "else".into()]);
    }
}
