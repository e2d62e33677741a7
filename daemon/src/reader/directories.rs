//! Descriptors of the shared file system's directories, so that opening a file looks up one name.

use std::collections::{HashMap, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};

use headwater_abi::Path;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, StatxFlags, openat, statx};
use rustix::io::Errno;

use super::attr_of;
use super::everybody::{self, Wish};

/// The most descriptors that are kept.
const DIRECTORIES_MAX: usize = 512;

/// A bounded set of open directories, shared by the reader's threads.
#[derive(Debug, Default)]
pub(crate) struct Directories {
    open: Mutex<Open>,
    /// Those are opened that everybody may search, and no link is followed.
    for_everybody: bool,
}

#[derive(Debug, Default)]
struct Open {
    by_path: HashMap<Path, Arc<OwnedFd>>,
    by_age: VecDeque<Path>,
}

impl Directories {
    /// Of directories that everybody may search, along the whole path.
    pub(super) fn for_everybody() -> Directories {
        Directories { for_everybody: true, ..Directories::default() }
    }

    /// An `O_PATH` descriptor of the directory, opened along its ancestors. With
    /// [`OFlags::NOFOLLOW`] as `last`, a link as its last component is `ENOTDIR`; EACCES if it is not for
    /// everybody, where that matters. `count` is told of
    /// each call that looks a name up.
    pub(crate) fn open(&self, path: &Path, last: OFlags, count: &dyn Fn()) -> Result<Arc<OwnedFd>, Errno> {
        if let Some(directory) = self.lock().by_path.get(path) {
            return Ok(Arc::clone(directory));
        }
        // Where a directory was, somebody may have put a link meanwhile: to where the daemon may go alone.
        let last = if self.for_everybody { OFlags::NOFOLLOW } else { last };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC | last;
        let directory = match path.parent() {
            None => openat(CWD, "/", flags, Mode::empty())?,
            Some(parent) => {
                // What leads to the scope may be a link.
                let parent = self.open(&parent, OFlags::empty(), count)?;
                count();
                openat(&parent, path.name(), flags, Mode::empty())?
            }
        };
        if self.for_everybody {
            count();
            let attr = statx(&directory, "", AtFlags::EMPTY_PATH, StatxFlags::MODE)?;
            everybody::check(&directory, &attr_of(&attr), Wish::Search)?;
        }
        let directory = Arc::new(directory);
        self.keep(path, &directory);
        Ok(directory)
    }

    /// Closes every descriptor that no thread is using: one may be stale, or there are too many.
    pub(crate) fn forget(&self) {
        *self.lock() = Open::default();
    }

    fn keep(&self, path: &Path, directory: &Arc<OwnedFd>) {
        let mut open = self.lock();
        if open.by_path.insert(path.clone(), Arc::clone(directory)).is_none() {
            open.by_age.push_back(path.clone());
        }
        if open.by_age.len() > DIRECTORIES_MAX
            && let Some(oldest) = open.by_age.pop_front()
        {
            open.by_path.remove(&oldest);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn each_name_is_looked_up_once() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("a/b")).unwrap();
        let path = |name: &str| Path::new(dir.path().join(name).as_os_str().as_encoded_bytes()).unwrap();
        let (directories, count) = (Directories::default(), Cell::new(0));
        let open = |name: &str| {
            count.set(0);
            let result = directories.open(&path(name), OFlags::empty(), &|| count.set(count.get() + 1));
            (result.map(drop), count.get())
        };
        assert_eq!(open("a").0, Ok(()));
        assert_eq!(open("a/b"), (Ok(()), 1));
        assert_eq!(open("a/b"), (Ok(()), 0));
        assert_eq!(open("a/c"), (Err(Errno::NOENT), 1));
        directories.forget();
        assert_eq!(open("a/b").0, Ok(()));
    }

    #[test]
    fn the_oldest_go() {
        let dir = tempfile::tempdir().unwrap();
        let directories = Directories::default();
        for number in 0..DIRECTORIES_MAX + 10 {
            let path = dir.path().join(number.to_string());
            std::fs::create_dir(&path).unwrap();
            directories
                .open(&Path::new(path.as_os_str().as_encoded_bytes()).unwrap(), OFlags::NOFOLLOW, &|| ())
                .unwrap();
        }
        assert_eq!(directories.lock().by_path.len(), DIRECTORIES_MAX);
        assert_eq!(directories.lock().by_age.len(), DIRECTORIES_MAX);
    }
}
