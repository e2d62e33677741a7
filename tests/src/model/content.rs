//! Bytes of files, drawn from a seed.

use serde::{Deserialize, Serialize};

/// A file's bytes: runs of noise and of nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Content {
    /// The seed of the noise.
    pub seed: u64,
    /// (is a hole, bytes), one after another.
    pub runs: Vec<(bool, u64)>,
}

impl Content {
    /// Noise alone.
    pub fn noise(seed: u64, bytes: u64) -> Content {
        Content { seed, runs: vec![(false, bytes)] }
    }

    /// How many bytes there are.
    pub fn size(&self) -> u64 {
        self.runs.iter().map(|run| run.1).sum()
    }

    /// The runs of noise: (offset, bytes).
    pub fn written(&self) -> Vec<(u64, u64)> {
        let mut at = 0;
        let placed = self.runs.iter().map(|&(is_hole, bytes)| {
            at += bytes;
            (is_hole, at - bytes, bytes)
        });
        placed.filter(|run| !run.0 && run.2 > 0).map(|(_, offset, bytes)| (offset, bytes)).collect()
    }

    /// The bytes from `offset`, at most `bytes`.
    pub fn read(&self, offset: u64, bytes: u64) -> Vec<u8> {
        let end = self.size().min(offset.saturating_add(bytes)).max(offset);
        let mut read = vec![0; (end - offset) as usize];
        for (from, count) in self.written() {
            let (from, to) = (from.max(offset), (from + count).min(end));
            for word in from / 8..to.div_ceil(8) {
                let noise = self.noise_of(word).to_le_bytes();
                for at in (word * 8).max(from)..(word * 8 + 8).min(to) {
                    read[(at - offset) as usize] = noise[(at % 8) as usize];
                }
            }
        }
        read
    }

    /// The noise of each eight bytes (SplitMix64).
    fn noise_of(&self, word: u64) -> u64 {
        let mut z = self.seed.wrapping_add(word.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// How many bytes, and a sum of them (FNV-1a), as a line.
pub(super) fn digest(bytes: &[u8]) -> String {
    let sum = bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325u64, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3));
    format!("{} bytes {sum:016x}", bytes.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_agree_with_the_whole() {
        let content = Content { seed: 3, runs: vec![(false, 10), (true, 5), (false, 100)] };
        let whole = content.read(0, 1000);
        assert_eq!(whole.len(), 115);
        assert!(whole[10..15].iter().all(|&byte| byte == 0) && whole[15..].iter().any(|&byte| byte != 0));
        for (offset, bytes) in [(0, 115), (7, 12), (114, 9), (115, 4), (900, 1)] {
            let end = (offset + bytes).min(115);
            assert_eq!(content.read(offset, bytes), whole[offset.min(115) as usize..end as usize]);
        }
    }
}
