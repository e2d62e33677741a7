//! Explained runs with Headwater.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::{compare_with, headwater, text};

/// Makes a directory with a script that reads files there, finds some not, and reads one elsewhere.
fn script(directory: &Path) -> String {
    fs::write(directory.join("data"), "some data\n").unwrap();
    let named = text(directory);
    format!("for i in 1 2 3; do cat {named}/data; cat {named}/absent 2>/dev/null; done; cat /etc/hostname; exit 3")
}

fn answers<'a>(report: &'a Value, by: &str) -> &'a Value {
    &report["served"][by]
}

#[test]
fn each_mechanism_is_explained() {
    let directory = tempfile::tempdir().unwrap();
    let sw = directory.path().canonicalize().unwrap();
    let script = script(&sw);
    for via in ["namespace", "audit", "auto", "mount"] {
        let program = ["/bin/sh", "-c", &script];
        let report = compare_with(&["--via", via, "--shared", text(&sw)], &program, |_| {});
        if report["served"].is_null() {
            println!("skipped: --via {via}: {}", report["notes"]);
            continue;
        }
        let used = report["via"].as_str().unwrap();
        assert!(via == "auto" || via == used || used == "audit", "{via}: {used}");
        assert!(answers(&report, "session_ns").as_u64() > Some(0), "{report:#}");
        if used == "namespace" || used == "audit" {
            let answered = answers(&report, "answered");
            assert!(answered["read_bytes"].as_u64() >= Some(30), "{via}: {report:#}");
        }
        let not: Vec<&str> =
            answers(&report, "not_served").as_array().unwrap().iter().filter_map(|row| row["path"].as_str()).collect();
        assert!(not.contains(&"/etc/hostname"), "{via}: {not:?}");
        // Copies have the names of their source files, and the node's own files are none of the program's.
        let files = report["files"].as_array().unwrap();
        let data = text(&sw).to_owned() + "/data";
        assert!(via == "mount" || files.iter().any(|file| file["path"] == data.as_str()), "{via}: {files:#?}");
        assert!(files.iter().all(|file| !file["path"].as_str().unwrap().contains("/n0/")), "{via}: {files:#?}");
        if used == "audit" {
            assert!(answers(&report, "look_ups_without_call").as_u64() >= Some(3), "{report:#}");
        }
    }
}

#[test]
fn a_path_that_is_written_to_is_passed_through() {
    let directory = tempfile::tempdir().unwrap();
    let sw = directory.path().canonicalize().unwrap();
    fs::write(sw.join("log"), "").unwrap();
    let script = format!("cat {0}/log; echo one >> {0}/log; cat {0}/log; cat {0}/log", text(&sw));
    let json = directory.path().join("report.json");
    let run = headwater()
        .env("HEADWATER_CLOSURES", "/dev/null/closures")
        .args(["explain", "-q", "--via", "namespace", "--shared", text(&sw), "--json", text(&json), "--"])
        .args(["/bin/sh", "-c", &script])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!((run.status.code(), &*run.stdout), (Some(0), &b"one\none\n"[..]), "{run:?}");
    let report: Value = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
    if report["via"] != "namespace" {
        println!("skipped: no mount namespace");
        return;
    }
    let log = text(&sw).to_owned() + "/log";
    let rows = answers(&report, "not_served").as_array().unwrap();
    assert!(rows.iter().any(|row| row["path"] == log.as_str() && row["why"] == "changed by the job"), "{rows:#?}");
}

#[test]
fn neither_variables_nor_files_choose_the_mechanism() {
    let directory = tempfile::tempdir().unwrap();
    let defaults = directory.path().join("headwater.toml");
    fs::write(&defaults, "via = \"audit\"\n").unwrap();
    let report = compare_with(&[], &["/bin/true"], |command: &mut Command| {
        command.env("HEADWATER_VIA", "namespace").env("HEADWATER_CONFIG", &defaults);
    });
    assert_eq!((report["via"].as_str(), report.get("served")), (Some("off"), None), "{report:#}");
}
