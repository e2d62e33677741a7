//! Operations on a tree.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::Content;

/// One operation on one name, or on two.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operation {
    /// A path below the tree's root, as a program would append it to the root's: any bytes but 0.
    pub path: Vec<u8>,
    /// The new name of a rename, the old one of a link; the target of a symbolic link.
    pub other: Vec<u8>,
    /// The action.
    pub action: Action,
}

/// An action. The result of one that only reads is a line with all that its calls returned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "fields are those of the system calls")]
pub enum Action {
    /// stat or lstat, but for what differs between two copies of a tree.
    Stat {
        follows: bool,
    },
    /// Fields that differ between two copies: inode number, blocks, times that can't be set.
    Identity,
    Readlink,
    /// open, pread.
    Read {
        offset: u64,
        bytes: u64,
    },
    /// Opens it and reads from its start to its end, in pieces.
    ReadAll {
        piece: u64,
    },
    Open {
        flags: u32,
    },
    /// All names with their types; each one's number is that of its stat.
    List,
    /// Names, with `seekdir` back to a position after each `part` names.
    ListInParts {
        part: u64,
    },
    /// SEEK_DATA and SEEK_HOLE: their rules, not the offsets.
    Seek {
        offset: u64,
    },
    Access {
        mode: u32,
    },
    /// All extended attributes of users.
    Xattrs,
    /// The fields of statvfs that matter.
    Filesystem,
    Change(Change),
}

/// One change of a tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "fields are those of the system calls")]
pub enum Change {
    Create {
        mode: u32,
        is_exclusive: bool,
    },
    Write {
        offset: u64,
        content: Content,
    },
    Append {
        content: Content,
    },
    /// open with O_TRUNC, and a write.
    Replace {
        content: Content,
    },
    Truncate {
        size: u64,
    },
    Allocate {
        offset: u64,
        bytes: u64,
    },
    /// A file that is written and read by its descriptor after its name is removed.
    UnlinkedWhileOpen {
        content: Content,
    },
    Mkdir {
        mode: u32,
    },
    Symlink,
    Link,
    Mkfifo {
        mode: u32,
    },
    Unlink,
    Rmdir,
    Rename,
    Exchange,
    Chmod {
        mode: u32,
    },
    Times {
        seconds: i64,
        nanoseconds: u32,
    },
    SetXattr {
        name: u8,
        value: Vec<u8>,
    },
    RemoveXattr {
        name: u8,
    },
}

impl Operation {
    /// On one name.
    pub fn new(path: impl Into<Vec<u8>>, action: Action) -> Operation {
        Operation { path: path.into(), other: Vec::new(), action }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} of \"{}\"", self.action, self.path.escape_ascii())?;
        if !self.other.is_empty() {
            write!(f, " and \"{}\"", self.other.escape_ascii())?;
        }
        Ok(())
    }
}
