//! The names of a directory.

use std::path::{Component, Path, PathBuf};

/// Returns the names of an existing directory: as it was written, if that is clean or can be cleaned, and
/// without links, which is last. Empty if it is no directory.
pub fn forms(path: &Path) -> Vec<PathBuf> {
    let Ok(canonical) = path.canonicalize() else { return Vec::new() };
    if !canonical.is_dir() {
        return Vec::new();
    }
    let literal = clean(path);
    if literal == canonical || literal.canonicalize().ok().as_ref() != Some(&canonical) {
        vec![canonical]
    } else {
        vec![literal, canonical]
    }
}

/// Returns the path with `..` resolved as text.
pub fn clean(path: &Path) -> PathBuf {
    let mut cleaned = PathBuf::from("/");
    for component in path.components() {
        match component {
            Component::Normal(name) => cleaned.push(name),
            Component::ParentDir => drop(cleaned.pop()),
            _ => {}
        }
    }
    cleaned
}
