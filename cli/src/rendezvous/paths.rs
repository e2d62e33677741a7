//! Paths that differ between this machine and the nodes (`--map`).

use std::path::{Path, PathBuf};

/// A directory on this machine, and its path on the nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    from: PathBuf,
    to: PathBuf,
}

/// Parses `FROM=TO`, two absolute paths.
///
/// # Errors
/// The text is malformed.
pub fn parse_mapping(text: &str) -> Result<Mapping, String> {
    let (from, to) = text.split_once('=').ok_or("write it as FROM=TO: a directory here, and its path on the nodes")?;
    let mapping = Mapping { from: from.into(), to: to.into() };
    let is_absolute = mapping.from.is_absolute() && mapping.to.is_absolute();
    is_absolute.then_some(mapping).ok_or_else(|| "write two absolute paths".into())
}

/// Returns the nodes' path of a path on this machine, by the mapping with the longest matching directory.
pub fn on_nodes(mappings: &[Mapping], path: &Path) -> PathBuf {
    moved(mappings.iter().map(|mapping| (&*mapping.from, &*mapping.to)), path)
}

/// Returns this machine's path of a path on the nodes.
pub fn here(mappings: &[Mapping], path: &Path) -> PathBuf {
    moved(mappings.iter().map(|mapping| (&*mapping.to, &*mapping.from)), path)
}

fn moved<'a>(directories: impl Iterator<Item = (&'a Path, &'a Path)>, path: &Path) -> PathBuf {
    let holding = directories.filter_map(|(from, to)| Some((from, to, path.strip_prefix(from).ok()?)));
    match holding.max_by_key(|(from, ..)| from.as_os_str().len()) {
        Some((_, to, below)) if below.as_os_str().is_empty() => to.to_owned(),
        Some((_, to, below)) => to.join(below),
        None => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_directory_decides() {
        let mappings = ["/front/sw=/sw", "/front=/data", "/x=/"].map(|text| parse_mapping(text).unwrap());
        let check = |path: &str, expected: &str| {
            assert_eq!(on_nodes(&mappings, Path::new(path)), Path::new(expected));
            assert_eq!(here(&mappings, Path::new(expected)), Path::new(path));
        };
        check("/front/sw", "/sw");
        check("/front/sw/lib/x.so", "/sw/lib/x.so");
        check("/front/swap", "/data/swap");
        check("/x/usr", "/usr");
        assert_eq!(on_nodes(&mappings, Path::new("/frontier")), Path::new("/frontier"));
        assert_eq!(here(&[], Path::new("/sw")), Path::new("/sw"));
    }

    #[test]
    fn what_is_no_mapping_is_refused() {
        for text in ["", "/a", "a=/b", "/a=b", "=/b"] {
            assert!(parse_mapping(text).is_err(), "{text}");
        }
    }
}
