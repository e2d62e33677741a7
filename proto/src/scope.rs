//! Which paths the node answers for.

use alloc::vec::Vec;

use headwater_abi::Path;

/// Included and excluded directories; the longest match decides.
#[derive(Debug)]
pub(crate) struct Scope(Vec<(bool, Path)>);

impl Scope {
    pub(crate) fn new(directories: Vec<(bool, Path)>) -> Scope {
        Scope(directories)
    }

    pub(crate) fn contains(&self, path: &Path) -> bool {
        self.0
            .iter()
            .filter(|(_, directory)| path.is_within(directory))
            .max_by_key(|(_, directory)| directory.as_bytes().len())
            .is_some_and(|&(included, _)| included)
    }

    /// Where a walk to `path` starts: the top of the included region that holds it, and how many of
    /// the path's components that takes. A `..` ends the search, since the tree alone can tell where
    /// it leads. `None` if the path is not in the scope.
    pub(crate) fn start(&self, path: &Path) -> Option<(Path, usize)> {
        let mut prefix = Path::root();
        let mut inside = self.contains(&prefix);
        let mut start = inside.then(|| (prefix.clone(), 0));
        for (number, component) in path.components().enumerate() {
            if component == b".." {
                break;
            }
            prefix = prefix.join(component)?;
            let included = self.contains(&prefix);
            if included && !inside {
                start = Some((prefix.clone(), number + 1));
            }
            inside = included;
        }
        start.filter(|_| inside)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn path(text: &str) -> Path {
        Path::new(text.as_bytes()).unwrap()
    }

    #[test]
    fn longest_match_decides_and_walks_start_at_the_top_of_their_region() {
        let scope = Scope::new(vec![(true, path("/sw")), (false, path("/sw/x")), (true, path("/sw/x/y"))]);
        let check = |raw: &str, start: Option<(&str, usize)>| {
            assert_eq!(scope.start(&path(raw)), start.map(|(p, n)| (path(p), n)), "{raw}");
        };
        check("/sw/lib/a", Some(("/sw", 1)));
        check("/sw", Some(("/sw", 1)));
        check("/sw/x/a", None);
        check("/sw/x/y/z", Some(("/sw/x/y", 3)));
        check("/sw/lib/../../etc", Some(("/sw", 1)));
        check("/swx", None);
        check("/x/../sw", None);
    }
}
