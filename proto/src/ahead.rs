//! Readahead for processes that read in order: blocks of a file, files of a directory.
//!
//! A node does not see reads of stored content. So some of what was read ahead is marked, and the driver
//! reports the first use of it, as the kernel's readahead does (Wu, "Sequential File Prefetching in Linux").
//! Unused content starts no further readahead.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::Range;

use headwater_abi::listing::d_type;
use headwater_abi::{Listing, Name};

/// Blocks of one file that processes read in order. The window begins with one block and doubles up to its
/// limit; while it is read, the next one is in transit.
#[derive(Debug, Default)]
pub(crate) struct Sequence {
    /// The block behind the last requested one.
    next: u32,
    /// The first block that was not read ahead.
    end: u32,
    window: u32,
    /// The block whose use starts the next window.
    mark: Option<u32>,
}

impl Sequence {
    /// Notes that a process needs a block that is not stored. Returns the blocks to read ahead.
    pub(crate) fn missed(&mut self, block: u32, window_max: u32) -> Range<u32> {
        if self.mark == Some(block) {
            return self.used(block, window_max);
        }
        let is_next = block == self.next || (self.window > 0 && (self.next..=self.end).contains(&block));
        let is_overtaking = is_next && block < self.end;
        self.next = block.saturating_add(1);
        if is_overtaking {
            // It is in transit.
            return self.end..self.end;
        }
        self.window = if is_next { (self.window * 2).max(1).min(window_max) } else { 0 };
        self.end = self.next;
        self.advance()
    }

    /// Notes that a process used this block. Returns the blocks to read ahead.
    pub(crate) fn used(&mut self, block: u32, window_max: u32) -> Range<u32> {
        if self.mark != Some(block) {
            return self.end..self.end;
        }
        self.next = block.saturating_add(1);
        self.window = (self.window * 2).max(1).min(window_max);
        self.advance()
    }

    /// Returns whether the use of this block is to be reported.
    pub(crate) fn is_marked(&self, block: u32) -> bool {
        self.mark == Some(block)
    }

    fn advance(&mut self) -> Range<u32> {
        let ahead = self.end..self.end.saturating_add(self.window);
        self.mark = (!ahead.is_empty()).then_some(ahead.start);
        self.end = ahead.end;
        ahead
    }
}

/// Requests for contents of one directory, each for the file behind the one before, from which on files are
/// read ahead. A program that knows its files skips some, and has none read ahead.
const STREAK_MIN: u32 = 16;
/// Names that may be skipped later: files without content are not requested.
const GAP_MAX: usize = 4;
/// One of so many files that are read ahead is marked.
const MARK_EVERY: usize = 8;
/// Files that may be requested when a marked one has been used.
const CREDIT_FOR_MARK: usize = 32;

/// Contents of one directory's files that processes request one after the other, in the directory's order or
/// in that of the names. Each file that is read ahead costs credit; each use of a marked one earns some.
#[derive(Debug, Default)]
pub(crate) struct Files {
    requests: u32,
    /// The last requested file.
    last: u32,
    /// The last requests in order, by [`By`].
    streaks: [Streak; 2],
    order: Option<Order>,
    /// Where to continue.
    end: usize,
    credit: usize,
    /// Marked files by number, and what was read ahead with each.
    marks: BTreeMap<u32, Unproven>,
    newest_mark: u32,
    all: Unproven,
}

/// Consecutive requests, each for a file behind the one before.
#[derive(Clone, Copy, Debug, Default)]
struct Streak {
    first: u32,
    files: u32,
}

/// Files that were read ahead and have not been used yet.
#[derive(Clone, Copy, Debug, Default)]
struct Unproven {
    files: usize,
    bytes: u64,
}

/// The order of the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    Listing,
    Name,
}

impl By {
    /// Returns what the files are ordered by.
    fn key(self, listing: &Listing, number: usize) -> (Option<&[u8]>, usize) {
        match self {
            By::Listing => (None, number),
            By::Name => (listing.get(number).map(|n| n.name), 0),
        }
    }
}

/// The order in which files are read, with the numbers of all names in this order.
#[derive(Debug)]
struct Order {
    by: By,
    numbers: Vec<u32>,
}

impl Order {
    fn new(by: By, listing: &Listing) -> Order {
        let mut numbers: Vec<u32> = (0..listing.len() as u32).collect();
        numbers.sort_unstable_by_key(|&number| by.key(listing, number as usize));
        Order { by, numbers }
    }
}

impl Files {
    /// Notes that a process needs the content of a file that is not stored. True if more are to be requested.
    /// `expected`: all of this directory's files are likely to be read, in this order.
    pub(crate) fn missed(&mut self, listing: &Listing, number: usize, files_max: usize, expected: Option<By>) -> bool {
        self.count(listing, number);
        if self.order.is_none() {
            let Some(by) = expected.or_else(|| self.by(listing)) else { return false };
            self.order = Some(Order::new(by, listing));
            self.end = self.position(listing, number).unwrap_or(0);
        }
        if self.used(number, files_max) {
            return true;
        }
        let Some(at) = self.position(listing, number) else { return false };
        if at > self.end + GAP_MAX {
            // The reading in order has stopped.
            (self.order, self.credit) = (None, 0);
            return false;
        }
        if at >= self.end {
            // It has passed all that was read ahead.
            self.credit = (self.credit + CREDIT_FOR_MARK).min(files_max);
            self.end = at + 1;
        }
        self.credit > 0
    }

    /// Notes that a process used the file with this number. True if more are to be requested.
    pub(crate) fn used(&mut self, number: usize, files_max: usize) -> bool {
        let Some(Unproven { files, bytes }) = self.marks.remove(&(number as u32)) else { return false };
        self.all.files -= files;
        self.all.bytes -= bytes;
        self.credit = (self.credit + CREDIT_FOR_MARK).min(files_max);
        true
    }

    /// Returns the order of the files, if each follows the one before.
    pub(crate) fn strictly_by(&self) -> Option<By> {
        let by = self.order.as_ref()?.by;
        (self.streaks[by as usize].files == self.requests).then_some(by)
    }

    /// Returns whether nothing was requested yet.
    pub(crate) fn is_untouched(&self) -> bool {
        self.requests == 0
    }

    /// Returns whether the use of this file is to be reported.
    pub(crate) fn is_marked(&self, number: usize) -> bool {
        self.marks.contains_key(&(number as u32))
    }

    /// Returns whether the use of any file is to be reported.
    pub(crate) fn is_marking(&self) -> bool {
        !self.marks.is_empty()
    }

    /// Returns the next file to consider, if the credit suffices; the caller takes or passes it.
    pub(crate) fn next(&self, files_max: usize, bytes_max: u64) -> Option<usize> {
        let is_enough = self.all.files >= files_max || self.all.bytes >= bytes_max;
        if is_enough || self.credit == 0 {
            return None;
        }
        self.order.as_ref()?.numbers.get(self.end).map(|&number| number as usize)
    }

    /// Skips the next file.
    pub(crate) fn pass(&mut self) {
        self.end += 1;
    }

    /// Notes that the next file, with this number and size, is requested.
    pub(crate) fn take(&mut self, number: usize, bytes: u64) {
        self.end += 1;
        self.credit -= 1;
        if self.marks.get(&self.newest_mark).is_none_or(|mark| mark.files == MARK_EVERY) {
            self.newest_mark = number as u32;
        }
        let mark = self.marks.entry(self.newest_mark).or_default();
        for unproven in [mark, &mut self.all] {
            unproven.files += 1;
            unproven.bytes += bytes;
        }
    }

    fn count(&mut self, listing: &Listing, number: usize) {
        let last = self.last as usize;
        if self.requests > 0 && number == last {
            return;
        }
        for by in [By::Listing, By::Name] {
            let is_behind = self.requests > 0 && by.key(listing, last) < by.key(listing, number);
            let streak = &mut self.streaks[by as usize];
            if is_behind {
                streak.files += 1;
            } else {
                *streak = Streak { first: number as u32, files: 1 };
            }
        }
        self.last = number as u32;
        self.requests += 1;
    }

    /// Returns the order in which files were read without skipping any. After a skip, an order has to be
    /// established again.
    fn by(&mut self, listing: &Listing) -> Option<By> {
        for by in [By::Listing, By::Name] {
            let Streak { first, files } = self.streaks[by as usize];
            if files < STREAK_MIN {
                continue;
            }
            let (first, last) = (first as usize, self.last as usize);
            let read = by.key(listing, first)..=by.key(listing, last);
            let is_between = |n: usize| read.contains(&by.key(listing, n));
            let is_file = |name: Name<'_>| matches!(name.d_type, d_type::FILE | d_type::UNKNOWN);
            if listing.iter().enumerate().filter(|&(n, name)| is_file(name) && is_between(n)).count() == files as usize
            {
                return Some(by);
            }
            self.streaks[by as usize] = Streak { first: self.last, files: 1 };
        }
        None
    }

    fn position(&self, listing: &Listing, number: usize) -> Option<usize> {
        let Order { by, numbers } = self.order.as_ref()?;
        numbers.binary_search_by_key(&by.key(listing, number), |&n| by.key(listing, n as usize)).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;
    use alloc::format;
    use headwater_abi::Name;

    #[test]
    fn blocks_arrive_before_they_are_read() {
        let (mut sequence, mut here, mut missed) = (Sequence::default(), BTreeSet::new(), 0);
        let mut furthest = 0;
        for block in 0..100 {
            let is_here = here.contains(&block);
            missed += u32::from(!is_here);
            let ahead = match is_here {
                true if sequence.is_marked(block) => sequence.used(block, 4),
                true => 0..0,
                false => sequence.missed(block, 4),
            };
            assert!(ahead.clone().all(|number| number > block && here.insert(number)));
            furthest = furthest.max(ahead.end.saturating_sub(block));
        }
        assert_eq!((missed, furthest), (1, 8), "only the first was missing; two windows are in transit at most");
    }

    #[test]
    fn scattered_blocks_bring_nothing() {
        let mut sequence = Sequence::default();
        for block in [50, 10, 12, 40, 38, 90, 7] {
            assert!(sequence.missed(block, 4).is_empty(), "{block}");
        }
        assert_eq!(sequence.missed(8, 4), 9..10);
        assert_eq!(sequence.used(9, 4), 10..12);
        assert!(sequence.used(11, 4).is_empty(), "it is not the marked one");
        assert!(sequence.missed(11, 4).is_empty(), "it is in transit");
        assert_eq!(sequence.missed(12, 4), 13..17);
        assert_eq!(Sequence::default().missed(0, 4), 1..2);
    }

    /// Names of which neither order is the other's.
    fn directory(count: usize) -> Listing {
        let names: Vec<_> = (0..count).map(|n| format!("f{:05}", n * 7919 % count)).collect();
        names.iter().map(|name| Name { ino: 1, d_type: 8, name: name.as_bytes() }).collect()
    }

    /// Reads files in this order. Returns how many the process requested, how many were read ahead, and how
    /// many of these were unused at once, at most.
    fn read(listing: &Listing, order: impl Iterator<Item = usize>, files_max: usize) -> (usize, usize, usize) {
        let mut files = Files::default();
        let (mut here, mut missed, mut unused) = (BTreeSet::new(), 0, BTreeSet::new());
        let mut unused_max = 0;
        for number in order {
            let goes_on = if here.insert(number) {
                missed += 1;
                files.missed(listing, number, files_max, None)
            } else {
                unused.remove(&number);
                files.is_marked(number) && files.used(number, files_max)
            };
            while goes_on && let Some(next) = files.next(files_max, 1 << 20) {
                match here.insert(next) && unused.insert(next) {
                    true => files.take(next, 1000),
                    false => files.pass(),
                }
            }
            unused_max = unused_max.max(unused.len());
        }
        (missed, here.len() - missed, unused_max)
    }

    #[test]
    fn files_arrive_before_they_are_read() {
        let listing = directory(5000);
        let mut by_name: Vec<usize> = (0..5000).collect();
        by_name.sort_by_key(|&number| listing.get(number).unwrap().name);
        for order in [(0..5000).collect(), by_name] {
            let (missed, ahead, unused_max) = read(&listing, Vec::into_iter(order), 512);
            assert_eq!((missed, ahead), (16, 5000 - 16));
            assert!((400..=520).contains(&unused_max), "{unused_max}");
        }
    }

    #[test]
    fn a_program_that_reads_a_few_brings_few() {
        let listing = directory(5000);
        assert_eq!(read(&listing, 0..15, 512), (15, 0, 0));
        assert_eq!(read(&listing, (0..5000).map(|n| n * 2741 % 5000).take(100), 512), (100, 0, 0));
        let (_, ahead, unused_max) = read(&listing, 0..5000, 40);
        assert!(ahead > 4000 && unused_max <= 48, "{ahead} {unused_max}");
    }

    #[test]
    fn a_program_that_leaves_files_out_brings_none_of_them() {
        let listing = directory(5000);
        let mut by_name: Vec<usize> = (0..5000).collect();
        by_name.sort_by_key(|&number| listing.get(number).unwrap().name);
        for order in [(0..5000).collect(), by_name] {
            let all_but_some = Vec::into_iter(order).enumerate().filter(|(n, _)| n % 10 != 9).map(|(_, number)| number);
            assert_eq!(read(&listing, all_but_some, 512), (4500, 0, 0));
        }
        // Directories are not files; many requests for one file count once.
        let names: Vec<_> = (0..200).map(|n| format!("{n:03}")).collect();
        let names =
            names.iter().enumerate().map(|(n, name)| (if n % 3 == 0 { d_type::DIR } else { d_type::FILE }, name));
        let listing = names.map(|(d_type, name)| Name { ino: 1, d_type, name: name.as_bytes() }).collect();
        let mut files = Files::default();
        let mut owes_answer =
            |number| files.missed(&listing, number, 512, None) || files.missed(&listing, number, 512, None);
        let requested: Vec<usize> = (0..30).filter(|n| n % 3 != 0).filter(|&number| owes_answer(number)).collect();
        assert_eq!(requested, [23, 25, 26, 28, 29]);
        assert!(!owes_answer(150), "one that is far away ends it");
    }

    #[test]
    fn bytes_are_bounded() {
        let (listing, mut files) = (directory(5000), Files::default());
        assert!((0..15).all(|number| !files.missed(&listing, number, 512, None)));
        assert!(files.missed(&listing, 15, 512, None));
        let mut bytes = 0;
        while let Some(next) = files.next(512, 100_000) {
            files.take(next, 9_000);
            bytes += 9_000;
        }
        assert_eq!(bytes, 108_000);
        assert!(files.used(16, 512) && files.next(512, 100_000).is_some(), "what is used counts no more");
    }
}
