//! Content that passes from a file to the kernel without a buffer in between.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::{Errno, write};
use rustix::param::page_size;
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};

/// What every user's pipe may hold. It is more than one transfer, so that a header and unaligned bytes have room.
const PIPE_BYTES: usize = 1 << 20;

/// A pipe that holds a reply with a file's pages while it is put together.
///
/// The pages are passed by reference, and the kernel copies them once. A buffer costs a second copy, and the
/// translation of its addresses. The kernel is not allowed to move pages (`SPLICE_F_MOVE`): it would take clean ones from
/// the file's page cache, and other readers of the file would wait for its disk.
#[derive(Debug)]
pub struct Pipe {
    reader: OwnedFd,
    writer: OwnedFd,
    pages_max: usize,
}

impl Pipe {
    /// Makes a pipe.
    ///
    /// # Errors
    /// EMFILE and ENFILE, and EPERM once the user's pipes have too many pages.
    pub fn new() -> io::Result<Pipe> {
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        let bytes = fcntl_setpipe_size(&writer, PIPE_BYTES)?;
        Ok(Pipe { reader, writer, pages_max: bytes / page_size() })
    }

    /// Writes a message of this header and these bytes of a file to `to`, and returns the pipe for another one. `None`:
    /// it was not written.
    pub(crate) fn pass(
        self,
        to: BorrowedFd<'_>,
        header: &[u8],
        file: BorrowedFd<'_>,
        offset: u64,
        bytes: usize,
    ) -> Option<Pipe> {
        let pages = (offset as usize % page_size() + bytes).div_ceil(page_size());
        if pages >= self.pages_max || !self.fill(header, file, offset, bytes) {
            return None;
        }
        let message_bytes = header.len() + bytes;
        loop {
            match splice(&self.reader, None, to, None, message_bytes, SpliceFlags::empty()) {
                Ok(written) if written == message_bytes => return Some(self),
                Err(Errno::INTR) => {}
                Ok(_) | Err(_) => return None,
            }
        }
    }

    /// Fills the pipe with a message. Returns false if the file is shorter, or can't be spliced.
    fn fill(&self, header: &[u8], file: BorrowedFd<'_>, offset: u64, bytes: usize) -> bool {
        if write(&self.writer, header) != Ok(header.len()) {
            return false;
        }
        let (mut at, end) = (offset, offset + bytes as u64);
        while at < end {
            let rest = (end - at) as usize;
            match splice(file, Some(&mut at), self.writer.as_fd(), None, rest, SpliceFlags::NONBLOCK) {
                Ok(0) => return false,
                Ok(_) | Err(Errno::INTR) => {}
                Err(_) => return false,
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{Read, Seek, SeekFrom};
    use std::os::unix::fs::FileExt;

    use super::*;

    /// Passes a part of a file. Returns what has arrived, if it was not given up.
    fn passed(file: &File, offset: u64, bytes: usize) -> Option<Vec<u8>> {
        let mut to = tempfile::tempfile().unwrap();
        let pipe = Pipe::new().unwrap().pass(to.as_fd(), b"header", file.as_fd(), offset, bytes);
        let mut arrived = Vec::new();
        to.seek(SeekFrom::Start(0)).unwrap();
        to.read_to_end(&mut arrived).unwrap();
        assert_eq!(pipe.is_some(), !arrived.is_empty());
        pipe.map(|_| arrived)
    }

    #[test]
    fn a_message_is_passed_whole_or_not_at_all() {
        let content: Vec<u8> = (0..3 << 20).map(|at: u32| ((at * 7) >> 3) as u8).collect();
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&content, 0).unwrap();
        for (offset, bytes) in
            [(0, 1), (0, 128 << 10), (4095, 4098), (1 << 20, 512 << 10), (1, 512 << 10), (content.len() - 5, 5)]
        {
            let expected = [b"header", &content[offset..offset + bytes]].concat();
            assert!(passed(&file, offset as u64, bytes) == Some(expected), "{offset}, {bytes}");
        }
        assert_eq!(passed(&file, content.len() as u64 - 5, 6), None, "the file is shorter");
        assert_eq!(passed(&file, 0, PIPE_BYTES), None, "there is no room for the header");
        let (other, _writer) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        assert_eq!(passed(&File::from(other), 0, 1), None, "it has no offsets");
    }

    #[test]
    fn a_message_that_is_not_taken_is_not_passed() {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(b"content", 0).unwrap();
        let only_read = File::open("/dev/null").unwrap();
        assert!(Pipe::new().unwrap().pass(only_read.as_fd(), b"header", file.as_fd(), 0, 7).is_none());
    }
}
