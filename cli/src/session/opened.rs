//! Files that were opened to find the scope. They stay open for the reader, so a session opens each file once.

use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

/// Files by the paths under which they were opened.
#[derive(Debug, Default)]
pub struct Opened {
    files: RefCell<Vec<(PathBuf, File)>>,
}

impl Opened {
    /// Opens a file for reading, and retains a descriptor.
    pub fn open(&self, path: &Path) -> io::Result<File> {
        let mut files = self.files.borrow_mut();
        if let Some((_, file)) = files.iter().find(|(opened, _)| opened == path) {
            return file.try_clone();
        }
        let file = File::open(path)?;
        files.push((path.to_owned(), file.try_clone()?));
        Ok(file)
    }

    /// Calls `use_files` with all open files.
    pub fn with<T>(&self, use_files: impl FnOnce(&[(PathBuf, BorrowedFd<'_>)]) -> T) -> T {
        let files = self.files.borrow();
        use_files(&files.iter().map(|(path, file)| (path.clone(), file.as_fd())).collect::<Vec<_>>())
    }
}
