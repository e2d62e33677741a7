//! Datatypes: as memory, as lines of a plan, and from random numbers.

use super::random::Random;

/// MPI_BYTE, MPI_INT, MPI_DOUBLE, and a structure of a double, an int and four bytes have the first numbers in a plan.
pub const BASE_BYTES: [i64; 4] = [1, 4, 8, 16];
pub const DOUBLE: usize = 2;
pub const STRUCTURE: usize = 3;
/// More pieces than this are of no interest, and take long.
const BLOCKS_MAX: i64 = 20_000;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Type {
    Base(usize),
    Contiguous { count: i64, of: Box<Type> },
    Vector { count: i64, length: i64, stride: i64, of: Box<Type> },
    HVector { count: i64, length: i64, stride: i64, of: Box<Type> },
    Indexed { lengths: Vec<i64>, displs: Vec<i64>, of: Box<Type> },
    HIndexed { lengths: Vec<i64>, displs: Vec<i64>, of: Box<Type> },
    IndexedBlock { length: i64, displs: Vec<i64>, of: Box<Type> },
    Struct { lengths: Vec<i64>, displs: Vec<i64>, of: Vec<Type> },
    Subarray { sizes: Vec<i64>, parts: Vec<i64>, starts: Vec<i64>, is_fortran: bool, of: Box<Type> },
    Resized { low: i64, extent: i64, of: Box<Type> },
    Dup(Box<Type>),
}

impl Type {
    pub fn contiguous(base: usize, count: i64) -> Type {
        if count == 1 { Type::Base(base) } else { Type::Contiguous { count, of: Box::new(Type::Base(base)) } }
    }

    pub fn resized(self, low: i64, extent: i64) -> Type {
        Type::Resized { low, extent, of: Box::new(self) }
    }

    /// The type that all its elements have.
    pub fn base(&self) -> usize {
        match self {
            Type::Base(base) => *base,
            Type::Struct { of, .. } => of[0].base(),
            _ => self.inner().base(),
        }
    }

    fn inner(&self) -> &Type {
        match self {
            Type::Contiguous { of, .. }
            | Type::Vector { of, .. }
            | Type::HVector { of, .. }
            | Type::Indexed { of, .. }
            | Type::HIndexed { of, .. }
            | Type::IndexedBlock { of, .. }
            | Type::Subarray { of, .. }
            | Type::Resized { of, .. }
            | Type::Dup(of) => of,
            Type::Base(_) | Type::Struct { .. } => self,
        }
    }

    /// How many elements it has.
    pub fn elements(&self) -> i64 {
        match self {
            Type::Base(_) => 1,
            Type::Struct { lengths, of, .. } => lengths.iter().zip(of).map(|(n, of)| n * of.elements()).sum(),
            _ => self.inner().elements() * self.copies(),
        }
    }

    /// How many of its inner type.
    fn copies(&self) -> i64 {
        match self {
            Type::Contiguous { count, .. } => *count,
            Type::Vector { count, length, .. } | Type::HVector { count, length, .. } => count * length,
            Type::Indexed { lengths, .. } | Type::HIndexed { lengths, .. } => lengths.iter().sum(),
            Type::IndexedBlock { length, displs, .. } => length * displs.len() as i64,
            Type::Subarray { parts, .. } => parts.iter().product(),
            _ => 1,
        }
    }

    pub fn bytes(&self) -> i64 {
        self.elements() * BASE_BYTES[self.base()]
    }

    /// The parts of a type: each one's type, its displacement in bytes, and how many one behind the other.
    fn parts(&self) -> Vec<(&Type, i64, i64)> {
        let of = self.inner();
        match self {
            Type::Base(_) => vec![],
            Type::Contiguous { count, .. } => vec![(of, 0, *count)],
            Type::Vector { count, length, stride, .. } => {
                (0..*count).map(|i| (of, i * stride * of.extent(), *length)).collect()
            }
            Type::HVector { count, length, stride, .. } => (0..*count).map(|i| (of, i * stride, *length)).collect(),
            Type::Indexed { lengths, displs, .. } => {
                lengths.iter().zip(displs).map(|(n, at)| (of, at * of.extent(), *n)).collect()
            }
            Type::HIndexed { lengths, displs, .. } => lengths.iter().zip(displs).map(|(n, at)| (of, *at, *n)).collect(),
            Type::IndexedBlock { length, displs, .. } => {
                displs.iter().map(|at| (of, at * of.extent(), *length)).collect()
            }
            Type::Struct { lengths, displs, of } => {
                of.iter().zip(displs).zip(lengths).map(|((of, at), n)| (of, *at, *n)).collect()
            }
            Type::Subarray { sizes, parts, starts, is_fortran, .. } => {
                rows(sizes, parts, starts, *is_fortran).map(|(at, n)| (of, at * of.extent(), n)).collect()
            }
            Type::Resized { .. } | Type::Dup(_) => vec![(of, 0, 1)],
        }
    }

    /// MPI's lower and upper bound.
    fn span_of_one(&self) -> (i64, i64) {
        match self {
            Type::Base(base) => (0, BASE_BYTES[*base]),
            Type::Resized { low, extent, .. } => (*low, low + extent),
            Type::Subarray { sizes, of, .. } => (0, sizes.iter().product::<i64>() * of.extent()),
            _ => {
                let span_of_one = self.parts().into_iter().filter(|(.., n)| *n > 0).map(|(of, at, n)| {
                    let (low, high) = of.span_of_one();
                    (at + low, at + high + (n - 1) * (high - low))
                });
                span_of_one.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1))).unwrap_or((0, 0))
            }
        }
    }

    pub fn extent(&self) -> i64 {
        let (low, high) = self.span_of_one();
        high - low
    }

    fn is_dense(&self) -> bool {
        match self {
            Type::Base(_) => true,
            Type::Contiguous { of, .. } | Type::Dup(of) => of.is_dense(),
            _ => false,
        }
    }

    /// The bytes of so many of it, as ranges in the order of the data.
    pub fn blocks(&self, at: i64, count: i64, blocks: &mut Vec<(i64, i64)>) {
        if count > 0 && self.is_dense() {
            match blocks.last_mut() {
                Some(last) if last.1 == at => last.1 += count * self.bytes(),
                _ => blocks.push((at, at + count * self.bytes())),
            }
            return;
        }
        let extent = self.extent();
        for copy in 0..count {
            for (of, location, n) in self.parts() {
                of.blocks(at + copy * extent + location, n, blocks);
            }
        }
    }
}

/// The rows of a part of an array: where each begins, and how long it is.
fn rows(sizes: &[i64], parts: &[i64], starts: &[i64], is_fortran: bool) -> impl Iterator<Item = (i64, i64)> {
    let order: Vec<usize> = if is_fortran { (0..sizes.len()).collect() } else { (0..sizes.len()).rev().collect() };
    let all = |of: &[i64]| order.iter().map(|d| of[*d]).collect::<Vec<i64>>();
    let (sizes, parts, starts) = (all(sizes), all(parts), all(starts));
    let count: i64 = parts[1..].iter().product();
    (0..count).map(move |row| {
        let (mut at, mut step, mut left) = (starts[0], sizes[0], row);
        for d in 1..sizes.len() {
            at += (starts[d] + left % parts[d]) * step;
            left /= parts[d];
            step *= sizes[d];
        }
        (at, parts[0])
    })
}

/// Ranges in the order of their addresses; `None` if two have a byte in common.
pub fn sorted(mut blocks: Vec<(i64, i64)>) -> Option<Vec<(i64, i64)>> {
    blocks.sort_unstable();
    blocks.windows(2).all(|pair| pair[0].1 <= pair[1].0).then_some(blocks)
}

/// A type of so many elements, of up to `depth` floors.
fn grow(random: &mut Random, base: usize, elements: i64, depth: u32) -> Type {
    let flat = Type::contiguous(base, elements);
    if depth == 0 || elements < 2 {
        return flat;
    }
    match random.below(10) {
        0 => Type::Dup(Box::new(grow(random, base, elements, depth - 1))),
        1 => {
            let count = random.divisor(elements, 16);
            let of = Box::new(grow(random, base, elements / count, depth - 1));
            Type::Contiguous { count, of }
        }
        2 | 3 => vector(random, base, elements, depth),
        4 | 5 => indexed(random, base, elements),
        6 => structure(random, base, elements, depth),
        7 => subarray(random, base, elements),
        _ => {
            let of = grow(random, base, elements, depth - 1);
            let (low, more) = (random.pick(&[0, 0, 0, -16, 8]), random.pick(&[0, 8, 64, 4096, 5000]));
            let (from, to) = of.span_of_one();
            of.resized(from + low, to - from + more + low.abs())
        }
    }
}

fn vector(random: &mut Random, base: usize, elements: i64, depth: u32) -> Type {
    let inner = if random.one_in(4) { random.divisor(elements, 8) } else { 1 };
    let of = Box::new(grow(random, base, inner, depth - 1));
    let length = random.divisor(elements / inner, 512);
    let count = elements / inner / length;
    let gap = random.pick(&[0, 1, 1, 2, length, 3 * length, 1000]);
    if random.one_in(3) {
        let extent = of.extent();
        return Type::HVector { count, length, stride: (length + gap) * extent + random.pick(&[0, 8, 24]), of };
    }
    Type::Vector { count, length, stride: length + gap, of }
}

/// Pieces of different lengths, which may lie in another order than their data.
fn indexed(random: &mut Random, base: usize, elements: i64) -> Type {
    let of = Box::new(Type::Base(base));
    let pieces = 2 + random.index(12).min(elements as usize - 1);
    let is_block = elements % pieces as i64 == 0 && random.one_in(2);
    let mut lengths = vec![elements / pieces as i64; pieces];
    lengths[0] += elements % pieces as i64;
    if !is_block && lengths[1] > 1 {
        let moved = random.below(lengths[1]);
        lengths[1] -= moved;
        lengths[pieces - 1] += moved;
    }
    let mut order: Vec<usize> = (0..pieces).collect();
    if random.one_in(3) {
        random.shuffle(&mut order);
    }
    let (mut displs, mut at) = (vec![0; pieces], random.pick(&[0, 0, 3]));
    for piece in order {
        displs[piece] = at;
        at += lengths[piece] + random.pick(&[0, 1, 5, 700]);
    }
    match random.below(3) {
        0 if is_block => Type::IndexedBlock { length: lengths[0], displs, of },
        1 => {
            let displs = displs.iter().map(|at| at * BASE_BYTES[base]).collect();
            Type::HIndexed { lengths, displs, of }
        }
        _ => Type::Indexed { lengths, displs, of },
    }
}

/// Its bounds are explicit, since MPI may round those of a structure up.
fn structure(random: &mut Random, base: usize, elements: i64, depth: u32) -> Type {
    let pieces = 2 + random.below(3);
    let (mut lengths, mut displs, mut of, mut at, mut left) = (vec![], vec![], vec![], 0, elements);
    for piece in 0..pieces {
        let own = if piece == pieces - 1 { left } else { elements / pieces };
        let length = random.divisor(own, 4);
        let part = grow(random, base, own / length, depth - 1);
        let (low, high) = part.span_of_one();
        left -= own;
        lengths.push(length);
        displs.push(at - low.min(0));
        at += (high - low) * length + low.max(0) + random.pick(&[0, 8, 16, 4096]);
        of.push(part);
    }
    Type::Struct { lengths, displs, of }.resized(0, (at + 7) / 8 * 8)
}

fn subarray(random: &mut Random, base: usize, elements: i64) -> Type {
    let first = random.divisor(elements, 256);
    let mut parts = vec![first, elements / first];
    if random.one_in(3) {
        let second = random.divisor(elements / first, 64);
        parts = vec![first, second, elements / first / second];
    }
    random.shuffle(&mut parts);
    let more: Vec<i64> = parts.iter().map(|_| random.pick(&[0, 1, 3, 20])).collect();
    let sizes = parts.iter().zip(&more).map(|(a, b)| a + b).collect();
    let starts = more.iter().map(|more| random.below(more + 1)).collect();
    Type::Subarray { sizes, parts, starts, is_fortran: random.one_in(2), of: Box::new(Type::Base(base)) }
}

/// So many of a type, all of whose bytes lie apart from each other and in so much room. Returns what to add to an
/// address for the first of them to lie there.
pub fn lay(random: &mut Random, base: usize, elements: i64, room: i64) -> (Type, i64, i64) {
    for _ in 0..4 {
        let count = if random.one_in(2) { 1 } else { random.divisor(elements, 8) };
        let floors = random.below(4) as u32;
        let of = grow(random, base, elements / count, floors);
        let mut blocks = vec![];
        if of.pieces() * count > BLOCKS_MAX || of.elements() * count != elements {
            continue;
        }
        of.blocks(0, count, &mut blocks);
        if count > 1 && of.is_padded() {
            continue;
        }
        let Some(blocks) = sorted(blocks) else { continue };
        let (Some(first), Some(last)) = (blocks.first(), blocks.last()) else { continue };
        if last.1 - first.0 <= room {
            return (of, count, -first.0);
        }
    }
    (Type::Base(base), elements, 0)
}

impl Type {
    /// One piece and a gap: several of them, which a rank sends to itself, are garbled by Open MPI behind 128 KB.
    fn is_padded(&self) -> bool {
        let mut blocks = vec![];
        self.blocks(0, 1, &mut blocks);
        blocks.len() == 1 && self.extent() != self.bytes()
    }

    /// At most so many pieces of memory.
    fn pieces(&self) -> i64 {
        if self.is_dense() {
            return 1;
        }
        self.parts().into_iter().map(|(of, _, n)| if of.is_dense() { 1 } else { n * of.pieces() }).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(of: &Type, count: i64, expected: &[(i64, i64)]) {
        let mut blocks = vec![];
        of.blocks(0, count, &mut blocks);
        assert_eq!(blocks, expected, "{of:?}");
    }

    #[test]
    fn types_as_memory() {
        let int = || Box::new(Type::Base(1));
        let column = Type::Vector { count: 2, length: 1, stride: 3, of: int() };
        check(&column, 1, &[(0, 4), (12, 16)]);
        check(&column, 2, &[(0, 4), (12, 20), (28, 32)]);
        check(&column.resized(0, 4), 2, &[(0, 4), (12, 16), (4, 8), (16, 20)]);
        let part = |is_fortran| Type::Subarray {
            sizes: vec![3, 4],
            parts: vec![2, 2],
            starts: vec![1, 0],
            is_fortran,
            of: int(),
        };
        check(&part(false), 1, &[(16, 24), (32, 40)]);
        check(&part(true), 1, &[(4, 12), (16, 24)]);
        check(&Type::Indexed { lengths: vec![1, 2], displs: vec![4, 0], of: int() }, 1, &[(16, 20), (0, 8)]);
    }

    #[test]
    fn what_is_laid_has_its_elements_and_room() {
        let mut random = Random::new(1);
        for _ in 0..2000 {
            let (base, elements) = (random.index(4), 1 + random.below(5000));
            let room = elements * BASE_BYTES[base] * (1 + random.below(4));
            let (of, count, low) = lay(&mut random, base, elements, room);
            assert_eq!(of.elements() * count, elements, "{of:?}");
            let mut blocks = vec![];
            of.blocks(low, count, &mut blocks);
            let blocks = sorted(blocks).unwrap_or_else(|| panic!("{of:?} overlaps"));
            assert!(blocks[0].0 >= 0 && blocks[blocks.len() - 1].1 <= room, "{of:?}");
        }
    }
}
