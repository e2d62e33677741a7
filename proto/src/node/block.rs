//! Large files, of which processes get only the blocks that they read.

use headwater_abi::wire::Aspect;
use headwater_abi::{Path, Want};

use super::Node;
use crate::pending::Waiter;
use crate::{ClientId, Reply};

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
