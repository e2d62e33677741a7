//! Folding names, one after the other, into few expressions for the same names in the same order.

use alloc::string::String;
use alloc::vec::Vec;

use super::numbers::Numbers;
use super::parse::RANGES_MAX;
use super::pattern::{GROUPS_MAX, Pattern};

/// Expressions that are collected before they are folded the first time.
const BATCH: usize = 1 << 16;

/// Collects names and folds them from time to time, so that it never stores many more expressions than the
/// result has.
#[derive(Debug, Default)]
pub(super) struct Fold {
    patterns: Vec<Pattern>,
    folded: usize,
}

impl Fold {
    /// Adds a name.
    pub fn push(&mut self, name: &str) {
        self.patterns.push(Pattern::from_name(name));
        if self.patterns.len() >= BATCH + 2 * self.folded {
            self.fold();
        }
    }

    /// Returns all names that were pushed.
    pub fn finish(mut self) -> Vec<Pattern> {
        self.fold();
        self.patterns.into_iter().map(Pattern::without_single_numbers).collect()
    }

    /// One pass goes from the last group to the first. Where a group before the last but one varies
    /// faster than one behind it, it takes another pass.
    fn fold(&mut self) {
        for _ in 0..GROUPS_MAX {
            let before = self.patterns.len();
            for from_end in 1..=GROUPS_MAX {
                fold_groups(&mut self.patterns, from_end);
            }
            if self.patterns.len() == before {
                break;
            }
        }
        self.folded = self.patterns.len();
    }
}

/// Joins neighbours that differ only in the group that is this many groups from the end.
fn fold_groups(patterns: &mut Vec<Pattern>, from_end: usize) {
    patterns.dedup_by(|next, last| {
        let Some(at) = last.groups.len().checked_sub(from_end) else { return false };
        let joins = can_join(last, next, at);
        if joins {
            last.groups[at].0.append(&next.groups[at].0);
        }
        joins
    });
}

/// Returns whether the names of `next` after those of `last` are those of one expression with the numbers of
/// both in group `at`.
fn can_join(last: &Pattern, next: &Pattern, at: usize) -> bool {
    let same_text = last.head == next.head
        && last.groups.len() == next.groups.len()
        && last.groups.iter().zip(&next.groups).all(|(one, other)| one.1 == other.1);
    let same_numbers = |(number, (one, other)): (usize, (&(_, _), &(_, _)))| number == at || one == other;
    same_text
        && last.groups.iter().zip(&next.groups).enumerate().all(same_numbers)
        && would_be_slowest(last, at)
        && last.groups[at].0.range_count() + next.groups[at].0.range_count() <= RANGES_MAX
}

/// Returns whether the group would vary slowest of all if it had several numbers. The slowest is the last but
/// one, or the only one; single numbers become text.
fn would_be_slowest(pattern: &Pattern, at: usize) -> bool {
    let (before, behind) = (varying(&pattern.groups[..at]), varying(&pattern.groups[at + 1..]));
    behind == 1 || (before == 0 && behind == 0)
}

fn varying(groups: &[(Numbers, String)]) -> usize {
    groups.iter().filter(|(numbers, _)| numbers.len() > 1).count()
}
