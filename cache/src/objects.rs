//! Finding and keeping content.

use std::fs::{File, FileTimes, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use headwater_abi::Attr;
use headwater_abi::wire::{Digest, FileHead};
use headwater_store::digest_of;
use serde::{Deserialize, Serialize};

use crate::directory::Cache;
use crate::key::Key;
use crate::layout::{NAMES, OBJECTS, UNFINISHED};

/// The most that a name's file holds.
const NAME_BYTES_MAX: u64 = 1 << 20;
/// Bytes that are copied at once.
const PIECE_BYTES: usize = 256 << 10;
/// How old a file is whose writer has died.
const UNFINISHED_AGE_MAX: Duration = Duration::from_secs(3600);

/// Content that was found.
#[derive(Debug)]
pub struct Found {
    /// What it is: the present attributes, and the parts of the file that it holds.
    pub head: FileHead,
    /// Its digest, which has been compared.
    pub digest: Digest,
    /// The content from its beginning on, without the file's other parts.
    content: File,
}

/// The content to which a key leads.
#[derive(Serialize, Deserialize)]
struct Name {
    digest: String,
    format: u64,
    whole: bool,
    ranges: Vec<(u64, u64)>,
}

impl Found {
    /// Fills `bytes` from a position in the content.
    ///
    /// # Errors
    /// The cache can't be read.
    pub fn read(&self, bytes: &mut [u8], position: u64) -> io::Result<()> {
        self.content.read_exact_at(bytes, position)
    }
}

impl Cache {
    /// Returns the content of this key, for a file with these attributes, if it is there and as it was.
    pub fn find(&self, key: Key, attr: &Attr) -> Option<Found> {
        let name_path = self.path(NAMES, &key.name());
        let named = open(&name_path).ok()?;
        let found = self.find_named(&named, attr);
        match &found {
            // The order of eviction.
            Some(found) => [&named, &found.content].into_iter().for_each(touch),
            // It was evicted or damaged, and can be kept again.
            None => drop(std::fs::remove_file(&name_path)),
        }
        found
    }

    fn find_named(&self, named: &File, attr: &Attr) -> Option<Found> {
        let name = read_name(named)?;
        let head = FileHead { attr: *attr, format: name.format, ranges: name.ranges.into(), whole: name.whole };
        let digest = digest_named(&name.digest).filter(|_| head.is_valid())?;
        let path = self.path(OBJECTS, &name.digest);
        let content = open(&path).ok()?;
        let is_of_size = content.metadata().is_ok_and(|found| found.is_file() && found.len() == head.content_bytes());
        let packed = packed(&head);
        if !is_of_size || digest_of(&packed, |bytes, at| content.read_exact_at(bytes, at)).ok() != Some(digest) {
            tracing::debug!(path = %path.display(), "damaged content in the cache is removed");
            let _ = std::fs::remove_file(&path);
            return None;
        }
        Some(Found { head, digest, content })
    }

    /// Keeps content. `read` fills a buffer from an offset of the file. Returns true if it is kept now, or was.
    ///
    /// # Errors
    /// `read` fails; or the cache can't be written, and nothing more is kept.
    pub fn keep(
        &self,
        key: Key,
        head: &FileHead,
        read: impl FnMut(&mut [u8], u64) -> io::Result<()>,
    ) -> io::Result<bool> {
        let name_path = self.path(NAMES, &key.name());
        if name_path.exists() {
            return Ok(true);
        }
        let has_room = || self.quota.lock().unwrap_or_else(PoisonError::into_inner).has_room(head.content_bytes());
        if self.is_full.load(Ordering::Relaxed) || !has_room() {
            return Ok(false);
        }
        let unfinished = self.unfinished();
        let result = self.write(&unfinished, &name_path, head, read);
        if result.is_err() {
            let _ = std::fs::remove_file(&unfinished);
        }
        result.map(|()| true)
    }

    fn write(
        &self,
        unfinished: &Path,
        name_path: &Path,
        head: &FileHead,
        mut read: impl FnMut(&mut [u8], u64) -> io::Result<()>,
    ) -> io::Result<()> {
        let failed = |error: io::Error| {
            self.is_full.store(true, Ordering::Relaxed);
            error
        };
        let mut content = create(unfinished).map_err(failed)?;
        let (mut hasher, mut buffer, mut position) = (blake3::Hasher::new(), Vec::new(), 0);
        while let Some((offset, in_range)) = head.locate(position) {
            let bytes = in_range.min(PIECE_BYTES as u64) as usize;
            buffer.resize(bytes.max(buffer.len()), 0);
            read(&mut buffer[..bytes], offset)?;
            hasher.update(&buffer[..bytes]);
            content.write_all(&buffer[..bytes]).map_err(failed)?;
            position += bytes as u64;
        }
        let digest = hasher.finalize().to_hex().to_string();
        let name = Name { digest, format: head.format, whole: head.whole, ranges: head.ranges.to_vec() };
        self.finish(unfinished, &self.path(OBJECTS, &name.digest)).map_err(failed)?;
        // Behind the content, so that a name without content was evicted or damaged, not unfinished.
        let named = self.unfinished();
        create(&named).and_then(|mut file| file.write_all(&serde_json::to_vec(&name)?)).map_err(failed)?;
        self.finish(&named, name_path).map_err(failed)
    }

    /// Moves a file to its place, whose directory may be missing.
    fn finish(&self, from: &Path, to: &Path) -> io::Result<()> {
        match std::fs::rename(from, to) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                std::fs::create_dir_all(to.parent().unwrap_or(to))?;
                std::fs::rename(from, to)
            }
            result => result,
        }
    }

    fn unfinished(&self) -> PathBuf {
        let number = self.written.fetch_add(1, Ordering::Relaxed);
        self.root.join(UNFINISHED).join(format!("{}-{number}", std::process::id()))
    }

    /// Removes what killed processes have left.
    pub(crate) fn remove_unfinished(&self) {
        for entry in std::fs::read_dir(self.root.join(UNFINISHED)).into_iter().flatten().flatten() {
            let written = entry.metadata().and_then(|found| found.modified());
            if written.is_ok_and(|at| at.elapsed().is_ok_and(|age| age > UNFINISHED_AGE_MAX)) {
                let _ = std::fs::remove_file(entry.path());
            }
        }
    }
}

/// Returns a head under which packed content has offsets from zero on.
fn packed(head: &FileHead) -> FileHead {
    let bytes = head.content_bytes();
    let ranges: &[(u64, u64)] = if bytes > 0 { &[(0, bytes)] } else { &[] };
    FileHead { attr: Attr { size: bytes, ..head.attr }, ranges: ranges.into(), ..head.clone() }
}

fn touch(file: &File) {
    let _ = file.set_times(FileTimes::new().set_modified(SystemTime::now()));
}

fn read_name(named: &File) -> Option<Name> {
    let mut text = Vec::new();
    named.take(NAME_BYTES_MAX).read_to_end(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
}

fn digest_named(name: &str) -> Option<Digest> {
    let is_plain = name.len() == 64 && name.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    blake3::Hash::from_hex(name).ok().filter(|_| is_plain).map(|hash| Digest(*hash.as_bytes()))
}

fn open(path: &Path) -> io::Result<File> {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOATIME;
    OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(path)
}

fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use headwater_abi::wire::Aspect;
    use headwater_abi::{Path as SourcePath, attr::mode};

    struct Fixture {
        cache: Cache,
        _dir: tempfile::TempDir,
    }

    fn fixture(bytes_max: u64) -> Fixture {
        let dir = tempfile::tempdir().unwrap();
        Fixture { cache: Cache::open(dir.path(), Some(bytes_max)).unwrap(), _dir: dir }
    }

    fn head(ino: u64, size: u64, ranges: &[(u64, u64)]) -> FileHead {
        let attr = Attr { mode: mode::FILE | 0o644, ino, size, ..Attr::default() };
        FileHead { attr, format: 5, ranges: ranges.into(), whole: ranges == [(0, size)] || size == 0 }
    }

    fn key(head: &FileHead) -> Key {
        Key::new(&SourcePath::new(b"/sw/f").unwrap(), &head.attr, Aspect::Whole)
    }

    /// Keeps a file whose byte at offset N is N.
    fn keep(cache: &Cache, head: &FileHead) -> bool {
        let read = |bytes: &mut [u8], offset: u64| {
            (offset..).zip(bytes).for_each(|(at, byte)| *byte = at as u8);
            Ok(())
        };
        cache.keep(key(head), head, read).unwrap()
    }

    fn content(found: &Found) -> Vec<u8> {
        let mut content = vec![0; found.head.content_bytes() as usize];
        found.read(&mut content, 0).unwrap();
        content
    }

    fn objects(cache: &Cache) -> Vec<PathBuf> {
        let below = |path: PathBuf| std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
        below(cache.root.join(OBJECTS)).flat_map(below).collect()
    }

    #[test]
    fn what_is_kept_is_found() {
        let Fixture { cache, _dir } = fixture(1 << 30);
        for head in [head(1, 1_000_000, &[(0, 1_000_000)]), head(2, 9, &[(2, 3), (7, 1)]), head(3, 0, &[])] {
            assert!(cache.find(key(&head), &head.attr).is_none());
            assert!(keep(&cache, &head) && keep(&cache, &head));
            let now = Attr { nlink: 7, ..head.attr };
            let found = cache.find(key(&head), &now).unwrap();
            assert_eq!(found.head, FileHead { attr: now, ..head.clone() });
            let expected: Vec<u8> = head.ranges.iter().flat_map(|&(at, n)| at..at + n).map(|at| at as u8).collect();
            assert!(content(&found) == expected);
        }
        // The same content under another name takes no more room.
        let other = head(4, 1_000_000, &[(0, 1_000_000)]);
        assert!(keep(&cache, &other) && cache.find(key(&other), &other.attr).is_some());
        assert_eq!(objects(&cache).len(), 3);
        assert_eq!(std::fs::read_dir(cache.root.join(UNFINISHED)).unwrap().count(), 0);
    }

    #[test]
    fn what_is_damaged_is_not_found_and_kept_again() {
        let damages: [fn(&Path, &Path); 6] = [
            |_, object| std::fs::write(object, [7; 1000]).unwrap(),
            |_, object| std::fs::write(object, "short").unwrap(),
            |_, object| std::fs::remove_file(object).unwrap(),
            |_, object| {
                std::fs::remove_file(object).unwrap();
                std::os::unix::fs::symlink("/etc/passwd", object).unwrap();
            },
            |name, _| std::fs::write(name, "{}").unwrap(),
            |name, _| {
                let digest = "../../../../../../../etc/passwd".to_owned();
                let hostile = Name { digest, format: 0, whole: true, ranges: vec![(0, 1000)] };
                std::fs::write(name, serde_json::to_vec(&hostile).unwrap()).unwrap();
            },
        ];
        for damage in damages {
            let Fixture { cache, _dir } = fixture(1 << 30);
            let head = head(1, 1000, &[(0, 1000)]);
            keep(&cache, &head);
            damage(&cache.path(NAMES, &key(&head).name()), &objects(&cache)[0]);
            assert!(cache.find(key(&head), &head.attr).is_none());
            assert!(keep(&cache, &head) && cache.find(key(&head), &head.attr).is_some());
        }
    }

    #[test]
    fn what_was_unused_for_longest_goes_first() {
        let Fixture { cache, _dir } = fixture(100_000);
        let heads: Vec<FileHead> = (1..=5).map(|ino| head(ino, 8000 + ino, &[(0, 8000 + ino)])).collect();
        let past = SystemTime::now() - Duration::from_secs(100);
        for (number, head) in heads.iter().enumerate() {
            assert!(keep(&cache, head));
            if number == 0 {
                for path in [objects(&cache)[0].clone(), cache.path(NAMES, &key(head).name())] {
                    open(&path).unwrap().set_times(FileTimes::new().set_modified(past)).unwrap();
                }
            }
        }
        // With their inodes, five take 80 kB and more; the next one makes room for itself.
        let last = head(6, 30_000, &[(0, 30_000)]);
        assert!(keep(&cache, &last));
        assert!(cache.find(key(&heads[0]), &heads[0].attr).is_none());
        assert!(cache.find(key(&last), &last.attr).is_some());
        let huge = head(7, 200_000, &[(0, 200_000)]);
        assert!(!keep(&cache, &huge), "larger than all");
        assert!(cache.find(key(&last), &last.attr).is_some());
    }

    #[test]
    fn nothing_is_kept_of_what_can_not_be_read_or_written() {
        let Fixture { cache, _dir } = fixture(1 << 30);
        let head = head(1, 1000, &[(0, 1000)]);
        assert!(cache.keep(key(&head), &head, |_, _| Err(io::ErrorKind::NotFound.into())).is_err());
        assert!(objects(&cache).is_empty() && cache.find(key(&head), &head.attr).is_none());
        std::fs::remove_dir_all(cache.root.join(UNFINISHED)).unwrap();
        assert!(cache.keep(key(&head), &head, |_, _| Ok(())).is_err());
        assert!(!cache.keep(key(&head), &head, |_, _| panic!("it is not tried again")).unwrap());
    }
}
