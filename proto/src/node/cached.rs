//! Content that an earlier session left on this node. The driver looks for it before a peer or the shared file system
//! is asked; a file's attributes decide whether it is still the same, so they come first.

use headwater_abi::Path;
use headwater_abi::wire::{Aspect, Digest, FileHead};

use super::Node;
use super::content::is_content_head;
use super::requests::is_content;
use crate::Output;
use crate::entry::{aspect_of, is_same_version};
use crate::pending::{Key, Route};

/// Content that was not there when it was looked for; beyond that, it is looked for again.
const UNCACHED_MAX: usize = 1 << 16;

impl Node {
    /// Looks for content on this node. Returns the route of its request; `None` if it is to be requested elsewhere.
    pub(super) fn find_cached(&mut self, key: &Key) -> Option<Route> {
        let (path, aspect) = key;
        let block = aspect.block();
        let piece = (path.clone(), block);
        let is_candidate = self.config.limits.has_cache && is_content(*aspect) && !self.uncached.contains(key);
        if !is_candidate || self.finding.contains_key(&piece) || self.reads.contains_key(&piece) {
            return None;
        }
        let entry = self.entries.get(path).filter(|entry| entry.is_file() && entry.arriving(block).is_none())?;
        let (attr, have) = (*entry.attr()?, entry.have(*aspect));
        self.finding.insert(piece, *aspect);
        self.outputs.push_back(Output::FindCached { path: path.clone(), aspect: *aspect, attr, have });
        Some(Route::Cache)
    }

    /// Handles the driver's answer. What was found is complete in the store, and not published yet.
    pub(super) fn cached(&mut self, path: &Path, aspect: Aspect, found: Option<(FileHead, Digest)>) {
        let block = aspect.block();
        if self.finding.get(&(path.clone(), block)) != Some(&aspect) {
            return;
        }
        self.finding.remove(&(path.clone(), block));
        if found.is_some_and(|(head, digest)| self.take_cached(path, aspect, head, digest)) {
            return;
        }
        self.outputs.push_back(Output::Discard { path: path.clone(), block });
        if self.uncached.len() >= UNCACHED_MAX {
            self.uncached.clear();
        }
        let key = (path.clone(), aspect);
        self.uncached.insert(key.clone());
        if self.pending.route(&key) == Some(Route::Cache) {
            self.pending.set_route(&key, Route::Waiting);
            self.redispatch();
        }
    }

    /// Publishes content that was found. Returns false if it is not what is needed, or there is no room.
    fn take_cached(&mut self, path: &Path, aspect: Aspect, head: FileHead, digest: Digest) -> bool {
        let block = aspect.block();
        if !self.scope.contains(path) || self.passthrough.covers(path) || !is_content_head(&head, aspect) {
            return false;
        }
        let is_needed = self.entries.get(path).is_some_and(|entry| {
            let is_same = entry.attr().is_some_and(|attr| is_same_version(attr, &head.attr));
            is_same && entry.arriving(block).is_none() && !entry.has_content(aspect)
        });
        let aspect = if block.is_some() { aspect } else { aspect_of(&head) };
        if !is_needed || self.linked_content(path, aspect).is_some() {
            return false;
        }
        let Some((head, reserved)) = self.reserve(path, head) else { return false };
        self.take_in(path, aspect, &head, reserved, Some(digest));
        self.publish_content(path, aspect, head);
        true
    }

    /// Stops looking for content that arrives by another way.
    pub(super) fn stop_finding(&mut self, path: &Path, block: Option<u32>) {
        if self.finding.remove(&(path.clone(), block)).is_some() {
            self.outputs.push_back(Output::Discard { path: path.clone(), block });
        }
    }
}
