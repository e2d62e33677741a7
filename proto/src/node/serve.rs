//! What children get: answers to what they ask, and what the policy adds.

use alloc::vec::Vec;

use headwater_abi::Path;
use headwater_abi::wire::{Aspect, Fact, Message, TransferId};

use super::Node;
use super::ask::is_content;
use crate::asks::{ChildWant, Waiter};
use crate::entry::block_of;
use crate::policy::Thing;
use crate::{Output, Rank, Time};

impl Node {
    /// Answers a child, or lets it wait until that can be done.
    pub(super) fn serve(&mut self, now: Time, want: ChildWant) {
        let ChildWant { rank, ref path, aspect, position } = want;
        if !self.children.contains_key(&rank) {
            return;
        }
        if !self.scope.contains(path) || self.live.covers(path) {
            return self.send(rank, Message::Unavailable { path: path.clone(), aspect });
        }
        if aspect == Aspect::Details {
            return self.serve_details(now, want);
        }
        if let Some(entry) = self.entries.get(path) {
            if is_content(aspect) && entry.is_file() {
                if block_of(aspect).is_some_and(|block| block >= entry.block_count()) {
                    return self.send(rank, Message::Unavailable { path: path.clone(), aspect });
                }
                if entry.content_for(aspect).is_some() {
                    return self.serve_content(now, rank, path, aspect, position);
                }
            } else if self.entries.knows(path, aspect) {
                return self.serve_fact(now, rank, path);
            }
        } else if let Some(directory) = self.listed_absent_in(path) {
            let message = if self.live.changes_names_of(&directory) {
                Message::Unavailable { path: path.clone(), aspect }
            } else {
                Message::Known { path: path.clone(), fact: Fact::Absent }
            };
            return self.send(rank, message);
        }
        self.ask(now, want.path.clone(), aspect, Waiter::Child(want));
    }

    fn serve_fact(&mut self, now: Time, rank: Rank, path: &Path) {
        let Some(entry) = self.entries.get_mut(path) else { return };
        let is_first = !entry.fact_at.contains(rank);
        entry.fact_at.insert(rank);
        let (fact, asked) = (entry.fact.clone(), entry.fact_at.count());
        self.stats.pulls += 1;
        self.send(rank, Message::Known { path: path.clone(), fact });
        if is_first {
            self.note_asked(now, Thing::Fact(path.clone()), asked);
        }
    }

    fn serve_content(&mut self, now: Time, rank: Rank, path: &Path, aspect: Aspect, position: u64) {
        let Some(entry) = self.entries.get_mut(path) else { return };
        let Some((has, head)) = entry.content_for(aspect) else { return };
        let block = block_of(aspect);
        entry.fact_at.insert(rank);
        let audience = entry.audience(block);
        let is_first = !audience.contains(rank);
        audience.insert(rank);
        let asked = audience.count();
        if let Some(held) = &entry.held {
            self.sieve.touch(held.order);
        }
        // A position counts in the content that was asked for; other content starts at its beginning.
        let position = if has == aspect { position } else { 0 };
        if position > head.content_bytes() {
            return self.disconnect(now, rank, "content is wanted from beyond its end");
        }
        let id = self.new_transfer();
        if let Some(child) = self.children.get_mut(&rank)
            && !child.receives(path, has)
        {
            self.stats.pulls += 1;
            child.start(id, path, has, head, position);
        }
        if is_first {
            self.note_asked(now, Thing::Content(path.clone(), block), asked);
        }
    }

    fn note_asked(&mut self, now: Time, thing: Thing, asked: Option<usize>) {
        if self.spread.asked(now, thing.clone(), asked, self.children.len()) {
            self.give_to_all(&thing);
        }
    }

    /// Gives a thing to all children that do not have it and have not asked for it.
    pub(super) fn give_to_all(&mut self, thing: &Thing) {
        let ranks: Vec<Rank> = self.children.keys().copied().collect();
        match thing {
            Thing::Fact(path) => {
                for &rank in &ranks {
                    self.push_to(rank, path);
                }
                if let Some(entry) = self.entries.get_mut(path) {
                    entry.fact_at.insert_everybody();
                }
            }
            Thing::Content(path, block) => {
                for &rank in &ranks {
                    self.push_content(rank, path, *block);
                }
                if let Some(entry) = self.entries.get_mut(path) {
                    entry.fact_at.insert_everybody();
                    entry.audience(*block).insert_everybody();
                }
            }
        }
    }

    /// Gives a child a fact that it has not, and what lies above it.
    pub(super) fn push_to(&mut self, rank: Rank, path: &Path) {
        self.push_ancestors(rank, path);
        self.push_fact(rank, path);
    }

    /// What lies above a path goes before it.
    fn push_ancestors(&mut self, rank: Rank, path: &Path) {
        let above: Vec<Path> = core::iter::successors(path.parent(), Path::parent)
            .take_while(|ancestor| self.entries.get(ancestor).is_some_and(|e| !e.fact_at.contains(rank)))
            .collect();
        for ancestor in above.iter().rev() {
            self.push_fact(rank, ancestor);
        }
    }

    fn push_fact(&mut self, rank: Rank, path: &Path) {
        let Some(entry) = self.entries.get_mut(path) else { return };
        if entry.fact_at.contains(rank) || self.live.covers(path) {
            return;
        }
        entry.fact_at.insert(rank);
        let fact = entry.fact.clone();
        self.stats.pushes += 1;
        self.send(rank, Message::Known { path: path.clone(), fact });
    }

    fn push_content(&mut self, rank: Rank, path: &Path, block: Option<u32>) {
        let Some(entry) = self.entries.get_mut(path) else { return };
        if entry.audience(block).contains(rank) || self.live.covers(path) {
            return;
        }
        let content = match (entry.arriving(block), block) {
            (Some(arriving), _) => Some((arriving.aspect, arriving.head.clone())),
            (None, Some(number)) => entry.content_for(Aspect::Block(number)),
            (None, None) => entry.content_for(Aspect::Whole).or_else(|| entry.content_for(Aspect::Loadable)),
        };
        let Some((aspect, head)) = content else { return };
        self.push_ancestors(rank, path);
        let id = self.new_transfer();
        if let Some(child) = self.children.get_mut(&rank)
            && !child.receives(path, aspect)
        {
            self.stats.pushes += 1;
            child.start(id, path, aspect, head, 0);
        }
    }

    fn new_transfer(&mut self) -> TransferId {
        let id = TransferId(self.next_transfer);
        self.next_transfer += 1;
        id
    }

    pub(super) fn send(&mut self, to: Rank, message: Message) {
        self.outputs.push_back(Output::Send { to, message });
    }
}
