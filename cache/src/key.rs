//! What identifies content: the file's name, its attributes, and which part of it.

use std::fmt;

use headwater_abi::wire::Aspect;
use headwater_abi::{Attr, Path};

/// The domain of the hash, with the version of what is hashed.
const DOMAIN: &[u8] = b"headwater cache 1\0";

/// A hash of all by which a version of a file's content is known.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key(blake3::Hash);

impl Key {
    /// Returns the key of a file's content. The device's number is not part of it, since each node may have another.
    pub fn new(path: &Path, attr: &Attr, aspect: Aspect) -> Key {
        let mut hasher = blake3::Hasher::new();
        hasher.update(DOMAIN).update(path.as_bytes()).update(&[0]);
        for number in [attr.ino, attr.size, attr.mtime.0 as u64, attr.ctime.0 as u64] {
            hasher.update(&number.to_le_bytes());
        }
        for number in [attr.mtime.1, attr.ctime.1] {
            hasher.update(&number.to_le_bytes());
        }
        let (kind, block) = match aspect {
            Aspect::Loadable => (1, 0),
            Aspect::Block(number) => (2, number),
            _ => (0, 0),
        };
        hasher.update(&[kind]).update(&u32::to_le_bytes(block));
        Key(hasher.finalize())
    }

    /// Returns it as hexadecimal digits.
    pub(crate) fn name(self) -> String {
        self.0.to_hex().to_string()
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn each_part_counts() {
        let path = |name: &str| Path::new(name.as_bytes()).unwrap();
        let attr = Attr { ino: 1, size: 2, mtime: (3, 4), ctime: (5, 6), ..Attr::default() };
        let same = Attr { dev_major: 9, nlink: 2, atime: (7, 7), ..attr };
        assert_eq!(Key::new(&path("/a"), &attr, Aspect::Whole), Key::new(&path("/a"), &same, Aspect::Whole));
        let changes: [fn(&mut Attr); 6] = [
            |attr| attr.ino += 1,
            |attr| attr.size += 1,
            |attr| attr.mtime.0 -= 1,
            |attr| attr.mtime.1 += 1,
            |attr| attr.ctime.0 += 1,
            |attr| attr.ctime.1 += 1,
        ];
        let changed = changes.map(|change| {
            let mut other = attr;
            change(&mut other);
            (path("/a"), other, Aspect::Whole)
        });
        let others =
            [Aspect::Loadable, Aspect::Block(0), Aspect::Block(1), Aspect::Whole].map(|a| (path("/a"), attr, a));
        let named = [path("/b"), path("/a/b")].map(|path| (path, attr, Aspect::Whole));
        let keys: HashSet<Key> = changed
            .iter()
            .chain(&others)
            .chain(&named)
            .map(|(path, attr, aspect)| Key::new(path, attr, *aspect))
            .collect();
        assert_eq!(keys.len(), changed.len() + others.len() + named.len());
    }
}
