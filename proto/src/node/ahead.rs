//! Readahead of contents; see [`crate::ahead`].

use headwater_abi::Path;
use headwater_abi::wire::{Aspect, Fact};

use super::Node;
use crate::entry::Details;

/// Larger files are not read ahead: their transfer takes longer than the request.
const FILE_BYTES_MAX: u64 = 256 << 10;
/// Names that one call examines.
const STEPS_MAX: usize = 1024;

impl Node {
    /// Notes that a process needs content that is not stored.
    pub(super) fn note_content(&mut self, path: &Path, aspect: Aspect) {
        self.advance_files(path, aspect, true);
    }

    /// Notes that a process has used marked content.
    pub(super) fn used(&mut self, path: &Path, block: Option<u32>) {
        match block {
            None => self.advance_files(path, Aspect::Whole, false),
            Some(block) => self.advance_blocks(path, block, false),
        }
    }

    /// Returns whether the use of this content is to be reported.
    pub(super) fn is_marked(&self, path: &Path) -> bool {
        let Some(entry) = self.entries.parent_of(path) else { return false };
        let (Fact::Listing(_, listing), Some(directory)) = (&entry.fact, &entry.directory) else { return false };
        directory.files.is_marking()
            && listing.find(path.name()).is_some_and(|(number, _)| directory.files.is_marked(number))
    }

    fn advance_files(&mut self, path: &Path, aspect: Aspect, is_missing: bool) {
        let files_max = self.config.limits.ahead_files_max;
        let Some(at) = path.parent().filter(|_| files_max > 0) else { return };
        let Some(listing) = self.entries.listing(&at).cloned() else { return };
        let Some(number) = listing.find(path.name()).map(|(number, _)| number) else { return };
        let is_first = self.directory_mut(&at).is_some_and(|directory| directory.files.is_untouched());
        let expected = self.read_by.filter(|_| is_first && self.reading.reaches(&at));
        let Some(directory) = self.directory_mut(&at) else { return };
        let goes_on = match is_missing {
            true => directory.files.missed(&listing, number, files_max, expected),
            false => directory.files.used(number, files_max),
        };
        if !goes_on {
            return;
        }
        let is_known = directory.details == Details::Known;
        let mut files = core::mem::take(&mut directory.files);
        // What was read ahead is used, in order.
        if let (Some(by), false) = (files.strictly_by(), is_missing) {
            self.reading.proves(&at);
            self.read_by = Some(by);
        }
        for _ in 0..STEPS_MAX {
            let Some(number) = files.next(files_max, self.config.limits.ahead_bytes_max) else { break };
            let next = listing.get(number).and_then(|name| at.join(name.name));
            match next.map(|next| self.read_ahead(next, aspect)) {
                Some(Ahead::Requested(bytes)) => files.take(number, bytes),
                Some(Ahead::Unknown) if !is_known => break,
                _ => files.pass(),
            }
        }
        if let Some(directory) = self.directory_mut(&at) {
            directory.files = files;
        }
        if !is_known {
            self.request_details(&at);
        }
    }

    fn read_ahead(&mut self, path: Path, aspect: Aspect) -> Ahead {
        let Some(entry) = self.entries.get(&path) else { return Ahead::Unknown };
        let bytes = entry.attr().map_or(0, |attr| attr.size);
        let is_fit = entry.is_file() && (1..=FILE_BYTES_MAX).contains(&bytes);
        let is_here = entry.knows(aspect) || entry.is_arriving() || self.passthrough.covers(&path);
        if !is_fit || is_here || self.is_content_requested(&path) || !self.start(&(path, aspect), None) {
            return Ahead::Passed;
        }
        Ahead::Requested(bytes)
    }
}

/// The result of considering a file for readahead.
enum Ahead {
    /// It is requested; its size.
    Requested(u64),
    /// Its facts are not known yet.
    Unknown,
    /// It is not to be requested.
    Passed,
}
