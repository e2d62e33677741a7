//! One expression of a hostlist: text with numbers in it, `rack[1-4]n[01-16]-ib`. Its names are the cross
//! product of its numbers.
//!
//! The order of the product is Slurm's: the last group varies fastest, then the first, the second and
//! so on, so that the last but one varies slowest. With two groups that is the usual order.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use super::numbers::{Numbers, leading_digits, trailing_digits};

/// The most bracket groups in one expression.
pub const GROUPS_MAX: usize = 8;

/// Some names, at least one and at most [`HOSTS_MAX`](super::HOSTS_MAX).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pattern {
    /// The text before the first numbers.
    pub head: String,
    /// Numbers, each with the text behind them.
    pub groups: Vec<(Numbers, String)>,
}

impl Pattern {
    /// Makes a pattern of one name, with its numbers as numbers, so that it can be folded with others.
    pub fn from_name(name: &str) -> Pattern {
        let mut groups = Vec::new();
        let (mut rest, mut tail_at) = (name, name.len());
        let mut search = name;
        while groups.len() < GROUPS_MAX {
            let end = search.trim_end_matches(|c: char| !c.is_ascii_digit());
            let (before, number) = trailing_digits(end);
            if number.is_empty() {
                break;
            }
            search = before;
            if let Some(numbers) = Numbers::one(number) {
                groups.push((numbers, String::from(&name[end.len()..tail_at])));
                tail_at = before.len();
                rest = before;
            }
        }
        groups.reverse();
        Pattern { head: String::from(rest), groups }
    }

    /// Returns the number of names; `None` if it exceeds 64 bits.
    pub fn checked_len(&self) -> Option<u64> {
        self.groups.iter().try_fold(1u64, |product, (numbers, _)| product.checked_mul(numbers.len().into()))
    }

    /// Returns the number of names.
    pub fn len(&self) -> u32 {
        self.groups.iter().map(|(numbers, _)| numbers.len()).product()
    }

    /// Returns the longest name's length.
    pub fn name_bytes_max(&self) -> usize {
        self.groups.iter().fold(self.head.len(), |sum, (numbers, text)| sum + numbers.width_max() + text.len())
    }

    /// Returns whether a name may have a domain.
    pub fn has_dot(&self) -> bool {
        self.head.contains('.') || self.groups.iter().any(|(_, text)| text.contains('.'))
    }

    /// Writes the name at `index`.
    pub fn write(&self, mut index: u32, out: &mut String) {
        let mut indices = [0; GROUPS_MAX];
        for group in fastest_first(self.groups.len()) {
            let len = self.groups[group].0.len();
            (indices[group], index) = (index % len, index / len);
        }
        out.push_str(&self.head);
        for ((numbers, text), index) in self.groups.iter().zip(indices) {
            numbers.write(index, out).expect("a string takes everything");
            out.push_str(text);
        }
    }

    /// Returns the first index of `name`.
    ///
    /// If text that is no digit ends each number, this examines each range once; otherwise it tries all
    /// names.
    pub fn find(&self, name: &str) -> Option<u32> {
        if !name.starts_with(&self.head) || name.len() > self.name_bytes_max() {
            return None;
        }
        let last = self.groups.len().saturating_sub(1);
        let is_end = |(number, (_, text)): (usize, &(Numbers, String))| {
            !text.starts_with(|c: char| c.is_ascii_digit()) && (number == last || !text.is_empty())
        };
        if self.groups.iter().enumerate().all(is_end) {
            return self.find_by_number(name);
        }
        let mut candidate = String::new();
        (0..self.len()).find(|&index| {
            candidate.clear();
            self.write(index, &mut candidate);
            candidate == name
        })
    }

    fn find_by_number(&self, name: &str) -> Option<u32> {
        let mut rest = name.strip_prefix(self.head.as_str())?;
        let mut indices = [0; GROUPS_MAX];
        for ((numbers, text), index) in self.groups.iter().zip(&mut indices) {
            let (number, behind) = leading_digits(rest);
            *index = numbers.find(number)?;
            rest = behind.strip_prefix(text.as_str())?;
        }
        let (mut index, mut step) = (0, 1);
        for group in fastest_first(self.groups.len()) {
            index += indices[group] * step;
            step *= self.groups[group].0.len();
        }
        rest.is_empty().then_some(index)
    }

    /// Returns the same with each group of a single number as text. The order of the other groups must not
    /// depend on these.
    pub fn without_single_numbers(self) -> Pattern {
        let mut out = Pattern { head: self.head, groups: Vec::new() };
        for (numbers, text) in self.groups {
            if numbers.len() > 1 {
                out.groups.push((numbers, text));
                continue;
            }
            let before = out.groups.last_mut().map_or(&mut out.head, |(_, text)| text);
            numbers.write(0, before).expect("a string takes everything");
            before.push_str(&text);
        }
        out
    }
}

/// Returns the groups' numbers in the order in which they vary.
fn fastest_first(count: usize) -> impl Iterator<Item = usize> {
    let last = count.saturating_sub(1);
    (last..count).chain(0..last)
}

/// Writes a group of a single number as text if that does not change the order of the others.
impl fmt::Display for Pattern {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let as_text = self.groups.len() < 3;
        out.write_str(&self.head)?;
        self.groups.iter().try_for_each(|(numbers, text)| match numbers.len() {
            1 if as_text => write!(out, "{numbers}{text}"),
            _ => write!(out, "[{numbers}]{text}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_taken_apart_from_its_end() {
        let cases = [
            ("login", 0),
            ("node001", 1),
            ("rack1n01-ib", 2),
            ("1", 1),
            ("a1b2c3d4e5f6g7h8i9j10", GROUPS_MAX),
            ("n99999999999999999999999", 0),
            ("n99999999999999999999999m7", 1),
            ("7n99999999999999999999999", 1),
        ];
        for (name, groups) in cases {
            let pattern = Pattern::from_name(name);
            assert_eq!((pattern.clone().without_single_numbers().head.as_str(), pattern.groups.len()), (name, groups));
            assert_eq!((pattern.len(), pattern.find(name), pattern.name_bytes_max()), (1, Some(0), name.len()));
            let mut written = String::new();
            pattern.write(0, &mut written);
            assert_eq!(written, name);
        }
    }
}
