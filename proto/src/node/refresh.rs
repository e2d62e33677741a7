//! Generations: what has changed on the shared file system is read again for processes that start from now
//! on.
//!
//! The root checks each path that it knows, once, without interrupting anything. Unchanged paths remain known
//! on every node, with their content. Changed paths are forgotten everywhere, at one point in each link's
//! stream of messages: behind [`Message::Refresh`] everything is of the new generation.
//!
//! Facts that were in transit when the refresh was requested may precede the change. They are checked too,
//! once they have arrived.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use headwater_abi::wire::{Aspect, CHANGES_MAX, Change, Fact, Message};
use headwater_abi::{Path, Want};

use super::Node;
use super::requests::is_content;
use crate::entry::{is_same_directory, is_same_version};
use crate::pending::{Key, Route};
use crate::state::refresh::{Checking, Demand, Requester};
use crate::topology::Up;
use crate::versions::Versions;
use crate::{Output, Peer, Rank};

/// Paths that are checked at once.
const CHECKS_MAX: usize = 64;
/// Pending refreshes; further ones fail.
const REQUESTS_MAX: usize = 256;

impl Node {
    /// Continues with the generation of this node's predecessor. Called before any input.
    pub fn restore_generation(&mut self, generation: u64) {
        let limits = &self.config.limits;
        self.refresh.may_have_forgotten = limits.facts_max != usize::MAX || limits.listing_bytes_max != u64::MAX;
        self.refresh.generation = generation;
        self.unsettle(self.config.forest.tree_ids());
    }

    /// Handles a refresh that this node's user requests.
    pub(super) fn refresh_requested(&mut self, request: u64, paths: Vec<Path>) {
        let ways = [Want::empty(), Want::NO_FOLLOW];
        let walked = paths.iter().flat_map(|path| ways.map(|want| self.map().walk(path, want).path));
        let paths: Vec<Path> = walked.collect::<BTreeSet<Path>>().into_iter().collect();
        if self.refresh.requests.len() < REQUESTS_MAX
            && self.demand_refresh(Demand { paths, requesters: Vec::from([(self.config.rank.0, request)]) })
        {
            self.refresh.requests.insert(request);
        } else {
            self.outputs.push_back(Output::RefreshFailed { request });
        }
    }

    /// Passes a child's refresh request on. If it can't be passed on, links go down, and the request ends
    /// with them.
    pub(super) fn refresh_wanted(&mut self, rank: u32, request: u64, paths: Vec<Path>) {
        self.demand_refresh(Demand { paths, requesters: Vec::from([(rank, request)]) });
    }

    /// Starts a refresh or passes it on. False if the parent can't be reached.
    fn demand_refresh(&mut self, demand: Demand) -> bool {
        if self.control() != Up::Reader {
            let Some(to) = self.control_parent() else { return false };
            for (rank, request) in demand.requesters {
                self.send(Peer::Parent(to), Message::RefreshWanted { rank, request, paths: demand.paths.clone() });
            }
            return true;
        }
        match (&mut self.refresh.next, &self.refresh.checking) {
            (Some(next), _) if next.requesters.len() >= REQUESTS_MAX => return false,
            (Some(next), _) => next.merge(demand),
            (next, Some(_)) => *next = Some(demand),
            (None, None) => self.begin_checking(demand, None),
        }
        true
    }

    /// Checks what this node has read for changes, for a parent.
    pub(super) fn check_for_changes(&mut self, from: Rank, number: u64, paths: Vec<Path>) {
        self.begin_checking(Demand { paths, requesters: Vec::new() }, Some((from, number)));
    }

    /// Notes the changes that another reader has found; `None`: anything may have changed.
    pub(super) fn changes_found(&mut self, rank: Rank, number: u64, changes: Option<Vec<Change>>, is_last: bool) {
        let check = self.refresh.check;
        let is_gone = !self.children.contains_key(&rank);
        let Some(checking) = &mut self.refresh.checking else { return };
        if !(is_gone || number == check) || !checking.readers.contains(&rank) {
            return;
        }
        match changes {
            None => checking.is_partial = true,
            Some(changes) => {
                for change in changes {
                    let is_same = checking.changes.entry(change.path).or_insert(change.is_same_directory);
                    *is_same &= change.is_same_directory;
                }
            }
        }
        if is_last {
            checking.readers.remove(&rank);
        }
    }

    fn begin_checking(&mut self, demand: Demand, answers: Option<(Rank, u64)>) {
        let readers = self.children.iter().filter(|(_, child)| child.joined.is_reader);
        let readers: BTreeSet<Rank> = readers.map(|(&rank, _)| rank).collect();
        self.refresh.check += 1;
        for &rank in &readers {
            self.send_to_child(rank, Message::CheckChanges { number: self.refresh.check, paths: demand.paths.clone() });
        }
        // Arriving content of a known file is of the version that will be checked.
        let is_settled = |(path, aspect): &Key| is_content(*aspect) && self.entries.get(path).is_some();
        let awaited = self.pending.keys(|key, _| demand.covers(&key.0) && !is_settled(key));
        let has_read = |path: &&Path| {
            let aspects = [Aspect::Entry, Aspect::Listing, Aspect::Whole];
            aspects.iter().any(|&aspect| self.is_reader_of(path, aspect))
        };
        let todo = self.entries.paths().filter(|path| demand.covers(path)).filter(has_read).cloned().collect();
        self.outputs.push_back(Output::DropLookupCache);
        self.refresh.checking = Some(Checking {
            demand,
            todo,
            in_flight: BTreeSet::new(),
            awaited: awaited.into_iter().filter(|key| self.pending.route(key) == Some(Route::Read)).collect(),
            changes: BTreeMap::new(),
            is_partial: answers.is_none() && self.has_unlinked_readers(&readers),
            readers,
            answers,
        });
    }

    /// Returns whether there are other readers that can't be asked for changes.
    fn has_unlinked_readers(&self, linked: &BTreeSet<Rank>) -> bool {
        let mut trees = self.config.forest.tree_ids();
        trees.any(|tree| {
            !matches!(self.reader_of(tree), Up::Reader)
                && !matches!(self.reader_of(tree), Up::To(rank) if linked.contains(&rank))
        })
    }

    /// Checks further known paths. False if nothing can be done now.
    pub(super) fn continue_checking(&mut self) -> bool {
        let Some(checking) = &mut self.refresh.checking else { return false };
        let came: Vec<Key> = checking.awaited.iter().filter(|key| !self.pending.contains(key)).cloned().collect();
        for key in came {
            checking.awaited.remove(&key);
            checking.todo.push_back(key.0);
        }
        while checking.in_flight.len() < CHECKS_MAX
            && let Some(path) = checking.todo.pop_front()
        {
            let is_to_be_seen = self.entries.get(&path).is_some() && !self.passthrough.covers(&path);
            if is_to_be_seen && !checking.changes.contains_key(&path) && checking.in_flight.insert(path.clone()) {
                self.outputs.push_back(Output::ReadEntry { path });
            }
        }
        if !checking.in_flight.is_empty() || !checking.awaited.is_empty() || !checking.readers.is_empty() {
            return false;
        }
        let Some(checking) = self.refresh.checking.take() else { return false };
        let Checking { demand, changes, is_partial, answers, .. } = checking;
        let mut changes = self.all_changes(&demand, changes).filter(|_| !is_partial);
        if answers.is_none() {
            // What is passed through here because this node or one below changes it stays so on all nodes, whatever
            // another reader reports: below it nothing was checked.
            changes.iter_mut().for_each(|changes| changes.retain(|change| !self.passthrough.is_own(&change.path)));
        }
        if let Some((to, number)) = answers {
            self.answer_check(to, number, changes.as_deref());
        } else if changes.as_ref().is_some_and(Vec::is_empty) {
            self.answer_unchanged(&demand.requesters);
        } else {
            self.begin_generation(self.refresh.generation + 1, changes, demand.requesters);
            // A node that checked because it had no parent may have one by now.
            if let Some(parent) = self.control_parent() {
                self.report_generation(parent);
            }
        }
        if let Some(next) = self.refresh.next.take() {
            self.begin_checking(next, None);
        }
        true
    }

    /// Reports the changes of what this node has read to the rank that asked.
    fn answer_check(&mut self, to: Rank, number: u64, changes: Option<&[Change]>) {
        if self.is_up(to) {
            in_parts(changes, |changes, is_last| {
                self.send(Peer::Parent(to), Message::FoundChanges { number, changes, is_last });
            });
        }
    }

    /// Returns all changes: those just found, and those noticed before. `None` if this node has forgotten
    /// facts that others may know.
    fn all_changes(&self, demand: &Demand, changes: BTreeMap<Path, bool>) -> Option<Vec<Change>> {
        if self.refresh.may_have_forgotten {
            return None;
        }
        let mut changes = changes;
        for path in self.passthrough.inherited().filter(|path| demand.covers(path)) {
            for below in self.entries.descendants(path).chain([path]) {
                changes.insert(below.clone(), false);
            }
        }
        Some(changes.into_iter().map(|(path, is_same_directory)| Change { path, is_same_directory }).collect())
    }

    /// Compares a path with what was just read. True if it was read for a check.
    pub(super) fn checked(&mut self, path: &Path, now: &Fact) -> bool {
        let Some(checking) = &mut self.refresh.checking else { return false };
        if !checking.in_flight.remove(path) {
            return false;
        }
        let Some(known) = self.entries.fact(path).filter(|known| !is_unchanged(known, now)) else { return true };
        if checking.changes.contains_key(path) {
            return true;
        }
        let is_same_directory = known.attr().zip(now.attr()).is_some_and(|(known, now)| is_same_directory(known, now));
        checking.changes.insert(path.clone(), is_same_directory);
        if !is_same_directory {
            // What was below has moved or vanished.
            for below in self.entries.descendants(path) {
                checking.changes.insert(below.clone(), false);
            }
        }
        true
    }

    /// Reports the generation to a parent that has come up and may have missed it.
    pub(super) fn report_generation(&mut self, rank: Rank) {
        let generation = self.refresh.generation;
        if generation > 1 {
            self.send(Peer::Parent(rank), Message::Newer { generation });
        }
    }

    /// Reports the generation to parents that are behind: the lost parent may have announced it to this node alone.
    pub(super) fn report_to_parents_behind(&mut self) {
        let up = self.parents.keys().copied().filter(|&rank| self.is_up(rank) && self.is_behind(rank));
        let behind: Vec<Rank> = up.collect();
        behind.into_iter().for_each(|rank| self.report_generation(rank));
    }

    /// Begins the generation of a child, which this node has missed: all may have changed.
    pub(super) fn newer_below(&mut self, generation: u64) {
        if generation <= self.refresh.generation {
            return;
        }
        self.begin_generation(generation, None, Vec::new());
        let up: Vec<Rank> = self.parents.keys().copied().filter(|&rank| self.is_up(rank)).collect();
        up.into_iter().for_each(|rank| self.report_generation(rank));
    }

    /// Returns whether a parent's messages are of an older generation than this node's.
    pub(super) fn is_behind(&self, parent: Rank) -> bool {
        self.parents.get(&parent).is_some_and(|parent| parent.generation < self.refresh.generation)
    }

    /// Notes that a parent has reached a generation. Its answers to earlier requests were of an older one.
    fn caught_up(&mut self, rank: Rank, generation: u64) {
        let was_behind = self.is_behind(rank);
        let Some(parent) = self.parents.get_mut(&rank) else { return };
        parent.generation = parent.generation.max(generation);
        if was_behind && !self.is_behind(rank) {
            for key in self.pending.keys_routed(Route::Parent(rank)) {
                self.pending.set_route(&key, Route::Waiting);
            }
            self.redispatch();
        }
    }

    /// Handles a parent's announcement of a generation.
    pub(super) fn refresh_announced(
        &mut self,
        from: Rank,
        generation: u64,
        changes: Option<Vec<Change>>,
        is_last: bool,
        requesters: Vec<Requester>,
    ) -> Result<(), &'static str> {
        let mut announced = core::mem::take(&mut self.refresh.announced);
        if is_last || changes.is_none() {
            self.caught_up(from, generation);
        }
        if generation <= self.refresh.generation {
            // Answers go down one tree; in several they would circulate.
            if !requesters.is_empty() && self.control_parent() == Some(from) {
                self.answer_unchanged(&requesters);
            }
            return Ok(());
        }
        let Some(changes) = changes else {
            self.begin_generation(generation, None, requesters);
            return Ok(());
        };
        announced.extend(changes);
        if announced.len() > self.config.limits.entries_max.saturating_mul(2) {
            return Err("more has changed than can be known");
        }
        if is_last {
            self.begin_generation(generation, Some(announced), requesters);
        } else {
            self.refresh.announced = announced;
        }
        Ok(())
    }

    /// Begins a generation. Without `changes`, none of the known facts is certain.
    fn begin_generation(&mut self, generation: u64, changes: Option<Vec<Change>>, requesters: Vec<Requester>) {
        let children: Vec<Rank> = self.children.keys().copied().collect();
        for &rank in &children {
            self.announce(rank, generation, changes.as_deref(), &requesters);
        }
        if changes.is_none() && self.control() == Up::Reader {
            self.repeat_passthrough_paths(&children);
        }
        let changed = changes.as_ref().map(|changes| changes.len() as u64);
        let before = core::mem::replace(&mut self.refresh.generation, generation);
        self.failed.clear();
        self.versions = Versions::default();
        self.compare_anew();
        self.refresh.may_have_forgotten = false;
        let changed_paths: Vec<Path> = match &changes {
            Some(changes) => changes.iter().map(|change| change.path.clone()).collect(),
            None => self.passthrough.inherited().chain(self.entries.paths()).cloned().collect(),
        };
        for path in &changed_paths {
            self.passthrough.take_back(path);
        }
        let gone = changed_paths.iter().filter(|path| !self.passthrough.covers(path)).cloned().collect::<Vec<Path>>();
        let retained = gone.iter().map(|path| self.forget_version(path)).sum();
        self.sieve.take(retained);
        self.refresh.retained_bytes.insert(before, retained);
        let passthrough = self.passthrough.iter().map(|(path, tree)| (path.clone(), tree)).collect();
        self.outputs.push_back(Output::Generation { generation, changes, passthrough });
        self.answer_own(changed, &requesters);
    }

    /// Announces anew what this node or one below changes: all others have just taken back what they got from above.
    fn repeat_passthrough_paths(&mut self, children: &[Rank]) {
        let own: Vec<(Path, bool)> = self.passthrough.own().map(|(path, tree)| (path.clone(), tree)).collect();
        let is_control = |rank: &&Rank| self.children.get(rank).is_some_and(|child| child.joined.is_control);
        for &rank in children.iter().filter(is_control).collect::<Vec<_>>() {
            for (path, tree) in own.iter().cloned() {
                self.announce_to(Peer::Child(rank), Message::Passthrough { path, tree });
            }
        }
    }

    /// Reports to the requesters, here and below, that nothing has changed and no generation begins.
    fn answer_unchanged(&mut self, requesters: &[Requester]) {
        let children = self.children.iter().filter(|(_, child)| child.joined.is_control);
        let children: Vec<Rank> = children.map(|(&rank, _)| rank).collect();
        for rank in children {
            self.announce(rank, self.refresh.generation, Some(&[]), requesters);
        }
        self.answer_own(Some(0), requesters);
    }

    fn answer_own(&mut self, changed: Option<u64>, requesters: &[Requester]) {
        let generation = self.refresh.generation;
        for (rank, request) in requesters {
            if *rank == self.config.rank.0 && self.refresh.requests.remove(request) {
                self.outputs.push_back(Output::Refreshed { request: *request, generation, changed });
            }
        }
    }

    /// Announces a generation to a child, in as many messages as it takes.
    fn announce(&mut self, rank: Rank, generation: u64, changes: Option<&[Change]>, requesters: &[Requester]) {
        in_parts(changes, |changes, is_last| {
            let requesters = if is_last { requesters.to_vec() } else { Vec::new() };
            self.send_to_child(rank, Message::Refresh { generation, changes, is_last, requesters });
        });
    }

    /// Announces the generation to a child that has come up and may have missed some. Unless it is of this
    /// one already, none of its facts is certain.
    pub(super) fn announce_generation(&mut self, rank: Rank) {
        if self.refresh.generation > 1 {
            self.announce(rank, self.refresh.generation, None, &[]);
        }
    }

    /// Continues with the previous generation for this node's processes: changed paths become passthrough
    /// paths.
    pub(super) fn generation_failed(&mut self, changes: Option<Vec<Change>>) {
        let included = self.config.scope.iter().filter(|(is_included, _)| *is_included);
        let passthrough: Vec<(Path, bool)> = match changes {
            Some(changes) => changes.into_iter().map(|change| (change.path, false)).collect(),
            None => included.map(|(_, root)| (root.clone(), true)).collect(),
        };
        for (path, tree) in passthrough.into_iter().filter(|(path, _)| self.scope.contains(path)).collect::<Vec<_>>() {
            if self.passthrough.covers_as(&path, tree, true) {
                continue;
            }
            self.passthrough.insert(&path, tree, true);
            self.publish_passthrough(&path, tree);
            for key in self.pending.keys(|(requested, _), _| *requested == path || (tree && requested.is_within(&path)))
            {
                self.release(&key);
            }
        }
    }

    /// Releases the bytes of a generation that no process uses any more.
    pub(super) fn generation_gone(&mut self, generation: u64) {
        if let Some(bytes) = self.refresh.retained_bytes.remove(&generation) {
            self.sieve.release(bytes);
        }
    }

    /// Fails the pending refreshes if the parent that was to answer them is lost.
    pub(super) fn fail_refreshes_without_parent(&mut self) {
        if self.control_parent().is_some() || self.parent_may_return() {
            return;
        }
        self.refresh.announced.clear();
        for request in core::mem::take(&mut self.refresh.requests) {
            self.outputs.push_back(Output::RefreshFailed { request });
        }
    }

    /// Forgets a path, so that it is read again. Returns bytes of content that stay in the store for
    /// processes of older generations.
    fn forget_version(&mut self, path: &Path) -> u64 {
        let pieces = self.entries.get(path).map(|entry| entry.pieces_arriving()).unwrap_or_default();
        for &piece in &pieces {
            self.drop_arriving(path, piece, true);
        }
        let bytes = self.drop_stored(path).map_or(0, |stored| stored.bytes);
        for child in self.children.values_mut() {
            child.stop_all(path);
        }
        self.entries.remove(path);
        // Requests about this version stay unanswered.
        let is_lost = |aspect: Aspect| aspect == Aspect::Details || (is_content(aspect) && !pieces.is_empty());
        let lost: Vec<Key> = self.pending.keys_of(path).filter(|(_, aspect)| is_lost(*aspect)).cloned().collect();
        for key in lost {
            self.release(&key);
        }
        self.request_singly(path);
        bytes
    }
}

/// Passes on changes in the parts that one message carries, each with whether it is the last.
fn in_parts(changes: Option<&[Change]>, mut send: impl FnMut(Option<Vec<Change>>, bool)) {
    let Some(mut rest) = changes else { return send(None, true) };
    loop {
        let (part, after) = rest.split_at(rest.len().min(CHANGES_MAX));
        rest = after;
        send(Some(part.to_vec()), rest.is_empty());
        if rest.is_empty() {
            return;
        }
    }
}

/// Returns whether a path is as it was known.
fn is_unchanged(known: &Fact, now: &Fact) -> bool {
    match (known.attr(), now.attr()) {
        (Some(known), Some(now)) => is_same_version(known, now),
        _ => known == now,
    }
}
