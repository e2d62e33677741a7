//! A queue of bytes whose memory is initialised once and reused: bytes go in at the end and out at
//! the front, and hardly any is moved or cleared on the way.

/// Memory above this size is given back when the buffer is empty.
const IDLE_BYTES_MAX: usize = 2 << 20;

/// A queue of bytes.
#[derive(Debug, Default)]
pub(crate) struct Buffer {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl Buffer {
    /// The bytes that are in the queue.
    pub(crate) fn data(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    pub(crate) fn len(&self) -> usize {
        self.end - self.start
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Room for `bytes` behind the data, with any content; see [`Buffer::filled`].
    pub(crate) fn room(&mut self, bytes: usize) -> &mut [u8] {
        if self.start > 0 && self.end + bytes > self.bytes.len() {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        if self.end + bytes > self.bytes.len() {
            self.bytes.resize(self.end + bytes, 0);
        }
        &mut self.bytes[self.end..self.end + bytes]
    }

    /// The first `bytes` of the room are data now.
    pub(crate) fn filled(&mut self, bytes: usize) {
        assert!(self.end + bytes <= self.bytes.len(), "only room can be filled");
        self.end += bytes;
    }

    /// Adds bytes at the end.
    pub(crate) fn put(&mut self, bytes: &[u8]) {
        self.room(bytes.len()).copy_from_slice(bytes);
        self.filled(bytes.len());
    }

    /// Takes the last `bytes` back.
    pub(crate) fn take_back(&mut self, bytes: usize) {
        assert!(bytes <= self.len(), "only data can be taken back");
        self.end -= bytes;
    }

    /// The first `bytes` are done with.
    pub(crate) fn consume(&mut self, bytes: usize) {
        assert!(bytes <= self.len(), "only data can be consumed");
        self.start += bytes;
        if self.is_empty() {
            (self.start, self.end) = (0, 0);
            if self.bytes.len() > IDLE_BYTES_MAX {
                self.bytes = Vec::new();
            }
        }
    }

    /// Gives the memory back if there is no data.
    pub(crate) fn release(&mut self) {
        if self.is_empty() {
            *self = Buffer::default();
        }
    }

    /// Bytes of memory held.
    #[cfg(test)]
    pub(crate) fn capacity(&self) -> usize {
        self.bytes.capacity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_out_as_they_went_in() {
        let mut buffer = Buffer::default();
        let (mut put, mut taken) = (0u8, 0u8);
        for step in 1..200 {
            for _ in 0..step % 7 {
                buffer.put(&[put]);
                put = put.wrapping_add(1);
            }
            for _ in 0..(step % 5).min(buffer.len()) {
                assert_eq!(buffer.data()[0], taken);
                taken = taken.wrapping_add(1);
                buffer.consume(1);
            }
        }
        assert!(buffer.data().iter().all(|&byte| (byte == taken, taken = taken.wrapping_add(1)).0));
    }

    #[test]
    fn memory_is_reused_and_much_of_it_given_back() {
        let mut buffer = Buffer::default();
        buffer.put(&[1; 1000]);
        buffer.consume(999);
        let before = buffer.capacity();
        buffer.room(999)[0] = 2;
        buffer.filled(1);
        assert_eq!((buffer.data(), buffer.capacity()), (&[1, 2][..], before));
        buffer.put(&vec![3; IDLE_BYTES_MAX + 1]);
        buffer.take_back(1);
        buffer.consume(buffer.len());
        assert_eq!(buffer.capacity(), 0);
    }
}
