//! Small files that are likely to be read next are put into the kernel's page cache ahead.
//!
//! A program that reads the small files of a directory one after another waits for an answer for each,
//! and most of that is waking up a worker and itself. Once some neighbours were read in order, by the
//! directory's order or by the names', the following ones that are here are stored without having been
//! asked for: a window that doubles as long as the program goes on into it. Reading 10,000 files of a
//! kilobyte takes half the time so, of 64 KiB still two thirds. Other guesses do not pay: a file that
//! is stored once it is looked up comes too late, since the program asks for its pages just then, and
//! of a library most pages are never used.
//!
//! While the kernel takes a page in, it waits, and can't be interrupted, for whoever has locked that
//! page: a program whose READ is not answered yet. If everybody who could answer is killed just then,
//! only aborting the connection ends that. So it is done only by who may do that, and only for files
//! that were never asked for.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use headwater_abi::hash;
use headwater_abi::table::Names;
use headwater_fuse::NodeId;
use rustix::thread::{CapabilitySet, capabilities};

/// The largest file that is stored ahead, in bytes; copying larger ones costs as much as asking.
pub(crate) const FILE_BYTES_MAX: u64 = 64 << 10;
/// Neighbours that were read one after another before anything is stored.
const STREAK_MIN: u32 = 4;
/// How far apart two neighbours are at most: directories and other things between them.
const GAP_MAX: usize = 4;
/// Files that are stored at a time, at first and at most.
const WINDOW_MIN: usize = 16;
const WINDOW_MAX: usize = 256;
/// Bytes that are stored at a time, at most.
const WINDOW_BYTES_MAX: u64 = 4 << 20;
/// Files read in a directory before its names are put in order, and the names for which that is done.
const UNSORTED_MAX: u32 = 8;
const SORTED_NAMES_MAX: usize = 1 << 16;
/// Directories that are watched at a time.
const SCANS_MAX: usize = 32;

/// Bits that tell which nodes were asked for, each standing for many; a power of two.
const ASKED_BITS: u64 = 1 << 20;

/// Which directories are being read file by file. The default stores nothing.
#[derive(Debug, Default)]
pub(crate) struct Ahead {
    /// The one that was read in last stands last.
    scans: Mutex<Vec<Scan>>,
    /// A bit for each node of which pages were asked for. Empty where nothing may be stored.
    asked: Box<[AtomicU64]>,
}

/// What stands at a place that may be read next.
#[derive(Debug)]
pub(crate) enum Candidate<T> {
    /// A file to be stored, and its size in bytes.
    Here(T, u64),
    /// A file that is not here yet; what follows will not be either.
    Coming,
    /// Nothing to be stored.
    None,
}

/// One process that reads a directory's files.
#[derive(Debug)]
struct Scan {
    directory: u64,
    process: u32,
    reads: u32,
    listed: Run,
    by_name: Option<(Box<[u32]>, Run)>,
}

/// How far one order's files were read and stored. Positions are those in the order.
#[derive(Clone, Debug, Default)]
struct Run {
    last: Option<usize>,
    streak: u32,
    /// Before this all were read or stored.
    end: usize,
    /// A file in the middle of the window that was not stored: when it is asked for, the program has
    /// come there, and is stored for on while it reads the rest.
    marker: usize,
    window: usize,
}

impl Ahead {
    /// False where nothing may be stored ahead.
    pub(crate) fn is_on(&self) -> bool {
        !self.asked.is_empty()
    }

    /// Which of a directory's files are to be stored, once this process has read the file `name` in it. Nothing is
    /// waited for: two reads at once are rare, and nothing depends on either.
    pub(crate) fn wanted<T>(
        &self,
        (directory, process): (u64, u32),
        names: &Names<'_>,
        name: &[u8],
        candidate: impl Fn(&[u8]) -> Candidate<T>,
    ) -> Option<Vec<T>> {
        let mut scans = self.scans.try_lock().ok()?;
        let window = scan(&mut scans, directory, process).read(names, name)?;
        Some(window.collect(names, candidate))
    }

    /// On a connection of which no READ has come yet: stores ahead if this process may abort it.
    pub(crate) fn of_new_connection() -> Ahead {
        let words = if may_abort() { ASKED_BITS / 64 } else { 0 };
        Ahead { asked: (0..words).map(|_| AtomicU64::new(0)).collect(), ..Ahead::default() }
    }

    /// Pages of this node are asked for.
    pub(crate) fn asks(&self, node: NodeId) {
        if let Some((word, bit)) = self.place(node) {
            word.fetch_or(bit, Ordering::Relaxed);
        }
    }

    /// Whether pages of this node may have been asked for.
    pub(crate) fn was_asked(&self, node: NodeId) -> bool {
        self.place(node).is_none_or(|(word, bit)| word.load(Ordering::Relaxed) & bit != 0)
    }

    fn place(&self, node: NodeId) -> Option<(&AtomicU64, u64)> {
        let number = hash::bytes(&node.0.to_ne_bytes()) & (ASKED_BITS - 1);
        Some((self.asked.get((number / 64) as usize)?, 1 << (number % 64)))
    }
}

/// Whether this process is root where the kernel asks, so that it may abort any connection.
fn may_abort() -> bool {
    let is_initial = |map: String| map.split_ascii_whitespace().eq(["0", "0", "4294967295"]);
    std::fs::read_to_string("/proc/self/uid_map").is_ok_and(is_initial)
        && capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::SYS_ADMIN))
}

fn scan(scans: &mut Vec<Scan>, directory: u64, process: u32) -> &mut Scan {
    let found = scans.iter().position(|scan| scan.directory == directory && scan.process == process);
    let scan = match found {
        Some(at) => scans.remove(at),
        None => {
            if scans.len() >= SCANS_MAX {
                scans.remove(0);
            }
            Scan { directory, process, reads: 0, listed: Run::default(), by_name: None }
        }
    };
    scans.push(scan);
    scans.last_mut().expect("one was pushed")
}

/// A window to be filled, in the order that fits.
struct Window<'a> {
    run: &'a mut Run,
    order: Option<&'a [u32]>,
}

impl Scan {
    /// Notes that the file `name` was read; the window to store, if its time has come.
    fn read(&mut self, names: &Names<'_>, name: &[u8]) -> Option<Window<'_>> {
        self.reads = self.reads.saturating_add(1);
        if self.listed.read(names.position(name)?) {
            return Some(Window { run: &mut self.listed, order: None });
        }
        if self.listed.streak >= STREAK_MIN || self.reads < UNSORTED_MAX || names.len() > SORTED_NAMES_MAX {
            return None;
        }
        let (order, run) = self.by_name.get_or_insert_with(|| (sorted(names), Run::default()));
        let mut other = Vec::new();
        let compare = |number: &u32| {
            names.get(*number as usize, &mut other);
            other.as_slice().cmp(name)
        };
        let position = order.binary_search_by(compare).ok()?;
        run.read(position).then_some(Window { run, order: Some(order) })
    }
}

fn sorted(names: &Names<'_>) -> Box<[u32]> {
    let mut buffer = Vec::new();
    let mut all: Vec<(Box<[u8]>, u32)> = (0..names.len())
        .filter_map(|number| names.get(number, &mut buffer).map(|_| (buffer.as_slice().into(), number as u32)))
        .collect();
    all.sort_unstable();
    all.into_iter().map(|(_, number)| number).collect()
}

impl Window<'_> {
    fn collect<T>(self, names: &Names<'_>, candidate: impl Fn(&[u8]) -> Candidate<T>) -> Vec<T> {
        let mut name = Vec::new();
        let next = |position: usize| {
            let number = match self.order {
                Some(order) => *order.get(position)? as usize,
                None => position,
            };
            names.get(number, &mut name)?;
            Some(candidate(&name))
        };
        self.run.fill(next)
    }
}

impl Run {
    /// Notes a read; true if a window is to be stored.
    fn read(&mut self, position: usize) -> bool {
        let goes_on = |last| position > last && position <= self.end.max(last) + GAP_MAX;
        if !self.last.is_some_and(goes_on) {
            *self = Run { last: Some(position), streak: 1, end: position + 1, ..Run::default() };
            return false;
        }
        self.last = Some(position);
        self.end = self.end.max(position + 1);
        self.streak = self.streak.saturating_add(1);
        self.streak >= STREAK_MIN && position >= self.marker
    }

    /// Fills the next window. `next` gives what stands at a position; `None` behind the last one.
    fn fill<T>(&mut self, mut next: impl FnMut(usize) -> Option<Candidate<T>>) -> Vec<T> {
        let window = (self.window * 2).clamp(WINDOW_MIN, WINDOW_MAX);
        let (mut stored, mut bytes, mut marker) = (Vec::new(), 0, None);
        let end_max = self.end + window * GAP_MAX;
        while stored.len() < window && bytes < WINDOW_BYTES_MAX && self.end < end_max {
            match next(self.end) {
                None | Some(Candidate::Coming) => break,
                Some(Candidate::None) => {}
                Some(Candidate::Here(..)) if stored.len() == window / 2 && marker.is_none() => marker = Some(self.end),
                Some(Candidate::Here(file, size)) => {
                    bytes += size;
                    stored.push(file);
                }
            }
            self.end += 1;
        }
        self.marker = marker.unwrap_or(self.end);
        if !stored.is_empty() {
            self.window = window;
        }
        stored
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// Reads these positions of an order of `count` files; what was asked for, and what was stored
    /// and never read.
    fn scan(count: usize, positions: impl Iterator<Item = usize>) -> (usize, usize) {
        let (mut run, mut cached, mut read, mut asked) = (Run::default(), HashSet::new(), HashSet::new(), 0);
        for position in positions {
            read.insert(position);
            if !cached.insert(position) {
                continue;
            }
            asked += 1;
            if run.read(position) {
                cached.extend(run.fill(|at| (at < count).then_some(Candidate::Here(at, 1000))));
            }
        }
        (asked, cached.difference(&read).count())
    }

    #[test]
    fn a_scan_asks_for_few() {
        let (asked, wasted) = scan(10_000, 0..10_000);
        assert!(asked < 100, "{asked}");
        assert_eq!(wasted, 0);
        // Each third file is something else.
        let (asked, _) = scan(10_000, (0..10_000).step_by(3));
        assert!(asked < 300, "{asked}");
    }

    #[test]
    fn a_scan_that_ends_has_cost_a_window() {
        for end in [3, 10, 100, 1000] {
            let (_, wasted) = scan(10_000, 0..end);
            assert!(wasted <= if end < 4 { 0 } else { (2 * end).min(2 * WINDOW_MAX) + WINDOW_MIN }, "{end}: {wasted}");
        }
    }

    #[test]
    fn without_an_order_nothing_is_stored() {
        let scattered = (0..1000).map(|n| n * 617 % 10_007);
        assert_eq!(scan(10_007, scattered), (1000, 0));
        assert_eq!(scan(1000, (0..1000).rev()), (1000, 0));
    }

    #[test]
    fn what_was_asked_for_is_remembered() {
        let on = Ahead { asked: (0..ASKED_BITS / 64).map(|_| AtomicU64::new(0)).collect(), ..Ahead::default() };
        (0..1000).map(|n| NodeId(n * 17)).for_each(|node| on.asks(node));
        assert!((0..1000).all(|n| on.was_asked(NodeId(n * 17))));
        let others = (0..1000).filter(|n| on.was_asked(NodeId(n * 17 + 1))).count();
        assert!(others < 20, "{others}");
        let off = Ahead::default();
        off.asks(NodeId(1));
        assert!(off.was_asked(NodeId(2)), "nothing is known to be safe");
    }

    #[test]
    fn large_files_make_small_windows() {
        let mut run = Run { window: WINDOW_MAX, ..Run::default() };
        assert_eq!(
            run.fill(|at| Some(Candidate::Here(at, FILE_BYTES_MAX))).len() as u64,
            WINDOW_BYTES_MAX / FILE_BYTES_MAX
        );
        let mut run = Run::default();
        assert!(run.fill::<()>(|_| Some(Candidate::None)).is_empty(), "a directory without files ends the search");
        assert_eq!(run.end, WINDOW_MIN * GAP_MAX);
    }

    #[test]
    fn what_is_on_its_way_is_waited_for() {
        let mut run = Run::default();
        for (here, expected) in [(0, 0), (5, 5), (5, 0), (6, 1), (100, 64)] {
            let next = |at| Some(if at < here { Candidate::Here(at, 1) } else { Candidate::Coming });
            assert_eq!(run.fill(next).len(), expected, "{here}");
        }
    }
}
