//! Tests of the store's content and accounting.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};

use headwater_abi::attr::mode;
use headwater_abi::path::PATH_BYTES_MAX;
use headwater_abi::wire::{BLOCK_BYTES, FileHead};
use headwater_abi::{Attr, Path};
use rustix::fs::SeekFrom;
use tempfile::TempDir;

use super::blocks::Residency;
use super::incoming::SMALL_BYTES_MAX;
use super::paths::in_scope;
use super::store::Store;
use crate::layout::NodeDir;

fn path(name: &str) -> Path {
    Path::new(name.as_bytes()).unwrap()
}

fn store() -> (TempDir, Store) {
    let dir = tempfile::tempdir().unwrap();
    let scope = vec![(true, path("/sw")), (false, path("/sw/home"))];
    let store = Store::create(&NodeDir::new(dir.path()), scope).unwrap();
    (dir, store)
}

fn head(content: &[u8], ranges: &[(u64, u64)]) -> FileHead {
    let attr = Attr { mode: mode::FILE | 0o4751, size: content.len() as u64, mtime: (1000, 5), ..Attr::default() };
    let whole = ranges == [(0, attr.size)];
    FileHead { attr, format: 0, ranges: ranges.into(), whole }
}

/// Stores the ranges of `content`.
fn put(store: &mut Store, name: &str, content: &[u8], ranges: &[(u64, u64)]) -> u64 {
    let (path, head) = (path(name), head(content, ranges));
    store.incoming(&path).create(&head).unwrap();
    for &(offset, bytes) in ranges {
        store.write(&path, None, &content[offset as usize..(offset + bytes) as usize], offset).unwrap();
    }
    store.complete(&path, &head).unwrap()
}

#[test]
fn the_longest_entry_decides_the_scope() {
    let scope = [(true, path("/sw")), (false, path("/sw/home")), (true, path("/sw/home/lib"))];
    for (name, within) in
        [("/sw", true), ("/sw/x", true), ("/sw/home/x", false), ("/sw/home/lib/x", true), ("/swx", false)]
    {
        assert_eq!(in_scope(&scope, &path(name)), within, "{name}");
    }
}

#[test]
fn content_is_there_once_it_is_complete() {
    for size in [10_000, SMALL_BYTES_MAX as usize, SMALL_BYTES_MAX as usize + 1, 100_000] {
        let (_dir, mut store) = store();
        let content: Vec<u8> = (0..size).map(|n| (n / 3) as u8).collect();
        let (name, head) = (path("/sw/a/f"), head(&content, &[(0, size as u64)]));
        store.incoming(&name).create(&head).unwrap();
        store.write(&name, None, &content[..5000], 0).unwrap();
        let mut part = vec![0; 4000];
        store.read(&name, None, &mut part, 1000).unwrap();
        assert!(part == content[1000..5000], "incoming content can be sent");
        assert!(!store.copy_of(&name).exists());
        store.write(&name, None, &content[5000..], 5000).unwrap();
        let ino = store.complete(&name, &head).unwrap();
        let metadata = std::fs::metadata(store.copy_of(&name)).unwrap();
        assert_eq!((metadata.ino(), metadata.mode() & 0o7777, metadata.mtime()), (ino, 0o751, 1000));
        assert_eq!(store.bytes(), metadata.blocks() * 512);
        assert!(std::fs::read(store.copy_of(&name)).unwrap() == content);
        store.read(&name, None, &mut part, 6000).unwrap();
        assert!(part == content[6000..10_000], "complete content can be sent");
        assert_eq!(std::fs::read_dir(&store.incoming_dir).unwrap().count(), 0);
    }
}

#[test]
fn a_copy_has_the_holes_of_its_source_file() {
    let (_dir, mut store) = store();
    let mut content = vec![0; 1 << 20];
    content[(128 << 10)..(132 << 10)].fill(b'x');
    content[(1 << 20) - 1] = b'y';
    put(&mut store, "/sw/sparse", &content, &[(0, 1 << 20)]);
    let copy = File::open(store.copy_of(&path("/sw/sparse"))).unwrap();
    let seek = |to| rustix::fs::seek(&copy, to).unwrap();
    let found = [SeekFrom::Data(0), SeekFrom::Hole(128 << 10), SeekFrom::Data(132 << 10)].map(seek);
    assert_eq!(found, [128 << 10, 132 << 10, (1 << 20) - 4096]);
    assert!(std::fs::read(store.copy_of(&path("/sw/sparse"))).unwrap() == content);
    assert_eq!(store.bytes(), 1 << 20, "there is room for all of it");
}

#[test]
fn a_small_file_with_holes_is_filled_in_place() {
    let (_dir, mut store) = store();
    let content = vec![b'x'; 20_000];
    let ino = put(&mut store, "/sw/x.so", &content, &[(8192, 4096)]);
    assert_eq!(store.bytes(), 4096);
    assert_eq!(put(&mut store, "/sw/x.so", &content, &[(0, 20_000)]), ino);
    let metadata = std::fs::metadata(store.copy_of(&path("/sw/x.so"))).unwrap();
    assert_eq!((metadata.mode() & 0o7777, metadata.mtime(), store.bytes()), (0o751, 1000, metadata.blocks() * 512));
    assert!(std::fs::read(store.copy_of(&path("/sw/x.so"))).unwrap() == content);
}

#[test]
fn what_is_complete_can_be_sent_while_more_arrives() {
    for size in [20_000, 60_000] {
        let (_dir, mut store) = store();
        let (name, content) = (path("/sw/x.so"), vec![b'x'; size]);
        put(&mut store, "/sw/x.so", &content, &[(8192, 4096)]);
        let incoming = store.incoming(&name);
        let sent = |store: &Store| {
            let mut bytes = [0; 4096];
            store.read(&name, None, &mut bytes, 8192).map(|()| bytes == [b'x'; 4096])
        };
        assert!(sent(&store).unwrap(), "before the reader has begun");
        incoming.create(&head(&content, &[(0, size as u64)])).unwrap();
        assert!(sent(&store).unwrap(), "before anything has arrived");
    }
}

#[test]
fn blocks_fill_a_sparse_copy_until_it_is_complete() {
    let (_dir, mut store) = store();
    let (name, size) = (path("/sw/big"), 2 * BLOCK_BYTES + 10);
    let head = head(&vec![0; size as usize], &[(0, size)]);
    let blocks = store.blocks();
    for (block, bytes) in [(2, 10), (0, 4096), (1, 4096)] {
        store.incoming_block(&name, block, size).unwrap().create(&head.block(block).unwrap()).unwrap();
        let offset = u64::from(block) * BLOCK_BYTES;
        store.write(&name, Some(block), &vec![block as u8 + 1; bytes], offset).unwrap();
        assert!(matches!(blocks.get(&name, block), Residency::Absent));
        store.complete_block(&name, block, block == 0).unwrap();
        let (Residency::Marked(partial) | Residency::Resident(partial)) = blocks.get(&name, block) else {
            panic!("block {block} is not there");
        };
        let mut first = [0; 10];
        partial.copy().read_exact_at(&mut first, offset).unwrap();
        assert_eq!(first, [block as u8 + 1; 10]);
        store.read(&name, Some(block), &mut first, offset).unwrap();
        assert_eq!(first, [block as u8 + 1; 10]);
    }
    assert_eq!(store.bytes(), 3 * 4096);
    let ino = store.complete(&name, &head).unwrap();
    let metadata = std::fs::metadata(store.copy_of(&name)).unwrap();
    assert_eq!((metadata.ino(), metadata.mode() & 0o7777, metadata.len()), (ino, 0o751, size));
    assert!(matches!(blocks.get(&name, 0), Residency::Absent), "it is a file like others");
    assert_eq!(store.bytes(), metadata.blocks() * 512);
}

#[test]
fn what_a_loader_maps_can_come_in_blocks_and_the_rest_later() {
    let (_dir, mut store) = store();
    let (name, size) = (path("/sw/x.so"), 3 * BLOCK_BYTES);
    let of_file = vec![0; size as usize];
    let loadable = head(&of_file, &[(BLOCK_BYTES + 5, 100)]);
    let add = |store: &mut Store, block| {
        store.incoming_block(&name, block, size).unwrap().create(&loadable.block(block).unwrap()).unwrap();
        store.write(&name, Some(block), &[block as u8; 200], u64::from(block) * BLOCK_BYTES).unwrap();
        store.complete_block(&name, block, false).unwrap();
    };
    add(&mut store, 1);
    let ino = store.complete(&name, &loadable).unwrap();
    let attributes = |store: &Store| {
        let metadata = std::fs::metadata(store.copy_of(&name)).unwrap();
        (metadata.ino(), metadata.mode() & 0o7777, metadata.mtime(), metadata.len())
    };
    assert_eq!(attributes(&store), (ino, 0o751, 1000, size));
    assert_eq!(store.bytes(), 4096);
    assert!(matches!(store.blocks().get(&name, 1), Residency::Resident(_)), "more blocks can be added");
    let mut sent = [0; 100];
    store.open_copy(&name).unwrap().read_exact_at(&mut sent, BLOCK_BYTES + 5).unwrap();
    assert_eq!(sent, [1; 100]);
    add(&mut store, 0);
    add(&mut store, 2);
    assert_eq!(store.complete(&name, &head(&of_file, &[(0, size)])).unwrap(), ino);
    assert_eq!(attributes(&store), (ino, 0o751, 1000, size));
    assert!(matches!(store.blocks().get(&name, 1), Residency::Absent), "it is a file like others");
    store.evict(0, &name, || ()).unwrap();
}

#[test]
fn a_read_only_copy_that_is_in_use_goes_on_filling() {
    let (_dir, mut store) = store();
    let (name, size) = (path("/sw/x.so"), 2 * BLOCK_BYTES);
    let mut loadable = head(&vec![0; size as usize], &[(0, 10)]);
    loadable.attr.mode = loadable.attr.mode & !0o777 | 0o444;
    store.incoming_block(&name, 0, size).unwrap();
    store.write(&name, Some(0), &[7; 10], 0).unwrap();
    store.complete_block(&name, 0, false).unwrap();
    store.complete(&name, &loadable).unwrap();
    let used = File::open(store.copy_of(&name)).unwrap();
    assert_eq!(store.evict(0, &name, || ()).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    store.incoming_block(&name, 1, size).unwrap();
    store.write(&name, Some(1), &[8; 10], BLOCK_BYTES).unwrap();
    store.complete_block(&name, 1, false).unwrap();
    let mut bytes = [0; 10];
    used.read_exact_at(&mut bytes, BLOCK_BYTES).unwrap();
    assert_eq!(bytes, [8; 10]);
}

#[test]
fn a_sparse_copy_is_not_evicted_while_a_block_is_read() {
    let (_dir, mut store) = store();
    let (name, size) = (path("/sw/big"), 2 * BLOCK_BYTES);
    let blocks = store.blocks();
    let add = |store: &mut Store, block| {
        store.incoming_block(&name, block, size).unwrap();
        store.write(&name, Some(block), &[7; 10], u64::from(block) * BLOCK_BYTES).unwrap();
        store.complete_block(&name, block, false).unwrap();
    };
    add(&mut store, 0);
    let read = blocks.get(&name, 0);
    assert_eq!(store.evict(0, &name, || ()).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    drop(read);
    let other = File::open(store.copy_of(&name)).unwrap();
    assert_eq!(store.evict(0, &name, || ()).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    assert!(matches!(blocks.get(&name, 0), Residency::Resident(_)), "it is known again");
    drop(other);
    store.evict(0, &name, || ()).unwrap();
    assert!(matches!(blocks.get(&name, 0), Residency::Absent));
    add(&mut store, 1);
    store.tick(store.next_tick().unwrap_or(0));
    assert!(matches!(blocks.get(&name, 0), Residency::Absent));
    let Residency::Resident(partial) = blocks.get(&name, 1) else { panic!("the second block is gone") };
    assert_eq!(partial.copy().metadata().unwrap().ino(), std::fs::metadata(store.copy_of(&name)).unwrap().ino());
    assert_eq!(store.bytes(), 4096);
}

#[test]
fn of_a_block_that_never_came_nothing_stays() {
    let (_dir, mut store) = store();
    let name = path("/sw/big");
    store.incoming_block(&name, 1, 2 * BLOCK_BYTES).unwrap();
    store.write(&name, Some(1), &[7; 10], BLOCK_BYTES).unwrap();
    store.discard(&name, Some(1));
    assert!(!store.copy_of(&name).exists());
    assert_eq!(store.bytes(), 0);
}

#[test]
fn holes_are_filled_in_place_and_a_discard_leaves_what_was_there() {
    let (_dir, mut store) = store();
    let (name, content) = ("/sw/x.so", vec![b'x'; 64 << 10]);
    let ino = put(&mut store, name, &content, &[(0, 4096)]);
    assert_eq!(store.bytes(), 4096);
    store.incoming(&path(name)).create(&head(&content, &[(0, 64 << 10)])).unwrap();
    store.write(&path(name), None, &content[8192..12_288], 8192).unwrap();
    store.discard(&path(name), None);
    let metadata = std::fs::metadata(store.copy_of(&path(name))).unwrap();
    assert_eq!((metadata.mode() & 0o7777, metadata.mtime(), metadata.ino()), (0o751, 1000, ino));
    assert_eq!(store.bytes(), metadata.blocks() * 512);
    assert_eq!(put(&mut store, name, &content, &[(0, 64 << 10)]), ino);
    assert!(std::fs::read(store.copy_of(&path(name))).unwrap() == content);
    assert_eq!(store.bytes(), 64 << 10);
}

#[test]
fn a_discarded_file_is_gone() {
    let (_dir, mut store) = store();
    let incoming = store.incoming(&path("/sw/f"));
    incoming.create(&head(&vec![1; 100_000], &[(0, 100_000)])).unwrap();
    assert!(incoming.file().unwrap().exists());
    store.discard(&path("/sw/f"), None);
    assert!(incoming.is_given_up() && !incoming.file().unwrap().exists());
    assert!(!store.is_incoming(&path("/sw/f"), None, incoming.number));
    assert_ne!(store.incoming(&path("/sw/f")).number, incoming.number);
}

#[test]
fn an_open_file_is_not_evicted() {
    let (_dir, mut store) = store();
    put(&mut store, "/sw/f", b"content", &[(0, 7)]);
    store.hard_link(&path("/sw/g"), &path("/sw/f")).unwrap();
    let (bytes, file) = (store.bytes(), File::open(store.copy_of(&path("/sw/f"))).unwrap());
    let mut hidden = 0;
    let refused = store.evict(0, &path("/sw/f"), || hidden += 1).unwrap_err();
    assert_eq!((refused.kind(), hidden), (io::ErrorKind::WouldBlock, 0));
    drop(file);
    store.evict(0, &path("/sw/f"), || hidden += 1).unwrap();
    let due = store.next_tick().unwrap();
    store.tick(due);
    assert_eq!((hidden, store.bytes()), (1, bytes), "its other name keeps the bytes");
    store.evict(due, &path("/sw/g"), || hidden += 1).unwrap();
    store.tick(store.next_tick().unwrap());
    assert_eq!((hidden, store.bytes(), store.next_tick()), (2, 0, None));
}

#[test]
fn a_copy_is_found_just_after_its_eviction() {
    let (_dir, mut store) = store();
    let (f, g) = (path("/sw/f"), path("/sw/g"));
    put(&mut store, "/sw/f", b"content", &[(0, 7)]);
    let bytes = store.bytes();
    store.evict(0, &f, || ()).unwrap();
    let due = store.next_tick().unwrap();
    store.tick(due - 1);
    assert_eq!(std::fs::read(store.copy_of(&f)).unwrap(), b"content");

    put(&mut store, "/sw/f", b"content", &[(0, 7)]);
    store.tick(due);
    assert_eq!((std::fs::read(store.copy_of(&f)).unwrap(), store.bytes()), (b"content".to_vec(), bytes));

    put(&mut store, "/sw/g", b"content", &[(0, 7)]);
    store.evict(due, &f, || ()).unwrap();
    let ino = store.hard_link(&f, &g).unwrap();
    store.tick(due * 2);
    assert_eq!(std::fs::metadata(store.copy_of(&f)).unwrap().ino(), ino);
    assert_eq!((store.bytes(), std::fs::read_dir(&store.incoming_dir).unwrap().count()), (bytes, 0));
}

#[test]
fn links_never_lead_out_of_the_mirror_by_accident() {
    let (_dir, store) = store();
    let inside = [store.prefix.as_os_str().as_bytes(), b"/sw/b"].concat();
    for (link, target, mirrored) in [
        ("/sw/l", &b"b"[..], Some(&b"b"[..])),
        ("/sw/d/l", b"../b", Some(b"../b")),
        ("/sw/l", b"../../etc/passwd", None),
        ("/sw/l", b"x/../../../b", None),
        ("/sw/l", b"/sw/b", Some(&inside)),
        ("/sw/l", b"/sw/home/b", Some(b"/sw/home/b")),
        ("/sw/l", b"/etc/passwd", Some(b"/etc/passwd")),
    ] {
        assert_eq!(store.mirrored_target(&path(link), target).as_deref(), mirrored);
    }
}

#[test]
fn nothing_is_written_through_a_link() {
    let (dir, mut store) = store();
    let outside = dir.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    store.symbolic_link(&path("/sw/way"), outside.as_os_str().as_bytes()).unwrap();
    store.incoming(&path("/sw/way/f")).create(&head(b"x", &[(0, 1)])).unwrap();
    assert!(store.complete(&path("/sw/way/f"), &head(b"x", &[(0, 1)])).is_err());
    assert!(store.directory(&path("/sw/way/d"), &Attr::default()).is_err());
    assert!(store.hard_link(&path("/sw/../../f"), &path("/sw/f")).is_err());
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0);
}

#[test]
fn what_lies_too_deep_in_the_mirror_is_no_hindrance_to_a_successor() {
    let (dir, mut store) = store();
    let long = format!("/sw/{}", ("d".repeat(199) + "/").repeat(21));
    let deep = |bytes: usize| format!("{}f", &long[..bytes - 1]);
    for bytes in [PATH_BYTES_MAX - 100, PATH_BYTES_MAX - 3, PATH_BYTES_MAX] {
        // It may fail or not.
        let _ = store.directory(&path(&deep(bytes)), &Attr { mode: mode::DIR | 0o755, ..Attr::default() });
    }
    put(&mut store, "/sw/f", b"x", &[(0, 1)]);
    let store =
        Store::adopt(&NodeDir::new(dir.path()), vec![(true, path("/sw"))], |path, _| path.name().ends_with(b"f"))
            .unwrap();
    assert!(store.copy_of(&path("/sw/f")).exists());
}

/// A tmpfs of a megabyte, unmounted when dropped.
struct FullDisk(TempDir);

impl FullDisk {
    fn mount() -> Option<FullDisk> {
        let dir = tempfile::tempdir().unwrap();
        let mounted =
            rustix::mount::mount("tmpfs", dir.path(), "tmpfs", rustix::mount::MountFlags::empty(), c"size=1m");
        match mounted {
            Ok(()) => Some(FullDisk(dir)),
            Err(error) => {
                let _ = writeln!(io::stdout(), "skipped: a small tmpfs can't be mounted: {error}");
                None
            }
        }
    }

    fn fill(&self) {
        let mut file = File::create(self.0.path().join("others")).unwrap();
        while file.write(&[1; 4096]).is_ok_and(|bytes| bytes > 0) {}
    }
}

impl Drop for FullDisk {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(self.0.path(), rustix::mount::UnmountFlags::DETACH);
    }
}

#[test]
fn of_what_a_full_disk_refused_nothing_stays_and_what_was_there_does() {
    let Some(disk) = FullDisk::mount() else { return };
    let mut store = Store::create(&NodeDir::new(disk.0.path()), vec![(true, path("/sw"))]).unwrap();
    let content: Vec<u8> = (0..30_000u32).map(|n| (n / 3) as u8).collect();
    let part = [(8192, 4096)];
    put(&mut store, "/sw/part", &content, &part);
    let (bytes, copy) = (store.bytes(), store.copy_of(&path("/sw/part")));
    disk.fill();

    let whole = head(&content, &[(0, 30_000)]);
    for (name, size) in [("/sw/part", 30_000), ("/sw/small", 30_000), ("/sw/large", 200_000)] {
        let (name, head) = (path(name), head(&vec![1; size], &[(0, size as u64)]));
        let head = if size == 30_000 { &whole } else { &head };
        let arrived = store.incoming(&name).create(head).and_then(|()| store.write(&name, None, &content, 0));
        let completed = arrived.and_then(|()| store.complete(&name, head));
        assert_eq!(completed.unwrap_err().kind(), io::ErrorKind::StorageFull, "{name}");
        store.discard(&name, None);
        assert_eq!(store.copy_of(&name).exists(), name == path("/sw/part"), "{name}");
    }
    let big = path("/sw/big");
    let block = store.incoming_block(&big, 0, 2 * BLOCK_BYTES);
    let written = block.and_then(|_| store.write(&big, Some(0), &content, 0));
    assert_eq!(written.unwrap_err().kind(), io::ErrorKind::StorageFull);
    store.discard(&big, Some(0));

    assert!(!store.copy_of(&big).exists());
    assert_eq!(std::fs::read_dir(&store.incoming_dir).unwrap().count(), 0);
    let metadata = std::fs::metadata(&copy).unwrap();
    assert_eq!((metadata.mode() & 0o7777, metadata.mtime()), (0o751, 1000));
    assert!(bytes == store.bytes() && bytes == metadata.blocks() * 512, "{bytes}, {}", store.bytes());
    assert!(std::fs::read(&copy).unwrap()[8192..12_288] == content[8192..12_288]);
}
