//! Which entry of a search path each look-up belongs to, and what would remove those that find nothing.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use headwater_closure::elf::dynamic;
use headwater_closure::recorded::{Call, CallKind};
use headwater_figures::text::{grouped, nanoseconds};
use headwater_report::page::printable;
use headwater_report::start::{Search, SearchKind};

use super::imports::Module;
use super::run::{Image, Run, is_library, is_of_loader};

/// Directories below an entry in which the loader searches for variants of the processor.
const HWCAPS: [&str; 11] = [
    "glibc-hwcaps",
    "tls",
    "haswell",
    "x86_64",
    "avx512_1",
    "xeon_phi",
    "x86-64-v2",
    "x86-64-v3",
    "x86-64-v4",
    "aarch64",
    "atomics",
];
/// Where the loader searches without being asked to.
const DEFAULTS: [&str; 4] = ["/lib", "/usr/lib", "/lib64", "/usr/lib64"];
/// The most bytes of an object that are examined.
const OBJECT_BYTES_MAX: u64 = 1 << 30;
/// An entry that finds something is advised upon if it fails so many times as often.
const RATIO_MIN: u64 = 4;
const FRUITLESS_MIN: u64 = 10;

/// An entry of a search path, with the object that names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    kind: SearchKind,
    directory: PathBuf,
    object: Option<PathBuf>,
}

#[derive(Clone, Copy, Default)]
struct Counts {
    fruitless: u64,
    fruitless_ns: u64,
    found: u64,
    /// Fruitless look-ups in the directory itself, rather than in one of its variants for a processor.
    own: u64,
}

/// Returns the directories that are searched, those with most fruitless look-ups first.
pub fn searches(run: &Run, modules: &[Vec<Module>]) -> Vec<Search> {
    let mut entries = BTreeMap::<Entry, Counts>::new();
    let mut objects = Objects::default();
    for (image, modules) in run.images.iter().zip(modules) {
        let mut paths = Paths::of(image, modules);
        for call in &image.calls {
            if call.kind == CallKind::Load {
                paths.learn(&call.path, &mut objects);
            }
            let Some((entry, outcome)) = paths.attribute(call) else { continue };
            let entry_directory = entry.directory.clone();
            let counts = entries.entry(entry).or_default();
            match outcome {
                Outcome::Fruitless => {
                    counts.fruitless += 1;
                    counts.own += u64::from(call.path.parent() == Some(&entry_directory));
                    counts.fruitless_ns += call.length_ns;
                }
                Outcome::Found => counts.found += 1,
            }
        }
        // Python checks an entry's directory before it finds a module there, too.
        for module in modules {
            let found = entries.iter_mut().find(|(entry, _)| entry.directory == module.root && is_pythons(entry.kind));
            if let Some((_, counts)) = found {
                counts.found += 1;
            }
        }
    }
    for counts in entries.iter_mut().filter(|(entry, _)| is_pythons(entry.kind)).map(|(_, counts)| counts) {
        // Checks that were followed by a find were not in vain.
        let (before, found) = (counts.fruitless, counts.found.min(counts.fruitless));
        counts.fruitless -= found;
        counts.fruitless_ns = counts.fruitless_ns.checked_div(before).unwrap_or(0) * counts.fruitless;
    }
    let mut searches: Vec<Search> = entries.into_iter().map(|(entry, counts)| entry.search(counts)).collect();
    searches.sort_by_key(|search| std::cmp::Reverse((search.fruitless, search.found)));
    searches
}

fn is_pythons(kind: SearchKind) -> bool {
    matches!(kind, SearchKind::PythonPath | SearchKind::SysPath)
}

enum Outcome {
    Fruitless,
    Found,
}

impl Entry {
    fn search(self, counts: Counts) -> Search {
        let Counts { fruitless, fruitless_ns, found, own } = counts;
        let directory = printable(self.directory.as_os_str().as_bytes());
        let object = self.object.map(|object| printable(object.as_os_str().as_bytes()));
        let (count, time) = (grouped(fruitless), nanoseconds(fruitless_ns));
        let from = match (self.kind, &object) {
            (SearchKind::LdLibraryPath | SearchKind::Path | SearchKind::PythonPath, _) => {
                Some(self.kind.name().to_owned())
            }
            (SearchKind::Rpath | SearchKind::Runpath, Some(object)) => {
                Some(format!("the {} of {object}", self.kind.name()))
            }
            _ => None,
        };
        let ups = if fruitless == 1 { "look-up fails" } else { "look-ups fail" };
        let is_worth = fruitless > 0 && (self.kind != SearchKind::Path || fruitless >= FRUITLESS_MIN);
        let advice = from.filter(|_| is_worth).and_then(|from| match found {
            0 => Some(format!("remove {directory} from {from}: {count} {ups} there, none succeeds ({time})")),
            _ if own >= FRUITLESS_MIN && own >= RATIO_MIN * found => {
                let (count, found) = (grouped(own), grouped(found));
                Some(format!("move {directory} to the end of {from}: {count} {ups} there, {found} succeed ({time})"))
            }
            _ => None,
        });
        Search { kind: self.kind, directory, object, fruitless, fruitless_ns, found, advice }
    }
}

/// The search paths of one program.
struct Paths {
    ld_library_path: Vec<PathBuf>,
    path: Vec<PathBuf>,
    python_path: Vec<PathBuf>,
    sys_path: Vec<PathBuf>,
    is_python: bool,
    /// Directories that objects name, with the object.
    of_objects: Vec<(PathBuf, SearchKind, PathBuf)>,
}

/// Directories of objects, by their files.
#[derive(Default)]
struct Objects(HashMap<PathBuf, Vec<(PathBuf, SearchKind)>>);

impl Paths {
    fn of(image: &Image, modules: &[Module]) -> Paths {
        let roots = modules.iter().filter(|module| !module.root.as_os_str().is_empty());
        let mut sys_path: Vec<PathBuf> = roots.map(|module| module.root.clone()).collect();
        sys_path.sort();
        sys_path.dedup();
        let mut paths = Paths {
            ld_library_path: image.directories("LD_LIBRARY_PATH"),
            path: image.directories("PATH"),
            python_path: image.directories("PYTHONPATH"),
            sys_path,
            is_python: image.is_python(),
            of_objects: Vec::new(),
        };
        paths.learn(&image.file, &mut Objects::default());
        paths
    }

    /// Adds the directories that an object names.
    fn learn(&mut self, object: &Path, objects: &mut Objects) {
        if self.of_objects.iter().any(|(_, _, known)| known == object) {
            return;
        }
        for (directory, kind) in objects.directories(object) {
            self.of_objects.push((directory.clone(), *kind, object.to_owned()));
        }
    }

    /// Returns the entry to which a call belongs, if it searches for something.
    fn attribute(&self, call: &Call) -> Option<(Entry, Outcome)> {
        let outcome = match i32::try_from(call.errno).unwrap_or(i32::MAX) {
            0 => Outcome::Found,
            libc::ENOENT | libc::ENOTDIR | libc::EACCES => Outcome::Fruitless,
            _ => return None,
        };
        let is_search = matches!(call.kind, CallKind::Open | CallKind::Stat | CallKind::Execute);
        if !is_search {
            return None;
        }
        let directory = call.path.parent()?;
        let entry = |kind, directory: &Path| Entry { kind, directory: directory.to_owned(), object: None };
        if self.is_python
            && let Some(kind) = self.pythons(&call.path)
        {
            // A module that was found counts once, by its file; a check of the entry itself finds nothing yet.
            let checks = kind.1 == call.path;
            return match outcome {
                Outcome::Found if !checks => None,
                _ => Some((entry(kind.0, &kind.1), Outcome::Fruitless)),
            };
        }
        if is_of_loader(&call.path) {
            return Some((entry(SearchKind::Loader, directory), outcome));
        }
        let checked = base(&call.path);
        if call.kind == CallKind::Stat && self.is_of_loader(&checked) {
            // The loader checks whether a directory is there, after it has found nothing in it.
            return Some((self.loaders(&checked), Outcome::Fruitless));
        }
        if is_library(&call.path) {
            return Some((self.loaders(&base(directory)), outcome));
        }
        let names_program = call.kind == CallKind::Execute || call.kind == CallKind::Stat;
        if names_program && self.path.iter().any(|path| path == directory) {
            return Some((entry(SearchKind::Path, directory), outcome));
        }
        if matches!(outcome, Outcome::Found) {
            return None;
        }
        let is_locale = call.path.components().any(|part| part.as_os_str() == "locale" || part.as_os_str() == "gconv");
        Some((entry(if is_locale { SearchKind::Locale } else { SearchKind::Other }, directory), outcome))
    }

    /// Returns whether a variable or an object names a directory for the loader.
    fn is_of_loader(&self, directory: &Path) -> bool {
        self.ld_library_path.iter().any(|named| named == directory)
            || self.of_objects.iter().any(|(named, _, _)| named == directory)
    }

    /// Returns the entry of a directory in which the loader searches for a library.
    fn loaders(&self, directory: &Path) -> Entry {
        let plain = directory.to_owned();
        let of_object = self.of_objects.iter().find(|(named, _, _)| *named == plain);
        let (kind, object) = match of_object {
            Some((_, kind @ SearchKind::Rpath, object)) => (*kind, Some(object.clone())),
            _ if self.ld_library_path.contains(&plain) => (SearchKind::LdLibraryPath, None),
            Some((_, kind, object)) => (*kind, Some(object.clone())),
            None if DEFAULTS.iter().any(|default| plain.starts_with(default)) => (SearchKind::Loader, None),
            None => (SearchKind::Other, None),
        };
        Entry { kind, directory: plain, object }
    }

    /// Returns the entry in which Python searches for a module, and why it is searched.
    fn pythons(&self, path: &Path) -> Option<(SearchKind, PathBuf)> {
        let within = |all: &[PathBuf]| {
            all.iter().filter(|entry| path.starts_with(entry)).max_by_key(|e| e.as_os_str().len()).cloned()
        };
        if let Some(entry) = within(&self.python_path) {
            return Some((SearchKind::PythonPath, entry));
        }
        let is_zip = path.extension() == Some(OsStr::new("zip"));
        let name = path.file_name().unwrap_or_default().as_bytes();
        let is_source =
            name.ends_with(b".py") || name.ends_with(b".pyc") || name.ends_with(b".so") && !name.starts_with(b"lib");
        let entry = within(&self.sys_path).filter(|entry| entry == path || is_source || !name.contains(&b'.'));
        entry
            .map(|entry| (SearchKind::SysPath, entry))
            .or_else(|| is_zip.then(|| (SearchKind::SysPath, path.to_owned())))
    }
}

/// Returns the directory of which a directory is a variant for a processor; itself if it is none.
fn base(mut directory: &Path) -> PathBuf {
    while directory.file_name().is_some_and(|name| HWCAPS.iter().any(|hwcap| name == *hwcap)) {
        directory = directory.parent().unwrap_or(directory);
    }
    normal(directory)
}

impl Objects {
    /// Returns the directories that an object names, and how.
    fn directories(&mut self, object: &Path) -> &[(PathBuf, SearchKind)] {
        self.0.entry(object.to_owned()).or_insert_with(|| read_directories(object))
    }
}

fn read_directories(object: &Path) -> Vec<(PathBuf, SearchKind)> {
    let is_small = fs::metadata(object).is_ok_and(|file| file.is_file() && file.len() <= OBJECT_BYTES_MAX);
    let Some(bytes) = is_small.then(|| fs::read(object).ok()).flatten() else { return Vec::new() };
    let Some(dynamic) = dynamic::read(&*bytes) else { return Vec::new() };
    let origin = object.parent().unwrap_or(Path::new("/"));
    let expanded = |directory: &[u8]| {
        let text = String::from_utf8_lossy(directory).into_owned();
        let origin = origin.to_string_lossy();
        let text = text.replace("${ORIGIN}", &origin).replace("$ORIGIN", &origin);
        let text = text.replace("${LIB}", "lib64").replace("$LIB", "lib64");
        normal(Path::new(&text))
    };
    let all = |directories: &[Vec<u8>], kind| {
        directories.iter().map(|directory| (expanded(directory), kind)).collect::<Vec<_>>()
    };
    let mut found = all(&dynamic.rpath, SearchKind::Rpath);
    found.extend(all(&dynamic.runpath, SearchKind::Runpath));
    found
}

/// Returns a path without `..` where the component before it can be removed.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::ParentDir => drop(normal.pop()),
            part => normal.push(part),
        }
    }
    normal
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(kind: CallKind, errno: u32, path: &str) -> Call {
        Call { at_ns: 1, length_ns: 1000, process: 1, kind, errno, size: 0, path: path.into() }
    }

    fn searched(variable: (&str, &str), file: &str, calls: Vec<Call>) -> Vec<Search> {
        let variables = [(variable.0.as_bytes().to_vec(), variable.1.as_bytes().to_vec())].into();
        let image = Image { file: file.into(), variables, calls, ..Image::default() };
        let modules = vec![super::super::imports::modules(&image)];
        searches(&Run { images: vec![image], ..Run::default() }, &modules)
    }

    #[test]
    fn libraries_belong_to_the_variables_entries() {
        let calls = vec![
            call(CallKind::Open, 2, "/empty/lib/glibc-hwcaps/x86-64-v3/liba.so"),
            call(CallKind::Open, 2, "/empty/lib/liba.so"),
            call(CallKind::Open, 0, "/full/lib/liba.so"),
            call(CallKind::Open, 2, "/usr/lib/x86_64-linux-gnu/libb.so"),
        ];
        let searches = searched(("LD_LIBRARY_PATH", "/empty/lib/:/full/lib"), "/none", calls);
        assert_eq!((searches[0].kind, &*searches[0].directory), (SearchKind::LdLibraryPath, "/empty/lib"));
        assert_eq!(
            searches[0].advice.as_deref(),
            Some("remove /empty/lib from LD_LIBRARY_PATH: 2 look-ups fail there, none succeeds (2.0µs)")
        );
        assert!(searches.iter().any(|search| search.kind == SearchKind::Loader && search.advice.is_none()));
        assert!(searches.iter().any(|search| search.directory == "/full/lib" && search.found == 1));
    }

    #[test]
    fn checks_of_an_empty_directory_find_nothing() {
        let calls = vec![
            call(CallKind::Stat, 0, "/empty"),
            call(CallKind::Stat, 0, "/sw/site-packages"),
            call(CallKind::Stat, 0, "/sw/site-packages/a.py"),
            call(CallKind::Open, 0, "/sw/site-packages/__pycache__/a.cpython-311.pyc"),
        ];
        let searches = searched(("PYTHONPATH", "/empty"), "/usr/bin/python3", calls);
        assert_eq!((searches[0].kind, searches[0].fruitless), (SearchKind::PythonPath, 1));
        assert!(searches[0].advice.as_deref().unwrap().starts_with("remove /empty from PYTHONPATH: 1 look-up fails"));
        let found = searches.iter().find(|search| search.directory == "/sw/site-packages").unwrap();
        assert_eq!((found.fruitless, found.found), (0, 1));
    }

    #[test]
    fn programs_are_searched_in_path() {
        let calls = vec![call(CallKind::Execute, 2, "/opt/bin/ls"), call(CallKind::Execute, 0, "/bin/ls")];
        let searches = searched(("PATH", "/opt/bin:/bin"), "/bin/sh", calls);
        assert_eq!((searches[0].kind, searches[0].found), (SearchKind::Path, 0));
        assert_eq!((searches[1].kind, searches[1].found), (SearchKind::Path, 1));
    }
}
