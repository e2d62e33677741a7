//! The scope: which paths the node serves.

use alloc::vec::Vec;

use headwater_abi::Path;
use headwater_abi::path::is_within;

/// Included and excluded directories; the longest match decides.
#[derive(Debug)]
pub(crate) struct Scope(Vec<(bool, Path)>);

impl Scope {
    pub(crate) fn new(directories: Vec<(bool, Path)>) -> Scope {
        Scope(directories)
    }

    pub(crate) fn contains(&self, path: &Path) -> bool {
        self.contains_bytes(path.as_bytes())
    }

    /// Returns whether a path with these bytes is in the scope.
    pub(crate) fn contains_bytes(&self, path: &[u8]) -> bool {
        self.0
            .iter()
            .filter(|(_, directory)| is_within(path, directory.as_bytes()))
            .max_by_key(|(_, directory)| directory.as_bytes().len())
            .is_some_and(|&(included, _)| included)
    }

    /// Returns where a walk to `path` starts: the bytes of the topmost included directory that contains it,
    /// and the number of its components. A `..` ends the search, since only the tree shows where it leads.
    /// `None` if the path is not in the scope.
    pub(crate) fn start<'a>(&self, path: &'a [u8]) -> Option<(&'a [u8], usize)> {
        let mut inside = self.contains_bytes(b"/");
        let mut start = inside.then_some((&path[..1], 0));
        let (mut end, mut number) = (0, 0);
        while end < path.len() && path.len() > 1 {
            let name = &path[end + 1..];
            let bytes = name.iter().position(|&b| b == b'/').unwrap_or(name.len());
            if &name[..bytes] == b".." {
                break;
            }
            (end, number) = (end + 1 + bytes, number + 1);
            let included = self.contains_bytes(&path[..end]);
            if included && !inside {
                start = Some((&path[..end], number));
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
            assert_eq!(scope.start(raw.as_bytes()), start.map(|(p, n)| (p.as_bytes(), n)), "{raw}");
        };
        check("/sw/lib/a", Some(("/sw", 1)));
        check("/sw", Some(("/sw", 1)));
        check("/sw/x/a", None);
        check("/sw/x/y/z", Some(("/sw/x/y", 3)));
        check("/sw/lib/../../etc", Some(("/sw", 1)));
        check("/swx", None);
        check("/x/../sw", None);
        check("/", None);
    }
}
