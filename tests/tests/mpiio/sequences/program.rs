//! Programs, and the text of a plan that describes them (`tests/programs/mpiio/sequences` carries it out).

use std::collections::HashMap;
use std::fmt::{Display, Write};

use super::types::{BASE_BYTES, Type};

/// How a file's descriptors are opened, in the numbers of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    ReadOnly,
    ReadWrite,
    WriteOnly,
}

/// The kind of a buffer's memory, in the numbers of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// Of malloc.
    Allocated,
    /// Of mmap: private, shared with others, or a private view of a file.
    Mapped,
    Shared,
    OfFile,
}

/// A location in the memory of a rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Location {
    pub buffer: usize,
    pub at: i64,
}

/// Memory that a type lays out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Typed {
    pub of: Type,
    pub count: i64,
    pub location: Location,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnFile {
    Read,
    Write,
    Seek,
    Truncate,
    Size,
    Reopen,
    Map,
}

/// An operation of one rank on a file. `variant`: the call, or its arguments. Without an offset: at the file's
/// position.
#[derive(Clone, Debug)]
pub struct FileOp {
    pub what: OnFile,
    pub rank: usize,
    pub file: usize,
    pub variant: i64,
    pub location: Location,
    pub bytes: i64,
    pub at: Option<i64>,
    /// A stream has to be opened again, since others have changed the file.
    pub is_stale: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnMemory {
    Inspect,
    Set,
    Store,
    Copy,
    Renew,
    Drop,
}

/// An operation of one rank on memory.
#[derive(Clone, Debug)]
pub struct MemoryOp {
    pub what: OnMemory,
    pub rank: usize,
    pub location: Location,
    pub other: Location,
    pub bytes: i64,
    pub how: i64,
    pub step: i64,
}

/// Scatter, gather, broadcast: what each rank sends or receives, all at the same locations.
#[derive(Clone, Debug)]
pub struct Collective {
    pub comm: usize,
    pub root: usize,
    pub variant: i64,
    pub send: Typed,
    pub receive: Typed,
}

/// MPI_Scatterv or MPI_Gatherv. Counts and displacements are of `whole`, of which each has `unit` elements of `each`
/// type.
#[derive(Clone, Debug)]
pub struct Parts {
    pub is_gather: bool,
    pub comm: usize,
    pub root: usize,
    pub variant: i64,
    pub whole: Type,
    pub location: Location,
    pub counts: Vec<i64>,
    pub displs: Vec<i64>,
    /// Its count is that for a count of 1.
    pub each: Typed,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    pub comm: usize,
    pub from: usize,
    pub to: usize,
    pub tag: usize,
    pub send: Typed,
    pub receive: Typed,
    pub send_variant: i64,
    pub receive_variant: i64,
    pub completion: i64,
    /// 1: from any source, 2: with any tag.
    pub wild: i64,
    pub is_ignored: bool,
}

#[derive(Clone, Debug)]
pub enum Kind {
    File(FileOp),
    Memory(MemoryOp),
    /// MPI's collective operations on a file.
    Together {
        file: usize,
        writes: bool,
        times: i64,
        location: Location,
        bytes: i64,
        at: i64,
        gap: i64,
    },
    Scatter(Collective),
    Gather(Collective),
    Bcast(Collective),
    Parts(Parts),
    Reduce {
        comm: usize,
        from: Location,
        to: Location,
        bytes: i64,
        is_alltoall: bool,
    },
    Barrier,
    Message(Message),
    /// One end of a message begins; its variants are those of requests.
    Begin {
        sends: bool,
        message: Message,
    },
    /// Some of the rank's requests complete.
    Finish {
        rank: usize,
        completion: i64,
        requests: Vec<(bool, usize)>,
        count_max: usize,
    },
    Collect {
        all: Collective,
        tag: usize,
        step: i64,
    },
    Ring {
        comm: usize,
        variant: i64,
        tag: usize,
        shift: i64,
        send: Typed,
        receive: Typed,
    },
    Wrong {
        rank: usize,
        what: i64,
        typed: Typed,
    },
    Cancel {
        rank: usize,
        tag: usize,
        typed: Typed,
    },
}

/// An operation, and its call site.
#[derive(Clone, Debug)]
pub struct Op {
    pub site: u64,
    pub kind: Kind,
}

#[derive(Clone, Debug)]
pub struct Program {
    pub ranks: usize,
    pub has_threads: bool,
    /// Each file is one rank's, by their numbers; no other uses it.
    pub is_apart: bool,
    pub buffer_bytes: i64,
    pub memory: Vec<Memory>,
    pub files: Vec<(i64, Access)>,
    pub ops: Vec<Op>,
}

/// The text of a program whose operations obey the rules.
pub struct Plan {
    text: String,
    types: HashMap<Type, usize>,
}

struct Line<'a>(&'a mut Plan, String);

impl Line<'_> {
    fn number(mut self, number: impl Display) -> Self {
        write!(self.1, " {number}").expect("a string takes text");
        self
    }

    fn numbers(self, numbers: &[i64]) -> Self {
        let own = self.number(numbers.len());
        numbers.iter().fold(own, |line, number| line.number(number))
    }

    fn location(self, location: Location) -> Self {
        self.number(location.buffer).number(location.at)
    }

    fn of(self, of: &Type) -> Self {
        let number = self.0.type_number(of);
        self.number(number)
    }

    fn typed(self, typed: &Typed) -> Self {
        self.of(&typed.of).number(typed.count).location(typed.location)
    }

    fn message(self, m: &Message) -> Self {
        self.number(m.comm).number(m.from).number(m.to).number(m.tag)
    }

    fn end(self) {
        self.0.text.push_str(&self.1);
        self.0.text.push('\n');
    }
}

impl Plan {
    pub fn text(number: u64, program: &Program) -> String {
        let mut plan = Plan { text: String::new(), types: HashMap::new() };
        let line = plan.line("program").number(number).number(program.ranks).number(i64::from(program.has_threads));
        let line = line.number(program.buffer_bytes).number(program.memory.len());
        let line = program.memory.iter().fold(line, |line, memory| line.number(*memory as i64));
        let line = line.number(program.files.len());
        program.files.iter().fold(line, |line, (bytes, access)| line.number(bytes).number(*access as i64)).end();
        for op in &program.ops {
            plan.add(op);
        }
        plan.text.push_str("end\n");
        plan.text
    }

    fn line(&mut self, name: &str) -> Line<'_> {
        Line(self, name.to_owned())
    }

    /// The number of a type; a new one has a line.
    fn type_number(&mut self, of: &Type) -> usize {
        if let Type::Base(base) = of {
            return *base;
        }
        if let Some(number) = self.types.get(of) {
            return *number;
        }
        let inner: Vec<usize> = match of {
            Type::Struct { of, .. } => of.iter().map(|of| self.type_number(of)).collect(),
            Type::Contiguous { of, .. }
            | Type::Vector { of, .. }
            | Type::HVector { of, .. }
            | Type::Indexed { of, .. }
            | Type::HIndexed { of, .. }
            | Type::IndexedBlock { of, .. }
            | Type::Subarray { of, .. }
            | Type::Resized { of, .. }
            | Type::Dup(of) => vec![self.type_number(of)],
            Type::Base(_) => vec![],
        };
        // The first numbers are those of MPI's own types.
        let number = self.types.len() + BASE_BYTES.len();
        let (name, numbers) = described(of, &inner);
        let line = self.line(&format!("type_{name}")).number(number);
        numbers.iter().fold(line, |line, number| line.number(number)).end();
        self.types.insert(of.clone(), number);
        number
    }

    fn add(&mut self, op: &Op) {
        let site = op.site;
        match &op.kind {
            Kind::File(op) => self.add_file(site, op),
            Kind::Memory(op) => self.add_memory(site, op),
            Kind::Together { file, writes, times, location, bytes, at, gap } => {
                let line = self.line("together").number(site).number(file).number(i64::from(*writes)).number(times);
                line.location(*location).number(bytes).number(at).number(gap).end();
            }
            Kind::Scatter(all) => self.add_collective("scatter", site, all),
            Kind::Gather(all) => self.add_collective("gather", site, all),
            Kind::Bcast(all) => self.add_collective("bcast", site, all),
            Kind::Parts(parts) => self.add_parts(site, parts),
            Kind::Reduce { comm, from, to, bytes, is_alltoall } => {
                let line = self.line(if *is_alltoall { "alltoall" } else { "reduce" }).number(site).number(comm);
                line.location(*from).location(*to).number(bytes).end();
            }
            Kind::Barrier => self.line("barrier").number(site).end(),
            other => self.add_message(site, other),
        }
    }

    fn add_message(&mut self, site: u64, kind: &Kind) {
        match kind {
            Kind::Message(m) => {
                let line = self.line("message").number(site).message(m).typed(&m.send).typed(&m.receive);
                let line = line.number(m.send_variant).number(m.receive_variant).number(m.completion).number(m.wild);
                line.number(i64::from(m.is_ignored)).end();
            }
            Kind::Begin { sends: true, message: m } => {
                self.line("begin").number(site).number(0).message(m).typed(&m.send).number(m.send_variant).end();
            }
            Kind::Begin { message: m, .. } => {
                let line = self.line("begin").number(site).number(1).message(m).typed(&m.receive);
                line.number(m.receive_variant).number(m.wild & 1).end();
            }
            Kind::Finish { rank, completion, requests, .. } => {
                let line = self.line("finish").number(site).number(rank).number(completion).number(requests.len());
                requests.iter().fold(line, |line, (sends, tag)| line.number(i64::from(!sends)).number(tag)).end();
            }
            Kind::Collect { all, tag, step } => {
                let line = self.line("collect").number(site).number(all.comm).number(all.root).number(tag);
                line.number(all.variant).number(step).typed(&all.send).typed(&all.receive).end();
            }
            Kind::Ring { comm, variant, tag, shift, send, receive } => {
                let line = self.line("ring").number(site).number(comm).number(variant).number(tag).number(shift);
                line.typed(send).typed(receive).end();
            }
            Kind::Wrong { rank, what, typed } => {
                self.line("wrong").number(site).number(rank).number(what).typed(typed).end();
            }
            Kind::Cancel { rank, tag, typed } => {
                self.line("cancel").number(site).number(rank).number(tag).typed(typed).end();
            }
            _ => unreachable!("an operation of all ranks"),
        }
    }

    fn add_file(&mut self, site: u64, op: &FileOp) {
        let at = op.at.unwrap_or(-1);
        let name = format!("{:?}", op.what).to_lowercase();
        let line = self.line(&name).number(site).number(op.rank).number(op.file);
        match op.what {
            OnFile::Read => {
                let line = line.number(op.variant).location(op.location).number(op.bytes).number(at);
                line.number(i64::from(op.is_stale)).end();
            }
            OnFile::Write => line.number(op.variant).location(op.location).number(op.bytes).number(at).end(),
            OnFile::Seek => line.number(at).number(op.variant).end(),
            OnFile::Truncate => line.number(op.bytes).number(op.variant).end(),
            OnFile::Reopen => line.number(op.variant).end(),
            OnFile::Map => line.number(at).number(op.bytes).end(),
            OnFile::Size => line.end(),
        }
    }

    fn add_memory(&mut self, site: u64, op: &MemoryOp) {
        let name = format!("{:?}", op.what).to_lowercase();
        let line = self.line(&name).number(site).number(op.rank);
        match op.what {
            OnMemory::Inspect | OnMemory::Set => {
                line.location(op.location).number(op.bytes).number(op.how).number(op.step).end();
            }
            OnMemory::Store => line.location(op.location).number(op.bytes).number(op.step).end(),
            OnMemory::Copy => line.location(op.location).location(op.other).number(op.bytes).end(),
            OnMemory::Renew => line.number(op.location.buffer).number(op.step).end(),
            OnMemory::Drop => line.location(op.location).number(op.bytes).end(),
        }
    }

    fn add_collective(&mut self, name: &str, site: u64, all: &Collective) {
        let line = self.line(name).number(site).number(all.comm).number(all.root).number(all.variant);
        line.typed(&all.send).typed(&all.receive).end();
    }

    /// Counts and displacements are in the order of the ranks of the communicator.
    fn add_parts(&mut self, site: u64, parts: &Parts) {
        let name = if parts.is_gather { "gatherv" } else { "scatterv" };
        let line = self.line(name).number(site).number(parts.comm).number(parts.root).number(parts.variant);
        let line = line.of(&parts.whole).location(parts.location).numbers(&parts.counts).numbers(&parts.displs);
        line.typed(&parts.each).end();
    }
}

/// The fields of a type's line, behind its number; `inner` are the numbers of its parts.
fn described(of: &Type, inner: &[usize]) -> (&'static str, Vec<i64>) {
    let inner: Vec<i64> = inner.iter().map(|number| *number as i64).collect();
    let with = |numbers: &[&[i64]]| [&inner[..], &numbers.concat()].concat();
    let count = |numbers: &[i64]| [numbers.len() as i64];
    match of {
        Type::Base(_) => unreachable!("MPI's own types have no line"),
        Type::Contiguous { count, .. } => ("contiguous", with(&[&[*count]])),
        Type::Vector { count, length, stride, .. } => ("vector", with(&[&[*count, *length, *stride]])),
        Type::HVector { count, length, stride, .. } => ("hvector", with(&[&[*count, *length, *stride]])),
        Type::Indexed { lengths, displs, .. } => ("indexed", with(&[&count(displs), lengths, displs])),
        Type::HIndexed { lengths, displs, .. } => ("hindexed", with(&[&count(displs), lengths, displs])),
        Type::IndexedBlock { length, displs, .. } => ("indexed_block", with(&[&count(displs), &[*length], displs])),
        Type::Struct { lengths, displs, .. } => ("struct", [&count(displs)[..], lengths, displs, &inner].concat()),
        Type::Subarray { sizes, parts, starts, is_fortran, .. } => {
            ("subarray", with(&[&[i64::from(*is_fortran)], &count(sizes), sizes, parts, starts]))
        }
        Type::Resized { low, extent, .. } => ("resized", with(&[&[*low, *extent]])),
        Type::Dup(_) => ("dup", with(&[])),
    }
}
