//! The paper's formulas by hand, and its results for three machines.

use super::*;

/// Returns a curve of so many bytes a second, without latency.
fn rate(bytes_per_s: f64) -> Curve {
    Curve::new(vec![(1e-3, 1e-3 / bytes_per_s), (1e12, 1e12 / bytes_per_s)]).unwrap()
}

/// Returns a machine with one rank on each node, as in the paper's measurements; a file of 1 byte/s to one
/// node.
fn machine(speedup_max: f64, message: f64, protection: f64) -> Parameters {
    let storage = Storage { single: rate(1.0), speedup_max, node_speedup_max: 1.0, collective_s: 0.0 };
    Parameters {
        hint_bytes: 0.01,
        protection: rate(protection),
        copy: rate(message),
        message: rate(message),
        read: storage.clone(),
        write: storage,
    }
}

fn work(pattern: Pattern, form: Form) -> Work {
    Work { pattern, form, bytes: 1600.0, ranks: 16, nodes: 16, pieces: 1 }
}

#[track_caller]
fn close(value: f64, expected: f64) {
    assert!((value - expected).abs() <= 1e-6 * expected.abs().max(1e-6), "{value}, not {expected}");
}

#[test]
fn the_formulas_by_hand() {
    let parameters = machine(4.0, 2.0, 100.0);
    for pattern in Pattern::ALL {
        // T_I/O(1600, 1) + 16 T_Comm(100), 2 P(1600) + 16 T_Comm(0.01) + T_I/O(1600, 1) / 4.
        let whole = work(pattern, Form::Whole).predict(&parameters);
        close(whole.original.seconds(), 1600.0 + 16.0 * 50.0);
        close(whole.transformed.seconds(), 2.0 * 16.0 + 16.0 * 0.005 + 400.0);
        assert_eq!(whole.decision, Decision::Transform);
        // 4 T_I/O(400, 1) + 16 T_Comm(100), 2 P(400) + the same.
        let rows = work(pattern, Form::NodeRows).predict(&parameters);
        close(rows.original.seconds(), 1600.0 + 16.0 * 50.0);
        close(rows.transformed.seconds(), 2.0 * 4.0 + 16.0 * 0.005 + 400.0);
        // 16 T_Comm(h) + C(100).
        close(work(pattern, Form::Copied).predict(&parameters).transformed.seconds(), 16.0 * 0.005 + 50.0);
    }
}

#[test]
fn ranks_of_the_roots_node_get_copies() {
    let parameters = Parameters { copy: rate(1000.0), ..machine(4.0, 2.0, 1e9) };
    let cost = Work { nodes: 4, ..work(Pattern::ReadScatter, Form::Whole) }.on_one(&parameters);
    close(cost.messages, 4.0 * 0.1 + 12.0 * 50.0);
    // Four nodes of which one reads 1 byte/s, from servers of four times that.
    let one_node = Work { nodes: 1, ..work(Pattern::ReadScatter, Form::Whole) };
    close(one_node.on_all(&parameters).0.io, 1600.0);
    let mut local = parameters;
    local.read.node_speedup_max = 2.0;
    close(one_node.on_all(&local).0.io, 800.0);
}

/// Section V.G: one server, so the only gain is the distribution.
#[test]
fn with_one_server_the_gain_is_the_distribution() {
    let prediction = work(Pattern::ReadScatter, Form::Whole).predict(&machine(1.0, 1.0, 1e9));
    assert!((prediction.speedup() - 2.0).abs() < 0.01, "{}", prediction.speedup());
    close(prediction.original.io, prediction.transformed.io);
    assert!(prediction.why.contains("messages saves 1599.84 s"), "{}", prediction.why);
}

/// Kongull (V.C): links as fast as a server, cheap protection: as fast as a transformation by hand.
#[test]
fn with_cheap_protection_it_is_as_fast_as_by_hand() {
    let parameters = machine(4.0, 1.0, 1e5);
    let prediction = work(Pattern::ReadScatter, Form::Whole).predict(&parameters);
    let by_hand = prediction.original.seconds() / prediction.transformed.io;
    assert!(prediction.speedup() > 0.95 * by_hand && by_hand > 7.9, "{} of {by_hand}", prediction.speedup());
}

/// Njord (V.B, V.C): protection costs as much as sending. Switching it twice takes longer than the scatter
/// did, so the speed-up is a fraction of that by hand; a row of nodes has a quarter of that cost.
#[test]
fn with_dear_protection_it_is_a_fraction_of_that() {
    let parameters = machine(4.0, 4.0, 4.0);
    let whole = work(Pattern::ReadScatter, Form::Whole).predict(&parameters);
    let rows = work(Pattern::ReadSend, Form::NodeRows).predict(&parameters);
    let by_hand = whole.original.seconds() / whole.transformed.io;
    assert!(whole.transformed.protection > whole.original.messages);
    assert!(whole.speedup() < 0.5 * by_hand && whole.speedup() > 1.0, "{} of {by_hand}", whole.speedup());
    close(rows.transformed.protection, whole.transformed.protection / 4.0);
    assert!(rows.speedup() > 1.5 * whole.speedup(), "{} and {}", rows.speedup(), whole.speedup());
    let slow = work(Pattern::ReadScatter, Form::Whole).predict(&machine(1.0, 4.0, 4.0));
    assert_eq!((slow.decision, slow.speedup() < 1.0), (Decision::Leave, true), "{}", slow.why);
}

/// Section V.C: below a megabyte for each node both transformations are slower than the original.
#[test]
fn small_operations_are_left_alone() {
    let mut parameters = Parameters::default();
    parameters.read.single = Curve::of_rate(5e-3, 1e8);
    parameters.read.speedup_max = 1.0;
    let of = |bytes| Work { bytes, nodes: 4, ..work(Pattern::ReadScatter, Form::Whole) }.predict(&parameters);
    assert_eq!(of(4096.0).decision, Decision::Leave, "{}", of(4096.0).why);
    assert_eq!(of(256e6).decision, Decision::Transform, "{}", of(256e6).why);
}

/// Section V.G: over NFS, an operation and a seek for each line of a block undo all gain; a collective
/// operation does not. Pieces that are read ahead are not waited for either.
#[test]
fn many_pieces_want_a_collective_operation() {
    let mut parameters = Parameters::default();
    parameters.set_server(1e8, 1e8);
    for storage in [&mut parameters.read, &mut parameters.write] {
        storage.single = Curve::of_rate(1e-3, 1e8);
    }
    let blocks = Work { bytes: 64e6, nodes: 16, pieces: 2048, ..work(Pattern::ReceiveWrite, Form::NodeRows) };
    let pieces = blocks.together(Access::Individual, &parameters);
    assert!(pieces.seconds() > blocks.on_one(&parameters).seconds());
    assert_eq!(blocks.on_all(&parameters).1, Access::Collective);
    assert_eq!(Work { pieces: 1, ..blocks }.on_all(&parameters).1, Access::Individual);
    let read = Work { pattern: Pattern::ReadSend, ..blocks };
    assert_eq!(read.on_all(&parameters).1, Access::Individual);
    assert!(read.on_all(&parameters).0.seconds() < blocks.on_all(&parameters).0.seconds());
}

/// Two rows of two nodes: all four write, after each has sent three quarters of its data.
#[test]
fn small_pieces_are_exchanged() {
    let parameters = machine(4.0, 1.0, 1e9);
    let blocks = Work { bytes: 1200.0, ranks: 4, nodes: 4, pieces: 100, ..work(Pattern::ReceiveWrite, Form::NodeRows) };
    let (cost, access) = blocks.on_all(&parameters);
    close(cost.messages, 4.0 * 0.01 + 225.0);
    close(cost.io, 1200.0 / 4.0);
    assert_eq!(access, Access::Collective);
    // Of 64 ranks four times 16.
    let many = Work { bytes: 6400.0, ranks: 64, nodes: 64, ..blocks };
    close(many.exchanged(&parameters).unwrap().messages, 4.0 * 1600.0 / 16.0 * (15.0 / 16.0));
    // Large pieces, one node, and reading have no exchange.
    for other in
        [Work { bytes: 1e9, ..blocks }, Work { nodes: 1, ..blocks }, Work { pattern: Pattern::ReadSend, ..blocks }]
    {
        assert_eq!(other.exchanged(&parameters), None);
    }
}
