//! The contents of a tree, and making it.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, lchown, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, Timespec, Timestamps, XattrFlags, lsetxattr, mknodat, utimensat};
use serde::{Deserialize, Serialize};

use super::Content;

/// Everything in it, parents before their children. The root is not among them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tree {
    /// (path below the root, node).
    pub nodes: Vec<(Vec<u8>, Node)>,
}

/// One name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// The kind.
    pub kind: Kind,
    /// Its permissions; a link has none.
    pub mode: u32,
    /// Owner and group.
    pub owner: (u32, u32),
    /// When it was changed: seconds and nanoseconds since the epoch.
    pub mtime: (i64, u32),
    /// Extended attributes: the number in `user.N`, and the value.
    pub xattrs: Vec<(u8, Vec<u8>)>,
}

/// The kind of a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the names have it")]
pub enum Kind {
    Directory,
    File(Content),
    Symlink(Vec<u8>),
    /// One more name of the file that this earlier path names.
    HardLink(Vec<u8>),
    Fifo,
    Socket,
    /// /dev/null's.
    Device,
}

impl Node {
    /// Of root, changed some time ago.
    pub fn new(kind: Kind, mode: u32) -> Node {
        Node { kind, mode, owner: (0, 0), mtime: (1_600_000_000, 123_456_789), xattrs: Vec::new() }
    }
}

impl Tree {
    /// Makes it in the empty directory `root`.
    ///
    /// # Errors
    /// Of the first thing that can't be made.
    pub fn make(&self, root: &Path) -> io::Result<()> {
        for (path, node) in &self.nodes {
            make(root, &below(root, path), &node.kind)?;
        }
        // Making a child changes a directory, so its own attributes are set last.
        for (path, node) in self.nodes.iter().rev() {
            dress(&below(root, path), node)?;
        }
        Ok(())
    }
}

/// The path of what lies below `root`.
pub(super) fn below(root: &Path, path: &[u8]) -> PathBuf {
    let mut whole = root.as_os_str().as_bytes().to_vec();
    whole.push(b'/');
    whole.extend_from_slice(path);
    OsStr::from_bytes(&whole).into()
}

fn make(root: &Path, path: &Path, kind: &Kind) -> io::Result<()> {
    match kind {
        Kind::Directory => fs::create_dir(path),
        Kind::File(content) => write(path, content),
        Kind::Symlink(target) => symlink(OsStr::from_bytes(target), path),
        Kind::HardLink(existing) => fs::hard_link(below(root, existing), path),
        Kind::Fifo => Ok(mknodat(CWD, path, FileType::Fifo, Mode::RWXU, 0)?),
        Kind::Device => Ok(mknodat(CWD, path, FileType::CharacterDevice, Mode::RWXU, rustix::fs::makedev(1, 3))?),
        Kind::Socket => bind(path),
    }
}

/// The names of sockets are short in a bind, so it is bound elsewhere and moved.
fn bind(path: &Path) -> io::Result<()> {
    let dir = tempfile::tempdir_in(path.parent().expect("below the root"))?;
    let short = tempfile::Builder::new().prefix("s").tempdir_in("/tmp")?;
    let shortcut = short.path().join("d");
    symlink(dir.path(), &shortcut)?;
    UnixListener::bind(shortcut.join("s"))?;
    fs::rename(dir.path().join("s"), path)
}

fn write(path: &Path, content: &Content) -> io::Result<()> {
    let file = File::create_new(path)?;
    file.set_len(content.size())?;
    for (offset, bytes) in content.written() {
        file.write_all_at(&content.read(offset, bytes), offset)?;
    }
    Ok(())
}

fn dress(path: &Path, node: &Node) -> io::Result<()> {
    if matches!(node.kind, Kind::HardLink(_)) {
        return Ok(());
    }
    for (name, value) in &node.xattrs {
        lsetxattr(path, format!("user.{name}"), value, XattrFlags::empty())?;
    }
    if rustix::process::geteuid().is_root() {
        lchown(path, Some(node.owner.0), Some(node.owner.1))?;
    }
    if !matches!(node.kind, Kind::Symlink(_)) {
        rustix::fs::chmod(path, Mode::from_raw_mode(node.mode))?;
    }
    let time = Timespec { tv_sec: node.mtime.0, tv_nsec: i64::from(node.mtime.1) };
    let times = Timestamps { last_access: time, last_modification: time };
    Ok(utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW)?)
}
