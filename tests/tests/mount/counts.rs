//! Requests to the shared file system and to the daemon: each file and directory once, however many nodes and processes
//! request it, and nothing that the kernel has cached.

use headwater_tests::bench::python_environment;
use headwater_tests::counting_fs::{Caching, Mounted};
use headwater_tests::harness::{Fixture, Headwater, Mechanism, Mounting, Program, Session, View, has_program, skipped};
use serde_json::Value;

use headwater_tests::needs_mounts;

/// The most FUSE requests for each file that an import uses, however many processes import it.
const REQUESTS_A_FILE_MAX: u64 = 3;

fn fill(fixture: &Fixture) {
    for n in 0..60 {
        fixture.file(&format!("pkg{}/module{n}.py", n % 6), format!("value = {n}\n"), 0o644);
    }
    fixture.file("pkg0/deep/er/data", vec![7; 200_000], 0o644);
    fixture.link("pkg0", "alias");
}

/// Paths of which something was counted more than once.
fn repeated(counts: &Value, kind: &str) -> Vec<String> {
    let paths = counts["paths"].as_object().expect("counts by path");
    let more = paths.iter().filter(|(_, counts)| counts[kind].as_u64().unwrap_or(0) > 1);
    more.map(|(path, counts)| format!("{path}: {counts}")).collect()
}

fn check(counts: &Value, session: &Session, shape: &str) {
    let shape = format!("{shape}\n{counts:#}\n{:#}", session.summary);
    for kind in ["open", "opendir", "readlink"] {
        assert_eq!(repeated(counts, kind), [""; 0], "more than one {kind}: {shape}");
    }
    assert_eq!(counts["total"]["failed_lookup"], 0, "absent names were probed: {shape}");
    assert_eq!(session.fallbacks(), 0, "{shape}");
}

#[test]
fn everything_is_read_once_by_any_number_of_nodes_and_processes() {
    needs_mounts!();
    let fixture = Fixture::new("mountonce");
    fill(&fixture);
    for (nodes, processes) in [(1, 1), (1, 8), (4, 1), (4, 4), (9, 1)] {
        // Each shape starts with empty caches.
        let mut mounted = match Mounted::new(&fixture.shared(), 1, Caching { ttl_ms: 60_000, pages: true }) {
            Ok(mounted) => mounted,
            Err(reason) => return skipped(reason),
        };
        let script = format!(
            "cd {} && find . -type f | sort | xargs cat | cksum; cat alias/module0.py; ls pkg3/none alias/none 2>&1 | wc -l; \
             find . -printf '%p %s %y\\n' | sort | cksum",
            mounted.path().display()
        );
        let program = Program::shell(&script);
        let plain = program.run();
        mounted.reset();
        let session = Headwater::new(mounted.path()).via(Mechanism::Namespace).on(nodes, processes).run(&program);
        let mut lines: Vec<&str> = session.output.stdout.lines().collect();
        lines.sort_unstable();
        let mut expected: Vec<&str> = plain.stdout.lines().flat_map(|line| vec![line; nodes * processes]).collect();
        expected.sort_unstable();
        assert_eq!(lines, expected, "{:?}", session.output);
        // The kernel's caches of the plain run for that mount may hide look-ups, not opens.
        check(&mounted.counts(), &session, &format!("{nodes} nodes of {processes}"));
    }
}

/// The opened files.
fn opened(counts: &Value) -> Vec<String> {
    let paths = counts["paths"].as_object().expect("counts by path");
    let is_opened = |counts: &Value| counts["open"].as_u64().unwrap_or(0) > 0;
    paths.iter().filter(|(_, counts)| is_opened(counts)).map(|(path, _)| path.clone()).collect()
}

/// The program has the names of the files that it opens, as an interpreter has those of its modules.
#[test]
fn what_is_not_requested_is_not_opened() {
    needs_mounts!();
    let fixture = Fixture::new("unasked");
    for number in 0..100 {
        fixture.file(&format!("ordered/{number:02}"), format!("{number}\n"), 0o644);
        fixture.file(&format!("scattered/{number:02}"), format!("{number}\n"), 0o644);
    }
    let mut mounted = match Mounted::new(&fixture.shared(), 1, Caching { ttl_ms: 60_000, pages: true }) {
        Ok(mounted) => mounted,
        Err(reason) => return skipped(reason),
    };
    let ordered = (0..100).filter(|number| number % 3 != 1).map(|number| format!("ordered/{number:02}"));
    let scattered = (0..50).map(|number| format!("scattered/{:02}", number * 37 % 100));
    let files: Vec<String> = ordered.chain(scattered).collect();
    let program = Program::shell(&format!("cd {} && cat {} | cksum", mounted.path().display(), files.join(" ")));
    let plain = program.run();
    let expected = opened(&mounted.counts());
    assert_eq!(expected.len(), files.len());
    for (nodes, processes) in [(1, 1), (1, 4), (4, 1), (4, 4)] {
        mounted.reset();
        let session = Headwater::new(mounted.path()).via(Mechanism::Namespace).on(nodes, processes).run(&program);
        assert_eq!(session.output.stdout, plain.stdout.repeat(nodes * processes), "{:?}", session.output);
        assert_eq!(opened(&mounted.counts()), expected, "{nodes} nodes of {processes}: {:#}", session.summary);
    }
}

/// Views that are tried: a kernel may reclaim pages at any time. One that reclaims memory ahead of need (DAMON) does so
/// now and then within the second that a run takes.
const VIEWS_MAX: usize = 5;

/// Runs what `program` makes, which prints the given text, twice in a fresh view. The kernel alone answers the second
/// run: whatever isn't a page in each view, and all in one of some.
fn assert_second_asks_nothing(fixture: &Fixture, program: impl Fn(&View) -> (Program, &'static str)) {
    let pages_requested = |_| {
        // In other modes, openings are requests.
        let view = Mounting::of(&fixture.shared()).option("--opening=no-open").mount();
        let (program, args) = program(&view);
        let first = program.run();
        assert!(first.status == 0 && first.stdout.contains(args), "{first:?}");
        let ((pages, others), operations) = (view.fuse_requests_by_kind(), view.operations());
        assert!(pages > 0 && others > 0, "{operations}");
        program.run().assert_same(&first);
        let ((pages_now, others_now), operations_now) = (view.fuse_requests_by_kind(), view.operations());
        let shown = format!("before: {operations}; now: {operations_now}");
        assert_eq!(others_now, others, "{shown}");
        view.unmount();
        (pages_now != pages).then_some(shown)
    };
    let requested: Vec<String> = (0..VIEWS_MAX).map_while(pages_requested).collect();
    assert!(requested.len() < VIEWS_MAX, "{requested:#?}");
}

/// A second run of anything is answered by the kernel alone.
#[test]
fn a_second_run_asks_nothing() {
    needs_mounts!();
    let fixture = Fixture::new("second");
    fill(&fixture);
    assert_second_asks_nothing(&fixture, |view| {
        let script = format!(
            "cd {} && find . -printf '%p %s %m\\n' > /dev/null; find . -type f | xargs cat | cksum; readlink alias; \
             cat alias/deep/er/data | cksum; test -e pkg0/none; test -e none; ls -R > /dev/null",
            view.path().display()
        );
        (Program::shell(&script), "")
    });
}

#[test]
fn a_second_import_asks_nothing() {
    needs_mounts!();
    if !has_program("python3") {
        return skipped("python3 is not installed");
    }
    let fixture = Fixture::new("secondimport");
    fixture.file("site/pkg/__init__.py", "from . import one, two\n", 0o644);
    fixture.file("site/pkg/one.py", "value = 1\n", 0o644);
    fixture.file("site/pkg/two.py", "import pkg.one, json, nothing_of_that_name\n", 0o644);
    assert_second_asks_nothing(&fixture, |view| {
        let script = "try: import pkg.two\nexcept ImportError as error: print(error)";
        // It would try to write them each time.
        let program = Program::new("python3").args(["-B", "-c", script]).env("PYTHONPATH", view.join("site"));
        (program, "nothing_of_that_name")
    });
}

/// Files that a plain run finds.
fn files_found(mounted: &mut Mounted, program: &Program) -> u64 {
    mounted.reset();
    let plain = program.run();
    assert_eq!(plain.status, 0, "{plain:?}");
    let counts = mounted.counts();
    let paths = counts["paths"].as_object().expect("counts by path");
    paths.values().filter(|counts| counts["lookup"].as_u64().unwrap_or(0) > 0).count() as u64
}

/// Runs after which a program has touched all that it ever does.
const RUNS_UNTIL_SILENT_MAX: usize = 8;

#[test]
fn an_import_of_scipy_costs_few_requests_a_file() {
    needs_mounts!();
    let environment = match python_environment() {
        Ok(environment) => environment,
        Err(reason) => return skipped(reason),
    };
    let mut mounted = match Mounted::new(&environment, 1, Caching { ttl_ms: 60_000, pages: true }) {
        Ok(mounted) => mounted,
        Err(reason) => return skipped(reason),
    };
    let import = |root: &std::path::Path| {
        let python = root.join("bin/python3");
        Program::new(python).args(["-c", "import scipy.stats"]).env("PYTHONDONTWRITEBYTECODE", "1")
    };
    let plain = import(mounted.path());
    let files = files_found(&mut mounted, &plain);
    assert!(files > 300, "{files} files");
    for processes in [1, 4] {
        let view = View::of(mounted.path());
        let running: Vec<_> = (0..processes).map(|_| import(view.path()).start()).collect();
        running.into_iter().for_each(|running| assert_eq!(running.finish().status, 0));
        let (first, operations) = (view.fuse_requests(), view.operations());
        assert!(first <= REQUESTS_A_FILE_MAX * files, "{first} FUSE requests for {files} files: {}", view.operations());
        // Pages of libraries that no run has touched before may be touched by a later one; soon there
        // are none left.
        let asks_nothing = (0..RUNS_UNTIL_SILENT_MAX).any(|_| {
            let before = view.fuse_requests();
            assert_eq!(import(view.path()).run().status, 0);
            view.fuse_requests() == before
        });
        assert!(asks_nothing, "before: {operations}; now: {}", view.operations());
        view.unmount();
    }
}
