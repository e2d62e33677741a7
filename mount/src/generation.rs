//! Begins a generation: entries that the kernel caches may be out of date.
//!
//! The kernel is notified of each changed name. It could be asked to expire all names at once, but would then drop the
//! pages and positions of unchanged files too.

use std::io;
use std::path::PathBuf;

use headwater_abi::wire::Change;
use headwater_abi::{Kind, Path};
use headwater_fuse::NodeId;
use headwater_store::Table;

use crate::dispatcher::Mount;
use crate::state::notices::Notice;

impl Mount {
    /// Notifies the kernel of these changes; without them, of all that it caches. For a changed file, its name is
    /// enough: the file is a new node now. Returns the directories of which the kernel may cache absent names.
    pub fn generation_began(&self, changes: Option<&[Change]>) -> Vec<Path> {
        let view = self.view();
        let Some(changes) = changes else {
            self.any_name_came();
            // A record without a kind that the kernel refers to is a directory.
            let directories = view.tables.read(|tables| {
                let pinned = tables.records().filter(|record| record.kind == Kind::Unknown && record.lookups() > 0);
                pinned.map(|record| NodeId(record.index())).collect::<Vec<NodeId>>()
            });
            let all = directories.into_iter().chain([NodeId::ROOT]);
            all.for_each(|node| view.notices.send(Notice::ListingChanged(node)));
            return Vec::new();
        };
        let mut listed = Vec::new();
        for Change { path, is_same_directory } in changes {
            match path.parent().and_then(|directory| view.tables.node_of(&directory)) {
                Some(directory) if !is_same_directory => {
                    view.notices.send(Notice::NameChanged(directory, path.name().into()));
                }
                _ => {}
            }
            if *is_same_directory && let Some(node) = view.tables.node_of(path) {
                view.notices.send(Notice::ListingChanged(node));
                let is_pinned =
                    node == NodeId::ROOT || view.tables.read(|t| t.record(node.0).is_some_and(|r| r.lookups() > 0));
                listed.extend(is_pinned.then(|| path.clone()));
            }
        }
        listed
    }

    /// Switches to the table that `make` creates, whose copies lie below `root`. The present table belongs to
    /// `generation`; `make` returns which of its records the kernel still refers to.
    ///
    /// # Errors
    /// Those of `make`; then nothing has changed.
    pub fn succeed(
        &self,
        generation: u64,
        root: PathBuf,
        make: impl FnOnce() -> io::Result<(Table, Vec<u64>)>,
    ) -> io::Result<(Table, Vec<u64>)> {
        let view = self.view();
        let mut tables = view.tables.reclaiming();
        let (table, pinned) = make()?;
        view.contents.begin_generation(root, pinned.iter().copied().map(NodeId));
        tables.succeed(generation, table.reader());
        Ok((table, pinned))
    }

    /// Drops an older generation, whose records were these.
    pub fn generation_ended(&self, generation: u64, pinned: Vec<u64>) {
        let view = self.view();
        view.tables.reclaiming().forget(generation);
        view.contents.forget(pinned.into_iter().map(NodeId));
    }

    /// Notifies the kernel of new names in a directory.
    pub fn names_came<'a>(&self, directory: &Path, names: impl Iterator<Item = &'a [u8]>) {
        let view = self.view();
        if let Some(node) = view.tables.node_of(directory) {
            names.for_each(|name| view.notices.send(Notice::NameChanged(node, name.into())));
        }
    }

    /// Notifies the kernel that any absent name may exist now.
    pub fn any_name_came(&self) {
        self.view().notices.send(Notice::NamesChanged);
    }

    /// Closes all copies, so that a reused number does not lead to an old one.
    pub fn close_copies(&self) {
        self.view().contents.close_all();
    }
}
