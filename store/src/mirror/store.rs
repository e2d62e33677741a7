//! The store itself: adding, finding and evicting copies.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

use headwater_abi::wire::FileHead;
use headwater_abi::{Attr, Path};
use headwater_proto::Time;
use rustix::fs::{AtFlags, Mode};
use rustix::io::Errno;

use super::attributes::{COPIED_MODE_BITS, finish};
use super::blocks::Blocks;
use super::budget::{self, Budget, Reservation};
use super::hidden::Hidden;
use super::incoming::Incoming;
use super::lease;
use super::parked::Parked;
use super::paths::{DIRECTORY, below, descend, in_scope, step};
use super::recent::{OpenFiles, Recent};
use super::replicas::Replicas;
use crate::layout::{NodeDir, ignore_absent};

/// The longest target of a link that needs no page of a RAM disk, in bytes.
const SHORT_LINK_BYTES_MAX: usize = 127;

/// A file in one piece, or one block of it.
pub(super) type Piece = (Path, Option<u32>);

/// One node's store.
#[derive(Debug)]
pub struct Store {
    pub(super) prefix: PathBuf,
    pub(super) dir: NodeDir,
    /// Mirrors of older generations.
    pub(super) older: Vec<PathBuf>,
    pub(super) incoming_dir: PathBuf,
    pub(super) parked_dir: PathBuf,
    pub(super) root: Rc<OwnedFd>,
    /// Recently used directories. Directories of the mirror are never removed.
    pub(super) parents: OpenFiles<Path>,
    pub(super) scope: Vec<(bool, Path)>,
    pub(super) incoming: HashMap<Piece, Arc<Incoming>>,
    /// Discarded content that a reader may still be writing.
    pub(super) leaving: Vec<(Path, Arc<Incoming>)>,
    pub(super) blocks: Arc<Blocks>,
    pub(super) recent: Recent,
    pub(super) written: RefCell<OpenFiles<u64>>,
    pub(super) sent: RefCell<OpenFiles<Path>>,
    /// True if this node sends content to others.
    pub(super) is_sending: bool,
    pub(super) hidden: Hidden,
    pub(super) parked: Parked,
    pub(super) replicas: Replicas,
    pub(super) next_number: u64,
    pub(super) budget: Budget,
    /// The bytes of the files and links of all mirrors, by inode number.
    pub(super) taken: HashMap<u64, Reservation>,
}

impl Store {
    /// Creates an empty store. Links to directories within `scope` will lead to the mirror.
    pub fn create(dir: &NodeDir, scope: Vec<(bool, Path)>) -> io::Result<Store> {
        let (prefix, incoming_dir, parked_dir) = (dir.root(), dir.incoming(), dir.parked());
        std::fs::create_dir_all(dir.generation_dir())?;
        std::fs::create_dir_all(&prefix)?;
        std::fs::create_dir_all(&incoming_dir)?;
        std::fs::create_dir_all(&parked_dir)?;
        let root = Rc::new(rustix::fs::open(&prefix, DIRECTORY, Mode::empty())?);
        Ok(Store {
            prefix,
            dir: dir.clone(),
            older: Vec::new(),
            incoming_dir,
            parked_dir,
            root,
            parents: OpenFiles::default(),
            scope,
            incoming: HashMap::new(),
            leaving: Vec::new(),
            blocks: Arc::default(),
            recent: Recent::default(),
            written: RefCell::default(),
            sent: RefCell::default(),
            is_sending: true,
            hidden: Hidden::default(),
            parked: Parked::default(),
            replicas: Replicas::default(),
            next_number: 0,
            budget: Budget::default(),
            taken: HashMap::new(),
        })
    }

    /// Returns the major and minor number of the store's device.
    pub fn device(&self) -> io::Result<(u32, u32)> {
        let dev = rustix::fs::fstat(&self.root)?.st_dev;
        Ok((rustix::fs::major(dev), rustix::fs::minor(dev)))
    }

    /// Returns the accounting of the store's limit.
    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    /// Disables caches for sending, because this node sends nothing.
    pub fn sends_nothing(&mut self) {
        self.is_sending = false;
    }

    /// Removes evicted copies at once, because only a mounted file system reads the store, and looks up again if a copy
    /// is missing.
    pub fn serves_mount_alone(&mut self) {
        self.hidden.skip_grace();
    }

    /// Returns the bytes of all mirrors, with incoming content and with evicted content that is not removed yet.
    pub fn bytes(&self) -> u64 {
        self.budget.taken()
    }

    /// Returns the bytes of evicted content that is removed soon.
    pub fn bytes_going(&self) -> u64 {
        self.hidden.bytes()
    }

    /// Returns true if the mirror has a file at `path`.
    pub fn has(&self, path: &Path) -> bool {
        std::fs::symlink_metadata(self.copy_of(path)).is_ok_and(|metadata| metadata.is_file())
    }

    /// Returns the inode number of the mirror's file at `path`.
    pub fn file_of(&self, path: &Path) -> Option<u64> {
        std::fs::symlink_metadata(self.copy_of(path)).ok().map(|metadata| metadata.ino())
    }

    /// Returns the resident blocks of partial files.
    pub fn blocks(&self) -> Arc<Blocks> {
        Arc::clone(&self.blocks)
    }

    /// Returns the target for the whole content of `path`, with what has arrived so far.
    pub fn incoming(&mut self, path: &Path) -> Arc<Incoming> {
        let piece = (path.clone(), None);
        if let Some(incoming) = self.incoming.get(&piece) {
            return Arc::clone(incoming);
        }
        let copy = Some(self.copy_of(path)).filter(|_| !self.hidden.contains(path));
        let (number, beside) = self.beside();
        let incoming = Arc::new(Incoming::new(number, copy, beside, self.budget.clone()));
        self.incoming.insert(piece, Arc::clone(&incoming));
        incoming
    }

    /// Returns true if this target of `path`, or of a block of it, is still in use.
    pub fn is_incoming(&self, path: &Path, block: Option<u32>, number: u64) -> bool {
        self.incoming.get(&(path.clone(), block)).is_some_and(|incoming| incoming.number == number)
    }

    /// Writes a piece of incoming content.
    pub fn write(&self, path: &Path, block: Option<u32>, bytes: &[u8], offset: u64) -> io::Result<()> {
        let incoming = self.incoming.get(&(path.clone(), block)).ok_or(io::ErrorKind::NotFound)?;
        if incoming.is_small() || block.is_some() {
            return incoming.write(bytes, offset);
        }
        let file = self.written.borrow_mut().get(incoming.number, || incoming.open())?;
        incoming.write_to(&file, bytes, offset)
    }

    /// Fills `bytes` from the content of `path`, or of a block of it, complete or incoming.
    pub fn read(&self, path: &Path, block: Option<u32>, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        // Complete content may be sent while more of the file arrives.
        if let Some(incoming) = self.incoming.get(&(path.clone(), block))
            && incoming.read(bytes, offset).is_ok()
        {
            return Ok(());
        }
        if let Some(partial) = block.and_then(|_| self.blocks.partial(path)) {
            return partial.copy().read_exact_at(bytes, offset);
        }
        if let Some(recent) = self.recent.get(path) {
            let part = recent.get(offset as usize..).and_then(|rest| rest.get(..bytes.len()));
            bytes.copy_from_slice(part.ok_or(io::ErrorKind::UnexpectedEof)?);
            return Ok(());
        }
        let file = self.sent.borrow_mut().get(path.clone(), || File::open(self.copy_of(path)))?;
        file.read_exact_at(bytes, offset)
    }

    /// As [`Store::read`], for several ranges of (offset, length), one after another.
    pub fn read_ranges(
        &self,
        path: &Path,
        block: Option<u32>,
        ranges: &[(u64, u64)],
        mut bytes: &mut [u8],
    ) -> io::Result<()> {
        for &(offset, length) in ranges {
            let (part, behind) = bytes.split_at_mut_checked(length as usize).ok_or(io::ErrorKind::InvalidInput)?;
            self.read(path, block, part, offset)?;
            bytes = behind;
        }
        Ok(())
    }

    /// Opens the copy of complete content, whole or in blocks.
    pub fn open_copy(&self, path: &Path) -> io::Result<File> {
        match self.blocks.partial(path) {
            Some(partial) => partial.copy().try_clone(),
            None => File::open(self.copy_of(path)),
        }
    }

    /// Returns the path of the copy of `path`, if it is to follow its source file, and closes it here.
    pub fn copy_to_follow(&mut self, path: &Path) -> Option<PathBuf> {
        self.sent.borrow_mut().close(path);
        self.has(path).then(|| self.copy_of(path))
    }

    /// Returns where the copy of `path` is, if there is one.
    pub fn path_of(&self, path: &Path) -> PathBuf {
        self.copy_of(path)
    }

    /// Discards the incoming content of `path`, or of a block of it. The mirror is unchanged.
    pub fn discard(&mut self, path: &Path, block: Option<u32>) {
        let Some(incoming) = self.incoming.remove(&(path.clone(), block)) else { return };
        self.written.borrow_mut().close(&incoming.number);
        if let Err(error) = ignore_absent(incoming.give_up()) {
            tracing::warn!(%path, %error, "incomplete content can't be removed from the store; check the permissions under --store");
        }
        self.leaving.push((path.clone(), incoming));
        self.settle_leaving();
        if block.is_some() {
            self.drop_empty(path);
        }
    }

    /// Counts the remains of discarded content once no reader writes it.
    pub(super) fn settle_leaving(&mut self) {
        for (path, incoming) in std::mem::take(&mut self.leaving) {
            match Arc::try_unwrap(incoming) {
                Ok(incoming) => match incoming.what_stays() {
                    Ok(Some(metadata)) => self.count(&path, &metadata, incoming.take_room()),
                    Ok(None) => {}
                    Err(error) => tracing::debug!(%path, %error, "discarded content is gone"),
                },
                Err(incoming) => self.leaving.push((path, incoming)),
            }
        }
    }

    /// Counts a file of the mirror, the copy of `path`, with the reservation for its new bytes.
    pub(super) fn count(&mut self, path: &Path, metadata: &Metadata, room: Option<Reservation>) {
        let is_arriving =
            self.incoming.keys().any(|(of, _)| of == path) || self.leaving.iter().any(|(of, _)| of == path);
        let taken = self.taken.entry(metadata.ino()).or_insert_with(|| self.budget.count(0));
        if let Some(room) = room {
            taken.join(room);
        }
        let bytes = metadata.blocks() * 512;
        // Other incoming content of the file has its own reservation.
        taken.settle(if is_arriving { bytes.min(taken.bytes()) } else { bytes });
    }

    /// Counts the bytes of a file or link, whatever was reserved for it.
    pub(super) fn count_as(&mut self, metadata: &Metadata) {
        if metadata.blocks() == 0 {
            return drop(self.taken.remove(&metadata.ino()));
        }
        let taken = self.taken.entry(metadata.ino()).or_insert_with(|| self.budget.count(0));
        taken.settle(metadata.blocks() * 512);
    }

    /// Moves complete content into the mirror, with its source file's mode and times. Returns its inode number.
    pub fn complete(&mut self, path: &Path, head: &FileHead) -> io::Result<u64> {
        let copy = self.copy_of(path);
        let piece = (path.clone(), None);
        let Some(incoming) = self.incoming.remove(&piece) else {
            if head.whole
                && let Some(result) = self.complete_partial(path, &head.attr)
            {
                return result;
            }
            if let Some(partial) = self.blocks.partial(path) {
                finish(partial.copy(), &head.attr)?;
            }
            return Ok(std::fs::symlink_metadata(copy)?.ino());
        };
        match self.move_in(path, &incoming, &head.attr) {
            Ok(metadata) => {
                self.count(path, &metadata, incoming.take_room());
                if head.whole {
                    self.blocks.remove(path);
                }
                Ok(metadata.ino())
            }
            Err(error) => {
                self.incoming.insert(piece, incoming);
                self.discard(path, None);
                Err(error)
            }
        }
    }

    /// Adds a second name to complete content.
    pub fn hard_link(&mut self, path: &Path, target: &Path) -> io::Result<u64> {
        let (from, to) = (self.copy_of(target), self.copy_of(path));
        let parent = self.parent(path)?;
        if self.hidden.contains(path) {
            let (_, beside) = self.beside();
            std::fs::hard_link(&from, &beside)?;
            self.put_in_mirror(path, &beside, &parent)?;
            // rename() does nothing if both names lead to the same file.
            let _ = std::fs::remove_file(&beside);
            return Ok(std::fs::symlink_metadata(to)?.ino());
        }
        match rustix::fs::linkat(rustix::fs::CWD, &from, &*parent, path.name(), AtFlags::empty()) {
            Ok(()) | Err(Errno::EXIST) => Ok(std::fs::symlink_metadata(to)?.ino()),
            Err(error) => Err(error.into()),
        }
    }

    /// Creates a directory in the mirror, with its source's mode as far as the mirror stays usable.
    pub fn directory(&mut self, path: &Path, attr: &Attr) -> io::Result<()> {
        if path.name().is_empty() {
            return Ok(());
        }
        let parent = self.parent(path)?;
        step(&*parent, path.name())?;
        let mode = Mode::from(attr.mode & COPIED_MODE_BITS | 0o700);
        rustix::fs::chmodat(&*parent, path.name(), mode, AtFlags::empty())?;
        self.directory_in_domains(path, attr)
    }

    /// Creates a symbolic link in the mirror. A relative link that leaves the mirror's root is left out, because it
    /// would name another file.
    pub fn symbolic_link(&mut self, path: &Path, target: &[u8]) -> io::Result<()> {
        let Some(target) = self.mirrored_target(path, target) else { return Ok(()) };
        let parent = self.parent(path)?;
        match self.make_link(&target, &*parent, path.name()) {
            Err(error) if matches!(error.kind(), io::ErrorKind::AlreadyExists | io::ErrorKind::StorageFull) => {}
            made => self.taken.extend(made?),
        }
        self.link_in_domains(path, &target)
    }

    /// Creates a link. Returns its inode number and reservation if its target is long.
    pub(super) fn make_link(
        &self,
        target: &[u8],
        directory: impl AsFd + Copy,
        name: impl rustix::path::Arg + Copy,
    ) -> io::Result<Option<(u64, Reservation)>> {
        if target.len() <= SHORT_LINK_BYTES_MAX {
            return Ok(rustix::fs::symlinkat(target, directory, name).map(|()| None)?);
        }
        let room = self.budget.reserve(budget::pages(target.len() as u64))?;
        rustix::fs::symlinkat(target, directory, name)?;
        let ino = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?.st_ino;
        Ok(Some((ino, room)))
    }

    /// Evicts content. Fails with [`io::ErrorKind::WouldBlock`] if a process has it open or mapped. Calls `hide` once
    /// it is certain that none has; [`Store::tick`] removes the copy some time later.
    pub fn evict(&mut self, now: Time, path: &Path, hide: impl FnOnce()) -> io::Result<()> {
        if self.incoming.keys().any(|(of, _)| of == path) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.blocks.take_mark(path);
        self.recent.remove(path);
        self.sent.borrow_mut().close(path);
        let closed = self.close_partial(path)?;
        let result = self.evict_copy(now, path, hide);
        if let (Err(_), Some(closed)) = (&result, closed) {
            self.reopen_partial(path, closed)?;
        }
        self.remove_due(now);
        result
    }

    pub(super) fn evict_copy(&mut self, now: Time, path: &Path, hide: impl FnOnce()) -> io::Result<()> {
        match File::open(self.copy_of(path)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => hide(),
            file => {
                let file = file?;
                lease::take(&file)?;
                let _leases = self.lease_replicas(path)?;
                let bytes = file.metadata().ok().filter(|copy| copy.nlink() == 1).map_or(0, |copy| copy.blocks() * 512);
                hide();
                let replicas = self.replicas_go(path);
                self.hidden.add(path, now, bytes + replicas);
            }
        }
        Ok(())
    }

    /// Removes evicted copies that are due, and frees unused memory.
    pub fn tick(&mut self, now: Time) {
        self.remove_due(now);
        self.check_parked(now, false);
        self.settle_leaving();
    }

    /// As [`Store::tick`], at once.
    pub fn find_room(&mut self, now: Time) {
        self.remove_due(now);
        self.check_parked(now, true);
        self.settle_leaving();
    }

    pub(super) fn remove_due(&mut self, now: Time) {
        for path in self.hidden.take_due(now) {
            let copy = self.copy_of(&path);
            self.remove_replicas(&path);
            self.remove_older(&path, &copy);
            if let Err(error) = self.remove_name(&copy) {
                tracing::warn!(%path, %error, "an evicted file can't be removed from the store; check the permissions under --store");
            }
        }
    }

    /// Returns when [`Store::tick`] is due.
    pub fn next_tick(&self) -> Option<Time> {
        self.hidden.next().into_iter().chain(self.parked.next()).min()
    }

    /// Moves a file to its name in the mirror's directory, replacing an evicted copy.
    pub(super) fn put_in_mirror(&mut self, path: &Path, file: &std::path::Path, directory: &File) -> io::Result<()> {
        if !self.hidden.remove(path) {
            return Ok(rustix::fs::renameat(rustix::fs::CWD, file, directory, path.name())?);
        }
        self.link_replicas(path);
        self.exchange(file, directory, path.name())
    }

    pub(super) fn move_in(&mut self, path: &Path, incoming: &Incoming, attr: &Attr) -> io::Result<Metadata> {
        if let Some(bytes) = incoming.take_memory() {
            return self.create_small(path, bytes, attr);
        }
        self.written.borrow_mut().close(&incoming.number);
        let name = incoming.file().ok_or(io::ErrorKind::InvalidInput)?;
        let file = File::open(name)?;
        finish(&file, attr)?;
        if !incoming.is_in_place() {
            self.put(path, name)?;
        }
        file.metadata()
    }

    /// Moves a file into the mirror.
    pub(super) fn put(&mut self, path: &Path, file: &std::path::Path) -> io::Result<()> {
        let parent = self.parent(path)?;
        self.put_in_mirror(path, file, &parent)
    }

    /// Returns a new number, and a path of that name beside the mirror.
    pub(super) fn beside(&mut self) -> (u64, PathBuf) {
        self.next_number += 1;
        (self.next_number, self.incoming_dir.join(self.next_number.to_string()))
    }

    pub(super) fn copy_of(&self, path: &Path) -> PathBuf {
        below(&self.prefix, path)
    }

    /// Opens the mirror's directory that has `path`, creating it if necessary. Follows no link, so nothing is written
    /// outside of the mirror.
    pub(super) fn parent(&mut self, path: &Path) -> io::Result<Rc<File>> {
        let parent = path.parent().filter(|_| path.name() != b"..").ok_or(io::ErrorKind::InvalidInput)?;
        let root = &self.root;
        self.parents.get(parent.clone(), || Ok(descend(root, &parent)?.into()))
    }

    pub(super) fn mirrored_target(&self, path: &Path, target: &[u8]) -> Option<Vec<u8>> {
        if let Some(absolute) = Path::new(target) {
            let within = in_scope(&self.scope, &absolute);
            let prefix = if within { self.dir.shown(&self.prefix) } else { PathBuf::new() };
            return Some([prefix.as_os_str().as_bytes(), target].concat());
        }
        let mut depth = path.components().count() as i64 - 1;
        for name in target.split(|&b| b == b'/') {
            match name {
                b"" | b"." => {}
                b".." => depth -= 1,
                _ => depth += 1,
            }
            if depth < 0 {
                return None;
            }
        }
        Some(target.to_vec())
    }
}
