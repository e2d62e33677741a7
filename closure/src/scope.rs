//! The scope: the directories that a session serves.
//!
//! Software, not data: a program may write a file on one node and read it on another. So only directories of
//! code on a network file system are taken, and those that the user names. The working directory, the home
//! directory as a whole and scratch are never taken unless they are named.
//!
//! The program that a wrapper (`env`, `bash -c`, a launcher) starts is unknown; only `#!` lines are followed.

mod entry;
mod forms;
mod network;
mod protected;
mod refused;
mod sources;
mod world;

use std::fmt;
use std::path::{Path, PathBuf};

pub use self::entry::Entry;
pub use self::network::network_file_system;
pub use self::protected::belongs_to_system;
pub use self::refused::{Cause, Refused};
pub use self::sources::search_variables;
pub use self::world::World;

use self::forms::{clean, forms};
use self::protected::Protected;
use self::sources::{Candidate, Kind};

/// The option by which users name directories to be served, as a reason.
const SHARED: &str = "--shared";
/// The option by which users name directories to be left out, as a reason.
pub const EXCLUDE: &str = "--exclude";

/// Directories of a prefix that contain software, for when the whole prefix can't be taken.
const SOFTWARE: [&str; 5] = ["bin", "lib", "lib64", "libexec", "share"];

/// The most entries that are found: processes compare each path with all of them.
const ENTRIES_MAX: usize = 200;

/// Directories that the user names.
#[derive(Clone, Copy, Debug, Default)]
pub struct Named<'a> {
    /// Directories to be taken on any file system.
    pub shared: &'a [PathBuf],
    /// Directories to be left out.
    pub exclude: &'a [PathBuf],
}

/// The directories that a session serves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    /// Its entries, the ones that the user named first.
    pub entries: Vec<Entry>,
    /// Directories that were found and not taken.
    pub refused: Vec<Refused>,
}

impl Scope {
    /// Finds the scope of `program`, which is an absolute path that may have links.
    pub fn discover(program: &Path, named: Named<'_>, world: World<'_>) -> Scope {
        let mut scope = Scope::default();
        let mut excluded = Vec::new();
        for directory in named.exclude {
            excluded.extend(scope.forms_of_named(&world.cwd.join(directory), EXCLUDE));
        }
        for path in &excluded {
            scope.add(false, path.clone(), EXCLUDE);
        }
        for directory in named.shared {
            scope.take_named(&world.cwd.join(directory));
        }
        let protected = Protected::new(world);
        for candidate in sources::candidates(program, world) {
            scope.consider(candidate, &protected, &excluded, world);
        }
        scope.leave_out_temporary(named, world);
        for path in protected.cut_out(scope.entries.iter().filter(|e| e.included)) {
            scope.add(false, path, "the working directory");
        }
        scope.simplify();
        scope
    }

    /// Returns the entries in the daemon's form; those that are no UTF-8 are left out.
    pub fn pairs(&self) -> Vec<(bool, String)> {
        let pair = |e: &Entry| Some((e.included, e.path.to_str()?.to_owned()));
        self.entries.iter().filter_map(pair).collect()
    }

    /// Makes the scope of these entries, without reasons.
    pub fn of_pairs(pairs: Vec<(bool, String)>) -> Scope {
        let entry = |(included, path): (bool, String)| Entry { included, path: path.into(), reason: String::new() };
        Scope { entries: pairs.into_iter().map(entry).collect(), refused: Vec::new() }
    }

    /// Excludes a directory, if it is below an included entry.
    pub fn cut_out(&mut self, directory: &Path, reason: &str) {
        self.entries.retain(|e| !e.path.starts_with(directory));
        if self.includes(directory) {
            self.add(false, directory.to_owned(), reason);
        }
    }

    /// Returns whether a path is in the scope.
    pub fn includes(&self, path: &Path) -> bool {
        let containing = self.entries.iter().filter(|e| path.starts_with(&e.path));
        containing.max_by_key(|e| e.path.components().count()).is_some_and(|e| e.included)
    }

    /// Excludes temporary directories: a launcher outside of the session shares memory with its processes by
    /// files there, which are not read twice.
    fn leave_out_temporary(&mut self, named: Named<'_>, world: World<'_>) {
        let Some(directory) = (world.variable)("TMPDIR").filter(|directory| !directory.is_empty()) else { return };
        for form in forms(&world.cwd.join(directory)) {
            if !named.shared.iter().any(|shared| forms(&world.cwd.join(shared)).contains(&form)) && self.includes(&form)
            {
                self.add(false, form, "TMPDIR");
            }
        }
    }

    /// Returns the names of a directory that the user names by `option`; none, with the cause, if it is not usable.
    fn forms_of_named(&mut self, directory: &Path, option: &str) -> Vec<PathBuf> {
        let forms = forms(directory);
        if forms.is_empty() {
            let (path, cause) = (directory.to_owned(), Cause::of_named(directory));
            self.refused.push(Refused { path, reason: option.to_owned(), cause });
        }
        forms
    }

    fn take_named(&mut self, directory: &Path) {
        for path in self.forms_of_named(directory, SHARED) {
            for pseudo in protected::PSEUDO.map(Path::new).into_iter().filter(|p| p.starts_with(&path) && **p != path) {
                self.add(false, pseudo.to_owned(), "not files");
            }
            self.add(true, path, SHARED);
        }
    }

    fn consider(&mut self, candidate: Candidate, protected: &Protected, excluded: &[PathBuf], world: World<'_>) {
        if candidate.kind == Kind::Usual && self.includes(&clean(&candidate.path)) {
            return;
        }
        let forms = forms(&candidate.path);
        let Some(canonical) = forms.last() else { return };
        if self.refused.iter().any(|r| r.path == candidate.path) {
            return;
        }
        let refuse = |cause| Refused { path: candidate.path.clone(), reason: candidate.reason.clone(), cause };
        if forms.iter().any(|form| excluded.iter().any(|e| form.starts_with(e))) {
            return self.refused.push(refuse(Cause::Excluded));
        }
        if forms.iter().all(|form| self.includes(form)) {
            return;
        }
        let Some(network) = (world.network)(canonical) else {
            return self.refused.push(refuse(Cause::Local));
        };
        match protected.judge(&forms) {
            None if self.entries.len() + forms.len() > ENTRIES_MAX => {
                self.refused.push(refuse(Cause::TooMany(ENTRIES_MAX)));
            }
            None => {
                for path in forms {
                    self.add(true, path, &format!("{} ({network})", candidate.reason));
                }
            }
            Some(_) if candidate.kind == Kind::Prefix => {
                for name in SOFTWARE {
                    let path = candidate.path.join(name);
                    let reason = format!("{name} of the {}", candidate.reason);
                    self.consider(Candidate { path, kind: Kind::Usual, reason }, protected, excluded, world);
                }
            }
            Some(what) => self.refused.push(refuse(Cause::Protected(what))),
        }
    }

    /// Removes entries that their parent entries make redundant.
    fn simplify(&mut self) {
        for at in (0..self.entries.len()).rev() {
            let entry = self.entries.remove(at);
            if self.includes(&entry.path) != entry.included {
                self.entries.insert(at, entry);
            }
        }
    }

    fn add(&mut self, included: bool, path: PathBuf, reason: &str) {
        if !self.entries.iter().any(|e| e.path == path) {
            self.entries.push(Entry { included, path, reason: reason.to_owned() });
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.entries.iter().any(|e| e.included) {
            writeln!(f, "Nothing is served: no directory of the program lies on a network file system.")?;
            writeln!(f, "Name directories with --shared DIR.")?;
        }
        let width = self.entries.iter().map(|e| e.path.as_os_str().len()).max().unwrap_or(0).min(60);
        for entry in &self.entries {
            let sign = if entry.included { '+' } else { '-' };
            writeln!(f, "{sign} {:width$}  {}", entry.path.display().to_string(), entry.reason)?;
        }
        for refused in &self.refused {
            let what = if refused.reason == EXCLUDE { "left out" } else { "served" };
            let Refused { path, reason, cause } = refused;
            writeln!(f, "  {}: {reason}; not {what}, because {cause}", path.display())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
