//! The journal for a successor: nodes without a record, and nodes whose source files may not be at their records'
//! paths.
//!
//! A program that has such a file open continues with it if the daemon dies, and must never get another file of the
//! same name. The journal is in the node's directory, in memory: it survives a process, not a reboot.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path as FilePath, PathBuf};

use headwater_abi::Path;
use headwater_abi::path::DEEP_BYTES_MAX;
use headwater_fuse::NodeId;
use headwater_store::layout::ignore_absent;

use super::identity::{Identity, WORDS};

/// Size above which a journal is rewritten once half of it may be out of date.
const BYTES_MIN: u64 = 1 << 20;
/// Bytes of an entry before its path: the node, the identity, the path's length.
const HEAD_BYTES: usize = (WORDS + 2) * 8;

/// The path of a node's source file; `None` if its record has it.
pub(super) type Entry<'a> = (NodeId, Option<(Identity, &'a Path)>);

/// The paths of source files according to a journal.
pub(super) type Known = BTreeMap<NodeId, (Identity, Path)>;

/// A journal; without a file, entries are dropped.
#[derive(Debug, Default)]
pub(super) struct Journal {
    path: PathBuf,
    file: Option<File>,
    bytes: u64,
    /// Size at which it is rewritten.
    bytes_max: u64,
}

impl Journal {
    /// Opens or creates the journal at `path`. Returns it with its decoded entries.
    pub(super) fn open(path: &FilePath) -> io::Result<(Journal, Known)> {
        let known = decode(&ignore_absent(std::fs::read(path))?);
        let mut journal = Journal { path: path.to_owned(), file: None, bytes: 0, bytes_max: 0 };
        journal.rewrite(known.iter().map(|(node, (identity, path))| (*node, Some((*identity, path)))))?;
        Ok((journal, known))
    }

    /// Appends entries. `all` returns the entries of a rewritten journal.
    pub(super) fn note<'a, I>(&mut self, entries: impl Iterator<Item = Entry<'a>>, all: impl FnOnce() -> I)
    where
        I: Iterator<Item = Entry<'a>>,
    {
        let Some(file) = &mut self.file else { return };
        let bytes: Vec<u8> = entries.flat_map(encode).collect();
        let mut result = file.write_all(&bytes);
        self.bytes += bytes.len() as u64;
        if result.is_ok() && self.bytes > self.bytes_max {
            result = self.rewrite(all());
        }
        if let Err(error) = result {
            tracing::warn!(path = %self.path.display(), %error, "renamed and removed files that are in use will be lost if the daemon is killed: the journal can't be written. Make more space under --store");
            self.file = None;
        }
    }

    fn rewrite<'a>(&mut self, entries: impl Iterator<Item = Entry<'a>>) -> io::Result<()> {
        let beside = self.path.with_extension("new");
        let _ = std::fs::remove_file(&beside);
        let mut file = OpenOptions::new().append(true).create_new(true).mode(0o600).open(&beside)?;
        let bytes: Vec<u8> = entries.flat_map(encode).collect();
        file.write_all(&bytes)?;
        std::fs::rename(&beside, &self.path)?;
        self.file = Some(file);
        self.bytes = bytes.len() as u64;
        self.bytes_max = (self.bytes * 2).max(BYTES_MIN);
        Ok(())
    }
}

fn encode((node, entry): Entry<'_>) -> Vec<u8> {
    let (identity, path) =
        entry.map_or(([0; WORDS], &b""[..]), |(identity, path)| (identity.to_words(), path.as_bytes()));
    let words = [node.0].into_iter().chain(identity).chain([path.len() as u64]);
    words.flat_map(u64::to_le_bytes).chain(path.iter().copied()).collect()
}

/// Decodes entries. An incomplete last entry is ignored.
fn decode(mut bytes: &[u8]) -> Known {
    let mut known = BTreeMap::new();
    while let Some((head, rest)) = bytes.split_at_checked(HEAD_BYTES) {
        let mut words = head.chunks_exact(8).map(|word| word.try_into().map_or(0, u64::from_le_bytes));
        let node = NodeId(words.next().unwrap_or(0));
        let identity = std::array::from_fn(|_| words.next().unwrap_or(0));
        let path_bytes = words.next().unwrap_or(0).min(DEEP_BYTES_MAX as u64 + 1) as usize;
        let Some((path, rest)) = rest.split_at_checked(path_bytes) else { break };
        match Path::deep(path) {
            Some(path) => known.insert(node, (Identity::from_words(identity), path)),
            None if path.is_empty() => known.remove(&node),
            None => break,
        };
        bytes = rest;
    }
    known
}

/// Checks that decoded entries are encoded as they were.
#[cfg(fuzzing)]
pub fn fuzz(bytes: &[u8]) {
    let known = decode(bytes);
    let entries = known.iter().map(|(node, (identity, path))| (*node, Some((*identity, path))));
    assert_eq!(decode(&entries.flat_map(encode).collect::<Vec<u8>>()), known);
}

#[cfg(test)]
mod tests {
    use headwater_abi::Attr;

    use super::*;

    fn identity(ino: u64) -> Identity {
        Identity::of(&Attr { ino, mode: 0o100_644, dev_major: 8, btime: (-3, 7), ..Attr::default() })
    }

    fn path(text: &str) -> Path {
        Path::new(text.as_bytes()).unwrap()
    }

    #[test]
    fn a_successor_reads_what_was_noted() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("moves");
        let (mut journal, known) = Journal::open(&file).unwrap();
        assert!(known.is_empty());
        let (a, b) = (path("/a"), path("/b"));
        let entries: [Entry<'_>; 4] = [
            (NodeId(1), Some((identity(1), &a))),
            (NodeId(2), Some((identity(2), &a))),
            (NodeId(1), None),
            (NodeId(2), Some((identity(2), &b))),
        ];
        journal.note(entries.into_iter(), std::iter::empty);
        let expected = BTreeMap::from([(NodeId(2), (identity(2), b))]);
        assert_eq!(Journal::open(&file).unwrap().1, expected);
        assert_eq!(Journal::open(&file).unwrap().1, expected, "also after a rewrite");
        let mut bytes = std::fs::read(&file).unwrap();
        bytes.extend_from_slice(&bytes.clone()[..HEAD_BYTES + 1]);
        assert_eq!(decode(&bytes), expected, "an incomplete entry is ignored");
    }

    #[test]
    fn a_journal_does_not_grow_without_end() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("moves");
        let mut journal = Journal::open(&file).unwrap().0;
        let long = path(&format!("/{}", "x".repeat(4000)));
        let entry: Entry<'_> = (NodeId(1), Some((identity(1), &long)));
        for _ in 0..1000 {
            journal.note([entry].into_iter(), || [entry].into_iter());
        }
        assert!(std::fs::metadata(&file).unwrap().len() <= BYTES_MIN + 5000);
        assert_eq!(Journal::open(&file).unwrap().1.len(), 1);
    }
}
