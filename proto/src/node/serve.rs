//! What children get: answers to what they ask, and what the policy adds.

use alloc::sync::Arc;
use alloc::vec::Vec;

use headwater_abi::Path;
use headwater_abi::wire::{Aspect, Digest, Fact, FileHead, Message};

use super::Node;
use super::requests::is_content;
use crate::entry::Entry;
use crate::pending::{ChildWant, Waiter};
use crate::policy::Thing;
use crate::topology::TreeId;
use crate::transfer::{Child, new_transfer};
use crate::{Output, Peer, Rank};

impl Node {
    /// Answers a child, or lets it wait until that is possible.
    pub(super) fn serve(&mut self, want: ChildWant) {
        let ChildWant { rank, ref path, aspect, position, .. } = want;
        if !self.children.contains_key(&rank) {
            return;
        }
        if want.tree.0 >= self.config.forest.trees() {
            return self.disconnect(Peer::Child(rank), "there is no such tree");
        }
        if !self.scope.contains(path) || self.passthrough.covers(path) {
            return self.send_to_child(rank, Message::Unavailable { path: path.clone(), aspect });
        }
        if want.only_stored {
            return match self.entries.get(path).is_some_and(|entry| is_content(aspect) && entry.has_content(aspect)) {
                true => self.serve_content(rank, path, aspect, position),
                false => self.send_to_child(rank, Message::Unavailable { path: path.clone(), aspect }),
            };
        }
        if aspect == Aspect::Details {
            return self.serve_details(want);
        }
        if let Some(entry) = self.entries.get(path) {
            if is_content(aspect) && entry.is_file() {
                if aspect.block().is_some_and(|block| block >= entry.block_count()) {
                    return self.send_to_child(rank, Message::Unavailable { path: path.clone(), aspect });
                }
                if entry.content_for(aspect).or_else(|| entry.large_for(aspect)).is_some() {
                    return self.serve_content(rank, path, aspect, position);
                }
                if self.is_read_directly(entry, aspect) {
                    return self.serve_fact(rank, path);
                }
            } else if self.entries.knows(path, aspect) {
                return self.serve_fact(rank, path);
            }
        } else if let Some(directory) = self.listed_absent_in(path) {
            let message = if self.passthrough.changes_names_of(&directory) {
                Message::Unavailable { path: path.clone(), aspect }
            } else {
                Message::Known { path: path.clone(), fact: Fact::Absent }
            };
            return self.send_to_child(rank, message);
        }
        self.wait_for(want.path.clone(), aspect, Waiter::Child(want));
    }

    fn serve_fact(&mut self, rank: Rank, path: &Path) {
        let Some(entry) = self.entries.get_mut(path) else { return };
        let is_first = !entry.fact_at.contains(rank);
        entry.fact_at.insert(rank);
        let (fact, requested) = (entry.fact.clone(), entry.fact_at.count());
        self.stats.pulls += 1;
        self.send_to_child(rank, Message::Known { path: path.clone(), fact });
        if is_first {
            self.count_request(Thing::Fact(path.clone()), requested);
        }
    }

    fn serve_content(&mut self, rank: Rank, path: &Path, aspect: Aspect, position: u64) {
        let Some(entry) = self.entries.get_mut(path) else { return };
        let block = aspect.block();
        let here = entry.content_for(aspect);
        // Only its head is known here.
        let is_split = here.is_none();
        let Some((has, head)) = here.or_else(|| entry.large_for(aspect)) else { return };
        entry.fact_at.insert(rank);
        let recipients = entry.recipients(block);
        let is_first = !recipients.contains(rank);
        recipients.insert(rank);
        let requested = recipients.count();
        if let Some(stored) = &entry.stored {
            self.sieve.touch(stored.order);
        }
        // A position counts in the requested content; other content starts at its beginning.
        let position = if has == aspect { position } else { 0 };
        if position > head.content_bytes() {
            return self.disconnect(Peer::Child(rank), "content is wanted from beyond its end");
        }
        if block.is_none() && (is_split || self.is_large(&head)) {
            let message = Message::Large { path: path.clone(), aspect: has, head: (*head).clone() };
            self.send_to_child(rank, message);
        } else if let Some(child) = self.children.get_mut(&rank)
            && !child.receives(path, has)
        {
            if child.transfers() >= self.config.limits.transfers_max {
                return self.send_to_child(rank, Message::Unavailable { path: path.clone(), aspect });
            }
            self.stats.pulls += 1;
            child.start(new_transfer(&mut self.next_transfer), path, has, head, position);
        }
        if is_first {
            self.count_request(Thing::Content(path.clone(), block), requested);
        }
    }

    /// Returns the tree down which a thing is sent.
    fn tree_of_thing(&self, thing: &Thing) -> TreeId {
        match thing {
            Thing::Fact(path) => match self.entries.fact(path) {
                Some(Fact::Listing(..) | Fact::Unlistable(_)) => self.tree_of(path, Aspect::Listing),
                _ => self.tree_of(path, Aspect::Entry),
            },
            Thing::Content(path, None) => self.tree_of(path, Aspect::Whole),
            Thing::Content(path, Some(block)) => self.tree_of(path, Aspect::Block(*block)),
        }
    }

    /// Returns the children that get a thing from this node when it is pushed.
    fn receivers(&self, thing: &Thing) -> impl Iterator<Item = Rank> {
        let forest = &self.config.forest;
        let tree = if forest.is_striped() { Some(self.tree_of_thing(thing)) } else { None };
        // The node that has read a file need not get it.
        let reader = match (thing, tree) {
            (Thing::Content(_, None), Some(tree)) => Some(forest.root(tree)),
            (Thing::Content(path, Some(block)), Some(_)) => {
                Some(forest.root(self.home(path, Aspect::Block(*block), None)))
            }
            _ => None,
        };
        let gets = move |(&rank, child): (&Rank, &Child)| {
            let is_in = tree.map_or(!child.joined.trees.is_empty(), |tree| child.joined.trees.contains(&tree));
            (is_in && Some(rank) != reader).then_some(rank)
        };
        self.children.iter().filter_map(gets)
    }

    fn count_request(&mut self, thing: Thing, requested: Option<usize>) {
        if !self.push_policy.counts(requested) {
            return;
        }
        let children = self.receivers(&thing).count();
        if self.push_policy.requested(self.now, thing.clone(), requested, children) {
            self.push_to_all(&thing);
        }
    }

    /// Pushes a thing to all children that neither have nor requested it.
    pub(super) fn push_to_all(&mut self, thing: &Thing) {
        let ranks: Vec<Rank> = self.receivers(thing).collect();
        match thing {
            Thing::Fact(path) => {
                for &rank in &ranks {
                    self.push_to(rank, path);
                }
                if let Some(entry) = self.entries.get_mut(path) {
                    entry.fact_at.insert_all();
                }
            }
            Thing::Content(path, block) => {
                for &rank in &ranks {
                    self.push_content(rank, path, *block);
                }
                if let Some(entry) = self.entries.get_mut(path) {
                    entry.fact_at.insert_all();
                    entry.recipients(*block).insert_all();
                }
            }
        }
    }

    /// Pushes a fact that a child lacks, and the facts of the directories above.
    pub(super) fn push_to(&mut self, rank: Rank, path: &Path) {
        self.push_ancestors(rank, path);
        self.push_fact(rank, path);
    }

    /// Pushes the facts of the directories above a path, as far as the child gets them from this node: in
    /// striped trees each directory travels down one tree.
    fn push_ancestors(&mut self, rank: Rank, path: &Path) {
        let has = |entry: &Entry| entry.fact_at.contains(rank);
        if self.entries.parent_of(path).is_none_or(has) {
            return;
        }
        let above: Vec<Path> = core::iter::successors(path.parent(), Path::parent)
            .take_while(|ancestor| self.entries.get(ancestor).is_some_and(|entry| !has(entry)))
            .collect();
        let is_striped = self.config.forest.is_striped();
        for ancestor in above.iter().rev() {
            let tree = self.tree_of(ancestor, Aspect::Listing);
            if !is_striped || self.children.get(&rank).is_some_and(|child| child.joined.trees.contains(&tree)) {
                self.push_fact(rank, ancestor);
            } else if let Some(entry) = self.entries.get_mut(ancestor) {
                entry.fact_at.insert(rank);
            }
        }
    }

    fn push_fact(&mut self, rank: Rank, path: &Path) {
        let Some(entry) = self.entries.get_mut(path) else { return };
        if entry.fact_at.contains(rank) || self.passthrough.covers(path) {
            return;
        }
        entry.fact_at.insert(rank);
        let fact = entry.fact.clone();
        self.stats.pushes += 1;
        self.send_to_child(rank, Message::Known { path: path.clone(), fact });
    }

    fn push_content(&mut self, rank: Rank, path: &Path, block: Option<u32>) {
        let Some(entry) = self.entries.get_mut(path) else { return };
        if entry.recipients(block).contains(rank) || self.passthrough.covers(path) {
            return;
        }
        let content = match (entry.arriving(block), block) {
            (None, None) if entry.download().is_some() => {
                entry.download().map(|download| (download.aspect, download.head.clone()))
            }
            (Some(arriving), _) => Some((arriving.aspect, arriving.head.clone())),
            (None, Some(number)) => entry.content_for(Aspect::Block(number)),
            (None, None) => entry.content_for(Aspect::Whole).or_else(|| entry.content_for(Aspect::Loadable)),
        };
        let is_split = entry.arriving(block).is_none() && entry.download().is_some();
        let Some((aspect, head)) = content else { return };
        let transfers_max = self.config.limits.transfers_max / 2;
        if self.children.get(&rank).is_none_or(|child| child.transfers() >= transfers_max) {
            return;
        }
        self.push_ancestors(rank, path);
        if block.is_none() && (is_split || self.is_large(&head)) {
            self.stats.pushes += 1;
            return self.send_to_child(rank, Message::Large { path: path.clone(), aspect, head: (*head).clone() });
        }
        if let Some(child) = self.children.get_mut(&rank)
            && !child.receives(path, aspect)
        {
            self.stats.pushes += 1;
            child.start(new_transfer(&mut self.next_transfer), path, aspect, head, 0);
        }
    }

    /// Sends a message to a child.
    pub(super) fn send_to_child(&mut self, to: Rank, message: Message) {
        self.send(Peer::Child(to), message);
    }

    pub(super) fn send(&mut self, to: Peer, message: Message) {
        self.outputs.push_back(Output::Send { to, message });
    }

    /// Puts out requests for the digests that children wait for.
    pub(super) fn request_digests(&mut self, wanted: Vec<(Path, Aspect, Arc<FileHead>)>) {
        for (path, aspect, head) in wanted {
            if self.digesting.insert((path.clone(), aspect)) {
                self.outputs.push_back(Output::Digest { path, aspect, head: (*head).clone() });
            }
        }
    }

    /// Handles a computed digest.
    pub(super) fn digested(&mut self, path: &Path, aspect: Aspect, digest: Option<Digest>) {
        self.digesting.remove(&(path.clone(), aspect));
        let Some(entry) = self.entries.get_mut(path).filter(|entry| entry.has_content(aspect)) else { return };
        match (digest, &mut entry.stored) {
            (Some(digest), Some(stored)) => stored.set_digest(aspect, digest),
            // The content can't be read any more.
            _ => return drop(self.drop_stored(path)),
        }
        let piece = (path.clone(), aspect.block());
        self.children.wake(&piece);
    }
}
