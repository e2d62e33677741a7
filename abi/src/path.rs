//! Absolute paths as bytes, cleaned as text.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cmp::Ordering;
use core::fmt;
use core::hash::{Hash, Hasher};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::hash;

/// The longest path that the kernel takes, without its terminating NUL.
pub const PATH_BYTES_MAX: usize = 4095;
/// The longest path that a process can reach by relative steps.
pub const DEEP_BYTES_MAX: usize = 1 << 20;

/// An absolute path without `//`, `/./`, a trailing slash or NUL; `..` stays, since only the directory tree
/// determines its meaning. Clones share the bytes, and their hash is computed once.
#[derive(Clone)]
pub struct Path {
    hash: u64,
    bytes: Arc<[u8]>,
}

impl Path {
    /// Cleans `raw`. `None` if it is not absolute, too long or contains a NUL.
    pub fn new(raw: &[u8]) -> Option<Path> {
        Path::deep(raw).filter(|_| raw.len() <= PATH_BYTES_MAX)
    }

    /// Cleans a path that may be too long for one system call. Such a path is in no table and in no message.
    pub fn deep(raw: &[u8]) -> Option<Path> {
        if raw.first() != Some(&b'/') || raw.len() > DEEP_BYTES_MAX || raw.contains(&0) {
            return None;
        }
        let mut clean = Vec::with_capacity(raw.len());
        for component in raw.split(|&b| b == b'/').filter(|c| !c.is_empty() && *c != b".") {
            clean.push(b'/');
            clean.extend_from_slice(component);
        }
        if clean.is_empty() {
            clean.push(b'/');
        }
        Some(Path::of(&clean))
    }

    /// Makes a path of bytes that are clean.
    fn of(clean: &[u8]) -> Path {
        Path { hash: hash::bytes(clean), bytes: Arc::from(clean) }
    }

    /// Returns the root directory.
    pub fn root() -> Path {
        Path::of(b"/")
    }

    /// Returns the path's bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns [`hash::bytes`] of the path.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// Returns the bytes of all but the last component; `None` for `/`.
    pub fn parent_bytes(&self) -> Option<&[u8]> {
        if self.bytes.len() == 1 {
            return None;
        }
        let slash = self.bytes.iter().rposition(|&b| b == b'/')?;
        Some(&self.bytes[..slash.max(1)])
    }

    /// Returns all but the last component; `None` for `/`.
    pub fn parent(&self) -> Option<Path> {
        self.parent_bytes().map(Path::of)
    }

    /// Returns the last component; empty for `/`.
    pub fn name(&self) -> &[u8] {
        let slash = self.bytes.iter().rposition(|&b| b == b'/').unwrap_or(0);
        &self.bytes[slash + 1..]
    }

    /// Returns this path with one more component; `None` if it would be too long.
    pub fn join(&self, name: &[u8]) -> Option<Path> {
        self.join_deep(name).filter(|joined| !joined.is_deep())
    }

    /// Returns this path with one more component, even if it is too long for one system call.
    pub fn join_deep(&self, name: &[u8]) -> Option<Path> {
        let mut joined = Vec::with_capacity(self.bytes.len() + 1 + name.len());
        joined.extend_from_slice(if self.bytes.len() == 1 { b"" } else { &self.bytes });
        joined.push(b'/');
        joined.extend_from_slice(name);
        (joined.len() <= DEEP_BYTES_MAX).then(|| Path::of(&joined))
    }

    /// Returns whether the path is too long for one system call.
    pub fn is_deep(&self) -> bool {
        self.bytes.len() > PATH_BYTES_MAX
    }

    /// Returns this path, or the lowest directory above it that is not deep.
    pub fn reachable(&self) -> Path {
        let above = core::iter::successors(Some(self.as_bytes()), |path| {
            path.iter().rposition(|&b| b == b'/').map(|slash| &path[..slash.max(1)])
        });
        above.into_iter().find(|path| path.len() <= PATH_BYTES_MAX).map_or_else(Path::root, Path::of)
    }

    /// Returns the components from the top.
    pub fn components(&self) -> impl DoubleEndedIterator<Item = &[u8]> {
        self.bytes.split(|&b| b == b'/').filter(|c| !c.is_empty())
    }

    /// Returns whether this path is `ancestor` or below it.
    pub fn is_within(&self, ancestor: &Path) -> bool {
        is_within(&self.bytes, &ancestor.bytes)
    }
}

/// Returns [`Path::is_within`] of the bytes of two paths.
pub fn is_within(path: &[u8], ancestor: &[u8]) -> bool {
    ancestor.len() == 1 || (path.starts_with(ancestor) && matches!(path.get(ancestor.len()), None | Some(b'/')))
}

impl PartialEq for Path {
    fn eq(&self, other: &Path) -> bool {
        self.hash == other.hash && (Arc::ptr_eq(&self.bytes, &other.bytes) || self.bytes == other.bytes)
    }
}

impl Eq for Path {}

impl Hash for Path {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

impl PartialOrd for Path {
    fn partial_cmp(&self, other: &Path) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Path {
    /// By their bytes.
    fn cmp(&self, other: &Path) -> Ordering {
        if Arc::ptr_eq(&self.bytes, &other.bytes) { Ordering::Equal } else { self.bytes.cmp(&other.bytes) }
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&alloc::string::String::from_utf8_lossy(&self.bytes), f)
    }
}

impl fmt::Debug for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Path {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.bytes)
    }
}

impl<'de> Deserialize<'de> for Path {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Path, D::Error> {
        let raw = <&[u8]>::deserialize(deserializer)?;
        Path::new(raw).ok_or_else(|| serde::de::Error::custom("not an absolute path"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(raw: &str, clean: Option<&str>) {
        assert_eq!(Path::new(raw.as_bytes()).map(|p| alloc::format!("{p}")).as_deref(), clean, "{raw}");
    }

    #[test]
    fn cleaning() {
        check("/", Some("/"));
        check("//a///b/./c/", Some("/a/b/c"));
        check("/a/../b", Some("/a/../b"));
        check("a/b", None);
        check("", None);
        check("/a\0b", None);
    }

    #[test]
    fn what_is_too_long_for_a_path_is_deep() {
        let longest = Path::new(&[b"/a/", &[b'x'; PATH_BYTES_MAX - 3][..]].concat()).unwrap();
        assert!(!longest.is_deep() && longest.reachable() == longest && longest.join(b"y").is_none());
        let deep = longest.join_deep(b"y").and_then(|deep| deep.join_deep(b"z")).unwrap();
        assert!(deep.is_deep() && deep.reachable() == longest && Path::new(deep.as_bytes()).is_none());
        assert_eq!(Path::deep(deep.as_bytes()).as_ref(), Some(&deep));
        let name = Path::root().join_deep(&[b'x'; PATH_BYTES_MAX]).unwrap();
        assert_eq!(name.reachable(), Path::root());
        assert!(name.join_deep(&[b'x'; DEEP_BYTES_MAX]).is_none());
    }

    #[test]
    fn within_compares_whole_components() {
        let path = |s: &str| Path::new(s.as_bytes()).unwrap();
        assert!(path("/a/lib/x").is_within(&path("/a/lib")));
        assert!(path("/a/lib").is_within(&path("/a/lib")));
        assert!(!path("/a/library").is_within(&path("/a/lib")));
        assert!(path("/a").is_within(&path("/")));
    }

    #[test]
    fn paths_are_equal_and_ordered_by_their_bytes() {
        let path = |s: &str| Path::new(s.as_bytes()).unwrap();
        let (one, other) = (path("/a/b"), path("/a//b/"));
        assert_eq!((&one, one.hash(), one.cmp(&other)), (&other, hash::bytes(b"/a/b"), Ordering::Equal));
        assert_eq!(path("/a/b/c").parent(), Some(one.clone()));
        assert_ne!(one, path("/a/c"));
        assert!(path("/a") < path("/a-b") && path("/a-b") < path("/a/b") && path("/b") > other);
    }

    #[test]
    fn parent_and_name() {
        let path = |s: &str| Path::new(s.as_bytes()).unwrap();
        assert_eq!(path("/a/b").parent(), Some(path("/a")));
        assert_eq!(path("/a").parent(), Some(Path::root()));
        assert_eq!(Path::root().parent(), None);
        assert_eq!(path("/a/b").name(), b"b");
        assert_eq!(Path::root().join(b"a"), Some(path("/a")));
    }
}
