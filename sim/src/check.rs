//! What must hold of everything that a node puts out.

use headwater_abi::wire::{Aspect, Fact, FileHead};
use headwater_abi::{Attr, Kind, Path, Want};
use headwater_proto::{Publication, Rank, Reply};

use crate::reader::block_of;
use crate::site::Waiting;
use crate::tree::{Item, Outcome, Tree, resolve};
use crate::world::World;

/// An unmet expectation, without its place and time.
pub(crate) type Check = Result<(), String>;

pub(crate) fn ensure(holds: bool, what: impl FnOnce() -> String) -> Check {
    if holds { Ok(()) } else { Err(what()) }
}

impl World {
    /// What becomes visible is true, the same on all nodes, and never changes.
    pub(crate) fn check_publication(&mut self, rank: Rank, publication: &Publication) -> Check {
        match publication {
            Publication::Fact { path, fact } => self.check_fact(rank, path, fact),
            Publication::Content { path, head, aspect, .. } => self.check_content(rank, path, *aspect, head),
            Publication::Block { path, block, head, .. } => self.check_content(rank, path, Aspect::Block(*block), head),
            Publication::HardLink { path, target, aspect, head } => {
                ensure(path != target, || format!("{path} links to itself"))?;
                ensure(self.site(rank).store.contains_all(&(target.clone(), None), head), || {
                    format!("{path} links to {target}, which is not complete")
                })?;
                self.check_content_head(rank, path, *aspect, head)
            }
            Publication::Live { path, .. } => ensure(self.in_scope(path), || format!("{path} is live out of scope")),
        }
    }

    fn check_fact(&mut self, rank: Rank, path: &Path, fact: &Fact) -> Check {
        ensure(self.in_scope(path), || format!("{path} is published out of scope"))?;
        ensure(!self.site(rank).is_live(path), || format!("a fact about {path}, which is live"))?;
        let truth = |tree: &Tree| match fact {
            Fact::Listing(..) | Fact::Unlistable(_) => tree.listing(path, 0),
            _ => tree.entry(path, 0),
        };
        let is_true = self.versions_of_tree().any(|tree| timeless(fact) == timeless(&truth(tree)));
        ensure(is_true, || format!("{path} is {:?}, not {fact:?}", truth(&self.tree)))?;
        if let Some(before) = self.site(rank).facts.get(path) {
            let grows = matches!((before, fact), (Fact::Attr(old), Fact::Listing(new, _) | Fact::Unlistable(new)) if old == new);
            ensure(grows, || format!("{path} changes from {before:?} to {fact:?}"))?;
        }
        if let Some(attr) = attr_of(fact) {
            // What was forgotten and read again was looked at again.
            let is_first = self.limits.facts_max == usize::MAX;
            let attr = &Attr { atime: if is_first { attr.atime } else { (0, 0) }, ..*attr };
            let version = *self.versions.entry(path.clone()).or_insert(*attr);
            ensure(version == *attr, || format!("{path} has two versions: {version:?} and {attr:?}"))?;
        }
        Ok(())
    }

    fn check_content(&mut self, rank: Rank, path: &Path, aspect: Aspect, head: &FileHead) -> Check {
        ensure(self.site(rank).store.contains_all(&(path.clone(), block_of(aspect)), head), || {
            format!("{path} is published before all of it is in the store")
        })?;
        self.check_content_head(rank, path, aspect, head)
    }

    fn check_content_head(&mut self, rank: Rank, path: &Path, aspect: Aspect, head: &FileHead) -> Check {
        let site = self.site(rank);
        let is_known = matches!(site.facts.get(path), Some(Fact::Attr(attr)) if *attr == head.attr);
        ensure(is_known, || format!("content of {path} does not agree with its attributes"))?;
        ensure(head.whole == (aspect == Aspect::Whole), || format!("{path} is whole by half"))?;
        ensure(!site.is_live(path), || format!("content of {path}, which is live"))?;
        // The very version that the attributes are of.
        let is_true = |tree: &Tree| {
            let truth = tree.is_current(path, &head.attr).then(|| tree.open(path, aspect, 0).ok()).flatten();
            truth.is_some_and(|truth| truth.ranges == head.ranges)
        };
        ensure(self.versions_of_tree().any(is_true), || format!("{path} never had content {head:?}"))
    }

    /// The shared file system as it is and as it was.
    fn versions_of_tree(&self) -> impl Iterator<Item = &Tree> {
        std::iter::once(&self.tree).chain(&self.past)
    }

    /// Whether what can be said of a path has changed.
    pub(crate) fn has_changed(&self, path: &Path) -> bool {
        let differs = |tree: &Tree| {
            timeless(&tree.entry(path, 0)) != timeless(&self.tree.entry(path, 0))
                || timeless(&tree.listing(path, 0)) != timeless(&self.tree.listing(path, 0))
        };
        self.past.iter().any(differs)
    }

    /// An answer is the only one, and what it says holds.
    pub(crate) fn check_reply(&mut self, rank: Rank, waiting: &Waiting, reply: Reply) -> Check {
        let Waiting { path, want, must_succeed, block } = waiting;
        let published = self.site(rank).resolve(path, *want, |p| self.in_scope(p));
        let truths = self.versions_of_tree().map(|tree| self.truth_in(tree, path, *want));
        let outcome = truths.into_iter().find(|truth| *truth == published);
        let outcome = outcome.unwrap_or_else(|| self.truth(path, *want));
        let is_file = matches!(&outcome, Outcome::Found(at) if matches!(self.tree.item(at), Some(Item::File { .. })));
        let is_unreadable = matches!(&outcome, Outcome::Found(at)
            if matches!(self.tree.item(at), Some(Item::File { is_readable: false, .. })) && wants_content(*want));
        let wants_block = is_file && block.is_some();
        if reply == Reply::Fallback {
            let excuse = is_unreadable || wants_block || !self.in_scope(path) || !must_succeed;
            return ensure(excuse, || format!("the original is to be used for {path} ({want:?})"));
        }
        if want.contains(Want::LIVE) {
            return Ok(());
        }
        if published == Outcome::Live {
            return Ok(());
        }
        if let (true, Some(block)) = (wants_block, block) {
            ensure(self.site(rank).has_block(path, *block), || format!("block {block} of {path} is not there"))?;
        }
        ensure(published == outcome, || format!("{path} leads to {published:?}, in truth to {outcome:?}"))?;
        if let (Outcome::Found(at), true, true) = (&outcome, is_file, wants_content(*want)) {
            let head = self.site(rank).resident.get(at);
            let needs_all = want.intersects(Want::WHOLE | Want::EXECUTE);
            ensure(head.is_some_and(|head| head.whole || !needs_all), || format!("{at} is not there as {want:?}"))?;
        }
        if let (Outcome::Found(at), true) = (&outcome, want.contains(Want::LISTING)) {
            let is_bare = matches!(self.site(rank).facts.get(at), Some(Fact::Attr(attr)) if attr.kind() == Kind::Dir);
            ensure(!is_bare, || format!("{at} is not listed"))?;
        }
        Ok(())
    }

    /// Where a path leads in truth.
    pub(crate) fn truth(&self, path: &Path, want: Want) -> Outcome {
        self.truth_in(&self.tree, path, want)
    }

    fn truth_in(&self, tree: &Tree, path: &Path, want: Want) -> Outcome {
        let follows = !want.contains(Want::NO_FOLLOW);
        resolve(
            path,
            follows,
            |p| self.in_scope(p),
            |at| match tree.entry(at, 0) {
                Fact::Absent => crate::tree::Look::Absent,
                Fact::Error(_) => crate::tree::Look::Error,
                Fact::Link(_, target) => crate::tree::Look::Link(target.to_vec()),
                Fact::Attr(attr) if attr.kind() == Kind::Dir => crate::tree::Look::Dir,
                _ => crate::tree::Look::Other,
            },
        )
    }

    /// A read is the root's, in the scope, for a name that may exist, and not a repetition.
    pub(crate) fn check_read(&mut self, rank: Rank, path: &Path, aspect: Aspect) -> Check {
        ensure(rank == Rank::ROOT, || format!("{path} is read by another than the root"))?;
        ensure(self.in_scope(path), || format!("{path} is read out of scope"))?;
        // A block may be read though the whole is there under another name, in another file of the store.
        let is_content = matches!(aspect, Aspect::Loadable | Aspect::Whole);
        let site = self.site_mut(rank);
        if let Some(Fact::Listing(_, listing)) = path.parent().and_then(|p| site.facts.get(&p)) {
            ensure(listing.find(path.name()).is_some(), || format!("{path} is read though its directory lacks it"))?;
        }
        let count = site.reads.count(path, aspect);
        ensure(count == 1, || format!("{path} is read {count} times as {aspect:?}"))?;
        let is_here = site.resident.contains_key(path) || site.blocks.contains_key(path);
        if is_content && !is_here {
            let twin = self.twin(rank, path);
            ensure(twin.is_none(), || format!("{path} is read though it is there as {twin:?}"))?;
        }
        Ok(())
    }

    /// Another name under which the file is complete, if a listing could tell.
    fn twin(&self, rank: Rank, path: &Path) -> Option<Path> {
        let ino = |path: &Path| match self.tree.item(path) {
            Some(Item::File { attr, .. }) => Some(attr.ino),
            _ => None,
        };
        let wanted = ino(path).filter(|ino| !self.site(rank).inodes_in_blocks.contains(ino))?;
        let listing = self.site(rank).facts.get(&path.parent()?);
        listing.filter(|fact| matches!(fact, Fact::Listing(..)))?;
        // Names may be known of versions of the file that differ.
        if self.has_changed(path) {
            return None;
        }
        let is_twin = |(other, head): &(&Path, &FileHead)| {
            let is_evicted = self.site(rank).refused.contains(other);
            !is_evicted
                && *other != path
                && ino(other) == Some(wanted)
                && head.attr.nlink > 1
                && self.tree.is_current(other, &head.attr)
        };
        self.site(rank).resident.iter().find(is_twin).map(|(other, _)| other.clone())
    }
}

pub(crate) fn wants_content(want: Want) -> bool {
    want.intersects(Want::LOADABLE | Want::WHOLE | Want::EXECUTE)
}

fn attr_of(fact: &Fact) -> Option<&Attr> {
    match fact {
        Fact::Absent | Fact::Error(_) => None,
        Fact::Attr(attr) | Fact::Link(attr, _) | Fact::Listing(attr, _) | Fact::Unlistable(attr) => Some(attr),
    }
}

/// A fact without the traces of looking.
fn timeless(fact: &Fact) -> Fact {
    let mut fact = fact.clone();
    if let Fact::Attr(attr) | Fact::Link(attr, _) | Fact::Listing(attr, _) | Fact::Unlistable(attr) = &mut fact {
        attr.atime = (0, 0);
    }
    fact
}
