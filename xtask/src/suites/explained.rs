//! The differences that must be, and why. A line of `explained.txt` is `SUITE MECHANISM TEST WHY`; a test's name may end
//! in `*`.

use super::via::Via;

const TEXT: &str = include_str!("explained.txt");

/// A difference that must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Explained {
    pub suite: &'static str,
    pub via: &'static str,
    test: &'static str,
    pub why: &'static str,
}

impl Explained {
    /// Whether it explains that this test of a unit differs.
    pub fn is_of(&self, suite: &str, via: Via, unit: &str, test: &str) -> bool {
        let name = name(unit, test);
        self.suite == suite
            && self.via == via.name()
            && self.test.strip_suffix('*').map_or(name == self.test, |start| name.starts_with(start))
    }

    /// Whether a test of the unit may be meant.
    pub fn is_in(&self, suite: &str, via: Via, unit: &str) -> bool {
        self.suite == suite && self.via == via.name() && self.test.split(':').next() == Some(unit)
    }
}

impl std::fmt::Display for Explained {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        write!(f, "{} {} {}", self.suite, self.via, self.test)
    }
}

/// A test's name in the list: `UNIT:TEST`, without blanks.
pub fn name(unit: &str, test: &str) -> String {
    format!("{unit}:{test}").replace(' ', "_")
}

/// All of them.
pub fn all() -> impl Iterator<Item = Explained> {
    parse(TEXT)
}

fn parse(text: &'static str) -> impl Iterator<Item = Explained> {
    text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty()).map(|line| {
        let mut fields = line.splitn(4, ' ');
        let mut next = || fields.next().unwrap_or_else(|| panic!("explained.txt: too few words: {line}"));
        Explained { suite: next(), via: next(), test: next(), why: next() }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suites::table::SUITES;

    #[test]
    fn entries_name_suites_and_mechanisms() {
        for entry in all() {
            assert!(SUITES.iter().any(|suite| suite.name == entry.suite), "{entry}");
            assert!(["audit", "namespace"].contains(&entry.via), "{entry}");
            assert!(entry.test.contains(':') && !entry.why.is_empty(), "{entry}");
        }
    }

    #[test]
    fn names_of_tests() {
        let entries: Vec<Explained> = parse("# about\n\na audit u:t one reason\na audit u:x* two\n").collect();
        assert_eq!(entries[0].why, "one reason");
        assert!(entries[0].is_of("a", Via::Audit, "u", "t"));
        assert!(!entries[0].is_of("a", Via::Namespace, "u", "t") && !entries[0].is_of("a", Via::Audit, "u", "tt"));
        assert!(entries[1].is_of("a", Via::Audit, "u", "x y") && !entries[1].is_of("a", Via::Audit, "u", "y"));
        assert!(entries[1].is_in("a", Via::Audit, "u") && !entries[1].is_in("a", Via::Audit, "v"));
    }
}
