//! A node with its environment, and the packets between nodes.

use std::collections::{HashSet, VecDeque};

use headwater_abi::Path;
use headwater_abi::wire::{Aspect, FileHead, Message};
use headwater_proto::{COMPARING_NODES_MAX, Config, Limits, Node, Policy, Rank};

use super::session::World;
use crate::crowd::Ghosts;
use crate::program::{ObjectId, Program};
use crate::queue::{Moment, Slab};
use crate::wires::Card;

/// Files of more bytes are compared: by the trees, or directly. As without `--whole-file-max`.
const COMPARED_FILE_BYTES_MIN: u64 = 16 << 20;

/// Messages of one node to another that arrive together. `from` and `to` are as the receiver sees them,
/// `site` is the receiver's.
#[derive(Debug)]
pub(crate) struct Packet {
    pub(super) from: u32,
    pub(super) to: u32,
    pub(super) site: u32,
    /// Whether it goes to a child.
    pub(super) is_down: bool,
    pub(super) messages: Vec<Message>,
    pub(super) bytes: u64,
    pub(super) content_bytes: u64,
    pub(super) chunks: u32,
}

/// Packets with the moments when they arrive.
pub(super) type Mail = Vec<(Moment, Packet)>;

/// Packets that wait for a node's card, for one peer.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) to: u32,
    pub(super) is_down: bool,
    pub(super) waiting: VecDeque<Packet>,
    pub(super) waiting_bytes: u64,
    /// Chunks that the socket has not taken yet.
    pub(super) untaken: u32,
}

/// The work of a reader's thread.
#[derive(Debug)]
pub(super) enum Read {
    Fact { path: Path, aspect: Aspect },
    Details { path: Path, names: Vec<Box<[u8]>> },
    File { path: Path, aspect: Aspect, head: Option<FileHead>, position: u64, content_bytes_max: u64 },
    Sample { path: Path, bytes: u64, begun_ns: Option<u64>, is_open: bool },
}

/// A node with its environment.
#[derive(Debug)]
pub(super) struct Site {
    pub(super) rank: u32,
    pub(super) node: Node,
    /// Number of planned events.
    pub(super) planned: u32,
    /// When the daemon has finished all its work.
    pub(super) free_ns: u64,
    pub(super) card: Card,
    pub(super) links: Vec<Link>,
    /// Parents to which the node has ended its link.
    pub(super) hung_up: Vec<Rank>,
    /// The link whose turn it is, and whether the card's next turn is planned.
    pub(super) turn: usize,
    pub(super) is_card_planned: bool,
    pub(super) ghosts: Vec<Ghosts>,
    /// Requests of the ghosts so far, and those to come.
    pub(super) asked: HashSet<(u32, Path, Aspect)>,
    pub(super) ghosts_ask: Vec<(u32, Message)>,
    /// The contents of the node's table.
    pub(super) known: Box<[u64]>,
    /// Large files that processes read directly.
    pub(super) direct: HashSet<ObjectId>,
    /// The look-up that processes have reached, and whether they wait for its answer.
    pub(super) step: usize,
    pub(super) is_asking: bool,
    pub(super) is_answered: bool,
    pub(super) ended_ns: Option<u64>,
    pub(super) reads: Slab<Read>,
    pub(super) reads_waiting: VecDeque<u32>,
    pub(super) reading: u32,
    /// Open files, for their blocks.
    pub(super) open: HashSet<ObjectId>,
    pub(super) timer_ns: u64,
}

impl Site {
    /// Makes a node that knows nothing.
    pub(super) fn new(world: &World<'_>, program: &Program, rank: u32) -> Site {
        let is_comparing = world.forest.ranks() > 1 && rank < COMPARING_NODES_MAX;
        let limits = Limits {
            store_bytes_max: u64::MAX >> 1,
            compared_file_bytes_min: if is_comparing { COMPARED_FILE_BYTES_MIN } else { u64::MAX },
            ..Limits::default()
        };
        let config = Config {
            rank: Rank(rank),
            forest: world.forest,
            session: 1,
            policy: Policy::Adaptive,
            limits,
            scope: program.scope.iter().map(|path| (true, path.clone())).collect(),
        };
        Site {
            rank,
            node: Node::new(config, world.machine.seed ^ u64::from(rank)),
            planned: 0,
            free_ns: 0,
            card: Card::default(),
            links: Vec::new(),
            hung_up: Vec::new(),
            turn: 0,
            is_card_planned: false,
            ghosts: world.crowd.ghosts(&world.forest, rank),
            asked: HashSet::new(),
            ghosts_ask: Vec::new(),
            known: vec![0; program.words()].into(),
            direct: HashSet::new(),
            step: 0,
            is_asking: false,
            is_answered: false,
            ended_ns: None,
            reads: Slab::default(),
            reads_waiting: VecDeque::new(),
            reading: 0,
            open: HashSet::new(),
            timer_ns: u64::MAX,
        }
    }
}
