//! Any sequence of inputs: the node never panics, answers each client at most once, publishes one
//! version, and keeps its bounds, whatever its peers, its reader and its store come up with.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use headwater_abi::attr::mode;
use headwater_abi::wire::{Aspect, CHUNK_BYTES_MAX, Fact, FileHead, Message, TransferId};
use headwater_abi::{Attr, Listing, Name, Path, Want};
use headwater_proto::{ClientId, Config, Input, Limits, Node, Output, Policy, Publication, Rank, Topology};
use proptest::prelude::*;

const PATHS: [&str; 12] = [
    "/sw", "/sw/a", "/sw/b", "/sw/d", "/sw/d/a", "/sw/d/b", "/sw/l", "/sw/l/a", "/sw/x/../a", "/sw/d/e/f", "/etc/x", "/",
];

fn path() -> impl Strategy<Value = Path> {
    prop::sample::select(&PATHS[..]).prop_map(|text| Path::new(text.as_bytes()).unwrap())
}

fn attr() -> impl Strategy<Value = Attr> {
    let kind = prop::sample::select(&[mode::FILE, mode::FILE, mode::DIR, mode::LINK, 0o140_000][..]);
    (kind, 0..3u64, 0..3u64, 1..3u32).prop_map(|(kind, ino, size, nlink)| Attr {
        mode: kind,
        ino,
        size: [0, 100, 300_000][size as usize],
        nlink,
        ..Attr::default()
    })
}

fn fact() -> impl Strategy<Value = Fact> {
    let names = prop::collection::vec((prop::sample::select(&["a", "b", "d", "l", "", "x/y"][..]), 0..12u8, 0..3u64), 0..5);
    let target = prop::sample::select(&["d", "/sw/d", "..", "l", "", "/etc", "../sw/l/a"][..]);
    prop_oneof![
        Just(Fact::Absent),
        (0..40u16).prop_map(Fact::Error),
        attr().prop_map(Fact::Attr),
        (attr(), target).prop_map(|(attr, target)| Fact::Link(attr, target.as_bytes().into())),
        attr().prop_map(Fact::Unlistable),
        (attr(), names).prop_map(|(attr, names)| {
            let names = names.into_iter().map(|(name, d_type, ino)| Name { ino, d_type, name: name.as_bytes().into() });
            Fact::Listing(attr, Arc::new(Listing { names: names.collect() }))
        }),
    ]
}

fn head() -> impl Strategy<Value = FileHead> {
    let ranges = prop::collection::vec((0..400u64, 0..200u64), 0..3);
    let odd = (attr(), ranges, any::<bool>())
        .prop_map(|(attr, ranges, whole)| FileHead { attr, format: 0, ranges: ranges.into(), whole });
    let whole = attr().prop_map(|attr| {
        let ranges: Vec<(u64, u64)> = (attr.size > 0).then_some((0, attr.size)).into_iter().collect();
        FileHead { attr, format: 0, ranges: ranges.into(), whole: true }
    });
    let part = attr().prop_map(|attr| {
        let ranges: Vec<(u64, u64)> = (attr.size > 50).then_some((10, 40)).into_iter().collect();
        FileHead { attr, format: 0, ranges: ranges.into(), whole: false }
    });
    prop_oneof![1 => odd, 4 => whole, 4 => part]
}

fn aspect() -> impl Strategy<Value = Aspect> {
    prop::sample::select(&[Aspect::Entry, Aspect::Listing, Aspect::Loadable, Aspect::Whole][..])
}

fn position() -> impl Strategy<Value = u64> {
    prop::sample::select(&[0, 0, 0, 40, 50, 100, 131_072, 300_000, u64::MAX][..])
}

fn bytes() -> impl Strategy<Value = u32> {
    prop::sample::select(&[0, 40, 100, 131_072, 300_000, u32::MAX][..])
}

fn rank() -> impl Strategy<Value = Rank> {
    (0..8u32).prop_map(Rank)
}

fn message() -> impl Strategy<Value = Message> {
    let transfer = || (0..6u64).prop_map(TransferId);
    prop_oneof![
        4 => (path(), aspect(), position()).prop_map(|(path, aspect, position)| Message::Want { path, aspect, position }),
        1 => transfer().prop_map(|transfer| Message::Cancel { transfer }),
        6 => (path(), fact()).prop_map(|(path, fact)| Message::Known { path, fact }),
        6 => (transfer(), path(), aspect(), head(), position(), any::<bool>()).prop_map(
            |(transfer, path, aspect, head, position, is_sane)| {
                let right = if head.whole { Aspect::Whole } else { Aspect::Loadable };
                let (aspect, position) = if is_sane { (right, 0) } else { (aspect, position) };
                Message::File { transfer, path, aspect, head, position }
            }
        ),
        6 => (transfer(), position(), bytes())
            .prop_map(|(transfer, position, bytes)| Message::Chunk { transfer, position, bytes }),
        1 => (transfer(), any::<u16>()).prop_map(|(transfer, errno)| Message::Failed { transfer, errno }),
        1 => (path(), aspect()).prop_map(|(path, aspect)| Message::Unavailable { path, aspect }),
        1 => (path(), any::<bool>()).prop_map(|(path, tree)| Message::Live { path, tree }),
        1 => Just(Message::Alive),
    ]
}

fn input() -> impl Strategy<Value = Input> {
    prop_oneof![
        6 => (path(), 0..256u32).prop_map(|(path, want)| {
            // The client's number is set when the input is given.
            let live = Want::LIVE | Want::TREE;
            let want = Want::from_bits_truncate(want);
            let want = if want.contains(live) { want } else { want - live };
            Input::Request { client: ClientId(0), path, want }
        }),
        1 => (0..30u64).prop_map(|client| Input::ClientGone { client: ClientId(client) }),
        3 => rank().prop_map(|rank| Input::PeerUp { rank }),
        1 => rank().prop_map(|rank| Input::PeerDown { rank }),
        10 => (prop::sample::select(&[0, 0, 3, 4, 1, 2, 5][..]), message())
            .prop_map(|(from, message)| Input::Message { from: Rank(from), message }),
        2 => rank().prop_map(|to| Input::ChunkSent { to }),
        4 => (path(), aspect(), fact()).prop_map(|(path, aspect, fact)| Input::FactRead { path, aspect, fact }),
        4 => (path(), aspect(), head()).prop_map(|(path, aspect, head)| Input::FileOpened { path, aspect, head }),
        4 => (path(), aspect(), position())
            .prop_map(|(path, aspect, position)| Input::FileRead { path, aspect, position }),
        1 => (path(), aspect(), any::<u16>()).prop_map(|(path, aspect, errno)| Input::FileFailed { path, aspect, errno }),
        1 => path().prop_map(|path| Input::StoreFailed { path }),
        1 => path().prop_map(|path| Input::EvictRefused { path }),
    ]
}

/// What the outputs have said so far.
#[derive(Default)]
struct Watch {
    clients: BTreeSet<ClientId>,
    facts: BTreeMap<Path, Fact>,
    live: BTreeSet<Path>,
    chunks: BTreeMap<Rank, usize>,
    up: BTreeSet<Rank>,
}

impl Watch {
    fn input(&mut self, input: &Input) {
        match input {
            Input::Request { client, .. } => {
                self.clients.insert(*client);
            }
            Input::PeerUp { rank } => {
                self.chunks.remove(rank);
                self.up.insert(*rank);
            }
            Input::PeerDown { rank } => {
                self.up.remove(rank);
            }
            Input::ChunkSent { to } => {
                let chunks = self.chunks.entry(*to).or_default();
                *chunks = chunks.saturating_sub(1);
            }
            _ => {}
        }
    }

    fn output(&mut self, config: &Config, output: Output) {
        eprintln!("OUT {}", format!("{output:?}").chars().take(22).collect::<String>());
        match output {
            Output::Reply { client, .. } => assert!(self.clients.remove(&client), "client {} is answered twice", client.0),
            Output::Send { to, .. } => assert!(self.up.contains(&to), "a message to rank {}, which is down", to.0),
            Output::SendChunk { to, bytes, .. } => {
                let chunks = self.chunks.entry(to).or_default();
                *chunks += 1;
                assert!(self.up.contains(&to) && bytes > 0 && bytes as usize <= CHUNK_BYTES_MAX);
                assert!(*chunks <= config.limits.chunks_in_flight_max, "{chunks} chunks to rank {}", to.0);
            }
            Output::ReadEntry { path } | Output::ReadListing { path } | Output::ReadFile { path, .. } => {
                assert_eq!(config.rank, Rank::ROOT);
                assert!(path.as_bytes().starts_with(b"/sw"));
            }
            Output::Publish(Publication::Fact { path, fact }) => {
                assert!(!self.live.contains(&path), "{path} is live");
                let before = self.facts.insert(path.clone(), fact.clone());
                let grows = match (&before, &fact) {
                    (None, _) => true,
                    (Some(Fact::Attr(old)), Fact::Listing(new, _) | Fact::Unlistable(new)) => old == new,
                    _ => false,
                };
                assert!(grows, "{path} changes from {before:?} to {fact:?}");
            }
            Output::Publish(Publication::Content { path, head, .. } | Publication::HardLink { path, head, .. }) => {
                assert!(head.is_valid());
                assert!(matches!(self.facts.get(&path), Some(Fact::Attr(attr)) if *attr == head.attr));
            }
            Output::Publish(Publication::Live { path, .. }) => {
                self.live.insert(path);
            }
            Output::Disconnect { rank, .. } => {
                self.up.remove(&rank);
            }
            Output::Receive { head, .. } => assert!(head.is_valid()),
            Output::Discard { .. } | Output::Evict { .. } => {}
        }
    }
}

fn play(rank: u32, policy: Policy, inputs: Vec<(u16, Input)>) {
    let limits = Limits {
        store_bytes_max: 300_050,
        clients_waiting_max: 10,
        entries_max: 7,
        chunks_in_flight_max: 2,
        reads_in_flight_max: 2,
        links_followed_max: 5,
        request_timeout_ms_max: 300,
    };
    let scope = vec![(true, Path::new(b"/sw").unwrap()), (false, Path::new(b"/sw/d/e").unwrap())];
    let config =
        Config { rank: Rank(rank), topology: Topology::new(7, 2), session: 1, policy, limits, scope };
    let (mut node, mut watch, mut now) = (Node::new(config.clone(), 1), Watch::default(), 0);
    for (number, (after, mut input)) in inputs.into_iter().enumerate() {
        now += u64::from(after);
        if let Input::Request { client, .. } = &mut input {
            *client = ClientId(number as u64);
        }
        if node.poll_timeout().is_some_and(|due| due <= now) {
            node.handle_timeout(now);
            std::iter::from_fn(|| node.poll_output()).for_each(|output| watch.output(&config, output));
        }
        watch.input(&input);
        node.handle(now, input);
        std::iter::from_fn(|| node.poll_output()).for_each(|output| watch.output(&config, output));
        assert!(node.stats().entries <= 7 && node.stats().store_bytes <= 2 * 300_050);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40000))]

    #[test]
    fn any_inputs_are_survived(
        rank in prop::sample::select(&[0u32, 1, 1, 6][..]),
        policy in prop::sample::select(&[Policy::Push, Policy::Pull, Policy::Adaptive][..]),
        inputs in prop::collection::vec((0..60u16, input()), 0..150),
    ) {
        play(rank, policy, inputs);
    }
}
