//! Publishes in the node's shared table.
//!
//! Processes use the source files for what can't be published: a full table costs speed, never correctness. So errors
//! are counted and reported once, not returned.

mod mapping;
mod successor;
mod view;

use std::cell::RefCell;
use std::io;
use std::rc::Rc;

use headwater_abi::Path;
use headwater_abi::table::{AtomicU64, Fact as TableFact, Geometry, Header, Reader, State, TableError, Writer};
use headwater_abi::wire::{Aspect, Fact, FileHead};

use self::mapping::Backing;
pub use self::view::view;

type Reserve = Box<dyn FnMut(u64) -> bool>;

/// The daemon's side of the table.
pub struct Table {
    writer: Writer<'static, Reserve>,
    words: &'static [AtomicU64],
    geometry: Geometry,
    reader: Reader<'static>,
    backing: Rc<RefCell<Backing>>,
    failures: u64,
}

impl Table {
    /// Creates the table's file at `path`, with memory for all but the heap.
    pub fn create(path: &std::path::Path, geometry: Geometry, header: &Header) -> io::Result<Table> {
        let (words, backing) = mapping::create(path, geometry.total_bytes())?;
        Table::over(words, backing, geometry, |reserve| Writer::create(words, geometry, header, reserve))
    }

    /// Continues with the table's file at `path`, however its writer has ended. The numbers of its records stay.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidData`] if it is not a table of this version and these sizes.
    pub fn attach(path: &std::path::Path, geometry: Geometry) -> io::Result<Table> {
        let (words, backing) = mapping::attach(path, geometry.total_bytes())?;
        Table::over(words, backing, geometry, |reserve| Writer::attach(words, geometry, reserve))
    }

    fn over(
        words: &'static [AtomicU64],
        backing: Backing,
        geometry: Geometry,
        write: impl FnOnce(Reserve) -> Result<Writer<'static, Reserve>, TableError>,
    ) -> io::Result<Table> {
        let backing = Rc::new(RefCell::new(backing));
        let reserved = Rc::clone(&backing);
        let reserve: Reserve = Box::new(move |end| reserved.borrow_mut().reserve(end));
        if !backing.borrow_mut().reserve(geometry.heap_at()) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let writer = write(reserve).map_err(|error| match error {
            TableError::Foreign => io::Error::new(io::ErrorKind::InvalidData, error),
            error => io::Error::other(error),
        })?;
        let reader = Reader::open(words).ok_or(io::ErrorKind::InvalidData)?;
        Ok(Table { writer, words, geometry, reader, backing, failures: 0 })
    }

    /// Returns a reader of the table.
    pub fn reader(&self) -> Reader<'static> {
        self.reader
    }

    /// Ensures that `path` has a record, perhaps without facts, so that it has a number. Returns false without room.
    pub fn record(&mut self, path: &Path) -> bool {
        let result = self.writer.mark(path, State::empty(), State::empty());
        let is_there = result.is_ok();
        self.note(path, result);
        is_there
    }

    /// Removes a record for reuse. Returns false if it must stay. No reader may use the table meanwhile.
    pub fn reclaim(&mut self, path: &Path) -> bool {
        self.writer.reclaim(path)
    }

    /// Publishes a fact.
    pub fn fact(&mut self, path: &Path, fact: &Fact) {
        let fact = match fact {
            Fact::Absent => TableFact::Absent,
            Fact::Error(errno) => TableFact::Error(*errno),
            Fact::Attr(attr) => TableFact::Attr(*attr),
            Fact::Link(attr, target) => TableFact::Link(*attr, target),
            Fact::Listing(attr, listing) => TableFact::Listing(*attr, listing),
            Fact::Unlistable(attr) => TableFact::Unlistable(*attr),
        };
        let result = self.writer.publish(path, &fact);
        self.note(path, result);
    }

    /// Publishes content whose copy is in the mirror with this inode number.
    pub fn content(&mut self, path: &Path, aspect: Aspect, head: &FileHead, ino: u64) {
        let result = self.try_content(path, aspect, head, ino);
        self.note(path, result);
    }

    /// Publishes that the content of `path` is no longer in the store.
    pub fn evicted(&mut self, path: &Path) {
        let result = self.writer.mark(path, State::empty(), State::CONTENT);
        let result = result.and_then(|()| self.writer.forget_inode(path));
        self.note(path, result);
    }

    /// Publishes that the mirrors of all `domains` have the content of `path`, with `whole` all of it.
    pub fn replicated(&mut self, path: &Path, whole: bool) {
        let bits = if whole { State::REPLICATED | State::REPLICATED_WHOLE } else { State::REPLICATED };
        let result = self.writer.mark(path, bits, State::empty());
        self.note(path, result);
    }

    /// Publishes that processes read the source file of `path`.
    pub fn set_direct(&mut self, path: &Path) {
        let result = self.writer.mark(path, State::DIRECT, State::empty());
        self.note(path, result);
    }

    /// Publishes that processes under audit read `path` in the mount. `head` describes some of its content.
    pub fn set_in_mount(&mut self, path: &Path, head: &FileHead) {
        let result = self.writer.mark(path, State::IN_MOUNT | State::from_bits_truncate(head.format), State::empty());
        self.note(path, result);
    }

    /// Publishes the mount for processes under audit.
    pub fn set_mount(&mut self, mount_point: &[u8], device: (u32, u32)) {
        if let Err(error) = self.writer.set_mount(mount_point, device) {
            tracing::warn!(%error, "the shared table has no room for the mount's path: large files are stored whole");
        }
    }

    /// Makes processes under audit no longer read files in the mount, which shows a later generation.
    pub fn leave_mount(&mut self) {
        self.writer.mark_all(State::empty(), State::IN_MOUNT);
    }

    /// Publishes which memory domains have mirrors.
    pub fn set_domains(&mut self, domains: u64) {
        self.writer.set_domains(domains);
    }

    /// Makes `path` a passthrough path, with `tree` also all below it, and marks its directory's listing.
    pub fn set_passthrough(&mut self, path: &Path, tree: bool) {
        let bits = if tree { State::PASSTHROUGH | State::TREE_PASSTHROUGH } else { State::PASSTHROUGH };
        let result = self.writer.mark(path, bits, State::empty());
        self.note(path, result);
        if let Some(parent) = path.parent() {
            let result = self.writer.mark(&parent, State::LISTING_PASSTHROUGH, State::empty());
            self.note(&parent, result);
        }
    }

    /// Makes all known paths passthrough paths.
    pub fn set_all_passthrough(&mut self) {
        self.writer.mark_all(State::PASSTHROUGH, State::empty());
    }

    /// Publishes that programs run without audit, whose changes are not reported.
    pub fn unaudited(&mut self) {
        self.writer.set_unaudited();
    }

    /// Publishes that no request will be answered any longer.
    pub fn close(&mut self) {
        self.writer.close();
    }

    /// Allocates memory beyond the present need, for further facts.
    pub fn replenish(&mut self) {
        self.backing.borrow_mut().replenish();
    }

    /// Returns true if memory beyond the need could not be allocated.
    pub fn is_short(&self) -> bool {
        self.backing.borrow().is_short()
    }

    /// Returns the allocated bytes.
    pub fn bytes(&self) -> u64 {
        self.backing.borrow().reserved()
    }

    fn try_content(&mut self, path: &Path, aspect: Aspect, head: &FileHead, ino: u64) -> Result<(), TableError> {
        self.writer.publish(path, &TableFact::Attr(head.attr))?;
        // The inode first: a process that sees the residency may open the copy and look its inode up.
        self.writer.index_inode(path, ino)?;
        let residency =
            if aspect == Aspect::Whole || head.whole { State::LOADABLE | State::WHOLE } else { State::LOADABLE };
        self.writer.mark(path, residency | State::from_bits_truncate(head.format), State::empty())
    }

    fn note(&mut self, path: &Path, result: Result<(), TableError>) {
        let Err(error) = result else { return };
        if self.failures == 0 {
            tracing::warn!(%path, %error, "the shared table could not take an entry; processes use the source files of this and further paths. Exclude large data directories with --exclude");
        }
        self.failures += 1;
    }
}
