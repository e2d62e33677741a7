//! Source files as descriptors.
//!
//! A node's path contains no links, because the kernel has resolved it. A component that is a link now was put there
//! since. It is not followed, so no user reaches files through the daemon's rights.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use headwater_abi::path::PATH_BYTES_MAX;
use headwater_abi::{Attr, Path};
use headwater_fuse::NodeId;
use headwater_store::{ATTR_FIELDS, attr_at};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, StatxAttributes, open, openat, openat2};
use rustix::io::Errno;

use super::identity::Identity;
use crate::view::View;

/// The object behind a node, a link itself included: an `O_PATH` descriptor and its attributes.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) fd: Arc<OwnedFd>,
    pub(crate) attr: Attr,
}

impl Target {
    /// Opens the source file of `node`, which was last seen at `path`.
    ///
    /// # Errors
    /// ESTALE if another file is there now; otherwise those of the source file.
    pub(crate) fn of(view: &View, node: NodeId, path: &Path) -> Result<Target, Errno> {
        if let Some(fd) = view.source_files.anchor(node) {
            let attr = attr_at(&fd, b"", ATTR_FIELDS)?;
            return Ok(Target { fd, attr });
        }
        let target = Target::at(path)?;
        let identity = Identity::of(&target.attr);
        if view.source_files.expected(&view.tables, node).is_some_and(|expected| !expected.is_also(&identity)) {
            return Err(Errno::STALE);
        }
        if view.is_passthrough(path, false) {
            view.source_files.settle(node, path, identity);
            view.source_files.set_anchor(node, identity, &target.fd);
        }
        Ok(target)
    }

    /// As [`Target::of`], for use as a directory, which triggers an automount.
    pub(crate) fn directory(view: &View, node: NodeId, path: &Path) -> Result<Target, Errno> {
        let target = Target::of(view, node, path)?;
        if target.attr.attributes & StatxAttributes::AUTOMOUNT.bits() == 0 {
            return Ok(target);
        }
        Target::opened(open_path(path, OFlags::DIRECTORY)?)
    }

    /// Opens the object at `path`.
    pub(crate) fn at(path: &Path) -> Result<Target, Errno> {
        Target::opened(open_path(path, OFlags::empty())?)
    }

    /// Returns the object that is open as `fd`.
    pub(crate) fn opened(fd: OwnedFd) -> Result<Target, Errno> {
        let attr = attr_at(&fd, b"", ATTR_FIELDS)?;
        Ok(Target { fd: Arc::new(fd), attr })
    }

    /// Opens `name` in this directory.
    pub(crate) fn child(&self, name: &[u8]) -> Result<Target, Errno> {
        Target::opened(openat(&self.fd, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?)
    }

    /// Opens the object for reading or writing, with the usual permission checks.
    pub(crate) fn open(&self, flags: OFlags) -> Result<OwnedFd, Errno> {
        open(self.magic_link(), flags | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY, Mode::empty())
    }

    /// Returns a path that leads to the object even after it has lost its names.
    pub(crate) fn magic_link(&self) -> String {
        format!("/proc/self/fd/{}", self.fd.as_raw_fd())
    }
}

fn open_path(path: &Path, more: OFlags) -> Result<OwnedFd, Errno> {
    let (mut directory, mut rest) = (None, path.as_bytes());
    // A path that is too long for one call is opened in steps.
    while rest.len() > PATH_BYTES_MAX {
        let slash = rest[..=PATH_BYTES_MAX].iter().rposition(|byte| *byte == b'/').filter(|slash| *slash > 0);
        let (step, below) = rest.split_at(slash.ok_or(Errno::NAMETOOLONG)?);
        directory = Some(open_below(directory.as_ref(), step, OFlags::DIRECTORY)?);
        rest = &below[1..];
    }
    open_below(directory.as_ref(), rest, more)
}

/// Opens `path` below `directory`, or from the root without one.
fn open_below(directory: Option<&OwnedFd>, path: &[u8], more: OFlags) -> Result<OwnedFd, Errno> {
    static LACKS_OPENAT2: AtomicBool = AtomicBool::new(false);
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let from = directory.map_or(CWD, AsFd::as_fd);
    if !LACKS_OPENAT2.load(Ordering::Relaxed) {
        match openat2(from, path, flags | more, Mode::empty(), ResolveFlags::NO_SYMLINKS) {
            Err(Errno::NOSYS) => LACKS_OPENAT2.store(true, Ordering::Relaxed),
            Err(Errno::LOOP) => return Err(Errno::STALE),
            result => return result,
        }
    }
    let start: &[u8] = if directory.is_some() { b"." } else { b"/" };
    let mut reached = openat(from, start, flags | OFlags::DIRECTORY, Mode::empty())?;
    for component in path.split(|byte| *byte == b'/').filter(|component| !component.is_empty()) {
        reached = openat(&reached, component, flags | more, Mode::empty())?;
    }
    Ok(reached)
}
