//! Published measurements of starts, simulated. Each is within the factor of its row; what was fitted to a
//! row is named in `docs/internals/simulation.md`, whose table this prints: `cargo test --release -p
//! headwater-model --test published -- --nocapture`.

use std::fmt::Write;

use headwater_model::{Detail, FileSystem, Machine, Network, Outcome, Trace, with_headwater, without_headwater};
use headwater_topology::{Branching, Forest, Shape};

/// A published time, and the simulated one.
struct Row {
    what: &'static str,
    published: f64,
    simulated: f64,
    /// Their largest ratio, in either direction.
    factor: f64,
}

fn check(rows: &[Row]) {
    let mut table = String::new();
    for Row { what, published, simulated, factor } in rows {
        let ratio = simulated / published;
        let _ = writeln!(table, "| {what} | {published} | {simulated:.1} | {ratio:.2} | {factor} |");
        assert!((1.0 / factor..=*factor).contains(&ratio), "{what}: {simulated} where {published} was measured");
    }
    print!("{table}");
}

fn machine(file_system: FileSystem, processes: u32) -> Machine {
    Machine { network: Network::default(), file_system, processes, seed: 1 }
}

fn nfs() -> FileSystem {
    FileSystem::named("nfs").unwrap().unwrap()
}

/// Simulates one tree, of a sample if nodes are many.
fn with(trace: &Trace, machine: &Machine, nodes: u32) -> Outcome {
    let forest = Forest::new(nodes, 0, Shape::Single(Branching::KAry(8)));
    with_headwater(trace, machine, forest, Detail::for_nodes(nodes), &mut |_| {}).unwrap()
}

/// A thousand libraries along a search path: 300 million opens of 16,384 processes are 18 for each library.
fn kull() -> Trace {
    let mut text = String::new();
    for library in 0..1000 {
        for directory in 0..17 {
            let _ = writeln!(text, "0 absent - /usr/apps/kull/lib{directory}/libkull{library}.so");
        }
        let _ = writeln!(text, "0 load - /usr/apps/kull/lib/libkull{library}.so");
    }
    Trace::parse(&text).unwrap()
}

#[test]
fn kull_on_dawn() {
    let (trace, machine) = (kull(), machine(nfs(), 4));
    let [few, many] = [512, 4096].map(|nodes| without_headwater(&trace, &machine, nodes).unwrap());
    let hours = |outcome: &Outcome| outcome.seconds / 3600.0;
    check(&[
        Row {
            what: "KULL, 16,384 processes, NFS: opens, millions",
            published: 300.0,
            simulated: many.counts.requests() as f64 / 1e6,
            factor: 1.05,
        },
        Row { what: "the same: hours", published: 10.0, simulated: hours(&many), factor: 1.05 },
        Row { what: "KULL, 2,048 processes, NFS: hours", published: 1.0, simulated: hours(&few), factor: 1.3 },
    ]);
    let served = with(&trace, &machine, 4096);
    println!("| KULL, 16,384 processes, Headwater: seconds | | {:.1} | | |", served.seconds);
    assert!(served.seconds < 60.0 && served.counts.requests() < 2 * 18 * 1000, "{served:?}");
}

#[test]
fn pynamic_on_sierra() {
    let trace = Trace::generate("pynamic:280:215").unwrap().unwrap();
    let machine = machine(nfs(), 12);
    let (one, all) = (with(&trace, &machine, 1), with(&trace, &machine, 1276));
    check(&[
        Row {
            what: "Pynamic, few nodes, SPINDLE from NFS: seconds",
            published: 81.0,
            simulated: one.seconds,
            factor: 1.1,
        },
        // The difference is Pynamic's own communication, by the paper's bulk preloading.
        Row {
            what: "Pynamic, 1,276 nodes, SPINDLE from NFS: seconds",
            published: 276.0,
            simulated: all.seconds,
            factor: 3.6,
        },
        Row {
            what: "Pynamic, 1,276 nodes over few, but for its communication",
            published: 1.0,
            simulated: all.seconds / one.seconds,
            factor: 1.1,
        },
    ]);
    let without = without_headwater(&trace, &machine, 64).unwrap();
    println!("| Pynamic, 64 nodes, NFS: seconds | > 276 | {:.1} | | |", without.seconds);
    assert!(without.seconds > 276.0, "{without:?}");
}

/// 690 compiled modules, 11 sources and 27 libraries, 36.3 MB, and two seconds from a node's cache.
fn torch() -> Trace {
    let mut text = String::new();
    for number in 0..728 {
        let at = format!("/sw/lib/python3.10/site-packages/torch/package{}", number % 60);
        let _ = writeln!(text, "0.0017 absent - {at}/module{number}.cpython-310-x86_64-linux-gnu.so");
        let _ = match number {
            0..690 => writeln!(text, "0.001 open 20000 {at}/__pycache__/module{number}.cpython-310.pyc"),
            690..717 => writeln!(text, "0.001 load 820000 {at}/lib/module{number}.so"),
            _ => writeln!(text, "0.001 open 33000 {at}/module{number}.py"),
        };
    }
    Trace::parse(&text).unwrap()
}

/// A software tree is on one of Grand's metadata targets.
fn grand(open_us: f64) -> FileSystem {
    let lustre = FileSystem::named("lustre").unwrap().unwrap();
    FileSystem { servers: 1, open_us, total_gb: 650.0, ..lustre }
}

#[test]
fn python_on_aurora() {
    let trace = torch();
    let (usual, busy) = (machine(grand(4.3), 12), machine(grand(132.0), 12));
    let (few, all) = (with(&trace, &usual, 32), with(&trace, &usual, 8300));
    let without = |machine: &Machine, nodes| without_headwater(&trace, machine, nodes).unwrap().seconds;
    check(&[
        Row {
            what: "import torch, 8,300 nodes over 32, Copper",
            published: 1.0,
            simulated: all.seconds / few.seconds,
            factor: 1.2,
        },
        Row {
            what: "import torch, 2,048 nodes, Lustre: seconds",
            published: 120.0,
            simulated: without(&usual, 2048),
            factor: 1.1,
        },
        Row {
            what: "import horovod, 512 nodes, Lustre: seconds",
            published: 603.0,
            simulated: without(&busy, 512),
            factor: 1.1,
        },
    ]);
    println!("| import torch, 8,300 nodes, Headwater: seconds | | {:.1} | | |", all.seconds);
}
