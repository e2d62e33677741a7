//! `headwater explain`: programs run as they do without it, and the report names what their starts wait for.

mod faithful;
mod served;
mod truth;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use headwater_tests::harness::{skipped, wait_until};
use rustix::process::Signal;
use serde_json::Value;

fn headwater() -> Command {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests have a parent");
    Command::new(root.join("target/dist/bin/headwater"))
}

/// Runs a program plainly and explained; the output and the exit status must be the same.
fn compare(program: &[&str], change: impl Fn(&mut Command)) -> Value {
    compare_with(&[], program, change)
}

/// As [`compare`], with options of `headwater explain`.
fn compare_with(options: &[&str], program: &[&str], change: impl Fn(&mut Command)) -> Value {
    let directory = tempfile::tempdir().unwrap();
    let json = directory.path().join("report.json");
    let run = |mut command: Command| -> Output {
        change(&mut command);
        command.stdin(Stdio::null()).output().unwrap()
    };
    let mut plain = Command::new(program[0]);
    plain.args(&program[1..]);
    let plain = run(plain);
    let mut explained = headwater();
    explained.args(["explain", "--quiet", "--nodes", "2", "--json"]).arg(&json).args(options).arg("--").args(program);
    explained.env("HEADWATER_CLOSURES", "/dev/null/closures");
    let explained = run(explained);
    let status = plain.status.code().or(plain.status.signal().map(|number| 128 + number));
    assert_eq!(explained.status.code(), status, "{program:?}: {explained:?}");
    assert_eq!(explained.stdout, plain.stdout, "{program:?}");
    assert_eq!(explained.stderr, plain.stderr, "{program:?}");
    let report: Value = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
    assert_eq!(report["schema"], "headwater-report/start/1");
    assert_eq!(report["exit_status"].as_i64(), status.map(i64::from), "{program:?}");
    let phases: u64 = report["phases"].as_array().unwrap().iter().filter_map(|p| p["length_ns"].as_u64()).sum();
    assert_eq!(Some(phases), report["wall_ns"].as_u64(), "{program:?}");
    report
}

fn compile(directory: &Path, source: &str, name: &str, flags: &[&str]) -> PathBuf {
    let (from, to) = (directory.join(format!("{name}.c")), directory.join(name));
    fs::write(&from, source).unwrap();
    let done = Command::new("cc").arg(&from).arg("-o").arg(&to).args(flags).status().unwrap();
    assert!(done.success());
    to
}

fn advice(report: &Value) -> Vec<String> {
    let searches = report["searches"].as_array().unwrap();
    searches.iter().filter_map(|search| search["advice"].as_str().map(str::to_owned)).collect()
}

fn text(path: &Path) -> &str {
    path.to_str().expect("temporary paths are UTF-8")
}

#[test]
fn an_rpath_that_misses() {
    let directory = tempfile::tempdir().unwrap();
    let (miss, real) = (directory.path().join("miss"), directory.path().join("real"));
    for made in [&miss, &real] {
        fs::create_dir(made).unwrap();
    }
    compile(&real, "int f(void) { return 4; }", "libf.so", &["-shared", "-fPIC"]);
    for (tags, kind) in [("-Wl,--disable-new-dtags", "RPATH"), ("-Wl,--enable-new-dtags", "RUNPATH")] {
        let rpath = format!("-Wl,-rpath,{}:{}", text(&miss), text(&real));
        let search = format!("-L{}", text(&real));
        let source = "int f(void); int main(void) { return f(); }";
        let program = compile(directory.path(), source, kind, &[tags, &rpath, &search, "-lf"]);
        let report = compare(&[text(&program)], |_| {});
        let line = format!("remove {} from the {kind} of {}", text(&miss), text(&program));
        assert!(advice(&report).iter().any(|advice| advice.starts_with(&line)), "{report:#}");
        assert!(!advice(&report).iter().any(|advice| advice.contains(text(&real))), "{report:#}");
        assert!(report["processes"][0]["loaded_ns"].as_u64().is_some());
    }
}

#[test]
fn the_loaders_searches_are_those_that_it_names() {
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let variable = format!("{}:{}", text(one.path()), text(two.path()));
    let report = compare(&["/bin/ls", "/"], |command| {
        command.env("LD_LIBRARY_PATH", &variable);
    });
    let searches = report["searches"].as_array().unwrap();
    let counted = searches.iter().find(|search| search["directory"] == text(one.path())).unwrap();
    let shown = Command::new("/bin/ls").arg("/").env("LD_LIBRARY_PATH", &variable).env("LD_DEBUG", "libs").output();
    let shown = String::from_utf8_lossy(&shown.unwrap().stderr).into_owned();
    let beginning = format!("trying file={}/", text(one.path()));
    let tried = shown.lines().filter(|line| line.contains(&beginning)).count() as u64;
    // The loader checks each directory that it finds nothing in, once.
    let fruitless = counted["fruitless"].as_u64().unwrap();
    assert!((tried..=2 * tried).contains(&fruitless) && tried > 0, "{tried} {counted}");
}

#[test]
fn empty_directories_of_pythonpath() {
    let directory = tempfile::tempdir().unwrap();
    let empty: Vec<PathBuf> = (0..20).map(|number| directory.path().join(format!("empty{number}"))).collect();
    empty.iter().for_each(|made| fs::create_dir(made).unwrap());
    let used = directory.path().join("used");
    fs::create_dir(&used).unwrap();
    fs::write(used.join("ours.py"), "x = 5\n").unwrap();
    let all: Vec<&str> = empty.iter().map(PathBuf::as_path).chain([used.as_path()]).map(text).collect();
    let report = compare(&["/usr/bin/python3", "-c", "import json, ours; print(ours.x)"], |command| {
        command.env("PYTHONPATH", all.join(":")).env("PYTHONDONTWRITEBYTECODE", "1");
    });
    let advice = advice(&report);
    for made in &empty {
        let line = format!("remove {} from PYTHONPATH: ", text(made));
        assert!(advice.iter().any(|advice| advice.starts_with(&line)), "{line}: {advice:?}");
    }
    let removed = format!("remove {} ", text(&used));
    assert!(!advice.iter().any(|advice| advice.starts_with(&removed)), "{advice:?}");
    let imports: Vec<&str> =
        report["imports"].as_array().unwrap().iter().filter_map(|i| i["module"].as_str()).collect();
    assert!(imports.contains(&"json") && imports.contains(&"ours"), "{imports:?}");
}

#[test]
fn programs_run_as_they_are() {
    let directory = tempfile::tempdir().unwrap();
    let static_program = compile(directory.path(), "int main(void) { return 3; }", "static", &["-static"]);
    compare(&[text(&static_program)], |_| {});
    let source = "#include <pthread.h>\n#include <stdio.h>\n#include <sys/stat.h>\n\
        static void *look(void *none) { struct stat s; for (int i = 0; i < 500; i++) stat(\"/etc/passwd\", &s); return none; }\n\
        int main(void) { pthread_t t[8]; for (int i = 0; i < 8; i++) pthread_create(&t[i], 0, look, 0);\n\
        for (int i = 0; i < 8; i++) pthread_join(t[i], 0); puts(\"joined\"); return 0; }";
    let threads = compile(directory.path(), source, "threads", &["-pthread"]);
    let report = compare(&[text(&threads)], |_| {});
    assert!(report["calls"]["count"].as_u64().unwrap() >= 4000);
    let report = compare(&["/bin/sh", "-c", "for i in 1 2 3 4 5 6 7 8 9; do ls / | wc -l; done; exit 4"], |_| {});
    assert_eq!(report["processes"].as_array().unwrap().len(), 19);
    compare(&["/bin/sh", "-c", "exec /bin/sh -c 'echo $0; exit 5' name"], |_| {});
    compare(&["/bin/sh", "-c", "kill -SEGV $$"], |_| {});
    compare(&["/bin/sh", "-c", "trap 'echo term; exit 8' TERM; kill $$; sleep 5"], |_| {});
    compare(&["/usr/bin/nproc"], |_| {});
    let spawn = "import os, subprocess\nprint(subprocess.run(['false']).returncode)\n\
        print(os.waitpid(os.posix_spawn('/bin/true', ['true'], {}), 0)[1], len(os.sched_getaffinity(0)))";
    compare(&["/usr/bin/python3", "-c", spawn], |_| {});
}

#[test]
fn a_stopped_program_goes_on() {
    let script = "trap 'echo caught' TSTP; kill -TSTP $$; kill -STOP $$; echo on; exit 6";
    let explained = headwater().args(["explain", "-q", "--", "/bin/bash", "-c", script]).stdout(Stdio::piped()).spawn();
    let explained = explained.unwrap();
    let state = || {
        let stat = fs::read_to_string(format!("/proc/{}/stat", explained.id())).unwrap();
        stat.rsplit(')').next().and_then(|rest| rest.trim().chars().next())
    };
    let begun = Instant::now();
    // It stops with its program, as a shell expects of its job.
    while state() != Some('T') && begun.elapsed() < Duration::from_secs(20) {
        thread::yield_now();
    }
    assert_eq!(state(), Some('T'));
    assert!(Command::new("kill").arg("-CONT").arg(explained.id().to_string()).status().unwrap().success());
    let output = explained.wait_with_output().unwrap();
    assert_eq!((output.status.code(), &*output.stdout), (Some(6), &b"caught\non\n"[..]));
}

/// It is continued before `headwater explain` has read which process it is.
#[test]
fn a_program_that_stops_at_once_goes_on() {
    let slow = ["-qq", "-o", "/dev/null", "-e", "trace=read", "-e", "inject=read:delay_exit=400000"];
    if !Command::new("strace").args(slow).arg("true").status().is_ok_and(|status| status.success()) {
        return skipped("strace is not installed, or may not trace");
    }
    let script = ["/bin/sh", "-c", "kill -STOP $$; echo on; exit 6"];
    let mut traced = Command::new("strace");
    traced.args(slow).arg(headwater().get_program()).args(["explain", "-q", "--"]).args(script);
    let traced = traced.stdout(Stdio::piped()).spawn().unwrap();
    let children = format!("/proc/{0}/task/{0}/children", traced.id());
    let explained = || fs::read_to_string(&children).unwrap_or_default().trim().to_owned();
    // The program has stopped when `headwater explain` is to stop with it.
    let is_to_stop = || {
        let status = fs::read_to_string(format!("/proc/{}/status", explained())).unwrap_or_default();
        let pending = status.lines().find_map(|line| line.strip_prefix("ShdPnd:")).unwrap_or_default();
        u64::from_str_radix(pending.trim(), 16).is_ok_and(|signals| signals >> (Signal::STOP.as_raw() - 1) & 1 == 1)
    };
    wait_until(Duration::from_secs(10), is_to_stop);
    assert!(Command::new("kill").args(["-CONT", &explained()]).status().unwrap().success());
    let output = traced.wait_with_output().unwrap();
    assert_eq!((output.status.code(), &*output.stdout), (Some(6), &b"on\n"[..]));
}

#[test]
fn a_process_outlives_its_program() {
    let directory = tempfile::tempdir().unwrap();
    let made = directory.path().join("late");
    let script = format!("(exec >/dev/null 2>&1; read line < {0}.go; echo late > {0}) & exit 0", text(&made));
    let fifo = directory.path().join("late.go");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let output = headwater().args(["explain", "-q", "--", "/bin/sh", "-c", &script]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    fs::write(&fifo, "go\n").unwrap();
    let begun = Instant::now();
    while fs::read_to_string(&made).unwrap_or_default() != "late\n" && begun.elapsed() < Duration::from_secs(20) {
        thread::yield_now();
    }
    assert_eq!(fs::read_to_string(&made).unwrap(), "late\n");
}

#[test]
fn what_cannot_be_traced_runs_untraced() {
    let mut strace = Command::new("strace");
    strace.args(["-f", "-o", "/dev/null"]).arg(headwater().get_program());
    let Ok(output) = strace.args(["explain", "--", "/bin/sh", "-c", "echo out; exit 7"]).output() else {
        println!("skipped: strace is not installed");
        return;
    };
    assert_eq!((output.status.code(), &*output.stdout), (Some(7), &b"out\n"[..]));
    let lines = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(lines.lines().count() == 1 && lines.contains("can't be explained"), "{lines}");
}

#[test]
fn records_compose() {
    let directory = tempfile::tempdir().unwrap();
    let sw = directory.path().join("sw");
    fs::create_dir(&sw).unwrap();
    fs::write(sw.join("data"), "some data").unwrap();
    let script = sw.join("run.sh");
    fs::write(&script, format!("#!/bin/sh\ncat {0}/data; cat {0}/absent 2>/dev/null; exit 0\n", text(&sw))).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let record = directory.path().join("run.record");
    let run = |arguments: &[&str]| {
        let output = headwater().env("HEADWATER_CLOSURES", "/dev/null/closures").args(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        output
    };
    run(&["explain", "-q", "-o", text(&record), "--", text(&script)]);
    let json = directory.path().join("again.json");
    run(&["explain", "-q", "--nodes", "2", "--json", text(&json), "--record", text(&record)]);
    let again: Value = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
    assert_eq!((again["source"].as_str(), again["exit_status"].as_u64()), (Some("record"), Some(0)));
    // A temporary directory is the machine's own, unless it is named.
    let simulated = run(&["simulate", "--nodes", "4", "--json", "--trace", text(&record), "--shared", text(&sw)]);
    assert!(serde_json::from_slice::<Value>(&simulated.stdout).unwrap()["runs"][0]["seconds"].as_f64().is_some());
    // A recorded run has the same, with what the daemon knows.
    let recorded = directory.path().join("recorded");
    run(&["record", "--shared", text(&sw), "-o", text(&recorded), "--", text(&script)]);
    let lines = fs::read_to_string(&recorded).unwrap();
    assert!(lines.lines().any(|line| line.starts_with("whole ") && line.ends_with("/data")), "{lines}");
    if lines.starts_with("headwater closure 3") {
        let absent = |line: &str| line.starts_with("call ") && line.contains(" open 2 ") && line.ends_with("/absent");
        assert!(lines.lines().any(absent), "{lines}");
        run(&["explain", "-q", "--record", text(&recorded)]);
    } else {
        println!("skipped: no mount namespace in which calls are seen");
    }
    run(&["plan", "--nodes", "4", "--trace", text(&record), "--shared", text(&sw)]);
    let preloaded = run(&["run", "--summary", "--shared", text(&sw), "--preload", text(&record), "--", text(&script)]);
    assert_eq!(preloaded.stdout, b"some data");
    assert!(!String::from_utf8_lossy(&preloaded.stderr).contains("warning"), "{preloaded:?}");
}
