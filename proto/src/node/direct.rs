//! Large content that this node's processes read from the source file, because that is faster.

use headwater_abi::wire::{Aspect, Message};
use headwater_abi::{Attr, Kind, Path, Want};

use super::Node;
use super::requests::{aspects_of, is_content};
use crate::pending::{Key, Waiter};
use crate::state::direct::Rates;
use crate::walk::content_wanted;
use crate::{ClientId, Peer, Publication, Reply};

impl Node {
    /// Returns the rates by which a file system was chosen over the trees, if one was.
    pub fn direct_rates(&self) -> Option<Rates> {
        self.direct.rates()
    }

    /// Notes that processes wait for content, and has a sample of the file read if its file system is to be compared.
    pub(super) fn compare(&mut self, key: &Key) {
        if !is_content(key.1) || !self.pending.contains(key) {
            return;
        }
        let attr = self.entries.get(&key.0).filter(|entry| entry.is_file()).and_then(|entry| entry.attr());
        if let Some(attr) = attr.copied()
            && let Some(sample) = self.direct.requested(self.now, key.clone(), &attr)
        {
            self.outputs.push_back(sample);
            self.spread(&Message::Compare { path: key.0.clone(), attr }, None);
        }
    }

    /// Compares the file system of a file, because another node has begun to.
    pub(super) fn compare_with_others(&mut self, path: Path, attr: Attr, from: Peer) {
        if !self.scope.contains(&path) || attr.kind() != Kind::File {
            return;
        }
        let (is_new, sample) = self.direct.announced(&path, &attr);
        self.outputs.extend(sample);
        if is_new {
            self.spread(&Message::Compare { path, attr }, Some(from));
        }
    }

    /// Handles the time that a sample took; `None` if it could not be read.
    pub(super) fn read_timed(&mut self, path: &Path, us: Option<u64>) {
        self.outputs.extend(self.direct.sampled(path, us));
    }

    /// Answers the processes that wait for content of file systems that were found to be faster.
    pub(super) fn decide_direct(&mut self) {
        let (now, pending) = (self.now, &self.pending);
        if !self.direct.decide(now, |key| pending.contains(key)) {
            return;
        }
        for (path, _) in self.pending.keys(|(_, aspect), _| matches!(aspect, Aspect::Loadable | Aspect::Whole)) {
            self.leave_to_processes(&path);
        }
    }

    /// Answers a process that needs content of a file that is read directly. False if the file is not, or if the
    /// process has known it and wants the content all the same: then it has found another file there. Preloading asks for
    /// each block, and needs none of such a file.
    pub(super) fn answer_directly(&mut self, id: ClientId, path: &Path, aspect: Aspect) -> bool {
        let Some(entry) = self.entries.get_mut(path) else { return false };
        let is_covered = entry.is_file() && entry.attr().is_some_and(|attr| self.direct.covers(attr));
        if !is_content(aspect) || !is_covered {
            return false;
        }
        if !core::mem::replace(&mut entry.is_direct, true) {
            self.publish(Publication::Direct { path: path.clone() });
        } else if self.clients.get(&id).is_some_and(|client| client.rounds == 1 && !client.is_ahead) {
            return false;
        }
        self.finish(id, Reply::Done);
        true
    }

    /// Publishes that processes read the source file, if content that they want is not stored.
    pub(super) fn leave_unstored(&mut self, path: &Path, want: Want) {
        let stored = &self.config.limits.stored;
        let Some(entry) = self.entries.get_mut(path).filter(|entry| entry.is_file() && !entry.is_direct) else {
            return;
        };
        if content_wanted(want).is_some() && entry.attr().is_some_and(|attr| !stored.includes(path, attr)) {
            entry.is_direct = true;
            self.publish(Publication::Direct { path: path.clone() });
        }
    }

    /// Returns whether processes read a file with these attributes directly.
    pub(super) fn is_direct(&self, attr: &Attr) -> bool {
        self.direct.covers(attr)
    }

    /// Wakes the processes that wait for all content of a file that is read directly. Returns true if the content is
    /// not wanted otherwise.
    pub(super) fn leave_to_processes(&mut self, path: &Path) -> bool {
        let Some(entry) = self.entries.get(path).filter(|entry| entry.is_file()) else { return false };
        if !entry.attr().is_some_and(|attr| self.direct.covers(attr)) {
            return false;
        }
        let is_published = entry.is_direct;
        let mut is_unwanted = true;
        for key in aspects_of(None).map(|aspect| (path.clone(), aspect)) {
            let Some(request) = self.pending.get_mut(&key) else { continue };
            if !is_published {
                self.woken.extend(core::mem::take(&mut request.clients).into_iter().map(Waiter::Client));
            }
            // Processes that request the content all the same have found another file at the path.
            is_unwanted &= request.clients.is_empty() && request.children.is_empty();
        }
        is_unwanted
    }

    /// Does the same when content is about to come. If it is not wanted otherwise, the requests for it end.
    pub(super) fn leaves_to_processes(&mut self, path: &Path) -> bool {
        let is_unwanted = self.leave_to_processes(path);
        for key in aspects_of(None).filter(|_| is_unwanted).map(|aspect| (path.clone(), aspect)) {
            self.pending.remove(&key);
            self.drop_orphan(&key);
        }
        is_unwanted
    }
}
