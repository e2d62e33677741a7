//! The driver: it feeds inputs to the node, executes its outputs and owns the daemon's parts.
//!
//! Each file here has the inputs and outputs of one subsystem. The subsystems don't depend on the driver.

mod cached;
mod clear;
mod control;
mod execute;
mod generations;
mod mounts;
mod preload;
mod pressure;
mod recorder;
mod refresh;
mod replicas;
mod report;
mod settling;
mod start;
mod timeline;
pub(crate) mod tokens;

use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::Instant;

use headwater_mount::Mount;
use headwater_overlay::{Links, Transfers};
use headwater_proto::{Input, Node, Output, Time};
use headwater_reader::Pool;
use headwater_store::layout::NodeDir;
use headwater_store::{Following, Store, Table};
use headwater_topology::hosts::Hostlist;
use mio::Poll;

use self::timeline::Timeline;
use crate::beyond::Beyond;
use crate::clients::{ClientIds, Clients};
use crate::control_socket::{Clearings, ControlSocket, Refreshes};
use crate::generation::Generations;
use crate::keeping::Keeping;
use crate::preload::Preloading;
use crate::pressure::Pressure;
use crate::recorder::Recorder;
use crate::replicas::Replicating;
use crate::stats::{Changed, NodeStats};

/// Inputs from the inbox that are handled before other events.
const EXCHANGES_MAX: usize = 64;

/// A running daemon.
pub(crate) struct Daemon {
    pub(crate) driver: Driver,
    pub(crate) content: Content,
    pub(crate) frontends: Frontends,
    pub(crate) housekeeping: Housekeeping,
    pub(crate) reactor: Reactor,
    /// There are no source files for changed paths.
    pub(crate) is_site_export: bool,
    /// Processes under audit read the store's copies.
    pub(crate) serves_audit: bool,
    pub(crate) depth: u32,
}

/// The node, its pending inputs and its deferred outputs.
pub(crate) struct Driver {
    pub(crate) node: Node,
    /// Results of outputs, for the node.
    pub(crate) inbox: VecDeque<Input>,
    /// The content of the message that is being handled.
    pub(crate) received_content: Vec<u8>,
    /// Outputs that wait until the messages of the same step have been sent.
    pub(crate) deferred_outputs: VecDeque<Output>,
}

/// Known facts and stored content, and their transport.
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

/// The sources of requests: processes, the kernel, and users.
pub(crate) struct Frontends {
    pub(crate) clients: Clients,
    pub(crate) client_ids: ClientIds,
    pub(crate) mount: Option<Mount>,
    pub(crate) control_socket: ControlSocket,
    /// What does not change of the statistics.
    pub(crate) about: NodeStats,
    /// The nodes' names by rank, if they are known.
    pub(crate) names: Hostlist,
    pub(crate) clearings: Clearings,
    pub(crate) refreshes: Refreshes,
}

/// What the daemon does without a request.
pub(crate) struct Housekeeping {
    pub(crate) timeline: Timeline,
    pub(crate) pressure: Pressure,
    pub(crate) preloading: Preloading,
    pub(crate) keeping: Keeping,
    pub(crate) beyond: Option<Beyond>,
    /// Where it writes what processes used.
    pub(crate) record_to: Option<PathBuf>,
    /// With `--report` only.
    pub(crate) recorder: Option<Box<Recorder>>,
    pub(crate) replicating: Replicating,
    /// Source files that were found changed.
    pub(crate) changes: Changed,
}

/// Readiness and time.
pub(crate) struct Reactor {
    pub(crate) poll: Poll,
    pub(crate) started: Instant,
    pub(crate) next_token: usize,
    pub(crate) is_ready: bool,
    /// When it reports that it is ready even without a parent.
    pub(crate) ready_by: Time,
}

impl Driver {
    /// Returns a driver with nothing pending.
    pub(crate) fn new(node: Node) -> Driver {
        Driver { node, inbox: VecDeque::new(), received_content: Vec::new(), deferred_outputs: VecDeque::new() }
    }
}

impl Daemon {
    /// Feeds an input to the node and executes its outputs.
    pub(crate) fn feed(&mut self, input: Input) {
        if let Some(beyond) = &mut self.housekeeping.beyond {
            beyond.note(&input);
        }
        if let Some(recorder) = &mut self.housekeeping.recorder {
            recorder.input(&input);
        }
        let now = self.now();
        self.driver.node.handle(now, input);
        self.execute_outputs();
        self.answer_inbox();
    }

    /// Feeds the results of outputs to the node; a long exchange continues after other events.
    pub(crate) fn answer_inbox(&mut self) {
        for _ in 0..EXCHANGES_MAX {
            let Some(input) = self.driver.inbox.pop_front() else { return };
            if let Some(recorder) = &mut self.housekeeping.recorder {
                recorder.input(&input);
            }
            let now = self.now();
            self.driver.node.handle(now, input);
            self.execute_outputs();
        }
    }

    /// Returns the time since the start, in milliseconds.
    pub(crate) fn now(&self) -> Time {
        self.reactor.started.elapsed().as_millis() as Time
    }
}
