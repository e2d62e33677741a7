//! Interpreters that ranks start themselves, by multiprocessing and subprocess.

use headwater_tests::harness::Session;

use crate::{fixture, from_zygotes, mechanisms, python, warm};

/// How many interpreters were warm, and how many can be.
fn warm_ones(session: &Session) -> (u64, u64) {
    let line = session.output.stderr.lines().find_map(|line| line.strip_prefix("warm ")).unwrap_or_default();
    let (warm, possible) = line.split_once(" of ").unwrap_or_else(|| panic!("{:?}", session.output));
    (warm.parse().expect("a number"), possible.parse().expect("a number"))
}

#[test]
fn interpreters_that_a_rank_starts_are_forked_too() {
    let Some(fixture) = fixture() else { return };
    for via in mechanisms() {
        let program = python(&fixture, &["children.py"]).env("LC_ALL", "C.UTF-8");
        let executed = fixture.headwater().via(via).run(&program);
        let forked = warm(&fixture, "fractions").via(via).run(&program);
        assert_eq!(executed.output.stdout, forked.output.stdout, "{}", forked.messages);
        assert_eq!((executed.output.status, forked.output.status), (0, 0), "{:?}", forked.output);
        assert_eq!(warm_ones(&executed).0, 0);
        let (warm, possible) = warm_ones(&forked);
        assert!(warm == possible && possible >= 2, "{:?}", forked.output);
        assert_eq!(from_zygotes(&forked), 1, "{}", forked.messages);
        assert!(forked.number("children_from_zygotes") >= possible, "{}", forked.messages);
    }
}

#[test]
fn without_the_session_they_are_executed() {
    let Some(fixture) = fixture() else { return };
    let script = "import os, shutil, subprocess, sys\n\
                  nodes = [d for d, _, _ in os.walk('/dev/shm') if d.endswith(f\"{os.environ['HEADWATER_SESSION']}/n0\")]\n\
                  nodes += [d for d, _, _ in os.walk(os.environ['STORE']) if d.endswith('/n0')]\n\
                  for node in nodes: os.path.exists(node + '/warm') and os.remove(node + '/warm')\n\
                  for _ in range(2): print(subprocess.run([sys.executable, '-c', 'print(1)'], capture_output=True))\n";
    for via in mechanisms() {
        let store = tempfile::Builder::new().prefix("hwt-").tempdir_in("/dev/shm").expect("/dev/shm takes a directory");
        let program = python(&fixture, &["-c", script]).env("STORE", store.path());
        let session = warm(&fixture, "fractions").via(via).store(store.path()).run(&program);
        let line =
            "CompletedProcess(args=['/usr/bin/python3', '-c', 'print(1)'], returncode=0, stdout=b'1\\n', stderr=b'')\n";
        assert_eq!(session.output.stdout, line.repeat(2), "{:?} {}", session.output, session.messages);
    }
}
