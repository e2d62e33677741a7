//! The hash that places a path or an inode number in the shared table.
//!
//! Words of eight bytes are folded with a multiplication and a shift (the mixing step of
//! MurmurHash64A, Appleby 2008); it is written out here because the C readers compute the same.
//! It resists no adversary: a table's readers and its writer belong to one user.

const MULTIPLIER: u64 = 0xc6a4_a793_5bd1_e995;

/// Returns the hash of a byte string.
pub fn bytes(data: &[u8]) -> u64 {
    let mut hash = (data.len() as u64).wrapping_mul(MULTIPLIER);
    let mut words = data.chunks_exact(8);
    for word in &mut words {
        hash = fold(hash, u64::from_le_bytes([word[0], word[1], word[2], word[3], word[4], word[5], word[6], word[7]]));
    }
    let rest = words.remainder();
    if !rest.is_empty() {
        let mut word = [0; 8];
        word[..rest.len()].copy_from_slice(rest);
        hash = fold(hash, u64::from_le_bytes(word));
    }
    finish(hash)
}

/// Returns the hash of bytes in words, the last one padded with zeros; fewer words than `count` bytes need
/// are hashed as they are.
pub fn words(words: impl Iterator<Item = u64>, count: usize) -> u64 {
    let hash = (count as u64).wrapping_mul(MULTIPLIER);
    finish(words.take(count.div_ceil(8)).fold(hash, fold))
}

/// Returns the hash of an inode number of the store.
pub fn inode(ino: u64) -> u64 {
    finish(fold(0, ino))
}

/// Returns the upper half of a hash as a slot's tag; zero is reserved for empty slots.
pub fn tag(hash: u64) -> u32 {
    let tag = (hash >> 32) as u32;
    if tag == 0 { 1 } else { tag }
}

fn fold(hash: u64, word: u64) -> u64 {
    let hash = (hash ^ word).wrapping_mul(MULTIPLIER);
    hash ^ (hash >> 32)
}

fn finish(hash: u64) -> u64 {
    let hash = (hash ^ (hash >> 47)).wrapping_mul(MULTIPLIER);
    hash ^ (hash >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_padding_and_length_are_distinguished() {
        assert_ne!(bytes(b"a"), bytes(b"a\0"));
        assert_ne!(bytes(b""), bytes(b"\0\0\0\0\0\0\0\0"));
        assert_ne!(tag(0), 0);
    }

    #[test]
    fn words_hash_as_their_bytes() {
        for text in ["", "/", "/sw/lib", "/sw/lib/", "/sw/lib/x", "/sw/lib/libxyz.so.1"] {
            let padded: alloc::vec::Vec<u64> = (text.as_bytes().chunks(8))
                .map(|chunk| chunk.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)))
                .chain([0, 7])
                .collect();
            assert_eq!(words(padded.into_iter(), text.len()), bytes(text.as_bytes()), "{text}");
        }
    }
}
