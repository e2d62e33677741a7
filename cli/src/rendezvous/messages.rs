//! The messages between a job's front end, its nodes and their processes. Between machines each message is a line of
//! JSON. A process receives fields that each end in a zero byte, which C reads without a parser.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use clap::ValueEnum;
use headwater_daemon::{Report, Shape};
use headwater_report::job::NodePart;
use serde::{Deserialize, Serialize};

use super::membership::Arrival;
use crate::io::options::{IoMode, IoOptions};

/// A message to the front end, from a node or from a command.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FromNode {
    /// Registers the node.
    Here(Arrival),
    /// The node serves its processes, by this mechanism.
    Ready(String),
    /// The node can't serve its processes; the reason.
    Failed(String),
    /// The node's report at the end; from a node that the batch system may kill, also from before.
    Report {
        /// Number of processes that attached.
        processes: u32,
        /// Number of these that were forked from zygotes.
        #[serde(default)]
        from_zygotes: u32,
        /// Number of processes that these started, and that were forked from zygotes.
        #[serde(default)]
        children_from_zygotes: u32,
        /// The daemon's report, unless it was lost.
        report: Option<Box<Report>>,
        /// What its processes used, if that is wanted of this node, as lines of a closure.
        #[serde(default)]
        recorded: Vec<String>,
        /// Whether the node has not ended.
        #[serde(default)]
        is_interim: bool,
    },
    /// The time at the node, by its monotonic clock, in microseconds.
    Clock(u64),
    /// What the node did, if that is wanted.
    Part {
        /// When the end was received, by the node's clock in microseconds, unless the front end was lost.
        end_received_us: Option<u64>,
        /// The time at the node.
        sent_us: u64,
        /// The records.
        part: Box<NodePart>,
    },
    /// A launch that uses the session begins. It ends with the connection.
    Launching,
    /// Requests the session's end.
    Stop,
}

/// A message of the front end to a node or to a command.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ToNode {
    /// Membership is decided.
    Roster(Roster),
    /// The node registered after membership was decided.
    TooLate,
    /// The launcher has ended.
    End,
    /// The launch may begin.
    Welcome,
    /// The session has ended; its summary as text.
    Ended(String),
}

/// The nodes that take part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Roster {
    /// The receiver's number among the nodes.
    pub node: u32,
    /// By rank, the number of the node.
    pub nodes: Vec<u32>,
    /// By rank, the address of its daemon.
    pub addresses: Vec<SocketAddr>,
    /// By rank, its name, as a hostlist; empty if names are no hostlist.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub names: String,
    /// By rank, its addresses on the interfaces that the user named; empty if there are none in use.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interfaces: Vec<Vec<SocketAddr>>,
    /// How many of the first ranks are servers.
    pub servers: u32,
    /// The trees.
    pub shape: Shape,
    /// All nodes of the program take part and have the I/O library.
    #[serde(default)]
    pub io_everywhere: bool,
}

/// The answer of a node agent to one of its processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The use of the I/O library, if any.
    pub io: Option<NodeIo>,
    /// How it is served.
    pub served: ToProcess,
}

/// How a node's processes use the I/O library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeIo {
    /// The node's copy of the library.
    pub library: PathBuf,
    /// Whether all ranks of the program have it.
    pub is_everywhere: bool,
    /// The user's options.
    pub options: IoOptions,
}

/// How a process is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToProcess {
    /// The node's daemon serves it.
    Served {
        /// How it finds the node's daemon.
        access: NodeAccess,
        /// The session's name.
        session: String,
        /// The node's number.
        node: u32,
        /// How many nodes there are.
        nodes: u32,
    },
    /// It uses the source files; the reason.
    Alone(String),
}

/// How a process finds its node's daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeAccess {
    /// It is audited.
    Audit {
        /// The node's table.
        table: PathBuf,
        /// The node's copy of the audit library.
        library: PathBuf,
    },
    /// It enters the node's namespaces.
    Enter {
        /// The socket of the node's supervisor.
        supervisor: PathBuf,
    },
    /// There is no daemon to find.
    Plain,
    /// It uses paths below the node's mount.
    Mount {
        /// The mount.
        view: PathBuf,
        /// The scope: included and excluded directories.
        scope: Vec<(bool, String)>,
    },
}

impl Answer {
    /// Encodes the answer: `io LIBRARY yes|no HOW PROFILE REPORT` if the I/O library is used, with empty fields for
    /// options that are not set, and then how the process is served.
    pub fn encode(&self) -> Vec<u8> {
        let io = self.io.iter().flat_map(|NodeIo { library, is_everywhere, options }| {
            let path = |path: &Option<PathBuf>| path.clone().unwrap_or_default().into_os_string();
            let everywhere = if *is_everywhere { "yes" } else { "no" };
            let how = options.io.map_or("off", IoMode::name);
            let (profile, report) = (path(&options.io_profile), path(&options.io_report));
            ["io".into(), library.clone().into_os_string(), everywhere.into(), how.into(), profile, report]
        });
        let io = io.flat_map(|field| field.into_vec().into_iter().chain([0]));
        io.chain(self.served.encode()).collect()
    }

    /// Decodes an answer; `None` if it is malformed.
    pub fn decode(bytes: &[u8]) -> Option<Answer> {
        let mut fields = bytes.splitn(7, |&byte| byte == 0);
        if fields.next()? != b"io" {
            return Some(Answer { io: None, served: ToProcess::decode(bytes)? });
        }
        let path = |field: &[u8]| PathBuf::from(OsString::from_vec(field.to_vec()));
        let optional = |field: &[u8]| Some(path(field)).filter(|path| !path.as_os_str().is_empty());
        let (library, everywhere, how) = (path(fields.next()?), fields.next()?, fields.next()?);
        let how = IoMode::from_str(str::from_utf8(how).ok()?, false).ok()?;
        let (io_profile, io_report) = (optional(fields.next()?), optional(fields.next()?));
        let options = IoOptions { io: Some(how), io_profile, io_report };
        let io = NodeIo { library, is_everywhere: everywhere == b"yes", options };
        Some(Answer { io: Some(io), served: ToProcess::decode(fields.next()?)? })
    }
}

impl ToProcess {
    /// Encodes the message: `alone WHY`, `audit SESSION NODE NODES TABLE LIBRARY`,
    /// `enter SESSION NODE NODES SUPERVISOR`, `plain SESSION NODE NODES` or
    /// `mount SESSION NODE NODES VIEW DIRECTORY…`, with `+` before each included directory, `-` before an excluded one.
    pub fn encode(&self) -> Vec<u8> {
        let fields: Vec<OsString> = match self {
            ToProcess::Alone(why) => vec!["alone".into(), why.into()],
            ToProcess::Served { access, session, node, nodes } => {
                let (kind, more): (_, Vec<OsString>) = match access {
                    NodeAccess::Audit { table, library } => ("audit", vec![table.into(), library.into()]),
                    NodeAccess::Enter { supervisor } => ("enter", vec![supervisor.into()]),
                    NodeAccess::Plain => ("plain", Vec::new()),
                    NodeAccess::Mount { view, scope } => {
                        let sign = |is_included: &bool| if *is_included { '+' } else { '-' };
                        let directories =
                            scope.iter().map(|(included, path)| format!("{}{path}", sign(included)).into());
                        ("mount", [view.into()].into_iter().chain(directories).collect())
                    }
                };
                let first = [kind.into(), session.into(), node.to_string().into(), nodes.to_string().into()];
                first.into_iter().chain(more).collect()
            }
        };
        fields.iter().flat_map(|field| field.as_bytes().iter().copied().chain([0])).collect()
    }

    /// Decodes a message; `None` if it is malformed.
    pub fn decode(bytes: &[u8]) -> Option<ToProcess> {
        let fields: Vec<&[u8]> = bytes.strip_suffix(&[0])?.split(|&byte| byte == 0).collect();
        let text = |field: &[u8]| String::from_utf8(field.to_vec()).ok();
        let path = |field: &[u8]| PathBuf::from(OsString::from_vec(field.to_vec()));
        let (session, node, nodes, access) = match fields[..] {
            [b"alone", why] => return Some(ToProcess::Alone(text(why)?)),
            [b"audit", session, node, nodes, table, library] => {
                (session, node, nodes, NodeAccess::Audit { table: path(table), library: path(library) })
            }
            [b"enter", session, node, nodes, supervisor] => {
                (session, node, nodes, NodeAccess::Enter { supervisor: path(supervisor) })
            }
            [b"plain", session, node, nodes] => (session, node, nodes, NodeAccess::Plain),
            [b"mount", session, node, nodes, view, ref scope @ ..] => {
                let directory = |field: &&[u8]| {
                    let path = text(field)?;
                    Some((path.starts_with('+'), path.strip_prefix(['+', '-'])?.to_owned()))
                };
                let scope = scope.iter().map(directory).collect::<Option<_>>()?;
                (session, node, nodes, NodeAccess::Mount { view: path(view), scope })
            }
            _ => return None,
        };
        let number = |field: &[u8]| text(field)?.parse().ok();
        Some(ToProcess::Served { access, session: text(session)?, node: number(node)?, nodes: number(nodes)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_decoded_as_they_were_encoded() {
        let served = |access| ToProcess::Served { access, session: "0123456789abcdef".into(), node: 3, nodes: 17 };
        for message in [
            ToProcess::Alone("it\nis over".into()),
            served(NodeAccess::Audit { table: "/dev/shm/a b".into(), library: "/n/é.so".into() }),
            served(NodeAccess::Enter { supervisor: "/n/s".into() }),
            served(NodeAccess::Plain),
            served(NodeAccess::Mount {
                view: "/n/v".into(),
                scope: vec![(true, "/sw".into()), (false, "/sw/x".into())],
            }),
        ] {
            let bytes = message.encode();
            assert_eq!(ToProcess::decode(&bytes), Some(message));
            for cut in 0..bytes.len() {
                assert!(ToProcess::decode(&bytes[..cut]).is_none() || cut > 0 && bytes[cut - 1] == 0);
            }
        }
        let options = IoOptions { io: Some(IoMode::Verify), io_profile: Some("/p q".into()), io_report: None };
        for (is_everywhere, io_report) in [(true, None), (false, Some("none".into()))] {
            let options = IoOptions { io_report, ..options.clone() };
            let io = NodeIo { library: "/n/libio.so".into(), is_everywhere, options };
            for served in [served(NodeAccess::Plain), ToProcess::Alone("it is over".into())] {
                let answer = Answer { io: Some(io.clone()), served };
                let bytes = answer.encode();
                assert_eq!(Answer::decode(&bytes), Some(answer.clone()));
                assert!((0..bytes.len()).all(|cut| Answer::decode(&bytes[..cut]).is_none_or(|cut| cut != answer)));
                assert_eq!(Answer::decode(&answer.served.encode()), Some(Answer { io: None, ..answer }));
            }
        }
        for garbage in [&b""[..], b"\0", b"alone", b"enter\0s\0x\x001\0/s\0", b"served\0a\0"] {
            assert_eq!(ToProcess::decode(garbage), None);
        }
    }

    #[test]
    fn fuzzing_begins_with_what_is_read() {
        for seed in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../fuzz/seeds/job_message")).unwrap() {
            let (path, bytes) = seed.map(|seed| (seed.path(), std::fs::read(seed.path()).unwrap())).unwrap();
            let is_line =
                serde_json::from_slice::<FromNode>(&bytes).is_ok() || serde_json::from_slice::<ToNode>(&bytes).is_ok();
            assert!(is_line || Answer::decode(&bytes).is_some(), "{}", path.display());
        }
    }
}
