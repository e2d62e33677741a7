//! Details: the facts about all names of a directory, requested at once when processes look up one after the
//! other. They arrive in batches, each of which is published at once.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use headwater_abi::listing::Listing;
use headwater_abi::wire::{Aspect, DETAILS_MAX, Detail, Fact, Message};
use headwater_abi::{Kind, Path};

use super::Node;
use crate::entry::{Details, Directory, is_name, is_sound};
use crate::pending::{ChildWant, Route, Waiter};
use crate::topology::Up;
use crate::transfer::Child;
use crate::{ClientId, Output, Rank};

/// Look-ups of unknown names after which the details are requested. A program that knows its files makes
/// fewer; one that lists the directory and examines each name reaches this at once.
const DETAILS_AFTER: usize = 16;
/// Large directories need look-ups of this fraction of their names.
const DETAILS_SHARE: usize = 64;
/// Batches that are read at once; other reads have the remaining threads.
const BATCHES_READING_MAX: usize = 4;

impl Node {
    /// Notes a look-up of an unknown name.
    pub(super) fn note_lookup(&mut self, path: &Path) {
        let Some(at) = path.parent() else { return };
        let Some(listing) = self.entries.listing(&at) else { return };
        let (count, number) = (listing.len(), listing.find(path.name()).map(|(number, _)| number));
        let Some(directory) = self.directory_mut(&at) else { return };
        directory.lookups += 1;
        number.into_iter().for_each(|number| directory.streak.looked_up(number));
        let (streak, lookups) = (directory.streak, directory.lookups);
        let is_traversal = self.traversal.is_going_through(&at, streak);
        if is_traversal || lookups >= DETAILS_AFTER.max(count / DETAILS_SHARE) {
            self.request_details(&at);
        }
    }

    /// Lets a client that lists a directory wait for its details, if it is likely to examine each name. False
    /// if it need not wait.
    pub(super) fn waits_for_details(&mut self, id: ClientId, path: &Path) -> bool {
        let has_waited = self.clients.get(&id).is_none_or(|client| client.counted == Some(Aspect::Details));
        let is_unknown = self.directory_mut(path).is_some_and(|directory| directory.details != Details::Known);
        if has_waited || !is_unknown || !self.traversal.reaches(path) || !self.request_details(path) {
            return false;
        }
        if let Some(client) = self.clients.get_mut(&id) {
            client.counted = Some(Aspect::Details);
        }
        self.wait_for(path.clone(), Aspect::Details, Waiter::Client(id));
        true
    }

    /// Requests a directory's details, unless they are known, pending or too many. Returns whether they are
    /// pending.
    pub(super) fn request_details(&mut self, at: &Path) -> bool {
        let names_max = self.config.limits.details_names_max;
        if self.entries.listing(at).is_none_or(|listing| listing.len() > names_max) {
            return false;
        }
        match self.directory_mut(at).map(|directory| directory.details) {
            Some(Details::Unknown) => {}
            Some(Details::Requested { .. }) => return true,
            _ => return false,
        }
        let is_pushed = !self.children.is_empty() && self.push_policy.pushes_new(self.now);
        self.set_details(at, Details::Requested { batches: 0, is_pushed });
        let owes_answer = self.start(&(at.clone(), Aspect::Details), None);
        if !owes_answer {
            self.set_details(at, Details::Unknown);
        }
        owes_answer
    }

    /// Queues all names of a directory for this node's reader.
    pub(super) fn start_batches(&mut self, at: &Path) {
        let count = self.entries.listing(at).map_or(0, Listing::len);
        if let Some(Directory { details: Details::Requested { batches, .. }, .. }) = self.directory_mut(at) {
            *batches = count.div_ceil(DETAILS_MAX);
        }
        let batch = |first: usize| (at.clone(), first..(first + DETAILS_MAX).min(count));
        self.batches_waiting.extend((0..count).step_by(DETAILS_MAX).map(batch));
    }

    /// Returns whether the pending details of its directory will answer what this path is.
    pub(super) fn is_detailed(&self, path: &Path) -> bool {
        let Some(at) = path.parent() else { return false };
        self.entries.listing(&at).is_some_and(|listing| listing.find(path.name()).is_some())
            && self.pending.contains(&(at, Aspect::Details))
    }

    /// Starts the read of the next batch of names, if the limit allows. False if there is none.
    pub(super) fn start_batch(&mut self) -> bool {
        if self.batches_reading >= BATCHES_READING_MAX {
            return false;
        }
        let Some((path, numbers)) = self.batches_waiting.pop_front() else { return false };
        if !self.pending.contains(&(path.clone(), Aspect::Details)) {
            return true;
        }
        let Some(listing) = self.entries.listing(&path).cloned() else { return true };
        let is_unknown = |name: &&[u8]| {
            let Some(at) = path.join(name).filter(|_| is_proper(name)) else { return false };
            let owes_answer = self.pending.route(&(at.clone(), Aspect::Entry)) == Some(Route::Read);
            self.entries.get(&at).is_none() && !owes_answer && !self.passthrough.covers(&at)
        };
        let names = numbers.filter_map(|number| listing.get(number)).map(|name| name.name);
        let names: Vec<Box<[u8]>> = names.filter(is_unknown).map(Box::from).collect();
        if names.is_empty() {
            self.batch_done(&path, Arc::from([]));
        } else {
            self.batches_reading += 1;
            self.outputs.push_back(Output::ReadDetails { path, names });
        }
        true
    }

    /// Handles a batch that the reader has examined.
    pub(super) fn details_read(&mut self, path: &Path, details: Vec<Detail>) {
        self.batches_reading = self.batches_reading.saturating_sub(1);
        let sound = details.into_iter().filter(is_sound_detail).collect();
        self.batch_done(path, sound);
        let tree = self.tree_of(path, Aspect::Details);
        if self.up_in(tree) != Up::Reader {
            // A rank that has to get a report has come back since these were read.
            self.unsettle([tree]);
        }
    }

    fn batch_done(&mut self, path: &Path, details: Arc<[Detail]>) {
        let batches = match self.directory_mut(path).map(|directory| &mut directory.details) {
            Some(Details::Requested { batches, .. }) => {
                *batches = batches.saturating_sub(1);
                *batches
            }
            _ => usize::MAX,
        };
        self.take_details(path, details, batches == 0);
    }

    /// Handles details from the parent.
    pub(super) fn details_received(
        &mut self,
        path: &Path,
        details: Arc<[Detail]>,
        is_last: bool,
    ) -> Result<(), &'static str> {
        if !details.iter().all(is_sound_detail) {
            return Err("a directory's details are malformed");
        }
        self.take_details(path, details, is_last);
        Ok(())
    }

    /// Publishes new details and passes them on.
    fn take_details(&mut self, path: &Path, details: Arc<[Detail]>, is_last: bool) {
        let key = (path.clone(), Aspect::Details);
        self.pending.note_progress(self.now, &key);
        let learnt = details.iter().filter_map(|Detail { name, fact }| {
            let at = path.join(name)?;
            self.learn(&at, fact.clone(), false).then_some(at)
        });
        let learnt: Vec<Path> = learnt.collect();
        let mut to: Vec<Rank> = self
            .pending
            .get_mut(&key)
            .into_iter()
            .flat_map(|request| request.children.iter().map(|c| c.rank))
            .collect();
        if let Some(Details::Requested { is_pushed: true, .. }) = self.directory_mut(path).map(|d| d.details) {
            let tree = self.tree_of(path, Aspect::Details);
            let gets = |(&rank, child): (&Rank, &Child)| child.joined.trees.contains(&tree).then_some(rank);
            let others = self.children.iter().filter_map(gets).filter(|rank| !to.contains(rank));
            let others: Vec<Rank> = others.collect();
            for &rank in &others {
                self.push_to(rank, path);
            }
            to.extend(others);
        }
        if !to.is_empty() {
            // What was known before is passed on in its known form.
            let known: Vec<Detail> = learnt.iter().filter_map(|at| self.detail(at)).collect();
            let details = if known[..] == details[..] { details } else { known.into() };
            self.send_details(&to, path, &details, is_last);
        }
        if is_last && let Some(directory) = self.directory_mut(path) {
            directory.details = Details::Known;
            let clients = self.pending.remove(&key).into_iter().flat_map(|request| request.clients);
            self.woken.extend(clients.map(Waiter::Client));
            self.request_singly(path);
        }
    }

    /// Answers a child: known details at once, the rest as it arrives.
    pub(super) fn serve_details(&mut self, want: ChildWant) {
        let ChildWant { rank, ref path, aspect, .. } = want;
        let listing = match self.entries.fact(path) {
            None => return self.wait_for(path.clone(), Aspect::Listing, Waiter::Child(want)),
            Some(Fact::Attr(attr)) if attr.kind() == Kind::Dir => {
                return self.wait_for(path.clone(), Aspect::Listing, Waiter::Child(want));
            }
            Some(Fact::Listing(_, listing)) => listing.clone(),
            Some(_) => return self.send_to_child(rank, Message::Unavailable { path: path.clone(), aspect }),
        };
        let is_known = self.entries.knows(path, Aspect::Details);
        if !is_known && !self.request_details(path) {
            return self.send_to_child(rank, Message::Unavailable { path: path.clone(), aspect });
        }
        self.stats.pulls += 1;
        let paths = listing.iter().filter(|name| is_proper(name.name)).filter_map(|name| path.join(name.name));
        let details: Vec<Detail> = paths.filter_map(|at| self.detail(&at)).collect();
        let mut batches = details.chunks(DETAILS_MAX).peekable();
        while let Some(batch) = batches.next() {
            let is_last = is_known && batches.peek().is_none();
            self.send_details(&[rank], path, &Arc::from(batch), is_last);
        }
        if !is_known {
            self.pending.join(&(path.clone(), aspect), Waiter::Child(want));
        } else if details.is_empty() {
            self.send_details(&[rank], path, &Arc::from([]), true);
        }
    }

    fn send_details(&mut self, to: &[Rank], path: &Path, details: &Arc<[Detail]>, is_last: bool) {
        for detail in details.iter() {
            if let Some(entry) = path.join(&detail.name).and_then(|at| self.entries.get_mut(&at)) {
                to.iter().for_each(|&rank| entry.fact_at.insert(rank));
            }
        }
        if is_last || !details.is_empty() {
            for &rank in to {
                self.send_to_child(rank, Message::Details { path: path.clone(), details: details.clone(), is_last });
            }
        }
    }

    /// Returns a path's fact in the form in which details contain it.
    fn detail(&self, at: &Path) -> Option<Detail> {
        let fact = match &self.entries.get(at).filter(|_| !self.passthrough.covers(at))?.fact {
            Fact::Listing(attr, _) | Fact::Unlistable(attr) | Fact::Attr(attr) => Fact::Attr(*attr),
            link @ Fact::Link(..) => link.clone(),
            Fact::Absent | Fact::Error(_) => return None,
        };
        Some(Detail { name: at.name().into(), fact })
    }

    /// Handles details that can't be had now: names are requested one by one.
    pub(super) fn no_details(&mut self, path: &Path) {
        self.set_details(path, Details::Unknown);
        self.request_singly(path);
    }

    fn set_details(&mut self, at: &Path, details: Details) {
        if let Some(directory) = self.directory_mut(at) {
            (directory.lookups, directory.details) = (0, details);
        }
    }

    /// Requests one by one what the details failed to answer.
    pub(super) fn request_singly(&mut self, path: &Path) {
        for key in self.pending.detailed(path) {
            let tree = self.tree_of(&key.0, key.1);
            let owes_answer = self.dispatch(&key, tree).is_some_and(|route| self.pending.set_route(&key, route));
            if !owes_answer {
                self.fail(&key);
            }
        }
    }

    pub(super) fn directory_mut(&mut self, path: &Path) -> Option<&mut Directory> {
        let entry = self.entries.get_mut(path).filter(|entry| matches!(entry.fact, Fact::Listing(..)))?;
        Some(entry.directory.get_or_insert_default())
    }
}

/// Returns whether a name is neither `.` nor `..`.
fn is_proper(name: &[u8]) -> bool {
    is_name(name) && name != b"." && name != b".."
}

fn is_sound_detail(detail: &Detail) -> bool {
    is_proper(&detail.name) && is_sound(&detail.fact) && matches!(detail.fact, Fact::Attr(_) | Fact::Link(..))
}
