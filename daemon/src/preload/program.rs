//! Fetches what a program loads. The search uses the node's facts and copies, so it does not touch the shared file
//! system.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path as FilePath, PathBuf};
use std::rc::Rc;

use headwater_abi::wire::Fact;
use headwater_abi::{Attr, Kind, Path, Want};
use headwater_closure::libraries::{Bytes, Environment, Files, Found, Names, needs};
use headwater_proto::Kinds;
use headwater_store::in_scope;
use rustix::io::Errno;

use super::asker::{Asker, QUESTIONS_MAX};
use super::plan::PreloadProgram;

/// The most links in a path, as in the kernel.
const LINKS_MAX: usize = 40;

/// Fetches a program and all that it loads.
pub(super) fn fetch(asker: Asker, program: &PreloadProgram, scope: Vec<(bool, Path)>) {
    let text = |value: &Option<String>| value.clone().map(OsString::from);
    let environment = Environment {
        cwd: PathBuf::from(&program.cwd),
        path: text(&program.path),
        library_path: text(&program.library_path),
        preload: text(&program.preload),
        tunables: text(&program.tunables),
    };
    let mut files = NodeFiles { asker, scope, announced: HashSet::new(), fetched: HashSet::new() };
    let needs = needs(FilePath::new(&program.file), &environment, &mut files);
    tracing::info!(files = needs.files.len(), directories = needs.directories.len(), "preloaded {}", program.file);
}

/// The files in the scope as the node has them, and this machine's own files.
struct NodeFiles {
    asker: Asker,
    scope: Vec<(bool, Path)>,
    /// Questions that were sent ahead.
    announced: HashSet<u64>,
    /// Files that have been counted.
    fetched: HashSet<Path>,
}

/// The target of a path.
enum Resolved {
    /// In the scope.
    Scope(Path),
    /// Among the machine's own files.
    Own(PathBuf),
}

impl NodeFiles {
    /// Resolves links until the path enters the scope.
    fn resolve(&self, path: &FilePath) -> io::Result<Resolved> {
        let mut todo: Vec<OsString> = names(path);
        let (mut at, mut links) = (PathBuf::from("/"), 0);
        while let Some(name) = todo.pop() {
            if name == ".." {
                at.pop();
                continue;
            }
            at.push(name);
            let here = Path::new(at.as_os_str().as_bytes()).ok_or(Errno::NAMETOOLONG)?;
            if in_scope(&self.scope, &here) {
                at.extend(todo.iter().rev());
                return Ok(Resolved::Scope(Path::new(at.as_os_str().as_bytes()).ok_or(Errno::NAMETOOLONG)?));
            }
            if let Ok(target) = std::fs::read_link(&at) {
                links += 1;
                if links > LINKS_MAX {
                    return Err(Errno::LOOP.into());
                }
                at.pop();
                at = if target.is_absolute() { PathBuf::from("/") } else { at };
                todo.extend(names(&target));
            }
        }
        Ok(Resolved::Own(at))
    }

    /// Requests a path of the scope. Returns where it leads, perhaps out of the scope, and its fact and copy.
    fn ask(&mut self, path: &Path, want: Want, opens: bool) -> io::Result<(Path, Option<Fact>, Option<File>)> {
        let ended = || io::Error::from(io::ErrorKind::Interrupted);
        let number = self.asker.ask(path, want, opens).ok_or_else(ended)?;
        loop {
            let answer = self.asker.answer().ok_or_else(ended)?;
            if answer.number == number {
                return answer.known.ok_or_else(|| Errno::IO.into());
            }
            self.announced.remove(&answer.number);
        }
    }

    /// Requests a path after resolving all links; `Err` with the resolved path if that is outside of the scope.
    fn find(&mut self, path: &FilePath, want: Want, opens: bool) -> io::Result<Result<Seen, PathBuf>> {
        let mut path = path.to_owned();
        for _ in 0..LINKS_MAX {
            let within = match self.resolve(&path)? {
                Resolved::Own(own) => return Ok(Err(own)),
                Resolved::Scope(within) => within,
            };
            let (at, fact, copy) = self.ask(&within, want, opens)?;
            if in_scope(&self.scope, &at) {
                return Ok(Ok(Seen { path: at, fact: fact.ok_or(Errno::NOENT)?, copy }));
            }
            path = PathBuf::from(OsStr::from_bytes(at.as_bytes()));
        }
        Err(Errno::LOOP.into())
    }

    /// Returns the content to request. A mount alone needs whole files.
    fn content(&self, bytes: Bytes) -> Want {
        let is_loadable = bytes == Bytes::Loadable && self.asker.loads_libraries;
        if is_loadable { Want::LOADABLE } else { Want::WHOLE }
    }

    /// Returns true if a file is not stored, and is read to find libraries that are.
    fn is_needed_from_source(&self, path: &Path, attr: &Attr) -> bool {
        let stored = &self.asker.stored;
        attr.kind() == Kind::File && !stored.includes(path, attr) && stored.kinds.contains(Kinds::LIBRARIES)
    }

    /// Returns true if a file is fetched in blocks, and not as a whole.
    fn comes_in_blocks(&self, fact: &Fact) -> bool {
        let max = self.asker.whole_bytes_max.unwrap_or(u64::MAX);
        fact.attr().is_some_and(|attr| attr.size > max)
    }
}

/// A path of the scope, with its fact and perhaps its copy.
struct Seen {
    path: Path,
    fact: Fact,
    copy: Option<File>,
}

impl Files for NodeFiles {
    fn names(&mut self, directory: &FilePath) -> Names {
        match self.find(directory, Want::LISTING, false) {
            Ok(Ok(Seen { fact: Fact::Listing(_, listing), .. })) => {
                Names::Listed(Rc::new(listing.iter().map(|name| OsStr::from_bytes(name.name).to_owned()).collect()))
            }
            Ok(Ok(Seen { fact: Fact::Unlistable(_), .. })) => Names::Unlisted,
            Ok(Err(own)) if own.is_dir() => Names::Unlisted,
            _ => Names::Absent,
        }
    }

    fn open(&mut self, path: &FilePath, bytes: Bytes) -> io::Result<Found> {
        if !self.asker.loads_libraries
            && let Ok(seen) = self.find(path, Want::ATTR, false)?
            && self.comes_in_blocks(&seen.fact)
        {
            return Err(Errno::FBIG.into());
        }
        let want = self.content(bytes);
        match self.find(path, want, true) {
            Ok(Ok(seen)) if self.comes_in_blocks(&seen.fact) => Err(Errno::FBIG.into()),
            Ok(Err(own)) => Ok(Found { file: File::open(&own)?, canonical: own }),
            Ok(Ok(Seen { path, fact, copy: Some(file) })) if fact.attr().is_some_and(|a| a.kind() == Kind::File) => {
                let canonical = PathBuf::from(OsStr::from_bytes(path.as_bytes()));
                if self.fetched.insert(path) {
                    let mut tally = self.asker.tally.get();
                    (tally.entries, tally.files) = (tally.entries + 1, tally.files + 1);
                }
                Ok(Found { file, canonical })
            }
            Ok(Ok(Seen { path, fact: Fact::Attr(attr), .. })) if self.is_needed_from_source(&path, &attr) => {
                let canonical = PathBuf::from(OsStr::from_bytes(path.as_bytes()));
                Ok(Found { file: File::open(&canonical)?, canonical })
            }
            Ok(Ok(_)) => Err(Errno::NOENT.into()),
            Err(error) => {
                if error.raw_os_error() == Some(Errno::IO.raw_os_error()) {
                    let mut tally = self.asker.tally.get();
                    (tally.entries, tally.failed) = (tally.entries + 1, tally.failed + 1);
                }
                Err(error)
            }
        }
    }

    fn is_there(&mut self, path: &FilePath) -> bool {
        match self.find(path, Want::ATTR, false) {
            Ok(Ok(seen)) => seen.fact.attr().is_some(),
            Ok(Err(own)) => own.exists(),
            Err(_) => false,
        }
    }

    fn matters(&self, path: &FilePath) -> bool {
        matches!(self.resolve(path), Ok(Resolved::Scope(_)))
    }

    fn soon(&mut self, path: &FilePath) {
        // With a mount alone the size decides, which is not known without waiting.
        if self.announced.len() >= QUESTIONS_MAX || !self.asker.loads_libraries {
            return;
        }
        if let Ok(Resolved::Scope(path)) = self.resolve(path)
            && let Some(number) = self.asker.ask(&path, Want::LOADABLE, false)
        {
            self.announced.insert(number);
        }
    }
}

/// Returns a path's components in reverse order.
fn names(path: &FilePath) -> Vec<OsString> {
    let names = path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    });
    let mut names: Vec<OsString> = names.collect();
    names.reverse();
    names
}
