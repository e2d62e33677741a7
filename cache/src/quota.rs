//! How much the cache holds.

use std::fs::DirEntry;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::SystemTime;

use rustix::fs::statvfs;

use crate::layout::{NAMES, OBJECTS};

/// The part of the free room that is used by default.
const FREE_SHARE: u64 = 4;
/// Eviction goes on until this much of the limit is in use, in tenths.
const KEPT_TENTHS: u64 = 9;
/// What a file takes beside its bytes: an inode, and its name's file.
const FILE_BYTES: u64 = 8 << 10;

/// The limit and the use, as far as they are known.
#[derive(Debug)]
pub(crate) struct Quota {
    root: PathBuf,
    bytes_max: Option<u64>,
    /// Bytes in use when last counted, and what this process has added. Other processes add, too.
    used: Option<u64>,
}

/// Content in the cache.
struct Object {
    used_at: SystemTime,
    bytes: u64,
    path: PathBuf,
}

impl Quota {
    /// Creates the quota of the cache at `root`.
    pub(crate) fn new(root: PathBuf, bytes_max: Option<u64>) -> Quota {
        Quota { root, bytes_max, used: None }
    }

    /// Counts content that is about to be kept, and evicts what was unused for longest. Returns false if there is no
    /// room for it.
    pub(crate) fn has_room(&mut self, bytes: u64) -> bool {
        let bytes = bytes + FILE_BYTES;
        let used = self.used.unwrap_or_else(|| self.holds().1);
        let Ok(max) = self.limit(used) else { return false };
        self.bytes_max = Some(max);
        let has_room = bytes <= max;
        let used = if !has_room || used + bytes <= max { used } else { self.evict(max * KEPT_TENTHS / 10, bytes) };
        self.used = Some(if has_room { used + bytes } else { used });
        has_room
    }

    /// Returns how much content there is, and the bytes that it takes.
    pub(crate) fn holds(&self) -> (usize, u64) {
        self.objects().fold((0, 0), |(count, bytes), object| (count + 1, bytes + object.bytes))
    }

    /// Returns the limit, if `used` bytes are in use.
    pub(crate) fn limit(&self, used: u64) -> io::Result<u64> {
        self.bytes_max.map_or_else(|| Ok((self.bytes_free()? + used) / FREE_SHARE), Ok)
    }

    fn bytes_free(&self) -> io::Result<u64> {
        let found = statvfs(&self.root)?;
        Ok(found.f_bavail * found.f_frsize)
    }

    /// Removes content until at most `bytes_max` are in use together with `bytes` new ones. Returns how many remain.
    fn evict(&self, bytes_max: u64, bytes: u64) -> u64 {
        let mut objects: Vec<Object> = self.objects().collect();
        objects.sort_by_key(|object| object.used_at);
        let mut used: u64 = objects.iter().map(|object| object.bytes).sum();
        let mut oldest = SystemTime::now();
        for object in &objects {
            if used + bytes <= bytes_max {
                oldest = object.used_at;
                break;
            }
            let _ = std::fs::remove_file(&object.path);
            used -= object.bytes;
        }
        // A name is used with its content.
        for name in self.files(NAMES) {
            if name.metadata().and_then(|found| found.modified()).is_ok_and(|used_at| used_at < oldest) {
                let _ = std::fs::remove_file(name.path());
            }
        }
        used
    }

    fn objects(&self) -> impl Iterator<Item = Object> {
        self.files(OBJECTS).filter_map(|entry| {
            let found = entry.metadata().ok()?;
            let bytes = found.blocks() * 512 + FILE_BYTES;
            Some(Object { used_at: found.modified().ok()?, bytes, path: entry.path() })
        })
    }

    fn files(&self, kind: &str) -> impl Iterator<Item = DirEntry> + use<> {
        let entries = |path: PathBuf| std::fs::read_dir(path).into_iter().flatten().flatten();
        entries(self.root.join(kind)).flat_map(move |directory| entries(directory.path()))
    }
}
