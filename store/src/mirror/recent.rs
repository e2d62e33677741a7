//! Caches for sending: the bytes of recent small files, and open files.

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::hash::Hash;
use std::io;
use std::rc::Rc;

use headwater_abi::Path;

/// Bytes of small files that are cached.
const BYTES_MAX: usize = 1 << 20;
/// Files that stay open.
const OPEN_MAX: usize = 16;

/// The contents of the small files that were completed last.
#[derive(Debug, Default)]
pub(super) struct Recent {
    by_path: HashMap<Path, Vec<u8>>,
    order: VecDeque<Path>,
    bytes: usize,
}

impl Recent {
    pub(super) fn insert(&mut self, path: &Path, bytes: Vec<u8>) {
        self.bytes += bytes.len();
        if let Some(before) = self.by_path.insert(path.clone(), bytes) {
            self.bytes -= before.len();
        } else {
            self.order.push_back(path.clone());
        }
        while self.bytes > BYTES_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.remove(&oldest);
        }
    }

    pub(super) fn get(&self, path: &Path) -> Option<&[u8]> {
        self.by_path.get(path).map(Vec::as_slice)
    }

    /// Drops the content of an evicted path.
    pub(super) fn remove(&mut self, path: &Path) {
        if let Some(bytes) = self.by_path.remove(path) {
            self.bytes -= bytes.len();
        }
    }
}

/// A few files that stay open between uses, in the order of their last uses.
#[derive(Debug)]
pub(super) struct OpenFiles<K>(VecDeque<(K, Rc<File>)>);

impl<K> Default for OpenFiles<K> {
    fn default() -> Self {
        OpenFiles(VecDeque::new())
    }
}

impl<K: Eq + Hash> OpenFiles<K> {
    /// Returns the open file of this key; `open` opens it on first use.
    pub(super) fn get(&mut self, key: K, open: impl FnOnce() -> io::Result<File>) -> io::Result<Rc<File>> {
        let known = self.0.iter().position(|(of, _)| *of == key).and_then(|at| self.0.remove(at));
        let (key, file) = match known {
            Some(known) => known,
            None => (key, Rc::new(open()?)),
        };
        if self.0.len() == OPEN_MAX {
            self.0.pop_front();
        }
        self.0.push_back((key, Rc::clone(&file)));
        Ok(file)
    }

    /// Closes the file of this key.
    pub(super) fn close(&mut self, key: &K) {
        self.0.retain(|(of, _)| of != key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_bytes_go() {
        let (mut recent, path) = (Recent::default(), |n: usize| Path::new(format!("/{n}").as_bytes()).unwrap());
        for number in 0..100 {
            recent.insert(&path(number), vec![number as u8; BYTES_MAX / 10]);
        }
        assert!(recent.get(&path(89)).is_none() && recent.get(&path(91)).is_some_and(|bytes| bytes[0] == 91));
        assert!(recent.bytes <= BYTES_MAX && recent.by_path.len() == recent.order.len());
        recent.insert(&path(95), vec![1]);
        assert_eq!(recent.get(&path(95)), Some(&[1][..]));
        recent.remove(&path(95));
        assert_eq!(recent.get(&path(95)), None);
        let cached: usize = recent.by_path.values().map(Vec::len).sum();
        assert_eq!(recent.bytes, cached);
    }

    #[test]
    fn files_in_use_stay_open() {
        let (mut files, mut opened) = (OpenFiles::default(), 0);
        let mut get = |files: &mut OpenFiles<usize>, key| {
            let file = files.get(key, || {
                opened += 1;
                tempfile::tempfile()
            });
            drop(file.unwrap());
            opened
        };
        get(&mut files, 0);
        for key in 1..OPEN_MAX * 2 {
            let before = get(&mut files, key);
            assert_eq!(get(&mut files, 0), before, "{key}");
        }
        files.close(&0);
        assert_eq!(get(&mut files, 0), OPEN_MAX * 2 + 1);
    }
}
