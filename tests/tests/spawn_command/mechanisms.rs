//! How processes are made, which only `--report` may show.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use headwater_tests::harness::{Fixture, has_program, no_early_stop, skipped};

use super::{by_rank, command, seen, spawn};

#[test]
fn all_mechanisms_have_the_same_output() {
    if let Some(reason) = no_early_stop() {
        return skipped(reason);
    }
    let fixture = Fixture::new("spawn-mechanisms");
    let program = fixture.build("spawned.c", "spawned", &[]);
    let program = program.to_str().expect("an own path");
    let lines: Vec<String> = (0..5).map(|rank| format!("1 constructed, rank {rank} of 5: x {rank}")).collect();
    let expected: Vec<(usize, &str)> = lines.iter().map(String::as_str).enumerate().collect();
    for from in ["auto", "zygote", "exec", "vfork", "clone3", "posix_spawn", "fork", "pfork"] {
        let seen = spawn(&["-n", "5", "--from", from, "--report", "--", program, "x", "{rank}"]);
        assert_eq!((seen.status, by_rank(&seen.out)), (Some(0), expected.clone()), "by {from}: {}", seen.err);
        let made = match from {
            "auto" => "zygote",
            "exec" => "vfork",
            other => other,
        };
        assert!(seen.err.contains(&format!("5 processes of {program} by {made}:")), "by {from}: {}", seen.err);
    }
}

#[test]
fn interpreters_from_a_zygote() {
    if let Some(reason) = no_early_stop() {
        return skipped(reason);
    }
    for (program, option, script) in
        [("sh", "-c", "echo $HEADWATER_RANK"), ("python3", "-c", "import os; print(os.environ['HEADWATER_RANK'])")]
    {
        if !has_program(program) {
            skipped(format_args!("{program} is not installed"));
            continue;
        }
        let seen = spawn(&["-n", "6", "--from", "zygote", "--report", "--", program, option, script]);
        let ranks: Vec<String> = (0..6).map(|rank| rank.to_string()).collect();
        let expected: Vec<(usize, &str)> = ranks.iter().map(String::as_str).enumerate().collect();
        assert_eq!(by_rank(&seen.out), expected, "{}", seen.err);
        assert!(seen.err.contains(&format!("6 processes of {program} by zygote:")), "{}", seen.err);
    }
}

/// A module that takes note of the process that imports it.
#[test]
fn imports_are_done_once() {
    // In PATH it may be a script that searches for one.
    let python = "/usr/bin/python3";
    if !Path::new(python).exists() {
        return skipped(format_args!("{python} is not installed"));
    }
    let fixture = Fixture::new("spawn-imports");
    fixture.file("modules/noted.py", "import os\nimporter = int(os.readlink('/proc/self'))\n", 0o644);
    let script =
        "import os, sys, noted; print(noted.importer == os.getpid(), noted.importer, sys.argv, sys.flags.optimize)";
    let script = fixture.file("script.py", script, 0o644);
    let script = script.to_str().expect("an own path");
    let path = fixture.path("modules");
    let run = |more: &[&str]| {
        let args = [&["-n", "4", "--from", "zygote", "--report"], more, &["--", python, "-O", script, "{rank}"]];
        seen(command(&args.concat()).env("PYTHONPATH", &path))
    };
    let seen = run(&["--imports", "noted"]);
    assert!(seen.err.contains("by zygote:"), "{}", seen.err);
    let importers: BTreeSet<&str> = seen.out.lines().filter_map(|line| line.split(' ').nth(2)).collect();
    assert_eq!((seen.out.matches(": False ").count(), importers.len()), (4, 1), "{}{}", seen.out, seen.err);
    for rank in 0..4 {
        let arguments = format!("['{script}', '{rank}'] 1");
        assert!(seen.out.contains(&arguments), "{arguments}: {}", seen.out);
    }
    let seen = run(&[]);
    assert_eq!(seen.out.matches(": True ").count(), 4, "{}{}", seen.out, seen.err);
}

#[test]
fn a_static_program_is_executed_and_the_reason_reported() {
    let fixture = Fixture::new("spawn-static");
    let source = fixture.file("x.c", "#include <stdio.h>\nint main(void) { puts(\"static\"); }\n", 0o644);
    let program = fixture.path("x");
    let compiled = Command::new("cc").arg("-static").arg("-o").arg(&program).arg(&source).output();
    if !compiled.is_ok_and(|output| output.status.success()) {
        return skipped("nothing can be linked statically here");
    }
    let program = program.to_str().expect("an own path");
    let seen = spawn(&["-n", "4", "--from", "zygote", "--report", "--", program]);
    assert_eq!(by_rank(&seen.out), [(0, "static"), (1, "static"), (2, "static"), (3, "static")]);
    assert!(seen.err.contains("no zygote can be made of"), "{}", seen.err);
    assert!(seen.err.contains("by vfork (it is linked statically)"), "{}", seen.err);
    // The mechanism of an automatic choice is reported on demand.
    assert_eq!(spawn(&["-n", "4", "--", program]).err, "");
}

#[test]
fn few_processes_go_by_exec() {
    let seen = spawn(&["-n", "2", "--report", "--", "true"]);
    assert!(seen.err.contains("by vfork (for fewer than 4 processes a zygote doesn't pay)"), "{}", seen.err);
    assert!(seen.err.contains("until the process ends"), "{}", seen.err);
}

/// Generators of random numbers are seeded from addresses.
#[test]
fn stack_and_heap_have_places_of_their_own() {
    let fixture = Fixture::new("places");
    let program = fixture.build("spawn/places.c", "places", &[]).display().to_string();
    // Executed processes may have equal places by chance.
    let stops = if no_early_stop().is_some() { &["main"][..] } else { &["load", "main"] };
    for stop in stops {
        let seen = spawn(&["-n", "20", "--from", "zygote", "--stop", stop, "--", &program]);
        assert_eq!(seen.status, Some(0), "{stop}: {}", seen.err);
        let places: Vec<(usize, &str)> = by_rank(&seen.out);
        let distinct = |which: usize| -> BTreeSet<&str> {
            places.iter().map(|(_, line)| line.split(' ').nth(which).expect("two addresses")).collect()
        };
        assert_eq!(distinct(0).len(), 20, "{stop}: {}", seen.out);
        // Before main, memory has been freed that lies in all where it lay.
        assert!(distinct(1).len() == 20 || *stop == "main", "{stop}: {}", seen.out);
    }
}
