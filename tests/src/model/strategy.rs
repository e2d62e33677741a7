//! Trees and operations drawn at random. Draws are choices among what is there, so that fewer choices are a smaller
//! tree and a failing case shrinks.

use std::collections::BTreeSet;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use rustix::fs::OFlags;

use super::Content;
use super::operation::{Action, Change, Operation};
use super::tree::{Kind, Node, Tree};

/// Names: plain ones, and all that a file system must not mind.
const NAMES: [&[u8]; 14] = [
    b"a",
    b"b",
    b"lib",
    b"libx.so.1",
    b"module.py",
    b"__pycache__",
    b"with space",
    b"new\nline",
    b"\xff\xfe\x80",
    b"caf\xe9",
    "gr\u{fc}n".as_bytes(),
    b"...",
    b".hidden",
    b"-",
];
/// Suffixes of a path.
const BEHIND: [&[u8]; 8] = [b"", b"", b"", b"/", b"/.", b"/..", b"//", b"/./.."];
const MODES: [u32; 7] = [0o644, 0o755, 0o600, 0o400, 0o000, 0o4755, 0o2711];
const OWNERS: [(u32, u32); 3] = [(0, 0), (1, 1), (12345, 54321)];
const SIZES: [u64; 12] = [0, 1, 100, 4095, 4096, 4097, 65_536, 131_071, 1 << 20, (1 << 20) + 1, 4 << 20, 5_000_001];

/// A path: something that is there, perhaps a name in it, and a suffix.
#[derive(Clone, Debug)]
struct PathChoice {
    start: Index,
    name: Option<Vec<u8>>,
    behind: &'static [u8],
}

/// A tree of up to `nodes_max` names, and operations that only read.
pub fn reading(nodes_max: usize, operations_max: usize) -> impl Strategy<Value = (Tree, Vec<Operation>)> {
    (tree(nodes_max), vec((choice(), read()), 1..operations_max)).prop_map(|(tree, drawn)| {
        let paths = paths(&tree);
        let operations =
            drawn.into_iter().map(|(choice, action)| Operation::new(choice.among(&paths), action)).collect();
        (tree, operations)
    })
}

/// A tree, and operations that read and change it.
pub fn changing(nodes_max: usize, operations_max: usize) -> impl Strategy<Value = (Tree, Vec<Operation>)> {
    let action = prop_oneof![read(), change().prop_map(Action::Change)];
    let drawn = vec((choice(), choice(), select(&NAMES[..]), action), 1..operations_max);
    (tree(nodes_max), drawn).prop_map(|(mut tree, drawn)| {
        // Mounts are nodev: a device's file opens on one side alone. And what lies around two copies of
        // a tree differs, so no link leads there.
        tree.nodes.retain(|(_, node)| match &node.kind {
            Kind::Symlink(target) => !target.starts_with(b"..") && !target.windows(3).any(|part| part == b"/.."),
            kind => *kind != Kind::Device,
        });
        let mut paths = paths(&tree);
        let mut operations = Vec::new();
        for (choice, other, target, action) in drawn {
            let path = choice.among(&paths);
            let is_link = matches!(action, Action::Change(Change::Symlink));
            let other = if is_link { target.to_vec() } else { other.among(&paths) };
            // Later operations may use the names that this one may have made.
            if matches!(action, Action::Change(_)) {
                let renames = matches!(action, Action::Change(Change::Rename));
                paths.insert(if renames { other.clone() } else { path.clone() });
            }
            operations.push(Operation { path, other, action });
        }
        (tree, operations)
    })
}

fn paths(tree: &Tree) -> BTreeSet<Vec<u8>> {
    tree.nodes.iter().map(|(path, _)| path.clone()).chain([Vec::new()]).collect()
}

impl PathChoice {
    fn among(&self, paths: &BTreeSet<Vec<u8>>) -> Vec<u8> {
        let mut path = paths.iter().nth(self.start.index(paths.len())).expect("the root is among them").clone();
        if let Some(name) = &self.name {
            path.push(b'/');
            path.extend_from_slice(name);
        }
        path.extend_from_slice(self.behind);
        path
    }
}

fn choice() -> impl Strategy<Value = PathChoice> {
    let name = prop_oneof![
        6 => Just(None),
        4 => select(&NAMES[..]).prop_map(|name| Some(name.to_vec())),
        1 => select(vec![255usize, 256, 1025]).prop_map(|bytes| Some(vec![b'n'; bytes])),
    ];
    (any::<Index>(), name, select(&BEHIND[..])).prop_map(|(start, name, behind)| PathChoice { start, name, behind })
}

/// (index of a directory made so far, name, its contents)
fn tree(nodes_max: usize) -> impl Strategy<Value = Tree> {
    let name = prop_oneof![20 => select(&NAMES[..]).prop_map(<[u8]>::to_vec), 1 => Just(vec![b'm'; 255])];
    vec((any::<Index>(), name, node()), 0..nodes_max).prop_map(|drawn| {
        let mut tree = Tree::default();
        let mut directories = vec![Vec::new()];
        for (parent, name, mut node) in drawn {
            let parent: &Vec<u8> = parent.get(&directories);
            let path = if parent.is_empty() { name } else { [parent, &b"/"[..], &name].concat() };
            if tree.nodes.iter().any(|(other, _)| *other == path) {
                continue;
            }
            if let Kind::HardLink(number) = &node.kind {
                let files: Vec<_> =
                    tree.nodes.iter().filter(|(_, other)| matches!(other.kind, Kind::File(_))).collect();
                let Some((existing, _)) = files.get(usize::from(number[0]) % files.len().max(1)) else { continue };
                node.kind = Kind::HardLink(existing.clone());
            }
            if node.kind == Kind::Directory {
                directories.push(path.clone());
            }
            tree.nodes.push((path, node));
        }
        tree
    })
}

fn node() -> impl Strategy<Value = Node> {
    let kind = prop_oneof![
        6 => content().prop_map(Kind::File),
        5 => Just(Kind::Directory),
        3 => target().prop_map(Kind::Symlink),
        // The number chooses among the files that are there by then.
        1 => any::<u8>().prop_map(|number| Kind::HardLink(vec![number])),
        1 => prop_oneof![Just(Kind::Fifo), Just(Kind::Socket), Just(Kind::Device)],
    ];
    let mtime = (select(vec![0i64, 1, -5, 1_600_000_000, 4_000_000_000]), 0..1_000_000_000u32);
    let xattrs = prop_oneof![4 => Just(Vec::new()), 1 => vec((0..3u8, vec(any::<u8>(), 0..50)), 1..3)];
    (kind, select(&MODES[..]), select(&OWNERS[..]), mtime, xattrs).prop_map(|(kind, mode, owner, mtime, mut xattrs)| {
        // Only files and directories have attributes of users.
        if !matches!(kind, Kind::File(_) | Kind::Directory) {
            xattrs.clear();
        }
        Node { kind, mode, owner, mtime, xattrs }
    })
}

/// Links within a directory, upwards, to nothing, or to themselves.
fn target() -> impl Strategy<Value = Vec<u8>> {
    let word = prop_oneof![select(&NAMES[..]), Just(&b".."[..]), Just(&b"."[..])];
    (vec(word, 1..4), any::<bool>()).prop_map(|(names, ends_with_slash)| {
        let mut target = names.join(&b'/');
        if ends_with_slash {
            target.push(b'/');
        }
        target
    })
}

fn content() -> impl Strategy<Value = Content> {
    let size = prop_oneof![6 => 0..10_000u64, 1 => select(&SIZES[..])];
    (any::<u64>(), vec((any::<bool>(), size), 0..4)).prop_map(|(seed, runs)| Content { seed, runs })
}

fn read() -> impl Strategy<Value = Action> {
    let offset = || prop_oneof![4 => 0..12_000u64, 2 => select(&SIZES[..]), 1 => Just(1u64 << 40)];
    let flags = [
        OFlags::empty(),
        OFlags::NOFOLLOW,
        OFlags::DIRECTORY,
        OFlags::DIRECTORY | OFlags::NOFOLLOW,
        OFlags::NOATIME,
        OFlags::PATH,
    ];
    prop_oneof![
        any::<bool>().prop_map(|follows| Action::Stat { follows }),
        any::<bool>().prop_map(|follows| Action::Stat { follows }),
        Just(Action::Identity),
        Just(Action::Readlink),
        (offset(), offset()).prop_map(|(offset, bytes)| Action::Read { offset, bytes: bytes.clamp(1, 8 << 20) }),
        select(vec![1000u64, 4096, 1 << 17, 3 << 20]).prop_map(|piece| Action::ReadAll { piece }),
        select(flags.to_vec()).prop_map(|flags| Action::Open { flags: flags.bits() }),
        Just(Action::List),
        (1..5u64).prop_map(|part| Action::ListInParts { part }),
        offset().prop_map(|offset| Action::Seek { offset }),
        (0..8u32).prop_map(|mode| Action::Access { mode }),
        Just(Action::Xattrs),
        Just(Action::Filesystem),
    ]
}

fn change() -> impl Strategy<Value = Change> {
    let mode = || select(&MODES[..]);
    let small = || (any::<u64>(), 0..9000u64).prop_map(|(seed, bytes)| Content::noise(seed, bytes));
    prop_oneof![
        (mode(), any::<bool>()).prop_map(|(mode, is_exclusive)| Change::Create { mode, is_exclusive }),
        (0..9000u64, small()).prop_map(|(offset, content)| Change::Write { offset, content }),
        small().prop_map(|content| Change::Append { content }),
        small().prop_map(|content| Change::Replace { content }),
        (0..9000u64).prop_map(|size| Change::Truncate { size }),
        (0..9000u64, 1..9000u64).prop_map(|(offset, bytes)| Change::Allocate { offset, bytes }),
        small().prop_map(|content| Change::UnlinkedWhileOpen { content }),
        mode().prop_map(|mode| Change::Mkdir { mode }),
        Just(Change::Symlink),
        Just(Change::Link),
        mode().prop_map(|mode| Change::Mkfifo { mode }),
        Just(Change::Unlink),
        Just(Change::Rmdir),
        Just(Change::Rename),
        Just(Change::Exchange),
        mode().prop_map(|mode| Change::Chmod { mode }),
        (-5..5_000_000_000i64, 0..1_000_000_000u32)
            .prop_map(|(seconds, nanoseconds)| Change::Times { seconds, nanoseconds }),
        (0..3u8, vec(any::<u8>(), 0..50)).prop_map(|(name, value)| Change::SetXattr { name, value }),
        (0..3u8).prop_map(|name| Change::RemoveXattr { name }),
    ]
}
