//! Large files, of which processes get only the blocks that they read.

use alloc::vec::Vec;

use headwater_abi::wire::Aspect;
use headwater_abi::{Attr, Path, Want};

use super::Node;
use super::requests::aspects_of;
use crate::pending::Waiter;
use crate::{ClientId, Publication, Reply};

impl Node {
    pub(super) fn request_block(&mut self, client: ClientId, path: Path, block: u32) {
        assert!(!self.clients.contains_key(&client), "a client's number is used once");
        self.stats.requests += 1;
        if !self.scope.contains(&path) || self.clients.len() >= self.config.limits.clients_waiting_max {
            return self.reply(client, Reply::Fallback);
        }
        self.admit(client, path, Want::ATTR | Want::NO_FOLLOW, Some(block));
    }

    /// Advances a client that needs a block of `path` and for which all else is known.
    pub(super) fn resume_block(&mut self, id: ClientId, path: &Path, block: u32) {
        let aspect = Aspect::Block(block);
        let Some(entry) = self.entries.get(path).filter(|entry| entry.is_file() && !self.passthrough.covers(path))
        else {
            return self.finish(id, Reply::Done);
        };
        let is_missing = !entry.knows(aspect);
        if is_missing && block >= entry.block_count() {
            return self.finish(id, Reply::Fallback);
        }
        if !is_missing {
            return self.finish(id, Reply::Done);
        }
        if self.answer_directly(id, path, aspect) {
            return;
        }
        self.wait_for(path.clone(), aspect, Waiter::Client(id));
        self.compare(&(path.clone(), aspect));
        let client = self.clients.get_mut(&id).filter(|client| !client.is_ahead);
        if client.is_some_and(|client| client.counted.replace(aspect) != Some(aspect)) {
            self.advance_blocks(path, block, true);
        }
    }

    /// Returns whether processes read a file with these attributes in the mount, unless they execute it.
    pub(super) fn is_for_mount(&self, attr: &Attr) -> bool {
        attr.size > self.config.limits.mounted_file_bytes_min
    }

    /// Has a client that needs content read it in the mount, once its first block shows what it is. False if it needs
    /// the content in the store.
    pub(super) fn serve_in_mount(&mut self, id: ClientId, path: &Path, aspect: Aspect) -> bool {
        let is_whole = matches!(aspect, Aspect::Loadable | Aspect::Whole);
        let is_executed = self.clients.get(&id).is_none_or(|client| client.want.contains(Want::EXECUTE));
        let attr = self.entries.get(path).filter(|entry| entry.is_file()).and_then(|entry| entry.attr());
        if !is_whole || is_executed || !attr.is_some_and(|attr| self.is_for_mount(attr)) {
            return false;
        }
        if self.adopt_hard_link(path, aspect) {
            self.woken.push_back(Waiter::Client(id));
            return true;
        }
        let first = Aspect::Block(0);
        let entry = self.entries.get_mut(path);
        let Some((head, entry)) = entry.and_then(|entry| Some((entry.stored_head(first)?, entry))) else {
            self.wait_for(path.clone(), first, Waiter::Client(id));
            self.compare(&(path.clone(), first));
            return true;
        };
        let stored = entry.stored.as_mut();
        if stored.is_some_and(|stored| !core::mem::replace(&mut stored.is_in_mount, true)) {
            self.publish(Publication::InMount { path: path.clone(), head });
        }
        self.finish(id, Reply::Done);
        true
    }

    /// Wakes the clients that wait for all content of a file that they read in the mount.
    pub(super) fn leave_to_mount(&mut self, path: &Path) {
        for key in aspects_of(None).map(|aspect| (path.clone(), aspect)) {
            let Some(request) = self.pending.get_mut(&key) else { continue };
            let (executing, reading): (Vec<_>, Vec<_>) = core::mem::take(&mut request.clients)
                .into_iter()
                .partition(|id| self.clients.get(id).is_some_and(|client| client.want.contains(Want::EXECUTE)));
            request.clients = executing.into_iter().collect();
            self.woken.extend(reading.into_iter().map(Waiter::Client));
        }
    }

    /// Reads blocks ahead after a process has needed a missing block or used a marked one.
    pub(super) fn advance_blocks(&mut self, path: &Path, block: u32, is_missing: bool) {
        let window_max = self.config.limits.blocks_ahead_max;
        let Some(entry) = self.entries.get_mut(path).filter(|entry| entry.is_file()) else { return };
        let count = entry.block_count();
        let sequence = &mut entry.blocks.get_or_insert_default().sequence;
        let ahead = match is_missing {
            true => sequence.missed(block, window_max),
            false => sequence.used(block, window_max),
        };
        for number in ahead.start..ahead.end.min(count) {
            let aspect = Aspect::Block(number);
            let is_here = self.entries.get(path).is_none_or(|e| e.knows(aspect) || e.arriving(Some(number)).is_some());
            let key = (path.clone(), aspect);
            if !is_here
                && !self.passthrough.covers(path)
                && !self.pending.contains(&key)
                && !self.is_content_requested(path)
            {
                self.start(&key, None);
            }
        }
    }

    /// Handles a block that turned out to be missing in the store.
    pub(super) fn lose_block(&mut self, path: &Path, block: u32) {
        let Some(entry) = self.entries.get_mut(path) else { return };
        let Some(head) = entry.stored_head(Aspect::Block(block)) else { return };
        let Some(stored) = entry.stored.as_mut().filter(|stored| !stored.is_whole()) else { return };
        stored.remove_block(block);
        let bytes = stored.missing_bytes(&head).min(stored.bytes);
        stored.bytes -= bytes;
        self.sieve.release(bytes);
        if stored.is_empty() {
            self.drop_stored(path);
        }
    }
}
