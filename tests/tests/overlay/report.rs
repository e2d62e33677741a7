//! `headwater run --report`: its numbers are those of the summary, and whatever a path's name or a daemon's end is, the
//! page is well-formed and the program runs.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use headwater_tests::harness::{Fixture, Mechanism, Program, Starting, kill, skipped, wait_until};
use serde_json::Value;

/// How long a start may take.
const START_MAX: Duration = Duration::from_secs(30);
/// Files that each process reads.
const FILES: usize = 40;
/// Names below the shared directory: what a browser must not take for markup, what is not UTF-8, and a line's end.
const HOSTILE: [&[u8]; 3] =
    [b"data/</script><img src=x onerror=alert(1)>", b"data/not \xff\xfe UTF-8", b"data/two\nlines"];

/// Returns a program that reads files of the fixture.
fn reads(fixture: &Fixture) -> Program {
    for number in 0..FILES {
        fixture.file(&format!("data/{number}"), vec![number as u8; 3000 + number], 0o644);
    }
    fs::create_dir(fixture.path("data/<")).expect("an own directory");
    for name in HOSTILE {
        fs::write(fixture.shared().join(OsStr::from_bytes(name)), "hostile").expect("an own directory");
    }
    let directory = fixture.path("data").display().to_string();
    Program::shell(&format!(
        "find {directory} -type f -exec cat {{}} + > /dev/null; test -e {directory}/absent; echo done"
    ))
}

fn json(file: &Path) -> Value {
    let text = fs::read_to_string(file.with_extension("json")).expect("a report beside the page");
    serde_json::from_str(&text).expect("JSON")
}

fn number(value: &Value, path: &str) -> u64 {
    path.split('.').fold(value, |value, key| &value[key]).as_u64().unwrap_or_else(|| panic!("no number {path}"))
}

fn check(via: Mechanism) {
    if let Err(reason) = via.check() {
        return skipped(reason);
    }
    let fixture = Fixture::new("report");
    let program = reads(&fixture);
    let page = fixture.outside("report.html");
    let option = format!("--report={}", page.display());
    let session = fixture.headwater().via(via).on(4, 2).option(option).run(&program);
    assert_eq!((session.output.status, &*session.output.stdout), (0, &*"done\n".repeat(8)), "{:?}", session.output);
    session.assert_served();
    let report = json(&page);
    assert_eq!(report["format"], "headwater-job-report");
    assert_eq!((report["nodes"].as_array().map(Vec::len), &report["missing_ranks"]), (Some(4), &serde_json::json!([])));
    for (field, summary) in [("files", "files_read"), ("directories", "directories_read"), ("bytes", "bytes_read")] {
        let of_summary = session.number(&format!("shared_fs.{summary}"));
        assert_eq!(number(&report, &format!("shared_fs.{field}")), of_summary, "{field}");
    }
    let paths = report["paths"].as_array().expect("paths");
    let sum = |field: &str| paths.iter().map(|path| number(path, field)).sum::<u64>();
    assert_eq!(sum("shared_fs_bytes"), session.number("shared_fs.bytes_read"), "each byte is of a path");
    let requests: u64 =
        report["nodes"].as_array().into_iter().flatten().map(|node| number(node, "processes.requests")).sum();
    assert_eq!(sum("requests"), requests, "each request is of a path");
    assert!(requests > 0 && number(&report, "legs.wait_us") > 0);
    let legs = ["node_us", "links_us", "parents_us", "cache_us", "shared_fs_us", "unknown_us"];
    let legs: u64 = legs.iter().map(|leg| number(&report, &format!("legs.{leg}"))).sum();
    assert!(legs.abs_diff(number(&report, "legs.wait_us")) <= 64, "the legs add up to the wait: {legs}");
    for number in 0..FILES {
        let name = fixture.path(&format!("data/{number}")).display().to_string();
        let path =
            paths.iter().find(|path| path["path"] == name.as_str()).unwrap_or_else(|| panic!("{name} is missing"));
        assert_eq!((&path["kind"], &path["nodes"]["shared_fs"]), (&"file".into(), &1.into()), "{path}");
    }
    let html = fs::read_to_string(&page).expect("a page");
    assert!(!html.contains("<img") && html.matches("</script>").count() == 2, "no name is markup");
    assert!(html.contains("not \\\\xff\\\\xfe UTF-8"), "what is not UTF-8 is shown by its bytes");
    assert!(fs::read_to_string(page.with_extension("txt")).expect("a text").contains("where processes waited"));
}

#[test]
fn its_numbers_are_the_summarys_under_audit() {
    check(Mechanism::Audit);
}

#[test]
fn its_numbers_are_the_summarys_in_a_namespace() {
    check(Mechanism::Namespace);
}

/// Runs a program on three nodes, does `harm` once all of its processes have read a file, and returns the report's text.
fn harmed(harm: impl FnOnce(&Starting)) -> (Value, String) {
    let fixture = Fixture::new("report-harmed");
    reads(&fixture);
    let (page, go) = (fixture.outside("report.html"), fixture.outside("go"));
    let data = fixture.path("data/1").display().to_string();
    let script = format!("cat {data} > /dev/null; echo begun; while ! test -e {}; do sleep 0.05; done", go.display());
    let option = format!("--report={}", page.display());
    let starting = fixture.headwater().on(3, 1).option(option).start(&Program::shell(&script));
    let have_begun = || starting.running.stdout().lines().count() == 3;
    assert!(wait_until(START_MAX, have_begun), "all programs begin");
    harm(&starting);
    fs::write(&go, "").expect("an own directory");
    let session = starting.finish();
    assert_eq!(session.output.status, 0, "{:?}", session.output);
    let text = fs::read_to_string(page.with_extension("txt")).expect("a text");
    (json(&page), text)
}

#[test]
fn what_daemons_did_before_they_were_killed_is_missing() {
    let (report, text) = harmed(|starting| {
        starting.supervisors().into_iter().for_each(kill);
        starting.daemons().into_iter().for_each(kill);
    });
    assert_eq!(report["missing_ranks"], serde_json::json!([0, 1, 2]));
    assert!(text.contains("Records are missing of nodes whose daemons ended without them (3)"), "{text}");
}

#[test]
fn a_daemon_that_takes_anothers_place_is_named() {
    let mut has_supervisors = false;
    let (report, text) = harmed(|starting| {
        has_supervisors = !starting.supervisors().is_empty();
        let before = starting.daemons();
        before.iter().copied().for_each(kill);
        let is_new = |daemon: &i32| !before.contains(daemon);
        let are_replaced = || starting.daemons().iter().filter(|daemon| is_new(daemon)).count() == 3;
        assert!(!has_supervisors || wait_until(START_MAX, are_replaced), "supervisors start daemons again");
    });
    if !has_supervisors {
        return skipped("audit has no mount beside it here, so nothing starts a daemon again");
    }
    let successors = report["nodes"].as_array().expect("nodes").iter().filter(|node| node["is_successor"] == true);
    assert_eq!(successors.count() + report["missing_ranks"].as_array().map_or(0, Vec::len), 3);
    assert!(text.contains("a daemon died") || text.contains("Records are missing"), "{text}");
}

#[test]
fn a_file_that_cannot_be_written_is_reported_first_and_the_program_runs() {
    let fixture = Fixture::new("report-unwritable");
    let program = reads(&fixture);
    let session = fixture.headwater().option("--report=/proc/none/report.html").run(&program);
    assert_eq!((session.output.status, &*session.output.stdout), (0, "done\n"), "{:?}", session.output);
    assert!(session.messages.contains("/proc/none/report.html can't be written"), "{}", session.messages);
}
