//! From a path as a program gives it to the next piece of knowledge that is missing, along the same
//! way that the kernel would take.

use alloc::vec::Vec;

use headwater_abi::listing::d_type;
use headwater_abi::wire::{Aspect, Fact};
use headwater_abi::{Kind, Path, Want};

use crate::entries::{Entries, Lookup};
use crate::live::Live;
use crate::scope::Scope;

/// How far a walk came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Everything that can be said is known.
    Done,
    /// This has to be known first.
    Missing(Path, Aspect),
}

/// A walk's end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Walked {
    pub(crate) step: Step,
    /// The path with its links resolved as far as they are known.
    pub(crate) path: Path,
}

/// What a walk goes by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Map<'a> {
    pub(crate) entries: &'a Entries,
    pub(crate) scope: &'a Scope,
    pub(crate) live: &'a Live,
    pub(crate) links_followed_max: usize,
}

/// Content that a want asks for.
pub(crate) fn content_wanted(want: Want) -> Option<Aspect> {
    if want.intersects(Want::WHOLE | Want::EXECUTE) {
        Some(Aspect::Whole)
    } else if want.contains(Want::LOADABLE) {
        Some(Aspect::Loadable)
    } else {
        None
    }
}

/// A walk under way.
struct Way {
    /// What is looked at: a canonical path.
    at: Path,
    /// The components behind it, the next one last.
    todo: Vec<Vec<u8>>,
    links: usize,
}

impl Map<'_> {
    /// Walks to `path`.
    pub(crate) fn walk(&self, path: &Path, want: Want) -> Walked {
        let Some((at, todo)) = self.enter(path) else {
            return Walked { step: Step::Done, path: path.clone() };
        };
        let mut way = Way { at, todo, links: 0 };
        loop {
            if let Some(step) = self.advance(&mut way, want) {
                return Walked { step, path: way.cleaned() };
            }
        }
    }

    /// One component further; a step if that is as far as it goes.
    fn advance(&self, way: &mut Way, want: Want) -> Option<Step> {
        let last = way.todo.is_empty();
        if !self.scope.contains(&way.at) {
            return self.jump(way);
        }
        if self.live.covers(&way.at) {
            return Some(Step::Done);
        }
        match self.entries.fact(&way.at) {
            None => Some(self.unknown(&way.at, last, want)),
            Some(Fact::Link(_, target)) if !last || !want.contains(Want::NO_FOLLOW) => self.follow(way, target),
            Some(fact) if last => Some(self.leaf(&way.at, fact, want)),
            Some(Fact::Attr(attr)) if attr.kind() == Kind::Dir => Some(Step::Missing(way.at.clone(), Aspect::Listing)),
            Some(Fact::Listing(..) | Fact::Unlistable(_)) => way.next(way.at.clone()),
            Some(_) => Some(Step::Done),
        }
    }

    fn follow(&self, way: &mut Way, target: &[u8]) -> Option<Step> {
        way.links += 1;
        if way.links > self.links_followed_max {
            return Some(Step::Done);
        }
        let base = way.at.parent().unwrap_or_else(Path::root);
        way.todo.extend(components(target).rev().map(<[u8]>::to_vec));
        if target.first() == Some(&b'/') {
            way.at = Path::root();
            return self.jump(way);
        }
        way.next(base)
    }

    /// Starts again where the scope next holds what remains; done if it does not.
    fn jump(&self, way: &mut Way) -> Option<Step> {
        match way.literal().and_then(|path| self.enter(&path)) {
            Some((at, todo)) => {
                (way.at, way.todo) = (at, todo);
                None
            }
            None => Some(Step::Done),
        }
    }

    /// Where the walk to `path` starts, and the components that remain.
    fn enter(&self, path: &Path) -> Option<(Path, Vec<Vec<u8>>)> {
        let (start, depth) = self.scope.start(path)?;
        let mut todo: Vec<_> = path.components().skip(depth).map(<[u8]>::to_vec).collect();
        todo.reverse();
        Some((start, todo))
    }

    /// What to ask about a path of which nothing is known.
    fn unknown(&self, at: &Path, last: bool, want: Want) -> Step {
        let aspect = match self.entries.lookup(at) {
            Lookup::Missing => return Step::Done,
            Lookup::Unlistable => Aspect::Entry,
            Lookup::Unknown => Aspect::Listing,
            Lookup::Found(name) => match (name.d_type, content_wanted(want)) {
                (d_type::DIR, _) => Aspect::Listing,
                (d_type::FILE, Some(content)) if last => content,
                _ => Aspect::Entry,
            },
        };
        Step::Missing(at.clone(), aspect)
    }

    /// What is missing about the path that the walk leads to.
    fn leaf(&self, at: &Path, fact: &Fact, want: Want) -> Step {
        let aspect = match fact {
            Fact::Attr(attr) if attr.kind() == Kind::Dir && want.contains(Want::LISTING) => Some(Aspect::Listing),
            Fact::Attr(attr) if attr.kind() == Kind::File => content_wanted(want),
            _ => None,
        };
        match aspect {
            Some(aspect) if !self.entries.knows(at, aspect) => Step::Missing(at.clone(), aspect),
            _ => Step::Done,
        }
    }
}

fn components(text: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    text.split(|&b| b == b'/').filter(|c| !c.is_empty() && *c != b".")
}

impl Way {
    /// Takes the next component from the directory `base`. Done if the path gets too long.
    fn next(&mut self, mut base: Path) -> Option<Step> {
        while let Some(name) = self.todo.pop() {
            if name == b".." {
                base = base.parent().unwrap_or_else(Path::root);
                continue;
            }
            let Some(at) = base.join(&name) else { return Some(Step::Done) };
            self.at = at;
            return None;
        }
        self.at = base;
        None
    }

    /// The path with what remains, `..` kept; `None` if it is too long.
    fn literal(&self) -> Option<Path> {
        self.todo.iter().rev().try_fold(self.at.clone(), |path, name| path.join(name))
    }

    /// The path with what remains, `..` taken as text.
    fn cleaned(&self) -> Path {
        self.todo.iter().rev().fold(self.at.clone(), |path, name| {
            if name == b".." { path.parent() } else { path.join(name) }.unwrap_or_else(Path::root)
        })
    }
}
