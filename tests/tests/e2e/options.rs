//! The effects of the options of `headwater run`, and their limits.

use std::fs;

use headwater_tests::counting_fs::{Caching, Mounted};
use headwater_tests::harness::{Fixture, Headwater, Program, glibc_is_before, headwater_binary, skipped};
use serde_json::Value;

fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

#[test]
fn every_process_knows_its_node_and_rank() {
    let fixture = Fixture::new("rank");
    let script = "echo $HEADWATER_NODE/$HEADWATER_NODES $HEADWATER_RANK/$HEADWATER_RANKS";
    let session = fixture.headwater().on(2, 3).run(&Program::shell(script));
    let expected = ["0/2 0/6", "0/2 1/6", "0/2 2/6", "1/2 3/6", "1/2 4/6", "1/2 5/6"];
    assert_eq!(sorted(&session.output.stdout), expected);
    assert_eq!((session.number("nodes"), session.number("processes")), (2, 6));
}

/// A program of this name starts others outside of its namespaces, so only audit is left for it.
#[test]
fn auto_audits_only_where_the_loader_survives_it() {
    let fixture = Fixture::new("at");
    fixture.library("lib/libx.so", "x", &[]);
    let app = fixture.build("loader.c", "bin/at", &[]);
    let opened = format!("mopen={}", fixture.path("lib/libx.so").display());
    let arguments = [app.display().to_string(), opened, "call=x".into()];
    let plain = Program::new(&app).args(&arguments[1..]).run();
    assert_eq!(plain.status, 0, "{plain:?}");
    let summary = fixture.outside("summary.json");
    let run = Program::new(headwater_binary()).args(["run", "--via", "auto", "--shared"]).arg(fixture.shared());
    let run = run.arg("--no-summary").arg("--summary-json").arg(&summary).arg("--").args(&arguments).run();
    assert_eq!((run.status, &run.stdout), (0, &plain.stdout), "{run:?}");
    let summary: Value = serde_json::from_slice(&fs::read(summary).expect("it was written")).expect("it is JSON");
    match summary["off"].as_str() {
        Some(why) => assert!(glibc_is_before(2, 35) && why.contains("dlmopen"), "{summary}"),
        None => assert!(!glibc_is_before(2, 35) && summary["via"] == "audit", "{summary}"),
    }
}

#[test]
fn every_policy_and_shape_has_the_same_output() {
    let fixture = Fixture::new("policy");
    fixture.library("lib/libdep.so", "dep", &[]);
    fixture.library("lib/libx.so", "x", &["-L{shared}/lib", "-ldep", "-Wl,-rpath,$ORIGIN"]);
    fixture.file("data", vec![7; 2 << 20], 0o644);
    let app = fixture.build("loader.c", "bin/app", &["-Wl,-rpath,$ORIGIN/../lib"]);
    let data = fixture.path("data").display().to_string();
    let program = Program::new(app).args(["open=libx.so", "call=dep", "exec=/usr/bin/cksum", &data, "open=libnope.so"]);
    let plain = program.run();
    // Options, the nodes that run the program, and how often a file is read.
    let shapes = [
        ("--fan-out 1", 5, 1),
        ("--fan-out 2", 5, 1),
        ("--fan-out 16", 5, 1),
        ("--fan-out binomial", 5, 1),
        ("--trees 3", 5, 1),
        ("--trees 2 --readers 1", 5, 1),
        ("--groups 2 --fan-out 2", 5, 2),
        ("--readers n[1,4]", 3, 1),
        ("--fan-out 2 --readers n2", 4, 1),
        ("--groups 2 --readers n[0-1]", 3, 2),
    ];
    for policy in ["--push", "--pull", "--adaptive"] {
        for (options, nodes, times) in shapes {
            let headwater = fixture.headwater().on(5, 1).option(policy);
            let session = options.split(' ').fold(headwater, |headwater, word| headwater.option(word)).run(&program);
            let shape = format!("{policy} {options}: {session:#?}");
            assert_eq!(sorted(&session.output.stdout), sorted(&plain.stdout.repeat(nodes)), "{shape}");
            assert_eq!(session.number("shared_fs.files_read"), 4 * times, "{shape}");
            assert_eq!(session.number("clients.fallbacks"), 0, "{shape}");
        }
    }
}

#[test]
fn one_rank_in_a_path_of_its_own() {
    let fixture = Fixture::new("mpmd");
    for rank in 0..4 {
        fixture.file(&format!("data/{rank}"), format!("of {rank}\n"), 0o644);
    }
    let script = format!("cat {}/$HEADWATER_RANK", fixture.path("data").display());
    for policy in ["--push", "--pull", "--adaptive"] {
        let session = fixture.headwater().on(4, 1).option(policy).run(&Program::shell(&script));
        assert_eq!(sorted(&session.output.stdout), ["of 0", "of 1", "of 2", "of 3"], "{policy}");
    }
}

#[test]
fn what_is_excluded_is_read_from_its_source() {
    let fixture = Fixture::new("exclude");
    fixture.file("in/file", "in\n", 0o644);
    fixture.file("out/file", "out\n", 0o644);
    let mut mounted = match Mounted::new(&fixture.shared(), 1, Caching::NONE) {
        Ok(mounted) => mounted,
        Err(reason) => return skipped(reason),
    };
    let (inside, outside) = (mounted.path().join("in/file"), mounted.path().join("out/file"));
    let script = format!("cat {0} {1} {0} {1}", inside.display(), outside.display());
    let headwater = Headwater::new(mounted.path()).option("--exclude").option(mounted.path().join("out"));
    let session = headwater.on(1, 2).run(&Program::shell(&script));
    assert_eq!(sorted(&session.output.stdout), ["in", "in", "in", "in", "out", "out", "out", "out"]);
    let counts = mounted.counts();
    assert_eq!(counts["paths"]["in/file"]["open"], 1, "{counts:#}");
    assert_eq!(counts["paths"]["out/file"]["open"], 4, "{counts:#}");
}

#[test]
fn options_are_variables_too() {
    let fixture = Fixture::new("variables");
    fixture.file("data", "data\n", 0o644);
    let run = Program::new(headwater_binary()).arg("run").arg("--").arg("cat").arg(fixture.path("data"));
    let summary = fixture.outside("summary.json");
    let run = run
        .env("HEADWATER_SHARED", fixture.shared())
        .env("HEADWATER_NODES", "2")
        .env("HEADWATER_PPN", "3")
        .env("HEADWATER_SUMMARY_JSON", &summary);
    assert_eq!(run.run().stdout, "data\n".repeat(6));
    let summary = std::fs::read(&summary).expect("the variable names it");
    let summary: serde_json::Value = serde_json::from_slice(&summary).expect("it is JSON");
    assert_eq!(summary["processes"], 6);
    assert_eq!(summary["shared_fs"]["files_read"], 1, "{summary:#}");
}

#[test]
fn options_are_keys_of_the_users_file_too() {
    let fixture = Fixture::new("defaults");
    fixture.file("data", "data\n", 0o644);
    let (summary, directory) = (fixture.outside("summary.json"), fixture.outside("settings"));
    fs::create_dir_all(directory.join("headwater")).expect("a fresh directory");
    let lines = format!("shared = ['{}']\nsummary-json = '{}'\n", fixture.shared().display(), summary.display());
    fs::write(directory.join("headwater/headwater.toml"), lines).expect("a fresh file");
    let run = Program::new("env").args(["-u", "HEADWATER_CONFIG"]).arg(headwater_binary());
    let run = run.args(["run", "--ppn", "2", "--", "cat"]).arg(fixture.path("data"));
    assert_eq!(run.env("XDG_CONFIG_HOME", &directory).run().stdout, "data\n".repeat(2));
    let summary = fs::read(&summary).expect("the file names it");
    let summary: Value = serde_json::from_slice(&summary).expect("it is JSON");
    assert_eq!((&summary["processes"], &summary["shared_fs"]["files_read"]), (&2.into(), &1.into()), "{summary:#}");
}

#[test]
fn the_scope_is_shown_and_explained() {
    let fixture = Fixture::new("scope");
    fixture.file("data", "data\n", 0o644);
    let shared = fixture.shared().display().to_string();
    let run = Program::new(headwater_binary()).args(["run", "--show-scope", "--shared", &shared, "--", "true"]);
    let output = run.run();
    assert!(output.stdout.contains(&shared) || output.stderr.contains(&shared), "{output:?}");
}

#[test]
fn a_wrong_command_line_is_refused_by_name() {
    let cases = [
        (&["run"][..], "PROGRAM"),
        (&["run", "--nodes", "0", "--", "true"], "--nodes"),
        (&["run", "--store-max", "lots", "--", "true"], "--store-max"),
        (&["run", "--no-such-option", "--", "true"], "--no-such-option"),
    ];
    for (arguments, named) in cases {
        let output = Program::new(headwater_binary()).args(arguments).run();
        assert_eq!(output.status, 125, "{arguments:?}: {output:?}");
        assert!(output.stderr.contains(named), "{arguments:?}: {output:?}");
    }
}

#[test]
fn what_cannot_be_served_is_reported_and_the_program_runs() {
    let fixture = Fixture::new("warn");
    let app = fixture.build("tool.c", "bin/tool", &[]).display().to_string();
    let shared = fixture.shared().display().to_string();
    let long = format!("/dev/shm/{}", "x".repeat(120));
    let cases = [
        (["--shared", &shared, "--store", "/no/such/store"], "/no/such/store"),
        (["--shared", &shared, "--store", &long], &long),
        (["--shared", "/no/such/dir", "--ppn", "1"], "/no/such/dir"),
    ];
    let plain = Program::new(&app).run();
    for (options, named) in cases {
        let output = Program::new(headwater_binary()).arg("run").args(options).args(["--", &app]).run();
        assert_eq!((output.status, &output.stdout), (plain.status, &plain.stdout), "{options:?}: {output:?}");
        assert!(output.stderr.contains(named), "{options:?}: {output:?}");
    }
}

#[test]
fn a_key_that_cannot_be_protected_is_reported_and_the_program_runs() {
    let fixture = Fixture::new("munge");
    let (shared, jobs) = (fixture.shared().display().to_string(), fixture.outside("").display().to_string());
    let options = ["run", "--key-protection", "munge", "--shared", &shared, "--job-dir", &jobs, "--marker", "@"];
    let program = ["--", "/usr/bin/env", "@", "/bin/echo", "ran"];
    let output = Program::new(headwater_binary()).args(options).args(program).env("PATH", &shared).run();
    assert_eq!((output.status, &*output.stdout), (0, "ran\n"), "{output:?}");
    assert!(output.stderr.contains("`munge` can't be started. Install munge"), "{output:?}");
    assert_eq!(output.stderr.lines().count(), 1, "{output:?}");
}

#[test]
fn one_line_precedes_a_program_that_is_not_served() {
    let fixture = Fixture::new("nothing");
    let app = fixture.file("app/bin/app", "#!/bin/sh\necho out; echo err >&2; exit 3\n", 0o755).display().to_string();
    let top = fixture.path("app").display().to_string();
    let plain = Program::new(&app).run();
    let run = |options: &[&str]| Program::new(headwater_binary()).arg("run").args(options).args(["--", &app]).run();
    let local = format!("headwater: nothing to serve: {top}/bin is on a local file system; add --shared {top}\n");
    let file = format!(
        "headwater: nothing to serve: --shared {app}: it is not a directory; name {top}/bin, which contains it\n"
    );
    for (options, line) in [
        (&[][..], local.as_str()),
        (&["--nodes", "1", "--ppn", "1"], &local),
        (&["--shared", &app], &file),
        (&["--quiet"], ""),
        (&["--via", "off"], ""),
        (&["--via", "audit", "--shared", &top], ""),
    ] {
        let output = run(options);
        assert_eq!((output.status, &output.stdout), (plain.status, &plain.stdout), "{options:?}: {output:?}");
        assert_eq!(output.stderr, format!("{line}{}", plain.stderr), "{options:?}");
    }
}

/// A library that needs a newer C library ends whatever it is preloaded into, before the program begins.
#[test]
fn a_library_that_can_not_be_loaded_is_left_out() {
    let fixture = Fixture::new("unloadable");
    let installed = |name: &str| fixture.outside("installed").join(name);
    fs::create_dir_all(installed("bin")).expect("an own directory");
    fs::copy(headwater_binary(), installed("bin/headwater")).expect("it is installed");
    let versions = |name: &str| {
        let map = fixture.outside(name);
        fs::write(&map, format!("{name} {{ global: *; }};\n")).expect("an own directory");
        format!("-Wl,--version-script={}", map.display())
    };
    let needed = fixture.library("libneeded.so", "needed", &[&versions("NEW")]);
    let folder = needed.parent().expect("a file's").display().to_string();
    let calls = fixture.outside("calls.h");
    let text = "const char *needed(void); const char *(*const first_needed)(void) = needed;\n";
    fs::write(&calls, text).expect("an own directory");
    let (search, rpath) = (format!("-L{folder}"), format!("-Wl,-rpath,{folder}"));
    let library =
        fixture.library("libx.so", "x", &[&search, "-lneeded", &rpath, "-include", &calls.display().to_string()]);
    fixture.library("libneeded.so", "needed", &[&versions("OLD")]);
    fs::create_dir_all(installed("lib/headwater")).expect("an own directory");
    fs::write(installed("lib/headwater/mpiio-mpich4.so"), "").expect("an own directory");
    for name in ["libheadwater-mpiio.so", "libheadwater-relay.so"] {
        fs::copy(&library, installed("lib").join(name)).expect("an own directory");
    }
    let echo = Program::new("/bin/echo").arg("fine");
    assert!(echo.clone().env("LD_PRELOAD", &library).run().stderr.contains("`NEW' not found"));
    let headwater = |args: &[&str]| {
        let front = [installed("bin/headwater").into_os_string()].into_iter().chain(args.iter().map(Into::into));
        let output = echo.clone().behind(front).run();
        assert!(output.stdout == "fine\n" && output.status == 0, "{output:?}");
        assert!(output.stderr.contains("can't load") && output.stderr.contains("`NEW' not found"), "{output:?}");
    };
    headwater(&["run", "--via", "off", "--io", "auto", "--"]);
    headwater(&["spawn", "--relay", "--"]);
    let doctor = Program::new(installed("bin/headwater")).arg("doctor").run();
    assert!(doctor.stdout.contains("can't load"), "{doctor:?}");
}

#[test]
fn policies_of_variables_exclude_each_other() {
    let run = Program::new(headwater_binary()).args(["run", "--via", "off", "--", "true"]);
    let output = run.clone().env("HEADWATER_PUSH", "1").env("HEADWATER_PULL", "1").run();
    let expected = "headwater: HEADWATER_PUSH and HEADWATER_PULL exclude each other: unset one of them\n";
    assert_eq!((output.status, &*output.stderr), (125, expected), "{output:?}");
    assert_eq!(run.env("HEADWATER_PUSH", "1").env("HEADWATER_PULL", "0").run().status, 0);
}
