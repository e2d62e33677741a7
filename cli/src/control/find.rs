//! Finds the session and daemons of a command.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail, ensure};
use headwater_store::layout::NodeDir;

use super::options::Nodes;
use crate::launch::SESSION;
use crate::session::{directory, store};

/// A live session on this machine.
#[derive(Debug)]
pub struct Found {
    /// Its name.
    pub name: String,
    /// Its nodes on this machine, by number.
    pub nodes: Vec<Node>,
}

/// A node on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its number.
    pub number: u32,
    /// Its daemon's control socket.
    pub socket: PathBuf,
}

/// Returns the session and the nodes that the options select.
pub fn find(options: &Nodes) -> Result<Found> {
    let inside = std::env::var(SESSION).ok();
    choose(living(options.store.as_deref()), options, inside.as_deref())
}

/// Returns all live sessions of this user on this machine.
pub fn living(store: Option<&Path>) -> Vec<Found> {
    let mut found = Vec::new();
    for directory in store::candidates(store) {
        for session in directory::living(&directory) {
            let name = session.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let nodes = nodes_of(&session);
            if !found.iter().any(|other: &Found| other.name == name) && !nodes.is_empty() {
                found.push(Found { name, nodes });
            }
        }
    }
    found
}

fn nodes_of(session: &Path) -> Vec<Node> {
    let Ok(entries) = fs::read_dir(session) else { return Vec::new() };
    let node = |name: &str| -> Option<Node> {
        let number = name.strip_prefix('n')?.parse().ok()?;
        let socket = NodeDir::new(session.join(name)).control();
        socket.exists().then_some(Node { number, socket })
    };
    let mut nodes: Vec<Node> = entries.flatten().filter_map(|entry| node(entry.file_name().to_str()?)).collect();
    nodes.sort_by_key(|node| node.number);
    nodes
}

/// Chooses the named session, or else the one that this process is `inside`.
fn choose(mut sessions: Vec<Found>, options: &Nodes, inside: Option<&str>) -> Result<Found> {
    match &options.session {
        Some(name) => sessions.retain(|session| session.name.starts_with(name.as_str())),
        None if sessions.len() > 1 => {
            if let Some(at) = sessions.iter().position(|session| Some(&*session.name) == inside) {
                sessions = vec![sessions.swap_remove(at)];
            }
        }
        None => {}
    }
    let list = || sessions.iter().map(describe).collect::<String>();
    ensure!(
        sessions.len() < 2,
        "several sessions live on this machine; choose one with --session:\n  SESSION           NODES\n{}",
        list().trim_end()
    );
    let Some(mut session) = sessions.pop() else {
        match &options.session {
            Some(name) => {
                bail!("no session {name} lives on this machine; `headwater stats` without --session lists the sessions")
            }
            None => bail!(
                "no session of this user lives on this machine; start one with `headwater run` or `headwater mount` \
                 (if its store is elsewhere, name that with --store)"
            ),
        }
    };
    if let Some(number) = options.node {
        let nodes = session.nodes.iter().map(|node| node.number.to_string()).collect::<Vec<_>>().join(", ");
        session.nodes.retain(|node| node.number == number);
        ensure!(!session.nodes.is_empty(), "session {} has no node {number} here; it has {nodes}", session.name);
    }
    Ok(session)
}

fn describe(session: &Found) -> String {
    let numbers = session.nodes.iter().map(|node| node.number.to_string()).collect::<Vec<_>>().join(" ");
    format!("  {}  {numbers}\n", session.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::directory::Session;

    fn options(session: Option<&str>, node: Option<u32>) -> Nodes {
        Nodes { session: session.map(str::to_owned), node, store: None }
    }

    /// A session's name and its nodes.
    type Named<'a> = (&'a str, &'a [u32]);

    fn check(sessions: &[Named<'_>], options: &Nodes, inside: Option<&str>) -> Result<(String, Vec<u32>), String> {
        let node = |&number: &u32| Node { number, socket: PathBuf::from("control") };
        let found =
            |(name, nodes): &Named<'_>| Found { name: (*name).to_owned(), nodes: nodes.iter().map(node).collect() };
        choose(sessions.iter().map(found).collect(), options, inside)
            .map(|session| (session.name, session.nodes.iter().map(|node| node.number).collect()))
            .map_err(|error| error.to_string())
    }

    #[test]
    fn one_session_is_meant() {
        let (one, two): (Named<'_>, Named<'_>) = (("aaaa", &[0, 1]), ("abbb", &[2]));
        let any = options(None, None);
        assert_eq!(check(&[one], &any, None), Ok(("aaaa".into(), vec![0, 1])));
        assert_eq!(check(&[one, two], &any, Some("abbb")), Ok(("abbb".into(), vec![2])));
        assert_eq!(check(&[one, two], &options(Some("ab"), None), Some("aaaa")), Ok(("abbb".into(), vec![2])));
        assert_eq!(check(&[one, two], &options(Some("aaaa"), Some(1)), None), Ok(("aaaa".into(), vec![1])));
        let several = check(&[one, two], &any, None).unwrap_err();
        assert!(several.contains("--session") && several.contains("aaaa  0 1"), "{several}");
        assert!(check(&[one, two], &options(Some("a"), None), None).unwrap_err().contains("several"));
        assert!(check(&[one], &options(Some("c"), None), None).unwrap_err().contains("no session c"));
        assert!(check(&[], &any, None).unwrap_err().contains("headwater run"));
        assert!(check(&[one], &options(None, Some(7)), None).unwrap_err().contains("it has 0, 1"));
    }

    #[test]
    fn living_sessions_are_found_by_their_sockets() {
        let store = tempfile::tempdir().unwrap();
        let session = Session::create(store.path(), 11).unwrap();
        assert!(living(Some(store.path())).is_empty(), "no daemon listens yet");
        for number in [0, 2, 10] {
            fs::create_dir(session.node(number).path()).unwrap();
            fs::write(session.node(number).control(), "").unwrap();
        }
        fs::create_dir(session.node(1).path()).unwrap();
        let found = living(Some(store.path()));
        let numbers: Vec<u32> = found[0].nodes.iter().map(|node| node.number).collect();
        assert_eq!((found.len(), &found[0].name, numbers), (1, &session.name(), vec![0, 2, 10]));
    }
}
