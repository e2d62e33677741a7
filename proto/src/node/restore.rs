//! Restoring what a predecessor on the same node has published.

use alloc::boxed::Box;

use headwater_abi::Path;
use headwater_abi::wire::{Aspect, FileHead};

use super::Node;
use crate::Memory;
use crate::entry::{Learned, inode_of, is_sound};
use crate::policy::Recipients;
use crate::stored::StoredContent;

impl Node {
    /// Restores a publication about a path, before any input. There is no output. False if the node has no
    /// room, or if it contradicts an earlier one: then the path is unknown, or its content not stored.
    pub fn restore(&mut self, path: &Path, memory: Memory) -> bool {
        if !self.scope.contains(path) {
            return false;
        }
        match memory {
            Memory::Fact(fact) => is_sound(&fact) && self.entries.learn(path, fact) == Learned::New,
            Memory::Content { head, is_linked } => self.restore_content(path, head, is_linked),
            Memory::Passthrough { tree } => {
                let inodes = self.entries.shared_inodes(path, tree);
                self.passthrough.insert(path, tree, false);
                self.passthrough.extend_inodes(inodes);
                true
            }
        }
    }

    /// Restores that programs run which don't announce their changes.
    pub fn restore_unaudited(&mut self) {
        self.is_unaudited = true;
    }

    fn restore_content(&mut self, path: &Path, head: FileHead, is_linked: bool) -> bool {
        let is_whole = head.whole && head.is_valid();
        let Some(entry) = self.entries.get_mut(path).filter(|e| is_whole && e.is_file() && e.stored.is_none()) else {
            return false;
        };
        // The bytes may be charged to another name of the same file, or that name may have its own copy.
        let names = Some(inode_of(&head.attr)).filter(|_| head.attr.nlink > 1);
        let names = names.map(|inode| self.inodes.entry(inode).or_default());
        let has_others = names.as_ref().is_some_and(|names| !names.is_empty());
        let bytes = if is_linked && has_others { 0 } else { head.content_bytes() };
        if let Some(names) = names.filter(|_| is_linked || !has_others) {
            names.push(path.clone());
        }
        let mut stored = StoredContent::new(self.sieve.insert(path.clone()));
        self.sieve.take(bytes);
        stored.add(Aspect::Whole, &head);
        stored.bytes = bytes;
        entry.content_at = Recipients::default();
        entry.stored = Some(Box::new(stored));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use alloc::vec::Vec;

    use headwater_abi::attr::mode;
    use headwater_abi::listing::d_type;
    use headwater_abi::wire::Fact;
    use headwater_abi::{Attr, Listing, Name, Want};

    use crate::topology::Branching;
    use crate::{ClientId, Config, Forest, Input, Limits, Output, Policy, Rank, Reply, Shape};

    fn path(text: &str) -> Path {
        Path::new(text.as_bytes()).unwrap()
    }

    fn attr(kind: u32, ino: u64, nlink: u32) -> Attr {
        Attr { mode: kind | 0o755, ino, nlink, size: 10, ..Attr::default() }
    }

    fn head(ino: u64, nlink: u32, is_linked: bool) -> Memory {
        let ranges = [(0, 10)].into();
        let head = FileHead { attr: attr(mode::FILE, ino, nlink), format: 0, ranges, whole: true };
        Memory::Content { head, is_linked }
    }

    /// Returns a root with a directory that has three names of one file, of which two share a stored copy,
    /// another file, and a passthrough path.
    fn node() -> Node {
        let config = Config {
            rank: Rank(0),
            forest: Forest::new(1, 0, Shape::Single(Branching::KAry(1))),
            session: 0,
            policy: Policy::Pull,
            limits: Limits::default(),
            scope: vec![(true, path("/sw"))],
        };
        let mut node = Node::new(config, 0);
        let names = ["a", "b", "b2", "c", "live"];
        let name = |name: &&'static str| Name { ino: 1, d_type: d_type::FILE, name: name.as_bytes() };
        let listing: Listing = names.iter().map(name).collect();
        assert!(node.restore(&path("/sw"), Memory::Fact(Fact::Listing(attr(mode::DIR, 9, 2), listing))));
        for (name, ino, nlink) in
            [("/sw/a", 1, 3), ("/sw/b", 1, 3), ("/sw/b2", 1, 3), ("/sw/c", 2, 1), ("/sw/live", 3, 1)]
        {
            assert!(node.restore(&path(name), Memory::Fact(Fact::Attr(attr(mode::FILE, ino, nlink)))));
        }
        for (name, is_linked) in [("/sw/a", false), ("/sw/b", true), ("/sw/b2", false)] {
            assert!(node.restore(&path(name), head(1, 3, is_linked)));
        }
        assert!(node.restore(&path("/sw/live"), Memory::Passthrough { tree: false }));
        assert_eq!(node.poll_output(), None);
        node
    }

    fn request(node: &mut Node, client: u64, name: &str, want: Want) -> Vec<Output> {
        node.handle(0, Input::Request { client: ClientId(client), path: path(name), want });
        core::iter::from_fn(|| node.poll_output()).collect()
    }

    #[test]
    fn restored_facts_are_not_requested_again() {
        let mut node = node();
        for (client, (name, want)) in (0..).zip([
            ("/sw", Want::LISTING),
            ("/sw/a", Want::WHOLE),
            ("/sw/b", Want::WHOLE),
            ("/sw/none", Want::ATTR),
            ("/sw/live", Want::WHOLE),
        ]) {
            let done = Output::Reply { client: ClientId(client), reply: Reply::Done };
            assert_eq!(request(&mut node, client, name, want), [done], "{name}");
        }
        let requested = request(&mut node, 9, "/sw/c", Want::WHOLE);
        assert!(
            matches!(&requested[..], [Output::ReadFile { path: requested, .. }] if *requested == path("/sw/c")),
            "{requested:?}"
        );
        assert_eq!(node.stats().store_bytes, 20, "three names of one file, and two copies");
    }

    #[test]
    fn nonsense_is_not_remembered() {
        let mut node = node();
        for (name, memory) in [
            ("/elsewhere", Memory::Fact(Fact::Absent)),
            ("/sw/a", Memory::Fact(Fact::Absent)),
            ("/sw/x", Memory::Fact(Fact::Error(0))),
            ("/sw/unknown", head(5, 1, false)),
            ("/sw/a", head(1, 3, false)),
            ("/sw", head(9, 1, false)),
        ] {
            assert!(!node.restore(&path(name), memory.clone()), "{name} {memory:?}");
        }
    }
}
