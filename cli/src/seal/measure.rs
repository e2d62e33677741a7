//! What an entry of a closure is at present.

use std::fs::{self, File, FileType, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use headwater_abi::wire::{BLOCK_BYTES, block_range};
use headwater_closure::recorded::{BlockRanges, Entry, Version, What};
use headwater_closure::sealed::{Digest, Sealed};
use rustix::fs::OFlags;

/// Files that are read at once: a shared file system answers many requests at a time.
const THREADS: usize = 16;

/// By what a file system distinguishes versions of an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    ino: u64,
    size: u64,
    mtime: (i64, i64),
    ctime: (i64, i64),
}

/// An entry as it is now.
#[derive(Debug)]
pub struct Measured {
    /// The entry of the present version, with its digest.
    pub sealed: Sealed,
    /// The stamp of a file or link.
    pub stamp: Option<Stamp>,
}

impl Stamp {
    fn of(metadata: &Metadata) -> Stamp {
        Stamp {
            ino: metadata.ino(),
            size: metadata.size(),
            mtime: (metadata.mtime(), metadata.mtime_nsec()),
            ctime: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    /// Returns the stamp of a path.
    pub fn now(path: &Path) -> io::Result<Stamp> {
        fs::symlink_metadata(path).map(|metadata| Stamp::of(&metadata))
    }
}

/// Measures all entries, several at a time; the results are in their order.
pub fn measure_all(entries: &[Entry]) -> Vec<io::Result<Measured>> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        while let number = next.fetch_add(1, Ordering::Relaxed)
            && let Some(entry) = entries.get(number)
        {
            done.push((number, measure(entry)));
        }
        done
    };
    let mut all: Vec<(usize, io::Result<Measured>)> = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS.min(entries.len())).map(|_| scope.spawn(work)).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("measuring does not panic")).collect()
    });
    all.sort_unstable_by_key(|(number, _)| *number);
    all.into_iter().map(|(_, measured)| measured).collect()
}

fn measure(entry: &Entry) -> io::Result<Measured> {
    let metadata = fs::symlink_metadata(&entry.path)?;
    let (kind, stamp) = (metadata.file_type(), Stamp::of(&metadata));
    let version = Version {
        size: metadata.size(),
        mtime_seconds: metadata.mtime(),
        mtime_nanoseconds: metadata.mtime_nsec() as u32,
    };
    let mut names = Vec::new();
    let is = |is_kind: fn(&FileType) -> bool, name| match is_kind(&kind) {
        true => Ok(()),
        false => Err(io::Error::other(format!("it is not a {name}"))),
    };
    let (what, digest) = match &entry.what {
        What::Any if kind.is_dir() => (What::Directory, None),
        What::Directory => (What::Directory, None),
        What::Name if !kind.is_file() && !kind.is_symlink() => (What::Name, None),
        What::Name => return Err(io::Error::other("it is a file or a link")),
        What::Link => {
            is(FileType::is_symlink, "link")?;
            (What::Link, Some(*blake3::hash(fs::read_link(&entry.path)?.as_os_str().as_bytes()).as_bytes()))
        }
        What::Attributes(_) => {
            is(FileType::is_file, "file")?;
            (What::Attributes(version), None)
        }
        What::Blocks(_, ranges) => (What::Blocks(version, ranges.clone()), Some(digest(entry, stamp, Some(ranges))?)),
        What::Loadable(_) | What::Library => (What::Loadable(version), Some(digest(entry, stamp, None)?)),
        What::Whole(_) | What::Any => (What::Whole(version), Some(digest(entry, stamp, None)?)),
    };
    if what == What::Directory {
        is(FileType::is_dir, "directory")?;
        for name in fs::read_dir(&entry.path)? {
            names.push(name?.file_name().into_vec());
        }
        names.sort_unstable();
    }
    let stamp = (!kind.is_dir()).then_some(stamp);
    Ok(Measured { sealed: Sealed { entry: Entry { what, path: entry.path.clone() }, digest, names }, stamp })
}

/// Returns the digest of a file of this stamp, or of some of its blocks one after the other.
fn digest(entry: &Entry, stamp: Stamp, ranges: Option<&BlockRanges>) -> io::Result<Digest> {
    // What became a pipe meanwhile must not wait, and what became a link is no file.
    let flags = (OFlags::NONBLOCK | OFlags::NOFOLLOW).bits() as i32;
    let file = File::options().read(true).custom_flags(flags).open(&entry.path)?;
    let is_same = || file.metadata().map(|metadata| metadata.is_file() && Stamp::of(&metadata) == stamp);
    let changes = || io::Error::other("it is not a file, or changes at this moment");
    if !is_same()? {
        return Err(changes());
    }
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; BLOCK_BYTES as usize];
    let mut add = |number: u32| {
        let (offset, length) = block_range(stamp.size, number)
            .ok_or_else(|| io::Error::new(ErrorKind::UnexpectedEof, "it is shorter than it was"))?;
        let bytes = &mut buffer[..length as usize];
        file.read_exact_at(bytes, offset)?;
        hasher.update(bytes);
        Ok::<_, io::Error>(())
    };
    match ranges {
        Some(ranges) => ranges.numbers().try_for_each(&mut add)?,
        None => (0..u32::try_from(stamp.size.div_ceil(BLOCK_BYTES)).unwrap_or(u32::MAX)).try_for_each(&mut add)?,
    }
    if is_same()? { Ok(*hasher.finalize().as_bytes()) } else { Err(changes()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn measured(line: &str) -> io::Result<Measured> {
        let entry = Entry::parse(line).unwrap();
        measure_all(std::slice::from_ref(&entry)).pop().unwrap()
    }

    #[test]
    fn each_kind_of_entry() {
        let scratch = tempfile::tempdir().unwrap();
        let at = |name: &str| scratch.path().join(name);
        let content = vec![7; 3 * BLOCK_BYTES as usize + 5];
        fs::write(at("f"), &content).unwrap();
        symlink("f", at("l")).unwrap();
        fs::create_dir(at("d")).unwrap();
        let line = |what: &str, name: &str| format!("{what} {}", at(name).display());
        let digest = |line: String| measured(&line).unwrap().sealed.digest;
        let of = |bytes: &[u8]| Some(*blake3::hash(bytes).as_bytes());
        assert_eq!(digest(line("whole 1 1.000000000", "f")), of(&content));
        assert_eq!(digest(line("library", "f")), of(&content));
        assert_eq!(digest(line("blocks 1 1.000000000 1,3", "f")), of(&content[..BLOCK_BYTES as usize + 5]));
        assert_eq!(digest(line("link", "l")), of(b"f"));
        let names = measured(&line("any", ".")).unwrap().sealed.names;
        assert_eq!(names, [b"d".to_vec(), b"f".to_vec(), b"l".to_vec()]);
        let now = measured(&line("attributes 1 1.000000000", "f")).unwrap();
        assert_eq!(now.sealed.entry.version().unwrap().size, content.len() as u64);
        assert_eq!(now.stamp, Some(Stamp::now(&at("f")).unwrap()));
        let wrong = [
            ("blocks 1 1.000000000 4", "f"),
            ("whole 1 1.000000000", "l"),
            ("whole 1 1.000000000", "d"),
            ("directory", "f"),
            ("link", "f"),
            ("attributes 1 1.000000000", "l"),
            ("name", "l"),
            ("name", "f"),
            ("any", "no"),
        ];
        for (what, name) in wrong {
            assert!(measured(&line(what, name)).is_err(), "{what} {name}");
        }
        assert!(measured(&line("name", "d")).is_ok());
    }

    #[test]
    fn a_pipe_is_not_waited_for() {
        let scratch = tempfile::tempdir().unwrap();
        let pipe = scratch.path().join("p");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0).unwrap();
        assert!(measured(&format!("whole 1 1.000000000 {}", pipe.display())).is_err());
    }
}
