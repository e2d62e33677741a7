//! glibc's search for a library by a name without a slash: `_dl_map_object` in its `elf/dl-load.c`.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::Loader;
use crate::elf::dynamic::Dynamic;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SearchLocation {
    /// A directory, and before it its subdirectories for hardware capabilities.
    Directory(PathBuf),
    /// The loader's cache, with the default directories or without them.
    Cache {
        /// Whether files in a default directory count.
        has_defaults: bool,
    },
}

#[derive(Debug)]
pub(super) struct Paths {
    /// `DT_RPATH`, expanded.
    pub(super) rpath: Vec<PathBuf>,
    /// `DT_RUNPATH`, if it has one.
    runpath: Option<Vec<PathBuf>>,
    avoids_defaults: bool,
}

impl Paths {
    /// Returns the search paths of an object in the directory of `origin`.
    pub(super) fn of(dynamic: &Dynamic, origin: &Path, loader: &Loader, cwd: &Path) -> Paths {
        let expanded = |path: &[Vec<u8>]| match path {
            // An empty path, as opposed to one with an empty element.
            [only] if only.is_empty() => Vec::new(),
            path => directories(path.iter().map(Vec::as_slice), origin, loader, cwd),
        };
        Paths {
            rpath: expanded(&dynamic.rpath),
            runpath: (!dynamic.runpath.is_empty()).then(|| expanded(&dynamic.runpath)),
            avoids_defaults: dynamic.avoids_default_directories,
        }
    }

    /// Returns the locations that are searched for what this object needs, in order. `rpaths` are those of
    /// the objects that have led to this one, itself first, and of the program; `library_path` is
    /// `LD_LIBRARY_PATH`.
    pub(super) fn locations<'a>(
        &'a self,
        rpaths: impl Iterator<Item = &'a PathBuf>,
        library_path: &'a [PathBuf],
        loader: &'a Loader,
    ) -> Vec<SearchLocation> {
        let rpaths = rpaths.filter(|_| self.runpath.is_none());
        let named = rpaths.chain(library_path).chain(self.runpath.iter().flatten());
        let mut locations: Vec<SearchLocation> = named.cloned().map(SearchLocation::Directory).collect();
        locations.push(SearchLocation::Cache { has_defaults: !self.avoids_defaults });
        if !self.avoids_defaults {
            locations.extend(loader.directories.iter().cloned().map(SearchLocation::Directory));
        }
        locations
    }
}

/// Returns the directories of `LD_LIBRARY_PATH`.
pub(super) fn library_path(value: &OsStr, origin: &Path, loader: &Loader, cwd: &Path) -> Vec<PathBuf> {
    if value.is_empty() {
        return Vec::new();
    }
    directories(value.as_bytes().split(|b| b":;".contains(b)), origin, loader, cwd)
}

fn directories<'a>(
    elements: impl Iterator<Item = &'a [u8]>,
    origin: &Path,
    loader: &Loader,
    cwd: &Path,
) -> Vec<PathBuf> {
    // An empty element is the working directory.
    let expanded = elements.filter_map(|element| {
        let element = expand(element, origin, loader)?;
        Some(cwd.join(OsStr::from_bytes(if element.is_empty() { b"." } else { &element })))
    });
    let mut all: Vec<PathBuf> = Vec::new();
    for directory in expanded {
        if !all.contains(&directory) {
            all.push(directory);
        }
    }
    all
}

/// Replaces `$ORIGIN`, `$LIB` and `$PLATFORM`, with or without braces. `None` if one of them has no value.
pub(crate) fn expand(text: &[u8], origin: &Path, loader: &Loader) -> Option<Vec<u8>> {
    let tokens: [(&[u8], Option<&[u8]>); 3] = [
        (b"ORIGIN", Some(origin.as_os_str().as_bytes())),
        (b"PLATFORM", loader.platform.as_deref()),
        (b"LIB", Some(&loader.lib)),
    ];
    let mut expanded = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&first, behind)) = rest.split_first() {
        let token =
            tokens.iter().filter(|_| first == b'$').find_map(|(name, value)| Some((after(behind, name)?, value)));
        match token {
            Some((behind, value)) => {
                expanded.extend_from_slice((*value)?);
                rest = behind;
            }
            None => {
                expanded.push(first);
                rest = behind;
            }
        }
    }
    Some(expanded)
}

/// Returns what follows a token; `None` if it is another one. A name continues as an identifier does.
fn after<'a>(text: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    if let Some(braced) = text.strip_prefix(b"{") {
        return braced.strip_prefix(name)?.strip_prefix(b"}");
    }
    let rest = text.strip_prefix(name)?;
    let goes_on = rest.first().is_some_and(|&b| b.is_ascii_alphanumeric() || b == b'_');
    (!goes_on).then_some(rest)
}
