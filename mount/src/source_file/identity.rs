//! The identity of a file.

use headwater_abi::Attr;
use headwater_abi::attr::mode;

/// Words that an [`Identity`] packs into.
pub(crate) const WORDS: usize = 4;

/// Distinguishes files, even one that reuses a removed file's inode number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Identity {
    device: (u32, u32),
    ino: u64,
    birth: (i64, u32),
    file_type: u32,
}

impl Identity {
    /// Returns true if both are the same file, perhaps seen by different nodes, which number devices differently.
    pub(crate) fn is_also(&self, other: &Identity) -> bool {
        Identity { device: other.device, ..*self } == *other
    }

    /// Returns the identity of the file that has these attributes.
    pub(crate) fn of(attr: &Attr) -> Identity {
        Identity {
            device: (attr.dev_major, attr.dev_minor),
            ino: attr.ino,
            birth: attr.btime,
            file_type: attr.mode & mode::TYPE,
        }
    }

    pub(crate) fn to_words(self) -> [u64; WORDS] {
        let (major, minor) = self.device;
        let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        [pair(major, minor), self.ino, self.birth.0 as u64, pair(self.birth.1, self.file_type)]
    }

    pub(crate) fn from_words([device, ino, birth, rest]: [u64; WORDS]) -> Identity {
        let device = (device as u32, (device >> 32) as u32);
        Identity { device, ino, birth: (birth as i64, rest as u32), file_type: (rest >> 32) as u32 }
    }

    pub(crate) fn is_file(&self) -> bool {
        self.file_type == mode::FILE
    }

    pub(crate) fn is_directory(&self) -> bool {
        self.file_type == mode::DIR
    }
}
