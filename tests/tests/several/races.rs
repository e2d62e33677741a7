//! Processes of several nodes change files at the same moment. When all have returned, each process of each node sees
//! what a process without Headwater sees.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use headwater_tests::harness::{Fixture, Mechanism, Program};

use super::plan::Random;

const NODES: usize = 4;
const NAMES: usize = 12;
/// What a process may take to answer, in a test that hangs.
const ANSWER_MAX: Duration = Duration::from_secs(60);
/// A kernel shows a directory that another node has removed for two of its ticks, of which there are 100 in a second at
/// least.
const REMOVED: Duration = Duration::from_millis(40);

/// A process that carries out operations.
struct Worker(BufReader<TcpStream>);

impl Worker {
    fn tell(&mut self, line: &str) {
        self.0.get_mut().write_all(format!("{line}\n").as_bytes()).expect("the process reads");
    }

    fn hear(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).expect("the process answers");
        line
    }

    fn ask(&mut self, line: &str) -> String {
        self.tell(line);
        self.hear()
    }
}

/// Accepts so many workers.
fn workers(listener: &TcpListener, count: usize) -> Vec<Worker> {
    let end = Instant::now() + ANSWER_MAX;
    listener.set_nonblocking(true).expect("an own socket");
    let mut found = Vec::new();
    while found.len() < count {
        match listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false).expect("an own socket");
                stream.set_nodelay(true).expect("an own socket");
                stream.set_read_timeout(Some(ANSWER_MAX)).expect("an own socket");
                found.push(Worker(BufReader::new(stream)));
            }
            Err(_) => assert!(Instant::now() < end, "{} of {count} processes have begun", found.len()),
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    found
}

/// Races `races` times, with `writers` changes at once.
pub fn race(via: Mechanism, seed: u64, races: usize, writers: usize) {
    let fixture = Fixture::new("race");
    let program = fixture.build("changes/race.c", "race", &["-std=gnu11"]);
    let tree = fixture.path("tree");
    ["a", "b"].iter().for_each(|name| std::fs::create_dir_all(tree.join(name)).expect("an own directory"));
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let port = listener.local_addr().expect("a port").port().to_string();
    let program = Program::new(program).arg(&port).arg(&tree);
    std::thread::scope(|scope| {
        let plain = scope.spawn(|| program.run());
        let mut truth = workers(&listener, 1).remove(0);
        let session = scope.spawn(|| fixture.headwater().via(via).on(NODES, 1).run(&program));
        let mut nodes = workers(&listener, NODES);
        let mut random = Random::new(seed);
        for number in 0..races {
            if let Err(difference) = one(&mut random, &mut truth, &mut nodes, writers) {
                panic!("seed {seed}, race {number}: {difference}");
            }
        }
        drop((truth, nodes));
        assert_eq!(plain.join().expect("it ran").status, 0);
        assert_eq!(session.join().expect("it ran").output.status, 0);
    });
}

fn one(random: &mut Random, truth: &mut Worker, nodes: &mut [Worker], writers: usize) -> Result<(), String> {
    let mut names: Vec<String> = (0..2 * NAMES).map(|n| format!("{}/{}", ["a", "b"][n % 2], n / 2)).collect();
    let mut draw = || names.swap_remove(random.below(names.len()));
    let chosen: Vec<String> = (0..writers).map(|_| draw()).collect();
    let others: Vec<String> = (0..3).map(|_| draw()).collect();
    // So that each kernel caches what there is.
    let before = format!("look {} {}", chosen.join(" "), others.join(" "));
    nodes.iter_mut().for_each(|node| node.tell(&before));
    nodes.iter_mut().for_each(|node| drop(node.hear()));
    let operations: Vec<String> = chosen.iter().map(|name| operation(random, truth, name)).collect();
    let first = random.below(nodes.len());
    let at = |n: usize| (first + n) % NODES;
    operations.iter().enumerate().for_each(|(n, operation)| nodes[at(n)].tell(operation));
    let done: Vec<String> = (0..writers).map(|n| nodes[at(n)].hear()).collect();
    if done.iter().any(|answer| answer != "done\n") {
        return Err(format!("{operations:?} from node {first} on: {done:?}"));
    }
    if operations.iter().any(|operation| operation.starts_with("rmdir")) {
        std::thread::sleep(REMOVED);
    }
    let paths = operations.iter().flat_map(|operation| operation.split(' ').filter(|word| word.contains('/')));
    let after = format!("look a b {}", paths.collect::<Vec<_>>().join(" "));
    nodes.iter_mut().for_each(|node| node.tell(&after));
    let expected = truth.ask(&after);
    for (number, node) in nodes.iter_mut().enumerate() {
        let seen = node.hear();
        if seen != expected {
            return Err(format!(
                "{operations:?} from node {first} on: node {number} sees\n{seen}and there is\n{expected}"
            ));
        }
    }
    Ok(())
}

/// Draws an operation that is possible.
fn operation(random: &mut Random, truth: &mut Worker, name: &str) -> String {
    let number = random.below(1_000_000);
    let (moved, length) = (format!("{name}r"), random.pick(&[0, 1, 7, 500, 2000]));
    let has_moved = truth.ask(&format!("look {moved}")).contains(": 100");
    let is = truth.ask(&format!("look {name}"));
    let is = is.split(": ").nth(1).expect("an answer");
    match (is.get(..2), random.below(9)) {
        (Some("40"), _) => format!("rmdir {name}"),
        (Some("10"), 0) => format!("unlink {name}"),
        (Some("10"), 1) => format!("rename {name} {moved}"),
        (Some("10"), 2) if !has_moved => format!("link {name} {moved}"),
        (Some("10"), 3) => format!("append {name} {number} {length}"),
        (Some("10"), 4) => format!("truncate {name} {length}"),
        (Some("10"), 5) => format!("chmod {name} {}", random.pick(&["600", "644", "755"])),
        (Some("10"), 6) => format!("write {name} {number} {length}"),
        (Some("10"), _) => format!("swap {name} {number}"),
        (_, 0..3) => format!("mkdir {name}"),
        (_, 3..5) if has_moved => format!("rename {moved} {name}"),
        _ => format!("write {name} {number} {length}"),
    }
}
