//! A refresh while programs run: earlier processes stay with their version, later ones see the new one.

use std::process::Command;
use std::time::Duration;

use headwater_tests::harness::{Fixture, Mechanism, Program, Starting, headwater_binary, skipped, wait_until};

const TIMEOUT: Duration = Duration::from_secs(20);

/// Checks with programs of its own and with the shell itself, three times; and a file that was open from the start.
fn script(fixture: &Fixture) -> String {
    let (dir, go) = (fixture.path("data").display().to_string(), fixture.outside("go").display().to_string());
    format!(
        "exec 9<{dir}/changed
         check() {{
             read line <{dir}/changed; echo \"self $line\"
             cat {dir}/same {dir}/changed
             [ -e {dir}/removed ] && cat {dir}/removed
             ls {dir}
             echo checked
         }}
         wait_for() {{ while [ ! -e {go}.$1 ]; do sleep 0.02; done; }}
         check; wait_for 1; check; wait_for 2; check
         cat <&9"
    )
}

fn go(fixture: &Fixture, turn: u32) {
    std::fs::write(fixture.outside(&format!("go.{turn}")), "").expect("an own directory");
}

fn wait_for(started: &Starting, turns: usize) {
    let has_checked = || started.running.stdout().matches("checked\n").count() == turns;
    assert!(wait_until(TIMEOUT, has_checked), "{}", started.running.stdout());
}

fn later_programs_see_what_is_new(via: Mechanism) {
    let fixture = Fixture::new("generations");
    for name in ["same", "changed", "removed"] {
        fixture.file(&format!("data/{name}"), format!("first {name}\n"), 0o644);
    }
    let started = fixture.headwater().via(via).start(&Program::shell(&script(&fixture)));
    wait_for(&started, 1);
    fixture.file("data/changed", "second, and longer\n", 0o644);
    fixture.file("data/added", "second added\n", 0o644);
    std::fs::remove_file(fixture.path("data/removed")).expect("it is there");
    go(&fixture, 1);
    wait_for(&started, 2);
    let mut refresh = Command::new(headwater_binary());
    let refreshed = refresh.args(["refresh", "--store"]).arg(started.store()).output().expect("it is there");
    let printed = String::from_utf8_lossy(&refreshed.stdout).into_owned() + &String::from_utf8_lossy(&refreshed.stderr);
    assert!(refreshed.status.success() && printed.starts_with("generation 2: "), "{printed}");
    go(&fixture, 2);
    let session = started.finish();
    let first = "self first changed\nfirst same\nfirst changed\nfirst removed\nchanged\nremoved\nsame\nchecked\n";
    // The shell is one process all the time.
    let own = if via == Mechanism::Audit { "self first changed" } else { "self second, and longer" };
    let second = format!("{own}\nfirst same\nsecond, and longer\nadded\nchanged\nsame\nchecked\n");
    let expected = format!("{first}{first}{second}first changed\n");
    assert_eq!(session.output.stdout, expected, "{via:?} {}", session.output.stderr);
}

#[test]
fn through_every_mechanism() {
    for via in Mechanism::ALL {
        match via.check() {
            Ok(()) => later_programs_see_what_is_new(via),
            Err(reason) => skipped(reason),
        }
    }
}
