//! What processes request beyond a list that has all that they should use: see `docs/internals/seal.md`.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use headwater_abi::Want;
use headwater_closure::contents::Contents;
use headwater_closure::recorded::{BlockRanges, Entry, Version, What};
use headwater_proto::Input;

use crate::preload::plan::{Preload, PreloadList};

/// The last line of a daemon that has seen all requests of its node: without it, more may have been used.
pub const COMPLETE: &str = "complete";
/// Limit of the requests that are remembered, those for absent names included.
const REQUESTS_MAX: usize = 65_536;
/// What is not compared.
const NO_VERSION: Version = Version { size: 0, mtime_seconds: 0, mtime_nanoseconds: 0 };

/// Requests for content that the list lacks. Content without a request was requested on another node.
#[derive(Debug)]
pub(crate) struct Beyond {
    listed: Contents,
    /// By the path that a process has given, and the block of a large file.
    requests: BTreeSet<(PathBuf, Option<u32>)>,
    has_unseen: bool,
}

impl Beyond {
    /// Returns what watches requests, if all that may be used is in a list. A successor has not seen the first ones.
    pub fn watch(preload: Option<&Preload>, is_successor: bool) -> Option<Beyond> {
        let Some(Preload::List(PreloadList { entries, is_complete: true, .. })) = preload else { return None };
        let entries: Vec<Entry> = entries.iter().filter_map(|line| Entry::parse(line)).collect();
        Some(Beyond { listed: Contents::of(entries.iter()), requests: BTreeSet::new(), has_unseen: is_successor })
    }

    /// Notes a request.
    pub fn note(&mut self, input: &Input) {
        let (path, block) = match input {
            Input::Request { want, .. } if want.contains(Want::UNAUDITED) => {
                self.has_unseen = true;
                return;
            }
            Input::Request { path, want, .. } if want.intersects(Want::WHOLE | Want::LOADABLE | Want::EXECUTE) => {
                (path, None)
            }
            Input::RequestBlock { path, block, .. } => (path, Some(*block)),
            _ => return,
        };
        let path = Path::new(std::ffi::OsStr::from_bytes(path.as_bytes()));
        if self.listed.covers(&entry(path, block)) {
            return;
        }
        if self.requests.len() < REQUESTS_MAX {
            self.requests.insert((path.to_owned(), block));
        } else {
            self.has_unseen = true;
        }
    }

    /// Returns the requests for files that the list lacks, as lines of a closure, and [`COMPLETE`]. `was_file`
    /// returns whether a path that is gone was a file.
    pub fn lines(&self, was_file: impl Fn(&Path) -> bool) -> String {
        let mut lines = BTreeSet::new();
        for (path, block) in &self.requests {
            // What was given may lead through links, or to what is no file.
            let path = fs::canonicalize(path).unwrap_or_else(|_| path.clone());
            let is_file = path.is_file() || was_file(&path);
            if is_file && !self.listed.covers(&entry(&path, *block)) {
                lines.insert(Entry { what: What::Any, path }.to_string());
            }
        }
        let end = (!self.has_unseen).then(|| COMPLETE.to_owned());
        lines.into_iter().chain(end).map(|line| line + "\n").collect()
    }
}

fn entry(path: &Path, block: Option<u32>) -> Entry {
    let what = match block {
        Some(block) => What::Blocks(NO_VERSION, BlockRanges::new([block].into_iter())),
        None => What::Whole(NO_VERSION),
    };
    Entry { what, path: path.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headwater_proto::ClientId;

    #[test]
    fn only_what_is_not_listed() {
        let scratch = tempfile::tempdir().unwrap();
        let at = |name: &str| scratch.path().canonicalize().unwrap().join(name);
        for name in ["listed", "blocks", "else", "also"] {
            fs::write(at(name), "x").unwrap();
        }
        std::os::unix::fs::symlink("listed", at("link")).unwrap();
        std::os::unix::fs::symlink("also", at("other")).unwrap();
        let lines = [
            format!("whole 1 1.000000000 {}", at("listed").display()),
            format!("blocks 9000000 1.000000000 1-2 {}", at("blocks").display()),
        ];
        let list =
            |is_complete| Preload::List(PreloadList { entries: lines.to_vec(), is_complete, ..PreloadList::default() });
        assert!(Beyond::watch(Some(&list(false)), false).is_none() && Beyond::watch(None, false).is_none());
        let mut beyond = Beyond::watch(Some(&list(true)), false).unwrap();
        let path = |name: &str| headwater_abi::Path::new(at(name).as_os_str().as_bytes()).unwrap();
        let client = ClientId(1);
        for name in ["listed", "link", "absent", "."] {
            beyond.note(&Input::Request { client, path: path(name), want: Want::WHOLE });
        }
        beyond.note(&Input::Request { client, path: path("else"), want: Want::ATTR });
        beyond.note(&Input::RequestBlock { client, path: path("blocks"), block: 2 });
        assert_eq!(beyond.lines(|_| false), "complete\n");
        let absent = format!("any {}\n", at("absent").display());
        assert_eq!(beyond.lines(|path| path == at("absent")), absent + "complete\n", "it was removed");
        beyond.note(&Input::RequestBlock { client, path: path("blocks"), block: 3 });
        beyond.note(&Input::Request { client, path: path("else"), want: Want::LOADABLE });
        beyond.note(&Input::Request { client, path: path("other"), want: Want::EXECUTE });
        beyond.note(&Input::Request { client, path: path("listed"), want: Want::UNAUDITED });
        let line = |name: &str| format!("any {}\n", at(name).display());
        assert_eq!(beyond.lines(|_| false), ["also", "blocks", "else"].map(line).concat(), "one was not audited");
        assert!(!Beyond::watch(Some(&list(true)), true).unwrap().lines(|_| false).contains(COMPLETE));
        let mut full = Beyond::watch(Some(&list(true)), false).unwrap();
        for number in 0..=REQUESTS_MAX {
            full.note(&Input::Request { client, path: path(&number.to_string()), want: Want::WHOLE });
        }
        assert!(!full.lines(|_| false).contains(COMPLETE));
    }
}
