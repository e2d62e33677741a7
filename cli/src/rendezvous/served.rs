//! One node's daemon in a job: by the best mechanism for the node, or by the next one that works.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender};

use anyhow::Result;
use headwater_daemon::Report;
use headwater_overlay::Rails;
use headwater_topology::Rank;

use super::file::Service;
use super::interfaces::Listening;
use super::messages::{NodeAccess, Roster};
use crate::namespace::presumed;
use crate::session::daemons::{Daemons, NodeRank, Settings};
use crate::session::directory::Session;
use crate::session::events::DaemonOutput;
use crate::session::events::Event;
use crate::session::opened::Opened;
use crate::session::prepare;
use crate::session::serving;
use crate::session::store::{self, Disk, ReadBy};
use crate::topology::Arrangement;
use crate::via::{Choice, Mechanism, Via, probe_if};

/// A running daemon, and how processes find it.
pub struct Served {
    /// `None` if there is nothing to serve.
    daemons: Option<Daemons>,
    /// The RAM disk with content. It must outlive the daemons.
    disk: Option<Disk>,
    access: NodeAccess,
    mechanism: Mechanism,
    /// The daemon's control socket.
    control: PathBuf,
}

impl Served {
    /// Starts this node's daemon; `overlay` has its listeners for peers.
    ///
    /// # Errors
    /// The reason why no mechanism works here.
    pub fn start(
        service: &Service,
        roster: &Roster,
        session: &Session,
        overlay: &Listening,
        sender: &Sender<Event>,
        events: &Receiver<Event>,
    ) -> Result<Served, String> {
        if service.via == Via::Off || !service.scope.iter().any(|(is_included, _)| *is_included) {
            return Ok(Served {
                daemons: None,
                disk: None,
                access: NodeAccess::Plain,
                mechanism: Mechanism::Off,
                control: PathBuf::new(),
            });
        }
        let is_root = rustix::process::geteuid().is_root();
        // No probe: it would take about as long as a start that fails.
        let keeps_large = roster.nodes.len() > 1 || service.cache.is_some();
        let is_mount_useful = serving::is_mount_useful(keeps_large, service.numa_replicas, service.preload.as_ref());
        let mut choice =
            Choice::make(service.via, &service.program, is_root, || probe_if(service.follows_fork, presumed))
                .with_mount_beside(is_mount_useful);
        let attempt = Attempt { service, roster, session, overlay, sender, events };
        for number in 0.. {
            if choice.mechanism == Mechanism::Off {
                break;
            }
            match attempt.by(choice.mechanism, number) {
                Ok(served) => return Ok(served),
                Err(error) => choice = choice.after_failure(&service.program, &format!("{error:#}"), is_mount_useful),
            }
        }
        Err(choice.reason)
    }

    /// Returns the mechanism's name.
    pub fn mechanism(&self) -> &'static str {
        self.mechanism.name()
    }

    /// Returns how processes find the daemon.
    pub fn access(&self) -> &NodeAccess {
        &self.access
    }

    /// Returns the path of the daemon's control socket, if there is a daemon.
    pub fn control(&self) -> Option<PathBuf> {
        self.daemons.as_ref().map(|_| self.control.clone())
    }

    /// Handles a line of the daemon's output.
    pub fn note_output(&mut self, output: &DaemonOutput) {
        if let Some(daemons) = &mut self.daemons {
            daemons.note_output(output);
        }
    }

    /// Ends the daemon; returns its report, unless it was lost.
    pub fn end(self, events: &Receiver<Event>) -> Option<Report> {
        let report = self.daemons?.stop(events).into_iter().next().flatten();
        drop(self.disk);
        report
    }
}

/// What all attempts share.
struct Attempt<'a> {
    service: &'a Service,
    roster: &'a Roster,
    session: &'a Session,
    overlay: &'a Listening,
    sender: &'a Sender<Event>,
    events: &'a Receiver<Event>,
}

impl Attempt<'_> {
    /// Starts the daemon by this mechanism, in its own directory, and waits until it serves.
    fn by(&self, mechanism: Mechanism, number: u32) -> Result<Served> {
        let Attempt { service, roster, session, .. } = self;
        let read_by = if mechanism.is_audit() { ReadBy::Processes } else { ReadBy::Daemon };
        let store = store::open(service.store.as_deref(), service.store_bytes_max, 1, read_by)?;
        let library = prepare::read_library(mechanism)?;
        let access = prepare::prepare(&session.node(number), mechanism, &library, &service.scope)?;
        let arrangement =
            Arrangement { nodes: roster.nodes.clone(), servers: roster.servers, shape: roster.shape, unplaced: 0 };
        let (opened, via) = (Opened::default(), |number| serving::via(mechanism, session, number));
        let settings = Settings {
            arrangement: &arrangement,
            policy: service.policy,
            store: &store,
            numa_replicas: service.numa_replicas.then_some(&service.numa_replicas_for),
            scope: service.scope.clone(),
            opened: &opened,
            whole_file_bytes_max: service.whole_file_bytes_max,
            stored_file_bytes_max: service.stored_file_bytes_max,
            serve: service.serve,
            follows_fork: service.follows_fork,
            cache: service.cache.clone(),
            via: if mechanism == Mechanism::AUDIT_ALONE { None } else { Some(&via) },
            opening: service.opening,
            verbose: service.verbose,
            preload: service.preload.as_ref(),
            records: service.records,
            reports: service.reports,
            node_names: roster.names.clone(),
            fabric: service.fabric.clone(),
            link_protection: service.link_protection,
            rails: (!roster.interfaces.is_empty()).then(|| self.rails()),
            is_detached: false,
        };
        let rank =
            roster.nodes.iter().position(|&node| node == roster.node).map_or(Rank::ROOT, |rank| Rank(rank as u32));
        let node_rank = NodeRank { node: number, rank };
        let mut daemons = Daemons::start_one(
            session,
            &settings,
            node_rank,
            (&roster.addresses, &self.overlay.listeners),
            self.sender,
        )?;
        daemons.wait_ready(self.events)?;
        let control = session.node(number).control();
        Ok(Served { daemons: Some(daemons), disk: store.disk, access, mechanism, control })
    }

    /// Returns the interfaces that links use.
    fn rails(&self) -> Rails {
        let (interfaces, peers) = (self.overlay.interfaces.clone(), self.roster.interfaces.clone());
        Rails { interfaces, peers, listener_fds: Vec::new() }
    }
}
