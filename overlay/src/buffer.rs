//! A queue of bytes whose memory is initialised once and reused. Bytes enter at the end and leave at the front; few are
//! moved or cleared.

/// An empty buffer with more memory than this frees it.
const IDLE_BYTES_MAX: usize = 2 << 20;

/// A queue of bytes.
#[derive(Debug, Default)]
pub(crate) struct Buffer {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl Buffer {
    /// Returns the queued bytes.
    pub(crate) fn data(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    pub(crate) fn len(&self) -> usize {
        self.end - self.start
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Returns space for `bytes` after the data, with any content; see [`Buffer::filled`].
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

    /// Turns the first `bytes` of the room into data.
    pub(crate) fn filled(&mut self, bytes: usize) {
        assert!(self.end + bytes <= self.bytes.len(), "only room can be filled");
        self.end += bytes;
    }

    /// Appends bytes.
    pub(crate) fn put(&mut self, bytes: &[u8]) {
        self.room(bytes.len()).copy_from_slice(bytes);
        self.filled(bytes.len());
    }

    /// Removes the last `bytes`.
    pub(crate) fn take_back(&mut self, bytes: usize) {
        assert!(bytes <= self.len(), "only data can be taken back");
        self.end -= bytes;
    }

    /// Removes the first `bytes`.
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

    /// Frees the memory if there is no data.
    pub(crate) fn release(&mut self) {
        if self.is_empty() {
            *self = Buffer::default();
        }
    }

    /// Returns the bytes of memory.
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
