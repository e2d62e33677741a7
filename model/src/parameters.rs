//! A machine and its parameters: network, nodes and shared file system, in files, and their defaults.

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The network and the nodes on it. Rates are bits in a second, times microseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Network {
    /// What one node's network card sends, and what it receives, in gigabits a second.
    pub rate_gbit: f64,
    /// Time of a packet from node to node.
    pub latency_us: f64,
    /// Tiers of switches above the nodes, nearest first; none: only the cards are shared.
    pub tiers: Vec<Tier>,
    /// A daemon's costs.
    pub daemon: Daemon,
    /// The processes' costs.
    pub node: Node,
}

/// Switches over groups of neighbouring nodes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tier {
    /// Nodes below one switch.
    pub nodes: u32,
    /// The nodes' rate below the switch, in multiples of its uplink's; 1: the uplink is no bottleneck.
    pub oversubscription: f64,
    /// Latency that the uplinks add.
    pub latency_us: f64,
}

/// A daemon's costs. The defaults are of the order of one core of a server; a site measures its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Daemon {
    /// Processor time for each received message.
    pub receive_us: f64,
    /// Processor time for each sent message.
    pub send_us: f64,
    /// Processor time for each received megabyte of content: decrypted, written, digested.
    pub receive_us_per_mb: f64,
    /// Processor time for each sent megabyte: read and encrypted.
    pub send_us_per_mb: f64,
    /// Processor time to publish one file or listing.
    pub publish_us: f64,
    /// Processor time for one process's request, its answer included.
    pub request_us: f64,
    /// Bytes of one link in the kernel's buffer before they are sent.
    pub socket_bytes: u64,
    /// Threads of a reader that wait for the shared file system.
    pub reader_threads: u32,
    /// From exec to a listening socket.
    pub start_ms: f64,
    /// Processor time of a handshake, at either end.
    pub handshake_us: f64,
}

/// The processes' costs on a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Node {
    /// Cores of a node.
    pub cores: u32,
    /// True if all nodes share these cores, as namespaces on one machine.
    pub one_machine: bool,
    /// Processor time of a look-up that the node's table answers, opening the copy included.
    pub lookup_us: f64,
    /// A launcher starts nodes as a tree: the children of each, and the time of a level.
    pub launch_fan_out: u32,
    /// The time of a level.
    pub launch_ms: f64,
}

/// A shared file system. Service times are those of a metadata server, one operation after the other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FileSystem {
    /// Metadata servers; a path's operations are one server's.
    pub servers: u32,
    /// Time of a client's call beside all service: network and client.
    pub latency_us: f64,
    /// A server's time for a look-up, of an existing or an absent name.
    pub stat_us: f64,
    /// A server's time for an open and its close.
    pub open_us: f64,
    /// A server's time for reading a directory, and for each name of it.
    pub list_us: f64,
    /// The time for each name.
    pub list_us_per_name: f64,
    /// Rate of all data servers together, in gigabytes a second.
    pub total_gb: f64,
    /// Rate of one client, in gigabytes a second.
    pub client_gb: f64,
    /// Whether a node's kernel caches what exists for all processes of the node: attributes, and opened
    /// files' content.
    pub keeps_entries: bool,
    /// Whether it caches absent names too.
    pub keeps_absent: bool,
    /// Whether every process's open goes to a server, even if the node has the file's content.
    pub opens_reach_server: bool,
}

/// A machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    /// Network and nodes.
    pub network: Network,
    /// The shared file system.
    pub file_system: FileSystem,
    /// Processes on each node, 1 or more.
    pub processes: u32,
    /// The seed of all random choices.
    pub seed: u64,
}

/// Why a file of parameters can't be used.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum ParameterError {
    /// It is not TOML of this form.
    #[error("{0}")]
    Toml(String),
    /// A number is out of range.
    #[error("{name} is {value}: {next}")]
    Range {
        /// The parameter.
        name: &'static str,
        /// Its value.
        value: f64,
        /// The range.
        next: &'static str,
    },
}

impl Default for Network {
    fn default() -> Network {
        Network {
            rate_gbit: 100.0,
            latency_us: 2.0,
            tiers: Vec::new(),
            daemon: Daemon::default(),
            node: Node::default(),
        }
    }
}

impl Default for Daemon {
    fn default() -> Daemon {
        Daemon {
            receive_us: 6.0,
            send_us: 4.0,
            receive_us_per_mb: 900.0,
            send_us_per_mb: 600.0,
            publish_us: 25.0,
            request_us: 12.0,
            socket_bytes: 1 << 20,
            reader_threads: 8,
            start_ms: 25.0,
            handshake_us: 250.0,
        }
    }
}

impl Default for Node {
    fn default() -> Node {
        Node { cores: 64, one_machine: false, lookup_us: 3.0, launch_fan_out: 32, launch_ms: 100.0 }
    }
}

impl Default for FileSystem {
    fn default() -> FileSystem {
        FileSystem {
            servers: 1,
            latency_us: 300.0,
            stat_us: 20.0,
            open_us: 40.0,
            list_us: 100.0,
            list_us_per_name: 0.2,
            total_gb: 100.0,
            client_gb: 2.0,
            keeps_entries: true,
            keeps_absent: false,
            opens_reach_server: true,
        }
    }
}

/// Checks fields of a table whose names begin with `$table`.
macro_rules! check {
    ($is_right:ident, $table:literal, $from:ident: $($field:ident),+) => {
        $($is_right(concat!($table, stringify!($field)), $from.$field.into())?;)+
    };
}

impl Network {
    /// Reads a TOML file's text. Missing parameters have their defaults.
    ///
    /// # Errors
    /// The mistake, with its position.
    pub fn parse(text: &str) -> Result<Network, ParameterError> {
        let network: Network = toml::from_str(text).map_err(|e| ParameterError::Toml(e.to_string()))?;
        check!(positive, "", network: rate_gbit);
        check!(not_negative, "", network: latency_us);
        for tier in &network.tiers {
            check!(positive, "tiers.", tier: nodes, oversubscription);
            check!(not_negative, "tiers.", tier: latency_us);
        }
        let (daemon, node) = (&network.daemon, &network.node);
        check!(positive, "daemon.", daemon: reader_threads);
        check!(positive, "node.", node: cores, launch_fan_out);
        check!(not_negative, "daemon.", daemon: receive_us, send_us, receive_us_per_mb, send_us_per_mb);
        check!(not_negative, "daemon.", daemon: publish_us, request_us, start_ms, handshake_us);
        check!(not_negative, "node.", node: lookup_us, launch_ms);
        Ok(network)
    }
}

impl FileSystem {
    /// Reads a TOML file's text. Missing parameters have their defaults.
    ///
    /// # Errors
    /// The mistake, with its position.
    pub fn parse(text: &str) -> Result<FileSystem, ParameterError> {
        let system: FileSystem = toml::from_str(text).map_err(|e| ParameterError::Toml(e.to_string()))?;
        check!(positive, "", system: servers, total_gb, client_gb);
        check!(not_negative, "", system: latency_us, stat_us, open_us, list_us, list_us_per_name);
        Ok(system)
    }
}

pub(crate) fn us(value: f64) -> u64 {
    (value * 1e3).round() as u64
}

/// Returns the nanoseconds that `bytes` take at this rate.
pub(crate) fn ns_at(bytes: u64, bytes_per_ns: f64) -> u64 {
    (bytes as f64 / bytes_per_ns).round() as u64
}

fn positive(name: &'static str, value: f64) -> Result<(), ParameterError> {
    match value > 0.0 && value.is_finite() {
        true => Ok(()),
        false => Err(ParameterError::Range { name, value, next: "it has to be above 0" }),
    }
}

fn not_negative(name: &'static str, value: f64) -> Result<(), ParameterError> {
    match value >= 0.0 && value.is_finite() {
        true => Ok(()),
        false => Err(ParameterError::Range { name, value, next: "it has to be 0 or more" }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_named_is_as_by_default() {
        let text = "rate_gbit = 0.2\nlatency_us = 50\n[[tiers]]\nnodes = 32\noversubscription = 2\nlatency_us = 1\n\
                    [node]\none_machine = true\ncores = 2\n";
        let network = Network::parse(text).unwrap();
        assert_eq!((network.rate_gbit, network.tiers[0].nodes, network.node.cores), (0.2, 32, 2));
        assert_eq!(network.daemon, Daemon::default());
        assert_eq!(FileSystem::parse("").unwrap(), FileSystem::default());
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        for (text, part) in [("rate_gbit = 0", "above 0"), ("latency = 1", "latency"), ("latency_us = -1", "0 or more")]
        {
            let error = Network::parse(text).unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
        for (text, part) in [("servers = 0", "servers is 0"), ("total_gb = nan", "total_gb"), ("x = 1", "unknown")] {
            let error = FileSystem::parse(text).unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
