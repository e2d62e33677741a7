//! Digests of content: BLAKE3 over its bytes in the order of its head's ranges, however they are split. A receiver
//! hashes content as it arrives. The reader's node hashes the store's copy once a digest is requested.

use std::io;

use headwater_abi::wire::{Digest, FileHead};

/// Bytes of stored content that are hashed at once.
const PIECE_BYTES: u64 = 256 << 10;

/// Hashes content from its beginning on, piece by piece.
#[derive(Clone, Debug, Default)]
pub struct Digester {
    hasher: blake3::Hasher,
    position: u64,
}

impl Digester {
    /// Returns how many bytes of the content have been hashed.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Hashes the next bytes of the content.
    pub fn update(&mut self, bytes: &[u8]) {
        self.hasher.update(bytes);
        self.position += bytes.len() as u64;
    }

    /// Hashes stored content up to `position` of the content that `head` describes. `read` fills a buffer from an
    /// offset of the file.
    pub fn hash_stored(
        &mut self,
        head: &FileHead,
        position: u64,
        mut read: impl FnMut(&mut [u8], u64) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut buffer = Vec::new();
        while self.position < position {
            let Some((offset, in_range)) = head.locate(self.position) else { break };
            let bytes = in_range.min(position - self.position).min(PIECE_BYTES) as usize;
            buffer.resize(bytes.max(buffer.len()), 0);
            read(&mut buffer[..bytes], offset)?;
            self.update(&buffer[..bytes]);
        }
        Ok(())
    }

    /// Returns the digest of the bytes so far.
    pub fn digest(&self) -> Digest {
        Digest(*self.hasher.finalize().as_bytes())
    }
}

/// Returns the digest of content in memory.
pub fn digest(content: &[u8]) -> Digest {
    Digest(*blake3::hash(content).as_bytes())
}

/// Returns the digest of stored content. `read` fills a buffer from an offset of the file.
pub fn digest_of(head: &FileHead, read: impl FnMut(&mut [u8], u64) -> io::Result<()>) -> io::Result<Digest> {
    let mut digester = Digester::default();
    digester.hash_stored(head, head.content_bytes(), read)?;
    Ok(digester.digest())
}

#[cfg(test)]
mod tests {
    use super::*;
    use headwater_abi::Attr;

    #[test]
    fn pieces_and_holes_make_no_difference() {
        let file: Vec<u8> = (0..PIECE_BYTES as usize * 3).map(|n| (n / 11) as u8).collect();
        let ranges = [(5, PIECE_BYTES + 7), (PIECE_BYTES * 2, 10), (PIECE_BYTES * 3 - 1, 1)];
        let attr = Attr { size: file.len() as u64, ..Attr::default() };
        let head = FileHead { attr, format: 0, ranges: ranges.into(), whole: false };
        let content: Vec<u8> =
            ranges.iter().flat_map(|&(at, n)| &file[at as usize..(at + n) as usize]).copied().collect();
        let total = content.len() as u64;
        for stored in [0, 1, 10, PIECE_BYTES + 7, total - 1, total, total + 5] {
            let mut digester = Digester::default();
            let read = |bytes: &mut [u8], offset: u64| {
                bytes.copy_from_slice(&file[offset as usize..][..bytes.len()]);
                Ok(())
            };
            digester.hash_stored(&head, stored, read).unwrap();
            assert_eq!(digester.position(), stored.min(total));
            content[digester.position() as usize..].chunks(100_000).for_each(|chunk| digester.update(chunk));
            assert_eq!((digester.digest(), digester.position()), (digest(&content), total), "{stored}");
        }
    }

    #[test]
    fn what_is_not_stored_is_an_error() {
        let attr = Attr { size: 10, ..Attr::default() };
        let head = FileHead { attr, format: 0, ranges: [(0, 10)].into(), whole: true };
        let fails = |_: &mut [u8], _| Err(io::ErrorKind::UnexpectedEof.into());
        assert!(Digester::default().hash_stored(&head, 3, fails).is_err());
    }
}
