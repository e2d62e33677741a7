//! No import cycles: of two files of a crate, at most one needs the other, directly or through others.
//!
//! A file needs the files that define what its paths name. Methods that a file adds to another file's type count as
//! nothing: a call of them names no path.

use std::collections::{BTreeMap, BTreeSet};

use super::imports::{self, Imports};

/// Re-exports that a name may pass through.
const REEXPORTS_MAX: usize = 8;

/// A module's path from its crate's root.
type Module = Vec<String>;
/// Which names a file takes from which other.
type Taken<'a> = BTreeMap<&'a str, BTreeMap<&'a str, BTreeSet<String>>>;

struct File<'a> {
    path: &'a str,
    imports: Imports,
}

/// Complaints about import cycles in each crate of these files (paths from the root, with their text).
pub fn check(files: &[(&str, String)]) -> Vec<String> {
    let mut crates = BTreeMap::<&str, BTreeMap<Module, File>>::new();
    for (path, source) in files {
        let Some((name, inside)) = path.split_once("/src/") else { continue };
        let Some(inside) = inside.strip_suffix(".rs") else { continue };
        if !name.contains('/') {
            let file = File { path, imports: imports::read(source) };
            crates.entry(name).or_default().insert(module_of(inside), file);
        }
    }
    crates.into_values().flat_map(|modules| cycles(&taken(&without_tests(modules)))).collect()
}

/// The module of `src/INSIDE.rs`.
fn module_of(inside: &str) -> Module {
    let mut module: Module = inside.split('/').map(str::to_owned).collect();
    if module.last().is_some_and(|last| last == "mod") || inside == "lib" {
        module.pop();
    }
    module
}

/// Without modules that exist for tests. A binary without a library is its crate's root.
fn without_tests(mut modules: BTreeMap<Module, File>) -> BTreeMap<Module, File> {
    if !modules.contains_key(&Module::new())
        && let Some(main) = modules.remove(&vec!["main".to_owned()])
    {
        modules.insert(Module::new(), main);
    }
    let of_tests: Vec<Module> = modules
        .iter()
        .flat_map(|(module, file)| file.imports.test_children.iter().map(|child| below(module, child)))
        .collect();
    modules.retain(|module, _| !of_tests.iter().any(|tests| module.starts_with(tests)));
    modules
}

fn below(module: &[String], child: &str) -> Module {
    [module, &[child.to_owned()]].concat()
}

/// The imports of each file from others.
fn taken<'a>(modules: &BTreeMap<Module, File<'a>>) -> Taken<'a> {
    let mut taken = Taken::new();
    for (module, file) in modules {
        for import in &file.imports.paths {
            let Some((from, name)) = resolve(modules, module, &import.path, REEXPORTS_MAX) else { continue };
            if from.path != file.path {
                taken.entry(file.path).or_default().entry(from.path).or_default().insert(name);
            }
        }
    }
    taken
}

/// The file that defines what `path` names in `module`, and its name there; `None` if another crate does.
fn resolve<'m, 'a>(
    modules: &'m BTreeMap<Module, File<'a>>,
    module: &[String],
    path: &[String],
    reexports_max: usize,
) -> Option<(&'m File<'a>, String)> {
    let children = &modules.get(module)?.imports.children;
    let (mut at, mut rest) = match path.first()?.as_str() {
        "crate" => (Module::new(), &path[1..]),
        "self" => (module.to_vec(), &path[1..]),
        "super" => (module.to_vec(), path),
        child if children.contains(child) => (module.to_vec(), path),
        _ => return None,
    };
    while let [segment, after @ ..] = rest {
        if segment == "super" {
            at.pop();
        } else if modules.contains_key(&below(&at, segment)) {
            at.push(segment.clone());
        } else {
            break;
        }
        rest = after;
    }
    let file = modules.get(&at)?;
    let Some(name) = rest.first() else { return Some((file, at.last().cloned().unwrap_or_default())) };
    let reexport = file.imports.paths.iter().find(|import| import.is_reexport && import.name == *name);
    if let Some(reexport) = reexport.filter(|_| reexports_max > 0) {
        let behind = [&reexport.path, &rest[1..]].concat();
        if let Some(found) = resolve(modules, &at, &behind, reexports_max - 1) {
            return Some(found);
        }
    }
    Some((file, name.clone()))
}

/// A complaint for each set of files that need each other.
fn cycles(taken: &Taken) -> Vec<String> {
    let reached: BTreeMap<&str, BTreeSet<&str>> = taken.keys().map(|file| (*file, reach(taken, file))).collect();
    let mut complaints = Vec::new();
    let mut seen = BTreeSet::new();
    for (file, reach) in &reached {
        let cycle: Vec<&str> =
            reach.iter().copied().filter(|other| reached.get(other).is_some_and(|r| r.contains(file))).collect();
        if cycle.contains(file) && !seen.contains(file) {
            complaints.push(complaint(taken, &cycle));
            seen.extend(cycle);
        }
    }
    complaints
}

/// The files that `file` needs, directly or through others.
fn reach<'a>(taken: &Taken<'a>, file: &str) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut pending = vec![file];
    while let Some(file) = pending.pop() {
        for next in taken.get(file).into_iter().flat_map(|from| from.keys()) {
            if reached.insert(*next) {
                pending.push(next);
            }
        }
    }
    reached
}

fn complaint(taken: &Taken, cycle: &[&str]) -> String {
    let mut complaint = format!("{}: import cycle of {} files", cycle[0], cycle.len());
    for file in cycle {
        for (from, names) in taken[file].iter().filter(|(from, _)| cycle.contains(from)) {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            complaint.push_str(&format!("\n  {file} takes {} from {from}", names.join(", ")));
        }
    }
    complaint
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(files: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<(&str, String)> = files.iter().map(|&(path, source)| (path, source.to_owned())).collect();
        check(&files)
    }

    const CYCLE: &str = "\n  c/src/a.rs takes B from c/src/b.rs\n  c/src/b.rs takes A from c/src/a.rs";

    #[test]
    fn cycles_are_found() {
        let root = ("c/src/lib.rs", "mod a;\nmod b;");
        let a = ("c/src/a.rs", "use crate::b::B;");
        assert_eq!(complaints(&[root, a, ("c/src/b.rs", "use std::fmt;\nuse headwater_abi::A;")]), [""; 0]);
        let found = complaints(&[root, a, ("c/src/b.rs", "use super::{a::A};")]);
        assert_eq!(found, [format!("c/src/a.rs: import cycle of 2 files{CYCLE}")]);
        // Modules and files that only tests need are left out.
        assert!(complaints(&[root, a, ("c/src/b.rs", "#[cfg(test)]\nmod tests {\n use crate::a::A;\n}")]).is_empty());
        let b = ("c/src/b.rs", "#[cfg(test)]\nmod tests;");
        assert!(complaints(&[root, a, b, ("c/src/b/tests.rs", "use crate::{a::A, b::B};")]).is_empty());
    }

    #[test]
    fn names_lead_to_the_file_that_defines_them() {
        let root = ("c/src/lib.rs", "mod a;\nmod b;\npub use a::A;\npub use b::B;");
        let (a, b) = (("c/src/a.rs", "use crate::B;"), ("c/src/b.rs", "use crate::A;"));
        assert_eq!(complaints(&[root, a, ("c/src/b.rs", "")]), [""; 0]);
        assert_eq!(complaints(&[root, a, b]), [format!("c/src/a.rs: import cycle of 2 files{CYCLE}")]);
    }

    #[test]
    fn a_module_and_its_child() {
        let child = ("c/src/a/child.rs", "use super::A;");
        let cycle = "c/src/a.rs: import cycle of 2 files\n  c/src/a.rs takes C from c/src/a/child.rs\n  \
                     c/src/a/child.rs takes A from c/src/a.rs";
        assert_eq!(complaints(&[("c/src/a.rs", "mod child;\nuse child::C;"), child]), [cycle]);
        assert_eq!(complaints(&[("c/src/a.rs", "mod child;\nuse self::child::{self, C};"), child]).len(), 1);
        assert_eq!(complaints(&[("c/src/a.rs", "mod child;\nuse other::child::C;"), child]), [""; 0]);
        assert_eq!(complaints(&[("c/src/a.rs", "mod child;\nfn f() { child::g() }"), child]).len(), 1);
        let binary = [("c/src/main.rs", "mod a;\nuse a::A;"), ("c/src/a.rs", "use crate::main;")];
        assert_eq!(complaints(&binary).len(), 1);
    }

    #[test]
    fn crates_are_apart() {
        let files = [
            ("c/src/a.rs", "use crate::b::B;"),
            ("d/src/b.rs", "use crate::a::A;"),
            ("c/tests/b.rs", "use crate::a::A;"),
        ];
        assert_eq!(complaints(&files), [""; 0]);
    }
}
