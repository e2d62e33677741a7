//! Events in the order of their time; those of one moment in the order in which they were planned.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The kind of an event, and its site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Event {
    /// The first byte of the packet with this number arrives.
    Arrival(u32),
    /// The site's processes reach their next look-up.
    Step(u32),
    /// The site's network card can take more.
    Card(u32),
    /// The site's read with this number continues.
    Read(u32, u32),
    /// The site's timeout may be due.
    Timer(u32),
}

/// The time of an event. Events of one time are in the order of their planners, and of each planner's own
/// count, so that the order does not depend on the plans of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment {
    pub(crate) at_ns: u64,
    pub(crate) planner: u32,
    pub(crate) count: u32,
}

#[derive(Debug, Default)]
pub(crate) struct Queue {
    /// Events that make a node send at once, and all others.
    prompt: Heap,
    others: Heap,
    pub(crate) planned: u64,
}

type Heap = BinaryHeap<Reverse<(Moment, Event)>>;

impl Queue {
    pub(crate) fn plan(&mut self, moment: Moment, event: Event) {
        self.planned += 1;
        let is_prompt = matches!(event, Event::Card(_) | Event::Timer(_));
        let heap = if is_prompt { &mut self.prompt } else { &mut self.others };
        heap.push(Reverse((moment, event)));
    }

    /// Returns the time of the next event that makes a node send at once, and of the next other one.
    pub(crate) fn next_ns(&self) -> [Option<u64>; 2] {
        [&self.prompt, &self.others].map(|heap| heap.peek().map(|Reverse((moment, _))| moment.at_ns))
    }

    /// Removes the next event, if it happens before this time.
    pub(crate) fn next(&mut self, before_ns: u64) -> Option<(u64, Event)> {
        let heap = match (self.prompt.peek(), self.others.peek()) {
            (Some(Reverse(prompt)), Some(Reverse(other))) if prompt > other => &mut self.others,
            (Some(_), _) => &mut self.prompt,
            (None, _) => &mut self.others,
        };
        heap.peek().filter(|Reverse((moment, _))| moment.at_ns < before_ns)?;
        heap.pop().map(|Reverse((moment, event))| (moment.at_ns, event))
    }
}

/// Things by number; numbers are reused.
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

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.things.iter_mut().flatten()
    }

    pub(crate) fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        self.things.get_mut(number as usize)?.as_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_precedes_order() {
        let mut queue = Queue::default();
        for (at_ns, planner, count) in [(5, 1, 0), (3, 2, 1), (5, 0, 7), (3, 2, 0), (9, 0, 0)] {
            queue.plan(Moment { at_ns, planner, count }, Event::Step(count));
        }
        let found: Vec<(u64, Event)> = std::iter::from_fn(|| queue.next(9)).collect();
        assert_eq!(found, [(3, 0), (3, 1), (5, 7), (5, 0)].map(|(at, count)| (at, Event::Step(count))));
        assert_eq!(queue.next_ns(), [None, Some(9)]);
        for (at_ns, count) in [(9, 5), (8, 0)] {
            queue.plan(Moment { at_ns, planner: 0, count }, Event::Timer(count));
        }
        let found: Vec<u64> = std::iter::from_fn(|| queue.next(10)).map(|(at, _)| at).collect();
        assert_eq!((found, queue.planned), (vec![8, 9, 9], 7));
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
