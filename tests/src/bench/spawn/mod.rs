//! Spawning: from a zygote, and by all other methods, in turn.

mod comparison;
mod paper;
mod runs;
mod warm_ranks;

pub(super) use paper::paper;
pub(super) use warm_ranks::warm_ranks;

use self::comparison::row;
use self::runs::{Method, Mode, ROUNDS, Runs, VARIABLES};
use super::fixture::many_libraries;
use super::statistics::Sample;
use super::{Report, Table};

/// Libraries of the large program, and directories that they lie in.
const LIBRARIES: usize = 100;
const DIRECTORIES: usize = 12;
/// The memory of a large parent, in MB.
const RESIDENT_MB: usize = 4096;
const SMALL_MB: usize = 10;
/// Processes that live at once when memory is measured.
const LIVE: usize = 50;

/// A program with many libraries and a long environment.
pub(super) fn libraries(report: &mut Report) {
    report.heading(&format!(
        "Spawning a program with {LIBRARIES} libraries in {DIRECTORIES} directories, {VARIABLES} variables"
    ));
    let fixture = many_libraries(LIBRARIES, DIRECTORIES);
    let runs = Runs::new(&fixture, &["bin/app"]).variables(VARIABLES);
    let methods = [Method::ZYGOTE, Method::POSIX_SPAWN, Method::VFORK, Method::MAIN];
    compare(report, &runs, &methods, 60, &["4 times posix_spawn's", "5 times posix_spawn's"]);
}

/// Programs with hardly anything to load.
pub(super) fn tiny(report: &mut Report) {
    let fixture = many_libraries(1, 1);
    report.heading("Spawning a tiny dynamic program");
    let runs = Runs::new(&fixture, &["bin/empty"]);
    compare(
        report,
        &runs,
        &[Method::ZYGOTE, Method::POSIX_SPAWN, Method::VFORK, Method::MAIN],
        300,
        &["4 times posix_spawn's", ""],
    );
    report.heading("Spawning a tiny static program");
    fixture.build("bench/main.c", "bin/static", &["-static"]);
    let runs = Runs::new(&fixture, &["bin/static"]);
    compare(
        report,
        &runs,
        &[Method::AUTO, Method::VFORK, Method::POSIX_SPAWN],
        300,
        &["", "vfork's by the vector call"],
    );
}

/// An interpreter that has imported.
pub(super) fn python(report: &mut Report) {
    report.heading("Spawning Python with numpy");
    let environment = match super::python_environment() {
        Ok(environment) => environment,
        Err(reason) => return report.line(format!("not measured: {reason}")),
    };
    let python = environment.join("bin/python3").display().to_string();
    let fixture = many_libraries(1, 1);
    let statement = "import numpy, time, os; os.write(1, b'%d' % time.clock_gettime_ns(time.CLOCK_MONOTONIC))";
    let runs = Runs::new(&fixture, &[&python, "-c", statement]).imports("numpy,time,os");
    let mut table = Table::new(["ms, medians (10 to 90 %)", "zygote", "posix_spawn", "ratio", "bound"]);
    for (mode, name, target) in [(Mode::First, "to the first statement", "20"), (Mode::Sync, "to its exit", "8")] {
        let methods = [Method::ZYGOTE, Method::POSIX_SPAWN];
        let [zygote, exec] = runs.in_turn(&methods, mode, 12, ROUNDS).try_into().expect("two methods");
        row(&mut table, name, [&zygote.sample(1e3), &exec.sample(1e3)], target);
        zygote.write_to(report);
    }
    report.table(&table);
}

/// Whether the caller's own memory matters.
pub(super) fn large_parent(report: &mut Report) {
    report.heading(&format!("Spawning from a parent of {RESIDENT_MB} MB"));
    let fixture = many_libraries(1, 1);
    let runs = |megabytes| Runs::new(&fixture, &["bin/empty"]).resident(megabytes);
    let (small, large) = (runs(SMALL_MB), runs(RESIDENT_MB));
    let mut table =
        Table::new(["µs of the call, medians (10 to 90 %)", "10 MB", "4096 MB", "ratio", "bound"].map(String::from));
    for (method, target) in
        [(Method::ZYGOTE, "1.2"), (Method::VFORK, ""), (Method::POSIX_SPAWN, ""), (Method::FORK, "")]
    {
        let (mut of_small, mut of_large) = (Vec::new(), Vec::new());
        let count = if method == Method::FORK { 10 } else { 100 };
        for _ in 0..ROUNDS {
            of_small.extend(small.once(method, Mode::Call, count).microseconds);
            of_large.extend(large.once(method, Mode::Call, count).microseconds);
        }
        row(&mut table, method.name, [&Sample::new(of_small), &Sample::new(of_large)], target);
    }
    report.table(&table);
}

/// The memory of many processes of one program together.
pub(super) fn memory(report: &mut Report) {
    report.heading(&format!("Memory of {LIVE} living processes with {LIBRARIES} libraries"));
    let fixture = many_libraries(LIBRARIES, DIRECTORIES);
    let runs = Runs::new(&fixture, &["bin/app", "stay"]).variables(VARIABLES);
    let mut table = Table::new(["KiB each (PSS)", "zygote", "posix_spawn", "share", "bound"]);
    let [zygote, exec] =
        [Method::ZYGOTE, Method::POSIX_SPAWN].map(|method| runs.once(method, Mode::Live, LIVE).microseconds[0]);
    let cells = [format!("{zygote:.0}"), format!("{exec:.0}"), format!("{:.3}", zygote / exec), "0.1".into()];
    table.row(std::iter::once("mean".to_owned()).chain(cells));
    report.table(&table);
}

/// Latency and throughput by these methods, the first against the others. `targets`: of latency and throughput.
fn compare(report: &mut Report, runs: &Runs, methods: &[Method], count: usize, targets: &[&str; 2]) {
    let names = methods.iter().map(|method| method.name);
    let mut table =
        Table::new(["µs a process, medians (10 to 90 %)"].into_iter().chain(names).chain(["fork of itself", "bound"]));
    let mut ratios =
        Table::new(["the first's advantage"].into_iter().chain(methods[1..].iter().map(|method| method.name)));
    for (mode, name, target) in [
        (Mode::Sync, "to its exit, one by one", targets[0]),
        (Mode::Async, "many at once, one call each", ""),
        (Mode::Vector, "many at once, one call", targets[1]),
    ] {
        let all = runs.in_turn(methods, mode, count, ROUNDS);
        let samples: Vec<Sample> = all.iter().map(|measured| measured.sample(1.0)).collect();
        let shown = samples.iter().map(shown_sample);
        let limit = match mode {
            Mode::Sync => shown_sample(&runs.forks(count * ROUNDS, 1)),
            Mode::Vector => shown_sample(&runs.forks(count * ROUNDS, count)),
            _ => String::new(),
        };
        table.row(std::iter::once(name.to_owned()).chain(shown).chain([limit, target.to_owned()]));
        let advantage = samples[1..].iter().map(|sample| format!("{:.2}", sample.median() / samples[0].median()));
        ratios.row(std::iter::once(name.to_owned()).chain(advantage));
        if matches!(mode, Mode::Sync) {
            all[0].write_to(report);
        }
    }
    report.table(&table);
    report.table(&ratios);
}

fn shown_sample(sample: &Sample) -> String {
    format!("{:.0} ({})", sample.median(), sample.spread())
}
