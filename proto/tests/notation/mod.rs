//! The notation of transcripts: one input a line, one output a line.
//!
//! Facts: `absent`, `error N`, `file INO SIZE [links N]`, `dir INO`, `listing INO NAME…` (a name ends
//! in `/` for a directory, `@` for a link, `?` for an unknown type, `#INO` for its inode; `NAME*N` are
//! N names), `unlistable INO`, `link INO TARGET`. Heads: `INO SIZE whole [links N]`,
//! `INO SIZE OFFSET+BYTES,…`. Details: `NAME:INO:SIZE`, where `NAME*N` are N files, then `last` if they
//! are the last. Aspects: `entry`, `names`, `loadable`, `whole`, `details`, `block-N`.

mod refresh;

use std::cell::Cell;

use headwater_abi::attr::mode;
use headwater_abi::listing::d_type;
use headwater_abi::wire::{Aspect, Detail, Digest, Fact, FileHead, Message, TransferId};
use headwater_abi::{Attr, Kind, Listing, Name, Path, Want};
use headwater_proto::topology::Branching;
use headwater_proto::{ClientId, Config, Forest, Input, Limits, Output, Peer, Policy, Publication, Rank, Reply, Shape};

pub type Words<'a> = std::str::SplitWhitespace<'a>;

thread_local! {
    /// The rank of the node that is played.
    static OWN: Cell<Rank> = const { Cell::new(Rank(0)) };
}

pub fn config(mut words: Words<'_>) -> Config {
    let rank = Rank(number(&mut words) as u32);
    OWN.set(rank);
    let ranks = number(&mut words) as u32;
    let mut config = Config {
        rank,
        forest: single(ranks, 2),
        session: 1,
        policy: Policy::Pull,
        limits: Limits::default(),
        scope: Vec::new(),
    };
    while let Some(word) = words.next() {
        let limits = &mut config.limits;
        match word {
            "push" => config.policy = Policy::Push,
            "adaptive" => config.policy = Policy::Adaptive,
            "fan-out" => config.forest = single(ranks, number(&mut words) as u32),
            "trees" => {
                let shape = Shape::Striped { trees: number(&mut words) as u32, readers: number(&mut words) as u32 };
                config.forest = Forest::new(ranks, 0, shape);
            }
            "groups" => {
                let shape = Shape::Partitioned { groups: number(&mut words) as u32, branching: Branching::KAry(2) };
                config.forest = Forest::new(ranks, 0, shape);
            }
            "absence" => limits.parent_absence_ms_max = number(&mut words),
            "piece" => limits.piece_bytes_max = number(&mut words),
            "downloading" => limits.blocks_downloading_max = number(&mut words) as usize,
            "cache" => limits.has_cache = true,
            "compared-file" => limits.compared_file_bytes_min = number(&mut words),
            "mounted-file" => limits.mounted_file_bytes_min = number(&mut words),
            "stored-file" => limits.stored.file_bytes_max = number(&mut words),
            "serve" => limits.stored.kinds = words.next().expect("kinds").parse().expect("kinds"),
            "store" => limits.store_bytes_max = number(&mut words),
            "chunks" => limits.chunks_in_flight_max = number(&mut words) as usize,
            "reads" => limits.reads_in_flight_max = number(&mut words) as usize,
            "clients" => limits.clients_waiting_max = number(&mut words) as usize,
            "entries" => limits.entries_max = number(&mut words) as usize,
            "facts" => limits.facts_max = number(&mut words) as usize,
            "listings" => limits.listing_bytes_max = number(&mut words),
            "details" => limits.details_names_max = number(&mut words) as usize,
            "ahead" => limits.ahead_files_max = number(&mut words) as usize,
            "blocks-ahead" => limits.blocks_ahead_max = number(&mut words) as u32,
            scope => config.scope.push((scope.starts_with('+'), path(&scope[1..]))),
        }
    }
    config
}

fn single(ranks: u32, fan_out: u32) -> Forest {
    Forest::new(ranks, 0, Shape::Single(Branching::KAry(fan_out)))
}

pub fn input(line: &str) -> Input {
    let mut words = line.split_whitespace();
    let w = &mut words;
    match w.next().unwrap() {
        "request" => Input::Request { client: ClientId(number(w)), path: path_in(w), want: want(w.next().unwrap()) },
        "request-block" => {
            Input::RequestBlock { client: ClientId(number(w)), path: path_in(w), block: number(w) as u32 }
        }
        "preload-block" => {
            let (client, path) = (ClientId(number(w)), path_in(w));
            Input::Preload { client, path, want: Want::ATTR | Want::NO_FOLLOW, block: Some(number(w) as u32) }
        }
        "used" => Input::Used { path: path_in(w), block: w.next().map(|block| parse(block) as u32) },
        "gone" => Input::ClientGone { client: ClientId(number(w)) },
        "up" => Input::PeerUp { peer: peer(w) },
        "down" => Input::PeerDown { peer: peer(w) },
        "absent" => Input::ParentAbsent { rank: rank(w) },
        "from" => Input::Message { from: peer(w), message: message(w) },
        "corrupt" => Input::Corrupt { from: rank(w), transfer: TransferId(number(w)) },
        "corrupt-content" => Input::CorruptContent { from: rank(w), path: path_in(w) },
        "digested" => {
            let (path, aspect) = (path_in(w), aspect(w));
            let digest = w.next().map(|byte| digest(parse(byte)));
            Input::Digested { path, aspect, digest }
        }
        "sent" => Input::ChunkSent { to: rank(w) },
        "entry" => Input::FactRead { path: path_in(w), aspect: Aspect::Entry, fact: fact(w) },
        "names" => Input::FactRead { path: path_in(w), aspect: Aspect::Listing, fact: fact(w) },
        "details" => Input::DetailsRead { path: path_in(w), details: details(w).0 },
        "opened" => Input::FileOpened { path: path_in(w), aspect: aspect(w), head: head(w) },
        "read" => Input::FileRead { path: path_in(w), aspect: aspect(w), position: number(w) },
        "failed" => Input::FileFailed { path: path_in(w), aspect: aspect(w), errno: number(w) as u16 },
        "cached" => {
            let (path, aspect) = (path_in(w), aspect(w));
            Input::Cached { path, aspect, found: Some((head(w), Digest([0; 32]))) }
        }
        "timed" => {
            let (path, us) = (path_in(w), number(w));
            Input::ReadTimed { path, us: (us > 0).then_some(us) }
        }
        "not-cached" => Input::Cached { path: path_in(w), aspect: aspect(w), found: None },
        "store-failed" => Input::StoreFailed { path: path_in(w), block: w.next().map(|block| parse(block) as u32) },
        "refused" => Input::EvictRefused { path: path_in(w) },
        other => refresh::input(other, w).unwrap_or_else(|| panic!("no such input: {other}")),
    }
}

fn message(w: &mut Words<'_>) -> Message {
    match w.next().unwrap() {
        "want" => {
            let (path, aspect) = (path_in(w), aspect(w));
            let (mut tree, mut position, mut only_stored) = (0, 0, false);
            while let Some(word) = w.next() {
                match word {
                    "tree" => tree = number(w) as u32,
                    "position" => position = number(w),
                    "only-stored" => only_stored = true,
                    other => panic!("no such thing about a want: {other}"),
                }
            }
            Message::Want { tree, path, aspect, position, only_stored }
        }
        "join" => {
            let words: Vec<&str> = w.collect();
            let trees = words.iter().filter_map(|word| word.parse().ok()).collect();
            Message::Join { trees, is_control: words.contains(&"control"), is_reader: words.contains(&"reader") }
        }
        "end" => Message::End { transfer: TransferId(number(w)), digest: digest(number(w)) },
        "again" => Message::Again { transfer: TransferId(number(w)) },
        "alive" => Message::Alive,
        "probe" => Message::Probe,
        "large" => {
            let (path, head) = (path_in(w), head(w));
            let aspect = if head.whole { Aspect::Whole } else { Aspect::Loadable };
            Message::Large { path, aspect, head }
        }
        "cancel" => Message::Cancel { transfer: TransferId(number(w)) },
        "known" => Message::Known { path: path_in(w), fact: fact(w) },
        "content" => {
            let (path, head) = (path_in(w), head(w));
            let aspect = if head.whole { Aspect::Whole } else { Aspect::Loadable };
            Message::Content { path, aspect, head, digest: digest(number(w)) }
        }
        "file" => {
            let (transfer, path) = (TransferId(number(w)), path_in(w));
            let head = head(w);
            let right = if head.whole { Aspect::Whole } else { Aspect::Loadable };
            let (mut aspect, mut position) = (right, 0);
            while let Some(word) = w.next() {
                match word {
                    "position" => position = number(w),
                    word => aspect = aspect_called(word),
                }
            }
            Message::File { transfer, path, aspect, head, position }
        }
        "details" => {
            let path = path_in(w);
            let (details, is_last) = details(w);
            Message::Details { path, details: details.into(), is_last }
        }
        "chunk" => Message::Chunk { transfer: TransferId(number(w)), position: number(w), bytes: number(w) as u32 },
        "failed" => Message::Failed { transfer: TransferId(number(w)), errno: number(w) as u16 },
        "unavailable" => Message::Unavailable { path: path_in(w), aspect: aspect(w) },
        "unaudited" => Message::Unaudited,
        "confirm" => Message::Confirm { number: number(w) as u32 },
        "confirmed" => Message::Confirmed { number: number(w) as u32 },
        "compare" => {
            let (path, ino, size) = (path_in(w), number(w), number(w));
            Message::Compare { path, attr: attr(mode::FILE, ino, size, 1) }
        }
        "passthrough" => Message::Passthrough { path: path_in(w), tree: w.next() == Some("tree") },
        other => refresh::message(other, w).unwrap_or_else(|| panic!("no such message: {other}")),
    }
}

fn fact(w: &mut Words<'_>) -> Fact {
    match w.next().unwrap() {
        "absent" => Fact::Absent,
        "error" => Fact::Error(number(w) as u16),
        "file" => {
            let (ino, size) = (number(w), number(w));
            Fact::Attr(attr(mode::FILE, ino, size, links(w)))
        }
        "dir" => Fact::Attr(attr(mode::DIR, number(w), 0, 2)),
        "unlistable" => Fact::Unlistable(attr(mode::DIR, number(w), 0, 2)),
        "link" => {
            let ino = number(w);
            Fact::Link(attr(mode::LINK, ino, 0, 1), w.next().unwrap().as_bytes().into())
        }
        "listing" => {
            let ino = number(w);
            let names: Vec<(u64, u8, String)> = w.flat_map(several).map(|word| name(&word)).collect();
            let names =
                names.iter().map(|(ino, d_type, name)| Name { ino: *ino, d_type: *d_type, name: name.as_bytes() });
            Fact::Listing(attr(mode::DIR, ino, 0, 2), names.collect::<Listing>())
        }
        other => panic!("no such fact: {other}"),
    }
}

/// Returns the words that one stands for: `f*3` for `f0`, `f1`, `f2`.
fn several(word: &str) -> Vec<String> {
    match word.split_once('*') {
        None => vec![word.to_owned()],
        Some((name, rest)) => {
            let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
            (0..parse(&rest[..digits])).map(|n| format!("{name}{n}{}", &rest[digits..])).collect()
        }
    }
}

fn details(w: &mut Words<'_>) -> (Vec<Detail>, bool) {
    let (mut details, mut is_last) = (Vec::new(), false);
    for word in w {
        if word == "last" {
            is_last = true;
            continue;
        }
        for word in several(word) {
            let mut parts = word.split(':');
            let name = parts.next().unwrap().as_bytes().into();
            let (ino, size) = (parse(parts.next().unwrap()), parse(parts.next().unwrap()));
            details.push(Detail { name, fact: Fact::Attr(attr(mode::FILE, ino, size, 1)) });
        }
    }
    (details, is_last)
}

fn name(word: &str) -> (u64, u8, String) {
    let (word, ino) = word.split_once('#').map_or((word, 0), |(word, ino)| (word, parse(ino)));
    let (name, d_type) = match word.char_indices().last().unwrap() {
        (end, '/') => (&word[..end], d_type::DIR),
        (end, '@') => (&word[..end], d_type::LINK),
        (end, '?') => (&word[..end], d_type::UNKNOWN),
        _ => (word, d_type::FILE),
    };
    (ino, d_type, name.to_owned())
}

fn head(w: &mut Words<'_>) -> FileHead {
    let (ino, size) = (number(w), number(w));
    let ranges = w.next().unwrap();
    let whole = ranges == "whole";
    let ranges: Vec<(u64, u64)> = match ranges {
        "whole" if size == 0 => Vec::new(),
        "whole" => vec![(0, size)],
        list => list.split(',').map(|r| r.split_once('+').unwrap()).map(|(o, b)| (parse(o), parse(b))).collect(),
    };
    FileHead { attr: attr(mode::FILE, ino, size, links(w)), format: 0, ranges: ranges.into(), whole }
}

fn attr(mode: u32, ino: u64, size: u64, nlink: u32) -> Attr {
    Attr { mode: mode | 0o755, nlink, ino, size, ..Attr::default() }
}

fn links(w: &mut Words<'_>) -> u32 {
    if w.clone().next() != Some("links") {
        return 1;
    }
    w.next();
    number(w) as u32
}

fn aspect(w: &mut Words<'_>) -> Aspect {
    aspect_called(w.next().unwrap())
}

fn aspect_called(word: &str) -> Aspect {
    match word {
        "entry" => Aspect::Entry,
        "names" => Aspect::Listing,
        "loadable" => Aspect::Loadable,
        "whole" => Aspect::Whole,
        "details" => Aspect::Details,
        other if other.starts_with("block-") => Aspect::Block(parse(&other[6..]) as u32),
        other => panic!("no such aspect: {other}"),
    }
}

fn want(word: &str) -> Want {
    word.split('|').map(|w| Want::from_name(&w.to_uppercase().replace('-', "_")).unwrap()).collect()
}

fn path_in(w: &mut Words<'_>) -> Path {
    path(w.next().unwrap())
}

fn path(text: &str) -> Path {
    Path::new(text.as_bytes()).unwrap()
}

/// Returns the digest that a byte stands for.
fn digest(byte: u64) -> Digest {
    Digest([byte as u8; 32])
}

/// Reads a peer: `parent-N`, `child-N`, or `N`, which is a parent if it is nearer to the root of a single
/// tree.
fn peer(w: &mut Words<'_>) -> Peer {
    let word = w.next().unwrap();
    match word.split_once('-') {
        Some(("parent", rank)) => Peer::Parent(Rank(parse(rank) as u32)),
        Some(("child", rank)) => Peer::Child(Rank(parse(rank) as u32)),
        _ => {
            let rank = Rank(parse(word) as u32);
            if rank < OWN.get() { Peer::Parent(rank) } else { Peer::Child(rank) }
        }
    }
}

fn show_peer(peer: Peer) -> String {
    let rank = peer.rank();
    match peer {
        Peer::Parent(_) if rank < OWN.get() => rank.0.to_string(),
        Peer::Child(_) if rank >= OWN.get() => rank.0.to_string(),
        Peer::Parent(_) => format!("parent-{}", rank.0),
        Peer::Child(_) => format!("child-{}", rank.0),
    }
}

fn rank(w: &mut Words<'_>) -> Rank {
    Rank(number(w) as u32)
}

fn number(w: &mut Words<'_>) -> u64 {
    parse(w.next().unwrap())
}

fn parse(word: &str) -> u64 {
    word.parse().unwrap_or_else(|_| panic!("not a number: {word}"))
}

pub fn show(output: &Output) -> String {
    match output {
        Output::Reply { client, reply: Reply::Done } => format!("reply {} done", client.0),
        Output::Reply { client, reply: Reply::Fallback } => format!("reply {} fallback", client.0),
        Output::Dial { rank } => format!("dial {}", rank.0),
        Output::HangUp { rank } => format!("hang-up {}", rank.0),
        Output::Mismatch { path, from } => format!("mismatch {path} from {}", from.0),
        Output::Digest { path, aspect, head } => format!("digest {path} {} {}", show_aspect(*aspect), show_head(head)),
        Output::Send { to, message } => format!("to {} {}", show_peer(*to), show_message(message)),
        Output::SendChunk { to, transfer, path, position, offset, bytes, .. } => {
            let to = show_peer(Peer::Child(*to));
            format!("to {to} chunk {} {path} position {position} offset {offset} bytes {bytes}", transfer.0)
        }
        Output::SendContent { to, path, head, digest, .. } => {
            format!("to {} content {path} {} {}", show_peer(Peer::Child(*to)), show_head(head), digest.0[0])
        }
        Output::ReadEntry { path } => format!("read-entry {path}"),
        Output::ReadListing { path } => format!("read-listing {path}"),
        Output::ReadDetails { path, names } => {
            format!("read-details {path} {}", show_names(names.iter().map(|n| &**n)))
        }
        Output::ReadFile { path, aspect, have, .. } => {
            let have = have.as_ref().map_or(String::new(), |head| format!(" have {}", show_head(head)));
            format!("read-file {path} {}{have}", show_aspect(*aspect))
        }
        Output::TimeRead { path, offset, bytes } => format!("time-read {path} {offset}+{bytes}"),
        Output::FindCached { path, aspect, have, .. } => {
            let have = have.as_ref().map_or(String::new(), |head| format!(" have {}", show_head(head)));
            format!("find-cached {path} {}{have}", show_aspect(*aspect))
        }
        Output::Receive { from, transfer, path, block, head, position, have } => {
            let (block, position) = (show_block(*block), show_position(*position));
            let have = have.as_ref().map_or(String::new(), |head| format!(" have {}", show_head(head)));
            format!("receive {} from {} {path} {}{block}{position}{have}", transfer.0, from.0, show_head(head))
        }
        Output::Discard { path, block } => format!("discard {path}{}", show_block(*block)),
        Output::Forget { path } => format!("forget {path}"),
        Output::Changed { path } => format!("changed {path}"),
        Output::Publish(publication) => format!("publish {}", show_publication(publication)),
        Output::Evict { path } => format!("evict {path}"),
        Output::Disconnect { peer, reason } => format!("disconnect {}: {reason}", show_peer(*peer)),
        other => refresh::show(other).expect("every output is shown"),
    }
}

fn show_publication(publication: &Publication) -> String {
    match publication {
        Publication::Fact { path, fact } => format!("{path} {}", show_fact(fact)),
        Publication::Content { path, aspect, head, is_marked } => {
            format!("{path} {} {}{}", show_aspect(*aspect), show_head(head), if *is_marked { " marked" } else { "" })
        }
        Publication::Arrived { path, aspect, head, have, is_marked } => {
            let have = have.as_ref().map_or(String::new(), |head| format!(" have {}", show_head(head)));
            let marked = if *is_marked { " marked" } else { "" };
            format!("{path} {} {} arrived{have}{marked}", show_aspect(*aspect), show_head(head))
        }
        Publication::Block { path, block, head, is_marked } => {
            format!("{path} block-{block} {}{}", show_head(head), if *is_marked { " marked" } else { "" })
        }
        Publication::HardLink { path, target, aspect, .. } => {
            format!("{path} {} hard-link {target}", show_aspect(*aspect))
        }
        Publication::Direct { path } => format!("{path} direct"),
        Publication::InMount { path, .. } => format!("{path} in-mount"),
        Publication::Unaudited => "unaudited".into(),
        Publication::Passthrough { path, tree } => format!("{path} passthrough{}", if *tree { " tree" } else { "" }),
    }
}

fn show_message(message: &Message) -> String {
    match message {
        Message::Want { tree, path, aspect, position, only_stored } => {
            let tree = if *tree > 0 { format!(" tree {tree}") } else { String::new() };
            let stored = if *only_stored { " only-stored" } else { "" };
            format!("want {path} {}{tree}{}{stored}", show_aspect(*aspect), show_position(*position))
        }
        Message::Join { trees, is_control, is_reader } => {
            let trees: String = trees.iter().map(|tree| format!(" {tree}")).collect();
            let control = if *is_control { " control" } else { "" };
            format!("join{trees}{control}{}", if *is_reader { " reader" } else { "" })
        }
        Message::End { transfer, digest } => format!("end {} {}", transfer.0, digest.0[0]),
        Message::Again { transfer } => format!("again {}", transfer.0),
        Message::Large { path, head, .. } => format!("large {path} {}", show_head(head)),
        Message::Alive => "alive".into(),
        Message::Probe => "probe".into(),
        Message::Known { path, fact } => format!("known {path} {}", show_fact(fact)),
        Message::File { transfer, path, head, aspect, position } => {
            let aspect = if let Aspect::Block(block) = aspect { format!(" block-{block}") } else { String::new() };
            format!("file {} {path} {}{aspect}{}", transfer.0, show_head(head), show_position(*position))
        }
        Message::Details { path, details, is_last } => {
            let names = show_names(details.iter().map(|detail| &*detail.name));
            format!("details {path} {names}{}", if *is_last { " last" } else { "" })
        }
        Message::Cancel { transfer } => format!("cancel {}", transfer.0),
        Message::Failed { transfer, errno } => format!("failed {} {errno}", transfer.0),
        Message::Unavailable { path, aspect } => format!("unavailable {path} {}", show_aspect(*aspect)),
        Message::Unaudited => "unaudited".into(),
        Message::Confirm { number } => format!("confirm {number}"),
        Message::Confirmed { number } => format!("confirmed {number}"),
        Message::Compare { path, attr } => format!("compare {path} {} {}", attr.ino, attr.size),
        Message::Passthrough { path, tree } => format!("passthrough {path}{}", if *tree { " tree" } else { "" }),
        other => refresh::show_message(other).unwrap_or_else(|| format!("{other:?}")),
    }
}

fn show_fact(fact: &Fact) -> String {
    match fact {
        Fact::Absent => "absent".into(),
        Fact::Error(errno) => format!("error {errno}"),
        Fact::Attr(attr) if attr.kind() == Kind::Dir => format!("dir {}", attr.ino),
        Fact::Attr(attr) => format!("file {} {}", attr.ino, attr.size),
        Fact::Link(attr, target) => format!("link {} {}", attr.ino, String::from_utf8_lossy(target)),
        Fact::Unlistable(attr) => format!("unlistable {}", attr.ino),
        Fact::Listing(attr, listing) => {
            format!("listing {} {}", attr.ino, show_names(listing.iter().map(|n| n.name)))
        }
    }
}

/// Returns names as text: many are shown as the first, the last and their number.
fn show_names<'a>(names: impl Iterator<Item = &'a [u8]>) -> String {
    let names: Vec<_> = names.map(String::from_utf8_lossy).collect();
    match &names[..] {
        [first, .., last] if names.len() > 12 => format!("{first} ... {last} ({})", names.len()),
        _ => names.join(" "),
    }
}

fn show_block(block: Option<u32>) -> String {
    block.map_or(String::new(), |block| format!(" block-{block}"))
}

fn show_position(position: u64) -> String {
    if position > 0 { format!(" position {position}") } else { String::new() }
}

fn show_head(head: &FileHead) -> String {
    let ranges: Vec<String> = head.ranges.iter().map(|(offset, bytes)| format!("{offset}+{bytes}")).collect();
    let ranges = if head.whole { "whole".into() } else { ranges.join(",") };
    format!("{} {} {ranges}", head.attr.ino, head.attr.size)
}

fn show_aspect(aspect: Aspect) -> String {
    match aspect {
        Aspect::Entry => "entry".into(),
        Aspect::Listing => "names".into(),
        Aspect::Loadable => "loadable".into(),
        Aspect::Whole => "whole".into(),
        Aspect::Details => "details".into(),
        Aspect::Block(block) => format!("block-{block}"),
    }
}
