//! The store: a mirror of the original tree in node-local memory.
//!
//! Under one prefix every path stands as in the original: directories as their listings become
//! known, links as links, files once their content is complete. A file that is still arriving stands
//! beside the mirror and is renamed into it; the holes of one that is there in part are filled in
//! place, so its inode stays. Only the event loop changes the mirror; readers write the files that
//! they are given. Nothing here is mapped.

mod hidden;
mod incoming;
mod lease;

use std::collections::HashMap;
use std::fs::{File, Metadata, Permissions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

use headwater_abi::wire::FileHead;
use headwater_abi::{Attr, Path};
use headwater_proto::Time;
use rustix::fs::{AtFlags, Mode, OFlags, Timespec, Timestamps};
use rustix::io::Errno;

use self::hidden::Hidden;
pub(crate) use self::incoming::Incoming;
use crate::layout::NodeDir;

/// Bits of an original's mode that its copy keeps: never set-user-ID and its like.
const MODE_KEPT: u32 = 0o777;

/// One node's store.
#[derive(Debug)]
pub(crate) struct Store {
    prefix: PathBuf,
    incoming_dir: PathBuf,
    root: Rc<OwnedFd>,
    /// The directory that was used last; the mirror's directories stay.
    parent: Option<(Path, Rc<OwnedFd>)>,
    scope: Vec<(bool, Path)>,
    incoming: HashMap<Path, Arc<Incoming>>,
    hidden: Hidden,
    next_number: u64,
    bytes: u64,
}

impl Store {
    /// An empty store. Links to directories within `scope` will lead to the mirror.
    pub(crate) fn create(dir: &NodeDir, scope: Vec<(bool, Path)>) -> io::Result<Store> {
        let (prefix, incoming_dir) = (dir.root(), dir.incoming());
        std::fs::create_dir_all(&prefix)?;
        std::fs::create_dir_all(&incoming_dir)?;
        let root = Rc::new(rustix::fs::open(&prefix, DIRECTORY, Mode::empty())?);
        Ok(Store {
            prefix,
            incoming_dir,
            root,
            parent: None,
            scope,
            incoming: HashMap::new(),
            hidden: Hidden::default(),
            next_number: 0,
            bytes: 0,
        })
    }

    /// Major and minor number of the store's device.
    pub(crate) fn device(&self) -> io::Result<(u32, u32)> {
        let dev = rustix::fs::fstat(&self.root)?.st_dev;
        Ok((rustix::fs::major(dev), rustix::fs::minor(dev)))
    }

    /// Bytes allocated to the mirror's files.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Where content of `path` is to be written: what has arrived of it continues.
    pub(crate) fn incoming(&mut self, path: &Path) -> Arc<Incoming> {
        if let Some(incoming) = self.incoming.get(path) {
            return Arc::clone(incoming);
        }
        self.next_number += 1;
        let copy = self.copy_of(path);
        let is_hidden = self.hidden.contains(path);
        let before = std::fs::symlink_metadata(&copy).ok().filter(|metadata| metadata.is_file() && !is_hidden);
        let file = if before.is_some() { copy } else { self.incoming_dir.join(self.next_number.to_string()) };
        let incoming = Arc::new(Incoming::new(self.next_number, file, before));
        self.incoming.insert(path.clone(), Arc::clone(&incoming));
        incoming
    }

    /// True if this is still where content of `path` is written.
    pub(crate) fn is_incoming(&self, path: &Path, number: u64) -> bool {
        self.incoming.get(path).is_some_and(|incoming| incoming.number == number)
    }

    /// Writes a piece of content that is arriving.
    pub(crate) fn write(&self, path: &Path, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.incoming.get(path).ok_or(io::ErrorKind::NotFound)?.write(bytes, offset)
    }

    /// Fills `bytes` from the content of `path`, complete or arriving.
    pub(crate) fn read(&self, path: &Path, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        let copy = || self.copy_of(path);
        let file = self.incoming.get(path).map_or_else(copy, |incoming| incoming.file.clone());
        File::open(file)?.read_exact_at(bytes, offset)
    }

    /// Forgets what has arrived of `path`. What stands in the mirror stays.
    pub(crate) fn discard(&mut self, path: &Path) {
        let Some(incoming) = self.incoming.remove(path) else { return };
        match incoming.give_up() {
            Ok(bytes) => self.bytes += bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => tracing::warn!(%path, %error, "what had arrived of a file could not be removed"),
        }
    }

    /// Moves complete content into the mirror, with its original's mode and times; its inode number.
    pub(crate) fn complete(&mut self, path: &Path, head: &FileHead) -> io::Result<u64> {
        let copy = self.copy_of(path);
        let Some(incoming) = self.incoming.remove(path) else {
            return Ok(std::fs::symlink_metadata(copy)?.ino());
        };
        match self.place(path, &incoming, &head.attr) {
            Ok(metadata) => {
                self.bytes += incoming.bytes_added(&metadata);
                Ok(metadata.ino())
            }
            Err(error) => {
                self.incoming.insert(path.clone(), incoming);
                self.discard(path);
                Err(error)
            }
        }
    }

    /// Gives complete content a second name.
    pub(crate) fn hard_link(&mut self, path: &Path, target: &Path) -> io::Result<u64> {
        let (from, to) = (self.copy_of(target), self.copy_of(path));
        let parent = self.parent(path)?;
        if self.hidden.contains(path) {
            self.next_number += 1;
            let beside = self.incoming_dir.join(self.next_number.to_string());
            std::fs::hard_link(&from, &beside)?;
            self.replaced(path);
            rustix::fs::renameat(rustix::fs::CWD, &beside, &*parent, path.name())?;
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
    pub(crate) fn directory(&mut self, path: &Path, attr: &Attr) -> io::Result<()> {
        if path.name().is_empty() {
            return Ok(());
        }
        let parent = self.parent(path)?;
        step(&parent, path.name())?;
        let mode = Mode::from(attr.mode & MODE_KEPT | 0o700);
        Ok(rustix::fs::chmodat(&*parent, path.name(), mode, AtFlags::empty())?)
    }

    /// Mirrors a symbolic link. One that leads out of the mirror where the original stays below `/`
    /// is left out: its copy would name another file.
    pub(crate) fn symbolic_link(&mut self, path: &Path, target: &[u8]) -> io::Result<()> {
        let Some(target) = self.mirrored_target(path, target) else { return Ok(()) };
        let parent = self.parent(path)?;
        match rustix::fs::symlinkat(&target[..], &*parent, path.name()) {
            Ok(()) | Err(Errno::EXIST) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Gives up content, unless a process has it open or mapped: then
    /// [`io::ErrorKind::WouldBlock`]. `hide` is called once it is sure that nobody has; the copy goes
    /// some time later, in [`Store::tick`].
    pub(crate) fn evict(&mut self, now: Time, path: &Path, hide: impl FnOnce()) -> io::Result<()> {
        if self.incoming.contains_key(path) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        match File::open(self.copy_of(path)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => hide(),
            file => {
                lease::take(&file?)?;
                hide();
                self.hidden.add(path, now);
            }
        }
        Ok(())
    }

    /// Removes evicted copies whose time has come. Who opened one meanwhile keeps it.
    pub(crate) fn tick(&mut self, now: Time) {
        for path in self.hidden.take_due(now) {
            let copy = self.copy_of(&path);
            self.forget_bytes(&copy);
            if let Err(error) = std::fs::remove_file(&copy) {
                tracing::warn!(%path, %error, "an evicted file could not be removed from the store");
            }
        }
    }

    /// When [`Store::tick`] is due.
    pub(crate) fn next_tick(&self) -> Option<Time> {
        self.hidden.next()
    }

    /// Something new is about to take the place of an evicted copy.
    fn replaced(&mut self, path: &Path) {
        if self.hidden.remove(path) {
            self.forget_bytes(&self.copy_of(path));
        }
    }

    /// The copy's last name goes.
    fn forget_bytes(&mut self, copy: &std::path::Path) {
        if let Ok(metadata) = std::fs::symlink_metadata(copy)
            && metadata.nlink() == 1
        {
            self.bytes = self.bytes.saturating_sub(metadata.blocks() * 512);
        }
    }

    fn place(&mut self, path: &Path, incoming: &Incoming, attr: &Attr) -> io::Result<Metadata> {
        let file = File::open(&incoming.file)?;
        let times = Timestamps { last_access: timespec(attr.atime), last_modification: timespec(attr.mtime) };
        rustix::fs::futimens(&file, &times)?;
        // The owner's read bit stays, so that the daemon can send the content on.
        file.set_permissions(Permissions::from_mode(attr.mode & MODE_KEPT | 0o400))?;
        if !incoming.is_in_place() {
            let parent = self.parent(path)?;
            self.replaced(path);
            rustix::fs::renameat(rustix::fs::CWD, &incoming.file, &*parent, path.name())?;
        }
        file.metadata()
    }

    fn copy_of(&self, path: &Path) -> PathBuf {
        let mut copy = self.prefix.as_os_str().to_owned();
        copy.push(std::ffi::OsStr::from_bytes(path.as_bytes()));
        copy.into()
    }

    /// The mirror's directory that holds `path`, made if need be. No link is followed on the way, so
    /// nothing can be written outside of the mirror.
    fn parent(&mut self, path: &Path) -> io::Result<Rc<OwnedFd>> {
        let parent = path.parent().filter(|_| path.name() != b"..").ok_or(io::ErrorKind::InvalidInput)?;
        if let Some((last, directory)) = &self.parent
            && *last == parent
        {
            return Ok(Rc::clone(directory));
        }
        let mut directory = Rc::clone(&self.root);
        for name in parent.components() {
            directory = Rc::new(step(&directory, name)?);
        }
        self.parent = Some((parent, Rc::clone(&directory)));
        Ok(directory)
    }

    fn mirrored_target(&self, path: &Path, target: &[u8]) -> Option<Vec<u8>> {
        if let Some(absolute) = Path::new(target) {
            let within = in_scope(&self.scope, &absolute);
            let prefix = if within { self.prefix.as_os_str().as_bytes() } else { b"" };
            return Some([prefix, target].concat());
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

const DIRECTORY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// True if the longest entry that `path` lies in includes it.
pub(crate) fn in_scope(scope: &[(bool, Path)], path: &Path) -> bool {
    let entries = scope.iter().filter(|(_, directory)| path.is_within(directory));
    entries.max_by_key(|(_, directory)| directory.as_bytes().len()).is_some_and(|(included, _)| *included)
}

/// The directory called `name` in the mirror's `directory`, made if it is not there.
fn step(directory: &OwnedFd, name: &[u8]) -> io::Result<OwnedFd> {
    if name == b".." {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    match rustix::fs::openat(directory, name, DIRECTORY, Mode::empty()) {
        Err(Errno::NOENT) => {}
        result => return Ok(result?),
    }
    match rustix::fs::mkdirat(directory, name, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(rustix::fs::openat(directory, name, DIRECTORY, Mode::empty())?)
}

fn timespec((seconds, nanoseconds): (i64, u32)) -> Timespec {
    Timespec { tv_sec: seconds, tv_nsec: nanoseconds.into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headwater_abi::attr::mode;
    use tempfile::TempDir;

    fn path(name: &str) -> Path {
        Path::new(name.as_bytes()).unwrap()
    }

    fn store() -> (TempDir, Store) {
        let dir = tempfile::tempdir().unwrap();
        let scope = vec![(true, path("/sw")), (false, path("/sw/home"))];
        let store = Store::create(&NodeDir::new(dir.path()), scope).unwrap();
        (dir, store)
    }

    fn head(content: &[u8], ranges: &[(u64, u64)]) -> FileHead {
        let attr = Attr { mode: mode::FILE | 0o4751, size: content.len() as u64, mtime: (1000, 5), ..Attr::default() };
        let whole = ranges == [(0, attr.size)];
        FileHead { attr, format: 0, ranges: ranges.into(), whole }
    }

    /// Brings the ranges of `content` into the store.
    fn put(store: &mut Store, name: &str, content: &[u8], ranges: &[(u64, u64)]) -> u64 {
        let (path, head) = (path(name), head(content, ranges));
        store.incoming(&path).create(head.attr.size).unwrap();
        for &(offset, bytes) in ranges {
            store.write(&path, &content[offset as usize..(offset + bytes) as usize], offset).unwrap();
        }
        store.complete(&path, &head).unwrap()
    }

    #[test]
    fn the_longest_entry_decides_the_scope() {
        let scope = [(true, path("/sw")), (false, path("/sw/home")), (true, path("/sw/home/lib"))];
        for (name, within) in
            [("/sw", true), ("/sw/x", true), ("/sw/home/x", false), ("/sw/home/lib/x", true), ("/swx", false)]
        {
            assert_eq!(in_scope(&scope, &path(name)), within, "{name}");
        }
    }

    #[test]
    fn content_is_there_once_it_is_complete() {
        let (_dir, mut store) = store();
        let content = vec![b'x'; 10_000];
        let (name, head) = (path("/sw/a/f"), head(&content, &[(0, 10_000)]));
        store.incoming(&name).create(10_000).unwrap();
        store.write(&name, &content[..5000], 0).unwrap();
        let mut early = vec![0; 5000];
        store.read(&name, &mut early, 0).unwrap();
        assert!(early == content[..5000], "what has arrived can be sent on");
        assert!(!store.copy_of(&name).exists());
        store.write(&name, &content[5000..], 5000).unwrap();
        let ino = store.complete(&name, &head).unwrap();
        let metadata = std::fs::metadata(store.copy_of(&name)).unwrap();
        assert_eq!((metadata.ino(), metadata.mode() & 0o7777, metadata.mtime()), (ino, 0o751, 1000));
        assert_eq!(store.bytes(), metadata.blocks() * 512);
        assert_eq!(std::fs::read_dir(&store.incoming_dir).unwrap().count(), 0);
    }

    #[test]
    fn holes_are_filled_in_place_and_a_discard_leaves_what_was_there() {
        let (_dir, mut store) = store();
        let (name, content) = ("/sw/x.so", vec![b'x'; 64 << 10]);
        let ino = put(&mut store, name, &content, &[(0, 4096)]);
        assert_eq!(store.bytes(), 4096);
        store.incoming(&path(name)).create(64 << 10).unwrap();
        store.write(&path(name), &content[8192..12_288], 8192).unwrap();
        store.discard(&path(name));
        let metadata = std::fs::metadata(store.copy_of(&path(name))).unwrap();
        assert_eq!((metadata.mode() & 0o7777, metadata.mtime(), metadata.ino()), (0o751, 1000, ino));
        assert_eq!(store.bytes(), metadata.blocks() * 512);
        assert_eq!(put(&mut store, name, &content, &[(0, 64 << 10)]), ino);
        assert!(std::fs::read(store.copy_of(&path(name))).unwrap() == content);
        assert_eq!(store.bytes(), 64 << 10);
    }

    #[test]
    fn a_discarded_file_is_gone() {
        let (_dir, mut store) = store();
        let incoming = store.incoming(&path("/sw/f"));
        incoming.create(10).unwrap();
        store.discard(&path("/sw/f"));
        assert!(incoming.is_given_up() && !incoming.file.exists());
        assert!(!store.is_incoming(&path("/sw/f"), incoming.number));
        assert_ne!(store.incoming(&path("/sw/f")).number, incoming.number);
    }

    #[test]
    fn eviction_needs_that_nobody_has_the_file() {
        let (_dir, mut store) = store();
        put(&mut store, "/sw/f", b"content", &[(0, 7)]);
        store.hard_link(&path("/sw/g"), &path("/sw/f")).unwrap();
        let (bytes, file) = (store.bytes(), File::open(store.copy_of(&path("/sw/f"))).unwrap());
        let mut hidden = 0;
        let refused = store.evict(0, &path("/sw/f"), || hidden += 1).unwrap_err();
        assert_eq!((refused.kind(), hidden), (io::ErrorKind::WouldBlock, 0));
        drop(file);
        store.evict(0, &path("/sw/f"), || hidden += 1).unwrap();
        let due = store.next_tick().unwrap();
        store.tick(due);
        assert_eq!((hidden, store.bytes()), (1, bytes), "its other name keeps the bytes");
        store.evict(due, &path("/sw/g"), || hidden += 1).unwrap();
        store.tick(store.next_tick().unwrap());
        assert_eq!((hidden, store.bytes(), store.next_tick()), (2, 0, None));
    }

    #[test]
    fn who_comes_just_after_an_eviction_finds_the_copy() {
        let (_dir, mut store) = store();
        let (f, g) = (path("/sw/f"), path("/sw/g"));
        put(&mut store, "/sw/f", b"content", &[(0, 7)]);
        let bytes = store.bytes();
        store.evict(0, &f, || ()).unwrap();
        let due = store.next_tick().unwrap();
        store.tick(due - 1);
        assert_eq!(std::fs::read(store.copy_of(&f)).unwrap(), b"content");

        put(&mut store, "/sw/f", b"content", &[(0, 7)]);
        store.tick(due);
        assert_eq!((std::fs::read(store.copy_of(&f)).unwrap(), store.bytes()), (b"content".to_vec(), bytes));

        put(&mut store, "/sw/g", b"content", &[(0, 7)]);
        store.evict(due, &f, || ()).unwrap();
        let ino = store.hard_link(&f, &g).unwrap();
        store.tick(due * 2);
        assert_eq!(std::fs::metadata(store.copy_of(&f)).unwrap().ino(), ino);
        assert_eq!((store.bytes(), std::fs::read_dir(&store.incoming_dir).unwrap().count()), (bytes, 0));
    }

    #[test]
    fn links_never_lead_out_of_the_mirror_by_accident() {
        let (_dir, store) = store();
        let inside = [store.prefix.as_os_str().as_bytes(), b"/sw/b"].concat();
        for (link, target, mirrored) in [
            ("/sw/l", &b"b"[..], Some(&b"b"[..])),
            ("/sw/d/l", b"../b", Some(b"../b")),
            ("/sw/l", b"../../etc/passwd", None),
            ("/sw/l", b"x/../../../b", None),
            ("/sw/l", b"/sw/b", Some(&inside)),
            ("/sw/l", b"/sw/home/b", Some(b"/sw/home/b")),
            ("/sw/l", b"/etc/passwd", Some(b"/etc/passwd")),
        ] {
            assert_eq!(store.mirrored_target(&path(link), target).as_deref(), mirrored);
        }
    }

    #[test]
    fn nothing_is_written_through_a_link() {
        let (dir, mut store) = store();
        let outside = dir.path().join("outside");
        std::fs::create_dir(&outside).unwrap();
        store.symbolic_link(&path("/sw/way"), outside.as_os_str().as_bytes()).unwrap();
        store.incoming(&path("/sw/way/f")).create(1).unwrap();
        assert!(store.complete(&path("/sw/way/f"), &head(b"x", &[(0, 1)])).is_err());
        assert!(store.directory(&path("/sw/way/d"), &Attr::default()).is_err());
        assert!(store.hard_link(&path("/sw/../../f"), &path("/sw/f")).is_err());
        assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0);
    }
}
