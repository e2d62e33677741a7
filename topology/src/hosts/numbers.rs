//! The numbers between a pair of brackets: `001-128,200`, in their order, repeated ones included.

use alloc::vec::Vec;
use core::fmt::{self, Write};

/// Consecutive numbers, written with at least `width` digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    /// The first number.
    low: u64,
    /// Number of numbers before this range.
    start: u32,
    /// Number of numbers in it, at least one.
    count: u32,
    /// Digits of its first number.
    width: u8,
}

impl Range {
    fn high(&self) -> u64 {
        self.low + u64::from(self.count - 1)
    }
}

/// At least one number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Numbers(Vec<Range>);

impl Numbers {
    /// Makes `count` numbers from `low` on. As in Slurm the width of the first is the least width of all.
    ///
    /// `width` is at least the number of digits of `low`, and the last number fits 64 bits.
    pub fn range(low: u64, count: u32, width: u8) -> Numbers {
        assert!(count > 0 && width >= digits(low) && low.checked_add(u64::from(count - 1)).is_some());
        Numbers(Vec::from([Range { low, start: 0, count, width }]))
    }

    /// Reads a number of digits alone; `None` if it doesn't fit.
    pub fn one(text: &str) -> Option<Numbers> {
        let width = u8::try_from(text.len()).ok()?;
        text.parse().ok().map(|low| Numbers::range(low, 1, width))
    }

    /// Returns the number of numbers.
    pub fn len(&self) -> u32 {
        self.0.last().map_or(0, |last| last.start + last.count)
    }

    /// Returns the number of ranges that write them.
    pub fn range_count(&self) -> usize {
        self.0.len()
    }

    /// Returns the most digits of a number.
    pub fn width_max(&self) -> usize {
        self.0.iter().map(|range| usize::from(range.width.max(digits(range.high())))).max().unwrap_or(0)
    }

    /// Writes the number at `index`.
    pub fn write(&self, index: u32, out: &mut impl Write) -> fmt::Result {
        let range = &self.0[self.0.partition_point(|range| range.start <= index) - 1];
        let width = usize::from(range.width);
        write!(out, "{:0width$}", range.low + u64::from(index - range.start))
    }

    /// Returns the first index of the number with this text.
    pub fn find(&self, text: &str) -> Option<u32> {
        let number: u64 = text.parse().ok()?;
        let is_here = |range: &&Range| {
            (range.low..=range.high()).contains(&number) && text.len() == range.width.max(digits(number)).into()
        };
        let range = self.0.iter().find(is_here)?;
        u32::try_from(number - range.low).ok().map(|offset| range.start + offset)
    }

    /// Appends the numbers of `more`.
    pub fn append(&mut self, more: &Numbers) {
        for range in &more.0 {
            let start = self.len();
            match self.0.last_mut() {
                Some(last) if joins(last, range) => last.count += range.count,
                _ => self.0.push(Range { start, ..*range }),
            }
        }
    }
}

/// Returns whether `next` continues `last`, and is written the same with either's width.
fn joins(last: &Range, next: &Range) -> bool {
    let same_width = last.width == next.width || digits(next.low) >= last.width.max(next.width);
    same_width && last.high().checked_add(1) == Some(next.low)
}

fn digits(number: u64) -> u8 {
    number.checked_ilog10().map_or(1, |log| log as u8 + 1)
}

/// Writes the ranges, separated by commas, without brackets.
impl fmt::Display for Numbers {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, range) in self.0.iter().enumerate() {
            let width = usize::from(range.width);
            write!(out, "{}{:0width$}", if number == 0 { "" } else { "," }, range.low)?;
            if range.count > 1 {
                write!(out, "-{:0width$}", range.high())?;
            }
        }
        Ok(())
    }
}

pub(super) fn leading_digits(text: &str) -> (&str, &str) {
    text.split_at(text.bytes().take_while(u8::is_ascii_digit).count())
}

pub(super) fn trailing_digits(text: &str) -> (&str, &str) {
    text.split_at(text.len() - text.bytes().rev().take_while(u8::is_ascii_digit).count())
}

#[cfg(test)]
mod tests {
    use alloc::string::{String, ToString};

    use super::*;

    fn text(numbers: &Numbers, index: u32) -> String {
        let mut out = String::new();
        numbers.write(index, &mut out).unwrap();
        out
    }

    fn check(list: &[&str], printed: &str) {
        let mut numbers = Numbers::one(list[0]).unwrap();
        list[1..].iter().for_each(|text| numbers.append(&Numbers::one(text).unwrap()));
        assert_eq!(numbers.to_string(), printed);
        assert_eq!(numbers.len() as usize, list.len());
        for (index, expected) in list.iter().enumerate() {
            assert_eq!(text(&numbers, index as u32), *expected);
            let first = list.iter().position(|text| text == expected).map(|first| first as u32);
            assert_eq!(numbers.find(expected), first);
        }
    }

    #[test]
    fn widths_decide_what_is_one_range() {
        check(&["7"], "7");
        check(&["9", "10"], "9-10");
        check(&["09", "10"], "09-10");
        check(&["9", "010"], "9,010");
        check(&["099", "100"], "099-100");
        check(&["99", "100", "101"], "99-101");
        check(&["1", "02"], "1,02");
        check(&["3", "2", "1", "1"], "3,2,1,1");
        check(&["0", "00", "01", "1", "2"], "0,00-01,1-2");
        check(&["18446744073709551614", "18446744073709551615"], "18446744073709551614-18446744073709551615");
    }

    #[test]
    fn what_is_not_there_is_not_found() {
        let numbers = Numbers::range(8, 5, 2);
        for (text, found) in [("08", Some(0)), ("12", Some(4)), ("8", None), ("13", None), ("012", None), ("", None)] {
            assert_eq!(numbers.find(text), found, "{text}");
        }
        assert_eq!(Numbers::one("18446744073709551616"), None);
    }
}
