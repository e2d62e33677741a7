//! Numbers of blocks of a large file, as text: `0-3,7`.

use std::fmt;

/// The most ranges of one file; further blocks are left out.
pub const RANGES_MAX: usize = 4096;

/// Blocks of a file, as ranges of their numbers, both ends included: ascending, with gaps between them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockRanges(Vec<(u32, u32)>);

impl BlockRanges {
    /// Returns the ranges of these numbers, which ascend.
    pub fn new(numbers: impl Iterator<Item = u32>) -> BlockRanges {
        let mut ranges: Vec<(u32, u32)> = Vec::new();
        for number in numbers {
            let count = ranges.len();
            match ranges.last_mut() {
                Some((_, last)) if last.checked_add(1) == Some(number) => *last = number,
                _ if count == RANGES_MAX => break,
                _ => ranges.push((number, number)),
            }
        }
        BlockRanges(ranges)
    }

    /// Returns the numbers, ascending.
    pub fn numbers(&self) -> impl Iterator<Item = u32> + use<> {
        self.0.clone().into_iter().flat_map(|(first, last)| first..=last)
    }

    /// Returns how many there are.
    pub fn count(&self) -> u64 {
        self.0.iter().map(|(first, last)| u64::from(last - first) + 1).sum()
    }

    /// Returns true without blocks.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Reads what `Display` writes. `None` if it is invalid.
    pub(super) fn parse(text: &str) -> Option<BlockRanges> {
        let mut ranges: Vec<(u32, u32)> = Vec::new();
        for range in text.split(',') {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let (first, last) = (number(first)?, number(last)?);
            let is_single = !range.contains('-');
            let is_behind = ranges.last().is_none_or(|&(_, before): &(u32, u32)| before.saturating_add(1) < first);
            if ranges.len() == RANGES_MAX || first > last || !is_behind || is_single != (first == last) {
                return None;
            }
            ranges.push((first, last));
        }
        Some(BlockRanges(ranges))
    }
}

/// Reads a number in digits, with a minus or nothing before them.
pub(super) fn number<T: std::str::FromStr>(digits: &str) -> Option<T> {
    digits.parse().ok().filter(|_| !digits.starts_with('+'))
}

impl fmt::Display for BlockRanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (first, last)) in self.0.iter().enumerate() {
            let comma = if at > 0 { "," } else { "" };
            match first == last {
                true => write!(f, "{comma}{first}")?,
                false => write!(f, "{comma}{first}-{last}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_numbers() {
        for (numbers, text) in [(&[0, 1, 2, 7][..], "0-2,7"), (&[5], "5"), (&[1, 3, 4, 5], "1,3-5")] {
            let ranges = BlockRanges::new(numbers.iter().copied());
            assert_eq!(ranges.to_string(), text);
            assert_eq!(BlockRanges::parse(text), Some(ranges.clone()));
            assert_eq!(ranges.numbers().collect::<Vec<_>>(), numbers);
        }
        assert!(BlockRanges::new([].into_iter()).is_empty());
    }

    #[test]
    fn what_is_not_written_is_refused() {
        for text in ["", "1,", "a", "3-1", "2-2", "1,1", "1,2", "0-3,4", "5,1", "1-4294967296", "+1", "-1"] {
            assert_eq!(BlockRanges::parse(text), None, "{text:?}");
        }
        let long = (0..=RANGES_MAX as u32).map(|number| 2 * number);
        assert_eq!(BlockRanges::new(long).numbers().count(), RANGES_MAX);
    }
}
