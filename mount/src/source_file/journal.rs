//! What a successor must know of nodes that have no record, and of those whose originals may not stand where
//! their records say.
//!
//! A program that has such a file open goes on with it whatever happens to the daemon, and above all it
//! must not get another file that has the name now. The journal lies in the node's directory, in
//! memory: it is for the death of a process, not of the machine.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path as FilePath, PathBuf};

use headwater_abi::Path;
use headwater_abi::path::DEEP_BYTES_MAX;
use headwater_fuse::NodeId;

use super::identity::{Identity, WORDS};

/// Bytes above which a journal is written anew once half of it may be out of date.
const BYTES_MIN: u64 = 1 << 20;
/// Bytes of an entry before its path: the node, the identity, the path's length.
const HEAD_BYTES: usize = (WORDS + 2) * 8;

/// Where a node's original stands; `None`: where its record says.
pub(super) type Entry<'a> = (NodeId, Option<(Identity, &'a Path)>);

/// Where originals stand by what a journal says.
pub(super) type Known = BTreeMap<NodeId, (Identity, Path)>;

/// A journal, or none: then nothing is noted.
#[derive(Debug, Default)]
pub(super) struct Journal {
    path: PathBuf,
    file: Option<File>,
    bytes: u64,
    /// Bytes at which it is written anew.
    bytes_max: u64,
}

impl Journal {
    /// Goes on with the journal at `path`, or begins it; what its entries come to.
    pub(super) fn open(path: &FilePath) -> io::Result<(Journal, Known)> {
        let known = match std::fs::read(path) {
            Ok(bytes) => decode(&bytes),
            Err(error) if error.kind() == io::ErrorKind::NotFound => BTreeMap::new(),
            Err(error) => return Err(error),
        };
        let mut journal = Journal { path: path.to_owned(), file: None, bytes: 0, bytes_max: 0 };
        journal.rewrite(known.iter().map(|(node, (identity, path))| (*node, Some((*identity, path)))))?;
        Ok((journal, known))
    }

    /// Adds entries. `all` gives those that are to be there if it is written anew.
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
            tracing::warn!(path = %self.path.display(), %error, "renamed and removed files that are in use would be lost if the daemon were killed; more space under --store helps");
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

/// What entries come to. What the end of a process cut off is as if it had not been noted.
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

/// What entries come to is written as it was read.
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
        assert_eq!(Journal::open(&file).unwrap().1, expected, "also after it was written anew");
        let mut bytes = std::fs::read(&file).unwrap();
        bytes.extend_from_slice(&bytes.clone()[..HEAD_BYTES + 1]);
        assert_eq!(decode(&bytes), expected, "a broken end is nothing");
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
