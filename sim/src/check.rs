//! Properties of everything that a node puts out.

mod reading;
mod room;
mod settled;

use headwater_abi::wire::{Aspect, Fact, FileHead};
use headwater_abi::{Attr, Kind, Path, Want};
use headwater_proto::{Publication, Rank, Reply};

use crate::site::Waiting;
use crate::tree::{Item, Outcome, PathState, Tree, resolve};
use crate::violation::{Check, ensure};
use crate::world::{MOUNTED_FILE_BYTES_MIN, World};

/// When all links are up if nothing fails, in milliseconds.
const LINKED_MS: u64 = 1000;

impl World {
    /// Checks that what becomes visible is true, the same on all nodes, and never changes.
    pub(crate) fn check_publication(&mut self, rank: Rank, publication: &Publication) -> Check {
        match publication {
            Publication::Fact { path, fact } => self.check_fact(rank, path, fact),
            Publication::Content { path, head, aspect, .. } => self.check_content(rank, path, *aspect, head),
            Publication::Block { path, block, head, .. } => self.check_content(rank, path, Aspect::Block(*block), head),
            Publication::HardLink { path, target, aspect, head } => {
                ensure(path != target, || format!("{path} links to itself"))?;
                ensure(self.site(rank).store.is_published(target, head), || {
                    format!("{path} links to {target}, which is not complete")
                })?;
                self.check_content_head(rank, path, *aspect, head)
            }
            Publication::Arrived { path, .. } => Err(format!("{path} is published and not stored")),
            Publication::Passthrough { path, .. } => {
                ensure(self.in_scope(path), || format!("{path} is a passthrough path out of scope"))
            }
            Publication::Direct { path } => self.check_direct(rank, path),
            Publication::InMount { path, head } => self.check_in_mount(rank, path, head),
            Publication::Unaudited => Ok(()),
        }
    }

    fn check_fact(&mut self, rank: Rank, path: &Path, fact: &Fact) -> Check {
        ensure(self.in_scope(path), || format!("{path} is published out of scope"))?;
        ensure(!self.site(rank).is_passthrough(path), || format!("a fact about {path}, which is passed through"))?;
        let is_true = self.versions_of_tree(0).any(|tree| self.is_true(tree, path, fact));
        ensure(is_true, || format!("{path} never was {fact:?}"))?;
        if let Some(before) = self.site(rank).table.facts.get(path) {
            let grows = matches!((before, fact), (Fact::Attr(old), Fact::Listing(new, _) | Fact::Unlistable(new)) if old == new);
            ensure(grows, || format!("{path} changes from {before:?} to {fact:?}"))?;
        }
        if let Some(attr) = fact.attr()
            && (self.past.is_empty() || self.readers.len() <= 1)
        {
            // Each read sets the access time; without faults there is one.
            let is_first = self.is_calm && self.limits.facts_max == usize::MAX && self.forest.trees() == 1;
            let attr = if is_first { *attr } else { version_of(attr) };
            let generation = self.site(rank).table.generation;
            let version = *self.versions.entry((generation, path.clone())).or_insert(attr);
            ensure(version == attr, || format!("{path} has two versions: {version:?} and {attr:?}"))?;
        }
        Ok(())
    }

    /// Checks that only large files are left to processes.
    fn check_direct(&mut self, rank: Rank, path: &Path) -> Check {
        let size = self.site(rank).table.facts.get(path).and_then(Fact::attr).map_or(0, |attr| attr.size);
        ensure(size > self.limits.compared_file_bytes_min, || format!("{path} of {size} bytes is not stored"))?;
        self.summary.direct += 1;
        Ok(())
    }

    /// Checks that only large files of which the first block is stored are read in the mount.
    fn check_in_mount(&mut self, rank: Rank, path: &Path, head: &FileHead) -> Check {
        let size = head.attr.size;
        ensure(size > MOUNTED_FILE_BYTES_MIN, || format!("{path} of {size} bytes is read in the mount"))?;
        ensure(self.site(rank).has_block(path, 0), || format!("{path} is in the mount, and its first block is not"))?;
        self.summary.in_mount += 1;
        self.check_content(rank, path, Aspect::Block(0), head)
    }

    fn check_content(&mut self, rank: Rank, path: &Path, aspect: Aspect, head: &FileHead) -> Check {
        let (store, piece) = (&self.site(rank).store, (path.clone(), aspect.block()));
        ensure(store.contains_all(&piece, head), || format!("{path} is published before all of it is in the store"))?;
        ensure(store.is_right(&piece, head), || format!("wrong bytes are published as {piece:?}"))?;
        self.check_content_head(rank, path, aspect, head)
    }

    fn check_content_head(&mut self, rank: Rank, path: &Path, aspect: Aspect, head: &FileHead) -> Check {
        let site = self.site(rank);
        let is_known = matches!(site.table.facts.get(path), Some(Fact::Attr(attr)) if *attr == head.attr);
        ensure(is_known, || format!("content of {path} does not agree with its attributes"))?;
        ensure(head.whole == (aspect == Aspect::Whole), || format!("{path} is whole by half"))?;
        ensure(!site.is_passthrough(path), || format!("content of {path}, which is passed through"))?;
        // The very version of the attributes.
        let is_true = |tree: &Tree| {
            let truth = tree.is_current(path, &head.attr).then(|| tree.open(path, aspect, 0).ok()).flatten();
            truth.is_some_and(|truth| truth.ranges == head.ranges)
        };
        ensure(self.versions_of_tree(0).any(is_true), || format!("{path} never had content {head:?}"))
    }

    /// Returns the shared file system as it is and as it was, from a version on.
    fn versions_of_tree(&self, from: usize) -> impl Iterator<Item = &Tree> {
        std::iter::once(&self.tree).chain(self.past.iter().skip(from))
    }

    /// Returns whether a fact is true in a version of the shared file system.
    fn is_true(&self, tree: &Tree, path: &Path, fact: &Fact) -> bool {
        let truth = match fact {
            Fact::Listing(..) | Fact::Unlistable(_) => tree.listing(path, 0),
            _ => tree.entry(path, 0),
        };
        match (fact, &truth) {
            (Fact::Listing(_, names), Fact::Listing(_, true_names)) if names != true_names => false,
            _ => is_same(fact, &truth),
        }
    }

    /// Checks that all nodes know of a change whose process goes on, as long as nothing has failed.
    fn check_announced(&self, path: &Path) -> Check {
        let is_undisturbed = self.is_undisturbed && self.now >= LINKED_MS;
        let is_canonical = self.truth(path, Want::ATTR | Want::NO_FOLLOW) == Outcome::Found(path.clone());
        if !is_undisturbed || !is_canonical || !self.in_scope(path) {
            return Ok(());
        }
        let unaware = self.sites.iter().position(|site| !site.is_passthrough(path));
        ensure(unaware.is_none(), || format!("rank {unaware:?} does not know that {path} changes"))
    }

    /// Checks that an answer is the only one, and that it is true.
    pub(crate) fn check_reply(&mut self, rank: Rank, waiting: &Waiting, reply: Reply) -> Check {
        let Waiting { path, want, must_succeed, block, .. } = waiting;
        let published = self.site(rank).resolve(path, *want, |p| self.in_scope(p));
        let truths = self.versions_of_tree(0).map(|tree| self.truth_in(tree, path, *want));
        let outcome = truths.into_iter().find(|truth| *truth == published);
        let outcome = outcome.unwrap_or_else(|| self.truth(path, *want));
        let is_file = matches!(&outcome, Outcome::Found(at) if matches!(self.tree.item(at), Some(Item::File { .. })));
        let is_unreadable = matches!(&outcome, Outcome::Found(at)
            if matches!(self.tree.item(at), Some(Item::File { is_readable: false, .. })) && wants_content(*want));
        let wants_block = is_file && block.is_some();
        if reply == Reply::Fallback {
            let excuse = is_unreadable || wants_block || !self.in_scope(path) || !must_succeed;
            // The reader may have noticed a change that this node is yet to hear of.
            let excuse = excuse || self.is_passthrough_elsewhere(path, *want);
            return ensure(excuse, || format!("the source file is to be used for {path} ({want:?})"));
        }
        if want.contains(Want::PASSTHROUGH) {
            return self.check_announced(path);
        }
        if published == Outcome::Passthrough {
            return Ok(());
        }
        // A process that does not find what it was promised uses the source file.
        let is_direct = |path: &Path| self.site(rank).table.direct.contains(path);
        if let (true, Some(block)) = (wants_block, block) {
            let is_stored = self.site(rank).has_block(path, *block) || self.site(rank).unstored.contains(path);
            let is_there = is_stored || is_direct(path);
            ensure(is_there, || format!("block {block} of {path} is not there"))?;
        }
        ensure(published == outcome, || format!("{path} leads to {published:?}, in truth to {outcome:?}"))?;
        if let (Outcome::Found(at), true, true) = (&outcome, is_file, wants_content(*want)) {
            let head = self.site(rank).table.resident.get(at);
            let needs_all = want.intersects(Want::WHOLE | Want::EXECUTE);
            let is_stored = head.is_some_and(|head| head.whole || !needs_all) || self.site(rank).unstored.contains(at);
            let is_in_mount = self.site(rank).table.in_mount.contains(at) && !want.contains(Want::EXECUTE);
            let is_there = is_stored || is_in_mount || is_direct(at);
            ensure(is_there, || format!("{at} is not there as {want:?}"))?;
        }
        if let (Outcome::Found(at), true) = (&outcome, want.contains(Want::LISTING)) {
            let is_bare =
                matches!(self.site(rank).table.facts.get(at), Some(Fact::Attr(attr)) if attr.kind() == Kind::Dir);
            ensure(!is_bare, || format!("{at} is not listed"))?;
        }
        Ok(())
    }

    /// Returns where a path leads in truth.
    pub(crate) fn truth(&self, path: &Path, want: Want) -> Outcome {
        self.truth_in(&self.tree, path, want)
    }

    /// Returns whether a path leads through one that some node passes through.
    fn is_passthrough_elsewhere(&self, path: &Path, want: Want) -> bool {
        let state = |at: &Path| match self.ranks().any(|(_, site)| site.is_passthrough(at)) {
            true => PathState::Passthrough,
            false => PathState::of(&self.tree.entry(at, 0)),
        };
        let follows = !want.contains(Want::NO_FOLLOW);
        resolve(path, follows, |p| self.in_scope(p), state) == Outcome::Passthrough
    }

    fn truth_in(&self, tree: &Tree, path: &Path, want: Want) -> Outcome {
        let follows = !want.contains(Want::NO_FOLLOW);
        resolve(path, follows, |p| self.in_scope(p), |at| PathState::of(&tree.entry(at, 0)))
    }
}

pub(crate) fn wants_content(want: Want) -> bool {
    want.intersects(Want::LOADABLE | Want::WHOLE | Want::EXECUTE)
}

/// Returns whether two facts are the same, but for access times, and for the times of a directory whose names
/// changed.
pub(crate) fn is_same(a: &Fact, b: &Fact) -> bool {
    match (a, b) {
        (Fact::Absent, Fact::Absent) => true,
        (Fact::Error(a), Fact::Error(b)) => a == b,
        (Fact::Link(_, a), Fact::Link(_, b)) => a == b,
        (Fact::Listing(a, _), Fact::Listing(b, _))
        | (Fact::Unlistable(a), Fact::Unlistable(b))
        | (Fact::Attr(a), Fact::Attr(b)) => version_of(a) == version_of(b),
        _ => false,
    }
}

/// Returns attributes without those that change by reading, or between nodes.
pub(crate) fn version_of(attr: &Attr) -> Attr {
    let mtime = if attr.kind() == Kind::Dir { (0, 0) } else { attr.mtime };
    Attr { atime: (0, 0), mtime, dev_minor: 0, ..*attr }
}
