//! The modules that a Python interpreter imports, from its look-ups.
//!
//! A module begins with the first look-up of its name and lasts until the first look-up of the next one.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use headwater_closure::recorded::{Call, CallKind};
use headwater_report::page::printable;
use headwater_report::start::{Import, Span};

use super::run::Image;

/// Directories that are in `sys.path`, by their names.
const ROOTS: [&str; 3] = ["site-packages", "dist-packages", "lib-dynload"];

/// One module.
#[derive(Debug, PartialEq, Eq)]
pub struct Module {
    /// Its top-level module.
    pub top: String,
    /// The directory in which that was found; empty for the work of `site`, which no file begins.
    pub root: PathBuf,
    /// The index of the first call that searches it.
    pub first: usize,
    /// When its search began.
    pub start_ns: u64,
    /// When the search for the next module began.
    pub end_ns: u64,
}

/// Returns the modules of a Python interpreter, in order; none of another program.
pub fn modules(image: &Image) -> Vec<Module> {
    if !image.is_python() {
        return Vec::new();
    }
    let opened: Vec<(usize, PathBuf, Vec<u8>)> = image
        .calls
        .iter()
        .enumerate()
        .filter_map(|(at, call)| module_of(call, image).map(|(d, s)| (at, d, s)))
        .collect();
    let mut packages: BTreeSet<PathBuf> =
        opened.iter().filter(|(_, _, stem)| stem == b"__init__").map(|(_, directory, _)| directory.clone()).collect();
    packages.extend(namespace_packages(image));
    let mut modules: Vec<Module> = Vec::new();
    let mut last: Option<(PathBuf, Vec<u8>)> = None;
    for (at, directory, stem) in opened {
        // A source file behind its missing or outdated compiled file.
        if last.as_ref().is_some_and(|(d, s)| *d == directory && *s == stem) {
            continue;
        }
        let is_site = directory.as_os_str().is_empty();
        if is_site && modules.is_empty() {
            continue;
        }
        let (root, top) = top_of(&directory, &stem, &packages);
        let name = if stem == b"__init__" { directory.file_name().unwrap_or_default().as_bytes() } else { &stem[..] };
        let first = if is_site { at } else { first_look_up(&image.calls[..at], name) };
        let start_ns = image.calls[first].at_ns;
        if let Some(before) = modules.last_mut() {
            before.end_ns = start_ns.max(before.start_ns);
        }
        modules.push(Module { top: printable(&top), root, first, start_ns, end_ns: start_ns });
        last = Some((directory, stem));
    }
    // The last one lasts until its own calls end; then the program's own code follows.
    if let Some(module) = modules.last_mut() {
        let ends = image.calls[module.first..].iter().take(8).map(|call| call.end_ns());
        module.end_ns = ends.max().unwrap_or(module.start_ns);
    }
    modules
}

/// Returns the directories of packages without an `__init__`: Python lists an entry of its search path, and then the
/// package in it. Entries of `PYTHONPATH` that lie in each other are none.
fn namespace_packages(image: &Image) -> Vec<PathBuf> {
    let lists = image.calls.iter().filter(|call| call.kind == CallKind::List && call.errno == 0);
    let listed: BTreeSet<&Path> = lists.map(|call| call.path.as_path()).collect();
    let named = image.directories("PYTHONPATH");
    let is_package = |path: &&Path| {
        let is_root = ROOTS.iter().any(|root| path.file_name() == Some(OsStr::new(root)));
        !is_root && path.parent().is_some_and(|parent| listed.contains(parent)) && !named.iter().any(|it| it == path)
    };
    listed.iter().copied().filter(is_package).map(Path::to_owned).collect()
}

/// Returns the spans of modules, adjacent ones of the same top-level module as one.
pub fn spans(modules: &[Module]) -> Vec<Span> {
    let mut spans: Vec<Span> = Vec::new();
    for module in modules {
        match spans.last_mut() {
            Some(last) if last.module == module.top => last.end_ns = module.end_ns,
            _ => spans.push(Span { module: module.top.clone(), start_ns: module.start_ns, end_ns: module.end_ns }),
        }
    }
    spans
}

/// Returns the imports by top-level module, of all interpreters, the slowest first.
pub fn summarized<'a>(all: impl Iterator<Item = (&'a Image, &'a [Module])>) -> Vec<Import> {
    let mut imports = BTreeMap::<String, Import>::new();
    for (image, modules) in all {
        let mut ends = BTreeMap::<&str, (u64, u64)>::new();
        for (number, module) in modules.iter().enumerate() {
            let next = modules.get(number + 1).map_or(image.calls.len(), |next| next.first);
            let calls = image.calls[module.first..next.max(module.first)].iter();
            let calls: Vec<&Call> =
                calls.take_while(|call| call.at_ns < module.end_ns.max(module.start_ns + 1)).collect();
            let import = imports.entry(module.top.clone()).or_default();
            import.own_ns += module.end_ns - module.start_ns;
            import.modules += u64::from(!module.root.as_os_str().is_empty());
            import.calls += calls.len() as u64;
            import.calls_ns += calls.iter().map(|call| call.length_ns).sum::<u64>();
            let (_, end_ns) = ends.entry(&module.top).or_insert((module.start_ns, module.end_ns));
            *end_ns = module.end_ns;
        }
        for (top, (start_ns, end_ns)) in ends {
            if let Some(import) = imports.get_mut(top) {
                import.total_ns += end_ns - start_ns;
            }
        }
    }
    let mut imports: Vec<Import> = imports.into_iter().map(|(module, import)| Import { module, ..import }).collect();
    imports.sort_by_key(|import| std::cmp::Reverse(import.own_ns));
    imports
}

/// Returns the directory and the name of the module that a call opens; a package's module is `__init__`. The files with
/// which Python's `site` sets the search path are no modules, and it is part of the interpreter: it has no directory.
fn module_of(call: &Call, image: &Image) -> Option<(PathBuf, Vec<u8>)> {
    let is_sites = |name: &OsStr| name == "pyvenv.cfg" || name.as_bytes().ends_with(b".pth");
    if call.path.file_name().is_some_and(is_sites) && matches!(call.kind, CallKind::Stat | CallKind::Open) {
        return Some((PathBuf::new(), b"site".to_vec()));
    }
    if call.kind != CallKind::Open || call.errno != 0 {
        return None;
    }
    let name = call.path.file_name()?.as_bytes();
    let directory = call.path.parent()?;
    let stem = name.split(|&byte| byte == b'.').next()?.to_vec();
    if stem.is_empty() || is_script(&call.path, image) {
        return None;
    }
    if name.ends_with(b".pyc") {
        let is_cached = directory.file_name() == Some(OsStr::new("__pycache__"));
        let directory = if is_cached { directory.parent()? } else { directory };
        return Some((directory.to_owned(), stem));
    }
    let is_extension = name.ends_with(b".so") && !name.starts_with(b"lib");
    (name.ends_with(b".py") || is_extension).then(|| (directory.to_owned(), stem))
}

/// Returns whether a file is the interpreter's script.
fn is_script(path: &Path, image: &Image) -> bool {
    let name = path.file_name().unwrap_or_default().as_bytes();
    let mut arguments = image.command.split(|&byte| byte == b' ').skip(1);
    arguments.any(|argument| argument.ends_with(name) && argument.rsplit(|&byte| byte == b'/').next() == Some(name))
}

/// Returns the directory in which a module's top-level module was found, and the latter's name.
fn top_of(directory: &Path, stem: &[u8], packages: &BTreeSet<PathBuf>) -> (PathBuf, Vec<u8>) {
    let mut parts: Vec<&OsStr> = Vec::new();
    let mut root = directory;
    let is_root = |path: &Path| {
        let name = path.file_name().unwrap_or_default();
        ROOTS.iter().any(|root| name == *root)
    };
    let has_root = directory.ancestors().any(is_root);
    while !is_root(root) && (has_root || packages.contains(root)) {
        let (Some(name), Some(parent)) = (root.file_name(), root.parent()) else { break };
        parts.push(name);
        root = parent;
    }
    let top = parts.last().map_or_else(|| stem.to_vec(), |name| name.as_bytes().to_vec());
    (root.to_owned(), top)
}

/// Returns the index of the first of the calls right before a module's opening that look its name up.
fn first_look_up(before: &[Call], name: &[u8]) -> usize {
    let searches = |call: &Call| {
        let own = call.path.file_name().unwrap_or_default().as_bytes();
        let in_package =
            call.path.ancestors().take(3).any(|path| path.file_name().is_some_and(|n| n.as_bytes() == name));
        let is_named = own.split(|&byte| byte == b'.').next() == Some(name);
        let scans =
            call.kind == CallKind::List || call.kind == CallKind::Open && own.split(|&b| b == b'.').count() == 1;
        let checks = call.kind == CallKind::Stat && !own.contains(&b'.');
        is_named || in_package || scans || checks
    };
    let count = before.iter().rev().take_while(|call| searches(call)).count();
    before.len() - count
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(calls: &[(u64, CallKind, u32, &str)]) -> Image {
        let call = |&(at_ns, kind, errno, path): &(u64, CallKind, u32, &str)| Call {
            at_ns,
            length_ns: 1,
            process: 1,
            kind,
            errno,
            size: 0,
            path: path.into(),
        };
        let (file, command) = (PathBuf::from("/usr/bin/python3.11"), b"python3 /home/run.py".to_vec());
        Image { file, command, calls: calls.iter().map(call).collect(), ..Image::default() }
    }

    #[test]
    fn packages_may_lack_an_init() {
        let image = image(&[
            (10, CallKind::Open, 0, "/usr/lib/python3.11/encodings/__pycache__/__init__.cpython-311.pyc"),
            (20, CallKind::Open, 0, "/venv/lib/python3.11/site-packages/more.pth"),
            (25, CallKind::Read, 0, "/venv/lib/python3.11/site-packages/more.pth"),
            (30, CallKind::List, 0, "/more"),
            (35, CallKind::Stat, 0, "/more/parts"),
            (40, CallKind::List, 0, "/more/parts"),
            (50, CallKind::Open, 0, "/more/parts/__pycache__/one.cpython-311.pyc"),
        ]);
        let modules = modules(&image);
        let found: Vec<(&str, &Path)> = modules.iter().map(|module| (&*module.top, &*module.root)).collect();
        let stdlib = Path::new("/usr/lib/python3.11");
        assert_eq!(found, [("encodings", stdlib), ("site", Path::new("")), ("parts", Path::new("/more"))]);
        assert_eq!((modules[1].start_ns, modules[1].end_ns), (20, 30));
    }

    #[test]
    fn modules_are_in_packages() {
        let image = image(&[
            (10, CallKind::Open, 0, "/home/run.py"),
            (20, CallKind::Stat, 2, "/empty/numpy"),
            (30, CallKind::Stat, 0, "/sw/site-packages/numpy/__init__.py"),
            (40, CallKind::Open, 0, "/sw/site-packages/numpy/__pycache__/__init__.cpython-311.pyc"),
            (50, CallKind::Read, 0, "/sw/site-packages/numpy/__pycache__/__init__.cpython-311.pyc"),
            (60, CallKind::Stat, 0, "/usr/lib/python3.11/json/__init__.py"),
            (65, CallKind::Open, 0, "/usr/lib/python3.11/json/__pycache__/__init__.cpython-311.pyc"),
            (70, CallKind::Open, 2, "/sw/site-packages/numpy/core/__pycache__/multi.cpython-311.pyc"),
            (80, CallKind::Open, 0, "/sw/site-packages/numpy/core/multi.py"),
            (90, CallKind::Open, 0, "/sw/site-packages/numpy/core/_m.cpython-311-x86_64-linux-gnu.so"),
        ]);
        let modules = modules(&image);
        let found: Vec<(&str, u64, u64)> = modules.iter().map(|m| (&*m.top, m.start_ns, m.end_ns)).collect();
        assert_eq!(found, [("numpy", 20, 60), ("json", 60, 70), ("numpy", 70, 90), ("numpy", 90, 91)]);
        assert_eq!(modules[0].root, Path::new("/sw/site-packages"));
        assert_eq!(modules[1].root, Path::new("/usr/lib/python3.11"));
        let imports = summarized([(&image, &modules[..])].into_iter());
        assert_eq!((&*imports[0].module, imports[0].own_ns, imports[0].total_ns), ("numpy", 61, 71));
        assert_eq!(spans(&modules).len(), 3);
    }
}
