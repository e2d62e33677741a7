//! Any sequence of inputs: the node never panics, answers each client at most once, publishes one version,
//! and stays within its limits, whatever its peers, its reader and its store send.

use std::collections::{BTreeMap, BTreeSet};

use headwater_abi::attr::mode;
use headwater_abi::wire::{
    Aspect, CHUNK_BYTES_MAX, Change, Detail, Digest, Fact, FileHead, Message, TransferId, Version, block_count,
};
use headwater_abi::{Attr, Listing, Name, Path, Want};
use headwater_proto::topology::Branching;
use headwater_proto::{
    ClientId, Config, Forest, Input, Limits, Node, Output, Peer, Policy, Publication, Rank, Shape, Stored,
};
use proptest::prelude::*;

const PATHS: [&str; 12] = [
    "/sw",
    "/sw/a",
    "/sw/b",
    "/sw/d",
    "/sw/d/a",
    "/sw/d/b",
    "/sw/l",
    "/sw/l/a",
    "/sw/x/../a",
    "/sw/d/e/f",
    "/etc/x",
    "/",
];

fn path() -> impl Strategy<Value = Path> {
    prop::sample::select(&PATHS[..]).prop_map(|text| Path::new(text.as_bytes()).unwrap())
}

fn attr() -> impl Strategy<Value = Attr> {
    let kind = prop::sample::select(&[mode::FILE, mode::FILE, mode::DIR, mode::LINK, 0o140_000][..]);
    (kind, 0..3u64, 0..4u64, 1..3u32).prop_map(|(kind, ino, size, nlink)| Attr {
        mode: kind,
        ino,
        size: [0, 100, 300_000, 9_000_000][size as usize],
        nlink,
        ..Attr::default()
    })
}

fn of_kind(kind: u32) -> impl Strategy<Value = Attr> {
    attr().prop_map(move |attr| Attr { mode: kind, ..attr })
}

fn fact() -> impl Strategy<Value = Fact> {
    fn name(name: &str, d_type: u8, ino: u64) -> Name<'_> {
        Name { ino, d_type, name: name.as_bytes() }
    }
    let odd = (prop::sample::select(&["a", "", "x/y"][..]), 0..12u8)
        .prop_map(move |(n, d_type)| Listing::from_iter([name(n, d_type, 0)]));
    let even = (0..3u64, 0..3u64, prop::sample::select(&[0u8, 4, 8, 10][..])).prop_map(move |(a, b, d_type)| {
        let names = [name("a", 8, a), name("b", 8, b), name("d", 4, 1), name("l", 10, 1), name("e", d_type, 1)];
        Listing::from_iter(names)
    });
    let names = prop_oneof![1 => odd, 9 => even];
    let target = prop::sample::select(&["d", "/sw/d", "..", "l", "", "/etc", "../sw/l/a"][..]);
    prop_oneof![
        1 => Just(Fact::Absent),
        1 => (0..40u16).prop_map(Fact::Error),
        2 => attr().prop_map(Fact::Attr),
        4 => of_kind(mode::FILE).prop_map(Fact::Attr),
        2 => (of_kind(mode::LINK), target).prop_map(|(attr, target)| Fact::Link(attr, target.as_bytes().into())),
        1 => of_kind(mode::DIR).prop_map(Fact::Unlistable),
        8 => (of_kind(mode::DIR), names).prop_map(|(attr, names)| Fact::Listing(attr, names)),
    ]
}

fn head() -> impl Strategy<Value = FileHead> {
    let ranges = prop::collection::vec((0..400u64, 0..200u64), 0..3);
    let odd = (attr(), ranges, any::<bool>()).prop_map(|(attr, ranges, whole)| FileHead {
        attr,
        format: 0,
        ranges: ranges.into(),
        whole,
    });
    let whole = of_kind(mode::FILE).prop_map(|attr| {
        let ranges: Vec<(u64, u64)> = (attr.size > 0).then_some((0, attr.size)).into_iter().collect();
        FileHead { attr, format: 0, ranges: ranges.into(), whole: true }
    });
    let part = of_kind(mode::FILE).prop_map(|attr| {
        let ranges: Vec<(u64, u64)> = (attr.size > 50).then_some((10, 40)).into_iter().collect();
        FileHead { attr, format: 0, ranges: ranges.into(), whole: false }
    });
    prop_oneof![1 => odd, 10 => whole, 5 => part]
}

fn aspect() -> impl Strategy<Value = Aspect> {
    use Aspect::{Block, Details, Entry, Listing, Loadable, Whole};
    prop::sample::select(&[Entry, Listing, Loadable, Whole, Details, Block(0), Block(1), Block(2), Block(3)][..])
}

fn details() -> impl Strategy<Value = Vec<Detail>> {
    let name = prop::sample::select(&["a", "b", "d", "e", "a", "b", "d", "e", "..", "", "x/y"][..]);
    let detail = (name, fact()).prop_map(|(name, fact)| Detail { name: name.as_bytes().into(), fact });
    prop::collection::vec(detail, 0..4)
}

fn position() -> impl Strategy<Value = u64> {
    prop::sample::select(&[0, 0, 0, 40, 50, 100, 131_072, 300_000, u64::MAX][..])
}

fn bytes() -> impl Strategy<Value = u32> {
    prop::sample::select(&[0, 40, 100, 131_072, 300_000, u32::MAX][..])
}

fn peer() -> impl Strategy<Value = Peer> {
    (rank(), any::<bool>()).prop_map(|(rank, is_parent)| if is_parent { Peer::Parent(rank) } else { Peer::Child(rank) })
}

fn rank() -> impl Strategy<Value = Rank> {
    (0..8u32).prop_map(Rank)
}

fn message() -> impl Strategy<Value = Message> {
    let transfer = || (0..6u64).prop_map(TransferId);
    prop_oneof![
        4 => (0..4u32, path(), aspect(), position(), prop::bool::weighted(0.2)).prop_map(
            |(tree, path, aspect, position, only_stored)| Message::Want { tree, path, aspect, position, only_stored }
        ),
        1 => (prop::collection::vec(0..5u32, 0..4), any::<bool>(), any::<bool>())
            .prop_map(|(trees, is_control, is_reader)| Message::Join { trees, is_control, is_reader }),
        1 => (0..4u32, path(), 0..3u64, prop::option::of(0..3u64)).prop_map(|(tree, path, fact, names)| {
            Message::Read { tree, versions: vec![Version { path, fact, names }] }
        }),
        1 => (0..4u64, paths()).prop_map(|(number, paths)| Message::CheckChanges { number, paths }),
        1 => (0..4u64, prop::option::of(changes()), any::<bool>())
            .prop_map(|(number, changes, is_last)| Message::FoundChanges { number, changes, is_last }),
        1 => transfer().prop_map(|transfer| Message::Again { transfer }),
        2 => (transfer(), any::<u8>()).prop_map(|(transfer, byte)| Message::End { transfer, digest: Digest([byte; 32]) }),
        2 => (path(), aspect(), head()).prop_map(|(path, aspect, head)| Message::Large { path, aspect, head }),
        1 => transfer().prop_map(|transfer| Message::Cancel { transfer }),
        6 => (path(), fact()).prop_map(|(path, fact)| Message::Known { path, fact }),
        6 => (transfer(), path(), aspect(), head(), position(), any::<bool>()).prop_map(
            |(transfer, path, aspect, head, position, is_sane)| {
                let right = if head.whole { Aspect::Whole } else { Aspect::Loadable };
                let (aspect, position) = if is_sane { (right, 0) } else { (aspect, position) };
                Message::File { transfer, path, aspect, head, position }
            }
        ),
        4 => (path(), aspect(), head(), any::<bool>()).prop_map(|(path, aspect, head, is_sane)| {
            let right = if head.whole { Aspect::Whole } else { Aspect::Loadable };
            let aspect = if is_sane { right } else { aspect };
            Message::Content { path, aspect, head, digest: Digest([7; 32]) }
        }),
        6 => (transfer(), position(), bytes())
            .prop_map(|(transfer, position, bytes)| Message::Chunk { transfer, position, bytes }),
        1 => (transfer(), any::<u16>()).prop_map(|(transfer, errno)| Message::Failed { transfer, errno }),
        1 => (path(), aspect()).prop_map(|(path, aspect)| Message::Unavailable { path, aspect }),
        2 => (path(), details(), any::<bool>())
            .prop_map(|(path, details, is_last)| Message::Details { path, details: details.into(), is_last }),
        1 => (path(), any::<bool>()).prop_map(|(path, tree)| Message::Passthrough { path, tree }),
        1 => Just(Message::Unaudited),
        1 => (0..4u32).prop_map(|number| Message::Confirm { number }),
        1 => (0..4u32).prop_map(|number| Message::Confirmed { number }),
        1 => (path(), attr()).prop_map(|(path, attr)| Message::Compare { path, attr }),
        1 => (0..8u32, 0..4u64, paths()).prop_map(|(rank, request, paths)| Message::RefreshWanted { rank, request, paths }),
        1 => (0..9u64, prop::option::of(changes()), any::<bool>(), 0..8u32).prop_map(
            |(generation, changes, is_last, rank)| Message::Refresh { generation, changes, is_last, requesters: vec![(rank, 1)] }
        ),
        1 => (0..9u64).prop_map(|generation| Message::Newer { generation }),
        1 => Just(Message::Alive),
        1 => Just(Message::Probe),
    ]
}

fn paths() -> impl Strategy<Value = Vec<Path>> {
    prop::collection::vec(path(), 0..3)
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let change = (path(), any::<bool>()).prop_map(|(path, is_same_directory)| Change { path, is_same_directory });
    prop::collection::vec(change, 0..4)
}

fn input() -> impl Strategy<Value = Input> {
    prop_oneof![
        6 => (path(), 0..256u32).prop_map(|(path, want)| {
            // The client's number is set when the input is given.
            let want = Want::from_bits_truncate(want);
            let is_passthrough = want.contains(Want::PASSTHROUGH | Want::TREE | Want::EXECUTE | Want::ATTR);
            let want = if is_passthrough { want } else { want - Want::PASSTHROUGH };
            Input::Request { client: ClientId(0), path, want }
        }),
        1 => (0..30u64).prop_map(|client| Input::ClientGone { client: ClientId(client) }),
        2 => peer().prop_map(|peer| Input::PeerUp { peer }),
        1 => peer().prop_map(|peer| Input::PeerDown { peer }),
        1 => rank().prop_map(|rank| Input::ParentAbsent { rank }),
        10 => (peer(), message()).prop_map(|(from, message)| Input::Message { from, message }),
        1 => (rank(), 0..6u64)
            .prop_map(|(from, transfer)| Input::Corrupt { from, transfer: TransferId(transfer) }),
        1 => (rank(), path()).prop_map(|(from, path)| Input::CorruptContent { from, path }),
        1 => (path(), aspect(), prop::option::of(any::<u8>())).prop_map(|(path, aspect, byte)| {
            Input::Digested { path, aspect, digest: byte.map(|byte| Digest([byte; 32])) }
        }),
        2 => rank().prop_map(|to| Input::ChunkSent { to }),
        4 => (path(), aspect(), fact()).prop_map(|(path, aspect, fact)| Input::FactRead { path, aspect, fact }),
        4 => (path(), aspect(), head()).prop_map(|(path, aspect, head)| Input::FileOpened { path, aspect, head }),
        4 => (path(), aspect(), position())
            .prop_map(|(path, aspect, position)| Input::FileRead { path, aspect, position }),
        1 => (path(), aspect(), any::<u16>()).prop_map(|(path, aspect, errno)| Input::FileFailed { path, aspect, errno }),
        1 => (path(), aspect(), prop::option::of(head())).prop_map(|(path, aspect, head)| {
            Input::Cached { path, aspect, found: head.map(|head| (head, Digest([3; 32]))) }
        }),
        2 => (path(), 0..4u32).prop_map(|(path, block)| Input::RequestBlock { client: ClientId(0), path, block }),
        1 => (path(), block()).prop_map(|(path, block)| Input::Used { path, block }),
        1 => (0..4u32).prop_map(|number| Input::Settled { number }),
        1 => (path(), details()).prop_map(|(path, details)| Input::DetailsRead { path, details }),
        1 => (path(), block()).prop_map(|(path, block)| Input::StoreFailed { path, block }),
        1 => path().prop_map(|path| Input::EvictRefused { path }),
        1 => (path(), any::<bool>(), prop::option::of(path()))
            .prop_map(|(path, subtree, after)| Input::Clear { path, subtree, after }),
        1 => (0..400_000u64).prop_map(|store_bytes_max| Input::Room { store_bytes_max }),
        2 => (0..9u64, paths()).prop_map(|(request, paths)| Input::Refresh { request, paths }),
        1 => (0..9u64).prop_map(|generation| Input::GenerationGone { generation }),
        1 => prop::option::of(changes()).prop_map(|changes| Input::GenerationFailed { changes }),
    ]
}

fn block() -> impl Strategy<Value = Option<u32>> {
    prop::option::of(0..4u32)
}

/// A step: anything, or something that fits what the node last put out.
#[derive(Clone, Debug)]
enum Step {
    Any(Input),
    Fitting(prop::sample::Index, Fact, FileHead),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => input().prop_map(Step::Any),
        1 => (path(), 0..32u32).prop_map(|(path, want)| {
            Step::Any(Input::Request { client: ClientId(0), path, want: Want::from_bits_truncate(want) })
        }),
        9 => (any::<prop::sample::Index>(), fact(), head()).prop_map(|(at, fact, head)| Step::Fitting(at, fact, head)),
    ]
}

/// What a well-behaved neighbour would do next.
#[derive(Clone, Debug)]
enum Due {
    Fact(Path, Aspect),
    Details(Path, Vec<Box<[u8]>>),
    Open(Path, Aspect),
    Find(Path, Aspect),
    Read(Path, Aspect, FileHead, u64),
    Want(Peer, Path, Aspect),
    Up(Rank),
    Digest(Path, Aspect),
    Chunk(Rank, TransferId, FileHead, u64),
    Sent(Rank),
    Refuse(Path),
}

#[derive(Default)]
struct Neighbours {
    due: Vec<Due>,
    transfer: u64,
}

impl Neighbours {
    fn note(&mut self, output: &Output) {
        self.due.extend(match output {
            Output::ReadEntry { path } => Some(Due::Fact(path.clone(), Aspect::Entry)),
            Output::ReadListing { path } => Some(Due::Fact(path.clone(), Aspect::Listing)),
            Output::ReadDetails { path, names } => Some(Due::Details(path.clone(), names.clone())),
            Output::ReadFile { path, aspect, .. } => Some(Due::Open(path.clone(), *aspect)),
            Output::FindCached { path, aspect, .. } => Some(Due::Find(path.clone(), *aspect)),
            Output::Send { to, message: Message::Want { path, aspect, .. } } => {
                Some(Due::Want(*to, path.clone(), *aspect))
            }
            Output::Receive { from, transfer, head, position, .. } => {
                Some(Due::Chunk(*from, *transfer, head.clone(), *position))
            }
            Output::SendChunk { to, .. } | Output::SendContent { to, .. } => Some(Due::Sent(*to)),
            Output::Evict { path } => Some(Due::Refuse(path.clone())),
            Output::Dial { rank } => Some(Due::Up(*rank)),
            Output::Digest { path, aspect, .. } => Some(Due::Digest(path.clone(), *aspect)),
            _ => None,
        });
    }

    fn next(&mut self, at: prop::sample::Index, fact: Fact, head: FileHead) -> Option<Input> {
        if self.due.is_empty() {
            return None;
        }
        Some(match self.due.swap_remove(at.index(self.due.len())) {
            Due::Fact(path, aspect) => Input::FactRead { path, aspect, fact },
            Due::Details(path, names) => {
                let details = names.into_iter().map(|name| Detail { name, fact: fact.clone() }).collect();
                Input::DetailsRead { path, details }
            }
            Due::Open(path, aspect) => {
                let head = fitting(head, aspect);
                self.due.push(Due::Read(path.clone(), aspect, head.clone(), 0));
                Input::FileOpened { path, aspect, head }
            }
            Due::Find(path, aspect) => {
                let head = fitting(head, aspect);
                Input::Cached { path, aspect, found: head.format.is_multiple_of(2).then_some((head, Digest([3; 32]))) }
            }
            Due::Read(path, aspect, head, position) => {
                let total: u64 = head.ranges.iter().map(|r| r.1).sum();
                let position = (position + 131_072).min(total);
                if position < total {
                    self.due.push(Due::Read(path.clone(), aspect, head, position));
                }
                Input::FileRead { path, aspect, position }
            }
            Due::Want(from, path, Aspect::Loadable | Aspect::Whole) => {
                self.transfer += 1;
                let aspect = if head.whole { Aspect::Whole } else { Aspect::Loadable };
                if head.content_bytes() <= CHUNK_BYTES_MAX as u64 && self.transfer.is_multiple_of(2) {
                    let message = Message::Content { path, aspect, head, digest: Digest([7; 32]) };
                    return Some(Input::Message { from, message });
                }
                let transfer = TransferId(self.transfer);
                Input::Message { from, message: Message::File { transfer, path, aspect, head, position: 0 } }
            }
            Due::Want(from, path, aspect @ Aspect::Block(_)) => {
                self.transfer += 1;
                let (transfer, head) = (TransferId(self.transfer), fitting(head, aspect));
                Input::Message { from, message: Message::File { transfer, path, aspect, head, position: 0 } }
            }
            Due::Want(from, path, Aspect::Details) => {
                let details = vec![Detail { name: b"a"[..].into(), fact }];
                Input::Message {
                    from,
                    message: Message::Details { path, details: details.into(), is_last: head.whole },
                }
            }
            Due::Want(from, path, _) => Input::Message { from, message: Message::Known { path, fact } },
            Due::Chunk(from, transfer, head, position) => {
                let bytes = head.locate(position).map_or(0, |(_, in_range)| in_range.min(CHUNK_BYTES_MAX as u64));
                let from_parent = Peer::Parent(from);
                if bytes == 0 {
                    let message = Message::End { transfer, digest: Digest([7; 32]) };
                    return Some(Input::Message { from: from_parent, message });
                }
                self.due.push(Due::Chunk(from, transfer, head, position + bytes));
                let message = Message::Chunk { transfer, position, bytes: bytes as u32 };
                Input::Message { from: from_parent, message }
            }
            Due::Sent(to) => Input::ChunkSent { to },
            Due::Up(rank) => Input::PeerUp { peer: Peer::Parent(rank) },
            Due::Digest(path, aspect) => Input::Digested { path, aspect, digest: Some(Digest([7; 32])) },
            Due::Refuse(path) => Input::EvictRefused { path },
        })
    }
}

/// The head of the block that is asked for, if it is one.
fn fitting(head: FileHead, aspect: Aspect) -> FileHead {
    match aspect {
        Aspect::Block(number) => head.block(number).unwrap_or(head),
        _ => head,
    }
}

/// What the outputs have shown so far.
#[derive(Default)]
struct Watch {
    clients: BTreeSet<ClientId>,
    facts: BTreeMap<Path, Fact>,
    passthrough: BTreeSet<Path>,
    chunks: BTreeMap<Rank, usize>,
    up: BTreeSet<Peer>,
    dialled: BTreeSet<Rank>,
    generation: u64,
}

impl Watch {
    fn input(&mut self, input: &Input) {
        match input {
            Input::Request { client, .. } | Input::RequestBlock { client, .. } => {
                self.clients.insert(*client);
            }
            Input::PeerUp { peer } => {
                if let Peer::Child(rank) = peer {
                    self.chunks.remove(rank);
                }
                self.up.insert(*peer);
            }
            Input::PeerDown { peer } => {
                self.up.remove(peer);
            }
            Input::ChunkSent { to } => {
                let chunks = self.chunks.entry(*to).or_default();
                *chunks = chunks.saturating_sub(1);
            }
            _ => {}
        }
    }

    fn chunk(&mut self, config: &Config, to: Rank) {
        let chunks = self.chunks.entry(to).or_default();
        *chunks += 1;
        assert!(self.up.contains(&Peer::Child(to)));
        assert!(*chunks <= config.limits.chunks_in_flight_max, "{chunks} chunks to rank {}", to.0);
    }

    fn generation(&mut self, generation: u64, changes: Option<Vec<Change>>, passthrough: Vec<(Path, bool)>) {
        assert!(generation > self.generation);
        self.generation = generation;
        self.passthrough = passthrough.into_iter().map(|(path, _)| path).collect();
        match changes {
            Some(changes) => changes.iter().for_each(|change| drop(self.facts.remove(&change.path))),
            None => self.facts.clear(),
        }
    }

    fn output(&mut self, config: &Config, output: Output) {
        match output {
            Output::Reply { client, .. } => {
                assert!(self.clients.remove(&client), "client {} is answered twice", client.0)
            }
            Output::Send { to, .. } => assert!(self.up.contains(&to), "a message to {to:?}, which is down"),
            Output::Dial { rank } => assert!(self.dialled.insert(rank), "rank {} is dialled twice", rank.0),
            Output::HangUp { rank } => {
                // A link that came up without being dialled may be given up too.
                let was_up = self.up.remove(&Peer::Parent(rank));
                assert!(self.dialled.remove(&rank) || was_up, "rank {} was not dialled", rank.0);
            }
            Output::SendChunk { to, bytes, .. } => {
                assert!(bytes > 0 && bytes as usize <= CHUNK_BYTES_MAX);
                self.chunk(config, to);
            }
            Output::SendContent { to, aspect, head, .. } => {
                assert!(head.is_valid() && head.content_bytes() <= CHUNK_BYTES_MAX as u64);
                assert!(matches!(aspect, Aspect::Loadable | Aspect::Whole));
                self.chunk(config, to);
            }
            Output::ReadEntry { path }
            | Output::ReadListing { path }
            | Output::ReadDetails { path, .. }
            | Output::FindCached { path, .. }
            | Output::ReadFile { path, .. } => {
                assert!(path.as_bytes().starts_with(b"/sw"));
            }
            Output::Publish(Publication::Fact { path, fact }) => {
                assert!(!self.passthrough.contains(&path), "{path} is a passthrough path");
                let before = self.facts.insert(path.clone(), fact.clone());
                let grows = match (&before, &fact) {
                    (None, _) => true,
                    (Some(Fact::Attr(old)), Fact::Listing(new, _) | Fact::Unlistable(new)) => old == new,
                    _ => false,
                };
                assert!(grows, "{path} changes from {before:?} to {fact:?}");
            }
            Output::Publish(
                Publication::Content { path, head, .. }
                | Publication::Arrived { path, head, .. }
                | Publication::HardLink { path, head, .. },
            ) => {
                assert!(head.is_valid());
                assert!(matches!(self.facts.get(&path), Some(Fact::Attr(attr)) if *attr == head.attr));
            }
            Output::Publish(Publication::Block { path, block, head, .. }) => {
                assert!(head.is_valid() && head.block(block).as_ref() == Some(&head));
                let attr = matches!(self.facts.get(&path), Some(Fact::Attr(attr)) if *attr == head.attr);
                assert!(attr && block < block_count(head.attr.size));
            }
            Output::Forget { path } => assert!(self.facts.remove(&path).is_some(), "{path} was not known"),
            Output::Changed { path } | Output::TimeRead { path, .. } => assert!(path.as_bytes().starts_with(b"/sw")),
            Output::Publish(Publication::Passthrough { path, .. }) => drop(self.passthrough.replace(path)),
            Output::Disconnect { peer, .. } => drop(self.up.remove(&peer)),
            Output::Receive { head, .. } => assert!(head.is_valid()),
            Output::Generation { generation, changes, passthrough: all } => self.generation(generation, changes, all),
            Output::Refreshed { generation, .. } => assert_eq!(generation, self.generation.max(1)),
            Output::RefreshFailed { .. }
            | Output::Settle { .. }
            | Output::Publish(Publication::Unaudited | Publication::Direct { .. } | Publication::InMount { .. })
            | Output::DropLookupCache
            | Output::Digest { .. }
            | Output::Mismatch { .. }
            | Output::Discard { .. }
            | Output::Evict { .. }
            | Output::Cleared { .. } => {}
        }
    }
}

fn play(rank: u32, shape: Shape, policy: Policy, is_small: bool, steps: Vec<(u16, Step)>) {
    let store_bytes_max = if is_small { 300_120 } else { 10_000_000 };
    let limits = Limits {
        has_cache: is_small,
        compared_file_bytes_min: if rank == 1 { 200_000 } else { u64::MAX },
        mounted_file_bytes_min: if rank == 2 { 200_000 } else { u64::MAX },
        stored: Stored { file_bytes_max: if rank == 0 { 250_000 } else { u64::MAX }, ..Stored::ALL },
        store_bytes_max,
        clients_waiting_max: 10,
        pending_max: 12,
        transfers_max: 4,
        entries_max: 7,
        facts_max: if is_small { 4 } else { usize::MAX },
        listing_bytes_max: if is_small { 300 } else { u64::MAX },
        details_names_max: 10,
        ahead_files_max: 4,
        ahead_bytes_max: 1 << 20,
        blocks_ahead_max: 2,
        chunks_in_flight_max: 2,
        reads_in_flight_max: 2,
        links_followed_max: 5,
        request_timeout_ms_max: 300,
        parent_absence_ms_max: if is_small { 100 } else { 0 },
        starting_ms_max: 100,
        quiet_ms_max: 50,
        probe_ms_max: 50,
        ban_ms: 100,
        piece_bytes_max: 200_000,
        blocks_downloading_max: 2,
        striped_block_min: 16,
    };
    let scope = vec![(true, Path::new(b"/sw").unwrap()), (false, Path::new(b"/sw/d/e").unwrap())];
    let config = Config { rank: Rank(rank), forest: Forest::new(7, 0, shape), session: 1, policy, limits, scope };
    let (mut node, mut watch, mut now) = (Node::new(config.clone(), 1), Watch::default(), 0);
    let mut neighbours = Neighbours::default();
    let trees = || config.forest.tree_ids().filter(|tree| config.forest.contains(*tree, config.rank));
    let children: BTreeSet<Rank> = trees().flat_map(|tree| config.forest.children(tree, config.rank)).collect();
    let parents: BTreeSet<Rank> = trees().filter_map(|tree| config.forest.parent(tree, config.rank)).collect();
    let children = children.into_iter().map(Peer::Child);
    let up: Vec<Peer> = children.chain(parents.into_iter().map(Peer::Parent)).collect();
    let start = up.into_iter().map(|peer| Input::PeerUp { peer });
    let start = start.map(|input| (0, Step::Any(input)));
    for (number, (after, step)) in start.chain(steps).enumerate() {
        now += u64::from(after);
        let input = match step {
            Step::Any(Input::Request { path, want, .. }) => {
                Some(Input::Request { client: ClientId(number as u64), path, want })
            }
            Step::Any(Input::RequestBlock { path, block, .. }) => {
                Some(Input::RequestBlock { client: ClientId(number as u64), path, block })
            }
            Step::Any(input) => Some(input),
            Step::Fitting(at, fact, head) => neighbours.next(at, fact, head),
        };
        if node.poll_timeout().is_some_and(|due| due <= now) {
            node.handle_timeout(now);
        } else if let Some(input) = input {
            watch.input(&input);
            node.handle(now, input);
        }
        while let Some(output) = node.poll_output() {
            neighbours.note(&output);
            watch.output(&config, output);
        }
        assert!(node.stats().entries <= 7 && node.stats().store_bytes <= 2 * store_bytes_max);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_inputs_are_survived(
        rank in prop::sample::select(&[0u32, 1, 1, 6][..]),
        shape in prop::sample::select(&[
            Shape::Single(Branching::KAry(2)),
            Shape::Striped { trees: 3, readers: 2 },
            Shape::Partitioned { groups: 2, branching: Branching::KAry(2) },
        ][..]),
        policy in prop::sample::select(&[Policy::Push, Policy::Pull, Policy::Adaptive][..]),
        is_small in any::<bool>(),
        steps in prop::collection::vec((0..30u16, step()), 0..200),
    ) {
        play(rank, shape, policy, is_small, steps);
    }
}
