//! The control socket: statistics, clearing, and malformed requests.

mod support;

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use headwater_abi::client::{Status, Want};
use headwater_abi::table::State;
use headwater_daemon::protocol::{Answer, Cleared};
use headwater_daemon::stats::{PeerStats, Role};
use support::{Cluster, Node, TEST_TIMEOUT, control, eventually, stats};

/// Names the socket for the test that is run as another user.
const OTHERS_SOCKET: &str = "HEADWATER_TEST_OTHERS_SOCKET";

fn clear(node: &Node, path: &Path, subtree: bool) -> Cleared {
    let command = serde_json::json!({"clear": [{"path": path.to_str().unwrap(), "subtree": subtree}]});
    match control(node, &command) {
        Answer::Cleared(cleared) => cleared,
        other => panic!("{other:?}"),
    }
}

fn is_resident(node: &Node, path: &Path) -> bool {
    let table = node.table();
    table.reader().find(path.as_os_str().as_encoded_bytes()).unwrap().state.contains(State::WHOLE)
}

#[test]
fn statistics_are_exact() {
    let mut cluster = Cluster::prepare();
    for number in 0..5 {
        cluster.write(&format!("lib/f{number}"), &vec![number; 10_000]);
    }
    cluster.run(2, |_| {});
    for number in 0..5 {
        assert_eq!(cluster.ask(1, &format!("lib/f{number}"), Want::WHOLE), Status::Done);
    }
    cluster.ask(1, "lib/absent", Want::ATTR);
    let outside = cluster.nodes[1].ask(Path::new("/proc"), Want::ATTR);
    assert_eq!(outside, Status::Fallback);
    let [root, leaf] = [0, 1].map(|node| stats(&cluster.nodes[node]));
    assert_eq!((root.rank, leaf.rank, leaf.ranks, leaf.generation), (0, 1, 2, 1));
    assert_eq!(leaf.session, format!("{:032x}", support::SESSION.0));
    for stats in [&root, &leaf] {
        // Two directories, and each file's content with its attributes.
        assert_eq!((stats.holds.files, stats.holds.entries, stats.holds.evictions), (5, 7, 0));
        assert_eq!((stats.bytes.store, stats.bytes.store_max), (50_000, 1 << 30));
        assert!(stats.memory.store >= 50_000 && stats.memory.daemon_rss > 0 && stats.memory.table > 0);
        assert_eq!((stats.mount.is_none(), stats.changed.count), (true, 0));
    }
    assert_eq!((root.hits.reader, root.hits.parent), (7, 0));
    assert_eq!((leaf.hits.reader, leaf.hits.parent), (0, 7));
    assert_eq!((root.bytes.shared_fs, leaf.bytes.shared_fs), (50_000, 0));
    assert_eq!((root.shared_fs.files_read, root.shared_fs.directories_read), (5, 2));
    assert!(root.bytes.sent > 50_000 && leaf.bytes.received > 50_000);
    assert!(leaf.bytes.received <= root.bytes.sent && root.bytes.received <= leaf.bytes.sent);
    assert!(root.operations.is_empty());
    let [request] = &leaf.operations[..] else { panic!("{:?}", leaf.operations) };
    assert_eq!((&request.name[..], request.count, request.asked, request.from_original), ("request", 7, 6, 1));
    let latency = request.latency;
    assert!(1000 < latency.p50_ns && latency.p50_ns <= latency.p90_ns && latency.p90_ns <= latency.p99_ns);
    assert!(latency.p99_ns <= latency.max_ns && u128::from(latency.max_ns) < TEST_TIMEOUT.as_nanos());
    cluster.stop();
}

#[test]
fn links_have_names_roles_states_and_causes() {
    let mut cluster = Cluster::prepare();
    cluster.run(3, |config| config.node_names = "io1,n[1-2]".into());
    let of = |node: &Node| {
        let stats = stats(node);
        let shown = |peer: &PeerStats| {
            let address = peer.address.as_deref().unwrap_or_default().split(':').next().unwrap_or_default();
            let state = if peer.is_up { "up" } else { "down" };
            format!("{:?} {:?} {:?} {state} {address}", peer.name.as_deref(), peer.role, peer.relation)
        };
        let peers: Vec<String> = stats.links.peers.iter().map(shown).collect();
        (stats.name, stats.role, (stats.links.up, stats.links.down, stats.links.children_expected), peers.join(", "))
    };
    let child = |name: &str, state: &str| format!("Some({name:?}) Leaf Child {state} 127.0.0.1");
    let both = format!("{}, {}", child("n1", "up"), child("n2", "up"));
    assert_eq!(of(&cluster.nodes[0]), ("io1".into(), Role::Reader, (2, 0, 2), both));
    let parent = "Some(\"io1\") Reader Parent up 127.0.0.1".into();
    assert_eq!(of(&cluster.nodes[1]), ("n1".into(), Role::Leaf, (1, 0, 0), parent));
    cluster.nodes[1].orphan();
    let one = format!("{}, {}", child("n1", "down"), child("n2", "up"));
    eventually("the link's end is seen", || of(&cluster.nodes[0]).2 == (1, 1, 2));
    assert_eq!(of(&cluster.nodes[0]).3, one);
    let failure = stats(&cluster.nodes[0]).links.peers[0].failure.clone().unwrap();
    assert!(
        failure.contains("the peer closed the connection") || failure.contains("the connection broke"),
        "{failure}"
    );
}

#[test]
fn what_is_cleared_is_read_again_from_the_nearest_node() {
    let mut cluster = Cluster::prepare();
    for name in ["lib/a", "lib/b", "other/c"] {
        cluster.write(name, name.as_bytes());
    }
    cluster.run(2, |_| {});
    for name in ["lib/a", "lib/b", "other/c"] {
        assert_eq!(cluster.ask(1, name, Want::WHOLE), Status::Done);
    }
    let (a, b) = (cluster.shared("lib/a"), cluster.shared("lib/b"));
    let in_use = File::open(cluster.nodes[1].copy(&b)).unwrap();
    let cleared = clear(&cluster.nodes[1], &cluster.shared("lib"), true);
    assert_eq!((cleared.files, cleared.kept_in_use, cleared.kept_in_transit), (1, 1, 0));
    assert!(cleared.bytes > 0);
    assert!(!is_resident(&cluster.nodes[1], &a) && is_resident(&cluster.nodes[1], &b));
    assert!(is_resident(&cluster.nodes[1], &cluster.shared("other/c")) && is_resident(&cluster.nodes[0], &a));
    assert_eq!(stats(&cluster.nodes[1]).holds.files, 2);

    assert_eq!(cluster.ask(1, "lib/a", Want::WHOLE), Status::Done);
    assert!(is_resident(&cluster.nodes[1], &a));
    assert_eq!(std::fs::read(cluster.nodes[1].copy(&a)).unwrap(), b"lib/a");
    assert_eq!(stats(&cluster.nodes[0]).shared_fs.files_read, 3, "the parent still had it");

    drop(in_use);
    for node in &cluster.nodes {
        assert_eq!(clear(node, Path::new("/"), true).files, 3);
        assert_eq!(clear(node, Path::new("/"), true), Cleared::default(), "nothing is left");
        assert_eq!(stats(node).bytes.store, 0);
    }
    assert_eq!(cluster.ask(1, "lib/b", Want::WHOLE), Status::Done);
    assert_eq!(std::fs::read(cluster.nodes[1].copy(&b)).unwrap(), b"lib/b");
    assert_eq!(stats(&cluster.nodes[0]).shared_fs.files_read, 4, "no node had it");
    assert_eq!(clear(&cluster.nodes[1], &cluster.shared("lib/nothing"), true), Cleared::default());
    cluster.stop();
}

#[test]
fn many_files_are_cleared_and_refusals_are_heard() {
    let mut cluster = Cluster::prepare();
    let names: Vec<String> = (0..1000).map(|number| format!("many/f{number}")).collect();
    names.iter().for_each(|name| cluster.write(name, b"x"));
    cluster.run(1, |_| {});
    names.iter().for_each(|name| assert_eq!(cluster.ask(0, name, Want::WHOLE), Status::Done));
    let open = |number: usize| File::open(cluster.nodes[0].copy(&cluster.shared(&names[number]))).unwrap();
    let in_use: Vec<File> = (0..1000).step_by(3).map(open).collect();
    let cleared = clear(&cluster.nodes[0], &cluster.shared("many"), true);
    assert_eq!((cleared.files, cleared.kept_in_use), (1000 - in_use.len() as u64, in_use.len() as u64));
    assert_eq!(stats(&cluster.nodes[0]).holds.files, in_use.len() as u64);
    let table = cluster.nodes[0].table();
    for (number, name) in names.iter().enumerate() {
        let record = table.reader().find(cluster.shared(name).as_os_str().as_encoded_bytes()).unwrap();
        assert_eq!(record.state.contains(State::WHOLE), number % 3 == 0, "{name}");
    }
    cluster.stop();
}

#[test]
fn a_change_is_noticed_when_cleared_content_is_read_again() {
    let mut cluster = Cluster::prepare();
    cluster.write("lib/a", b"before");
    cluster.run(2, |_| {});
    assert_eq!(cluster.ask(1, "lib/a", Want::WHOLE), Status::Done);
    cluster.write("lib/a", b"afterwards");
    for node in &cluster.nodes {
        assert_eq!(clear(node, &cluster.shared("lib/a"), false).files, 1);
    }
    cluster.ask(1, "lib/a", Want::WHOLE);
    let path = cluster.shared("lib/a");
    let is_passthrough = |node: &Node| {
        let table = node.table();
        table.reader().find(path.as_os_str().as_encoded_bytes()).unwrap().state.contains(State::PASSTHROUGH)
    };
    for node in &cluster.nodes {
        eventually("the source file is used", || is_passthrough(node));
        assert!(!is_resident(node, &path));
    }
    let changed = stats(&cluster.nodes[0]).changed;
    assert_eq!((changed.count, changed.paths[0].to_path()), (1, path.clone()));
    cluster.stop();
}

fn connect(node: &Node) -> UnixStream {
    let stream = UnixStream::connect(node.dir.control()).unwrap();
    stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
    stream
}

fn answer(mut stream: UnixStream, line: &[u8]) -> String {
    stream.write_all(line).unwrap();
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).unwrap();
    answer
}

#[test]
fn nonsense_gets_an_error_or_the_end() {
    let mut cluster = Cluster::prepare();
    cluster.run(1, |_| {});
    let node = &cluster.nodes[0];
    for (line, expected) in [
        (&b"\n"[..], "does not understand"),
        (b"{}\n", "does not understand"),
        (b"\xff\xfe\n", "does not understand"),
        (b"{\"version\":7,\"command\":\"stats\"}\n", "version 1"),
        (b"{\"version\":1,\"command\":\"explode\"}\n", "unknown variant `explode`"),
        (b"{\"version\":1,\"command\":{\"clear\":[{\"path\":\"relative\",\"subtree\":false}]}}\n", "must be absolute"),
        (b"{\"version\":1,\"command\":{\"refresh\":[\"relative\"]}}\n", "must be absolute"),
    ] {
        let answer = answer(connect(node), line);
        assert!(answer.contains("\"error\"") && answer.contains(expected), "{answer}");
    }
    let mut flood = connect(node);
    let junk = vec![b'x'; 1 << 20];
    let sent = (0..64).take_while(|_| flood.write_all(&junk).is_ok()).count();
    assert!(sent < 64, "the daemon bounds a line without an end");
    drop(connect(node));
    // A client that sends more than one request receives no answer to the first.
    let mut twice = connect(node);
    twice.write_all(b"{\"version\":1,\"command\":{\"refresh\":[]}}\n").unwrap();
    let mut rest = Vec::new();
    twice.read_to_end(&mut rest).unwrap();
    assert!(String::from_utf8(rest).unwrap().contains("refreshed"));
    assert!(answer(connect(node), b"{\"version\":1,\"command\":\"stats\"}\nmore").contains("\"stats\""));
    cluster.stop();
}

#[test]
fn connections_are_few_and_short() {
    let mut cluster = Cluster::prepare();
    cluster.write("a", b"a");
    cluster.run(1, |_| {});
    let node = &cluster.nodes[0];
    let mut idle: Vec<UnixStream> = (0..16).map(|_| connect(node)).collect();
    let refused = answer(connect(node), b"");
    assert!(refused.contains("control connections already"), "{refused}");
    assert_eq!(cluster.ask(0, "a", Want::WHOLE), Status::Done, "processes are served meanwhile");
    let mut end = Vec::new();
    idle[0].read_to_end(&mut end).unwrap();
    assert!(end.is_empty(), "a client that is silent for seconds is disconnected");
    assert_eq!(stats(node).holds.files, 1);
    cluster.stop();
}

#[test]
fn other_users_are_refused() {
    if let Some(socket) = std::env::var_os(OTHERS_SOCKET) {
        let mut stream = UnixStream::connect(socket).unwrap();
        // The daemon may close before or after this.
        let _ = stream.write_all(b"{\"version\":1,\"command\":\"stats\"}\n");
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert!(answer.is_empty());
        println!("turned away");
        return;
    }
    if !rustix::process::geteuid().is_root() {
        return println!("skipped: only root can become another user");
    }
    let mut cluster = Cluster::prepare();
    cluster.run(1, |_| {});
    let socket = cluster.nodes[0].dir.control();
    assert_eq!(std::fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o600);
    for path in socket.ancestors().take_while(|path| path.starts_with(cluster.dir.path())) {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).unwrap();
    }
    // A copy, since another user may have no access to this program's directory.
    let program = cluster.dir.path().join("other");
    std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    let other = Command::new(&program)
        .args(["--exact", "other_users_are_refused", "--nocapture"])
        .env(OTHERS_SOCKET, &socket)
        .current_dir("/")
        .uid(65_534)
        .gid(65_534)
        .output()
        .unwrap();
    let output = String::from_utf8_lossy(&other.stdout);
    assert!(
        other.status.success() && output.contains("turned away"),
        "{output}{}",
        String::from_utf8_lossy(&other.stderr)
    );
    assert_eq!(stats(&cluster.nodes[0]).rank, 0);
    cluster.stop();
}
