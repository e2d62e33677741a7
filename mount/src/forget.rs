//! Forgets unused paths, so that the table does not grow with every path that was looked up.
//!
//! The node reports paths that it has forgotten. If the kernel still refers to the record of one, the kernel is asked
//! to forget it too; the record is reused after that.

use headwater_abi::{Kind, Path};
use headwater_store::Table;

use crate::dispatcher::Mount;
use crate::state::notices::Notice;

/// Paths that wait for the kernel. If it refers to more, the oldest keep their records.
const WAITING_MAX: usize = 1 << 14;
/// Paths that are retried whenever another one is forgotten. The kernel forgets in the order of the notifications, so
/// the oldest are tried.
const TRIES: usize = 4;

/// Records that exist only for their number, before the oldest are forgotten.
const NUMBERED_MAX: usize = 1 << 14;

impl Mount {
    /// Reclaims the record of `path`, which the node has forgotten, now or once the kernel has forgotten it.
    pub fn forget(&mut self, table: &mut Table, path: Path) {
        if self.reclaim(table, &path) {
            return;
        }
        self.notify_kernel(&path);
        if self.forgetting.waiting.insert(path.clone()) {
            self.forgetting.order.push_back(path);
        }
        for _ in 0..TRIES {
            let Some(oldest) = self.forgetting.order.pop_front() else { break };
            if !self.forgetting.waiting.contains(&oldest) {
                continue;
            }
            if self.reclaim(table, &oldest) || self.forgetting.order.len() >= WAITING_MAX {
                self.forgetting.waiting.remove(&oldest);
            } else {
                self.forgetting.order.push_back(oldest);
            }
        }
        tracing::trace!(waiting = self.forgetting.order.len(), "forgetting");
    }

    /// Creates a record for `path` if there is none, so that it has a number. Returns false without room.
    pub fn number(&mut self, table: &mut Table, path: Path) -> bool {
        if self.view().tables.node_of(&path).is_some() {
            return true;
        }
        if self.forgetting.numbered.len() >= NUMBERED_MAX
            && let Some(oldest) = self.forgetting.numbered.pop_front()
            && self.is_only_number(&oldest)
        {
            self.forget(table, oldest);
        }
        let is_there = table.record(&path);
        self.forgetting.numbered.push_back(path);
        is_there
    }

    fn is_only_number(&self, path: &Path) -> bool {
        let record = self.view().tables.read(|reader| reader.find(path.as_bytes()));
        record.is_some_and(|record| record.kind == Kind::Unknown && record.state.is_empty())
    }

    /// Retains the record of `path`, because the node knows the path again.
    pub fn remember(&mut self, path: &Path) {
        self.forgetting.waiting.remove(path);
    }

    /// Removes a record from the table while no worker reads it. Returns false if the kernel refers to it.
    fn reclaim(&self, table: &mut Table, path: &Path) -> bool {
        let _alone = self.view().tables.reclaiming();
        table.reclaim(path)
    }

    /// Returns true if the kernel refers to the record of `path`.
    pub fn is_referred(&self, table: &Table, path: &Path) -> bool {
        self.view().tables.node_of(path).is_some_and(|node| table.lookups(node.0) > 0)
    }

    /// Returns the paths, except directories, that the kernel refers to and for which `is_meant` is true.
    pub fn referred(&self, is_meant: impl Fn(&Path) -> bool) -> Vec<Path> {
        self.view().tables.read(|reader| {
            let referred = reader.records().filter(|record| record.lookups() > 0 && record.kind != Kind::Dir);
            referred.filter_map(|record| Path::new(&record.path()?)).filter(is_meant).collect()
        })
    }

    /// Returns true while notifications to the kernel are pending.
    pub fn is_notifying(&self) -> bool {
        !self.view().notices.is_idle()
    }

    /// Asks the kernel to forget `path`.
    pub fn notify_kernel(&self, path: &Path) {
        let view = self.view();
        let directory = path.parent().and_then(|parent| view.tables.node_of(&parent));
        if let (Some(node), Some(directory)) = (view.tables.node_of(path), directory) {
            view.notices.send(Notice::Forget(node, directory, path.name().into()));
        }
    }
}
