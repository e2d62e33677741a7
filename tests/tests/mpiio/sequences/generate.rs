//! Programs from seeds: patterns (`patterns.rs`), with anything else in between.

use super::program::{
    Access, Collective, FileOp, Kind, Location, Memory, MemoryOp, Message, OnFile, OnMemory, Op, Program, Typed,
};
use super::random::Random;
use super::types::{BASE_BYTES, DOUBLE, STRUCTURE, Type, lay};

const PAGE_BYTES: i64 = 4096;
/// Variants of the plan: of reads and writes, requests' beginnings and ends, sends and receives.
const FILE_VARIANTS: i64 = 6;
pub(super) const BEGINS: i64 = 5;
pub(super) const COMPLETIONS: i64 = 11;
pub(super) const SENDS: i64 = 4;
pub(super) const RECEIVES: i64 = 9;
/// Inspections: by the program's own loads, by system calls, by a child; and by a thread, where others are allowed.
const INSPECTIONS: [i64; 10] = [0, 0, 1, 2, 2, 3, 4, 5, 6, 7];
const INSPECT_BY_THREAD: i64 = 8;
const INSPECT_BY_CHILD: i64 = 9;

/// Call sites of the program: all that there are, and those that a program uses.
const SITES: u64 = 4096 / SITES_OF_ONE;
const SITES_OF_ONE: u64 = 5;

/// The common part of all programs of a job.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    pub ranks_max: usize,
    pub has_threads: bool,
    pub is_apart: bool,
}

pub(super) struct Maker {
    pub(super) random: Random,
    pub(super) program: Program,
    pub(super) site: u64,
    tags: usize,
    has_structures: bool,
    has_inspected_by_child: bool,
}

pub fn program(seed: u64, setting: &Setting) -> Program {
    let mut random = Random::new(seed);
    let ranks = if random.one_in(2) { setting.ranks_max } else { 2 + random.index(setting.ranks_max - 1) };
    let buffer_bytes = PAGE_BYTES * random.pick(&[16, 75, 150, 200, 256, 256]);
    let mapped = match seed % 5 {
        3 => Memory::Shared,
        4 => Memory::OfFile,
        _ => Memory::Mapped,
    };
    let memory = (0..4).map(|_| if random.one_in(2) { mapped } else { Memory::Allocated }).collect();
    let accesses = [Access::ReadOnly, Access::ReadOnly, Access::ReadWrite, Access::WriteOnly];
    // The first is read, the last is written.
    let files = (0..3)
        .map(|file| {
            let access = match file {
                0 => Access::ReadOnly,
                1 => random.pick(&accesses),
                _ => random.pick(&accesses[2..]),
            };
            (random.pick(&[buffer_bytes + 100_000, 2 * buffer_bytes, 300_001, 70_000, 5000, 0]), access)
        })
        .collect();
    let program = Program {
        ranks,
        has_threads: setting.has_threads,
        is_apart: setting.is_apart,
        buffer_bytes,
        memory,
        files,
        ops: vec![],
    };
    let mut maker = Maker {
        random,
        program,
        site: seed % SITES * SITES_OF_ONE,
        tags: 0,
        has_structures: seed % 4 == 3,
        has_inspected_by_child: false,
    };
    for _ in 0..1 + maker.random.below(4) {
        if maker.random.one_in(5) {
            maker.anything();
        } else {
            maker.pattern();
        }
    }
    maker.program
}

impl Maker {
    pub(super) fn add(&mut self, kind: Kind) {
        let site = self.site;
        self.program.ops.push(Op { site, kind });
    }

    pub(super) fn tag(&mut self) -> usize {
        self.tags += 1;
        self.tags.min(250)
    }

    pub(super) fn rank(&mut self) -> usize {
        self.random.index(self.program.ranks)
    }

    pub(super) fn root(&mut self) -> usize {
        if self.random.one_in(3) { self.rank() } else { 0 }
    }

    /// The elements of a type.
    pub(super) fn base(&mut self) -> usize {
        match self.random.index(3) {
            DOUBLE if self.has_structures => STRUCTURE,
            base => base,
        }
    }

    pub(super) fn comm(&mut self) -> usize {
        usize::from(self.random.one_in(4))
    }

    pub(super) fn buffer(&mut self, not: usize) -> usize {
        (not + 1 + self.random.index(self.program.memory.len() - 1)) % self.program.memory.len()
    }

    /// Sizes around pages and thresholds, and any others, up to a limit.
    pub(super) fn size(&mut self, bound: i64) -> i64 {
        let sizes = [0, 1, 7, 4095, 4096, 4097, 8192, 16384, 65535, 65536, 65537, 131_072, 262_144, 300_000];
        let size = if self.random.one_in(2) { self.random.pick(&sizes) } else { self.random.below(bound) };
        size.min(bound)
    }

    /// Room for so many bytes in a buffer.
    pub(super) fn location(&mut self, buffer: usize, bytes: i64) -> Location {
        let room = self.program.buffer_bytes - bytes;
        let at = match self.random.below(4) {
            0 => 0,
            1 => self.random.below(20) * PAGE_BYTES,
            2 => self.random.below(600) * 8,
            _ => self.random.below(room / 8) * 8,
        };
        Location { buffer, at: at.min(room).max(0) / 8 * 8 }
    }

    /// Memory for so many elements, by any type.
    pub(super) fn typed(&mut self, base: usize, elements: i64, buffer: usize) -> Typed {
        let room = self.program.buffer_bytes;
        if elements == 0 {
            return Typed { of: Type::Base(base), count: 0, location: Location { buffer, at: 0 } };
        }
        let (of, count, low) = lay(&mut self.random, base, elements, room);
        let mut blocks = vec![];
        of.blocks(low, count, &mut blocks);
        let high = blocks.iter().map(|block| block.1).max().unwrap_or(0);
        let mut location = self.location(buffer, high);
        location.at += low;
        Typed { of, count, location }
    }

    pub(super) fn read(&mut self, rank: usize, file: usize, location: Location, bytes: i64, at: Option<i64>) {
        let variant = self.random.below(FILE_VARIANTS);
        let op = FileOp { what: OnFile::Read, rank, file, variant, location, bytes, at, is_stale: false };
        self.add(Kind::File(op));
    }

    pub(super) fn write(&mut self, rank: usize, file: usize, location: Location, bytes: i64, at: Option<i64>) {
        let variant = self.random.below(FILE_VARIANTS);
        let op = FileOp { what: OnFile::Write, rank, file, variant, location, bytes, at, is_stale: false };
        self.add(Kind::File(op));
    }

    /// One more use of a file.
    fn file_work(&mut self) {
        let whats = [OnFile::Read, OnFile::Write, OnFile::Seek, OnFile::Seek, OnFile::Truncate, OnFile::Size];
        let whats = [&whats[..], &[OnFile::Size, OnFile::Reopen, OnFile::Map, OnFile::Map]].concat();
        let (what, file) = (self.random.pick(&whats), self.random.index(3));
        let rank = self.owner(file);
        let bytes = self.size(self.program.buffer_bytes);
        let buffer = self.random.index(4);
        let location = self.location(buffer, bytes);
        let at = if self.random.one_in(3) && what != OnFile::Map { None } else { Some(self.file_offset()) };
        let variant = match what {
            OnFile::Read | OnFile::Write => self.random.below(FILE_VARIANTS),
            OnFile::Seek => i64::from(at.is_none()),
            _ => self.random.below(3),
        };
        let at = if what == OnFile::Seek { Some(at.unwrap_or(0)) } else { at };
        self.add(Kind::File(FileOp { what, rank, file, variant, location, bytes, at, is_stale: false }));
    }

    pub(super) fn owner(&mut self, file: usize) -> usize {
        if self.program.is_apart { file % self.program.ranks } else { self.root() }
    }

    pub(super) fn file_offset(&mut self) -> i64 {
        match self.random.below(4) {
            0 => 0,
            1 => self.random.below(20) * PAGE_BYTES,
            2 => self.random.below(6000),
            _ => self.random.below(400_000),
        }
    }

    pub(super) fn inspect(&mut self, rank: usize, location: Location, bytes: i64, step: i64) {
        let mut how = self.random.pick(&INSPECTIONS);
        if self.random.one_in(25) && !self.has_inspected_by_child {
            self.has_inspected_by_child = true;
            how = INSPECT_BY_CHILD;
        }
        if self.program.has_threads && self.random.one_in(4) {
            how = INSPECT_BY_THREAD;
        }
        let step = if step > 0 { step } else { self.random.pick(&[8, 64, 512, 4096, 5000, 8192]) };
        let op = MemoryOp { what: OnMemory::Inspect, rank, location, other: location, bytes, how, step };
        self.add(Kind::Memory(op));
    }

    fn memory_work(&mut self) {
        let whats =
            [OnMemory::Inspect, OnMemory::Inspect, OnMemory::Set, OnMemory::Store, OnMemory::Copy, OnMemory::Renew];
        let what = if self.random.one_in(12) { OnMemory::Drop } else { self.random.pick(&whats) };
        let rank = self.root();
        let buffer = self.random.index(4);
        let bytes = self.size(self.program.buffer_bytes / 2);
        let location = self.location(buffer, bytes);
        if what == OnMemory::Inspect {
            return self.inspect(rank, location, bytes, 0);
        }
        let next = self.buffer(buffer);
        let other = self.location(next, bytes);
        let how = self.random.below(5);
        let step = 1 + self.random.below(9000);
        self.add(Kind::Memory(MemoryOp { what, rank, location, other, bytes, how, step }));
    }

    fn collective_work(&mut self) {
        let (comm, root, base) = (self.comm(), self.root(), self.base());
        let ranks = self.program.ranks as i64;
        let elements = self.size(self.program.buffer_bytes / ranks / 2) / BASE_BYTES[base];
        let buffer = self.random.index(4);
        let other = self.buffer(buffer);
        match self.random.below(5) {
            0 => {
                let (send, receive) = (self.typed(base, elements, buffer), self.typed(base, elements, other));
                let variant = i64::from(self.random.one_in(3));
                self.add(Kind::Bcast(Collective { comm, root, variant, send, receive }));
            }
            1 => {
                let bytes = elements % 20_000;
                let (from, to) = (self.location(buffer, bytes * ranks), self.location(other, bytes * ranks));
                let is_alltoall = self.random.one_in(2);
                self.add(Kind::Reduce { comm, from, to, bytes, is_alltoall });
            }
            2 => {
                let (send, receive) = (self.typed(base, elements, buffer), self.typed(base, elements, other));
                let (variant, shift) = (self.random.below(2 + COMPLETIONS), 1 + self.random.below(ranks - 1));
                let tag = self.tag();
                self.add(Kind::Ring { comm, variant, tag, shift, send, receive });
            }
            3 if !self.program.is_apart => {
                let (bytes, file) = (self.size(30_000), self.random.index(3));
                let (location, at) = (self.location(buffer, bytes), self.file_offset());
                let (times, gap) = (1 + self.random.below(5), self.random.pick(&[0, 0, 500]));
                let writes = self.random.one_in(2);
                let gap = if writes { 0 } else { gap };
                self.add(Kind::Together { file, writes, times, location, bytes, at, gap });
            }
            _ => self.collect(comm, root, base),
        }
    }

    /// The root receives from all, in any order.
    fn collect(&mut self, comm: usize, root: usize, base: usize) {
        let elements = self.size(self.program.buffer_bytes / self.program.ranks as i64 / 2) / BASE_BYTES[base];
        let (buffer, tag, variant) = (self.random.index(4), self.tag(), self.random.below(6));
        let other = self.buffer(buffer);
        let send = self.typed(base, elements, buffer);
        let bytes = elements * BASE_BYTES[base];
        let location = self.location(other, bytes * self.program.ranks as i64);
        let receive = Typed { of: Type::Base(base), count: elements, location };
        let step = if variant > 1 { bytes + self.random.pick(&[0, 0, 8, 4096]) } else { bytes };
        self.add(Kind::Collect { all: Collective { comm, root, variant, send, receive }, tag, step });
    }

    pub(super) fn message(&mut self, comm: usize, from: usize, to: usize, send: Typed, receive: Typed) -> Message {
        let begins = self.random.one_in(2);
        let (sends, receives) = if begins { (BEGINS, BEGINS) } else { (SENDS + BEGINS, RECEIVES + BEGINS) };
        Message {
            comm,
            from,
            to,
            tag: self.tag(),
            send,
            receive,
            send_variant: self.random.below(sends) + if begins { SENDS } else { 0 },
            receive_variant: self.random.below(receives) + if begins { RECEIVES } else { 0 },
            completion: self.random.below(COMPLETIONS),
            wild: self.random.pick(&[0, 0, 0, 1, 2, 3]),
            is_ignored: self.random.one_in(5),
        }
    }

    fn message_work(&mut self) {
        let (comm, from, to, base) = (self.comm(), self.rank(), self.rank(), self.base());
        let elements = self.size(self.program.buffer_bytes / 2) / BASE_BYTES[base];
        let room = match self.random.below(8) {
            0 => elements / 2,
            1 => elements + 1 + self.random.below(3000),
            _ => elements,
        };
        let buffer = self.random.index(4);
        let other = self.buffer(buffer);
        let (send, receive) = (self.typed(base, elements, buffer), self.typed(base, room, other));
        let message = self.message(comm, from, to, send, receive);
        self.deliver(message);
    }

    /// At once, or by two ends that begin in any order.
    fn deliver(&mut self, mut message: Message) {
        if message.from != message.to && self.random.one_in(2) {
            return self.add(Kind::Message(message));
        }
        message.send_variant = self.random.below(BEGINS);
        message.receive_variant = self.random.below(BEGINS);
        let sends = self.random.one_in(2);
        self.add(Kind::Begin { sends, message: message.clone() });
        self.disturb(6);
        self.add(Kind::Begin { sends: !sends, message });
    }

    pub(super) fn finish(&mut self, rank: usize) {
        let completion = self.random.below(COMPLETIONS);
        let count_max = if self.random.one_in(3) { 1 } else { 60 };
        self.add(Kind::Finish { rank, completion, requests: vec![], count_max });
    }

    pub(super) fn anything(&mut self) {
        match self.random.below(14) {
            0..5 => self.memory_work(),
            5..8 => self.file_work(),
            8..10 => self.collective_work(),
            10..12 => self.message_work(),
            12 => {
                let rank = self.rank();
                self.finish(rank);
            }
            _ => {
                let (rank, base, buffer) = (self.rank(), self.base(), self.random.index(4));
                let elements = self.size(100_000) / 8;
                let typed = self.typed(base, elements, buffer);
                let (tag, what) = (self.tag(), self.random.below(18));
                let wrong = Kind::Wrong { rank, what, typed: typed.clone() };
                self.add(if what < 14 { wrong } else { Kind::Cancel { rank, tag, typed } });
            }
        }
    }

    /// Something in the middle of a pattern.
    pub(super) fn disturb(&mut self, one_in: i64) {
        while self.random.one_in(one_in) {
            self.anything();
        }
    }
}
