//! Detection of traversals, in which processes examine every name of a tree: `ls -lR`, `du`, `cp -r` and
//! `tar`. After look-ups of a directory's names in order, the neighbouring directories will likely be
//! examined too, and their details can be requested with the first name.

use headwater_abi::Path;

/// Look-ups in order that distinguish a traversal from a program that knows its files.
const STREAK_MIN: usize = 16;
/// The same near a directory that was traversed.
const STREAK_NEAR_MIN: usize = 2;
/// Largest distance of two names in order: some are known already.
const GAP_MAX: usize = 4;
/// Directories that are expected to be traversed after one detection, at first and at most. The number
/// doubles each time the traversal continues.
const TRUST_MIN: u32 = 4;
const TRUST_MAX: u32 = 64;

/// The order in which a directory's unknown names are looked up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Streak {
    next: usize,
    names: usize,
}

impl Streak {
    /// Notes a look-up of the name with this number.
    pub(crate) fn looked_up(&mut self, number: usize) {
        let is_next = (self.next..=self.next + GAP_MAX).contains(&number);
        (self.next, self.names) = (number + 1, if is_next { self.names + 1 } else { 1 });
    }
}

/// The position of the traversal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Traversal {
    last: Option<Path>,
    /// The last directory that was traversed.
    proven: Option<Path>,
    trust: u32,
    left: u32,
}

impl Traversal {
    /// Returns whether look-ups in this order show a traversal of `at`.
    pub(crate) fn is_going_through(&mut self, at: &Path, streak: Streak) -> bool {
        let names_min = if self.is_near(at) { STREAK_NEAR_MIN } else { STREAK_MIN };
        if streak.names < names_min {
            return false;
        }
        self.proves(at);
        true
    }

    pub(crate) fn proves(&mut self, at: &Path) {
        if self.proven.as_ref() != Some(at) {
            self.trust = (self.trust * 2).clamp(TRUST_MIN, TRUST_MAX);
            self.proven = Some(at.clone());
            self.last = Some(at.clone());
        }
        self.left = self.trust;
    }

    /// Notes that processes have reached `at`. True if they are likely to traverse it.
    pub(crate) fn reaches(&mut self, at: &Path) -> bool {
        if self.left == 0 || !self.is_near(at) {
            return false;
        }
        self.left -= 1;
        self.last = Some(at.clone());
        true
    }

    /// Returns whether `at` is a child of the last directory, its sibling, or that of a directory above it.
    fn is_near(&self, at: &Path) -> bool {
        self.last.as_ref().zip(at.parent()).is_some_and(|(last, parent)| last.is_within(&parent))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> Path {
        Path::new(text.as_bytes()).unwrap()
    }

    fn streak(numbers: impl IntoIterator<Item = usize>) -> Streak {
        let mut streak = Streak::default();
        numbers.into_iter().for_each(|number| streak.looked_up(number));
        streak
    }

    #[test]
    fn look_ups_in_order_traverse_the_tree() {
        let mut traversal = Traversal::default();
        assert!(!traversal.reaches(&path("/a/b")));
        assert!(!traversal.is_going_through(&path("/a"), streak(2..17)));
        assert!(!traversal.is_going_through(&path("/a"), streak((0..40).map(|n| n * 7 % 40))));
        assert!(traversal.is_going_through(&path("/a"), streak((2..17).chain([20]))));
        assert!(traversal.reaches(&path("/a/b")) && traversal.reaches(&path("/a/b/c")));
        assert!(traversal.reaches(&path("/a/d")), "a sibling of the directory above");
        assert!(!traversal.reaches(&path("/a/e/f")), "its directory was not gone through");
    }

    #[test]
    fn trust_is_used_up_and_grows_when_it_was_justified() {
        let mut traversal = Traversal::default();
        assert!(traversal.is_going_through(&path("/a/0"), streak(0..16)));
        let trusted = |traversal: &mut Traversal| (0..).take_while(|_| traversal.reaches(&path("/a/1"))).count();
        assert_eq!(trusted(&mut traversal), TRUST_MIN as usize);
        assert!(!traversal.is_going_through(&path("/a/1"), streak([5])));
        assert!(traversal.is_going_through(&path("/a/1"), streak([0, 1])));
        assert_eq!(trusted(&mut traversal), 2 * TRUST_MIN as usize);
    }
}
