//! Interpreters that ranks start themselves, by multiprocessing and subprocess.

use headwater_tests::harness::Session;

use crate::{PYTHON, fixture, from_zygotes, mechanisms, python, warm};

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
fn children_ignore_and_block_what_their_parent_does() {
    let Some(fixture) = fixture() else { return };
    for via in mechanisms() {
        let program = python(&fixture, &["ignoring.py"]);
        let executed = fixture.headwater().via(via).run(&program);
        let forked = warm(&fixture, "fractions").via(via).run(&program);
        forked.output.assert_same(&executed.output);
        assert_eq!(forked.number("children_from_zygotes"), 3, "{}", forked.messages);
    }
}

#[test]
fn without_an_owner_they_are_executed() {
    let Some(fixture) = fixture() else { return };
    // A directory in place of the owner's socket: none answers, and no other can be started.
    let script = "import os, subprocess, sys\n\
                  print('fractions' in sys.modules)\n\
                  owners = [os.path.join(d, 'warm') for d, _, files in os.walk(os.environ['STORE']) if 'warm' in files]\n\
                  for owner in owners: os.remove(owner); os.mkdir(owner)\n\
                  for _ in range(2): print(subprocess.run([sys.executable, sys.argv[1], '--tell'], capture_output=True))\n\
                  for owner in owners: os.rmdir(owner)\n";
    let main = fixture.file("main.py", script, 0o644).display().to_string();
    let child = fixture.path("children.py").display().to_string();
    for via in mechanisms() {
        let store = tempfile::Builder::new().prefix("hwt-").tempdir_in("/dev/shm").expect("/dev/shm takes a directory");
        let program = python(&fixture, &[&main, &child]).env("STORE", store.path());
        let session = warm(&fixture, "fractions").via(via).store(store.path()).run(&program);
        let line = format!(
            "CompletedProcess(args=['{PYTHON}', '{child}', '--tell'], returncode=0, stdout=b'False\\n', stderr=b'')\n"
        );
        assert_eq!(session.output.stdout, format!("True\n{}", line.repeat(2)), "{:?}", session.output);
        assert_eq!(session.number("children_from_zygotes"), 0, "{}", session.messages);
    }
}
