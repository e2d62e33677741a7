//! The libraries that a program starts with, found as glibc's loader finds them.
//!
//! What is left out: `ld.so.cache` (its directories are searched instead), glibc-hwcaps variants, and
//! `$LIB` in dependencies' names.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::elf::dynamic::Dynamic;

/// The most libraries that are followed.
const LIBRARIES_MAX: usize = 4096;
/// The loader's own directories on one distribution or another.
const DEFAULT_DIRECTORIES: [&str; 8] = [
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib/aarch64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/lib64",
    "/usr/lib64",
    "/lib",
    "/usr/lib",
];
/// Where further ones are listed for `ld.so.cache`.
const CONFIGURATION: &str = "/etc/ld.so.conf.d";

/// What a program starts with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StartUp {
    /// The libraries with their dynamic sections, in the loader's order.
    pub libraries: Vec<(PathBuf, Dynamic)>,
    /// Names of dependencies that were not found.
    pub missing: Vec<Vec<u8>>,
}

/// How the libraries are searched for.
#[derive(Clone, Debug, Default)]
pub struct Search {
    /// `LD_PRELOAD`.
    pub preload: Vec<u8>,
    /// `LD_LIBRARY_PATH`.
    pub library_path: Vec<u8>,
    /// What is searched last.
    pub default_directories: Vec<PathBuf>,
}

impl StartUp {
    /// Bytes of thread-local storage of all libraries: in a plain process, all of it is static.
    pub fn tls_bytes(&self) -> u64 {
        self.libraries.iter().map(|(_, dynamic)| dynamic.tls_bytes).fold(0, u64::saturating_add)
    }
}

/// The directories that the loader searches last on this machine.
pub fn default_directories() -> Vec<PathBuf> {
    let mut directories = Vec::new();
    for file in fs::read_dir(CONFIGURATION).into_iter().flatten().flatten() {
        let text = fs::read_to_string(file.path()).unwrap_or_default();
        directories.extend(text.lines().map(str::trim).filter(|l| l.starts_with('/')).map(PathBuf::from));
    }
    directories.extend(DEFAULT_DIRECTORIES.map(PathBuf::from));
    directories
}

/// Follows the dependencies of `program`, which is an absolute path without links, breadth first as
/// the loader does. `read` gives the dynamic section of the file with a path; `None` if there is no
/// such file or it is no library.
pub fn start_up(
    program: &Path,
    executable: &Dynamic,
    search: &Search,
    read: &mut dyn FnMut(&Path) -> Option<Dynamic>,
) -> StartUp {
    let mut objects = vec![Object::new(program, executable, None)];
    let mut found = StartUp::default();
    let mut seen: HashSet<Vec<u8>> = HashSet::new();
    let preloaded = search.preload.split(|&b| b == b':' || b == b' ').filter(|n| !n.is_empty()).map(<[u8]>::to_vec);
    let mut wanted: Vec<(usize, Vec<u8>)> =
        preloaded.chain(executable.needed.iter().cloned()).map(|n| (0, n)).collect();
    let mut next = 0;
    while next < wanted.len() && next < LIBRARIES_MAX {
        let (by, name) = wanted[next].clone();
        next += 1;
        if !seen.insert(name.clone()) {
            continue;
        }
        let paths = candidates(&objects, by, &name, search);
        let Some((path, dynamic)) = paths.into_iter().find_map(|path| read(&path).map(|dynamic| (path, dynamic)))
        else {
            found.missing.push(name);
            continue;
        };
        seen.extend(dynamic.soname.clone());
        wanted.extend(dynamic.needed.iter().map(|needed| (objects.len(), needed.clone())));
        objects.push(Object::new(&path, &dynamic, Some(by)));
        found.libraries.push((path, dynamic));
    }
    found
}

/// An object as the search for its dependencies sees it.
struct Object {
    rpath: Vec<PathBuf>,
    runpath: Vec<PathBuf>,
    has_runpath: bool,
    no_default_directories: bool,
    loaded_by: Option<usize>,
}

impl Object {
    fn new(path: &Path, dynamic: &Dynamic, loaded_by: Option<usize>) -> Object {
        let origin = path.parent().unwrap_or(Path::new("/"));
        let expand = |entries: &[Vec<u8>]| entries.iter().flat_map(|e| crate::search_path::expand(e, origin)).collect();
        Object {
            rpath: expand(&dynamic.rpath),
            runpath: expand(&dynamic.runpath),
            has_runpath: !dynamic.runpath.is_empty(),
            no_default_directories: dynamic.no_default_directories,
            loaded_by,
        }
    }
}

/// Where the loader looks for what object number `by` needs.
fn candidates(objects: &[Object], by: usize, name: &[u8], search: &Search) -> Vec<PathBuf> {
    let name = OsStr::from_bytes(name);
    if name.as_bytes().contains(&b'/') {
        return vec![PathBuf::from(name)];
    }
    let object = &objects[by];
    let mut directories: Vec<PathBuf> = Vec::new();
    if !object.has_runpath {
        let chain = std::iter::successors(Some(object), |o| o.loaded_by.map(|by| &objects[by]));
        directories.extend(chain.flat_map(|o| o.rpath.iter().cloned()));
    }
    let library_path = search.library_path.split(|&b| b == b':' || b == b';').filter(|d| !d.is_empty());
    directories.extend(library_path.map(|d| PathBuf::from(OsStr::from_bytes(d))));
    directories.extend(object.runpath.iter().cloned());
    if !object.no_default_directories {
        directories.extend(search.default_directories.iter().cloned());
    }
    directories.iter().map(|d| d.join(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    /// Libraries by path: what they need, their RPATH and their RUNPATH.
    type File<'a> = (&'a str, &'a [&'a str], &'a [&'a str], &'a [&'a str]);

    fn dynamic(needed: &[&str], rpath: &[&str], runpath: &[&str]) -> Dynamic {
        let bytes = |names: &[&str]| names.iter().map(|n| n.as_bytes().to_vec()).collect();
        Dynamic { needed: bytes(needed), rpath: bytes(rpath), runpath: bytes(runpath), ..Dynamic::default() }
    }

    fn check(site: &[File<'_>], search: &Search, libraries: &[&str], missing: &[&str]) {
        let files: HashMap<PathBuf, Dynamic> =
            site.iter().map(|(path, n, r, u)| (PathBuf::from(path), dynamic(n, r, u))).collect();
        let program = &files[Path::new("/app/bin/app")];
        let found = start_up(Path::new("/app/bin/app"), program, search, &mut |path| files.get(path).cloned());
        let paths: Vec<&Path> = found.libraries.iter().map(|l| l.0.as_path()).collect();
        assert_eq!(paths, libraries.iter().map(Path::new).collect::<Vec<_>>());
        assert_eq!(found.missing, missing.iter().map(|m| m.as_bytes().to_vec()).collect::<Vec<_>>());
    }

    fn defaults() -> Search {
        Search { default_directories: vec!["/lib".into()], ..Search::default() }
    }

    #[test]
    fn breadth_first_and_once_each() {
        check(
            &[
                ("/app/bin/app", &["a", "b"], &[], &[]),
                ("/lib/a", &["c", "libc"], &[], &[]),
                ("/lib/b", &["c", "a", "nowhere"], &[], &[]),
                ("/lib/c", &["a"], &[], &[]),
                ("/lib/libc", &[], &[], &[]),
            ],
            &defaults(),
            &["/lib/a", "/lib/b", "/lib/c", "/lib/libc"],
            &["nowhere"],
        );
    }

    #[test]
    fn rpath_is_inherited_and_runpath_is_not() {
        let site = |rpath, runpath| -> [File<'static>; 3] {
            [
                ("/app/bin/app", &["a"], rpath, runpath),
                ("/app/bin/../lib/a", &["b"], &[], &[]),
                ("/app/bin/../lib/b", &[], &[], &[]),
            ]
        };
        let both = ["/app/bin/../lib/a", "/app/bin/../lib/b"];
        check(&site(&["$ORIGIN/../lib"], &[]), &defaults(), &both, &[]);
        check(&site(&[], &["${ORIGIN}/../lib"]), &defaults(), &both[..1], &["b"]);
    }

    #[test]
    fn the_order_of_directories() {
        let library_path = Search { library_path: b"/x:/y".to_vec(), ..defaults() };
        let site = |rpath, runpath| -> [File<'static>; 4] {
            [
                ("/app/bin/app", &["a"], rpath, runpath),
                ("/y/a", &[], &[], &[]),
                ("/z/a", &[], &[], &[]),
                ("/lib/a", &[], &[], &[]),
            ]
        };
        check(&site(&[], &[]), &library_path, &["/y/a"], &[]);
        check(&site(&["/z"], &[]), &library_path, &["/z/a"], &[]);
        check(&site(&[], &["/z"]), &library_path, &["/y/a"], &[]);
        check(&site(&[], &["/z"]), &defaults(), &["/z/a"], &[]);
        let preload = Search { preload: b"/z/a b".to_vec(), ..defaults() };
        check(&site(&[], &[]), &preload, &["/z/a", "/lib/a"], &["b"]);
    }

    #[test]
    fn thread_local_storage_adds_up() {
        let library = |tls_bytes| (PathBuf::new(), Dynamic { tls_bytes, ..Dynamic::default() });
        let found = StartUp { libraries: vec![library(100), library(0), library(28)], missing: vec![] };
        assert_eq!(found.tls_bytes(), 128);
    }
}
