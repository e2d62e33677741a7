//! Content that is preloaded.

use headwater_abi::wire::Fact;
use headwater_abi::{Path, Want};

use super::Node;
use crate::walk::content_wanted;
use crate::{ClientId, Output, Reply};

/// The share of the store up to which content is preloaded, in quarters: beyond it, unused content would
/// evict used content.
const FULL_QUARTERS_MAX: u64 = 3;

impl Node {
    /// Returns the path that `path` leads to, and the known fact about it. There is none for an unknown,
    /// absent or passthrough path, and none outside of the scope.
    pub fn known(&self, path: &Path, want: Want) -> (Path, Option<&Fact>) {
        let at = self.map().walk(path, want).path;
        let fact = self.entries.fact(&at).filter(|_| !self.passthrough.covers(&at));
        (at, fact)
    }

    pub(super) fn preload(&mut self, id: ClientId, path: Path, want: Want, block: Option<u32>) {
        assert!(!self.clients.contains_key(&id), "a client's number is used once");
        let is_full = self.sieve.bytes() >= self.config.limits.store_bytes_max / 4 * FULL_QUARTERS_MAX;
        let is_refused = self.scope.start(path.as_bytes()).is_none()
            || want.contains(Want::PASSTHROUGH)
            || self.clients.len() >= self.config.limits.clients_waiting_max
            || (is_full && (block.is_some() || content_wanted(want).is_some()));
        if is_refused {
            return self.outputs.push_back(Output::Reply { client: id, reply: Reply::Fallback });
        }
        self.admit(id, path, want, block);
        if let Some(client) = self.clients.get_mut(&id) {
            client.is_ahead = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stored::whole_head;
    use crate::{Config, Input, Limits, Memory, Policy, Rank};
    use alloc::format;
    use alloc::vec::Vec;
    use headwater_abi::attr::mode;
    use headwater_abi::listing::{Builder, Name, d_type};
    use headwater_abi::{Attr, Path};
    use headwater_topology::{Branching, Forest, Shape};

    const FILES: u64 = 40;

    fn path(name: &str) -> Path {
        Path::new(name.as_bytes()).unwrap()
    }

    /// Returns a reader that knows a directory's names.
    fn node() -> Node {
        let mut node = Node::new(
            Config {
                rank: Rank(0),
                forest: Forest::new(1, 0, Shape::Single(Branching::KAry(1))),
                session: 1,
                policy: Policy::Pull,
                limits: Limits { store_bytes_max: 100, ..Limits::default() },
                scope: [(true, path("/sw"))].into(),
            },
            1,
        );
        let mut listing = Builder::default();
        for number in 0..FILES {
            let name = format!("{number:02}");
            assert!(listing.push(Name { ino: number + 10, d_type: d_type::FILE, name: name.as_bytes() }));
        }
        let attr = Attr { mode: mode::DIR | 0o755, ino: 1, nlink: 2, ..Attr::default() };
        assert!(node.restore(&path("/sw"), Memory::Fact(Fact::Listing(attr, listing.finish()))));
        node
    }

    fn outputs(node: &mut Node) -> Vec<Output> {
        core::iter::from_fn(|| node.poll_output()).collect()
    }

    /// Returns the numbers of reads when all files are requested in order.
    fn reads(input: impl Fn(ClientId, Path) -> Input) -> (usize, usize) {
        let mut node = node();
        for number in 0..FILES {
            node.handle(0, input(ClientId(number), path(&format!("/sw/{number:02}"))));
        }
        let all = outputs(&mut node);
        let files = all.iter().filter(|output| matches!(output, Output::ReadFile { .. })).count();
        (files, all.iter().filter(|output| matches!(output, Output::ReadDetails { .. })).count())
    }

    #[test]
    fn nothing_is_concluded_from_it() {
        let want = Want::WHOLE;
        assert_eq!(reads(|client, path| Input::Preload { client, path, want, block: None }), (FILES as usize, 0));
        let (_, details) = reads(|client, path| Input::Request { client, path, want });
        assert!(details > 0, "from processes it is");
    }

    #[test]
    fn preloading_evicts_nothing() {
        let mut node = node();
        let attr = Attr { mode: mode::FILE, ino: 10, nlink: 1, size: 80, ..Attr::default() };
        assert!(node.restore(&path("/sw/00"), Memory::Fact(Fact::Attr(attr))));
        assert!(node.restore(&path("/sw/00"), Memory::Content { head: whole_head(attr, 0), is_linked: false }));
        for (number, name, want, block, is_refused) in [
            (1, "/sw/01", Want::WHOLE, None, true),
            (2, "/sw/02", Want::LOADABLE, None, true),
            (3, "/sw/03", Want::ATTR, None, false),
            (4, "/elsewhere", Want::ATTR, None, true),
            (5, "/sw/04", Want::PASSTHROUGH, None, true),
            (6, "/sw/00", Want::ATTR, Some(0), true),
        ] {
            let client = ClientId(number);
            node.handle(0, Input::Preload { client, path: path(name), want, block });
            let refused = outputs(&mut node).contains(&Output::Reply { client, reply: Reply::Fallback });
            assert_eq!(refused, is_refused, "{name}");
        }
        assert_eq!((node.stats().requests, node.stats().fallbacks), (0, 0));
    }

    #[test]
    fn known_facts_about_a_paths_target() {
        let mut node = node();
        let link = Attr { mode: mode::LINK, ino: 11, nlink: 1, ..Attr::default() };
        assert!(node.restore(&path("/sw/01"), Memory::Fact(Fact::Link(link, b"02"[..].into()))));
        let attr = Attr { mode: mode::FILE, ino: 12, nlink: 1, size: 8, ..Attr::default() };
        assert!(node.restore(&path("/sw/02"), Memory::Fact(Fact::Attr(attr))));
        assert_eq!(node.known(&path("/sw/01"), Want::ATTR), (path("/sw/02"), Some(&Fact::Attr(attr))));
        assert_eq!(node.known(&path("/sw/01"), Want::ATTR | Want::NO_FOLLOW).0, path("/sw/01"));
        assert_eq!(node.known(&path("/sw/nothing"), Want::ATTR).1, None);
        node.restore(&path("/sw/02"), Memory::Passthrough { tree: false });
        assert_eq!(node.known(&path("/sw/01"), Want::ATTR).1, None);
    }
}
