//! From exec to main of a program with many libraries, tables warm.

use std::path::Path;
use std::time::{Duration, Instant};

use super::fixture::{DIRECTORIES, LIBRARIES, many_libraries};
use super::statistics::Sample;
use super::{Report, Table};
use crate::counting_fs::{Caching, Mounted};
use crate::harness::{Fixture, Headwater, Program, Session};

const RUNS: usize = 31;
const FAILED_OPEN: Duration = Duration::from_micros(20);

pub(super) fn run(report: &mut Report) {
    report.heading(&format!("Start-up with {LIBRARIES} libraries in {DIRECTORIES} directories"));
    report.line(format!(
        "Milliseconds from exec to main, {RUNS} starts with and {RUNS} without Headwater in turn, in one session \
         in which the program has run before.\n"
    ));
    let fixture = many_libraries(LIBRARIES, DIRECTORIES);
    let driver = fixture.build("bench/driver.c", "bin/driver", &[]);
    let mut table = Table::new(["", "plain", "10 to 90 %", "with Headwater", "10 to 90 %", "ratio", "target"]);
    let headwater = Headwater::new(&fixture.shared());
    times(&mut table, "empty program, local disk", &headwater, &driver, &fixture.path("bin/empty"), "");
    times(&mut table, "local disk", &headwater, &driver, &fixture.path("bin/app"), "1.0");
    let slow = on_slow_file_system(&mut table, &fixture);
    report.table(&table);
    report.line(slow);
    system_calls(report, &fixture);
}

/// One row: the program started in turn with and without Headwater.
fn times(table: &mut Table, what: &str, headwater: &Headwater, driver: &Path, program: &Path, target: &str) {
    let session = headwater.run(&Program::new(driver).arg(RUNS.to_string()).arg(program));
    assert_eq!(session.output.status, 0, "{:?}", session.output);
    let sample = |kind: &str| {
        let values =
            session.output.stdout.lines().filter_map(|line| line.strip_prefix(kind)?.trim().parse::<f64>().ok());
        Sample::new(values.map(|ns| ns / 1e6).collect())
    };
    let (with, plain) = (sample("with "), sample("plain "));
    assert_eq!(with.count(), RUNS);
    table.row([
        what.to_string(),
        format!("{:.2}", plain.median()),
        plain.spread(),
        format!("{:.2}", with.median()),
        with.spread(),
        format!("{:.2}", with.median() / plain.median()),
        target.to_string(),
    ]);
}

/// The same where each failed open costs more. Returns a sentence on the cost.
fn on_slow_file_system(table: &mut Table, fixture: &Fixture) -> String {
    let mut mounted = match Mounted::new(&fixture.shared(), 1, Caching { ttl_ms: 600_000, pages: true }) {
        Ok(mounted) => mounted,
        Err(reason) => return format!("skipped where failed opens are slow: {reason}"),
    };
    let bare = failed_open(mounted.path());
    let (mut delay, mut cost) = (Duration::ZERO, bare);
    for _ in 0..5 {
        delay += FAILED_OPEN.saturating_sub(cost);
        mounted.set_delay("failed_lookup", delay);
        cost = failed_open(mounted.path());
    }
    let at = |name: &str| mounted.path().join(name);
    let headwater = Headwater::new(mounted.path());
    times(table, "failed opens slow", &headwater, &at("bin/driver"), &at("bin/app"), "0.5");
    format!(
        "A failed open on the slow file system, the tests' counting one, was measured at {:.1} µs ({:.1} µs of it \
         FUSE itself); names that exist and pages are cached by the kernel.",
        cost.as_secs_f64() * 1e6,
        bare.as_secs_f64() * 1e6
    )
}

/// The time of opening an absent name: the lower quartile, which other work hardly changes.
fn failed_open(dir: &Path) -> Duration {
    let once = |n: usize| {
        let path = dir.join(format!("d0/absent-{n}"));
        let started = Instant::now();
        assert!(std::fs::File::open(path).is_err());
        started.elapsed()
    };
    let mut times: Vec<Duration> = (0..401).map(once).collect();
    times.sort();
    times[times.len() / 4]
}

/// The system calls of a start, by their paths.
#[derive(Default)]
struct Calls {
    all: usize,
    opens: usize,
    failed_opens: usize,
    stats: usize,
    on_source: usize,
}

fn system_calls(report: &mut Report, fixture: &Fixture) {
    let app = fixture.path("bin/app").display().to_string();
    let log = fixture.outside("strace");
    let strace = |log: &Path| format!("strace -f -o {} {app}", log.display());
    let plain = Program::shell(&strace(&log)).run();
    if plain.status != 0 {
        return report.line(format!("skipped the system calls: strace: {}", plain.stderr.trim()));
    }
    let shared = fixture.shared();
    let plain = calls(&log, &shared);
    let headwater = Headwater::new(&shared);
    let first = headwater.run(&Program::shell(&app));
    let session = headwater.run(&Program::shell(&format!("{app}; {}", strace(&log))));
    let with = calls(&log, &shared);
    let mut table = Table::new(["system calls of one start", "plain", "with Headwater", "target"]);
    let rows = [
        ("all", plain.all, with.all, "1950"),
        ("opens", plain.opens, with.opens, ""),
        ("opens that fail", plain.failed_opens, with.failed_opens, ""),
        ("stats", plain.stats, with.stats, ""),
        ("that name the source directories", plain.on_source, with.on_source, "0"),
    ];
    for (name, plain, with, target) in rows {
        table.row([name.to_string(), plain.to_string(), with.to_string(), target.to_string()]);
    }
    report.line("");
    report.table(&table);
    let requests = |session: &Session| session.number("clients.requests");
    report.line(format!(
        "Requests to the daemon: {} in a session with one start, {} in one with a second start under strace; \
         so {} by the warm start (target 0; strace itself is a new program in that session).",
        requests(&first),
        requests(&session),
        requests(&session).saturating_sub(requests(&first)),
    ));
}

fn calls(log: &Path, shared: &Path) -> Calls {
    let text = std::fs::read_to_string(log).expect("strace wrote it");
    let shared = format!("\"{}", shared.display());
    let mut calls = Calls::default();
    // The execve is the driver's; what follows is the program's.
    for line in text.lines().filter(|line| line.contains('(') && !line.contains("execve(")) {
        let open = line.contains("openat(") || line.contains(" open(");
        let stat = ["stat(", "fstatat(", "statx(", "fstatat64("].iter().any(|name| line.contains(name));
        calls.all += 1;
        calls.opens += usize::from(open);
        calls.failed_opens += usize::from(open && line.contains("= -1"));
        calls.stats += usize::from(stat);
        calls.on_source += usize::from(line.contains(&shared));
    }
    calls
}
