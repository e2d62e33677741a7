//! Requests to the shared file system: each file opened once, each directory read once, nothing that is absent, however
//! many nodes and processes there are.

use std::collections::HashMap;

use headwater_tests::counting_fs::{Caching, Mounted};
use headwater_tests::harness::{Fixture, Headwater, Program, has_program, skipped};
use serde_json::Value;

/// Programs, libraries and modules, with everything that makes a plain start read too much: search paths, absent names,
/// links.
fn fill(fixture: &Fixture) {
    let rpath = "-Wl,-rpath,$ORIGIN/../a:$ORIGIN/../b:$ORIGIN/../c:$ORIGIN/../d";
    fixture.dir("a");
    fixture.library("d/libbase.so", "base", &[]);
    for (number, dir) in ["b", "c", "d", "c", "b"].iter().enumerate() {
        fixture.library(&format!("{dir}/libl{number}.so"), dir, &["-L{shared}/d", "-lbase", rpath]);
    }
    fixture.link("libl2.so", "d/libl2.so.1");
    fixture.file("data/table.txt", "rows\n", 0o644);
    let link = [
        "-Wl,--no-as-needed",
        "-L{shared}/b",
        "-L{shared}/c",
        "-L{shared}/d",
        "-ll0",
        "-ll1",
        "-ll2",
        "-ll3",
        "-ll4",
        rpath,
    ];
    fixture.build("loader.c", "bin/app", &link);
    fixture.file("site/pkg/__init__.py", "from . import one, two\n", 0o644);
    fixture.file("site/pkg/one.py", "value = 1\n", 0o644);
    fixture.file("site/pkg/two.py", "import pkg.one\n", 0o644);
}

/// Paths whose count of `kind` is over one.
fn repeated(counts: &Value, kind: &str) -> Vec<String> {
    let paths = counts["paths"].as_object().expect("counts by path");
    let more = paths.iter().filter(|(_, counts)| counts[kind].as_u64().unwrap_or(0) > 1);
    more.map(|(path, counts)| format!("{path}: {counts}")).collect()
}

/// (path, opens, directory reads, link reads) of all that was opened or read.
fn opened(counts: &Value) -> Vec<(String, u64, u64, u64)> {
    let paths = counts["paths"].as_object().expect("counts by path");
    let number = |counts: &Value, kind: &str| counts[kind].as_u64().unwrap_or(0);
    let all = paths.iter().map(|(p, c)| (p.clone(), number(c, "open"), number(c, "opendir"), number(c, "readlink")));
    all.filter(|(_, opens, dirs, links)| opens + dirs + links > 0).collect()
}

/// Processes write at the same time: only the lines are compared, not their order.
fn lines(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

fn check(mounted: &mut Mounted, program: &Program) {
    let plain = program.run();
    let mut first = None;
    for (nodes, processes) in [(1, 1), (1, 8), (4, 1), (4, 8), (16, 1)] {
        mounted.reset();
        let session = Headwater::new(mounted.path()).on(nodes, processes).run(program);
        let counts = mounted.counts();
        let shape = format!("{nodes} nodes of {processes} processes\n{counts:#}\n{:#}", session.summary);
        assert_eq!(session.output.status, plain.status, "{:?}", session.output);
        assert_eq!(lines(&session.output.stdout), lines(&plain.stdout.repeat(nodes * processes)), "{shape}");
        assert_eq!(repeated(&counts, "open"), [""; 0], "files opened more than once: {shape}");
        assert_eq!(repeated(&counts, "opendir"), [""; 0], "directories read more than once: {shape}");
        assert_eq!(repeated(&counts, "readlink"), [""; 0], "links read more than once: {shape}");
        assert_eq!(counts["total"]["failed_lookup"], 0, "absent names were probed: {shape}");
        assert_eq!(session.number("clients.fallbacks"), 0, "{shape}");
        let total = |kind: &str| counts["total"][kind].as_u64().expect("a count");
        assert_eq!(session.number("shared_fs.files_read"), total("open"), "{shape}");
        assert_eq!(session.number("shared_fs.directories_read"), total("opendir"), "{shape}");
        let now = opened(&counts);
        let first = first.get_or_insert_with(|| now.clone());
        assert_eq!(*first, now, "what one process on one node (left) and {nodes} of {processes} (right) opened");
    }
}

fn mounted(fixture: &Fixture) -> Result<Mounted, String> {
    Mounted::new(&fixture.shared(), 1, Caching { ttl_ms: 60_000, pages: true })
}

#[test]
fn libraries_and_files() {
    let fixture = Fixture::new("once");
    fill(&fixture);
    let mut mounted = match mounted(&fixture) {
        Ok(mounted) => mounted,
        Err(reason) => return skipped(reason),
    };
    let at = |name: &str| mounted.path().join(name).display().to_string();
    let verbs = [
        "call=l0".into(),
        format!("open={}", at("d/libl2.so.1")),
        "open=libnope.so".into(),
        format!("open={}", at("d/libnope.so")),
    ];
    let program = Program::new(at("bin/app")).args(verbs).args(["exec=/bin/cat".into(), at("data/table.txt")]);
    check(&mut mounted, &program);
}

#[test]
fn python_modules() {
    if !has_program("python3") {
        return skipped("python3 is not installed");
    }
    let fixture = Fixture::new("oncepy");
    fill(&fixture);
    let mut mounted = match mounted(&fixture) {
        Ok(mounted) => mounted,
        Err(reason) => return skipped(reason),
    };
    // One write: the processes share a pipe.
    let script = "import os, pkg.two\ntry: import nope\nexcept ImportError as e: text = str(e)\n\
                  os.write(1, f'{text}\\n{pkg.one.value}\\n'.encode())";
    let path = mounted.path().join("site");
    let program =
        Program::new("python3").args(["-c", script]).env("PYTHONPATH", path).env("PYTHONDONTWRITEBYTECODE", "1");
    check(&mut mounted, &program);
}

/// The calls of a log of `strace -f`, each in one piece: one that another process interrupts is logged in two.
fn calls(log: &str) -> Vec<String> {
    let (mut calls, mut unfinished) = (Vec::new(), HashMap::new());
    for line in log.lines() {
        let Some((process, text)) = line.split_once(' ') else { continue };
        if let Some(start) = text.strip_suffix("<unfinished ...>") {
            unfinished.insert(process, start);
        } else if let Some((_, end)) = text.split_once(" resumed>") {
            calls.push(format!("{}{end}", unfinished.remove(process).unwrap_or_default()));
        } else {
            calls.push(text.to_owned());
        }
    }
    calls
}

/// Paths below `dir` that were opened, once for each time, by strace's annotation of descriptors.
fn opened_by_strace(log: &str, dir: &str) -> Vec<String> {
    let opened = |call: &String| -> Option<String> {
        let is_open = call.contains("open") && !call.contains("O_PATH");
        let descriptor = call.rsplit_once(" = ").filter(|_| is_open)?.1;
        Some(descriptor.split_once('<')?.1.split_once('>')?.0.to_owned())
    };
    let mut paths: Vec<String> = calls(log).iter().filter_map(opened).filter(|path| path.starts_with(dir)).collect();
    paths.sort();
    paths
}

#[test]
fn all_processes_of_a_session_together_open_each_file_once() {
    if !has_program("strace") {
        return skipped("strace is not installed");
    }
    let fixture = Fixture::new("oncetrace");
    fill(&fixture);
    let shared = fixture.shared().display().to_string();
    let data = fixture.path("data/table.txt").display().to_string();
    let program = Program::new(fixture.path("bin/app")).args(["call=l0", "open=libnope.so", "exec=/bin/cat", &data]);
    let plain = program.run();
    let log = fixture.outside("log").display().to_string();
    let strace = ["strace", "-f", "-y", "-qq", "-e", "trace=open,openat,openat2,execve", "-o", &log];
    let plain_trace = program.behind(strace).run();
    if plain_trace.status != 0 {
        return skipped(format!("strace: {}", plain_trace.stderr.trim()));
    }
    let read_log =
        || String::from_utf8_lossy(&std::fs::read(fixture.outside("log")).expect("strace wrote it")).into_owned();
    assert!(opened_by_strace(&read_log(), &shared).len() >= 7, "strace sees what a plain run opens");
    for (nodes, processes) in [(1, 1), (3, 2)] {
        let session = fixture.headwater().on(nodes, processes).behind(&strace).run(&program);
        assert_eq!(lines(&session.output.stdout), lines(&plain.stdout.repeat(nodes * processes)), "{session:?}");
        let paths = opened_by_strace(&read_log(), &shared);
        let twice: Vec<_> = paths.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| &pair[0]).collect();
        assert!(!paths.is_empty() && twice.is_empty(), "opened again, by {nodes} nodes of {processes}: {twice:?}");
    }
}
