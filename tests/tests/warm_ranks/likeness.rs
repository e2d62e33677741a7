//! A rank's observations, compared with those of one that executed the program.

use headwater_tests::harness::user::ORDINARY;
use headwater_tests::harness::{Headwater, Output, Program, Session, no_early_stop, skipped};
use serde_json::Value;

use crate::{PYTHON, fixture, from_zygotes, mechanisms, python, warm};

/// Conditions that are not the usual ones. Standard input is a pipe.
const CONDITIONS: &str = "umask 027; ulimit -n 900; ulimit -c 0; cd \"$1\"; shift; trap '' HUP XFSZ; \
                            exec 7</etc/passwd; echo hello | exec nice -n 2 taskset -c 0 \
                            env --ignore-signal=CHLD --block-signal=USR2 \"$@\"";

/// The ranks' output, by rank, with the session's name taken out.
fn reports(session: &Session) -> Vec<Value> {
    assert_eq!(session.output.status, 0, "{:?} {}", session.output, session.messages);
    let report = |line: &str| -> Value {
        let value: Value = serde_json::from_str(line).expect("a line of JSON");
        let name = value["environ"]["HEADWATER_SESSION"].as_str().expect("a session").to_owned();
        serde_json::from_str(&line.replace(&name, "SESSION")).expect("as before")
    };
    let mut reports: Vec<Value> = session.output.stdout.lines().map(report).collect();
    let number =
        |report: &Value| report["environ"]["HEADWATER_RANK"].as_str().and_then(|text| text.parse::<u32>().ok());
    reports.sort_by_key(number);
    reports
}

fn assert_alike(exec: &Headwater, zygote: &Headwater, program: &Program, ranks: usize) {
    let store = tempfile::Builder::new().prefix("hwt-").tempdir_in("/dev/shm").expect("/dev/shm takes a directory");
    let run = |headwater: &Headwater| headwater.clone().store(store.path()).run(program);
    let (executed, forked) = (run(exec), run(zygote));
    assert_eq!((from_zygotes(&executed), from_zygotes(&forked)), (0, ranks as u64), "{}", forked.messages);
    let (expected, got) = (reports(&executed), reports(&forked));
    assert_eq!((expected.len(), got.len()), (ranks, ranks));
    for (rank, (expected, got)) in expected.iter().zip(&got).enumerate() {
        for (field, value) in expected.as_object().expect("an object") {
            assert_eq!(&got[field], value, "rank {rank}: {field}");
        }
    }
}

#[test]
fn ranks_are_what_exec_makes_them() {
    let Some(fixture) = fixture() else { return };
    let directory = fixture.dir("work").display().to_string();
    let prefix = ["sh", "-c", CONDITIONS, "sh", &directory];
    for via in mechanisms() {
        let program = python(&fixture, &["-u", "report.py", "a", "b c", ""]);
        let exec = fixture.headwater().via(via).on(2, 8).behind(&prefix);
        let zygote = warm(&fixture, "json,resource,stat").via(via).on(2, 8).behind(&prefix);
        assert_alike(&exec, &zygote, &program, 16);
    }
}

#[test]
fn what_the_caller_has_closed_is_closed_in_ranks() {
    let Some(fixture) = fixture() else { return };
    let script = "import os, sys; os.write(1, b'%d %d\\n' % (sys.stdin is None, os.path.exists('/proc/self/fd/0')))";
    let program = python(&fixture, &["-c", script]);
    let prefix = ["sh", "-c", "exec \"$@\" <&-", "sh"];
    for via in mechanisms() {
        let session = warm(&fixture, "json").via(via).behind(&prefix).run(&program);
        assert_eq!(session.output.stdout, "1 0\n", "{:?} {}", session.output, session.messages);
        assert_eq!(from_zygotes(&session), 1, "{}", session.messages);
    }
}

#[test]
fn libraries_on_the_sessions_own_disk_are_files() {
    let Some(fixture) = fixture() else { return };
    fixture.library("libone.so", "one", &[]);
    let load = "import ctypes, os\none = ctypes.CDLL(os.path.join(os.path.dirname(__file__), 'libone.so')).one\n";
    fixture.file("loads.py", load, 0o644);
    let program =
        python(&fixture, &["-c", "import loads; loads.one.restype = loads.ctypes.c_char_p; print(loads.one())"]);
    let session = warm(&fixture, "loads").on(1, 2).store_of_its_own().run(&program);
    assert_eq!(
        (session.output.stdout.as_str(), from_zygotes(&session)),
        ("b'one'\nb'one'\n", 2),
        "{}",
        session.messages
    );
}

#[test]
fn programs_that_are_no_interpreters_stop_before_main() {
    if let Some(reason) = no_early_stop() {
        return skipped(reason);
    }
    let Some(fixture) = fixture() else { return };
    fixture.library("libone.so", "one", &[]);
    let flags = ["-L{shared}", "-Wl,--no-as-needed", "-lone", "-Wl,-rpath,{shared}"];
    let program = Program::new(fixture.build("files.c", "files", &flags)).arg("/nonexistent");
    for via in mechanisms() {
        let exec = fixture.headwater().via(via).on(2, 1).run(&program);
        let zygote = fixture.headwater().via(via).on(2, 1).option("--ranks-from").option("zygote").run(&program);
        assert_eq!(from_zygotes(&zygote), 2, "{}", zygote.messages);
        // The two write at once.
        let parts = |output: &Output| {
            let mut bytes = output.stdout.clone().into_bytes();
            bytes.sort_unstable();
            bytes
        };
        assert!(parts(&zygote.output) == parts(&exec.output), "{:?} {:?}", zygote.output, exec.output);
        assert_eq!(zygote.output.status, exec.output.status);
    }
}

#[test]
fn ordinary_users_have_warm_ranks_in_a_user_namespace() {
    headwater_tests::needs_root!();
    let Some(fixture) = fixture() else { return };
    let prefix = fixture.commands_of(&ORDINARY);
    let program = python(&fixture, &["-c", "import os; os.write(1, b'%d\\n' % os.getuid())"]).in_dir("/");
    for via in mechanisms() {
        let session = warm(&fixture, "json").via(via).on(2, 2).behind(&prefix).run(&program);
        assert_eq!(session.output.stdout, "1\n1\n1\n1\n", "{:?} {}", session.output, session.messages);
        assert_eq!(from_zygotes(&session), 4, "{}", session.messages);
        assert_eq!(session.summary["via"], via.name(), "{}", session.messages);
    }
}

/// The remains of imports are collected at the end of a rank, too.
#[test]
fn what_was_imported_ends_with_the_rank() {
    let Some(fixture) = fixture() else { return };
    let module = "import os\nclass Cycle:\n    def __init__(self):\n        self.own = self\n    def __del__(self, write=os.write):\n        \
                  write(1, b'collected\\n')\nCycle.cycle = Cycle()\n";
    fixture.file("cycle.py", module, 0o644);
    for script in ["import cycle", "import cycle, sys; del cycle.Cycle.cycle; sys.exit(3)"] {
        let program = python(&fixture, &["-c", script]);
        let (exec, zygote) = (fixture.headwater().run(&program), warm(&fixture, "cycle").run(&program));
        zygote.output.assert_same(&exec.output);
        assert_eq!((from_zygotes(&zygote), zygote.messages.as_str()), (1, ""));
        assert!(exec.output.stdout.contains("collected") || script.ends_with("cycle"), "{:?}", exec.output);
    }
}

#[test]
fn a_relative_path_leads_to_the_program_from_the_ranks_directory() {
    let Some(fixture) = fixture() else { return };
    fixture.dir("venv");
    fixture.link(PYTHON, "venv/python3");
    for via in mechanisms() {
        let program = Program::new("venv/python3").in_dir(fixture.shared());
        let program = program.args(["-c", "import sys; print(sys.executable, sys.argv, sys.orig_argv[0])"]);
        let executed = fixture.headwater().via(via).on(2, 2).run(&program);
        let forked = warm(&fixture, "json").via(via).on(2, 2).run(&program);
        assert_eq!((from_zygotes(&executed), from_zygotes(&forked)), (0, 4), "{}", forked.messages);
        assert_eq!(executed.output.stdout, forked.output.stdout);
    }
}
