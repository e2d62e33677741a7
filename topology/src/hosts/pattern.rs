//! One expression of a hostlist: text with numbers in it, `rack[1-4]n[01-16]-ib`. It stands for the
//! cross product of its numbers.
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
    /// What stands before the first numbers.
    pub head: String,
    /// Numbers, each with the text behind them.
    pub groups: Vec<(Numbers, String)>,
}

impl Pattern {
    /// The one name, with its numbers seen as numbers, so that it can be folded with others.
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

    /// How many names it stands for; `None` if more than 64 bits can count.
    pub fn checked_len(&self) -> Option<u64> {
        self.groups.iter().try_fold(1u64, |product, (numbers, _)| product.checked_mul(numbers.len().into()))
    }

    /// How many names it stands for.
    pub fn len(&self) -> u32 {
        self.groups.iter().map(|(numbers, _)| numbers.len()).product()
    }

    /// The longest name's length.
    pub fn name_bytes_max(&self) -> usize {
        self.groups.iter().fold(self.head.len(), |sum, (numbers, text)| sum + numbers.width_max() + text.len())
    }

    /// Whether a name may have a domain.
    pub fn has_dot(&self) -> bool {
        self.head.contains('.') || self.groups.iter().any(|(_, text)| text.contains('.'))
    }

    /// Writes the name that stands at `index`.
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

    /// Where `name` stands first.
    ///
    /// Where text that is no digit ends each number, this looks at each range once; otherwise it goes
    /// through all names.
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

    /// The same with each group of a single number made text. `self` is of such groups that the order
    /// of the others is the same without them.
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

/// The groups' numbers in the order in which they vary.
fn fastest_first(count: usize) -> impl Iterator<Item = usize> {
    let last = count.saturating_sub(1);
    (last..count).chain(0..last)
}

/// A group of a single number is written as text where that leaves the order of the others alone.
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
