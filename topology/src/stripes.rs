//! Striped trees over the same nodes: what one of them sends, the others receive.
//!
//! The members are *bodies*, numbered from 0, and *guests*, which are leaves of every tree; above each tree
//! is a root, which feeds one body, the tree's *head*. All trees together have T·E edges below their heads,
//! and these are distributed evenly: the bodies form a row, body `i` of `m` has the slots from ⌈i·T·E/m⌉ to
//! ⌈(i+1)·T·E/m⌉, one for each child, and tree `t` takes the slots from t·E to (t+1)·E. So every body has as
//! many children as any other, plus or minus one, and is interior in one tree; the body on a boundary, if
//! there is one, in two.
//!
//! The row is not the order of ranks: a tree's interior bodies are every T-th body, and each of its
//! subtrees spans an interval of them with the leaves beside it, so that a rack whose ranks are
//! neighbours is entered by few edges.

/// A member of one striped tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Member {
    /// A node that forwards in some tree.
    Body(u32),
    /// A node that forwards in none.
    Guest(u32),
}

/// The position of a member in one tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Position {
    /// The number among those that forward, parents before children; the head is 0.
    Interior(u32),
    /// The number among the leaves.
    Leaf(u32),
}

/// The trees of a striped forest, below their heads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stripes {
    trees: u32,
    bodies: u32,
    guests: u32,
}

/// One of them.
#[derive(Clone, Copy, Debug)]
pub struct Stripe {
    all: Stripes,
    tree: u32,
    /// The first and the last body in the row that has slots of this tree.
    first: u32,
    last: u32,
    /// The first has fewer children here than others, most often because it has slots of the tree before as
    /// well. So it is placed last, if that costs no depth.
    is_first_moved: bool,
}

/// A subtree: the interior members from `start` to `end`, and leaves from `leaf` on.
#[derive(Clone, Copy)]
struct Span {
    start: u32,
    end: u32,
    leaf: u32,
}

impl Stripes {
    /// There are at least two trees and as many bodies as trees.
    pub fn new(trees: u32, bodies: u32, guests: u32) -> Stripes {
        assert!(trees >= 2 && bodies >= trees, "each striped tree has a head of its own");
        Stripes { trees, bodies, guests }
    }

    /// Returns the number of trees.
    pub fn trees(&self) -> u32 {
        self.trees
    }

    /// Returns the number of edges of one tree below its head.
    fn edges(&self) -> u64 {
        u64::from(self.bodies) + u64::from(self.guests) - 1
    }

    /// Returns the number of children of the bodies before the one at `index` in the row, in all trees
    /// together.
    fn slots_before(&self, index: u32) -> u64 {
        let all = u128::from(self.trees) * u128::from(self.edges());
        (u128::from(index) * all).div_ceil(u128::from(self.bodies)) as u64
    }

    /// Returns the index in the row of the body that has this slot.
    fn holder(&self, slot: u64) -> u32 {
        let all = u128::from(self.trees) * u128::from(self.edges());
        (u128::from(slot) * u128::from(self.bodies) / all) as u32
    }

    /// Returns the index in the row of a body: every T-th body in turn, then those beside them.
    fn index(&self, body: u32) -> u32 {
        let (column, line) = (body % self.trees, body / self.trees);
        column * (self.bodies / self.trees) + column.min(self.bodies % self.trees) + line
    }

    /// Returns the column of the row's `index`, and the line in it.
    fn column(&self, index: u32) -> (u32, u32) {
        let (length, longer) = (self.bodies / self.trees, self.bodies % self.trees);
        match index.checked_sub(longer * (length + 1)) {
            None => (index / (length + 1), index % (length + 1)),
            Some(rest) => (longer + rest / length, rest % length),
        }
    }

    /// Returns the body at an index in the row.
    fn body(&self, index: u32) -> u32 {
        let (column, line) = self.column(index);
        line * self.trees + column
    }

    /// Returns the tree with this number, below `trees`.
    pub fn tree(&self, tree: u32) -> Stripe {
        let start = u64::from(tree) * self.edges();
        let first = self.holder(start);
        let children = self.slots_before(first + 1) - start;
        let is_first_moved = self.slots_before(first) < start || children < self.edges().min(self.trees.into());
        Stripe { all: *self, tree, first, last: self.holder(start + self.edges() - 1), is_first_moved }
    }
}

impl Stripe {
    /// Returns how many members forward.
    pub fn interior(&self) -> u32 {
        self.last - self.first + 1
    }

    /// Returns the body below the root.
    pub fn head(&self) -> u32 {
        self.interior_body(0)
    }

    /// Returns the number of a member, parents before children; the head's is 0.
    pub fn order(&self, member: Member) -> u32 {
        match self.position(member) {
            Position::Interior(number) => number,
            Position::Leaf(number) => self.interior() + number,
        }
    }

    /// Returns the member with a number.
    pub fn at(&self, order: u32) -> Member {
        match order.checked_sub(self.interior()) {
            None => Member::Body(self.interior_body(order)),
            Some(leaf) => self.leaf(leaf),
        }
    }

    /// Returns the body from which a member receives; none for the head.
    pub fn parent(&self, member: Member) -> Option<u32> {
        self.find(self.position(member)).0.map(|number| self.interior_body(number))
    }

    /// Returns the members to which a body sends: those that forward first.
    pub fn children(&self, member: Member) -> impl Iterator<Item = Member> + use<> {
        let (stripe, position) = (*self, self.position(member));
        let span = match position {
            Position::Interior(_) => self.find(position).1,
            Position::Leaf(_) => Span { start: 0, end: 0, leaf: 0 },
        };
        let (parts, direct) = if span.end > span.start { self.branches(span) } else { (0, 0) };
        let forwarders = (0..parts).map(move |part| Member::Body(stripe.interior_body(piece_start(span, parts, part))));
        forwarders.chain((0..direct).map(move |number| stripe.leaf(span.leaf + number)))
    }

    /// Returns the hops from the head to the furthest member, or one more.
    pub fn depth_max(&self) -> u32 {
        // Only the last bodies have fewer children than there are trees.
        let branches = self.all.trees.max((self.all.slots_before(self.all.bodies) / u64::from(self.all.bodies)) as u32);
        let sizes = core::iter::successors(Some(self.interior()), |&size| {
            (size > 1).then(|| (size - 1).div_ceil(branches)).filter(|&size| size > 0)
        });
        sizes.count() as u32
    }

    fn position(&self, member: Member) -> Position {
        let body = match member {
            Member::Guest(guest) => return Position::Leaf(guest),
            Member::Body(body) => body,
        };
        let index = self.all.index(body);
        if !(self.first..=self.last).contains(&index) {
            return Position::Leaf(self.all.guests + body - self.interior_below(body));
        }
        match self.is_first_moved {
            true if index == self.first => Position::Interior(self.interior() - 1),
            true => Position::Interior(index - self.first - 1),
            false => Position::Interior(index - self.first),
        }
    }

    fn interior_body(&self, number: u32) -> u32 {
        let moved = match self.is_first_moved {
            true if number == self.interior() - 1 => 0,
            true => number + 1,
            false => number,
        };
        self.all.body(self.first + moved)
    }

    /// Returns how many of the bodies below this number forward.
    fn interior_below(&self, body: u32) -> u32 {
        let ((first, from), (last, to)) = (self.all.column(self.first), self.all.column(self.last));
        let (length, longer) = (self.all.bodies / self.all.trees, self.all.bodies % self.all.trees);
        let in_column = |column: u32| {
            let start = if column == first { from } else { 0 };
            let end = if column == last { to + 1 } else { length + u32::from(column < longer) };
            body.saturating_sub(column).div_ceil(self.all.trees).clamp(start, end) - start
        };
        (first..=last).map(in_column).sum()
    }

    fn leaf(&self, number: u32) -> Member {
        let Some(wanted) = number.checked_sub(self.all.guests) else { return Member::Guest(number) };
        let (mut low, mut high) = (wanted, self.all.bodies - 1);
        while low < high {
            let middle = low + (high - low) / 2;
            if middle + 1 - self.interior_below(middle + 1) > wanted { high = middle } else { low = middle + 1 }
        }
        Member::Body(low)
    }

    /// Returns the number of children of the interior members before this one, in this tree.
    fn children_before(&self, number: u32) -> u64 {
        let start = u64::from(self.tree) * self.all.edges();
        if number == self.interior() {
            return self.all.edges();
        }
        let clip = |index: u32| self.all.slots_before(index).clamp(start, start + self.all.edges());
        let base = self.first + u32::from(self.is_first_moved);
        clip(base + number) - clip(base)
    }

    /// Returns how many subtrees with forwarders the first member of a span has, and how many leaves.
    fn branches(&self, span: Span) -> (u32, u32) {
        let children = (self.children_before(span.start + 1) - self.children_before(span.start)) as u32;
        let parts = children.min(span.end - span.start - 1);
        (parts, children - parts)
    }

    /// Returns the parent of a position, and the span below it (of a leaf: that in which it is found).
    fn find(&self, position: Position) -> (Option<u32>, Span) {
        let mut above = None;
        let mut span = Span { start: 0, end: self.interior(), leaf: 0 };
        loop {
            let (parts, direct) = self.branches(span);
            let first_leaf = |part: u32| {
                let start = piece_start(span, parts, part);
                let children = self.children_before(start) - self.children_before(span.start + 1);
                // A piece's edges lead to its leaves and to all of its forwarders but the first.
                span.leaf + direct + (children - u64::from(start - span.start - 1) + u64::from(part)) as u32
            };
            let part = match position {
                Position::Interior(number) if number == span.start => return (above, span),
                Position::Leaf(number) if number < span.leaf + direct => return (Some(span.start), span),
                Position::Interior(number) => last_where(parts, |part| piece_start(span, parts, part) <= number),
                Position::Leaf(number) => last_where(parts, |part| first_leaf(part) <= number),
            };
            above = Some(span.start);
            let (start, end) = (piece_start(span, parts, part), piece_start(span, parts, part + 1));
            span = Span { start, end, leaf: first_leaf(part) };
        }
    }
}

/// Returns the first interior member of a piece, when the span below its first member is cut evenly.
fn piece_start(span: Span, parts: u32, part: u32) -> u32 {
    let length = u64::from(span.end - span.start - 1);
    span.start + 1 + (u64::from(part) * length / u64::from(parts)) as u32
}

/// Returns the last number below `count` that `holds` accepts. It accepts 0, and none after one that it
/// refuses.
fn last_where(count: u32, holds: impl Fn(u32) -> bool) -> u32 {
    let (mut low, mut high) = (0, count);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if holds(middle) { low = middle } else { high = middle }
    }
    low
}
