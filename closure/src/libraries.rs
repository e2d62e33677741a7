//! All libraries of a program, as glibc's loader finds them, without running the program.
//!
//! The order is the loader's: breadth first, each object's needs in the order of its dynamic section
//! (`_dl_map_object_deps` in glibc's `elf/dl-deps.c`). A search visits the locations of `search`, before each
//! directory its subdirectories for hardware capabilities, and skips objects of another class or machine.
//!
//! A caller implements [`Files`], through which all files are read. Libraries that a program loads later
//! (`dlopen`) can't be found.

mod cache;
mod loader;
mod search;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use object::read::ReadCache;

pub use loader::Loader;
pub(crate) use search::expand;

use self::cache::Cache;
use self::search::{Paths, SearchLocation};
use crate::elf::dynamic::{self, Dynamic};
use crate::elf::is_native;
use crate::program;

/// `#!` lines that are followed, as the kernel does.
const SCRIPTS_MAX: usize = 4;
/// Bytes of a file's start that are read: an ELF header, or a `#!` line.
const START_BYTES: usize = 4096;
/// The most objects of one program.
const OBJECTS_MAX: usize = 16_384;
/// The longest cache that is read, in bytes.
const CACHE_BYTES_MAX: u64 = 64 << 20;
/// What the kernel loads into every process.
const VDSO: &[u8] = b"linux-vdso.so.1";

/// Which bytes of a file are needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bytes {
    /// All: it is executed, or read by an interpreter.
    Whole,
    /// Those that a loader maps.
    Loadable,
}

/// A directory's names.
#[derive(Clone, Debug)]
pub enum Names {
    /// There is no such directory.
    Absent,
    /// The names, which are complete.
    Listed(Rc<HashSet<OsString>>),
    /// The names are unknown and have to be probed.
    Unlisted,
}

/// A file that was found.
#[derive(Debug)]
pub struct Found {
    /// The file, or a copy of it.
    pub file: File,
    /// Its path without links.
    pub canonical: PathBuf,
}

/// The files in which a program's needs are found. Paths are absolute, in the loader's spelling.
pub trait Files {
    /// Returns the names of a directory.
    fn names(&mut self, directory: &Path) -> Names;
    /// Opens a file whose `bytes` are needed.
    ///
    /// # Errors
    /// Those of `open`.
    fn open(&mut self, path: &Path, bytes: Bytes) -> io::Result<Found>;
    /// Returns whether this path exists, in a directory without a listing.
    fn is_there(&mut self, path: &Path) -> bool;
    /// Announces that a file will be opened soon, if it exists: it may be read ahead.
    fn soon(&mut self, path: &Path);
    /// Returns whether this path matters. If neither a program nor anything that it names matters, its
    /// libraries are not searched for.
    fn matters(&self, _path: &Path) -> bool {
        true
    }
}

/// The part of a process's environment that its loading depends on.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    /// The working directory, absolute.
    pub cwd: PathBuf,
    /// `PATH`: the directories of interpreters that a script names without a directory.
    pub path: Option<OsString>,
    /// `LD_LIBRARY_PATH`.
    pub library_path: Option<OsString>,
    /// `LD_PRELOAD`.
    pub preload: Option<OsString>,
    /// `GLIBC_TUNABLES`.
    pub tunables: Option<OsString>,
}

/// The files that a program's start needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// Files, in the order of need: the program, its interpreter, its libraries; behind a script its
    /// interpreter.
    pub files: Vec<(PathBuf, Bytes)>,
    /// Directories that were searched, in that order.
    pub directories: Vec<PathBuf>,
    /// Names of libraries that were found nowhere.
    pub absent: Vec<OsString>,
}

/// Finds the needs of `program`, an absolute path.
pub fn needs(program: &Path, environment: &Environment, files: &mut impl Files) -> Needs {
    let mut analysis = Analysis { environment, files, needs: Needs::default(), names: HashMap::new() };
    analysis.program(program, SCRIPTS_MAX);
    analysis.needs
}

struct Analysis<'a, F> {
    environment: &'a Environment,
    files: &'a mut F,
    needs: Needs,
    /// Directories that were searched.
    names: HashMap<PathBuf, Names>,
}

struct Object {
    /// The names under which it was loaded.
    names: Vec<Vec<u8>>,
    /// Its device and inode.
    id: Option<(u64, u64)>,
    needed: Vec<Vec<u8>>,
    origin: PathBuf,
    paths: Paths,
    /// The object whose need loaded it.
    loader: Option<usize>,
}

/// A program while its libraries are searched for.
struct Program {
    objects: Vec<Object>,
    loader: Loader,
    cache: Option<Cache>,
    library_path: Vec<PathBuf>,
}

enum Candidate {
    Right(Box<(Found, Dynamic)>),
    /// It does not exist, or is another machine's.
    Wrong,
    /// The loader fails with it.
    Broken,
}

impl<F: Files> Analysis<'_, F> {
    fn program(&mut self, path: &Path, scripts: usize) {
        let Ok(found) = self.files.open(path, Bytes::Whole) else { return };
        if !self.want(path, Bytes::Whole) {
            return;
        }
        if let Some(arguments) = start(&found.file).and_then(|start| program::script_arguments(&start)) {
            for interpreter in self.interpreters(&arguments).into_iter().filter(|_| scripts > 0) {
                self.program(&interpreter, scripts - 1);
            }
        } else if let Some(dynamic) = dynamic::read(&ReadCache::new(&found.file)) {
            self.libraries(&found, &dynamic);
        }
    }

    /// Adds a file; false if it was added before.
    fn want(&mut self, path: &Path, bytes: Bytes) -> bool {
        let is_new = !self.needs.files.iter().any(|(wanted, _)| wanted == path);
        if is_new {
            self.needs.files.push((path.to_owned(), bytes));
        }
        is_new
    }

    /// Returns the programs that a `#!` line starts; `env` is followed.
    fn interpreters(&mut self, arguments: &[OsString]) -> Vec<PathBuf> {
        let Some(first) = arguments.first().map(|first| self.environment.cwd.join(first)) else { return Vec::new() };
        let through = program::behind_env(arguments).and_then(|name| {
            let candidates = program::candidates(name, self.environment.path.as_deref());
            let candidates = candidates.into_iter().map(|candidate| self.environment.cwd.join(candidate));
            candidates.into_iter().find(|candidate| self.is_executable(candidate))
        });
        [first].into_iter().chain(through).collect()
    }

    fn is_executable(&mut self, path: &Path) -> bool {
        let is_there = self.is_listed(path).unwrap_or(true);
        let status = is_there.then(|| self.files.open(path, Bytes::Whole).ok()?.file.metadata().ok()).flatten();
        status.is_some_and(|status| status.is_file() && status.permissions().mode() & 0o111 != 0)
    }

    /// Finds the libraries of an executable.
    fn libraries(&mut self, found: &Found, dynamic: &Dynamic) {
        let Some(interpreter) = &dynamic.interpreter else { return };
        let interpreter = self.environment.cwd.join(OsStr::from_bytes(interpreter));
        let Ok(own) = self.files.open(&interpreter, Bytes::Whole) else { return };
        self.want(&interpreter, Bytes::Whole);
        let begin = |loader| Program::begin(loader, found, dynamic, self.environment);
        if ![&found.canonical, &own.canonical].into_iter().any(|path| self.files.matters(path))
            && !self.names_what_matters(&begin(Loader::usual()))
        {
            return;
        }
        // It is a process of its own.
        let mut program = begin(Loader::query(&own.file, self.environment.tunables.as_deref()));
        let itself =
            Dynamic { soname: dynamic::read(&ReadCache::new(&own.file)).and_then(|d| d.soname), ..Dynamic::default() };
        let names = vec![interpreter.as_os_str().as_bytes().to_vec(), VDSO.to_vec()];
        program.add(names, (&interpreter, id(&own.file)), &itself, None, &self.environment.cwd);
        for name in self.environment.preloads() {
            self.load(&mut program, name, 0);
        }
        let mut next = 0;
        while next < program.objects.len() && program.objects.len() < OBJECTS_MAX {
            let level = next..program.objects.len();
            for object in level.clone() {
                for name in program.objects[object].needed.clone() {
                    self.announce(&mut program, &name, object);
                }
            }
            for object in level.clone() {
                for name in program.objects[object].needed.clone() {
                    if !self.load(&mut program, &name, object) {
                        self.needs.absent.push(OsString::from_vec(name));
                    }
                }
            }
            next = level.end;
        }
    }

    /// Returns whether anything matters that a program, or the environment, names by its path.
    fn names_what_matters(&self, program: &Program) -> bool {
        let directories = program.locations(0).into_iter().filter_map(|location| match location {
            SearchLocation::Directory(directory) => Some(directory),
            SearchLocation::Cache { .. } => None,
        });
        let by_path = self.environment.preloads().chain(program.objects[0].needed.iter().map(Vec::as_slice));
        let by_path = by_path.filter(|name| name.contains(&b'/'));
        let files = by_path.map(|name| self.environment.cwd.join(OsStr::from_bytes(name)));
        directories.chain(files).any(|path| self.files.matters(&path))
    }

    /// Loads what `object` needs by this name. False if it is not found.
    fn load(&mut self, program: &mut Program, name: &[u8], object: usize) -> bool {
        let Some(name) = program.expand(name, object) else { return false };
        if program.objects.iter().any(|o| o.names.contains(&name)) {
            return true;
        }
        let Some((path, found, dynamic)) = self.find(program, &name, object) else { return false };
        let id = id(&found.file);
        if let Some(same) = program.objects.iter_mut().find(|o| id.is_some() && o.id == id) {
            same.names.push(name);
            return true;
        }
        self.want(&path, Bytes::Loadable);
        let names = vec![name, path.as_os_str().as_bytes().to_vec()];
        program.add(names, (&path, id), &dynamic, Some(object), &self.environment.cwd);
        true
    }

    fn find(&mut self, program: &mut Program, name: &[u8], object: usize) -> Option<(PathBuf, Found, Dynamic)> {
        if name.contains(&b'/') {
            let path = self.environment.cwd.join(OsStr::from_bytes(name));
            return match self.candidate(&path) {
                Candidate::Right(right) => Some((path, right.0, right.1)),
                Candidate::Wrong | Candidate::Broken => None,
            };
        }
        for location in program.locations(object) {
            for path in self.paths(program, &location, name) {
                match self.candidate(&path) {
                    Candidate::Right(right) => return Some((path, right.0, right.1)),
                    Candidate::Broken => return None,
                    Candidate::Wrong => {}
                }
            }
        }
        None
    }

    /// Announces a library that will be needed, if it can be found without opening any.
    fn announce(&mut self, program: &mut Program, name: &[u8], object: usize) {
        let Some(name) = program.expand(name, object) else { return };
        if program.objects.iter().any(|o| o.names.contains(&name)) {
            return;
        }
        if name.contains(&b'/') {
            return self.files.soon(&self.environment.cwd.join(OsStr::from_bytes(&name)));
        }
        for location in program.locations(object) {
            if let Some(path) = self.paths(program, &location, &name).first() {
                return self.files.soon(path);
            }
        }
    }

    /// Returns the files of this name at a location, in the order in which they are tried.
    fn paths(&mut self, program: &mut Program, location: &SearchLocation, name: &[u8]) -> Vec<PathBuf> {
        let name = OsStr::from_bytes(name);
        match location {
            SearchLocation::Directory(directory) => {
                // A subdirectory that its directory lacks is skipped.
                let names = self.names(directory);
                let may_have = |sub: &&PathBuf| match &names {
                    Names::Absent => false,
                    Names::Listed(names) => sub.iter().next().is_some_and(|first| names.contains(first)),
                    Names::Unlisted => true,
                };
                let subdirectories = program.loader.subdirectories.iter().filter(may_have);
                let tried: Vec<PathBuf> =
                    subdirectories.map(|sub| directory.join(sub)).chain([directory.clone()]).collect();
                let holding = tried.into_iter().filter(|directory| self.may_contain(directory, name));
                holding.map(|directory| directory.join(name)).collect()
            }
            SearchLocation::Cache { has_defaults } => {
                let found = program.cache().and_then(|(cache, loader)| cache.find(name.as_bytes(), loader));
                let is_default = |path: &PathBuf| program.loader.directories.iter().any(|d| path.starts_with(d));
                found.filter(|path| *has_defaults || !is_default(path)).into_iter().collect()
            }
        }
    }

    /// Returns whether a directory may have this name.
    fn may_contain(&mut self, directory: &Path, name: &OsStr) -> bool {
        match self.names(directory) {
            Names::Absent => false,
            Names::Listed(names) => names.contains(name),
            Names::Unlisted => self.files.is_there(&directory.join(name)),
        }
    }

    /// Returns whether this path's directory lists it, if that is known without reading it.
    fn is_listed(&self, path: &Path) -> Option<bool> {
        match self.names.get(path.parent()?)? {
            Names::Absent => Some(false),
            Names::Listed(names) => Some(names.contains(path.file_name()?)),
            Names::Unlisted => None,
        }
    }

    fn names(&mut self, directory: &Path) -> Names {
        if let Some(names) = self.names.get(directory) {
            return names.clone();
        }
        let names = self.files.names(directory);
        if !matches!(names, Names::Absent) {
            self.needs.directories.push(directory.to_owned());
        }
        self.names.insert(directory.to_owned(), names.clone());
        names
    }

    fn candidate(&mut self, path: &Path) -> Candidate {
        let Ok(found) = self.files.open(path, Bytes::Loadable) else { return Candidate::Wrong };
        match start(&found.file).map(|start| is_native(&start)) {
            Some(Some(true)) => match dynamic::read(&ReadCache::new(&found.file)) {
                Some(dynamic) => Candidate::Right(Box::new((found, dynamic))),
                None => Candidate::Broken,
            },
            Some(Some(false)) => Candidate::Wrong,
            Some(None) | None => Candidate::Broken,
        }
    }
}

impl Environment {
    fn preloads(&self) -> impl Iterator<Item = &[u8]> {
        let names = self.preload.as_deref().unwrap_or_default().as_bytes().split(|b| b" :".contains(b));
        names.filter(|name| !name.is_empty())
    }
}

impl Program {
    /// Begins with an executable alone.
    fn begin(loader: Loader, found: &Found, dynamic: &Dynamic, environment: &Environment) -> Program {
        let mut program = Program { objects: Vec::new(), loader, cache: None, library_path: Vec::new() };
        program.add(Vec::new(), (&found.canonical, id(&found.file)), dynamic, None, &environment.cwd);
        let value = environment.library_path.as_deref().unwrap_or_default();
        program.library_path =
            search::library_path(value, &program.objects[0].origin, &program.loader, &environment.cwd);
        program
    }

    fn add(
        &mut self,
        mut names: Vec<Vec<u8>>,
        (path, id): (&Path, Option<(u64, u64)>),
        dynamic: &Dynamic,
        loader: Option<usize>,
        cwd: &Path,
    ) {
        let origin = path.parent().unwrap_or(Path::new("/")).to_owned();
        let paths = Paths::of(dynamic, &origin, &self.loader, cwd);
        names.extend(dynamic.soname.clone());
        self.objects.push(Object { names, id, needed: dynamic.needed.clone(), origin, paths, loader });
    }

    fn expand(&self, name: &[u8], object: usize) -> Option<Vec<u8>> {
        expand(name, &self.objects[object].origin, &self.loader)
    }

    /// Returns the locations that are searched for an object's needs.
    fn locations(&self, object: usize) -> Vec<SearchLocation> {
        let mut chain: Vec<usize> = std::iter::successors(Some(object), |&at| self.objects[at].loader).collect();
        if !chain.contains(&0) {
            chain.push(0);
        }
        let rpaths = chain.iter().flat_map(|&at| &self.objects[at].paths.rpath);
        self.objects[object].paths.locations(rpaths, &self.library_path, &self.loader)
    }

    /// Returns the loader's cache, read when it is first needed. It is the system's own.
    fn cache(&mut self) -> Option<(&Cache, &Loader)> {
        if self.cache.is_none() {
            let mut bytes = Vec::new();
            if let Ok(file) = File::open(&self.loader.cache) {
                // One that can't be read to its end has no libraries.
                let is_read = file.take(CACHE_BYTES_MAX).read_to_end(&mut bytes).is_ok();
                bytes.truncate(if is_read { bytes.len() } else { 0 });
            }
            self.cache = Some(Cache::new(bytes));
        }
        Some((self.cache.as_ref()?, &self.loader))
    }
}

/// Reads a file's start.
fn start(file: &File) -> Option<Vec<u8>> {
    let mut start = vec![0; START_BYTES];
    let bytes = file.read_at(&mut start, 0).ok()?;
    start.truncate(bytes);
    Some(start)
}

fn id(file: &File) -> Option<(u64, u64)> {
    file.metadata().ok().map(|status| (status.dev(), status.ino()))
}
