//! Predicts the results of operations, from the tree's contents alone.

use std::collections::HashMap;

use rustix::fs::{FileType, OFlags};
use rustix::io::Errno;

use super::content::{Content, digest};
use super::line::line;
use super::list;
use super::operation::{Action, Operation};
use super::tree::{Kind, Node, Tree};

/// The longest name of a file.
const NAME_BYTES_MAX: usize = 255;
/// How many links the kernel follows in one path.
const LINKS_MAX: u32 = 40;

/// A tree, with the permissions of root.
pub struct Reference<'a> {
    tree: &'a Tree,
    by_path: HashMap<&'a [u8], &'a Node>,
    root: Node,
}

/// The result that an operation must have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expected {
    /// This line.
    Line(String),
    /// The result on a plain directory.
    AsPlain,
    /// Anything: it leads out of the tree, or to what must not be opened.
    Anything,
}

/// The end of a path: the name's path without links, or out of the tree.
enum Resolved {
    Inside(Vec<u8>),
    Outside,
}

impl<'a> Reference<'a> {
    /// Of this tree.
    pub fn new(tree: &'a Tree) -> Reference<'a> {
        let by_path = tree.nodes.iter().map(|(path, node)| (path.as_slice(), node)).collect();
        Reference { tree, by_path, root: Node::new(Kind::Directory, 0o755) }
    }

    /// The result of `operation`, which reads only.
    pub fn expect(&self, operation: &Operation) -> Expected {
        let (path, action) = (&operation.path, &operation.action);
        let follows = match action {
            Action::Stat { follows } => *follows,
            Action::Open { flags } => !OFlags::from_bits_retain(*flags).contains(OFlags::NOFOLLOW),
            Action::Identity | Action::Readlink | Action::Xattrs => false,
            _ => true,
        };
        match self.resolve(path, follows) {
            _ if matches!(action, Action::Change(_)) => Expected::AsPlain,
            Ok(Resolved::Outside) => Expected::Anything,
            Ok(Resolved::Inside(found)) => self.answer(&found, action),
            Err(error) => Expected::Line(line(Err(error))),
        }
    }

    /// The result of `action` on a path that leads to `found`.
    fn answer(&self, found: &[u8], action: &Action) -> Expected {
        let node = self.node(found).expect("resolved to a node");
        let is_special = matches!(node.kind, Kind::Fifo | Kind::Socket | Kind::Device);
        let content = || content(self.link_target(found, node).1);
        Expected::Line(line(match action {
            Action::Stat { .. } if found.is_empty() => return Expected::AsPlain,
            Action::Stat { .. } => Ok(self.stat(found, node)),
            Action::Readlink => target(node),
            Action::Read { .. } | Action::ReadAll { .. } | Action::Open { .. } | Action::Seek { .. } if is_special => {
                return Expected::Anything;
            }
            Action::Read { offset, bytes } => content().map(|content| digest(&content.read(*offset, *bytes))),
            Action::ReadAll { .. } => content().map(|content| digest(&content.read(0, content.size()))),
            Action::Open { flags } => self.open(node, OFlags::from_bits_retain(*flags)),
            Action::List => directory(node).map(|()| list::expected(&self.names(found))),
            Action::ListInParts { .. } => directory(node).map(|()| format!("{} names ", self.names(found).len() + 2)),
            Action::Seek { offset } => match content() {
                Ok(content) if *offset >= content.size() => Err(Errno::NXIO),
                Ok(_) => Ok("seeks ".into()),
                Err(_) => return Expected::Anything,
            },
            Action::Filesystem => Ok(format!("room true names of {NAME_BYTES_MAX}")),
            Action::Access { .. } | Action::Identity | Action::Xattrs | Action::Change(_) => return Expected::AsPlain,
        }))
    }

    fn node(&self, path: &[u8]) -> Option<&Node> {
        if path.is_empty() { Some(&self.root) } else { self.by_path.get(path).copied() }
    }

    /// The node that a hard link shares its attributes with.
    fn link_target<'b>(&'b self, path: &'b [u8], node: &'b Node) -> (&'b [u8], &'b Node) {
        match &node.kind {
            Kind::HardLink(existing) => (existing, self.by_path[existing.as_slice()]),
            _ => (path, node),
        }
    }

    fn resolve(&self, path: &[u8], follows: bool) -> Result<Resolved, Errno> {
        let mut path_so_far: Vec<u8> = Vec::new();
        let mut left: Vec<Vec<u8>> = components(path);
        let (mut links, mut must_be_directory) = (0, path.ends_with(b"/") || path.is_empty());
        left.reverse();
        while let Some(component) = left.pop() {
            let is_last = left.is_empty();
            directory(self.node(&path_so_far).expect("only nodes are entered"))?;
            match component.as_slice() {
                b"." => must_be_directory |= is_last,
                b".." if path_so_far.is_empty() => return Ok(Resolved::Outside),
                b".." => path_so_far.truncate(path_so_far.iter().rposition(|&byte| byte == b'/').unwrap_or(0)),
                name if name.len() > NAME_BYTES_MAX => return Err(Errno::NAMETOOLONG),
                name => {
                    let next = join(&path_so_far, name);
                    let node = self.node(&next).ok_or(Errno::NOENT)?;
                    let Kind::Symlink(target) = &node.kind else {
                        path_so_far = next;
                        continue;
                    };
                    if is_last && !follows && !must_be_directory {
                        return Ok(Resolved::Inside(next));
                    }
                    links += 1;
                    if links > LINKS_MAX {
                        return Err(Errno::LOOP);
                    }
                    must_be_directory |= is_last && target.ends_with(b"/");
                    left.extend(components(target).into_iter().rev());
                }
            }
        }
        if must_be_directory {
            directory(self.node(&path_so_far).expect("only nodes are entered"))?;
        }
        Ok(Resolved::Inside(path_so_far))
    }

    fn stat(&self, path: &[u8], node: &Node) -> String {
        let (path, node) = self.link_target(path, node);
        let is_same = |(other, name): &&(Vec<u8>, Node)| {
            other == path || matches!(&name.kind, Kind::HardLink(existing) if existing == path)
        };
        let (mut links, mut mode, mut size, mut device) =
            (self.tree.nodes.iter().filter(is_same).count(), node.mode, 0, 0);
        match &node.kind {
            Kind::Directory => links = 0,
            Kind::Symlink(target) => (mode, size) = (0o777, target.len() as u64),
            Kind::File(content) => size = content.size(),
            Kind::Device => device = rustix::fs::makedev(1, 3),
            Kind::Fifo | Kind::Socket | Kind::HardLink(_) => (),
        }
        format!(
            "{:?} {mode:o} links {links} of {}:{} device {device:x} size {size} changed {}.{:09}",
            kind(node),
            node.owner.0,
            node.owner.1,
            node.mtime.0,
            node.mtime.1
        )
    }

    fn open(&self, node: &Node, flags: OFlags) -> Result<String, Errno> {
        if flags.contains(OFlags::DIRECTORY) {
            directory(node)?;
        }
        match node.kind {
            Kind::Symlink(_) => Err(Errno::LOOP),
            _ => Ok(format!("opened {:?}", kind(node))),
        }
    }

    fn names(&self, directory: &[u8]) -> HashMap<Vec<u8>, FileType> {
        let inside = self.tree.nodes.iter().filter_map(|(path, node)| {
            let name = match directory {
                [] => path.as_slice(),
                _ => path.strip_prefix(directory)?.strip_prefix(b"/")?,
            };
            (!name.contains(&b'/')).then(|| (name.to_vec(), kind(self.link_target(path, node).1)))
        });
        inside.collect()
    }
}

fn components(path: &[u8]) -> Vec<Vec<u8>> {
    path.split(|&byte| byte == b'/').filter(|component| !component.is_empty()).map(<[u8]>::to_vec).collect()
}

fn join(directory: &[u8], name: &[u8]) -> Vec<u8> {
    if directory.is_empty() { name.to_vec() } else { [directory, b"/", name].concat() }
}

fn kind(node: &Node) -> FileType {
    match node.kind {
        Kind::Directory => FileType::Directory,
        Kind::File(_) | Kind::HardLink(_) => FileType::RegularFile,
        Kind::Symlink(_) => FileType::Symlink,
        Kind::Fifo => FileType::Fifo,
        Kind::Socket => FileType::Socket,
        Kind::Device => FileType::CharacterDevice,
    }
}

fn directory(node: &Node) -> Result<(), Errno> {
    if matches!(node.kind, Kind::Directory) { Ok(()) } else { Err(Errno::NOTDIR) }
}

fn target(node: &Node) -> Result<String, Errno> {
    match &node.kind {
        Kind::Symlink(target) => Ok(target.escape_ascii().to_string()),
        _ => Err(Errno::INVAL),
    }
}

fn content(node: &Node) -> Result<&Content, Errno> {
    match &node.kind {
        Kind::File(content) => Ok(content),
        _ => Err(Errno::ISDIR),
    }
}
