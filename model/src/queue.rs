//! Events in the order of their time; those of one moment in the order in which they were planned.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What happens, on which site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Event {
    /// The first byte of the packet with this number arrives.
    Arrival(u32),
    /// The site's processes come to their next look-up.
    Step(u32),
    /// The site's network card can take more.
    Card(u32),
    /// The site's read with this number goes on.
    Read(u32, u32),
    /// The site's timeout may be due.
    Timer(u32),
}

/// When something happens. What happens at one moment is in order of who planned it, and of that one's
/// own count, so that the order does not depend on who else plans what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment {
    pub(crate) at_ns: u64,
    pub(crate) planner: u32,
    pub(crate) count: u32,
}

/// The queue.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    heap: BinaryHeap<Reverse<(Moment, Event)>>,
    pub(crate) planned: u64,
}

impl Queue {
    /// Plans an event.
    pub(crate) fn plan(&mut self, moment: Moment, event: Event) {
        self.planned += 1;
        self.heap.push(Reverse((moment, event)));
    }

    /// When the next event happens.
    pub(crate) fn next_ns(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse((moment, _))| moment.at_ns)
    }

    /// Takes the next event out, if it happens before this time.
    pub(crate) fn next(&mut self, before_ns: u64) -> Option<(u64, Event)> {
        if self.next_ns()? >= before_ns {
            return None;
        }
        self.heap.pop().map(|Reverse((moment, event))| (moment.at_ns, event))
    }
}

/// Things by number, whose numbers are used again.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    things: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Slab<T> {
        Slab { things: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    pub(crate) fn insert(&mut self, thing: T) -> u32 {
        match self.free.pop() {
            Some(number) => {
                self.things[number as usize] = Some(thing);
                number
            }
            None => {
                self.things.push(Some(thing));
                self.things.len() as u32 - 1
            }
        }
    }

    pub(crate) fn remove(&mut self, number: u32) -> Option<T> {
        let thing = self.things.get_mut(number as usize)?.take();
        if thing.is_some() {
            self.free.push(number);
        }
        thing
    }

    pub(crate) fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        self.things.get_mut(number as usize)?.as_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_goes_before_order() {
        let mut queue = Queue::default();
        for (at_ns, planner, count) in [(5, 1, 0), (3, 2, 1), (5, 0, 7), (3, 2, 0), (9, 0, 0)] {
            queue.plan(Moment { at_ns, planner, count }, Event::Step(count));
        }
        let found: Vec<(u64, Event)> = std::iter::from_fn(|| queue.next(9)).collect();
        assert_eq!(found, [(3, 0), (3, 1), (5, 7), (5, 0)].map(|(at, count)| (at, Event::Step(count))));
        assert_eq!(queue.next_ns(), Some(9));
    }

    #[test]
    fn numbers_are_used_again() {
        let mut slab = Slab::default();
        let (a, b) = (slab.insert('a'), slab.insert('b'));
        assert_eq!((slab.remove(a), slab.remove(a)), (Some('a'), None));
        assert_eq!(slab.insert('c'), a);
        assert_eq!(slab.get_mut(b), Some(&mut 'b'));
    }
}
