//! Small files, which are created in the mirror at once.

use std::fs::{File, Metadata, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};

use headwater_abi::{Attr, Path};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::attributes::{COPIED_MODE_BITS, finish, times};
use super::store::Store;

impl Store {
    /// Creates a complete copy of `bytes` in the mirror, with its source file's mode and times. Processes open it only
    /// after it has been published.
    pub(super) fn create_small(&mut self, path: &Path, bytes: Vec<u8>, attr: &Attr) -> io::Result<Metadata> {
        let parent = self.parent(path)?;
        let wanted = attr.mode & COPIED_MODE_BITS | 0o400;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut file = match rustix::fs::openat(&*parent, path.name(), flags, Mode::from(wanted)) {
            Ok(file) => File::from(file),
            Err(Errno::EXIST) => return self.replace_small(path, bytes, attr),
            Err(error) => return Err(error.into()),
        };
        let result = file.write_all(&bytes).and_then(|()| {
            rustix::fs::futimens(&file, &times(attr))?;
            let metadata = file.metadata()?;
            if metadata.mode() & 0o7777 != wanted {
                file.set_permissions(Permissions::from_mode(wanted))?;
            }
            Ok(metadata)
        });
        match result {
            Ok(_) => self.cache_recent(path, bytes),
            Err(_) => drop(std::fs::remove_file(self.copy_of(path))),
        }
        result
    }

    /// As [`Store::create_small`], if a copy exists: replaces an evicted one, and fills the holes of any other.
    pub(super) fn replace_small(&mut self, path: &Path, bytes: Vec<u8>, attr: &Attr) -> io::Result<Metadata> {
        let copy = self.copy_of(path);
        let is_hidden = self.hidden.contains(path);
        let file = if is_hidden {
            let (_, beside) = self.beside();
            let moved_in = std::fs::write(&beside, &bytes).and_then(|()| self.put(path, &beside));
            moved_in.inspect_err(|_| drop(std::fs::remove_file(&beside)))?;
            File::open(&copy)?
        } else {
            std::fs::set_permissions(&copy, Permissions::from_mode(0o600))?;
            let file = File::options().write(true).open(&copy)?;
            if let Err(error) = file.write_all_at(&bytes, 0) {
                // The old content stays, and some of the new bytes are allocated.
                self.count_as(&file.metadata()?);
                finish(&file, attr)?;
                return Err(error);
            }
            file
        };
        finish(&file, attr)?;
        self.cache_recent(path, bytes);
        file.metadata()
    }

    pub(super) fn cache_recent(&mut self, path: &Path, bytes: Vec<u8>) {
        if self.is_sending {
            self.recent.insert(path, bytes);
        }
    }
}
