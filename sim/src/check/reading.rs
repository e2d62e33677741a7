//! Properties of reads of the shared file system.

use headwater_abi::Path;
use headwater_abi::wire::{Aspect, Fact, FileHead};
use headwater_proto::{Rank, TreeId};

use crate::tree::Item;
use crate::violation::{Check, ensure};
use crate::world::World;

impl World {
    /// Checks that a rank may read: it is the root of the tree, or all before it in the tree's order are dead
    /// in its view.
    pub(crate) fn check_reader(&mut self, rank: Rank, path: &Path, aspect: Aspect) -> Check {
        ensure(self.in_scope(path), || format!("{path} is read out of scope"))?;
        let (site, now, limits) = (self.site(rank), self.now, &self.limits);
        let has_begun = !site.suspects.is_empty() || now - site.started >= limits.starting_ms_max;
        let is_expired = |at: u64| now - at >= limits.probe_ms_max && has_begun;
        let obstacle = |tree: TreeId| {
            let candidates = || self.forest.candidates(tree);
            if !candidates().any(|candidate| candidate == rank) {
                return Some(self.forest.root(tree));
            }
            site.obstacle(candidates(), rank, is_expired)
        };
        let obstacles: Option<Vec<Rank>> = self.homes(rank, path, aspect).into_iter().map(obstacle).collect();
        ensure(obstacles.is_none(), || format!("{path} is read as {aspect:?}, though {obstacles:?} lives"))?;
        let life = self.site(rank).life;
        self.readers.insert((rank, life));
        Ok(())
    }

    /// Checks that a read is a reader's, for a name that may exist, and not repeated.
    pub(crate) fn check_read(&mut self, rank: Rank, path: &Path, aspect: Aspect) -> Check {
        let site = self.site(rank);
        if aspect == Aspect::Entry && site.looks_anew && site.table.facts.contains_key(path) {
            // Known paths are checked for changes.
            return ensure(self.in_scope(path), || format!("{path} is read out of scope"));
        }
        self.check_reader(rank, path, aspect)?;
        // A block may be read although the whole is stored under another name, in another file of the store.
        let is_content = matches!(aspect, Aspect::Loadable | Aspect::Whole);
        let site = self.site_mut(rank);
        let is_known = site.table.facts.contains_key(path);
        if let Some(Fact::Listing(_, listing)) = path.parent().and_then(|p| site.table.facts.get(&p)) {
            // What was known before its directory was read again may have been removed meanwhile.
            ensure(is_known || listing.find(path.name()).is_some(), || {
                format!("{path} is read though its directory lacks it")
            })?;
        }
        let count = site.reads.count(path, aspect);
        ensure(count == 1, || format!("{path} is read {count} times as {aspect:?}"))?;
        let is_here = site.table.resident.contains_key(path) || site.table.blocks.contains_key(path);
        if is_content && !is_here {
            let twin = self.twin(rank, path);
            ensure(twin.is_none(), || format!("{path} is read though it is there as {twin:?}"))?;
        }
        Ok(())
    }

    /// Returns another name under which the file is complete, if a listing shows it.
    fn twin(&self, rank: Rank, path: &Path) -> Option<Path> {
        let ino = |path: &Path| match self.tree.item(path) {
            Some(Item::File { attr, .. }) => Some(attr.ino),
            _ => None,
        };
        let site = self.site(rank);
        let wanted = ino(path).filter(|ino| !site.inodes_in_blocks.contains(ino))?;
        let listing = site.table.facts.get(&path.parent()?);
        listing.filter(|fact| matches!(fact, Fact::Listing(..)))?;
        // Names may be known from different versions of the file, or from readers that see it on two devices.
        if self.changed.contains(path) || self.options.devices_differ {
            return None;
        }
        let is_twin = |(other, head): &(&Path, &FileHead)| {
            let is_evicted = site.refused.contains(other);
            !is_evicted
                && *other != path
                && ino(other) == Some(wanted)
                && head.attr.nlink > 1
                && self.tree.is_current(other, &head.attr)
        };
        site.table.resident.iter().find(is_twin).map(|(other, _)| other.clone())
    }
}
