//! Content for several peers, which is read from the store once if they progress at a similar pace.

use std::cell::{Cell, OnceCell, RefCell};
use std::io;
use std::rc::{Rc, Weak};

use crate::content_out::ContentOut;

/// Bytes that are retained for further peers.
const RETAINED_BYTES_MAX: usize = 2 << 20;
/// Buffers that are cached for further chunks.
const SPARE_MAX: usize = 4;

/// The sharing of queued chunks.
#[derive(Debug, Default)]
pub(crate) struct Sharing {
    /// The chunk that was queued last, which the next one may share.
    last: Option<(ContentOut, Weak<Shared>)>,
    memory: Rc<Memory>,
}

#[derive(Debug, Default)]
struct Memory {
    retained_bytes: Cell<usize>,
    spare: RefCell<Vec<Vec<u8>>>,
}

/// One chunk's bytes, once they have been read. The last peer frees them.
#[derive(Debug)]
pub(crate) struct Shared {
    bytes: OnceCell<Vec<u8>>,
    memory: Rc<Memory>,
}

impl Sharing {
    /// Returns the shared bytes of a chunk: those of the last one, if it has the same content.
    pub(crate) fn of(&mut self, chunk: &ContentOut) -> Rc<Shared> {
        let known = self.last.as_ref().filter(|(last, _)| last.is_same_content(chunk));
        if let Some(shared) = known.and_then(|(_, shared)| shared.upgrade()) {
            return shared;
        }
        let shared = Rc::new(Shared { bytes: OnceCell::new(), memory: Rc::clone(&self.memory) });
        self.last = Some((chunk.clone(), Rc::downgrade(&shared)));
        shared
    }
}

impl Shared {
    /// Returns the bytes, read by `read` on first use. Reads nothing and returns `None` if no other peer needs them, or
    /// if too much is retained.
    pub(crate) fn get(
        self: &Rc<Shared>,
        bytes: usize,
        read: impl FnOnce(&mut [u8]) -> io::Result<()>,
    ) -> io::Result<Option<&[u8]>> {
        if let Some(bytes) = self.bytes.get() {
            return Ok(Some(bytes));
        }
        let retained = self.memory.retained_bytes.get() + bytes;
        if Rc::strong_count(self) == 1 || retained > RETAINED_BYTES_MAX {
            return Ok(None);
        }
        let mut content = self.memory.spare.borrow_mut().pop().unwrap_or_default();
        content.resize(bytes, 0);
        read(&mut content)?;
        self.memory.retained_bytes.set(retained);
        Ok(Some(self.bytes.get_or_init(|| content)))
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let Some(bytes) = self.bytes.take() else { return };
        let Memory { retained_bytes, spare } = &*self.memory;
        retained_bytes.set(retained_bytes.get() - bytes.len());
        let mut spare = spare.borrow_mut();
        if spare.len() < SPARE_MAX {
            spare.push(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use headwater_abi::Path;
    use headwater_abi::wire::{Message, TransferId};

    use super::*;

    fn chunk(transfer: u64, position: u64) -> ContentOut {
        let (path, bytes) = (Path::root(), 1 << 20);
        let message = Message::Chunk { transfer: TransferId(transfer), position, bytes };
        ContentOut { message, path, block: None, ranges: [(position, bytes.into())].into() }
    }

    #[test]
    fn content_is_read_once_and_released_with_the_last_peer() {
        let mut sharing = Sharing::default();
        let [first, second] = [1, 2].map(|transfer| sharing.of(&chunk(transfer, 0)));
        let fill = |byte: u8| {
            move |bytes: &mut [u8]| {
                bytes.fill(byte);
                Ok(())
            }
        };
        assert!(first.get(3, |_| Err(io::ErrorKind::NotFound.into())).is_err());
        assert_eq!(first.get(3, fill(7)).unwrap(), Some(&[7; 3][..]));
        drop(first);
        assert_eq!(second.get(3, fill(8)).unwrap(), Some(&[7; 3][..]));
        let other = sharing.of(&chunk(2, 1 << 20));
        assert_eq!(other.get(3, fill(8)).unwrap(), None, "no other peer shares it");
        drop(second);
        assert_eq!(sharing.memory.retained_bytes.get(), 0);
        assert_eq!(sharing.of(&chunk(3, 0)).get(3, fill(8)).unwrap(), None, "it has gone");
    }

    #[test]
    fn little_is_retained() {
        let mut sharing = Sharing::default();
        let pairs: Vec<_> = (0..4).map(|n| [1, 2].map(|transfer| sharing.of(&chunk(transfer, n)))).collect();
        let retained = pairs.iter().filter(|[one, _]| one.get(1 << 20, |_| Ok(())).unwrap().is_some()).count();
        assert_eq!((retained, sharing.memory.retained_bytes.get()), (2, RETAINED_BYTES_MAX));
    }
}
