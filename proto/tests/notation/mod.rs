//! The notation of transcripts: one input a line, one output a line.
//!
//! Facts: `absent`, `error N`, `file INO SIZE [links N]`, `dir INO`, `listing INO NAME…` (a name ends
//! in `/` for a directory, `@` for a link, `?` for an unknown type, `#INO` for its inode),
//! `unlistable INO`, `link INO TARGET`. Heads: `INO SIZE whole [links N]`, `INO SIZE OFFSET+BYTES,…`.

use std::fmt::Write;
use std::sync::Arc;

use headwater_abi::attr::mode;
use headwater_abi::listing::d_type;
use headwater_abi::wire::{Aspect, Fact, FileHead, Message, TransferId};
use headwater_abi::{Attr, Kind, Listing, Name, Path, Want};
use headwater_proto::{ClientId, Config, Input, Limits, Output, Policy, Publication, Rank, Reply, Topology};

pub type Words<'a> = std::str::SplitWhitespace<'a>;

pub fn config(mut words: Words<'_>) -> Config {
    let rank = Rank(number(&mut words) as u32);
    let ranks = number(&mut words) as u32;
    let mut config = Config {
        rank,
        topology: Topology::new(ranks, 2),
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
            "fan-out" => config.topology = Topology::new(ranks, number(&mut words) as u32),
            "store" => limits.store_bytes_max = number(&mut words),
            "chunks" => limits.chunks_in_flight_max = number(&mut words) as usize,
            "reads" => limits.reads_in_flight_max = number(&mut words) as usize,
            "clients" => limits.clients_waiting_max = number(&mut words) as usize,
            "entries" => limits.entries_max = number(&mut words) as usize,
            scope => config.scope.push((scope.starts_with('+'), path(&scope[1..]))),
        }
    }
    config
}

pub fn input(line: &str) -> Input {
    let mut words = line.split_whitespace();
    let w = &mut words;
    match w.next().unwrap() {
        "request" => Input::Request { client: ClientId(number(w)), path: path_in(w), want: want(w.next().unwrap()) },
        "gone" => Input::ClientGone { client: ClientId(number(w)) },
        "up" => Input::PeerUp { rank: rank(w) },
        "down" => Input::PeerDown { rank: rank(w) },
        "from" => Input::Message { from: rank(w), message: message(w) },
        "sent" => Input::ChunkSent { to: rank(w) },
        "entry" => Input::FactRead { path: path_in(w), aspect: Aspect::Entry, fact: fact(w) },
        "names" => Input::FactRead { path: path_in(w), aspect: Aspect::Listing, fact: fact(w) },
        "opened" => Input::FileOpened { path: path_in(w), aspect: aspect(w), head: head(w) },
        "read" => Input::FileRead { path: path_in(w), aspect: aspect(w), position: number(w) },
        "failed" => Input::FileFailed { path: path_in(w), aspect: aspect(w), errno: number(w) as u16 },
        "store-failed" => Input::StoreFailed { path: path_in(w) },
        "refused" => Input::EvictRefused { path: path_in(w) },
        other => panic!("no such input: {other}"),
    }
}

fn message(w: &mut Words<'_>) -> Message {
    match w.next().unwrap() {
        "want" => Message::Want { path: path_in(w), aspect: aspect(w), position: w.next().map_or(0, parse) },
        "cancel" => Message::Cancel { transfer: TransferId(number(w)) },
        "known" => Message::Known { path: path_in(w), fact: fact(w) },
        "file" => {
            let (transfer, path) = (TransferId(number(w)), path_in(w));
            let head = head(w);
            let aspect = if head.whole { Aspect::Whole } else { Aspect::Loadable };
            Message::File { transfer, path, aspect, head, position: 0 }
        }
        "chunk" => Message::Chunk { transfer: TransferId(number(w)), position: number(w), bytes: number(w) as u32 },
        "failed" => Message::Failed { transfer: TransferId(number(w)), errno: number(w) as u16 },
        "unavailable" => Message::Unavailable { path: path_in(w), aspect: aspect(w) },
        "live" => Message::Live { path: path_in(w), tree: w.next() == Some("tree") },
        other => panic!("no such message: {other}"),
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
            let names = w.map(name).collect();
            Fact::Listing(attr(mode::DIR, ino, 0, 2), Arc::new(Listing { names }))
        }
        other => panic!("no such fact: {other}"),
    }
}

fn name(word: &str) -> Name {
    let (word, ino) = word.split_once('#').map_or((word, 0), |(word, ino)| (word, parse(ino)));
    let (name, d_type) = match word.char_indices().last().unwrap() {
        (end, '/') => (&word[..end], d_type::DIR),
        (end, '@') => (&word[..end], d_type::LINK),
        (end, '?') => (&word[..end], d_type::UNKNOWN),
        _ => (word, d_type::FILE),
    };
    Name { ino, d_type, name: name.as_bytes().into() }
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
    if w.next() == Some("links") { number(w) as u32 } else { 1 }
}

fn aspect(w: &mut Words<'_>) -> Aspect {
    match w.next().unwrap() {
        "entry" => Aspect::Entry,
        "names" => Aspect::Listing,
        "loadable" => Aspect::Loadable,
        "whole" => Aspect::Whole,
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
        Output::Send { to, message } => format!("to {} {}", to.0, show_message(message)),
        Output::SendChunk { to, transfer, path, position, offset, bytes } => {
            format!("to {} chunk {} {path} position {position} offset {offset} bytes {bytes}", to.0, transfer.0)
        }
        Output::ReadEntry { path } => format!("read-entry {path}"),
        Output::ReadListing { path } => format!("read-listing {path}"),
        Output::ReadFile { path, aspect, have, execute: _ } => {
            let have = have.as_ref().map_or(String::new(), |head| format!(" have {}", show_head(head)));
            format!("read-file {path} {}{have}", show_aspect(*aspect))
        }
        Output::Receive { from, transfer, path, head } => {
            format!("receive {} from {} {path} {}", transfer.0, from.0, show_head(head))
        }
        Output::Discard { path } => format!("discard {path}"),
        Output::Publish(publication) => format!("publish {}", show_publication(publication)),
        Output::Evict { path } => format!("evict {path}"),
        Output::Disconnect { rank, reason } => format!("disconnect {}: {reason}", rank.0),
    }
}

fn show_publication(publication: &Publication) -> String {
    match publication {
        Publication::Fact { path, fact } => format!("{path} {}", show_fact(fact)),
        Publication::Content { path, aspect, head } => {
            format!("{path} {} {}", show_aspect(*aspect), show_head(head))
        }
        Publication::HardLink { path, target, aspect, .. } => {
            format!("{path} {} hard-link {target}", show_aspect(*aspect))
        }
        Publication::Live { path, tree } => format!("{path} live{}", if *tree { " tree" } else { "" }),
    }
}

fn show_message(message: &Message) -> String {
    match message {
        Message::Want { path, aspect, position: 0 } => format!("want {path} {}", show_aspect(*aspect)),
        Message::Known { path, fact } => format!("known {path} {}", show_fact(fact)),
        Message::File { transfer, path, head, position: 0, .. } => {
            format!("file {} {path} {}", transfer.0, show_head(head))
        }
        Message::Cancel { transfer } => format!("cancel {}", transfer.0),
        Message::Failed { transfer, errno } => format!("failed {} {errno}", transfer.0),
        Message::Unavailable { path, aspect } => format!("unavailable {path} {}", show_aspect(*aspect)),
        Message::Live { path, tree } => format!("live {path}{}", if *tree { " tree" } else { "" }),
        other => format!("{other:?}"),
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
        Fact::Listing(attr, listing) => listing.names.iter().fold(format!("listing {}", attr.ino), |mut text, n| {
            write!(text, " {}", String::from_utf8_lossy(&n.name)).unwrap();
            text
        }),
    }
}

fn show_head(head: &FileHead) -> String {
    let ranges: Vec<String> = head.ranges.iter().map(|(offset, bytes)| format!("{offset}+{bytes}")).collect();
    let ranges = if head.whole { "whole".into() } else { ranges.join(",") };
    format!("{} {} {ranges}", head.attr.ino, head.attr.size)
}

fn show_aspect(aspect: Aspect) -> &'static str {
    match aspect {
        Aspect::Entry => "entry",
        Aspect::Listing => "names",
        Aspect::Loadable => "loadable",
        Aspect::Whole => "whole",
    }
}
