//! Translates a program's paths to those under a mount's prefix.

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path};

use headwater_closure::program;
use headwater_closure::scope::{Scope, search_variables};

/// Returns a program below `view`, if it lies in the scope and was named by its path, and this process's variables with
/// paths below `view`.
pub fn translated(
    program: &OsStr,
    view: &Path,
    scope: Vec<(bool, String)>,
) -> (Option<OsString>, Vec<(OsString, OsString)>) {
    let scope = Scope::of_pairs(scope);
    let by_path = program.as_bytes().contains(&b'/');
    let file = program::find(program, None, &env::current_dir().unwrap_or_default()).ok();
    let program = file.filter(|_| by_path).and_then(|file| path(&scope, view, &file));
    (program, variables(&scope, view, |name| env::var_os(name)))
}

/// Returns the variables with search paths, in which directories of the scope are replaced by those below `view`.
/// Unchanged variables are left out.
fn variables(scope: &Scope, view: &Path, variable: impl Fn(&str) -> Option<OsString>) -> Vec<(OsString, OsString)> {
    let more = [("PATH", ":"), ("MANPATH", ":")];
    let changed = search_variables().chain(more).filter_map(|(name, separators)| {
        let value = variable(name)?;
        let prefixed = value_below(scope, view, &value, separators.as_bytes());
        (prefixed != value).then(|| (OsString::from(name), prefixed))
    });
    changed.collect()
}

/// Returns the path below `view` if it lies in the scope, as it is or without links.
fn path(scope: &Scope, view: &Path, path: &Path) -> Option<OsString> {
    let canonical = || path.canonicalize().ok();
    let is_clean = path.is_absolute() && !path.components().any(|c| c == Component::ParentDir);
    if is_clean && scope.includes(path) {
        return Some(below(view, path.as_os_str().as_bytes()));
    }
    canonical().filter(|c| scope.includes(c)).map(|c| below(view, c.as_os_str().as_bytes()))
}

fn value_below(scope: &Scope, view: &Path, value: &OsStr, separators: &[u8]) -> OsString {
    let is_separator = |b: &u8| separators.contains(b);
    let mut changed = Vec::new();
    let mut rest = value.as_bytes();
    loop {
        let end = rest.iter().position(is_separator).unwrap_or(rest.len());
        let (part, after) = rest.split_at(end);
        let is_served = part.starts_with(b"/") && scope.includes(Path::new(OsStr::from_bytes(part)));
        changed.extend_from_slice(if is_served { view.as_os_str().as_bytes() } else { b"" });
        changed.extend_from_slice(part);
        let Some((separator, after)) = after.split_first() else { return OsString::from_vec(changed) };
        changed.push(*separator);
        rest = after;
    }
}

fn below(view: &Path, path: &[u8]) -> OsString {
    OsString::from_vec([view.as_os_str().as_bytes(), path].concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use headwater_closure::scope::Entry;

    fn scope(entries: &[(bool, &str)]) -> Scope {
        let entry = |&(included, path): &(bool, &str)| Entry { included, path: path.into(), reason: String::new() };
        Scope { entries: entries.iter().map(entry).collect(), refused: Vec::new() }
    }

    #[test]
    fn parts_in_the_scope_are_prefixed() {
        let scope = scope(&[(true, "/sw"), (false, "/sw/out")]);
        let check = |name: &str, value: &str, expected: Option<&str>| {
            let own = |asked: &str| (asked == name).then(|| OsString::from(value));
            let changed = variables(&scope, Path::new("/n0/view"), own);
            let expected = expected.map(|e| (OsString::from(name), OsString::from(e)));
            assert_eq!(changed, Vec::from_iter(expected), "{name}={value}");
        };
        check("PATH", "/usr/bin:/sw/bin:", Some("/usr/bin:/n0/view/sw/bin:"));
        check("PATH", "/usr/bin:/sw/out/bin:sw", None);
        check("LD_LIBRARY_PATH", "/sw/a;/sw/b", Some("/n0/view/sw/a;/n0/view/sw/b"));
        check("LUA_PATH", "/sw/?.lua;;/x/?.lua", Some("/n0/view/sw/?.lua;;/x/?.lua"));
        check("VIRTUAL_ENV", "/sw/my env:x", Some("/n0/view/sw/my env:x"));
        check("HOME", "/sw/home", None);
    }

    #[test]
    fn programs_by_either_name() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        std::fs::create_dir(root.join("sw")).unwrap();
        std::fs::write(root.join("sw/tool"), "").unwrap();
        std::os::unix::fs::symlink("sw/tool", root.join("tool")).unwrap();
        let scope = scope(&[(true, root.join("sw").to_str().unwrap())]);
        let below = Some(OsString::from(format!("/v{}/sw/tool", root.display())));
        assert_eq!(path(&scope, Path::new("/v"), &root.join("sw/tool")), below);
        assert_eq!(path(&scope, Path::new("/v"), &root.join("tool")), below);
        assert_eq!(path(&scope, Path::new("/v"), Path::new("/bin/sh")), None);
    }
}
