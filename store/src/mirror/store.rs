//! The store itself: what of the mirror is there, and how it comes and goes.

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
use super::paths::{DIRECTORY, descend, in_scope, step};
use super::recent::{OpenFiles, Recent};
use super::replicas::Replicas;
use crate::layout::NodeDir;

/// The longest target of a link that takes no page of a RAM disk, in bytes.
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
    /// Directories that were used last; the mirror's directories stay.
    pub(super) parents: OpenFiles<Path>,
    pub(super) scope: Vec<(bool, Path)>,
    pub(super) incoming: HashMap<Piece, Arc<Incoming>>,
    /// What was given up, and a reader may still write.
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
    /// What the files and links of all mirrors take, by inode number.
    pub(super) taken: HashMap<u64, Reservation>,
}

impl Store {
    /// An empty store. Links to directories within `scope` will lead to the mirror.
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

    /// Major and minor number of the store's device.
    pub fn device(&self) -> io::Result<(u32, u32)> {
        let dev = rustix::fs::fstat(&self.root)?.st_dev;
        Ok((rustix::fs::major(dev), rustix::fs::minor(dev)))
    }

    /// Who takes how much of the store's bound.
    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    /// Nothing will be sent to other nodes, and nothing need be kept for that.
    pub fn sends_nothing(&mut self) {
        self.is_sending = false;
    }

    /// A mounted file system alone will read the store: it looks again if a copy has gone.
    pub fn serves_mount_alone(&mut self) {
        self.hidden.skip_grace();
    }

    /// From now on the store takes nothing beyond so many bytes.
    pub fn set_bytes_max(&self, bytes_max: u64) {
        self.budget.set_max(bytes_max);
    }

    /// True if little is left below the bound.
    pub fn is_short(&self) -> bool {
        self.budget.is_short()
    }

    /// Bytes that all mirrors take, with what arrives and what has been evicted and is not gone yet.
    pub fn bytes(&self) -> u64 {
        self.budget.taken()
    }

    /// Of these, bytes of evicted content that goes soon.
    pub fn bytes_going(&self) -> u64 {
        self.hidden.bytes()
    }

    /// True if the mirror has a file at `path`.
    pub fn has(&self, path: &Path) -> bool {
        std::fs::symlink_metadata(self.copy_of(path)).is_ok_and(|metadata| metadata.is_file())
    }

    /// The inode number of the mirror's file at `path`.
    pub fn file_of(&self, path: &Path) -> Option<u64> {
        std::fs::symlink_metadata(self.copy_of(path)).ok().map(|metadata| metadata.ino())
    }

    /// Which blocks are there of files that are there in part.
    pub fn blocks(&self) -> Arc<Blocks> {
        Arc::clone(&self.blocks)
    }

    /// Where content of `path` is to be written in one piece: what has arrived of it continues.
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

    /// True if this is still where content of `path`, or a block of it, is written.
    pub fn is_incoming(&self, path: &Path, block: Option<u32>, number: u64) -> bool {
        self.incoming.get(&(path.clone(), block)).is_some_and(|incoming| incoming.number == number)
    }

    /// Writes a piece of content that is arriving.
    pub fn write(&self, path: &Path, block: Option<u32>, bytes: &[u8], offset: u64) -> io::Result<()> {
        let incoming = self.incoming.get(&(path.clone(), block)).ok_or(io::ErrorKind::NotFound)?;
        if incoming.is_small() {
            return incoming.write(bytes, offset);
        }
        if block.is_some() {
            return incoming.write(bytes, offset);
        }
        let file = self.written.borrow_mut().get(incoming.number, || incoming.open())?;
        incoming.write_to(&file, bytes, offset)
    }

    /// Fills `bytes` from the content of `path`, or of a block of it, complete or arriving.
    pub fn read(&self, path: &Path, block: Option<u32>, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        // What is complete may be sent on while more of the file begins to arrive.
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

    /// The same of several ranges, one behind the other: (offset, length).
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

    /// The copy of content that is complete, as a whole or in blocks.
    pub fn open_copy(&self, path: &Path) -> io::Result<File> {
        match self.blocks.partial(path) {
            Some(partial) => partial.copy().try_clone(),
            None => File::open(self.copy_of(path)),
        }
    }

    /// Where the copy of `path` stands, if it is to be what its original becomes. It is not kept open here.
    pub fn copy_to_follow(&mut self, path: &Path) -> Option<PathBuf> {
        self.sent.borrow_mut().close(path);
        self.has(path).then(|| self.copy_of(path))
    }

    /// Forgets what has arrived of `path`, or of a block of it. What stands in the mirror stays.
    pub fn discard(&mut self, path: &Path, block: Option<u32>) {
        let Some(incoming) = self.incoming.remove(&(path.clone(), block)) else { return };
        self.written.borrow_mut().close(&incoming.number);
        match incoming.give_up() {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(%path, %error, "what had arrived of a file could not be removed");
            }
            _ => {}
        }
        self.leaving.push((path.clone(), incoming));
        self.settle_leaving();
        if block.is_some() {
            self.drop_empty(path);
        }
    }

    /// Counts what stays of what was given up, once nobody writes it any more.
    pub(super) fn settle_leaving(&mut self) {
        for (path, incoming) in std::mem::take(&mut self.leaving) {
            match Arc::try_unwrap(incoming) {
                Ok(incoming) => match incoming.what_stays() {
                    Ok(Some(metadata)) => self.count(&path, &metadata, incoming.take_room()),
                    Ok(None) => {}
                    Err(error) => tracing::debug!(%path, %error, "what had arrived of a file has gone"),
                },
                Err(incoming) => self.leaving.push((path, incoming)),
            }
        }
    }

    /// A file of the mirror, the copy of `path`, takes what was reserved for more of it.
    pub(super) fn count(&mut self, path: &Path, metadata: &Metadata, room: Option<Reservation>) {
        let is_arriving =
            self.incoming.keys().any(|(of, _)| of == path) || self.leaving.iter().any(|(of, _)| of == path);
        let taken = self.taken.entry(metadata.ino()).or_insert_with(|| self.budget.count(0));
        if let Some(room) = room {
            taken.join(room);
        }
        let bytes = metadata.blocks() * 512;
        // What else arrives has room of its own.
        taken.settle(if is_arriving { bytes.min(taken.bytes()) } else { bytes });
    }

    /// Counts what a file or a link takes, whatever has been reserved for it.
    pub(super) fn count_as(&mut self, metadata: &Metadata) {
        if metadata.blocks() == 0 {
            return drop(self.taken.remove(&metadata.ino()));
        }
        let taken = self.taken.entry(metadata.ino()).or_insert_with(|| self.budget.count(0));
        taken.settle(metadata.blocks() * 512);
    }

    /// Moves complete content into the mirror, with its original's mode and times; its inode number.
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

    /// Gives complete content a second name.
    pub fn hard_link(&mut self, path: &Path, target: &Path) -> io::Result<u64> {
        let (from, to) = (self.copy_of(target), self.copy_of(path));
        let parent = self.parent(path)?;
        if self.hidden.contains(path) {
            self.next_number += 1;
            let beside = self.incoming_dir.join(self.next_number.to_string());
            std::fs::hard_link(&from, &beside)?;
            self.put_in_mirror(path, &beside, &parent)?;
            // Renaming one name of a file to another of its names is nothing.
            let _ = std::fs::remove_file(&beside);
            return Ok(std::fs::symlink_metadata(to)?.ino());
        }
        match rustix::fs::linkat(rustix::fs::CWD, &from, &*parent, path.name(), AtFlags::empty()) {
            Ok(()) | Err(Errno::EXIST) => Ok(std::fs::symlink_metadata(to)?.ino()),
            Err(error) => Err(error.into()),
        }
    }

    /// Mirrors a directory, with its original's mode as far as the mirror stays usable.
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

    /// Mirrors a symbolic link. One that leads out of the mirror where the original stays below `/`
    /// is left out: its copy would name another file.
    pub fn symbolic_link(&mut self, path: &Path, target: &[u8]) -> io::Result<()> {
        let Some(target) = self.mirrored_target(path, target) else { return Ok(()) };
        let parent = self.parent(path)?;
        match self.make_link(&target, &*parent, path.name()) {
            Err(error) if matches!(error.kind(), io::ErrorKind::AlreadyExists | io::ErrorKind::StorageFull) => {}
            made => self.taken.extend(made?),
        }
        self.link_in_domains(path, &target)
    }

    /// Makes a link; what it takes, if its target is long.
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

    /// Gives up content, unless a process has it open or mapped: then
    /// [`io::ErrorKind::WouldBlock`]. `hide` is called once it is sure that nobody has; the copy goes
    /// some time later, in [`Store::tick`].
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

    /// Removes evicted copies whose time has come, and frees what nobody uses any more.
    pub fn tick(&mut self, now: Time) {
        self.remove_due(now);
        self.check_parked(now, false);
        self.settle_leaving();
    }

    /// The same, at once.
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
                tracing::warn!(%path, %error, "an evicted file could not be removed from the store");
            }
        }
    }

    /// When [`Store::tick`] is due.
    pub fn next_tick(&self) -> Option<Time> {
        self.hidden.next().into_iter().chain(self.parked.next()).min()
    }

    /// Gives a file its name in the mirror's directory, in the place of an evicted copy if there is one.
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

    /// A number that was never used, and a file beside the mirror of that name.
    pub(super) fn beside(&mut self) -> (u64, PathBuf) {
        self.next_number += 1;
        (self.next_number, self.incoming_dir.join(self.next_number.to_string()))
    }

    pub(super) fn copy_of(&self, path: &Path) -> PathBuf {
        let mut copy = self.prefix.as_os_str().to_owned();
        copy.push(std::ffi::OsStr::from_bytes(path.as_bytes()));
        copy.into()
    }

    /// The mirror's directory that holds `path`, made if need be. No link is followed on the way, so
    /// nothing can be written outside of the mirror.
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
