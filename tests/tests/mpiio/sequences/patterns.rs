//! The patterns that are transformed, and their relatives: one rank reads a matrix and sends each a part, or receives
//! the parts of all and writes it.

use super::generate::{BEGINS, COMPLETIONS, Maker, RECEIVES, SENDS};
use super::program::{Collective, FileOp, Kind, Location, MemoryOp, OnFile, OnMemory, Parts, Typed};
use super::random::Random;
use super::touches::IN_PLACE;
use super::types::{BASE_BYTES, Type, lay};

/// Bits of a collective operation's variant in the plan.
const LATER: i64 = 1;
const LARGE: i64 = 4;
const COMPLETION: i64 = 8;
const MEETING: i64 = 128;

/// The matrix of a pattern: a part of it for each rank, which is so many elements of `whole` at a displacement.
struct Division {
    whole: Type,
    counts: Vec<i64>,
    displs: Vec<i64>,
    bytes: i64,
}

/// A matrix that is divided among the ranks, or gathered from them.
struct Moving {
    division: Division,
    is_gather: bool,
    root: usize,
    location: Location,
    /// Something else happens once in so many times.
    in_one: i64,
}

impl Maker {
    /// Rows, columns or blocks of a matrix, whose rows are often longer than a page.
    fn division(&mut self) -> Division {
        let base = self.base();
        let own = BASE_BYTES[base];
        let ranks = self.program.ranks as i64;
        let row_bytes =
            self.random.pick(&[64, 1000, 4096, 4800, 8192, 9000, 12_000, 16_384, 20_000]) / (8 * ranks) * 8 * ranks;
        let columns = (row_bytes / own).max(ranks);
        let rows_max = self.program.buffer_bytes / (columns * own);
        let rows = ((rows_max - self.random.below(1 + rows_max / 2)) / ranks * ranks).max(0);
        let bytes = rows * columns * own;
        let all = |n: i64| (0..ranks).map(|_| n).collect::<Vec<i64>>();
        let vector = |count, length, stride| Type::Vector { count, length, stride, of: Box::new(Type::Base(base)) };
        let mut division = match self.random.below(6) {
            0 => {
                let whole = Type::contiguous(base, columns);
                Division {
                    whole,
                    counts: all(rows / ranks),
                    displs: (0..ranks).map(|r| r * rows / ranks).collect(),
                    bytes,
                }
            }
            1 | 2 => {
                let width = columns / ranks - self.random.pick(&[0, 0, 1]).min(columns / ranks - 1);
                let whole = vector(rows, width, columns).resized(0, width * own);
                Division { whole, counts: all(1), displs: (0..ranks).collect(), bytes }
            }
            3 => {
                let down = if ranks % 2 == 0 { 2 } else { ranks };
                let across = ranks / down;
                let (height, width) = (rows / down, columns / across);
                let displs = (0..ranks).map(|r| r / across * height * columns + r % across * width).collect();
                let whole = if self.random.one_in(2) {
                    vector(height, width, columns)
                } else {
                    let (sizes, parts) = (vec![rows, columns], vec![height, width]);
                    let of = Box::new(Type::Base(base));
                    Type::Subarray { sizes, parts, starts: vec![0, 0], is_fortran: false, of }
                };
                Division { whole: whole.resized(0, own), counts: all(1), displs, bytes }
            }
            4 => {
                let whole = vector(rows / ranks, columns, columns * ranks).resized(0, columns * own);
                Division { whole, counts: all(1), displs: (0..ranks).collect(), bytes }
            }
            _ => self.division_of_any(base),
        };
        if self.random.one_in(4) {
            let (first, last) = (self.random.index(ranks as usize), self.random.index(ranks as usize));
            division.displs.swap(first, last);
            division.counts.swap(first, last);
        }
        if self.random.one_in(8) {
            let location = self.random.index(ranks as usize);
            division.counts[location] = 0;
        }
        division
    }

    /// So many of any type for each, one behind the other.
    fn division_of_any(&mut self, base: usize) -> Division {
        let ranks = self.program.ranks as i64;
        let room = self.program.buffer_bytes / ranks / 2;
        let elements = (self.size(room) / BASE_BYTES[base]).max(1);
        let (of, count, low) = lay(&mut self.random, base, elements, room);
        let mut blocks = vec![];
        of.blocks(low, count, &mut blocks);
        let high = blocks.iter().map(|block| block.1).max().unwrap_or(0);
        if low != 0 || count != 1 {
            let whole = Type::contiguous(base, elements);
            let (counts, displs) = ((0..ranks).map(|_| 1).collect(), (0..ranks).collect());
            return Division { whole, counts, displs, bytes: elements * BASE_BYTES[base] * ranks };
        }
        let whole = of.resized(0, (high + 7) / 8 * 8);
        let bytes = whole.extent() * ranks;
        Division { whole, counts: (0..ranks).map(|_| 1).collect(), displs: (0..ranks).collect(), bytes }
    }

    /// Which call it is, and how one that returns at once is completed.
    fn collective_variant(&mut self) -> i64 {
        let variant = self.random.pick(&[0, 0, 0, LATER, LATER, IN_PLACE, LATER | IN_PLACE, LARGE, LATER | LARGE]);
        if variant & LATER == 0 {
            return variant;
        }
        let meeting = if self.random.one_in(4) { MEETING } else { 0 };
        variant | meeting | (COMPLETION * self.random.below(COMPLETIONS))
    }

    /// One of the patterns, some times at the same call site.
    pub(super) fn pattern(&mut self) {
        let first = self.program.ops.len();
        let division = self.division();
        if division.bytes <= 0 || division.bytes > self.program.buffer_bytes {
            return;
        }
        let reads = self.random.one_in(2);
        let file = if self.random.one_in(3) { 1 } else { 2 * usize::from(!reads) };
        let root = self.owner(file);
        let buffer = self.random.index(4);
        let location = self.location(buffer, division.bytes);
        let at = if self.random.one_in(4) { None } else { Some(self.file_offset()) };
        let in_one = 3 + self.random.below(8);
        let bytes = division.bytes;
        let moving = Moving { division, is_gather: !reads, root, location, in_one };
        if reads {
            self.read_all(root, file, location, bytes, at);
            self.disturb(in_one);
            self.move_parts(&moving);
        } else {
            self.move_parts(&moving);
            self.inspect_between(root, location, bytes);
            self.disturb(in_one);
            self.write_all(root, file, location, bytes, at);
        }
        self.inspect_between(root, location, bytes);
        self.disturb(in_one);
        self.repeat(first);
        self.site += 1;
    }

    /// As a program's loop would, with other data.
    fn repeat(&mut self, first: usize) {
        let times = if self.random.one_in(3) { 1 + self.random.below(3) } else { 0 };
        let once = self.program.ops[first..].to_vec();
        for time in 1..=times {
            let (buffer, bytes, step) = (self.random.index(4), self.program.buffer_bytes, 997 + time);
            let location = Location { buffer, at: 0 };
            for rank in 0..self.program.ranks {
                let what = OnMemory::Store;
                self.add(Kind::Memory(MemoryOp { what, rank, location, other: location, bytes, how: 0, step }));
            }
            for op in &once {
                let mut op = op.clone();
                if let Kind::File(FileOp { what: OnFile::Read, at: Some(at), .. }) = &mut op.kind {
                    *at += time * 1000;
                }
                if let Kind::Collect { tag, .. } | Kind::Cancel { tag, .. } = &mut op.kind {
                    *tag = self.tag();
                }
                self.program.ops.push(op);
            }
        }
    }

    fn read_all(&mut self, root: usize, file: usize, location: Location, bytes: i64, at: Option<i64>) {
        let many = self.random.pick(&[1, 1, 1, 2, 3]);
        let piece = bytes / many;
        for n in 0..many {
            let own = if n == many - 1 { bytes - piece * n } else { piece };
            self.read(
                root,
                file,
                Location { at: location.at + piece * n, ..location },
                own,
                at.map(|at| at + piece * n),
            );
        }
    }

    fn write_all(&mut self, root: usize, file: usize, location: Location, bytes: i64, at: Option<i64>) {
        let many = self.random.pick(&[1, 1, 1, 2]);
        let piece = bytes / many;
        for n in 0..many {
            let own = if n == many - 1 { bytes - piece * n } else { piece };
            self.write(
                root,
                file,
                Location { at: location.at + piece * n, ..location },
                own,
                at.map(|at| at + piece * n),
            );
        }
    }

    /// The root reads a part, writes into it, or neither.
    fn inspect_between(&mut self, root: usize, location: Location, bytes: i64) {
        let from = if self.random.one_in(2) { 0 } else { self.random.below(bytes) };
        let part = if self.random.one_in(2) { bytes - from } else { self.random.below((bytes - from).min(20_000)) };
        let location = Location { at: location.at + from, ..location };
        match self.random.below(4) {
            0 => self.inspect(root, location, part, 0),
            1 => {
                let (what, step) = (self.random.pick(&[OnMemory::Store, OnMemory::Set]), 1 + self.random.below(9000));
                let how = self.random.below(5);
                let op = MemoryOp { what, rank: root, location, other: location, bytes: part, how, step };
                self.add(Kind::Memory(op));
            }
            _ => {}
        }
    }

    /// From the matrix to the ranks, or from these into it.
    fn move_parts(&mut self, moving: &Moving) {
        let Moving { division, is_gather, root, location, .. } = moving;
        let (is_gather, root, location) = (*is_gather, *root, *location);
        let base = division.whole.base();
        let elements = division.whole.elements();
        let comm = self.comm();
        let buffer = self.buffer(location.buffer);
        let most = division.counts.iter().copied().max().unwrap_or(1);
        let each = if most > 1 {
            let location = self.location(buffer, most * division.whole.bytes());
            Typed { of: Type::contiguous(base, elements), count: 1, location }
        } else {
            self.typed(base, elements, buffer)
        };
        let is_alike = division.counts.iter().all(|count| *count == division.counts[0])
            && division.displs.windows(2).all(|two| two[1] - two[0] == division.counts[0])
            && division.displs[0] == 0;
        let variant = self.collective_variant();
        match self.random.below(6) {
            0..3 if is_alike && self.random.one_in(2) => {
                let count = division.counts[0];
                let whole = Typed { of: division.whole.clone(), count, location };
                let each = Typed { count: each.count * count, ..each };
                let (send, receive) = if is_gather { (each, whole) } else { (whole, each) };
                let all = Collective { comm, root, variant: variant & !LARGE, send, receive };
                self.add(if is_gather { Kind::Gather(all) } else { Kind::Scatter(all) });
            }
            0..3 => {
                let (counts, displs) = (division.counts.clone(), division.displs.clone());
                let whole = division.whole.clone();
                self.add(Kind::Parts(Parts { is_gather, comm, root, variant, whole, location, counts, displs, each }));
            }
            _ => self.move_messages(moving, &each),
        }
        let rank = if is_gather { root } else { self.rank() };
        let (location, bytes) = (Location { buffer, at: 0 }, self.program.buffer_bytes);
        if !self.random.one_in(3) && !is_gather {
            self.inspect(rank, location, bytes, 0);
        }
    }

    /// The same, a message for each part.
    fn move_messages(&mut self, moving: &Moving, each: &Typed) {
        let Moving { division, is_gather, root, location, in_one } = moving;
        let root = *root;
        let extent = division.whole.extent();
        let (variant, alike) = (self.random.next(), self.random.one_in(2));
        let comm = self.comm();
        let peers = (0..self.program.ranks).filter(|peer| *peer != root);
        let mut messages = vec![];
        for peer in peers {
            let at = location.at + division.displs[peer] * extent;
            let of_root = Typed {
                of: division.whole.clone(),
                count: division.counts[peer],
                location: Location { buffer: location.buffer, at },
            };
            let of_peer = Typed { count: each.count * division.counts[peer], ..each.clone() };
            let mut message = match is_gather {
                true => self.message(comm, peer, root, of_peer, of_root),
                false => self.message(comm, root, peer, of_root, of_peer),
            };
            if alike {
                let mut same = Random::new(variant);
                message.send_variant = same.below(SENDS + BEGINS);
                message.receive_variant = same.below(RECEIVES + BEGINS);
            }
            messages.push(message);
        }
        if self.random.one_in(3) {
            for message in messages {
                self.add(Kind::Message(message));
                self.disturb(*in_one * 2);
            }
            return;
        }
        let receives_first = self.random.one_in(2);
        for sends in [!receives_first, receives_first] {
            for message in &mut messages {
                (message.send_variant, message.receive_variant) =
                    (message.send_variant % BEGINS, message.receive_variant % BEGINS);
                self.add(Kind::Begin { sends, message: message.clone() });
                self.disturb(*in_one * 3);
            }
        }
        for rank in 0..self.program.ranks {
            if !self.random.one_in(6) {
                self.finish(rank);
            }
        }
    }
}
