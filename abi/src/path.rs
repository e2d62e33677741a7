//! Absolute paths as bytes, cleaned as text.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The longest path that the kernel takes, without its terminating NUL.
pub const PATH_BYTES_MAX: usize = 4095;

/// An absolute path without `//`, `/./`, a trailing slash or NUL; `..` stays, since only the
/// directory tree can tell what it means.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Path(Arc<[u8]>);

impl Path {
    /// Cleans `raw`. `None` if it is not absolute, too long or holds a NUL.
    pub fn new(raw: &[u8]) -> Option<Path> {
        if raw.first() != Some(&b'/') || raw.len() > PATH_BYTES_MAX || raw.contains(&0) {
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
        Some(Path(clean.into()))
    }

    /// The root directory.
    pub fn root() -> Path {
        Path(Arc::from(&b"/"[..]))
    }

    /// The path's bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// All but the last component; `None` for `/`.
    pub fn parent(&self) -> Option<Path> {
        if self.0.len() == 1 {
            return None;
        }
        let slash = self.0.iter().rposition(|&b| b == b'/')?;
        Some(Path(Arc::from(&self.0[..slash.max(1)])))
    }

    /// The last component; empty for `/`.
    pub fn name(&self) -> &[u8] {
        let slash = self.0.iter().rposition(|&b| b == b'/').unwrap_or(0);
        &self.0[slash + 1..]
    }

    /// This path with one more component; `None` if it would be too long.
    pub fn join(&self, name: &[u8]) -> Option<Path> {
        let mut joined = Vec::with_capacity(self.0.len() + 1 + name.len());
        joined.extend_from_slice(if self.0.len() == 1 { b"" } else { &self.0 });
        joined.push(b'/');
        joined.extend_from_slice(name);
        (joined.len() <= PATH_BYTES_MAX).then(|| Path(joined.into()))
    }

    /// The components from the top.
    pub fn components(&self) -> impl DoubleEndedIterator<Item = &[u8]> {
        self.0.split(|&b| b == b'/').filter(|c| !c.is_empty())
    }

    /// True if this path is `ancestor` or lies below it.
    pub fn is_within(&self, ancestor: &Path) -> bool {
        ancestor.0.len() == 1
            || (self.0.starts_with(&ancestor.0) && matches!(self.0.get(ancestor.0.len()), None | Some(b'/')))
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&alloc::string::String::from_utf8_lossy(&self.0), f)
    }
}

impl fmt::Debug for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Path {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0)
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
    fn within_compares_whole_components() {
        let path = |s: &str| Path::new(s.as_bytes()).unwrap();
        assert!(path("/a/lib/x").is_within(&path("/a/lib")));
        assert!(path("/a/lib").is_within(&path("/a/lib")));
        assert!(!path("/a/library").is_within(&path("/a/lib")));
        assert!(path("/a").is_within(&path("/")));
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
