//! The state of a job's nodes, from the front end's events.

use std::collections::BTreeMap;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use headwater_daemon::Report;
use headwater_report::job::{Clock, Merger};

use super::events::NodeEvent;
use super::file::Service;
use super::messages::FromNode;
use crate::message::log;
use crate::preload;
use crate::process::monotonic_us;
use crate::session::events::Event;
use crate::summary::{Start, Summary};
use crate::via::{Choice, Mechanism};
use crate::warm::Forked;

/// How long nodes may take to report after the launcher's end.
const REPORTS_MAX: Duration = Duration::from_secs(5);

/// The state of all nodes.
#[derive(Debug, Default)]
pub struct Watch {
    nodes: Vec<NodeState>,
    nodes_missing: u32,
    ready_at: Option<f64>,
    verbose: bool,
    wants_io: bool,
    /// What nodes did, if that is wanted.
    merger: Option<Merger>,
    /// When the nodes were notified of the end, by this machine's monotonic clock in microseconds.
    end_sent_us: Option<u64>,
}

#[derive(Clone, Debug, Default)]
struct NodeState {
    mechanism: Option<String>,
    processes: u32,
    forked: Forked,
    report: Option<Report>,
    /// See [`FromNode::Report`].
    recorded: Vec<String>,
    /// Whether the report is from before the node's end.
    is_interim: bool,
    clock: Clock,
    is_gone: bool,
}

impl Watch {
    /// Returns the state before membership is decided.
    pub fn new(service: &Service) -> Watch {
        Watch { verbose: service.verbose, wants_io: service.io.is_some(), ..Watch::default() }
    }

    /// Adds what nodes did to `merger`.
    pub fn merge_into(mut self, merger: Option<Merger>) -> Watch {
        self.merger = merger;
        self
    }

    /// Notes that the nodes are about to be notified of the end.
    pub fn ends(&mut self) {
        self.end_sent_us = Some(monotonic_us());
    }

    /// Returns what nodes did, and how many there are.
    pub fn take_merged(&mut self) -> Option<(Merger, u32)> {
        Some((self.merger.take()?, self.nodes.len() as u32))
    }

    /// Handles an event, and reports failures to the user.
    pub fn note(&mut self, event: NodeEvent, start: Start) {
        match event {
            NodeEvent::Members { count, missing, has_io } => {
                self.nodes = vec![NodeState::default(); count as usize];
                self.nodes_missing = missing;
                if missing > 0 {
                    log(format_args!(
                        "warning: at least {missing} nodes did not join in time; their processes use the source files"
                    ));
                } else if self.verbose {
                    log(format_args!("nodes that take part: {count}"));
                }
                if self.wants_io && !has_io && (count > 1 || missing > 0) {
                    log("warning: not all nodes are known to have the library of --io. The program's I/O stays as it \
                         is, unless all ranks are on one node");
                }
            }
            NodeEvent::InterfacesMissing { node, names, nodes, without } => {
                warn_of_interfaces(&node, &names, nodes, without);
            }
            NodeEvent::Message(node, FromNode::Failed(why)) => {
                self.state(node).is_gone = true;
                log(format_args!("warning: node {node}: {why}. Its processes use the source files"));
            }
            NodeEvent::Message(node, FromNode::Ready(mechanism)) => {
                if self.verbose {
                    log(format_args!("node {node} serves via {mechanism}"));
                }
                self.state(node).mechanism = Some(mechanism);
                self.ready_at = Some(start.elapsed_ms());
            }
            NodeEvent::Message(
                node,
                FromNode::Report { processes, from_zygotes, children_from_zygotes, report, recorded, is_interim },
            ) => {
                let state = self.state(node);
                state.processes = processes;
                state.forked = Forked { ranks: from_zygotes, children: children_from_zygotes };
                state.report = report.map(|report| *report);
                state.recorded = recorded;
                state.is_interim = is_interim;
                state.is_gone = !is_interim;
            }
            NodeEvent::Message(node, FromNode::Clock(us)) => self.state(node).clock.received(us, monotonic_us()),
            NodeEvent::Message(node, FromNode::Part { end_received_us, sent_us, part }) => {
                let end_sent_us = self.end_sent_us;
                let clock = &mut self.state(node).clock;
                clock.received(sent_us, monotonic_us());
                if let (Some(sent_us), Some(arrived_us)) = (end_sent_us, end_received_us) {
                    clock.sent(sent_us, arrived_us);
                }
                let clock = *clock;
                if let Some(merger) = &mut self.merger {
                    merger.add(*part, clock);
                }
            }
            NodeEvent::Message(..) | NodeEvent::Launches(_) | NodeEvent::Stop => {}
            NodeEvent::Leave | NodeEvent::Reported(_) => {}
            NodeEvent::Disconnected(node) => self.state(node).is_gone = true,
        }
    }

    fn state(&mut self, node: u32) -> &mut NodeState {
        &mut self.nodes[node as usize]
    }

    /// Returns whether membership is decided, and each node serves or can't.
    pub fn is_ready(&self) -> bool {
        !self.nodes.is_empty() && self.nodes.iter().all(|node| node.mechanism.is_some() || node.is_gone)
    }

    /// Waits for the reports of the remaining nodes.
    pub fn collect_reports(&mut self, events: &Receiver<Event>, start: Start) {
        let deadline = Instant::now() + REPORTS_MAX;
        while self.nodes.iter().any(|node| !node.is_gone) {
            match events.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(Event::Node(event)) => self.note(event, start),
                Ok(_) => {}
                Err(_) => return,
            }
        }
    }

    /// Returns what the program used on the nodes that report it.
    pub fn take_recorded(&mut self) -> Vec<String> {
        self.nodes.iter_mut().flat_map(|node| std::mem::take(&mut node.recorded)).collect()
    }

    /// Returns the summary of a session at its end.
    pub fn summary(self, service: &Service, reason: &str, start: Start) -> Summary {
        let choice = Choice { mechanism: Mechanism::AUDIT_ALONE, reason: reason.into() };
        let mut summary = Summary::new(0, 0, &choice);
        summary.timeline.program_exit_ms = Some(start.elapsed_ms());
        self.add_to(service, &mut summary, start);
        summary
    }

    /// Adds the nodes' reports to the summary.
    pub fn add_to(self, service: &Service, summary: &mut Summary, start: Start) {
        summary.preload.from = service.preload.as_ref().map(preload::name);
        summary.nodes = self.nodes.len() as u32;
        summary.nodes_missing = self.nodes_missing;
        summary.processes = self.nodes.iter().map(|node| node.processes).sum();
        summary.add_forked(self.nodes.iter().map(|node| node.forked).sum());
        summary.timeline.daemons_ready_ms = self.ready_at;
        let mut mechanisms: BTreeMap<&str, u32> = BTreeMap::new();
        for mechanism in self.nodes.iter().filter_map(|node| node.mechanism.as_deref()) {
            *mechanisms.entry(mechanism).or_default() += 1;
        }
        let named = |(mechanism, count): (&&str, &u32)| match *count == summary.nodes {
            true => (*mechanism).to_owned(),
            false => format!("{mechanism} on {count}"),
        };
        let named: Vec<String> = mechanisms.iter().map(named).collect();
        if named.is_empty() {
            (summary.via, summary.off) = ("off".into(), Some("no node has taken part".into()));
        } else {
            summary.via = named.join(", ");
        }
        summary.reports_interim = self.nodes.iter().filter(|node| node.is_interim).count() as u32;
        let reports: Vec<Option<Report>> = self.nodes.into_iter().map(|node| node.report).collect();
        summary.add(&reports, start);
    }
}

/// Warns that `nodes` nodes, of which `node` is the first, lack interfaces that the user named, and `without` of them all.
fn warn_of_interfaces(node: &str, names: &str, nodes: u32, without: u32) {
    let further = if nodes > 1 { format!(" and {} further nodes", nodes - 1) } else { String::new() };
    let instead = match nodes - without {
        0 => "Links use the interface by which the front end is reached".to_owned(),
        _ if without == 0 => "Links use the others of --interfaces".to_owned(),
        _ => format!(
            "Links use the others of --interfaces, or on {without} of these nodes the interface by which \
             the front end is reached"
        ),
    };
    log(format_args!(
        "warning: {node}{further}: no interface {names} with an address. {instead}. See `ip address` on {node}"
    ));
}
