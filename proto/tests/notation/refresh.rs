//! Clearing, refreshing and the store's room in the notation.
//!
//! Changes: `PATH` for one that is of another kind or gone, `PATH/` for a directory with other names or
//! attributes, `all`; then `more` if they are not the last, and `for RANK:N` for those it answers.

use headwater_abi::Path;
use headwater_abi::wire::{Change, Message, Version};
use headwater_proto::{Input, Output};

use super::{Words, number, path, path_in};

/// Reads the input with this name, if it is one of these.
pub fn input(name: &str, w: &mut Words<'_>) -> Option<Input> {
    Some(match name {
        "clear" => {
            let (path, mut subtree, mut after) = (path_in(w), false, None);
            while let Some(word) = w.next() {
                match word {
                    "tree" => subtree = true,
                    _ => after = Some(path_in(w)),
                }
            }
            Input::Clear { path, subtree, after }
        }
        "room" => Input::Room { store_bytes_max: number(w) },
        "refresh" => Input::Refresh { request: number(w), paths: w.map(path).collect() },
        "generation-failed" => {
            let changes: Vec<&str> = w.collect();
            let changes = (changes != ["all"]).then(|| changes.into_iter().map(change).collect());
            Input::GenerationFailed { changes }
        }
        "settled" => Input::Settled { number: number(w) as u32 },
        "generation-gone" => Input::GenerationGone { generation: number(w) },
        _ => return None,
    })
}

/// Reads the message with this name, if it is one of these.
pub fn message(name: &str, w: &mut Words<'_>) -> Option<Message> {
    Some(match name {
        "refresh-wanted" => {
            Message::RefreshWanted { rank: number(w) as u32, request: number(w), paths: w.map(path).collect() }
        }
        "newer" => Message::Newer { generation: number(w) },
        "read" => {
            let tree = number(w) as u32;
            let version = |word: &str| {
                let (at, fact) = word.split_once('=').unwrap();
                Version { path: path(at), fact: fact.parse().unwrap(), names: None }
            };
            Message::Read { tree, versions: w.map(version).collect() }
        }
        "check-changes" => Message::CheckChanges { number: number(w), paths: w.map(path).collect() },
        "found-changes" => {
            let number = number(w);
            let words: Vec<&str> = w.collect();
            let changes = (words != ["all"]).then(|| words.into_iter().map(change).collect());
            Message::FoundChanges { number, changes, is_last: true }
        }
        "refresh" => {
            let generation = number(w);
            let (mut changes, mut is_last, mut requesters) = (Some(Vec::new()), true, Vec::new());
            while let Some(word) = w.next() {
                match word {
                    "all" => changes = None,
                    "more" => is_last = false,
                    "for" => {
                        let (rank, request) = w.next().unwrap().split_once(':').unwrap();
                        requesters.push((rank.parse().unwrap(), request.parse().unwrap()));
                    }
                    _ => changes.as_mut().unwrap().push(change(word)),
                }
            }
            Message::Refresh { generation, changes, is_last, requesters }
        }
        _ => return None,
    })
}

fn change(word: &str) -> Change {
    let stripped = word.strip_suffix('/');
    Change { path: path(stripped.unwrap_or(word)), is_same_directory: stripped.is_some() }
}

pub fn show(output: &Output) -> Option<String> {
    Some(match output {
        Output::Cleared { path, subtree, next, in_transit } => {
            let tree = if *subtree { " tree" } else { "" };
            let next = next.as_ref().map_or(String::new(), |next| format!(" next {next}"));
            format!("cleared {path}{tree}{next} in-transit {in_transit}")
        }
        Output::DropLookupCache => "drop-lookup-cache".into(),
        Output::Settle { number } => format!("settle {number}"),
        Output::Generation { generation, changes, passthrough } => {
            let passthrough: Vec<String> = passthrough.iter().map(show_passthrough).collect();
            let passthrough =
                if passthrough.is_empty() { String::new() } else { format!(" passthrough {}", passthrough.join(" ")) };
            format!("generation {generation}{}{passthrough}", show_changes(changes.as_deref()))
        }
        Output::Refreshed { request, generation, changed } => {
            let changed = changed.map_or("all".into(), |changed| changed.to_string());
            format!("refreshed {request} generation {generation} changed {changed}")
        }
        Output::RefreshFailed { request } => format!("refresh-failed {request}"),
        _ => return None,
    })
}

pub fn show_message(message: &Message) -> Option<String> {
    Some(match message {
        Message::RefreshWanted { rank, request, paths } => {
            let paths: String = paths.iter().map(|path| format!(" {path}")).collect();
            format!("refresh-wanted {rank} {request}{paths}")
        }
        Message::Newer { generation } => format!("newer {generation}"),
        Message::Read { tree, versions } => {
            let paths: String = versions.iter().map(|version| format!(" {}", version.path)).collect();
            format!("read {tree}{paths}")
        }
        Message::CheckChanges { number, paths } => {
            let paths: String = paths.iter().map(|path| format!(" {path}")).collect();
            format!("check-changes {number}{paths}")
        }
        Message::FoundChanges { number, changes, is_last } => {
            let more = if *is_last { "" } else { " more" };
            format!("found-changes {number}{}{more}", show_changes(changes.as_deref()))
        }
        Message::Refresh { generation, changes, is_last, requesters } => {
            let more = if *is_last { "" } else { " more" };
            let requesters: String =
                requesters.iter().map(|(rank, request)| format!(" for {rank}:{request}")).collect();
            format!("refresh {generation}{}{more}{requesters}", show_changes(changes.as_deref()))
        }
        _ => return None,
    })
}

fn show_changes(changes: Option<&[Change]>) -> String {
    let Some(changes) = changes else { return " all".into() };
    let show = |change: &Change| format!(" {}{}", change.path, if change.is_same_directory { "/" } else { "" });
    changes.iter().map(show).collect()
}

fn show_passthrough((path, tree): &(Path, bool)) -> String {
    format!("{path}{}", if *tree { "/" } else { "" })
}
