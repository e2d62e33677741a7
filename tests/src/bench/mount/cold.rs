//! The first touch: nothing of it is on the node yet, and the node is a leaf of the overlay.

use super::skip::is_skipped;
use super::tree::{BIG_BYTES, FILES, Measured, Times};
use crate::bench::fixture::python_environment;
use crate::bench::statistics::Sample;
use crate::bench::{Report, Table};
use crate::harness::{Mechanism, Program};

/// Sessions of each shape; each is measured once.
const SESSIONS: usize = 5;

/// Nodes and the depth of the last of them, with two children a node.
const SHAPES: [(usize, usize); 2] = [(1, 0), (4, 2)];

pub(in crate::bench) fn run(report: &mut Report) {
    report.heading("The mount, cold: a leaf of four nodes, two hops from the reader");
    if is_skipped(report) {
        return;
    }
    let measured = Measured::new();
    let head = ["", "the reader itself", "a leaf", "10 to 90 %", "local disk", "target"];
    let mut table = Table::new(head);
    let mut import = |what: &str, target: &str| match python_environment() {
        Ok(environment) => {
            let measured = Measured::of_environment(&environment, what);
            let milliseconds = |times: &Times, _: usize| times.first("run", 0);
            row(&mut table, &measured, &format!("import {what}, ms"), "run", milliseconds, target);
            None
        }
        Err(reason) => Some(reason),
    };
    let skipped = import("numpy", "600").or_else(|| import("scipy.stats", ""));
    let first = |action: &'static str| move |times: &Times, _: usize| times.first(action, 0);
    row(&mut table, &measured, &format!("walk with stat of {FILES} files, ms"), "walk", first("walk"), "500");
    let found_and =
        |action: &'static str| move |times: &Times, _: usize| times.first("find", 0) + times.first(action, 0);
    row(&mut table, &measured, &format!("find, and read {FILES} files, ms"), "find,read", found_and("read"), "2000");
    let mixed = "the same in no order, so that none is fetched ahead, ms";
    row(&mut table, &measured, mixed, "find,mixed", found_and("mixed"), "");
    let rate = |action: &'static str| move |times: &Times, _: usize| BIG_BYTES as f64 / 1e3 / times.first(action, 0);
    row(&mut table, &measured, "100 MB in sequence, MB/s", "big", rate("big"), "500");
    row(&mut table, &measured, "100 MB mapped, MB/s", "map", rate("map"), "");
    report.line(format!(
        "Each number is a new session's first: medians of {SESSIONS} sessions, in one namespace a node, all daemons on this \
         machine, fan-out 2. The other nodes request nothing. The source files are in the page cache; \"local disk\" is the \
         same on them without Headwater.\n"
    ));
    report.table(&table);
    if let Some(reason) = skipped {
        report.line(format!("The imports were skipped: {reason}."));
    }
}

/// Runs the actions on the last node of each shape.
fn row(
    table: &mut Table,
    measured: &Measured,
    name: &str,
    actions: &str,
    value: impl Fn(&Times, usize) -> f64,
    target: &str,
) {
    let plain = || value(&Times::of(&measured.program(actions, 1, 1, &[measured.fixture.shared()]).run()), 0);
    plain();
    let mut samples = SHAPES.map(|_| Vec::new());
    let mut local = Vec::new();
    for _ in 0..SESSIONS {
        local.push(plain());
        for ((nodes, depth), sample) in SHAPES.into_iter().zip(&mut samples) {
            sample.push(value(&on_the_last_node(measured, actions, nodes, depth), 0));
        }
    }
    let [reader, leaf] = samples.map(Sample::new);
    let number = |sample: &Sample| format!("{:.0}", sample.median());
    table.row([
        name.to_owned(),
        number(&reader),
        number(&leaf),
        leaf.spread(),
        number(&Sample::new(local)),
        target.to_owned(),
    ]);
}

fn on_the_last_node(measured: &Measured, actions: &str, nodes: usize, depth: usize) -> Times {
    let done = measured.fixture.outside("done");
    let _ = std::fs::remove_file(&done);
    let script = format!(
        "if [ \"$HEADWATER_NODE\" = {} ]; then \"$0\" \"$@\"; status=$?; : > {1}; exit $status; fi; \
         while ! [ -e {1} ]; do sleep 0.05; done",
        nodes - 1,
        done.display()
    );
    let timed = measured.program(actions, 1, 1, &[measured.fixture.shared()]);
    let program: Program = timed.behind(["sh", "-c", &script]);
    let headwater = measured.fixture.headwater().via(Mechanism::Namespace).on(nodes, 1);
    // Through the tree, also where the disk is faster.
    let session = headwater.option("--fan-out").option("2").option("--stored-file-max=1T").run(&program);
    session.assert_served();
    assert_eq!(session.number("overlay.depth"), depth as u64, "the leaf's distance");
    Times::of(&session.output)
}
