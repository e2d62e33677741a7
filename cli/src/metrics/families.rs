//! The metrics: their names, and their values from statistics.

use headwater_daemon::stats::{LATENCY_BOUNDS_NS, NodeStats, OperationStats, PeerStats};

use super::numbers::{COUNTERS, GAUGES};
use crate::control::stats::peer_name;

const NS_PER_SECOND: f64 = 1e9;

/// A session on this machine.
#[derive(Debug)]
pub(super) struct Session {
    /// Its name.
    pub name: String,
    /// The statistics of the daemons that have answered.
    pub nodes: Vec<NodeStats>,
    /// How many have not.
    pub silent: usize,
}

/// A metric with its samples.
#[derive(Debug, PartialEq)]
pub struct Family {
    /// Its name, without the prefix and the suffix of counters.
    pub(super) name: &'static str,
    /// What it counts.
    pub(super) help: &'static str,
    pub(super) kind: Kind,
    pub samples: Vec<Sample>,
}

/// What values of a metric mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Numbers that only grow.
    Counter,
    /// Numbers that fall, too.
    Gauge,
    /// Numbers of values in ranges.
    Histogram,
}

/// Labels and a value.
#[derive(Debug, PartialEq)]
pub struct Sample {
    /// Its labels.
    pub labels: Labels,
    /// Its value.
    pub value: Value,
}

/// Names and values of labels.
pub type Labels = Vec<(&'static str, String)>;

/// A value.
#[derive(Debug, PartialEq)]
pub enum Value {
    /// Of a counter.
    Count(u64),
    /// Of a gauge.
    Level(f64),
    /// Answers by their time in seconds: upper bounds, and how many lie below each and above the one before.
    Histogram {
        /// The sum of all.
        sum: f64,
        /// How many there are.
        count: u64,
        /// Bounds and numbers.
        buckets: Vec<(f64, u64)>,
    },
}

/// Returns the metrics of these sessions. A metric without a value is left out.
pub(super) fn of_sessions(sessions: &[Session]) -> Vec<Family> {
    let daemons = |count: fn(&Session) -> usize| {
        let sample = |session: &Session| Sample {
            labels: vec![("session", shown_name(session))],
            value: Value::Level(count(session) as f64),
        };
        sessions.iter().map(sample).collect()
    };
    let mut families = vec![
        family(
            "daemons",
            "Daemons of the session on this machine.",
            Kind::Gauge,
            daemons(|s| s.nodes.len() + s.silent),
        ),
        family("daemons_silent", "Daemons of the session that do not answer.", Kind::Gauge, daemons(|s| s.silent)),
    ];
    let nodes = || sessions.iter().flat_map(|session| session.nodes.iter().map(move |stats| (session, stats)));
    let labelled: Vec<(Labels, &NodeStats)> = nodes().map(|(session, stats)| (labels(session, stats), stats)).collect();
    let simple = |value: &dyn Fn(&NodeStats) -> Value| {
        let sample = |(labels, stats): &(Labels, &NodeStats)| Sample { labels: labels.clone(), value: value(stats) };
        labelled.iter().map(sample).collect()
    };
    families.push(family(
        "daemon_info",
        "The daemon's release, and what it shows where.",
        Kind::Gauge,
        infos(&labelled),
    ));
    for (name, help, value) in GAUGES {
        families.push(family(name, help, Kind::Gauge, simple(&|stats| Value::Level(value(stats)))));
    }
    for (name, help, value) in COUNTERS {
        families.push(family(name, help, Kind::Counter, simple(&|stats| Value::Count(value(stats)))));
    }
    families.extend(of_links(&labelled));
    families.extend(of_answers(&labelled));
    families.extend(of_operations(&labelled));
    families.retain(|family| !family.samples.is_empty());
    families
}

/// Makes a metric.
pub fn family(name: &'static str, help: &'static str, kind: Kind, samples: Vec<Sample>) -> Family {
    Family { name, help, kind, samples }
}

/// Returns the labels of a daemon.
fn labels(session: &Session, stats: &NodeStats) -> Labels {
    vec![
        ("session", shown_name(session)),
        ("node", stats.name.clone()),
        ("rank", stats.rank.to_string()),
        ("role", stats.role.name().to_owned()),
    ]
}

/// Returns the directory of a site export, which is the same after each start; else the session's name.
fn shown_name(session: &Session) -> String {
    let export = session.nodes.iter().find_map(|stats| stats.export.as_ref());
    export.map_or_else(|| session.name.clone(), |export| export.to_path().display().to_string())
}

fn with(labels: &Labels, more: impl IntoIterator<Item = (&'static str, String)>) -> Labels {
    labels.iter().cloned().chain(more).collect()
}

fn infos(nodes: &[(Labels, &NodeStats)]) -> Vec<Sample> {
    let info = |(labels, stats): &(Labels, &NodeStats)| {
        let mount = stats.mount.as_ref().map(|mount| mount.mount_point.to_path().display().to_string());
        let more = [("version", stats.version.clone()), ("mount", mount.unwrap_or_default())];
        Sample { labels: with(labels, more), value: Value::Level(1.0) }
    };
    nodes.iter().map(info).collect()
}

fn of_links(nodes: &[(Labels, &NodeStats)]) -> [Family; 2] {
    let link = |labels: &Labels, peer: &PeerStats| {
        let more = [
            ("peer", peer_name(peer)),
            ("peer_role", peer.role.name().to_owned()),
            ("peer_address", peer.address.clone().unwrap_or_default()),
            ("relation", peer.relation.name().to_owned()),
        ];
        Sample { labels: with(labels, more), value: Value::Level(f64::from(u8::from(peer.is_up))) }
    };
    let samples = nodes.iter().flat_map(|(labels, stats)| stats.links.peers.iter().map(move |peer| link(labels, peer)));
    let sums = nodes.iter().flat_map(|(labels, NodeStats { links, .. })| {
        [("up", links.up), ("down", links.down)].map(|(state, count)| Sample {
            labels: with(labels, [("state", state.to_owned())]),
            value: Value::Level(count as f64),
        })
    });
    let help = "1 while the link to this peer is up: the peer has proved the key. 0 otherwise.";
    [
        family("links", "Links to peers, by their state.", Kind::Gauge, sums.collect()),
        family("link_up", help, Kind::Gauge, samples.collect()),
    ]
}

fn of_answers(nodes: &[(Labels, &NodeStats)]) -> [Family; 1] {
    let samples = nodes.iter().flat_map(|(labels, NodeStats { hits, .. })| {
        let sources =
            [("table", hits.table), ("parent", hits.parent), ("reader", hits.reader), ("source_file", hits.original)];
        sources.map(|(from, count)| Sample {
            labels: with(labels, [("from", from.to_owned())]),
            value: Value::Count(count),
        })
    });
    let help = "Look-ups and requests that the node's table and store or source files answered; facts and files that \
                came from the parent or the reader.";
    [family("answers", help, Kind::Counter, samples.collect())]
}

fn of_operations(nodes: &[(Labels, &NodeStats)]) -> [Family; 4] {
    let each = |values: &dyn Fn(&OperationStats) -> Vec<(Labels, Value)>| -> Vec<Sample> {
        let of_node = |(labels, stats): &(Labels, &NodeStats)| -> Vec<Sample> {
            let of_operation = |operation: &OperationStats| {
                let labels = with(labels, [("operation", operation.name.clone())]);
                let sample = |(more, value)| Sample { labels: with(&labels, more), value };
                values(operation).into_iter().map(sample).collect::<Vec<_>>()
            };
            stats.operations.iter().flat_map(of_operation).collect()
        };
        nodes.iter().flat_map(of_node).collect()
    };
    let answers = each(&|of| {
        let sources = [("table", of.from_table), ("fetched", of.asked), ("source_file", of.from_original)];
        sources.map(|(from, count)| (vec![("from", from.to_owned())], Value::Count(count))).into()
    });
    let count = |value: fn(&OperationStats) -> u64| each(&move |of| vec![(Vec::new(), Value::Count(value(of)))]);
    let help = "Time until an operation was answered.";
    [
        family("operation_answers", "Answers to an operation, by what gave them.", Kind::Counter, answers),
        family("operation_errors", "Answers with an error number.", Kind::Counter, count(|of| of.errors)),
        family("operation_bytes", "Bytes of content in answers.", Kind::Counter, count(|of| of.bytes)),
        family(
            "operation_duration_seconds",
            help,
            Kind::Histogram,
            each(&|of| {
                vec![(
                    Vec::new(),
                    Value::Histogram {
                        sum: of.latency.sum_ns as f64 / NS_PER_SECOND,
                        count: of.count.max(of.latency.counts.iter().sum()),
                        buckets: buckets(of),
                    },
                )]
            }),
        ),
    ]
}

fn buckets(of: &OperationStats) -> Vec<(f64, u64)> {
    LATENCY_BOUNDS_NS.iter().zip(of.latency.counts).map(|(&ns, count)| (ns as f64 / NS_PER_SECOND, count)).collect()
}
