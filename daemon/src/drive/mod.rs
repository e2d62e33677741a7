//! The driver: it feeds inputs to the node, executes its outputs, and owns what that takes.
//!
//! Each file here has the inputs and outputs of one subsystem. The subsystems know nothing of it.

mod clear;
mod control;
mod execute;
mod generations;
mod mounts;
mod preload;
mod pressure;
mod refresh;
mod replicas;
mod report;
mod settling;
mod start;
mod timeline;
pub(crate) mod tokens;

use std::collections::VecDeque;
use std::time::Instant;

use headwater_mount::Mount;
use headwater_overlay::{Links, Transfers};
use headwater_proto::{Input, Node, Output, Time};
use headwater_reader::Pool;
use headwater_store::Following;
use headwater_store::Store;
use headwater_store::Table;
use headwater_store::layout::NodeDir;
use mio::Poll;

use self::timeline::Timeline;
use crate::clients::{ClientIds, Clients};
use crate::control_socket::{About, Clearings, ControlSocket, Refreshes};
use crate::generation::Generations;
use crate::preload::Preloading;
use crate::pressure::Pressure;
use crate::replicas::Replicating;
use crate::stats::Changed;

/// Answers to the node's outputs between two looks at everything else.
const EXCHANGES_MAX: usize = 64;

/// A running daemon.
pub(crate) struct Daemon {
    pub(crate) driver: Driver,
    pub(crate) content: Content,
    pub(crate) frontends: Frontends,
    pub(crate) housekeeping: Housekeeping,
    pub(crate) reactor: Reactor,
    /// There are no originals to be used in place of what has changed.
    pub(crate) is_site_export: bool,
    pub(crate) depth: u32,
}

/// The node, and what lies between its outputs and its inputs.
pub(crate) struct Driver {
    pub(crate) node: Node,
    /// What the node has yet to hear of its outputs.
    pub(crate) inbox: VecDeque<Input>,
    /// The content that came with the message that is being handled.
    pub(crate) received_content: Vec<u8>,
    /// Outputs that wait until others have been sent what they wait for.
    pub(crate) deferred_outputs: VecDeque<Output>,
}

/// What is known and stored, and where it comes from and goes to.
pub(crate) struct Content {
    pub(crate) store: Store,
    pub(crate) table: Table,
    pub(crate) dir: NodeDir,
    pub(crate) generations: Generations,
    pub(crate) following: Following,
    pub(crate) links: Links,
    pub(crate) transfers: Transfers,
    pub(crate) readers: Pool,
}

/// Those who ask: processes, the kernel, and people.
pub(crate) struct Frontends {
    pub(crate) clients: Clients,
    pub(crate) client_ids: ClientIds,
    pub(crate) mount: Option<Mount>,
    pub(crate) control_socket: ControlSocket,
    pub(crate) about: About,
    pub(crate) clearings: Clearings,
    pub(crate) refreshes: Refreshes,
}

/// What the daemon does of its own accord.
pub(crate) struct Housekeeping {
    pub(crate) timeline: Timeline,
    pub(crate) pressure: Pressure,
    pub(crate) preloading: Preloading,
    pub(crate) replicating: Replicating,
    /// Originals that were found changed.
    pub(crate) changes: Changed,
}

/// Readiness and time.
pub(crate) struct Reactor {
    pub(crate) poll: Poll,
    pub(crate) started: Instant,
    pub(crate) next_token: usize,
    pub(crate) is_ready: bool,
    /// When it says that it is ready, though a parent is missing.
    pub(crate) ready_by: Time,
}

impl Daemon {
    /// Feeds the node and performs all that it wants.
    pub(crate) fn feed(&mut self, input: Input) {
        let now = self.now();
        self.driver.node.handle(now, input);
        self.execute_outputs();
        self.answer_inbox();
    }

    /// Tells the node what came of its outputs; a long exchange goes on after everything else.
    pub(crate) fn answer_inbox(&mut self) {
        for _ in 0..EXCHANGES_MAX {
            let Some(input) = self.driver.inbox.pop_front() else { return };
            let now = self.now();
            self.driver.node.handle(now, input);
            self.execute_outputs();
        }
    }

    /// Milliseconds since the start.
    pub(crate) fn now(&self) -> Time {
        self.reactor.started.elapsed().as_millis() as Time
    }
}
