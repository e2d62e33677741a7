//! Why links end, in words for a person.

use std::collections::BTreeMap;
use std::io;

use headwater_proto::{Peer, Time};

use crate::link::{Link, LinkError};

/// Why and when the last links to peers ended.
#[derive(Debug, Default)]
pub(super) struct Ends(BTreeMap<Peer, End>);

/// An end of a link, or of an attempt to dial.
#[derive(Debug)]
pub(super) struct End {
    pub(super) at: Time,
    pub(super) cause: String,
}

impl Ends {
    /// Notes the end of a link to `peer`, or of an attempt to dial it. Ranks are authenticated or dialled, so there are
    /// no more entries than ranks.
    pub(super) fn note(&mut self, now: Time, peer: Peer, cause: String) {
        self.0.insert(peer, End { at: now, cause });
    }

    /// Returns the end of the last link to `peer`, if it is not up.
    pub(super) fn of(&self, peer: Peer) -> Option<&End> {
        self.0.get(&peer)
    }

    /// Returns all of them.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Peer, &End)> {
        self.0.iter().map(|(&peer, end)| (peer, end))
    }

    /// Forgets the end of the last link to `peer`.
    pub(super) fn remove(&mut self, peer: Peer) {
        self.0.remove(&peer);
    }
}

/// Returns why a link or an attempt to dial ended, in words for a person at this end.
pub(super) fn cause(link: &Link, error: &LinkError) -> String {
    let has_closed = match error {
        LinkError::Closed => true,
        LinkError::Io(error) => matches!(error.kind(), io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe),
        _ => false,
    };
    match error {
        LinkError::Io(error) if !link.has_connected() => format!("its address can't be reached: {error}"),
        LinkError::Silent(_) if !link.has_connected() => "no answer from its address".into(),
        _ if !has_closed || link.rank.is_some() => error.to_string(),
        _ if link.has_finished_handshake() => {
            "it refuses this node's greeting: its list of nodes or its version differs; its log names which".into()
        }
        _ => "it does not prove the key: its key is another, or it serves another directory".into(),
    }
}

/// Returns why a rank can't be dialled, in words.
pub(super) fn not_dialled(error: &LinkError) -> String {
    match error {
        LinkError::Io(error) if error.kind() == io::ErrorKind::AddrNotAvailable => "its name has no address yet".into(),
        error => error.to_string(),
    }
}
