//! The node's cache: looking for content in it, and keeping content.

use std::sync::Arc;

use headwater_abi::wire::{Aspect, Digest, FileHead};
use headwater_abi::{Attr, Path};
use headwater_cache::Cache;
use headwater_proto::Input;
use headwater_reader::{FindJob, ReadJob};

use super::Daemon;
use crate::config::Config;
use crate::keeping::{Stored, StoredCopy};

/// Opens the cache. If that fails, the session does without.
pub(crate) fn open(config: &Config) -> Option<Arc<Cache>> {
    let options = config.cache.as_ref()?;
    Cache::open(&options.directory, options.bytes_max)
        .inspect_err(|error| {
            let directory = options.directory.display();
            tracing::warn!(%error, "the cache in {directory} can't be used: name another directory with --cache");
        })
        .ok()
        .map(Arc::new)
}

impl Daemon {
    /// Looks for content, and copies it into the store.
    pub(super) fn find_cached(&mut self, path: Path, aspect: Aspect, attr: Attr, have: Option<FileHead>) {
        let block = aspect.block();
        self.find_room();
        match self.incoming(&path, block, attr.size) {
            Ok(incoming) => {
                self.content.readers.submit(ReadJob::Find(FindJob { path, aspect, attr, have, incoming }));
            }
            // It is requested elsewhere, and if that fails too, the store's failure is reported.
            Err(error) => {
                tracing::debug!(%path, %error, "nothing is taken from the cache");
                self.driver.inbox.push_back(Input::Cached { path, aspect, found: None });
            }
        }
    }

    /// Feeds the result to the node.
    pub(super) fn found_cached(&mut self, job: FindJob, found: Option<(FileHead, Digest)>) {
        let FindJob { path, aspect, incoming, .. } = job;
        if !self.content.store.is_incoming(&path, aspect.block(), incoming.number) {
            return;
        }
        drop(incoming);
        if let Some((head, _)) = &found {
            self.housekeeping.keeping.found.files += 1;
            self.housekeeping.keeping.found.bytes += head.content_bytes();
        }
        self.feed(Input::Cached { path, aspect, found });
    }

    /// Keeps content that is in the store.
    pub(super) fn keep(&self, path: &Path, aspect: Aspect, head: &FileHead) {
        if !self.housekeeping.keeping.is_on() {
            return;
        }
        let copy = match aspect {
            Aspect::Block(number) => self.content.store.blocks().resident(path, number).map(StoredCopy::Partial),
            _ => Some(StoredCopy::At(self.content.store.path_of(path))),
        };
        let Some(copy) = copy else { return };
        self.housekeeping.keeping.keep(Stored { path: path.clone(), aspect, head: head.clone(), copy });
    }
}
