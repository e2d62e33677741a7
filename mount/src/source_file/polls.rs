//! Comparing the source file of a path for which a thread asks again.

use std::time::Instant;

use headwater_abi::{Attr, Path};
use rustix::io::Errno;

use super::{Identity, Target};
use crate::call::{Attempt, Call};

/// Returns true if the request's thread has asked for `path` before, and the source file differs from the answer by now;
/// `known` are the snapshot's attributes, `None` if the name is absent there.
pub(crate) fn has_changed(call: &Call<'_>, path: &Path, known: Option<&Attr>) -> bool {
    let is_due = call.view.polls.note(path, call.request.pid, Instant::now());
    if !is_due || call.attempt != Attempt::default() {
        return false;
    }
    let has_changed = call.view.polls.compare(|| match (Target::at(path), known) {
        (Ok(target), Some(known)) => !is_same_version(&target.attr, known),
        (Ok(_), None) => true,
        (Err(Errno::NOENT | Errno::NOTDIR), known) => known.is_some(),
        // It can't be examined now.
        (Err(_), _) => false,
    });
    if has_changed {
        call.view.source_files.kept.note_outsider();
    }
    has_changed
}

/// Returns true if these are attributes of one version of a file.
pub(super) fn is_same_version(one: &Attr, other: &Attr) -> bool {
    let version = |attr: &Attr| (attr.mode, attr.size, attr.mtime, attr.ctime);
    Identity::of(one).is_also(&Identity::of(other)) && version(one) == version(other)
}
