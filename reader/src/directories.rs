//! Open directories of the shared file system, so that opening a file looks up one name.

use std::collections::{HashMap, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use headwater_abi::Path;
use headwater_store::attr_at;
use rustix::fs::{CWD, Mode, OFlags, StatxFlags, openat};
use rustix::io::Errno;

use crate::all_users::{self, Permission};

/// Directories that stay open.
const DIRECTORIES_MAX: usize = 512;

/// A bounded set of open directories, shared by the reader's threads.
#[derive(Debug, Default)]
pub(crate) struct Directories {
    open: Mutex<Open>,
    /// Only directories that all users may search are opened, and no link is followed.
    for_all_users: bool,
}

#[derive(Debug, Default)]
struct Open {
    by_path: HashMap<Path, Arc<OwnedFd>>,
    by_age: VecDeque<Path>,
    /// Directories that are being opened: one thread opens each, others wait for it.
    opening: HashMap<Path, Arc<Opening>>,
}

/// A directory that is being opened.
#[derive(Debug)]
struct Opening {
    last: OFlags,
    result: OnceLock<Result<Arc<OwnedFd>, Errno>>,
}

impl Directories {
    /// Creates a set, with `for_all_users` of directories that all users may search.
    pub(super) fn new(for_all_users: bool) -> Directories {
        Directories { for_all_users, ..Directories::default() }
    }

    /// Returns an `O_PATH` descriptor of the directory, opened along its ancestors. With [`OFlags::NOFOLLOW`] as
    /// `last`, a link as last component is `ENOTDIR`. In a set for all users, a directory that some may not search is
    /// EACCES. Calls `count` for each look-up of a name: concurrent threads look a directory up once.
    pub(crate) fn open(&self, path: &Path, last: OFlags, count: &dyn Fn()) -> Result<Arc<OwnedFd>, Errno> {
        loop {
            let opening = {
                let mut open = self.lock();
                if let Some(directory) = open.by_path.get(path) {
                    return Ok(Arc::clone(directory));
                }
                let new = || Arc::new(Opening { last, result: OnceLock::new() });
                Arc::clone(open.opening.entry(path.clone()).or_insert_with(new))
            };
            // The opening thread waits for ancestors only, so there is no deadlock.
            let result = opening.result.get_or_init(|| self.look_up(path, opening.last, count)).clone();
            self.cache(path, &opening, &result);
            // With other flags, a link may be a directory.
            if result.is_ok() || opening.last == last {
                return result;
            }
        }
    }

    fn look_up(&self, path: &Path, last: OFlags, count: &dyn Fn()) -> Result<Arc<OwnedFd>, Errno> {
        // A directory may have been replaced by a link to where only the daemon may go.
        let last = if self.for_all_users { OFlags::NOFOLLOW } else { last };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC | last;
        let directory = match path.parent() {
            None => openat(CWD, "/", flags, Mode::empty())?,
            Some(parent) => {
                // Ancestors outside of the scope may be links.
                let parent = self.open(&parent, OFlags::empty(), count)?;
                count();
                openat(&parent, path.name(), flags, Mode::empty())?
            }
        };
        if self.for_all_users {
            count();
            all_users::check(&directory, &attr_at(&directory, b"", StatxFlags::MODE)?, Permission::Search)?;
        }
        Ok(Arc::new(directory))
    }

    /// Closes all unused descriptors, because one may be stale or there are too many. Directories that are being opened
    /// are not cached.
    pub(crate) fn forget(&self) {
        *self.lock() = Open::default();
    }

    /// Caches an opened directory, unless another thread did or the set was cleared meanwhile.
    fn cache(&self, path: &Path, opening: &Arc<Opening>, result: &Result<Arc<OwnedFd>, Errno>) {
        let mut open = self.lock();
        if !open.opening.get(path).is_some_and(|current| Arc::ptr_eq(current, opening)) {
            return;
        }
        open.opening.remove(path);
        let Ok(directory) = result else { return };
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
    use std::cell::Cell;
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

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
    fn threads_look_up_together() {
        const THREADS: usize = 8;
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("a/b")).unwrap();
        let deep = Path::new(dir.path().join("a/b").as_os_str().as_encoded_bytes()).unwrap();
        let names = std::iter::successors(deep.parent(), Path::parent).count();
        for _ in 0..200 {
            let (directories, count, together) = (Directories::default(), AtomicUsize::new(0), Barrier::new(THREADS));
            let open = || {
                together.wait();
                directories.open(&deep, OFlags::empty(), &|| {
                    count.fetch_add(1, Ordering::Relaxed);
                    // Lets concurrent look-ups happen now.
                    std::thread::yield_now();
                })
            };
            std::thread::scope(|scope| {
                (0..THREADS).for_each(|_| _ = scope.spawn(|| open().unwrap()));
            });
            assert_eq!(count.load(Ordering::Relaxed), names, "each name is looked up once");
            assert!(directories.lock().opening.is_empty());
        }
    }

    #[test]
    fn a_link_is_a_directory_if_it_is_followed() {
        let dir = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(".", dir.path().join("link")).unwrap();
        let link = Path::new(dir.path().join("link").as_os_str().as_encoded_bytes()).unwrap();
        for _ in 0..200 {
            let (directories, together) = (Directories::default(), Barrier::new(2));
            let open = |last| {
                together.wait();
                directories.open(&link, last, &std::thread::yield_now).map(drop)
            };
            let (unfollowed, followed) = std::thread::scope(|scope| {
                let other = scope.spawn(|| open(OFlags::NOFOLLOW));
                let followed = open(OFlags::empty());
                (other.join().unwrap(), followed)
            });
            assert_eq!(followed, Ok(()));
            assert!(matches!(unfollowed, Ok(()) | Err(Errno::NOTDIR)), "{unfollowed:?}");
        }
    }

    #[test]
    fn what_was_being_opened_is_not_cached_when_all_is_forgotten() {
        let dir = tempfile::tempdir().unwrap();
        let path = Path::new(dir.path().as_os_str().as_encoded_bytes()).unwrap();
        let directories = Directories::default();
        directories.open(&path, OFlags::empty(), &|| directories.forget()).unwrap();
        assert_eq!(directories.lock().by_path.len(), 0);
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
