//! The links of a node, as statistics show them.

use headwater_overlay::{LinkState, Links};
use headwater_proto::{Peer, Rank, Time};
use headwater_topology::hosts::Hostlist;
use serde::{Deserialize, Serialize};

use crate::config::Config;
use crate::role::Role;

/// Peers that are shown one by one. A reader of a large site has thousands, and an answer has a limit.
const PEERS_SHOWN_MAX: usize = 1024;

/// The links to other daemons.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkStats {
    /// Links whose peer has proved the key.
    pub up: u64,
    /// Parents that are dialled and don't answer, and children of this node whose link has ended.
    pub down: u64,
    /// Nodes that are this node's children while all nodes are alive.
    pub children_expected: u64,
    /// The peers of these links, those without a link first, at most 1024.
    pub peers: Vec<PeerStats>,
}

/// A peer and the link to it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerStats {
    /// The peer's rank.
    pub rank: u32,
    /// Its node's name, if it is known.
    pub name: Option<String>,
    /// Where it listens.
    pub address: Option<String>,
    /// What it does in the trees.
    pub role: Role,
    /// Which end it is.
    pub relation: Relation,
    /// It has proved the key.
    pub is_up: bool,
    /// How long that has been so, in milliseconds.
    pub since_ms: u64,
    /// The link goes over libfabric.
    pub is_carried: bool,
    /// Why the last link or attempt failed; `None` while the link is up.
    pub failure: Option<String>,
}

/// Which end of a link a peer is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Relation {
    /// This node requests from it.
    #[default]
    Parent,
    /// It requests from this node.
    Child,
}

impl Relation {
    /// Returns its name.
    pub const fn name(self) -> &'static str {
        match self {
            Relation::Parent => "parent",
            Relation::Child => "child",
        }
    }
}

impl LinkStats {
    /// Returns the state of these links. `names` has the nodes' names by rank, if they are known.
    pub(crate) fn of(links: &Links, names: &Hostlist, role: impl Fn(Rank) -> Role, now: Time) -> LinkStats {
        let mut states = links.states();
        let up = states.iter().filter(|state| state.is_up).count();
        let down = states.len() - up;
        states.sort_by_key(|state| state.is_up);
        states.truncate(PEERS_SHOWN_MAX);
        let peer = |state: LinkState| {
            let (rank, relation) = match state.peer {
                Peer::Parent(rank) => (rank, Relation::Parent),
                Peer::Child(rank) => (rank, Relation::Child),
            };
            PeerStats {
                rank: rank.0,
                name: names.name(rank),
                address: links.address(rank),
                role: role(rank),
                relation,
                is_up: state.is_up,
                since_ms: now.saturating_sub(state.since),
                is_carried: state.is_carried,
                failure: state.failure,
            }
        };
        LinkStats {
            up: up as u64,
            down: down as u64,
            children_expected: links.children_expected() as u64,
            peers: states.into_iter().map(peer).collect(),
        }
    }
}

/// Returns the nodes' names by rank; an empty list if they are not known.
pub(crate) fn names(config: &Config) -> Hostlist {
    Hostlist::parse(&config.node_names).ok().filter(|names| names.len() == config.ranks as usize).unwrap_or_default()
}
