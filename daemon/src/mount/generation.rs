//! A generation begins: what the kernel remembers of names and directories may be out of date.
//!
//! It is told what has changed, name by name. It could be told to forget all names at once, but would
//! then forget the pages and the places of what has not changed, too.

use headwater_abi::wire::Change;
use headwater_abi::{Kind, Path};
use headwater_fuse::NodeId;

use super::desk::Mount;
use super::notifier::Notice;

impl Mount {
    /// Tells the kernel of these changes; without them, of all that it knows. Files need nothing but
    /// that their names lead elsewhere: those that have changed are other nodes now. Returns the
    /// directories of which the kernel may remember that names are absent.
    pub(crate) fn generation_began(&self, changes: Option<&[Change]>) -> Vec<Path> {
        let view = self.view();
        let Some(changes) = changes else {
            self.any_name_came();
            // What the newest table still has a number for is a directory.
            let directories = view.table(|tables| {
                let held = tables.records().filter(|record| record.kind == Kind::Unknown && record.lookups() > 0);
                held.map(|record| NodeId(record.index())).collect::<Vec<NodeId>>()
            });
            let all = directories.into_iter().chain([NodeId::ROOT]);
            all.for_each(|node| view.notices.send(Notice::ListingChanged(node)));
            return Vec::new();
        };
        let mut listed = Vec::new();
        for Change { path, is_same_directory } in changes {
            match path.parent().and_then(|directory| view.node_of(&directory)) {
                Some(directory) if !is_same_directory => {
                    view.notices.send(Notice::NameChanged(directory, path.name().into()));
                }
                _ => {}
            }
            if *is_same_directory && let Some(node) = view.node_of(path) {
                view.notices.send(Notice::ListingChanged(node));
                let is_held = node == NodeId::ROOT || view.table(|t| t.record(node.0).is_some_and(|r| r.lookups() > 0));
                listed.extend(is_held.then(|| path.clone()));
            }
        }
        listed
    }

    /// A directory has names that it had not.
    pub(crate) fn names_came<'a>(&self, directory: &Path, names: impl Iterator<Item = &'a [u8]>) {
        let view = self.view();
        if let Some(node) = view.node_of(directory) {
            names.for_each(|name| view.notices.send(Notice::NameChanged(node, name.into())));
        }
    }

    /// Some names may lead to something that led to nothing; nobody knows which.
    pub(crate) fn any_name_came(&self) {
        self.view().notices.send(Notice::NamesChanged);
    }

    /// Lets go of all copies, so that none is found by a number that is used again.
    pub(crate) fn close_copies(&self) {
        self.view().contents.close_all();
    }
}
