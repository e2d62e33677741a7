//! What a job's front end, its nodes and their processes say to each other. Between machines each message is a
//! line of JSON; a process hears fields that each end in a zero byte, which C reads without a parser.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use headwater_daemon::{Report, Shape};
use serde::{Deserialize, Serialize};

use super::muster::Arrival;

/// A node, or a command for a session, to the front end.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FromNode {
    /// It takes part.
    Here(Arrival),
    /// It serves its processes, by this mechanism.
    Ready(String),
    /// It can't serve them; why.
    Failed(String),
    /// At the end.
    Report {
        /// How many processes have come to it.
        processes: u32,
        /// How many of them have come from zygotes.
        #[serde(default)]
        from_zygotes: u32,
        /// What its daemon did, if it could still say so.
        report: Option<Box<Report>>,
    },
    /// A launch that uses the session begins. It lasts as long as the connection.
    Launching,
    /// The session is to end.
    Stop,
}

/// The front end to a node, or to a command for a session.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ToNode {
    /// All are there.
    Roster(Roster),
    /// The others have begun without it.
    TooLate,
    /// The launcher has ended.
    End,
    /// The launch may begin.
    Welcome,
    /// The session has ended; what it did, for people.
    Ended(String),
}

/// Who takes part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Roster {
    /// The receiver's number among the nodes.
    pub node: u32,
    /// By rank, the number of the node.
    pub nodes: Vec<u32>,
    /// By rank, where its daemon listens.
    pub addresses: Vec<SocketAddr>,
    /// How many of the first ranks only serve.
    pub servers: u32,
    /// The trees.
    pub shape: Shape,
}

/// A node to one of its processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToProcess {
    /// It is served.
    Served {
        /// How it finds the node's daemon.
        way: Way,
        /// The session's name.
        session: String,
        /// The node's number.
        node: u32,
        /// How many nodes there are.
        nodes: u32,
    },
    /// It uses the originals; why.
    Alone(String),
}

/// How a process finds its node's daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Way {
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
    /// It uses paths below the node's mount.
    Mount {
        /// The mount.
        view: PathBuf,
        /// The directories that are served, and those in them that are not.
        scope: Vec<(bool, String)>,
    },
}

impl ToProcess {
    /// The message's bytes: `alone WHY`, `audit SESSION NODE NODES TABLE LIBRARY`,
    /// `enter SESSION NODE NODES SUPERVISOR` or `mount SESSION NODE NODES VIEW DIRECTORY…`, with `+` before each
    /// directory that is served, and `-` before one that is not.
    pub fn encode(&self) -> Vec<u8> {
        let fields: Vec<OsString> = match self {
            ToProcess::Alone(why) => vec!["alone".into(), why.into()],
            ToProcess::Served { way, session, node, nodes } => {
                let (kind, more): (_, Vec<OsString>) = match way {
                    Way::Audit { table, library } => ("audit", vec![table.into(), library.into()]),
                    Way::Enter { supervisor } => ("enter", vec![supervisor.into()]),
                    Way::Mount { view, scope } => {
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

    /// The message with these bytes; `None` if there is none.
    pub fn decode(bytes: &[u8]) -> Option<ToProcess> {
        let fields: Vec<&[u8]> = bytes.strip_suffix(&[0])?.split(|&byte| byte == 0).collect();
        let text = |field: &[u8]| String::from_utf8(field.to_vec()).ok();
        let path = |field: &[u8]| PathBuf::from(OsString::from_vec(field.to_vec()));
        let (session, node, nodes, way) = match fields[..] {
            [b"alone", why] => return Some(ToProcess::Alone(text(why)?)),
            [b"audit", session, node, nodes, table, library] => {
                (session, node, nodes, Way::Audit { table: path(table), library: path(library) })
            }
            [b"enter", session, node, nodes, supervisor] => {
                (session, node, nodes, Way::Enter { supervisor: path(supervisor) })
            }
            [b"mount", session, node, nodes, view, ref scope @ ..] => {
                let directory = |field: &&[u8]| {
                    let path = text(field)?;
                    Some((path.starts_with('+'), path.strip_prefix(['+', '-'])?.to_owned()))
                };
                let scope = scope.iter().map(directory).collect::<Option<_>>()?;
                (session, node, nodes, Way::Mount { view: path(view), scope })
            }
            _ => return None,
        };
        let number = |field: &[u8]| text(field)?.parse().ok();
        Some(ToProcess::Served { way, session: text(session)?, node: number(node)?, nodes: number(nodes)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_understand_what_nodes_say() {
        let served = |way| ToProcess::Served { way, session: "0123456789abcdef".into(), node: 3, nodes: 17 };
        for message in [
            ToProcess::Alone("it\nis over".into()),
            served(Way::Audit { table: "/dev/shm/a b".into(), library: "/n/é.so".into() }),
            served(Way::Enter { supervisor: "/n/s".into() }),
            served(Way::Mount { view: "/n/v".into(), scope: vec![(true, "/sw".into()), (false, "/sw/x".into())] }),
        ] {
            let bytes = message.encode();
            assert_eq!(ToProcess::decode(&bytes), Some(message));
            for cut in 0..bytes.len() {
                assert!(ToProcess::decode(&bytes[..cut]).is_none() || cut > 0 && bytes[cut - 1] == 0);
            }
        }
        for garbage in [&b""[..], b"\0", b"alone", b"enter\0s\0x\x001\0/s\0", b"served\0a\0"] {
            assert_eq!(ToProcess::decode(garbage), None);
        }
    }
}
