//! Open files of the shared file system that are read in blocks, so that each is opened once.

use std::collections::VecDeque;
use std::fs::File;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use headwater_abi::Path;

/// The most files that stay open.
const SOURCES_MAX: usize = 32;

/// An open file, or one that the holder of the lock is opening.
type Source = Arc<Mutex<Option<Open>>>;

#[derive(Debug)]
struct Open {
    file: Arc<File>,
    /// The file's beginning, if it has been read for the first block.
    beginning: Option<Vec<u8>>,
}

/// A bounded set of open files, in the order of their last uses.
#[derive(Debug, Default)]
pub(super) struct Sources {
    all: Mutex<VecDeque<(Path, Source)>>,
}

impl Sources {
    /// Returns the open file of this path. One thread opens it by `open` while others wait.
    pub(super) fn get<E>(&self, path: &Path, open: impl FnOnce() -> Result<File, E>) -> Result<Arc<File>, E> {
        let source = self.source(path);
        let mut source = lock(&source);
        if let Some(open) = &*source {
            return Ok(Arc::clone(&open.file));
        }
        Ok(Arc::clone(&source.insert(Open { file: Arc::new(open()?), beginning: None }).file))
    }

    /// Caches an open file and its beginning for jobs that read its blocks.
    pub(super) fn cache(&self, path: &Path, file: Arc<File>, beginning: Vec<u8>) {
        *lock(&self.source(path)) = Some(Open { file, beginning: Some(beginning) });
    }

    /// Returns the file, if it is open.
    pub(super) fn find(&self, path: &Path) -> Option<Arc<File>> {
        let source = self.find_source(path)?;
        let source = lock(&source);
        source.as_ref().map(|open| Arc::clone(&open.file))
    }

    /// Takes a file's cached beginning.
    pub(super) fn take_beginning(&self, path: &Path) -> Option<Vec<u8>> {
        let source = self.find_source(path)?;
        let mut source = lock(&source);
        source.as_mut()?.beginning.take()
    }

    fn find_source(&self, path: &Path) -> Option<Source> {
        lock(&self.all).iter().find(|(of, _)| of == path).map(|(_, source)| Arc::clone(source))
    }

    /// Closes the file of this path, which has been replaced.
    pub(super) fn forget(&self, path: &Path) {
        lock(&self.all).retain(|(of, _)| of != path);
    }

    /// Closes all files.
    pub(super) fn forget_all(&self) {
        lock(&self.all).clear();
    }

    fn source(&self, path: &Path) -> Source {
        let mut all = lock(&self.all);
        let known = all.iter().position(|(of, _)| of == path).and_then(|at| all.remove(at));
        if known.is_none() && all.len() == SOURCES_MAX {
            all.pop_front();
        }
        let (path, source) = known.unwrap_or_else(|| (path.clone(), Source::default()));
        all.push_back((path, Arc::clone(&source)));
        source
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    #[test]
    fn a_file_is_opened_once_while_it_is_used() {
        let (sources, opened) = (Sources::default(), std::cell::Cell::new(0));
        let get = |n: usize| {
            let open = || {
                opened.set(opened.get() + 1);
                tempfile::tempfile()
            };
            sources.get(&Path::new(format!("/{n}").as_bytes()).unwrap(), open).unwrap()
        };
        let first = get(0);
        for number in 1..SOURCES_MAX + 5 {
            get(number);
            assert!(Arc::ptr_eq(&get(0), &first));
        }
        assert_eq!((opened.replace(0), lock(&sources.all).len()), (SOURCES_MAX + 5, SOURCES_MAX));
        get(1);
        get(SOURCES_MAX);
        sources.forget(&Path::new(b"/0").unwrap());
        get(0);
        assert_eq!(opened.get(), 2, "the least recently used file was closed, and the last one was not");
    }

    #[test]
    fn the_beginning_is_given_once() {
        let (sources, path) = (Sources::default(), Path::new(b"/f").unwrap());
        assert_eq!(sources.take_beginning(&path), None);
        let file = Arc::new(tempfile::tempfile().unwrap());
        sources.cache(&path, Arc::clone(&file), b"abc".to_vec());
        let open = || -> Result<File, io::Error> { panic!("it is open") };
        assert!(Arc::ptr_eq(&sources.get(&path, open).unwrap(), &file));
        assert_eq!(sources.take_beginning(&path), Some(b"abc".to_vec()));
        assert_eq!(sources.take_beginning(&path), None);
        assert!(sources.find(&path).is_some_and(|found| Arc::ptr_eq(&found, &file)));
    }

    #[test]
    fn a_failed_open_is_left_to_the_next() {
        let (sources, path) = (Sources::default(), Path::new(b"/f").unwrap());
        assert!(sources.get(&path, || Err::<File, _>(io::Error::from(io::ErrorKind::NotFound))).is_err());
        assert!(sources.get(&path, tempfile::tempfile).is_ok());
    }
}
