//! Which content a list of entries has.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

use headwater_abi::wire::BLOCK_BYTES;

use crate::recorded::{Entry, What};

/// Content of files, of which each file's versions are taken to be equal.
#[derive(Debug, Default)]
pub struct Contents {
    /// Files of which all bytes are here.
    whole: HashSet<PathBuf>,
    /// Blocks of others.
    blocks: HashMap<PathBuf, HashSet<u32>>,
}

impl Contents {
    /// Returns the content of these entries. A loadable file counts as a whole one, as do all blocks.
    pub fn of<'a>(entries: impl Iterator<Item = &'a Entry>) -> Contents {
        let mut contents = Contents::default();
        for entry in entries {
            match &entry.what {
                What::Whole(_) | What::Loadable(_) | What::Library | What::Any => {
                    contents.whole.insert(entry.path.clone());
                }
                What::Blocks(version, ranges) => {
                    if ranges.count() == version.size.div_ceil(BLOCK_BYTES) {
                        contents.whole.insert(entry.path.clone());
                    }
                    contents.blocks.entry(entry.path.clone()).or_default().extend(ranges.numbers());
                }
                What::Directory | What::Link | What::Name | What::Attributes(_) => {}
            }
        }
        contents
    }

    /// Returns whether the entry's content is here; an entry without content has all of it anywhere.
    pub fn covers(&self, entry: &Entry) -> bool {
        match &entry.what {
            What::Directory | What::Link | What::Name | What::Attributes(_) => true,
            What::Blocks(_, ranges) => {
                let blocks = self.blocks.get(&entry.path);
                self.whole.contains(&entry.path)
                    || blocks.is_some_and(|blocks| ranges.numbers().all(|number| blocks.contains(&number)))
            }
            What::Whole(_) | What::Loadable(_) | What::Library | What::Any => self.whole.contains(&entry.path),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_is_covered_by_as_much_or_more() {
        let entries = [
            "whole 9 1.000000000 /a",
            "blocks 9000000 1.000000000 0-3,7 /b",
            "blocks 3000000 1.000000000 0-2 /all",
            "directory /d",
            "loadable 9 1.000000000 /l",
        ];
        let entries = entries.map(|line| Entry::parse(line).unwrap());
        let contents = Contents::of(entries.iter());
        let covers = |line: &str| contents.covers(&Entry::parse(line).unwrap());
        for line in [
            "whole 8 2.000000000 /a",
            "blocks 9 1.000000000 2,7 /b",
            "blocks 9 1.000000000 5 /a",
            "library /l",
            "any /all",
        ] {
            assert!(covers(line), "{line}");
        }
        for line in ["directory /else", "attributes 9 1.000000000 /else", "link /else", "name /else"] {
            assert!(covers(line), "{line}");
        }
        for line in ["whole 9 1.000000000 /b", "blocks 9 1.000000000 3-4 /b", "any /d", "loadable 1 1.000000000 /else"]
        {
            assert!(!covers(line), "{line}");
        }
    }
}
