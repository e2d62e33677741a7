//! Copies files' content from the shared file system into the store.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Instant;

use headwater_abi::attr::mode;
use headwater_abi::table::State;
use headwater_abi::wire::{Aspect, BLOCK_BYTES, FileHead, STRIPED_BLOCK_MIN};
use headwater_abi::{Attr, Kind, Path};
use headwater_closure::elf;
use rustix::fs::{Access, Advice, AtFlags, OFlags, accessat, fadvise, fcntl_setfl, fgetxattr_query};
use rustix::io::Errno;

use crate::all_users::{self, Permission};
use crate::jobs::{FileError, FileEvent, FileJob};
use crate::reader::Reader;

/// Bytes of one read: the kernel's read-ahead for sequential reading.
const READ_BYTES: usize = 256 << 10;

/// A file that is being copied.
struct Copy<'a> {
    reader: &'a Reader,
    job: &'a FileJob,
    head: &'a FileHead,
    source: &'a File,
    /// `None` if the content is collected in memory.
    target: Option<&'a File>,
}

impl Reader {
    /// Copies a file's content to the job's target. Returns the last event, once it is certain that the file has not
    /// changed meanwhile. Calls `report` for each earlier event. `buffer` is reused for the next file.
    pub(super) fn file(
        &self,
        job: &FileJob,
        buffer: &mut Vec<u8>,
        report: &mut dyn FnMut(FileEvent),
    ) -> Result<FileEvent, FileError> {
        let source_error = FileError::Source;
        let source = self.source(job).map_err(source_error)?;
        let attr = self.attr(&*source, b"").map_err(source_error)?;
        match attr.kind() {
            Kind::File => {}
            Kind::Dir => return Err(source_error(Errno::ISDIR)),
            _ => return Err(source_error(Errno::INVAL)),
        }
        if self.for_all_users {
            self.count_operation();
            all_users::check(&source, &attr, Permission::Read).map_err(source_error)?;
        }
        if job.have.as_ref().is_some_and(|have| !is_same_version(&have.attr, &attr)) {
            self.sources.forget(&job.path);
            return Err(changed(&job.path));
        }
        if attr.size > job.file_bytes_max {
            return Ok(FileEvent::Opened(self.head(job, &source, attr, &[])));
        }
        if attr.size > READ_BYTES as u64 / 2 {
            // What lies behind a block of a file that readers share is another one's to read. Otherwise, twice the
            // read-ahead halves the requests to the server.
            let is_large = attr.size > u64::from(STRIPED_BLOCK_MIN) * BLOCK_BYTES;
            let is_shared = self.shares_files && job.block().is_some() && is_large;
            let advice = if is_shared { Advice::Random } else { Advice::Sequential };
            let _ = fadvise(&source, 0, None, advice);
        }
        let bytes = READ_BYTES.min(attr.size.try_into().unwrap_or(READ_BYTES));
        buffer.resize(buffer.len().max(bytes), 0);
        let prefix_bytes = if is_known(job) { 0 } else { bytes };
        let prefix = &mut buffer[..prefix_bytes];
        let cached = job.block().filter(|_| prefix_bytes > 0).and_then(|_| self.sources.take_beginning(&job.path));
        match cached.filter(|cached| cached.len() == prefix.len()) {
            Some(cached) => prefix.copy_from_slice(&cached),
            None => self.read(&source, prefix, 0, &job.path)?,
        }
        let head = self.head(job, &source, attr, prefix);
        let head = job.block().map_or(Some(head.clone()), |number| head.block(number));
        let Some(head) = head else { return Err(source_error(Errno::INVAL)) };
        if head.content_bytes() > job.content_bytes_max {
            self.sources.cache(&job.path, source, buffer[..prefix_bytes].to_vec());
            return Ok(FileEvent::Opened(head));
        }
        job.incoming.create(&head).map_err(|error| refused(job, &error))?;
        let target = if job.incoming.is_small() { Ok(None) } else { job.incoming.open().map(Some) };
        let target = target.map_err(|error| refused(job, &error))?;
        let is_short = head.content_bytes() <= READ_BYTES as u64;
        if !is_short {
            report(FileEvent::Opened(head.clone()));
        }
        let copy = Copy { reader: self, job, head: &head, source: &source, target: target.as_ref() };
        copy.run(buffer, prefix_bytes as u64, report)?;
        let after = self.version(&*source).map_err(source_error)?;
        if !is_same_version(&attr, &after) {
            self.sources.forget(&job.path);
            return Err(changed(&job.path));
        }
        Ok(if is_short { FileEvent::All(head) } else { FileEvent::Read(head.content_bytes()) })
    }

    /// Reads `bytes` bytes of a file from `offset`. Returns the microseconds that it took, opening included.
    pub(super) fn time(&self, path: &Path, offset: u64, bytes: u64, buffer: &mut Vec<u8>) -> Result<u64, FileError> {
        let began = Instant::now();
        let source = self.sources.get(path, || self.open_source(path)).map_err(FileError::Source)?;
        buffer.resize(buffer.len().max(READ_BYTES), 0);
        for position in (0..bytes).step_by(READ_BYTES) {
            let part = READ_BYTES.min((bytes - position) as usize);
            self.read(&source, &mut buffer[..part], offset + position, path)?;
        }
        Ok(began.elapsed().as_micros() as u64)
    }

    /// Opens the file. A file that is read in blocks stays open for further blocks.
    fn source(&self, job: &FileJob) -> Result<Arc<File>, Errno> {
        let open = || self.open_source(&job.path);
        match job.block() {
            Some(_) => self.sources.get(&job.path, open),
            None => self.sources.find(&job.path).map_or_else(|| open().map(Arc::new), Ok),
        }
    }

    fn open_source(&self, path: &Path) -> Result<File, Errno> {
        let source = self.retried(|| self.open_file(path))?;
        self.files_read.fetch_add(1, Ordering::Relaxed);
        fcntl_setfl(&source, OFlags::empty())?;
        Ok(File::from(source))
    }

    fn open_file(&self, path: &Path) -> Result<OwnedFd, Errno> {
        if let Some(file) = self.opened.lock().unwrap_or_else(PoisonError::into_inner).remove(path) {
            return Ok(file);
        }
        let parent = path.parent().ok_or(Errno::ISDIR)?;
        // O_NONBLOCK: opening a FIFO must not block.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        self.open_at(&*self.directory(&parent)?, path.name(), flags)
    }

    /// Fills `buffer` from `offset`. A file that ends before has changed.
    fn read(&self, source: &File, buffer: &mut [u8], offset: u64, path: &Path) -> Result<(), FileError> {
        let mut filled = 0;
        while filled < buffer.len() {
            self.count_operation();
            match source.read_at(&mut buffer[filled..], offset + filled as u64) {
                Ok(0) => return Err(changed(path)),
                Ok(bytes) => filled += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(FileError::Source(Errno::from_io_error(&error).unwrap_or(Errno::IO))),
            }
        }
        self.bytes_read.fetch_add(filled as u64, Ordering::Relaxed);
        Ok(())
    }

    /// Describes the content. `prefix` is the file's beginning; it is empty if the beginning is known or not needed.
    fn head(&self, job: &FileJob, source: &File, attr: Attr, prefix: &[u8]) -> FileHead {
        let object = elf::inspect(prefix, attr.size);
        let mut format = State::from_bits_truncate(job.have.as_ref().map_or(0, |have| have.format));
        if !is_known(job) {
            format.set(State::NATIVE_OBJECT, object.as_ref().is_some_and(|object| object.native));
            format.set(State::SCRIPT, prefix.starts_with(b"#!"));
        }
        // Only programs are executed from the store; a library of mode 0755 needs no check.
        let is_program = match &object {
            Some(object) => object.has_interpreter,
            None => begins_in_store(job) || format.contains(State::SCRIPT),
        };
        let all = if attr.size > 0 { vec![(0, attr.size)] } else { Vec::new() };
        let ranges: Arc<[(u64, u64)]> = match object {
            Some(object) if job.aspect == Aspect::Loadable => object.ranges.into(),
            _ => all.as_slice().into(),
        };
        let whole = *ranges == *all;
        // Complete content may be executed later without another request.
        let may_be_executed = is_program && (job.execute || whole);
        format.set(State::EXECUTABLE, may_be_executed && self.is_executable(job, source, &attr));
        FileHead { attr, format: format.bits(), ranges, whole }
    }

    /// Returns true if the copy may be executed in place of the source file: the user may execute it, and it has
    /// neither set-ID bits nor capabilities.
    fn is_executable(&self, job: &FileJob, source: &File, attr: &Attr) -> bool {
        if attr.mode & 0o111 == 0 || attr.mode & mode::SET_ID != 0 {
            return false;
        }
        let may_execute = self.may_execute(&job.path).unwrap_or(false);
        may_execute && {
            self.count_operation();
            matches!(fgetxattr_query(source, "security.capability"), Err(Errno::NODATA | Errno::OPNOTSUPP))
        }
    }

    fn may_execute(&self, path: &Path) -> Result<bool, Errno> {
        let parent = self.directory(&path.parent().ok_or(Errno::ISDIR)?)?;
        self.count_operation();
        Ok(accessat(&*parent, path.name(), Access::EXEC_OK, AtFlags::empty()).is_ok())
    }
}

impl Copy<'_> {
    /// Copies all missing bytes. `buffer` begins with the file's first `prefix_bytes`.
    fn run(&self, buffer: &mut [u8], prefix_bytes: u64, report: &mut dyn FnMut(FileEvent)) -> Result<(), FileError> {
        let (content_bytes, mut position) = (self.head.content_bytes(), 0);
        let mut buffered = (0, prefix_bytes);
        while let Some((offset, in_range)) = self.head.locate(position) {
            let bytes = match self.stored_bytes(offset) {
                Some(bytes) => bytes.min(in_range),
                None => {
                    let wanted = in_range.min(self.missing_bytes(offset));
                    if !(buffered.0..buffered.1).contains(&offset) {
                        let bytes = wanted.min(READ_BYTES as u64);
                        self.reader.read(self.source, &mut buffer[..bytes as usize], offset, &self.job.path)?;
                        buffered = (offset, offset + bytes);
                    }
                    let bytes = wanted.min(buffered.1 - offset);
                    let at = (offset - buffered.0) as usize;
                    self.write(&buffer[at..at + bytes as usize], offset)?;
                    bytes
                }
            };
            position += bytes;
            if position < content_bytes && content_bytes > READ_BYTES as u64 {
                report(FileEvent::Read(position));
            }
        }
        Ok(())
    }

    fn write(&self, bytes: &[u8], offset: u64) -> Result<(), FileError> {
        if self.job.incoming.is_given_up() {
            return Err(FileError::GivenUp);
        }
        let result = match self.target {
            Some(target) => self.job.incoming.write_to(target, bytes, offset),
            None => self.job.incoming.write(bytes, offset),
        };
        result.map_err(|error| refused(self.job, &error))
    }

    /// Returns how many bytes from `offset` on are stored already, if any.
    fn stored_bytes(&self, offset: u64) -> Option<u64> {
        self.have().find(|&(start, bytes)| (start..start + bytes).contains(&offset)).map(|(s, b)| s + b - offset)
    }

    /// Returns how many bytes from `offset` on are missing.
    fn missing_bytes(&self, offset: u64) -> u64 {
        self.have().find(|&(start, _)| start > offset).map_or(u64::MAX, |(start, _)| start - offset)
    }

    fn have(&self) -> impl Iterator<Item = (u64, u64)> {
        let have = self.job.have.as_ref().filter(|_| self.job.incoming.is_in_place());
        have.map_or(&[][..], |have| &have.ranges).iter().copied()
    }
}

/// Returns true if the file's beginning need not be read: it is stored, or the job is for a later block.
fn is_known(job: &FileJob) -> bool {
    begins_in_store(job) || job.block().is_some_and(|number| number > 0)
}

fn begins_in_store(job: &FileJob) -> bool {
    let first = job.have.as_ref().and_then(|have| have.ranges.first());
    first.is_some_and(|&(offset, _)| offset == 0)
}

/// Compares versions, perhaps seen by different nodes, which number devices differently.
fn is_same_version(before: &Attr, after: &Attr) -> bool {
    let version = |attr: &Attr| (attr.ino, attr.size, attr.mtime);
    version(before) == version(after)
}

fn changed(path: &Path) -> FileError {
    tracing::debug!(%path, "the file has changed since it was first read");
    FileError::Source(Errno::STALE)
}

fn refused(job: &FileJob, error: &io::Error) -> FileError {
    if job.incoming.is_given_up() {
        return FileError::GivenUp;
    }
    tracing::debug!(path = %job.path, %error, "a file does not fit into the store");
    FileError::Store
}

#[cfg(test)]
mod tests {
    use super::*;
    use headwater_store::layout::NodeDir;
    use headwater_store::{Budget, Incoming, Store};
    use tempfile::TempDir;

    struct Fixture {
        dir: TempDir,
        reader: Reader,
    }

    impl Fixture {
        fn new(content: &[u8]) -> Fixture {
            let dir = tempfile::tempdir().unwrap();
            std::fs::write(dir.path().join("f"), content).unwrap();
            Fixture { dir, reader: Reader::default() }
        }

        fn submit(&self, name: &str) -> FileJob {
            let path = Path::new(self.dir.path().join(name).as_os_str().as_encoded_bytes()).unwrap();
            let incoming = Arc::new(Incoming::new(1, None, self.dir.path().join("copy"), Budget::default()));
            FileJob {
                path,
                aspect: Aspect::Whole,
                have: None,
                execute: false,
                content_bytes_max: u64::MAX,
                file_bytes_max: u64::MAX,
                incoming,
            }
        }

        fn copy(&self) -> Vec<u8> {
            std::fs::read(self.dir.path().join("copy")).unwrap()
        }
    }

    #[test]
    fn large_files_are_reported_piece_by_piece() {
        let content: Vec<u8> = (0..READ_BYTES * 3 + 5).map(|n| (n / 7) as u8).collect();
        let fixture = Fixture::new(&content);
        let mut positions = Vec::new();
        let mut report = |event| match event {
            FileEvent::Opened(head) => assert_eq!((head.whole, head.content_bytes()), (true, content.len() as u64)),
            FileEvent::Read(position) => positions.push(position as usize),
            other => panic!("{other:?}"),
        };
        let total = fixture.reader.file(&fixture.submit("f"), &mut Vec::new(), &mut report);
        assert!(matches!(total, Ok(FileEvent::Read(total)) if total == content.len() as u64), "{total:?}");
        assert_eq!(positions, [READ_BYTES, READ_BYTES * 2, READ_BYTES * 3]);
        assert!(fixture.copy() == content);
        let counts = fixture.reader.counts();
        assert_eq!((counts.files_read, counts.bytes_read), (1, content.len() as u64));
    }

    #[test]
    fn what_is_stored_is_not_read_again() {
        let content: Vec<u8> = (0..READ_BYTES * 3).map(|n| (n / 5) as u8).collect();
        let fixture = Fixture::new(&content);
        let attr = fixture.reader.attr(File::open(fixture.dir.path().join("f")).unwrap(), b"").unwrap();
        let (bytes, hole) = (READ_BYTES as u64, READ_BYTES..READ_BYTES * 2 - 7);
        let ranges = [(0, bytes), (2 * bytes - 7, bytes + 7)];
        let mut stored = content.clone();
        stored[hole.clone()].fill(0);
        let copy = fixture.dir.path().join("copy");
        std::fs::write(&copy, stored).unwrap();
        let mut job = fixture.submit("f");
        job.incoming = Arc::new(Incoming::new(1, Some(copy), fixture.dir.path().join("beside"), Budget::default()));
        job.have = Some(FileHead { attr, format: 0, ranges: ranges.into(), whole: false });
        let last = fixture.reader.file(&job, &mut Vec::new(), &mut |_| ());
        assert!(matches!(last, Ok(FileEvent::Read(total)) if total == content.len() as u64), "{last:?}");
        assert_eq!(fixture.reader.counts().bytes_read, hole.len() as u64);
        assert!(fixture.copy() == content);
    }

    #[test]
    fn short_files_and_blocks_are_reported_at_once() {
        let size = headwater_abi::wire::BLOCK_BYTES as usize + 10;
        let content: Vec<u8> = (0..size).map(|n| (n / 3) as u8).collect();
        let fixture = Fixture::new(&content);
        let node_dir = tempfile::tempdir().unwrap();
        let mut store = Store::create(&NodeDir::new(node_dir.path()), Vec::new()).unwrap();
        let job = fixture.submit("f");
        let incoming = store.incoming_block(&job.path, 1, size as u64).unwrap();
        let job = FileJob { aspect: Aspect::Block(1), incoming, ..job };
        let event = fixture.reader.file(&job, &mut Vec::new(), &mut |_| ());
        assert!(matches!(&event, Ok(FileEvent::All(head)) if head.content_bytes() == 10), "{event:?}");
        let mut block = [0; 10];
        store.read(&job.path, Some(1), &mut block, size as u64 - 10).unwrap();
        assert_eq!(block, content[size - 10..]);
        for content in [&b""[..], b"x"] {
            let fixture = Fixture::new(content);
            let event = fixture.reader.file(&fixture.submit("f"), &mut Vec::new(), &mut |_| ());
            let bytes = content.len() as u64;
            assert!(matches!(&event, Ok(FileEvent::All(head)) if head.content_bytes() == bytes), "{event:?}");
        }
    }

    #[test]
    fn what_is_larger_than_wanted_is_opened_and_its_blocks_are_read_without_opening_it_again() {
        let size = headwater_abi::wire::BLOCK_BYTES as usize + 10;
        let content: Vec<u8> = (0..size).map(|n| (n / 3) as u8).collect();
        let fixture = Fixture::new(&content);
        let job = FileJob { content_bytes_max: size as u64 - 1, ..fixture.submit("f") };
        let event = fixture.reader.file(&job, &mut Vec::new(), &mut |_| ());
        let Ok(FileEvent::Opened(head)) = event else { panic!("{event:?}") };
        assert_eq!((head.whole, head.content_bytes()), (true, size as u64));
        let node_dir = tempfile::tempdir().unwrap();
        let mut store = Store::create(&NodeDir::new(node_dir.path()), Vec::new()).unwrap();
        for block in [1, 0] {
            let incoming = store.incoming_block(&job.path, block, size as u64).unwrap();
            let have = Some(FileHead { ranges: [].into(), ..head.clone() });
            let job = FileJob { aspect: Aspect::Block(block), have, incoming, ..fixture.submit("f") };
            fixture.reader.file(&job, &mut Vec::new(), &mut |_| ()).unwrap();
            store.complete_block(&job.path, block, false).unwrap();
        }
        let counts = fixture.reader.counts();
        assert_eq!((counts.files_read, counts.bytes_read), (1, size as u64));
        let mut copy = Vec::new();
        std::io::Read::read_to_end(&mut store.open_copy(&job.path).unwrap(), &mut copy).unwrap();
        assert!(copy == content);
    }

    #[test]
    fn of_a_file_that_is_not_stored_nothing_is_read() {
        let fixture = Fixture::new(&[7; 100]);
        for (file_bytes_max, bytes_read) in [(99, 0), (100, 100)] {
            let job = FileJob { aspect: Aspect::Loadable, file_bytes_max, ..fixture.submit("f") };
            let event = fixture.reader.file(&job, &mut Vec::new(), &mut |_| ());
            let (Ok(FileEvent::Opened(head)) | Ok(FileEvent::All(head))) = event else { panic!("{event:?}") };
            assert_eq!((head.attr.size, fixture.reader.counts().bytes_read), (100, bytes_read));
        }
    }

    #[test]
    fn a_file_that_changes_meanwhile_is_not_served() {
        for change in [
            |file: &File| file.set_len(3),
            |file: &File| file.set_len(1 << 20),
            |file: &File| file.set_modified(std::time::UNIX_EPOCH),
        ] {
            let fixture = Fixture::new(&vec![1; READ_BYTES + 10]);
            let job = fixture.submit("f");
            let source = File::options().write(true).open(fixture.dir.path().join("f")).unwrap();
            let mut report = |_| change(&source).unwrap();
            let result = fixture.reader.file(&job, &mut Vec::new(), &mut report);
            assert_eq!(result.unwrap_err(), FileError::Source(Errno::STALE));
        }
    }

    #[test]
    fn only_regular_files_have_content() {
        let fixture = Fixture::new(b"x");
        std::fs::create_dir(fixture.dir.path().join("d")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, fixture.dir.path().join("fifo"), rustix::fs::Mode::RUSR).unwrap();
        std::os::unix::fs::symlink("f", fixture.dir.path().join("link")).unwrap();
        for (name, errno) in
            [("d", Errno::ISDIR), ("fifo", Errno::INVAL), ("link", Errno::LOOP), ("absent", Errno::NOENT)]
        {
            let result = fixture.reader.file(&fixture.submit(name), &mut Vec::new(), &mut |_| ());
            assert_eq!(result.unwrap_err(), FileError::Source(errno), "{name}");
        }
    }

    #[test]
    fn reading_stops_once_the_content_is_given_up() {
        let fixture = Fixture::new(&vec![1; READ_BYTES * 2]);
        let job = fixture.submit("f");
        let mut report = |event| {
            if let FileEvent::Read(..) = event {
                job.incoming.give_up().unwrap();
            }
        };
        let result = fixture.reader.file(&job, &mut Vec::new(), &mut report);
        assert_eq!(result.unwrap_err(), FileError::GivenUp);
        assert_eq!(fixture.reader.counts().bytes_read, 2 * READ_BYTES as u64);
    }
}
