//! Path walks: from a program's path to the next fact that is missing, by the kernel's rules.

use alloc::vec::Vec;

use headwater_abi::listing::d_type;
use headwater_abi::path::PATH_BYTES_MAX;
use headwater_abi::wire::{Aspect, Fact};
use headwater_abi::{Kind, Path, Want};

use crate::config::kinds::Stored;
use crate::entries::{Entries, Lookup};
use crate::passthrough::PassthroughPaths;
use crate::scope::Scope;

/// Components of most paths.
const COMPONENTS_USUAL: usize = 16;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Everything is known that the client needs.
    Done,
    /// This has to be known first.
    Missing(Path, Aspect),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Walked {
    pub(crate) step: Step,
    /// The path, with its links resolved as far as they are known.
    pub(crate) path: Path,
}

/// The state that walks read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Map<'a> {
    pub(crate) entries: &'a Entries,
    pub(crate) scope: &'a Scope,
    pub(crate) passthrough: &'a PassthroughPaths,
    pub(crate) links_followed_max: usize,
    pub(crate) stored: &'a Stored,
}

/// Returns the content that a want includes.
pub(crate) fn content_wanted(want: Want) -> Option<Aspect> {
    if want.intersects(Want::WHOLE | Want::EXECUTE) {
        Some(Aspect::Whole)
    } else if want.contains(Want::LOADABLE) {
        Some(Aspect::Loadable)
    } else {
        None
    }
}

/// A walk in progress.
struct Walk<'a> {
    /// The current position: a canonical path.
    at: Vec<u8>,
    /// The components behind it, the next one last.
    todo: Vec<&'a [u8]>,
    links: usize,
}

impl<'a> Map<'a> {
    pub(crate) fn walk(&self, path: &'a Path, want: Want) -> Walked {
        let Some((at, depth)) = self.scope.start(path.as_bytes()) else {
            return Walked { step: Step::Done, path: path.clone() };
        };
        let mut todo: Vec<&[u8]> = Vec::with_capacity(COMPONENTS_USUAL);
        todo.extend(path.components().rev());
        todo.truncate(todo.len() - depth);
        let mut bytes = Vec::with_capacity(path.as_bytes().len());
        bytes.extend_from_slice(at);
        let mut walk = Walk { at: bytes, todo, links: 0 };
        loop {
            if let Some(step) = self.advance(&mut walk, path, want) {
                return Walked { step, path: walk.cleaned(path) };
            }
        }
    }

    /// Advances by one component. Returns a step if the walk ends.
    fn advance(&self, walk: &mut Walk<'a>, given: &Path, want: Want) -> Option<Step> {
        let last = walk.todo.is_empty();
        if !self.scope.contains_bytes(&walk.at) {
            return self.jump(walk);
        }
        if !self.passthrough.is_empty() && self.passthrough.covers(&walk.path(given)) {
            return Some(Step::Done);
        }
        match self.entries.get_at(&walk.at).map(|entry| &entry.fact) {
            None => Some(self.unknown(walk.path(given), last, want)),
            Some(Fact::Link(_, target)) if !last || !want.contains(Want::NO_FOLLOW) => self.follow(walk, target),
            Some(fact) if last => Some(self.leaf(walk.path(given), fact, want)),
            Some(Fact::Attr(attr)) if attr.kind() == Kind::Dir => {
                Some(Step::Missing(walk.path(given), Aspect::Listing))
            }
            Some(Fact::Listing(..) | Fact::Unlistable(_)) => walk.next(),
            Some(_) => Some(Step::Done),
        }
    }

    fn follow(&self, walk: &mut Walk<'a>, target: &'a [u8]) -> Option<Step> {
        walk.links += 1;
        if walk.links > self.links_followed_max {
            return Some(Step::Done);
        }
        walk.todo.extend(components(target).rev());
        if target.first() == Some(&b'/') {
            walk.at.truncate(1);
            return self.jump(walk);
        }
        walk.up();
        walk.next()
    }

    /// Continues at the next directory of the scope on the remaining path; done if there is none.
    fn jump(&self, walk: &mut Walk<'a>) -> Option<Step> {
        let Some(literal) = walk.literal() else { return Some(Step::Done) };
        let Some((start, depth)) = self.scope.start(&literal) else { return Some(Step::Done) };
        // It lies below the current position, which is outside of the scope or the root directory.
        let passed = components(&walk.at).count();
        walk.todo.truncate(walk.todo.len() - (depth - passed));
        walk.at = start.to_vec();
        None
    }

    /// Returns what to request about an unknown path.
    fn unknown(&self, at: Path, last: bool, want: Want) -> Step {
        let aspect = match self.entries.lookup(&at) {
            Lookup::Missing => return Step::Done,
            Lookup::Unlistable => Aspect::Entry,
            Lookup::Unknown => Aspect::Listing,
            Lookup::Found(name) => match (name.d_type, content_wanted(want)) {
                (d_type::DIR, _) => Aspect::Listing,
                (d_type::FILE, Some(content)) if last && self.stored.includes_by_name(&at) => content,
                _ => Aspect::Entry,
            },
        };
        Step::Missing(at, aspect)
    }

    /// Returns what is missing about the walk's target.
    fn leaf(&self, at: Path, fact: &Fact, want: Want) -> Step {
        let aspect = match fact {
            Fact::Attr(attr) if attr.kind() == Kind::Dir && want.contains(Want::LISTING) => Some(Aspect::Listing),
            Fact::Attr(attr) if attr.kind() == Kind::File && self.stored.includes(&at, attr) => content_wanted(want),
            _ => None,
        };
        match aspect {
            Some(aspect) if !self.entries.knows(&at, aspect) => Step::Missing(at, aspect),
            _ => Step::Done,
        }
    }
}

fn components(text: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    text.split(|&b| b == b'/').filter(|c| !c.is_empty() && *c != b".")
}

impl Walk<'_> {
    /// Takes the next component. Done if the path gets too long.
    fn next(&mut self) -> Option<Step> {
        while let Some(name) = self.todo.pop() {
            if name == b".." {
                self.up();
                continue;
            }
            return if push(&mut self.at, name) { None } else { Some(Step::Done) };
        }
        None
    }

    /// Moves to the directory above; that of the root directory is itself.
    fn up(&mut self) {
        let slash = self.at.iter().rposition(|&b| b == b'/').unwrap_or(0);
        self.at.truncate(slash.max(1));
    }

    /// Returns the current position; its bytes are shared with the given path if they are the same.
    fn path(&self, given: &Path) -> Path {
        match self.at == given.as_bytes() {
            true => given.clone(),
            false => Path::new(&self.at).expect("a walk passes absolute paths"),
        }
    }

    /// Returns the path with what remains, including each `..`; `None` if it is too long.
    fn literal(&self) -> Option<Vec<u8>> {
        let mut literal = self.at.clone();
        self.todo.iter().rev().all(|name| push(&mut literal, name)).then_some(literal)
    }

    /// Returns the path with what remains, `..` resolved as text; the root directory if that is too long.
    fn cleaned(mut self, given: &Path) -> Path {
        while let Some(name) = self.todo.pop() {
            match name {
                b".." => self.up(),
                _ if !push(&mut self.at, name) => self.at.truncate(1),
                _ => {}
            }
        }
        self.path(given)
    }
}

/// Appends a component to a path's bytes. False, and no change, if the result would be too long.
fn push(path: &mut Vec<u8>, name: &[u8]) -> bool {
    let slash = usize::from(path.len() > 1);
    if path.len() + slash + name.len() > PATH_BYTES_MAX {
        return false;
    }
    path.extend_from_slice(&b"/"[..slash]);
    path.extend_from_slice(name);
    true
}
