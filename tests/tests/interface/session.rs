//! A tool that begins a session, and has a daemon of its own serve the node.

use headwater_tests::harness::{Output, Program, Starting, headwater_binary};

use crate::calls::Site;

/// Runs the tool around a program that opens a file twice, and checks that nothing of the session is left.
fn run(site: &Site, how: &str, options: &str) -> Output {
    let tool = site.build("session.c", &[]);
    let program = site.build("calls.c", &[]);
    let file = format!("open={}", site.path("one"));
    let store = tempfile::Builder::new().prefix("hwt-").tempdir_in("/dev/shm").expect("/dev/shm takes a directory");
    let options = format!("{options},store={}", store.path().display());
    let arguments = [how, &options].map(String::from).into_iter().chain([program.display().to_string()]);
    let output =
        Program::new(tool).args(arguments).args(["session", &file, &file]).env("HEADWATER", headwater_binary()).run();
    assert_eq!(Starting::check_gone(store.path()), Ok(()), "{output:?}");
    output
}

#[test]
fn a_daemon_in_c_serves_its_node() {
    let Some(site) = Site::new() else { return };
    for (how, daemon) in [("end", 7), ("kill", 128 + 9)] {
        for via in ["audit", "namespace"] {
            let output = run(&site, how, &format!("via={via},shared={}", site.path("")));
            let file = format!("open={}: one", site.path("one"));
            let ends = format!("ready 1, program 0, session 0, daemon {daemon}");
            assert_eq!(output.stdout.lines().map(str::trim).collect::<Vec<_>>(), ["session: 1", &file, &file, &ends]);
            assert_eq!((output.stderr.as_str(), output.status), ("", 0), "{how} {via}");
        }
    }
}

#[test]
fn a_node_has_one_daemon_of_a_session() {
    let Some(site) = Site::new() else { return };
    let output = run(&site, "twice", &format!("via=audit,shared={}", site.path("")));
    assert!(output.stdout.starts_with("second: ready 0, daemon 9\n"), "{output:?}");
    assert!(output.stdout.ends_with("ready 1, program 0, session 0, daemon 7\n"), "{output:?}");
    assert_eq!(output.stderr, "the session has an agent on this node already");
}

#[test]
fn a_session_that_can_t_be_made_has_a_reason() {
    let Some(site) = Site::new() else { return };
    for (options, why) in [
        ("via=off", "none: off: via=off"),
        ("via=mount", "none: off: via=mount changes a program's paths"),
        ("vai=audit", "none: failed: unexpected argument '--vai' found"),
    ] {
        let output = run(&site, "end", options);
        assert!(output.status == 3 && output.stdout.starts_with(why), "{output:?}");
    }
}
