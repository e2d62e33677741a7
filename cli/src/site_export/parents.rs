//! Whether a node's readers are there: what is reported when one goes and when it comes back.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use headwater_daemon::stats::{LinkStats, PeerStats, Relation};

use crate::control::stats::peer_name;

/// How long a node waits for its readers before it reports that there is none.
const WAIT_MAX: Duration = Duration::from_secs(5);
/// The shortest time between two reports that there is none, if the causes differ; and the longest.
const REPEAT: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(600));

/// The parents of a node: readers, or with `--fan-out` nodes between.
#[derive(Debug)]
pub struct Parents {
    /// Whether a parent has proved the key since the start.
    is_ready: bool,
    since: Instant,
    /// By rank, the parents that were up, and whether they are.
    seen: BTreeMap<u32, bool>,
    /// The last report that there is none.
    reported: Option<(Instant, String)>,
}

/// What is new.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Update {
    /// Messages.
    pub lines: Vec<String>,
    /// The first parent has proved the key.
    pub is_ready: bool,
    /// The present state in a few words.
    pub status: String,
}

impl Parents {
    /// Begins to watch.
    pub fn new(now: Instant) -> Parents {
        Parents { is_ready: false, since: now, seen: BTreeMap::new(), reported: None }
    }

    /// Notes the present state of the links.
    pub fn note(&mut self, now: Instant, links: &LinkStats) -> Update {
        let parents = || links.peers.iter().filter(|peer| peer.relation == Relation::Parent);
        let mut update = Update { status: status(parents()), ..Update::default() };
        // The node has hung up on those that are missing here.
        self.seen.retain(|&rank, _| parents().any(|peer| peer.rank == rank));
        for peer in parents() {
            match self.seen.get(&peer.rank) {
                Some(true) if !peer.is_up => {
                    update.lines.push(format!("warning: {} is gone: {}", shown(peer), cause(peer)));
                }
                Some(false) if peer.is_up => update.lines.push(format!("{} is back", shown(peer))),
                None if !peer.is_up => continue,
                _ => {}
            }
            self.seen.insert(peer.rank, peer.is_up);
        }
        match parents().find(|peer| peer.is_up) {
            Some(peer) if !self.is_ready => {
                (self.is_ready, update.is_ready) = (true, true);
                update.lines.push(format!("{} has proved the key", shown(peer)));
            }
            None if !self.is_ready && now >= self.since + WAIT_MAX => {
                update.lines.extend(self.none(now, &update.status))
            }
            _ => {}
        }
        update
    }

    /// Returns the report that there is no reader, unless it was made a short time ago.
    fn none(&mut self, now: Instant, status: &str) -> Option<String> {
        let is_due = self
            .reported
            .as_ref()
            .is_none_or(|(at, reported)| now >= *at + if reported == status { REPEAT.1 } else { REPEAT.0 });
        is_due.then(|| {
            self.reported = Some((now, status.to_owned()));
            format!("warning: {status}. `headwater doctor --site` examines each reader")
        })
    }
}

/// Returns the state of these parents in a few words.
fn status<'a>(parents: impl Iterator<Item = &'a PeerStats> + Clone) -> String {
    let list = |peers: Vec<String>| peers.join("; ");
    let up = parents.clone().filter(|peer| peer.is_up);
    let down = parents.filter(|peer| !peer.is_up).map(|peer| format!("{}: {}", shown(peer), cause(peer)));
    let up: Vec<String> = up.map(shown).collect();
    match (up.is_empty(), list(down.collect())) {
        (false, none) if none.is_empty() => format!("served by {}", list(up)),
        (false, down) => format!("served by {}; {down}", list(up)),
        (true, none) if none.is_empty() => "no reader is dialled yet".into(),
        (true, down) => format!("no reader has proved the key: {down}"),
    }
}

/// Returns a peer's role, name and address.
fn shown(peer: &PeerStats) -> String {
    let address = peer.address.as_deref().unwrap_or("no address");
    format!("{} {} ({address})", peer.role.name(), peer_name(peer))
}

fn cause(peer: &PeerStats) -> &str {
    peer.failure.as_deref().unwrap_or("no answer yet")
}

#[cfg(test)]
mod tests {
    use super::*;
    use headwater_daemon::stats::Role;

    fn links(states: &[(u32, Option<&str>)]) -> LinkStats {
        let peer = |&(rank, failure): &(u32, Option<&str>)| PeerStats {
            rank,
            name: Some(format!("io{rank}")),
            address: Some(format!("io{rank}:7447")),
            role: Role::Reader,
            is_up: failure.is_none(),
            failure: failure.map(str::to_owned),
            ..PeerStats::default()
        };
        let child = PeerStats { relation: Relation::Child, is_up: true, ..PeerStats::default() };
        LinkStats { peers: states.iter().map(peer).chain([child]).collect(), ..LinkStats::default() }
    }

    #[test]
    fn a_node_is_ready_once_a_reader_has_proved_the_key() {
        let start = Instant::now();
        let mut parents = Parents::new(start);
        let mut at = |seconds, states: &[(u32, Option<&str>)]| {
            let update = parents.note(start + Duration::from_secs(seconds), &links(states));
            (update.lines.join("\n"), update.is_ready)
        };
        assert_eq!(at(1, &[]), (String::new(), false));
        assert_eq!(at(2, &[(1, Some("refused"))]), (String::new(), false));
        let (line, _) = at(6, &[(1, Some("refused"))]);
        assert!(line.starts_with("warning: no reader has proved the key: reader io1 (io1:7447): refused. `"), "{line}");
        assert_eq!(at(7, &[(1, Some("refused"))]), (String::new(), false));
        assert_eq!(at(8, &[(1, Some("other"))]), (String::new(), false), "not so soon");
        assert!(at(17, &[(1, Some("other"))]).0.contains(": other"), "another cause");
        assert!(at(617, &[(1, Some("other"))]).0.contains(": other"), "again after a long time");
        assert_eq!(at(618, &[(1, None)]), ("reader io1 (io1:7447) has proved the key".into(), true));
        assert_eq!(at(619, &[(1, None)]), (String::new(), false));
    }

    #[test]
    fn a_reader_that_goes_and_comes_back_is_reported_once_each() {
        let start = Instant::now();
        let mut parents = Parents::new(start);
        let mut note = |states: &[(u32, Option<&str>)]| {
            let update = parents.note(start, &links(states));
            (update.lines.join("\n"), update.status)
        };
        note(&[(1, None)]);
        let (line, status) = note(&[(1, Some("refused"))]);
        assert_eq!(line, "warning: reader io1 (io1:7447) is gone: refused");
        assert_eq!(status, "no reader has proved the key: reader io1 (io1:7447): refused");
        let (line, status) = note(&[(1, Some("refused")), (2, None)]);
        assert_eq!(
            (line, &*status),
            (String::new(), "served by reader io2 (io2:7447); reader io1 (io1:7447): refused")
        );
        assert_eq!(note(&[(1, None), (2, None)]).0, "reader io1 (io1:7447) is back");
        assert_eq!(note(&[(1, None)]), (String::new(), "served by reader io1 (io1:7447)".into()), "the other was idle");
        assert_eq!(note(&[(1, None), (2, Some("refused"))]).0, "", "it was not in use");
    }
}
