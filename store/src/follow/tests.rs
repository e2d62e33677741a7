use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::time::{Duration, Instant};

use headwater_abi::Path;

use super::*;

/// A source file, its copy as in the store, and a thread that follows.
struct Pair {
    dir: tempfile::TempDir,
    following: Following,
}

impl Pair {
    fn new(content: &[u8]) -> Pair {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("source"), content).unwrap();
        fs::write(dir.path().join("copy"), content).unwrap();
        Pair { dir, following: Following::default() }
    }

    fn source(&self) -> std::path::PathBuf {
        self.dir.path().join("source")
    }

    fn open(&self) -> File {
        File::open(self.dir.path().join("copy")).unwrap()
    }

    fn follow(&mut self, budget: &Budget) {
        self.following.follow(self.followed(), budget);
    }

    fn followed(&self) -> Followed {
        let path = Path::new(self.source().as_os_str().as_bytes()).unwrap();
        Followed::new(path, self.dir.path().join("copy"), self.attr())
    }

    fn attr(&self) -> headwater_abi::Attr {
        let metadata = fs::metadata(self.source()).unwrap();
        headwater_abi::Attr {
            ino: metadata.ino(),
            size: metadata.len(),
            mtime: (metadata.mtime(), metadata.mtime_nsec() as u32),
            ctime: (metadata.ctime(), metadata.ctime_nsec() as u32),
            btime: birth(&metadata),
            ..Default::default()
        }
    }

    fn append(&self, bytes: &[u8]) {
        OpenOptions::new().append(true).open(self.source()).unwrap().write_all(bytes).unwrap();
    }
}

fn birth(metadata: &fs::Metadata) -> (i64, u32) {
    let since = metadata.created().ok().and_then(|born| born.duration_since(std::time::UNIX_EPOCH).ok());
    since.map_or((0, 0), |since| (since.as_secs() as i64, since.subsec_nanos()))
}

fn content(file: &File) -> Vec<u8> {
    let mut bytes = vec![0; file.metadata().unwrap().len() as usize];
    let got = file.read_at(&mut bytes, 0).unwrap();
    bytes.truncate(got);
    bytes
}

#[track_caller]
fn becomes(file: &File, expected: &[u8]) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while content(file) != expected {
        assert!(Instant::now() < deadline, "it is {:?}", String::from_utf8_lossy(&content(file)));
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn what_is_open_sees_what_is_written() {
    let mut pair = Pair::new(b"first\n");
    let open = pair.open();
    pair.follow(&Budget::default());
    pair.append(b"second\n");
    becomes(&open, b"first\nsecond\n");
    let change = OpenOptions::new().write(true).open(pair.source()).unwrap();
    change.write_all_at(b"FIRST", 0).unwrap();
    becomes(&open, b"FIRST\nsecond\n");
    change.set_len(3).unwrap();
    becomes(&open, b"FIR");
    fs::write(pair.source(), b"anew, and longer than it was before").unwrap();
    becomes(&open, b"anew, and longer than it was before");
}

#[test]
fn what_was_written_before_is_seen_as_well() {
    let mut pair = Pair::new(b"old");
    let open = pair.open();
    let source = pair.source();
    pair.follow(&Budget::default());
    fs::write(source, b"new").unwrap();
    becomes(&open, b"new");
}

#[test]
fn what_takes_the_place_is_another_file() {
    let mut pair = Pair::new(b"old");
    let open = pair.open();
    pair.follow(&Budget::default());
    let old = OpenOptions::new().append(true).open(pair.source()).unwrap();
    pair.append(b"er");
    becomes(&open, b"older");
    let beside = pair.dir.path().join("beside");
    fs::write(&beside, b"another").unwrap();
    fs::rename(beside, pair.source()).unwrap();
    (&old).write_all(b" still").unwrap();
    becomes(&open, b"older still");
}

#[test]
fn what_is_renamed_at_once_is_followed_still() {
    let mut pair = Pair::new(b"old");
    let open = pair.open();
    let followed = pair.followed();
    let moved = pair.dir.path().join("moved");
    fs::rename(pair.source(), &moved).unwrap();
    fs::write(pair.source(), b"another").unwrap();
    fs::set_permissions(&moved, fs::Permissions::from_mode(0o444)).unwrap();
    OpenOptions::new().append(true).open(&moved).unwrap().write_all(b"er").unwrap();
    pair.following.follow(followed, &Budget::default());
    becomes(&open, b"older");
    let deadline = Instant::now() + Duration::from_secs(30);
    while open.metadata().unwrap().mode() & 0o777 != 0o444 && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(2));
    }
    assert_eq!(open.metadata().unwrap().mode() & 0o777, 0o444);
}

#[test]
fn what_has_got_the_number_is_another_file() {
    let pair = Pair::new(b"new");
    let attr = pair.attr();
    if attr.btime == (0, 0) {
        // The file system has no birth times.
        return;
    }
    let before = headwater_abi::Attr { btime: (attr.btime.0 - 1, attr.btime.1), ..attr };
    let path = Path::new(pair.source().as_os_str().as_bytes()).unwrap();
    let followed = |attr| Followed::new(path.clone(), pair.dir.path().join("copy"), attr);
    let result = Copy::new(followed(before), &Budget::default()).source().map(drop);
    assert_eq!(result.unwrap_err().kind(), io::ErrorKind::NotFound);
    assert!(Copy::new(followed(attr), &Budget::default()).source().is_ok());
}

#[test]
fn what_finds_no_room_stays_as_it_was() {
    let pair = Pair::new(b"old");
    let open = pair.open();
    let budget = Budget::default();
    budget.set_max(8192);
    let mut copy = Copy::new(pair.followed(), &budget);
    pair.append(b"er");
    assert!(!copy.update(true).unwrap());
    assert_eq!(content(&open), b"older");
    pair.append(&[b'x'; 100_000]);
    while copy.update(true).is_ok_and(|rests| rests) {}
    assert_eq!(copy.update(true).unwrap_err().kind(), io::ErrorKind::StorageFull);
    assert!(budget.taken() <= 8192);
    assert_eq!(content(&open), b"older");
}

#[test]
fn a_copy_that_is_not_open_is_left_alone() {
    let pair = Pair::new(b"old");
    let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).unwrap();
    let copy = Copy::new(pair.followed(), &Budget::default());
    let mut watched = Watched { copy, watch: None, is_due: true };
    pair.append(b"er");
    // A process may have read the table before, and open the copy now.
    assert!(watched.check(&inotify).unwrap());
    assert_eq!(content(&pair.open()), b"old");
    let open = pair.open();
    assert!(watched.check(&inotify).unwrap());
    assert_eq!(content(&open), b"older");
}
