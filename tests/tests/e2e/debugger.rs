//! gdb on a program that runs in a session, and on its core file when it crashes.

use std::path::{Path, PathBuf};
use std::time::Duration;

use headwater_tests::harness::{Fixture, Mechanism, Program, has_program, processes_using, skipped, wait_until};

fn deep(fixture: &Fixture) -> Program {
    fixture.build("deep.c", "lib/libdeep.so", &["-shared", "-fPIC", "-O0"]);
    let link = ["-DPROGRAM", "-O0", "-L{shared}/lib", "-ldeep", "-Wl,-rpath,$ORIGIN/../lib"];
    Program::new(fixture.build("deep.c", "bin/deep", &link))
}

/// gdb's output for these commands, which must be the same for the files below `shared`.
fn gdb(arguments: &[String], commands: &[&str]) -> String {
    let gdb = Program::new("gdb").args(["-nx", "-batch"]).args(commands.iter().flat_map(|command| ["-ex", command]));
    gdb.env("DEBUGINFOD_URLS", "").args(arguments).run().stdout
}

/// The frames of a backtrace have their function, file and line.
fn assert_backtrace(printed: &str) {
    for frame in ["library_inner (depth=0", "library_inner (depth=3", "main (argc="] {
        assert!(printed.contains(frame), "no frame {frame} in\n{printed}");
    }
    assert!(printed.matches("deep.c:").count() >= 5, "no lines in\n{printed}");
}

pub fn a_live_process(via: Mechanism) {
    if !has_program("gdb") {
        return skipped("gdb is not installed");
    }
    let fixture = Fixture::new("gdb");
    let go = fixture.outside("go");
    let program = deep(&fixture).arg(format!("w{}", go.display()));
    let session = fixture.headwater().via(via).start(&program);
    let root = session.view().map_or(fixture.shared(), Path::to_path_buf).display().to_string();
    let mut found = Vec::new();
    let runs = |found: &mut Vec<(i32, String)>| {
        *found = processes_using(&go).into_iter().filter(|(_, line)| line.starts_with(&root)).collect();
        found.len() == 1
            && std::fs::read_to_string(format!("/proc/{}/maps", found[0].0)).is_ok_and(|m| m.contains("libdeep.so"))
    };
    assert!(wait_until(Duration::from_secs(20), || runs(&mut found)), "the program starts");
    std::thread::sleep(Duration::from_millis(200));
    let printed = gdb(&["-p".into(), found[0].0.to_string()], &["bt", "info sharedlibrary", "detach"]);
    std::fs::write(&go, "").expect("an own directory");
    let session = session.finish();
    if printed.contains("ptrace") && !printed.contains("library_inner") {
        return skipped("processes may not be traced here");
    }
    assert_backtrace(&printed);
    assert!(printed.contains(&format!("{root}/bin/../lib/libdeep.so")), "{printed}");
    assert_eq!(session.output.stdout, "returned 3\n");
}

fn program_name(fixture: &Fixture) -> String {
    fixture.path("bin/deep").display().to_string()
}

pub fn a_core_file(via: Mechanism) {
    if !has_program("gdb") {
        return skipped("gdb is not installed");
    }
    let pattern = std::fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap_or_default();
    if !pattern.starts_with("core") {
        return skipped(format!("core files do not go to the working directory but to {}", pattern.trim()));
    }
    let fixture = Fixture::new("core");
    deep(&fixture);
    let dir = fixture.outside("cores");
    std::fs::create_dir(&dir).expect("an own directory");
    let script = format!("cd {} && ulimit -c unlimited && exec {} crash", dir.display(), program_name(&fixture));
    let session = fixture.headwater().via(via).run(&Program::shell(&script));
    assert_eq!(session.output.status, 128 + 6, "{:?}", session.output);
    let cores: Vec<PathBuf> =
        std::fs::read_dir(&dir).expect("made above").flatten().map(|entry| entry.path()).collect();
    let [core] = &cores[..] else {
        return skipped("the kernel wrote no core file");
    };
    let core = core.display().to_string();
    assert_backtrace(&gdb(&[program_name(&fixture), core.clone()], &["bt"]));
    let printed = gdb(&[program_name(&fixture), core], &["info sharedlibrary"]);
    if printed.contains("find_debug_base_for_solib: Assertion") {
        return skipped("gdb 18 ends by its own assertion where the file of an auditing library is gone");
    }
    assert!(printed.contains(&fixture.path("bin/../lib/libdeep.so").display().to_string()), "{printed}");
}

pub fn a_debugger_in_the_session(via: Mechanism) {
    if !has_program("gdb") {
        return skipped("gdb is not installed");
    }
    let fixture = Fixture::new("ingdb");
    deep(&fixture);
    let commands = ["run crash", "bt", "info sharedlibrary", "kill"];
    let gdb = Program::new("gdb").args(["-nx", "-batch"]).args(commands.iter().flat_map(|command| ["-ex", command]));
    let session = fixture.headwater().via(via).run(&gdb.env("DEBUGINFOD_URLS", "").arg(program_name(&fixture)));
    if session.output.stderr.contains("ptrace") {
        return skipped("processes may not be traced here");
    }
    assert_backtrace(&session.output.stdout);
    // gdb lists the audit library of its own namespace too, by the only name that it has.
    let from_store = |line: &&str| line.contains("/dev/shm") && !line.contains("libheadwater-audit.so");
    assert_eq!(session.output.stdout.lines().find(from_store), None, "{:?}", session.output);
}

/// A debugger that saw an object under two names would lose its breakpoints in it, and the program would crash there.
pub fn a_breakpoint_in_what_the_program_opens(via: Mechanism) {
    if !has_program("gdb") {
        return skipped("gdb is not installed");
    }
    let fixture = Fixture::new("gdbopen");
    fixture.library("lib/libneeded.so", "needed", &[]);
    let rpath = ["-L{shared}/lib", "-lneeded", "-Wl,-rpath,$ORIGIN"];
    let library = fixture.library("lib/libopened.so", "opened", &rpath).display().to_string();
    let app = fixture.build("loader.c", "app", &[]).display().to_string();
    let breakpoints = ["set breakpoint pending on", "catch load libopened", "break opened", "break library.c:9"];
    // A debugger that knows only one namespace does not see what dlmopen loads, and by audit the program crashes there.
    let again = if knows_namespaces() { "mopen" } else { "open" };
    let run = format!("run open={library} call=opened call=needed close {again}={library} call=opened");
    let commands = breakpoints.into_iter().chain([&*run, "info sharedlibrary"]).chain(["continue"; 12]);
    let gdb = Program::new("gdb").args(["-nx", "-batch"]).args(commands.flat_map(|command| ["-ex", command]));
    let session = fixture.headwater().via(via).run(&gdb.env("DEBUGINFOD_URLS", "").arg(app));
    if session.output.stderr.contains("ptrace") {
        return skipped("processes may not be traced here");
    }
    let printed = &session.output.stdout;
    for line in ["opened() = opened", "needed() = needed", "close: 0", "exited normally", "opened () at ", &library] {
        assert!(printed.contains(line), "no {line}: {:?}", session.output);
    }
    assert_eq!(printed.matches("opened() = opened").count(), 2, "{:?}", session.output);
    assert!(!printed.contains("received signal"), "{:?}", session.output);
}

/// Returns whether gdb reads the lists of all namespaces (13 and later).
fn knows_namespaces() -> bool {
    let version = Program::new("gdb").arg("--version").run().stdout;
    let major = version.lines().next().and_then(|line| line.split_whitespace().last()?.split('.').next()?.parse().ok());
    major.is_some_and(|major: u32| major >= 13)
}
