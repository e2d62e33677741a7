//! A file's attributes, as returned by `statx`.

use serde::{Deserialize, Serialize};

/// What a path leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[repr(u8)]
pub enum Kind {
    /// Nothing is published about the path itself.
    Unknown = 0,
    /// The source has no such name.
    Absent = 1,
    /// A directory.
    Dir = 2,
    /// A regular file.
    File = 3,
    /// A symbolic link.
    Link = 4,
    /// The source returns an error number.
    Error = 5,
    /// A device, socket or FIFO, which is never served.
    Other = 6,
}

impl Kind {
    /// Returns the kind with this number.
    pub fn from_number(number: u8) -> Option<Kind> {
        Some(match number {
            0 => Kind::Unknown,
            1 => Kind::Absent,
            2 => Kind::Dir,
            3 => Kind::File,
            4 => Kind::Link,
            5 => Kind::Error,
            6 => Kind::Other,
            _ => return None,
        })
    }
}

/// `S_IFMT` and its values, the same on every Linux.
pub mod mode {
    /// Mask of the file type.
    pub const TYPE: u32 = 0o170_000;
    /// Directory.
    pub const DIR: u32 = 0o040_000;
    /// Regular file.
    pub const FILE: u32 = 0o100_000;
    /// Symbolic link.
    pub const LINK: u32 = 0o120_000;
    /// Set-user-ID and set-group-ID.
    pub const SET_ID: u32 = 0o006_000;
}

/// The whole `statx` of a source file. Times are seconds and nanoseconds since the epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the fields are statx's")]
pub struct Attr {
    pub mode: u32,
    pub nlink: u32,
    pub uid: u32,
    pub gid: u32,
    pub ino: u64,
    pub dev_major: u32,
    pub dev_minor: u32,
    pub rdev_major: u32,
    pub rdev_minor: u32,
    pub size: u64,
    pub blocks: u64,
    pub blksize: u32,
    pub mask: u32,
    pub attributes: u64,
    pub attributes_mask: u64,
    pub atime: (i64, u32),
    pub mtime: (i64, u32),
    pub ctime: (i64, u32),
    pub btime: (i64, u32),
    pub mnt_id: u64,
}

/// Words that a packed [`Attr`] takes.
pub const ATTR_WORDS: usize = 18;

impl Attr {
    /// Returns the kind that the mode describes.
    pub fn kind(&self) -> Kind {
        match self.mode & mode::TYPE {
            mode::DIR => Kind::Dir,
            mode::FILE => Kind::File,
            mode::LINK => Kind::Link,
            _ => Kind::Other,
        }
    }

    /// Returns the words of a table record, in the order of `struct hw_attr`.
    pub fn to_words(&self) -> [u64; ATTR_WORDS] {
        [
            pair(self.mode, self.nlink),
            pair(self.uid, self.gid),
            self.ino,
            pair(self.dev_major, self.dev_minor),
            pair(self.rdev_major, self.rdev_minor),
            self.size,
            self.blocks,
            pair(self.blksize, self.mask),
            self.attributes,
            self.attributes_mask,
            self.atime.0 as u64,
            self.mtime.0 as u64,
            self.ctime.0 as u64,
            self.btime.0 as u64,
            pair(self.atime.1, self.mtime.1),
            pair(self.ctime.1, self.btime.1),
            self.mnt_id,
            0,
        ]
    }

    /// Reads words that [`Attr::to_words`] returned.
    pub fn from_words(words: &[u64; ATTR_WORDS]) -> Attr {
        let (low, high) = (|n: usize| words[n] as u32, |n: usize| (words[n] >> 32) as u32);
        Attr {
            mode: low(0),
            nlink: high(0),
            uid: low(1),
            gid: high(1),
            ino: words[2],
            dev_major: low(3),
            dev_minor: high(3),
            rdev_major: low(4),
            rdev_minor: high(4),
            size: words[5],
            blocks: words[6],
            blksize: low(7),
            mask: high(7),
            attributes: words[8],
            attributes_mask: words[9],
            atime: (words[10] as i64, low(14)),
            mtime: (words[11] as i64, high(14)),
            ctime: (words[12] as i64, low(15)),
            btime: (words[13] as i64, high(15)),
            mnt_id: words[16],
        }
    }
}

fn pair(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_round_trip() {
        let attr = Attr {
            mode: 0o100_755,
            nlink: 2,
            uid: 1000,
            gid: 100,
            ino: 42,
            dev_major: 8,
            dev_minor: 1,
            size: 1 << 40,
            blocks: 7,
            blksize: 4096,
            mask: 0xfff,
            mtime: (-5, 999_999_999),
            btime: (9, 1),
            mnt_id: 77,
            ..Attr::default()
        };
        assert_eq!(Attr::from_words(&attr.to_words()), attr);
        assert_eq!(attr.kind(), Kind::File);
    }
}
