//! What is recorded of each path, and when it was being fetched.

use std::collections::HashMap;

use headwater_abi::Path;
use headwater_abi::wire::Aspect;
use headwater_proto::Time;
use headwater_report::job::{Cause, PathRow, Source};

/// Paths that are recorded; further ones are counted.
pub(super) const PATHS_MAX: usize = 32_768;
/// Bytes of names in a part.
const NAMES_BYTES_MAX: usize = 3 << 20;
/// Fetches of a path that are remembered after their end. Requests that wait for more are rare.
const ENDED_MAX: usize = 4;

/// A part of a path that is fetched on its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Piece {
    Entry,
    Listing,
    Details,
    Content,
    Block(u32),
}

/// Where a node fetches something from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leg {
    SharedFs,
    Cache,
    Parent(u32),
}

/// A fetch that is under way.
#[derive(Clone, Copy, Debug)]
struct Fetch {
    piece: Piece,
    leg: Leg,
    since_us: Time,
    /// Bytes that were stored before, and bytes that are there now.
    bytes_before: u64,
    bytes: u64,
}

/// A fetch that has ended.
#[derive(Clone, Copy, Debug)]
struct Ended {
    leg: Leg,
    from_us: Time,
    to_us: Time,
}

#[derive(Debug)]
struct Tracked {
    path: Path,
    row: PathRow,
    open: Vec<Fetch>,
    ended: [Option<Ended>; ENDED_MAX],
    next_ended: usize,
}

/// All recorded paths.
#[derive(Debug, Default)]
pub(super) struct Paths {
    numbers: HashMap<Path, usize>,
    tracked: Vec<Tracked>,
    fetching: usize,
    left_out: u64,
}

impl Piece {
    pub(super) fn of(aspect: Aspect) -> Piece {
        match aspect {
            Aspect::Entry => Piece::Entry,
            Aspect::Listing => Piece::Listing,
            Aspect::Details => Piece::Details,
            Aspect::Loadable | Aspect::Whole => Piece::Content,
            Aspect::Block(number) => Piece::Block(number),
        }
    }
}

impl Paths {
    /// Returns the row of a path, which is added if there is room.
    pub(super) fn row(&mut self, path: &Path) -> Option<&mut PathRow> {
        self.tracked(path).map(|tracked| &mut tracked.row)
    }

    /// Returns the row of a path that is recorded already.
    pub(super) fn known(&mut self, path: &Path) -> Option<&mut PathRow> {
        let number = *self.numbers.get(path)?;
        Some(&mut self.tracked[number].row)
    }

    fn tracked(&mut self, path: &Path) -> Option<&mut Tracked> {
        if let Some(&number) = self.numbers.get(path) {
            return Some(&mut self.tracked[number]);
        }
        if self.tracked.len() == PATHS_MAX {
            self.left_out += 1;
            return None;
        }
        self.numbers.insert(path.clone(), self.tracked.len());
        let row = PathRow { hash: path.hash(), ..PathRow::default() };
        self.tracked.push(Tracked {
            path: path.clone(),
            row,
            open: Vec::new(),
            ended: [None; ENDED_MAX],
            next_ended: 0,
        });
        self.tracked.last_mut()
    }

    /// Begins to fetch a piece, of which `bytes_before` bytes are there.
    pub(super) fn begin(
        &mut self,
        now_us: Time,
        (path, piece): (&Path, Piece),
        leg: Leg,
        cause: Cause,
        bytes_before: u64,
    ) {
        let Some(tracked) = self.tracked(path) else { return };
        let is_first = tracked.row.fetched_us == 0;
        if is_first {
            (tracked.row.fetched_us, tracked.row.cause) = (now_us, cause);
        }
        // A request that is sent again goes to another node.
        let ended = tracked.open.iter().position(|fetch| fetch.piece == piece);
        if let Some(at) = ended {
            let fetch = tracked.open.remove(at);
            tracked.note_end(now_us, fetch);
        }
        tracked.open.push(Fetch { piece, leg, since_us: now_us, bytes_before, bytes: bytes_before });
        self.fetching += usize::from(ended.is_none());
    }

    /// Notes how many bytes of a piece are there.
    pub(super) fn progress(&mut self, path: &Path, piece: Piece, bytes: u64) {
        let Some(&number) = self.numbers.get(path) else { return };
        if let Some(fetch) = self.tracked[number].open.iter_mut().find(|fetch| fetch.piece == piece) {
            fetch.bytes = bytes;
        }
    }

    /// Ends the fetch of a piece. Returns where from, and how long it took in microseconds.
    pub(super) fn end(&mut self, now_us: Time, path: &Path, piece: Piece) -> Option<(Leg, u64)> {
        let tracked = &mut self.tracked[*self.numbers.get(path)?];
        let at = tracked.open.iter().position(|fetch| fetch.piece == piece)?;
        let fetch = tracked.open.remove(at);
        self.fetching -= 1;
        tracked.note_end(now_us, fetch);
        Some((fetch.leg, now_us - fetch.since_us))
    }

    /// Returns what the node waited for between two moments, of those that it fetches for `path`: the path and the
    /// directories above it. Each moment counts once.
    pub(super) fn legs(&self, path: &Path, from_us: Time, to_us: Time) -> Vec<(Leg, u64)> {
        let mut fetches = Vec::new();
        for at in std::iter::successors(Some(path.clone()), Path::parent) {
            let Some(&number) = self.numbers.get(&at) else { continue };
            let Tracked { open, ended, .. } = &self.tracked[number];
            let open = open.iter().map(|fetch| Ended { leg: fetch.leg, from_us: fetch.since_us, to_us });
            let overlaps = |fetch: &Ended| fetch.from_us < to_us && fetch.to_us > from_us;
            fetches.extend(ended.iter().flatten().copied().chain(open).filter(overlaps));
        }
        fetches.sort_by_key(|fetch| fetch.from_us);
        let mut counted_us = from_us;
        let mut legs = Vec::new();
        for fetch in fetches {
            let begin_us = fetch.from_us.max(counted_us);
            let end_us = fetch.to_us.min(to_us);
            if end_us > begin_us {
                legs.push((fetch.leg, end_us - begin_us));
                counted_us = end_us;
            }
        }
        legs
    }

    /// Returns how many fetches are under way.
    pub(super) fn fetching(&self) -> usize {
        self.fetching
    }

    /// Returns the rows with their names, as far as these are needed and have room, and how many paths had no room.
    /// `stored` returns the bytes of a path's copy.
    pub(super) fn finish(self, stored: impl Fn(&Path) -> u64) -> (Vec<PathRow>, Vec<(u64, String)>, u64) {
        let (mut rows, mut names, mut bytes) = (Vec::with_capacity(self.tracked.len()), Vec::new(), 0);
        for Tracked { path, mut row, .. } in self.tracked {
            if row.arrived_us > 0 {
                row.stored_bytes = stored(&path);
            }
            rows.push(row);
            // What a parent sent has its name from there, up to the node that has read it.
            if (row.source != Source::Parent || row.reads > 0) && bytes < NAMES_BYTES_MAX {
                let name = headwater_report::page::printable(path.as_bytes());
                bytes += name.len();
                names.push((row.hash, name));
            }
        }
        (rows, names, self.left_out)
    }
}

impl Tracked {
    fn note_end(&mut self, now_us: Time, fetch: Fetch) {
        let Fetch { leg, since_us, bytes_before, bytes, .. } = fetch;
        self.ended[self.next_ended] = Some(Ended { leg, from_us: since_us, to_us: now_us });
        self.next_ended = (self.next_ended + 1) % ENDED_MAX;
        let row = &mut self.row;
        row.fetch_us += now_us - since_us;
        (row.source, row.source_rank) = match leg {
            Leg::SharedFs => (Source::SharedFs, 0),
            Leg::Cache => (Source::Cache, 0),
            Leg::Parent(rank) => (Source::Parent, rank),
        };
        let came = bytes.saturating_sub(bytes_before);
        match leg {
            Leg::SharedFs => row.shared_fs_bytes += came,
            Leg::Cache => row.cache_bytes += came,
            // These are counted as they come.
            Leg::Parent(_) => {}
        }
        if leg == Leg::SharedFs {
            row.reads += 1;
            row.read_us += now_us - since_us;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_split_by_what_was_fetched_meanwhile() {
        let path = |text: &str| Path::new(text.as_bytes()).unwrap();
        let mut paths = Paths::default();
        let (directory, file) = (path("/sw/lib"), path("/sw/lib/x"));
        paths.begin(10, (&directory, Piece::Listing), Leg::Parent(1), Cause::Process, 0);
        assert_eq!(paths.end(30, &directory, Piece::Listing), Some((Leg::Parent(1), 20)));
        paths.begin(35, (&file, Piece::Content), Leg::SharedFs, Cause::Process, 0);
        assert_eq!(paths.legs(&file, 5, 50), [(Leg::Parent(1), 20), (Leg::SharedFs, 15)]);
        paths.progress(&file, Piece::Content, 4000);
        assert_eq!(paths.fetching(), 1);
        paths.end(60, &file, Piece::Content);
        assert_eq!(paths.end(70, &file, Piece::Content), None);
        assert_eq!(paths.legs(&file, 20, 100), [(Leg::Parent(1), 10), (Leg::SharedFs, 25)]);
        assert_eq!(paths.legs(&path("/sw"), 0, 100), []);
        // Both at once: each moment counts once.
        paths.begin(100, (&file, Piece::Block(0)), Leg::SharedFs, Cause::Process, 0);
        paths.begin(110, (&file, Piece::Block(1)), Leg::Parent(2), Cause::Process, 0);
        assert_eq!(paths.legs(&file, 100, 120), [(Leg::SharedFs, 20)]);
        let (rows, names, left_out) = paths.finish(|_| 7);
        assert_eq!((rows.len(), left_out), (2, 0));
        assert_eq!((rows[1].shared_fs_bytes, rows[1].reads, rows[1].read_us, rows[1].fetched_us), (4000, 1, 25, 35));
        assert_eq!(names, [(file.hash(), "/sw/lib/x".to_owned())]);
    }

    #[test]
    fn paths_have_a_limit() {
        let mut paths = Paths::default();
        for number in 0..=PATHS_MAX {
            paths.row(&Path::new(format!("/{number}").as_bytes()).unwrap());
        }
        assert_eq!((paths.tracked.len(), paths.left_out), (PATHS_MAX, 1));
    }
}
