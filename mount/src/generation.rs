//! A generation begins: what the kernel remembers of names and directories may be out of date.
//!
//! It is told what has changed, name by name. It could be told to forget all names at once, but would
//! then forget the pages and the places of what has not changed, too.

use std::io;
use std::path::PathBuf;

use headwater_abi::wire::Change;
use headwater_abi::{Kind, Path};
use headwater_fuse::NodeId;
use headwater_store::Table;

use crate::dispatcher::Mount;
use crate::state::notices::Notice;

impl Mount {
    /// Tells the kernel of these changes; without them, of all that it knows. Files need nothing but
    /// that their names lead elsewhere: those that have changed are other nodes now. Returns the
    /// directories of which the kernel may remember that names are absent.
    pub fn generation_began(&self, changes: Option<&[Change]>) -> Vec<Path> {
        let view = self.view();
        let Some(changes) = changes else {
            self.any_name_came();
            // What the newest table still has a number for is a directory.
            let directories = view.table(|tables| {
                let pinned = tables.records().filter(|record| record.kind == Kind::Unknown && record.lookups() > 0);
                pinned.map(|record| NodeId(record.index())).collect::<Vec<NodeId>>()
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
                let is_pinned =
                    node == NodeId::ROOT || view.table(|t| t.record(node.0).is_some_and(|r| r.lookups() > 0));
                listed.extend(is_pinned.then(|| path.clone()));
            }
        }
        listed
    }

    /// Serves from the table that `make` makes, whose copies lie below `root`. The one so far is `generation`'s, and
    /// `make` tells which of its records the kernel still refers to.
    ///
    /// # Errors
    /// Those of `make`; then all stays as it was.
    pub fn succeed(
        &self,
        generation: u64,
        root: PathBuf,
        make: impl FnOnce() -> io::Result<(Table, Vec<u64>)>,
    ) -> io::Result<(Table, Vec<u64>)> {
        let view = self.view();
        let mut tables = view.reclaiming();
        let (table, pinned) = make()?;
        view.contents.begin_generation(root, pinned.iter().copied().map(NodeId));
        tables.succeed(generation, table.reader());
        Ok((table, pinned))
    }

    /// An older generation, of which these records were referred to, has ended.
    pub fn generation_ended(&self, generation: u64, pinned: Vec<u64>) {
        let view = self.view();
        view.reclaiming().forget(generation);
        view.contents.forget(pinned.into_iter().map(NodeId));
    }

    /// A directory has names that it had not.
    pub fn names_came<'a>(&self, directory: &Path, names: impl Iterator<Item = &'a [u8]>) {
        let view = self.view();
        if let Some(node) = view.node_of(directory) {
            names.for_each(|name| view.notices.send(Notice::NameChanged(node, name.into())));
        }
    }

    /// Some names may lead to something that led to nothing; nobody knows which.
    pub fn any_name_came(&self) {
        self.view().notices.send(Notice::NamesChanged);
    }

    /// Lets go of all copies, so that none is found by a number that is used again.
    pub fn close_copies(&self) {
        self.view().contents.close_all();
    }
}
