//! The look-ups of one process.

use std::collections::BTreeSet;

use headwater_abi::Path;

/// What is looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The attributes of something that is there.
    Stat,
    /// A name that is not there.
    Absent,
    /// A directory's names; the size is how many they are.
    List,
    /// A file that is opened and read to its end; the size is its bytes.
    Open,
    /// A library that the loader maps; the size is the bytes that it maps.
    Load,
}

/// One look-up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lookup {
    /// What is looked up.
    pub kind: Kind,
    /// The path, with its links resolved.
    pub path: Path,
    /// Bytes, or names of a directory; 0 where there is nothing to count.
    pub size: u64,
    /// Nanoseconds of computing before it.
    pub before_ns: u64,
}

/// What one process does until it has started. All processes of a job do the same.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// The look-ups in their order.
    pub lookups: Vec<Lookup>,
    /// Nanoseconds of computing after the last one.
    pub after_ns: u64,
}

impl Trace {
    /// Leaves out what does not lie in these directories; what is computed before it stays.
    pub fn keep_within(&mut self, directories: &[Path]) {
        let mut computing_ns = 0;
        self.lookups.retain_mut(|lookup| {
            computing_ns += lookup.before_ns;
            let is_kept = directories.iter().any(|directory| lookup.path.is_within(directory));
            if is_kept {
                lookup.before_ns = std::mem::take(&mut computing_ns);
            }
            is_kept
        });
        self.after_ns += computing_ns;
    }

    /// Files that are opened, each counted once.
    pub fn files(&self) -> usize {
        let opens = self.lookups.iter().filter(|lookup| matches!(lookup.kind, Kind::Open | Kind::Load));
        opens.map(|lookup| &lookup.path).collect::<BTreeSet<_>>().len()
    }

    /// Nanoseconds of computing in all.
    pub fn computing_ns(&self) -> u64 {
        self.after_ns + self.lookups.iter().map(|lookup| lookup.before_ns).sum::<u64>()
    }
}
