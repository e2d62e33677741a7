//! A smaller program that differs, too: fewer operations and ranks, simpler types, memory and calls.

use std::time::{Duration, Instant};

use super::program::{Kind, Memory, Op, Plan, Program, Typed};
use super::rules::lawful;
use super::run::{Care, Ground, Numbered};
use super::types::Type;

/// How long to try, and how many at once.
const TIME_MAX: Duration = Duration::from_secs(100);
const BATCH: usize = 12;

/// The smallest that was found. The number stays, since the data follows from it.
pub fn shrink(ground: &Ground, number: u64, program: &Program, care: Care) -> Program {
    let end = Instant::now() + TIME_MAX;
    let mut best = program.clone();
    let mut from = 0;
    while Instant::now() < end {
        let all = candidates(&best);
        let batch: Vec<Program> = all.into_iter().skip(from).take(BATCH).collect();
        if batch.is_empty() {
            break;
        }
        let tried: Vec<Numbered> = (number..)
            .zip(batch.iter().enumerate())
            .map(|(number, (n, program))| (number, Plan::text(number, &moved(&lawful(program), n))))
            .collect();
        let judged = ground.judge(&tried, care);
        match judged.differences.into_iter().next() {
            Some((at, _)) => {
                best = batch[(at - number) as usize].clone();
                from = 0;
            }
            None => from += batch.len(),
        }
    }
    best
}

/// The same at other call sites: what the library has learnt of these doesn't count.
fn moved(program: &Program, by: usize) -> Program {
    let mut program = program.clone();
    program.ops.iter_mut().for_each(|op| op.site = (op.site + 97 * by as u64) % 4096);
    program
}

/// Simpler programs, those first that leave out most.
fn candidates(program: &Program) -> Vec<Program> {
    let mut all = vec![];
    let count = program.ops.len();
    let with = |ops: Vec<Op>| Program { ops, ..program.clone() };
    let mut part = count.div_ceil(2);
    while part > 0 && count > 0 {
        for from in (0..count).step_by(part).collect::<Vec<_>>().into_iter().rev() {
            let rest = program.ops[..from].iter().chain(program.ops[(from + part).min(count)..].iter());
            all.push(with(rest.cloned().collect()));
        }
        part = if part == 1 { 0 } else { part.div_ceil(2) };
    }
    if program.ranks > 2 {
        all.push(fewer_ranks(program));
    }
    for (at, op) in program.ops.iter().enumerate() {
        for simpler in simpler(op) {
            let mut ops = program.ops.clone();
            ops[at] = simpler;
            all.push(with(ops));
        }
    }
    if program.memory.iter().any(|memory| *memory != Memory::Mapped) {
        all.push(Program { memory: vec![Memory::Mapped; program.memory.len()], ..program.clone() });
    }
    all
}

fn fewer_ranks(program: &Program) -> Program {
    let mut fewer = Program { ranks: program.ranks - 1, ..program.clone() };
    for op in &mut fewer.ops {
        if let Kind::Parts(parts) = &mut op.kind {
            parts.counts.truncate(fewer.ranks);
            parts.displs.truncate(fewer.ranks);
        }
    }
    fewer
}

/// The same elements in one piece, which begins where they did.
fn flat(typed: &Typed) -> Option<Typed> {
    let is_flat = matches!(&typed.of, Type::Base(_));
    let count = typed.of.elements() * typed.count;
    (!is_flat).then(|| Typed { of: Type::Base(typed.of.base()), count, location: typed.location })
}

/// An operation with one thing simpler.
fn simpler(op: &Op) -> Vec<Op> {
    let mut all = vec![];
    let mut add = |change: &dyn Fn(&mut Kind) -> bool| {
        let mut op = op.clone();
        if change(&mut op.kind) {
            all.push(op);
        }
    };
    let zero = |number: &mut i64| std::mem::take(number) != 0;
    let make_flat = |typed: &mut Typed| flat(typed).map(|flat| *typed = flat).is_some();
    add(&|kind| match kind {
        Kind::File(op) => zero(&mut op.variant),
        Kind::Memory(op) => zero(&mut op.how),
        Kind::Scatter(op) | Kind::Gather(op) | Kind::Bcast(op) => zero(&mut op.variant),
        Kind::Parts(parts) => zero(&mut parts.variant),
        Kind::Message(m) | Kind::Begin { message: m, .. } => zero(&mut m.send_variant),
        Kind::Finish { completion, .. } => zero(completion),
        Kind::Ring { variant, .. } => zero(variant),
        Kind::Collect { all, .. } => zero(&mut all.variant),
        _ => false,
    });
    add(&|kind| match kind {
        Kind::File(op) => op.at.as_mut().is_some_and(zero),
        Kind::Message(m) | Kind::Begin { message: m, .. } => zero(&mut m.receive_variant),
        Kind::Scatter(op) | Kind::Gather(op) | Kind::Bcast(op) => zero_comm(&mut op.comm),
        Kind::Parts(parts) => zero_comm(&mut parts.comm),
        _ => false,
    });
    add(&|kind| match kind {
        Kind::Message(m) => zero(&mut m.wild),
        Kind::Parts(parts) => make_flat(&mut parts.each),
        Kind::Scatter(op) | Kind::Gather(op) | Kind::Bcast(op) => make_flat(&mut op.receive),
        _ => false,
    });
    add(&|kind| match kind {
        Kind::Message(m) => make_flat(&mut m.send),
        Kind::Scatter(op) | Kind::Gather(op) | Kind::Bcast(op) => make_flat(&mut op.send),
        _ => false,
    });
    add(&|kind| match kind {
        Kind::Message(m) => make_flat(&mut m.receive),
        _ => false,
    });
    all
}

fn zero_comm(comm: &mut usize) -> bool {
    std::mem::take(comm) != 0
}
