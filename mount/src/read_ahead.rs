//! Which files of a directory are stored ahead when one of it was read.

use headwater_abi::table::{Reader, State};
use headwater_abi::{Kind, Path};
use headwater_fuse::NodeId;

use crate::call::Call;
use crate::state::ahead::{Candidate, FILE_BYTES_MAX};
use crate::state::notices::Notice;
use crate::view::{Known, Standing};

/// A small file was read as a whole, by a request that is answered.
pub(crate) fn file_read(call: &Call<'_>, known: &Known) {
    let view = call.view;
    let Some(parent) = known.path.parent().filter(|_| view.ahead.is_on()) else { return };
    let files = view.table(|reader| {
        let directory = reader.find(parent.as_bytes())?;
        let names = directory.names()?;
        let by = (directory.index(), call.request.pid);
        view.ahead.wanted(by, &names, known.path.name(), |name| candidate(call, reader, &parent, name))
    });
    for (node, path) in files.into_iter().flatten() {
        // The node reads ahead too, between the nodes, and is to know how far this has come.
        if view.blocks.take_mark(&path) {
            call.used.borrow_mut().push((path.clone(), None));
        }
        view.notices.send(Notice::Store(node, path));
    }
}

fn candidate(call: &Call<'_>, reader: &Reader<'_>, directory: &Path, name: &[u8]) -> Candidate<(NodeId, Path)> {
    let Some(path) = directory.join(name) else { return Candidate::None };
    let Some(record) = reader.find(path.as_bytes()) else { return Candidate::None };
    let size = record.attr().map_or(0, |attr| attr.size);
    let (node, is_small) = (NodeId(record.index()), (1..=FILE_BYTES_MAX).contains(&size));
    let is_lasting = call.view.standing_in(reader, &path, record.state) == Standing::Snapshot;
    if record.kind != Kind::File || !is_small || !is_lasting || call.view.ahead.was_asked(node) {
        return Candidate::None;
    }
    // The kernel takes pages of files alone that it knows.
    match record.state.contains(State::WHOLE) && record.lookups() > 0 {
        true => Candidate::Here((node, path), size),
        false => Candidate::Coming,
    }
}
