//! Every message that can be made fits a frame.

use std::sync::Arc;

use headwater_abi::attr::mode;
use headwater_abi::listing::{Builder, LISTING_BYTES_MAX, LISTING_NAMES_MAX, Name};
use headwater_abi::path::PATH_BYTES_MAX;
use headwater_abi::wire::{
    Aspect, CHANGES_MAX, CHUNK_BYTES_MAX, Change, DETAILS_MAX, Detail, Digest, FRAME_BYTES_MAX, Fact, FileHead,
    Message, RANGES_MAX, TransferId,
};
use headwater_abi::{Attr, Path};

/// Returns attributes whose encoding is longest.
fn attr() -> Attr {
    Attr {
        mode: mode::FILE | 0o7777,
        nlink: u32::MAX,
        uid: u32::MAX,
        gid: u32::MAX,
        ino: u64::MAX,
        size: u64::MAX,
        blocks: u64::MAX,
        attributes: u64::MAX,
        attributes_mask: u64::MAX,
        atime: (i64::MIN, u32::MAX),
        mtime: (i64::MIN, u32::MAX),
        ctime: (i64::MIN, u32::MAX),
        btime: (i64::MIN, u32::MAX),
        mnt_id: u64::MAX,
        ..Attr::default()
    }
}

/// Returns the longest path; `number` distinguishes several.
fn path(number: usize) -> Path {
    let end = format!("{number:08}");
    let name = format!("/{}", "x".repeat(200));
    let mut text = name.repeat((PATH_BYTES_MAX - end.len()) / name.len());
    text += &format!("/{}", "y".repeat(PATH_BYTES_MAX - end.len() - text.len() - 1));
    let path = Path::new((text + &end).as_bytes()).unwrap();
    assert_eq!(path.as_bytes().len(), PATH_BYTES_MAX);
    path
}

#[track_caller]
fn fits(message: &Message, content: usize) {
    let bytes = message.encode().len() + content;
    assert!(bytes <= FRAME_BYTES_MAX, "{bytes} bytes");
}

/// Returns the listing with the most names and the most bytes.
fn largest_listing() -> Fact {
    let bytes = LISTING_BYTES_MAX / LISTING_NAMES_MAX - 1;
    let mut listing = Builder::default();
    let push = |listing: &mut Builder, number: usize, bytes: usize| {
        listing.push(Name { ino: u64::MAX, d_type: u8::MAX, name: format!("{number:0bytes$}").as_bytes() })
    };
    for number in 1..LISTING_NAMES_MAX {
        assert!(push(&mut listing, number, bytes), "{number}");
    }
    assert!(push(&mut listing, 0, bytes));
    assert!(!push(&mut listing, LISTING_NAMES_MAX, bytes), "one more is too many");
    Fact::Listing(attr(), listing.finish())
}

#[test]
fn the_longest_messages_fit() {
    fits(&Message::Known { path: path(0), fact: largest_listing() }, 0);
    fits(&Message::Known { path: path(0), fact: Fact::Link(attr(), vec![b'x'; PATH_BYTES_MAX].into()) }, 0);
    let detail = Detail { name: vec![b'x'; 255].into(), fact: Fact::Link(attr(), vec![b'x'; PATH_BYTES_MAX].into()) };
    let details = vec![detail; DETAILS_MAX].into();
    fits(&Message::Details { path: path(0), details, is_last: true }, 0);
    let changes = (0..CHANGES_MAX).map(|number| Change { path: path(number), is_same_directory: true }).collect();
    let requesters = vec![(u32::MAX, u64::MAX); CHANGES_MAX];
    fits(&Message::Refresh { generation: u64::MAX, changes: Some(changes), is_last: true, requesters }, 0);
    let paths = (0..CHANGES_MAX).map(path).collect();
    fits(&Message::RefreshWanted { rank: u32::MAX, request: u64::MAX, paths }, 0);
    let ranges: Arc<[(u64, u64)]> = vec![(u64::MAX, u64::MAX); RANGES_MAX].into();
    let head = FileHead { attr: attr(), format: u64::MAX, ranges, whole: true };
    let transfer = TransferId(u64::MAX);
    let content =
        Message::Content { path: path(0), aspect: Aspect::Loadable, head: head.clone(), digest: Digest([7; 32]) };
    fits(&content, CHUNK_BYTES_MAX);
    fits(&Message::File { transfer, path: path(0), aspect: Aspect::Block(u32::MAX), head, position: u64::MAX }, 0);
    fits(&Message::Chunk { transfer, position: u64::MAX, bytes: CHUNK_BYTES_MAX as u32 }, CHUNK_BYTES_MAX);
}

#[test]
fn a_listing_has_no_more_bytes_than_it_may() {
    let mut listing = Builder::default();
    let name = [b'x'; 255];
    let is_taken = |listing: &mut Builder| listing.push(Name { ino: 1, d_type: 8, name: &name });
    let count = std::iter::repeat_with(|| is_taken(&mut listing)).take_while(|&is_taken| is_taken).count();
    assert_eq!(count, LISTING_BYTES_MAX / 256);
}
