//! Files of the repository.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context, Result};

/// The files in `directory` and below whose extension is one of these, sorted; none if there is no such directory.
pub fn with_extensions(directory: &Path, extensions: &[&str]) -> Result<Vec<PathBuf>> {
    if !directory.exists() {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).with_context(|| directory.display().to_string())? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(with_extensions(&path, extensions)?);
        } else if path.extension().and_then(|e| e.to_str()).is_some_and(|e| extensions.contains(&e)) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// All files in `directory` and below, sorted.
pub fn all(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).with_context(|| directory.display().to_string())? {
        let path = entry?.path();
        if path.is_dir() { found.extend(all(&path)?) } else { found.push(path) }
    }
    found.sort();
    Ok(found)
}

/// When the file last changed; `None` if it does not exist.
pub fn modified(path: &Path) -> Option<SystemTime> {
    path.metadata().and_then(|m| m.modified()).ok()
}

/// When anything in these trees last changed, names included.
pub fn newest(trees: &[PathBuf]) -> Result<SystemTime> {
    let mut newest = SystemTime::UNIX_EPOCH;
    let mut pending = trees.to_vec();
    while let Some(path) = pending.pop() {
        let metadata = path.metadata().with_context(|| path.display().to_string())?;
        newest = newest.max(metadata.modified()?);
        if metadata.is_dir() {
            for entry in std::fs::read_dir(&path)? {
                pending.push(entry?.path());
            }
        }
    }
    Ok(newest)
}

/// Copies `from` to `to`, making directories, unless `to` has the same bytes already.
pub fn copy_if_changed(from: &Path, to: &Path) -> Result<()> {
    let data = std::fs::read(from).with_context(|| from.display().to_string())?;
    if std::fs::read(to).is_ok_and(|old| old == data) {
        return Ok(());
    }
    let directory = to.parent().context("a file lies in a directory")?;
    std::fs::create_dir_all(directory)?;
    // A running program's file cannot be written, but another file can take its name.
    let partial = partial(to);
    std::fs::copy(from, &partial)?;
    std::fs::rename(&partial, to).with_context(|| to.display().to_string())
}

/// A name beside `path` for a file that is to be renamed to it; another run of this program has another.
pub fn partial(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".partial-{}", std::process::id()));
    name.into()
}

/// Copies a whole tree of directories and files.
pub fn copy_tree(from: &Path, to: &Path) -> Result<()> {
    for entry in std::fs::read_dir(from).with_context(|| from.display().to_string())? {
        let path = entry?.path();
        let target = to.join(path.file_name().context("an entry has a name")?);
        if path.is_dir() { copy_tree(&path, &target)? } else { copy_if_changed(&path, &target)? }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trees_are_copied_and_unchanged_files_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let (from, to) = (directory.path().join("from"), directory.path().join("to"));
        std::fs::create_dir_all(from.join("a/b")).unwrap();
        std::fs::write(from.join("a/b/c.c"), "1").unwrap();
        assert_eq!(with_extensions(directory.path(), &["c"]).unwrap(), [from.join("a/b/c.c")]);
        copy_tree(&from, &to).unwrap();
        let first = modified(&to.join("a/b/c.c")).unwrap();
        copy_tree(&from, &to).unwrap();
        assert_eq!(modified(&to.join("a/b/c.c")), Some(first));
        std::fs::write(from.join("a/b/c.c"), "2").unwrap();
        copy_tree(&from, &to).unwrap();
        assert_eq!(std::fs::read_to_string(to.join("a/b/c.c")).unwrap(), "2");
        assert!(newest(std::slice::from_ref(&to)).unwrap() >= first);
    }
}
