//! Daemons and supervisors that are killed under load: no program sees an error or a wrong byte, and
//! whatever ends in whatever order, nothing is left.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use headwater_tests::harness::{
    Fixture, Headwater, Mechanism, Mounting, Program, Running, Starting, View, headwater_binary, kill, mount_type,
    wait_until,
};

use crate::MOUNTED;
use headwater_tests::{needs_mounts, needs_root};

/// Time that a reader may stall at a daemon's death.
const STALL_MAX: Duration = Duration::from_secs(8);
/// How long it may take until a supervisor starts no more daemons.
const GIVING_UP_MAX: Duration = Duration::from_secs(60);

fn fill(fixture: &Fixture) {
    for n in 0..2000 {
        fixture.file(&format!("data/{}/{}/file{n}", n % 20, n % 7), format!("content of {n}\n").repeat(n % 50), 0o644);
    }
}

/// Reads everything again and again until a file has `stop`; prints one sum for each round. It has the kernel drop the
/// pages that it has read, from which the kernel would answer otherwise.
fn reader(root: &Path, stop: &Path) -> Program {
    let script = r#"
import hashlib, os, sys
os.chdir(sys.argv[1])
while True:
    stops = os.path.exists(sys.argv[2])
    content = hashlib.sha256()
    for directory, directories, names in os.walk('data'):
        directories.sort()
        for name in sorted(names):
            with open(os.path.join(directory, name), 'rb') as file:
                data = file.read()
                assert len(data) == os.fstat(file.fileno()).st_size, file.name
                content.update(file.name.encode() + data)
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    assert not os.path.exists('data/none')
    print(content.hexdigest(), flush=True)
    if stops:
        break
"#;
    Program::new("python3").args(["-c", script]).arg(root).arg(stop)
}

/// The output of a round of the reader.
fn expected(fixture: &Fixture) -> String {
    let stop = fixture.outside("plain-stop");
    fs::write(&stop, "").expect("an own directory");
    let plain = reader(&fixture.shared(), &stop).run();
    assert_eq!(plain.status, 0, "{plain:?}");
    plain.stdout.trim().to_owned()
}

fn assert_right(output: &headwater_tests::harness::Output, expected: &str) {
    assert_eq!((output.status, output.stderr.as_str()), (0, ""), "{output:?}");
    assert!(!output.stdout.is_empty() && output.stdout.lines().all(|sum| sum == expected), "{output:?}");
}

/// Kills the daemons this many times, waiting for another each time.
fn kill_daemons(daemons: impl Fn() -> Vec<i32>, times: usize) {
    for round in 0..times {
        let mut found = Vec::new();
        let is_served = wait_until(STALL_MAX, || {
            found = daemons();
            !found.is_empty()
        });
        assert!(is_served, "no daemon was started after kill {round}");
        std::thread::sleep(Duration::from_millis(60));
        found.iter().for_each(|&pid| kill(pid));
        assert!(wait_until(STALL_MAX, || found.iter().all(|pid| !daemons().contains(pid))), "it is dead");
    }
}

/// The children of a process that has one thread which starts them.
fn children(pid: i32) -> Vec<i32> {
    let listed = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).expect("the kernel lists children");
    listed.split_whitespace().filter_map(|number| number.parse().ok()).collect()
}

fn finish(running: Running, stop: &Path) -> headwater_tests::harness::Output {
    fs::write(stop, "").expect("an own directory");
    running.finish()
}

#[test]
fn a_daemon_that_dies_under_load_is_replaced() {
    needs_mounts!();
    let fixture = Fixture::new("takeover");
    fill(&fixture);
    let expected = expected(&fixture);
    let view = View::of(&fixture.shared());
    let stop = fixture.outside("stop");
    let running = reader(view.path(), &stop).start();
    kill_daemons(|| view.daemons(), 4);
    assert_right(&finish(running, &stop), &expected);
    assert!(wait_until(STALL_MAX, || view.daemons().len() == 1), "a daemon serves: {:?}", view.daemons());
    view.unmount();
}

#[test]
fn when_no_daemon_returns_source_files_are_served() {
    needs_mounts!();
    let fixture = Fixture::new("nodaemon");
    fill(&fixture);
    let expected = expected(&fixture);
    let view = View::of(&fixture.shared());
    let stop = fixture.outside("stop");
    let running = reader(view.path(), &stop).start();
    let supervisor = view.supervisors();
    // Until the supervisor serves by threads of its own. No daemon may live long, lest it start to count anew.
    let serves = |pid: &i32| fs::read_dir(format!("/proc/{pid}/task")).is_ok_and(|threads| threads.count() > 1);
    let begun = Instant::now();
    while !supervisor.iter().any(serves) {
        assert!(begun.elapsed() < GIVING_UP_MAX, "daemons are still started: {:?}", view.daemons());
        supervisor.iter().flat_map(|&pid| children(pid)).for_each(kill);
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_right(&finish(running, &stop), &expected);
    assert_eq!(view.supervisors(), supervisor);
    // A daemon would answer that there is none: the directory is known.
    let new = fixture.file("data/0/0/new-one", "made meanwhile", 0o644);
    assert_eq!(fs::read_to_string(view.join("data/0/0/new-one")).expect("the source file's"), "made meanwhile");
    fs::remove_file(new).expect("an own file");
    view.unmount();
}

#[test]
fn a_daemon_dies_in_the_namespace_of_a_job() {
    needs_mounts!();
    let fixture = Fixture::new("nsdies");
    fill(&fixture);
    let expected = expected(&fixture);
    let stop = fixture.outside("stop");
    let started = fixture.headwater().via(Mechanism::Namespace).on(2, 1).start(&reader(&fixture.shared(), &stop));
    kill_daemons(|| Some(started.daemons()).filter(|pids| pids.len() == 2).unwrap_or_default(), 3);
    fs::write(&stop, "").expect("an own directory");
    let session = started.finish();
    assert_eq!(session.output.status, 0, "{session:?}");
    assert!(session.output.stdout.lines().all(|sum| sum == expected), "{session:?}");
}

/// Something that stays open: a file that is read and mapped, and a working directory.
fn holder(root: &Path, stop: &Path) -> Program {
    let script = r#"cd "$0/data/0" || exit 9; exec 3< 0/file0; exec 4< 0/file140; cat <&4 >/dev/null
        while ! test -e "$1"; do sleep 0.05; done; cat <&3 >/dev/null 2>&1; echo open"#;
    Program::new("sh").args(["-c", script]).arg(root).arg(stop)
}

#[test]
fn a_view_in_use_is_unmounted_lazily_or_not_at_all() {
    needs_mounts!();
    let fixture = Fixture::new("lazy");
    fill(&fixture);
    let view = View::of(&fixture.shared());
    let stop = fixture.outside("stop");
    let running = holder(view.path(), &stop).start();
    assert!(wait_until(STALL_MAX, || fs::read_link(format!("/proc/{}/fd/3", running.pid().as_raw_pid())).is_ok()));
    let began = Instant::now();
    let busy = view.unmount_command().run();
    assert!(busy.status != 0 && busy.stderr.contains("--lazy"), "{busy:?}");
    assert_eq!(fs::read_to_string(view.join("data/0/6/file20")).expect("still there").len(), 14 * 20);
    let output = view.unmount_command().arg("--lazy").run();
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    let is_gone = mount_type(view.path()).is_none();
    assert!(output.status == 0 && is_gone, "{output:?}");
    fs::write(&stop, "").expect("an own directory");
    assert_eq!(running.finish().stdout, "open\n");
    let mut view = view;
    view.check_gone();
}

/// Opens names that were not looked up before, one after the other from its working directory, and reads them in the
/// end.
fn opener(root: &Path, stop: &Path) -> Program {
    let script = r#"
import os, sys, time
os.chdir(sys.argv[1])
names = [f'data/{n % 20}/{n % 7}/file{n}' for n in range(2000)]
opened = []
print('begun', flush=True)
while names or not os.path.exists(sys.argv[2]):
    if names:
        opened.append((names[-1], open(names.pop())))
        time.sleep(0.0005)
for name, file in opened:
    n = int(name.rpartition('file')[2])
    assert file.read() == f'content of {n}\n' * (n % 50), name
print(len(opened), flush=True)
"#;
    Program::new("python3").args(["-c", script]).arg(root).arg(stop)
}

#[test]
fn what_is_opened_while_a_view_ends_stays_readable() {
    needs_mounts!();
    let fixture = Fixture::new("openwhile");
    fill(&fixture);
    let stop = fixture.outside("stop");
    for wait_ms in [100, 300] {
        let _ = fs::remove_file(&stop);
        let mut view = View::of(&fixture.shared());
        let running = opener(view.path(), &stop).start();
        assert!(wait_until(STALL_MAX, || running.stdout() == "begun\n"), "{}", running.stdout());
        std::thread::sleep(Duration::from_millis(wait_ms));
        let output = view.unmount_command().arg("--lazy").run();
        assert_eq!(output.status, 0, "{output:?}");
        fs::write(&stop, "").expect("an own directory");
        let output = running.finish();
        assert_eq!((output.status, output.stdout.as_str()), (0, "begun\n2000\n"), "{output:?}");
        view.check_gone();
    }
}

/// The processes that are killed, in order; then everything must disappear by itself or by the next start.
#[test]
fn killed_in_every_order_nothing_is_left() {
    needs_mounts!();
    let fixture = Fixture::new("orders");
    fill(&fixture);
    for order in ["ds", "sd", "s", "dsd"] {
        let view = View::of(&fixture.shared());
        assert!(fs::read(view.join("data/0/0/file0")).is_ok());
        for victim in order.chars() {
            let victims = if victim == 'd' { view.daemons() } else { view.supervisors() };
            victims.iter().for_each(|&pid| kill(pid));
            std::thread::sleep(Duration::from_millis(100));
        }
        check_swept(view, &fixture, order);
    }
}

#[test]
fn killed_all_at_once_nothing_is_left() {
    needs_mounts!();
    let fixture = Fixture::new("allatonce");
    fill(&fixture);
    let view = View::of(&fixture.shared());
    assert!(fs::read(view.join("data/0/0/file0")).is_ok());
    // The supervisors first, so that none can start another daemon.
    view.supervisors().into_iter().chain(view.daemons()).for_each(kill);
    view.daemons().into_iter().for_each(kill);
    check_swept(view, &fixture, "all at once");
}

/// The mount may be left, dead; the next start removes it and what else is left.
fn check_swept(mut view: View, fixture: &Fixture, order: &str) {
    let vanishes = wait_until(Duration::from_secs(3), || mount_type(view.path()).is_none());
    if !vanishes {
        let next = Mounting::of(&fixture.shared()).store(view.store()).mount();
        assert!(next.join("data/0/0/file0").exists());
        next.unmount();
    }
    assert!(
        wait_until(STALL_MAX, || mount_type(view.path()).is_none()),
        "{order}: {} is still mounted",
        view.path().display()
    );
    let left = || Starting::left_behind(view.store());
    if !wait_until(Duration::from_secs(10), || left().is_none()) {
        let left = left();
        let next = Mounting::of(&fixture.shared()).store(view.store()).mount();
        next.unmount();
        Starting::check_gone(view.store()).unwrap_or_else(|still| panic!("{order}: left {left:?}, and then {still}"));
    }
    view.check_gone();
}

#[test]
fn doctor_removes_stale_mounts() {
    needs_root!();
    let fixture = Fixture::new("stale");
    fill(&fixture);
    let mut view = View::of(&fixture.shared());
    view.supervisors().into_iter().chain(view.daemons()).for_each(kill);
    view.daemons().into_iter().for_each(kill);
    // While the kernel still releases the memory of dead processes, it is in use.
    let is_swept = wait_until(Duration::from_secs(60), || {
        Program::new(headwater_binary()).args(["doctor", "--fix", "--store"]).arg(view.store()).run();
        mount_type(view.path()).is_none() && Starting::left_behind(view.store()).is_none()
    });
    assert!(is_swept, "{:?}, {:?}", mount_type(view.path()), Starting::left_behind(view.store()));
    view.check_gone();
}

#[test]
fn headwater_itself_is_killed() {
    needs_mounts!();
    let fixture = Fixture::new("runkilled");
    fill(&fixture);
    let stop = fixture.outside("stop");
    let started = fixture.headwater().via(Mechanism::Namespace).on(2, 1).start(&holder(&fixture.shared(), &stop));
    assert!(wait_until(STALL_MAX, || started.daemons().len() == 2 && started.supervisors().len() == 2));
    std::thread::sleep(Duration::from_millis(300));
    started.running.signal(rustix::process::Signal::KILL);
    let gone = wait_until(STALL_MAX, || started.daemons().is_empty() && started.supervisors().is_empty());
    assert!(gone, "daemons {:?}, supervisors {:?}", started.daemons(), started.supervisors());
    assert_eq!(started.finish().output.status, 137);
}

#[test]
fn the_supervisor_of_a_job_is_killed() {
    needs_mounts!();
    let fixture = Fixture::new("suprun");
    fill(&fixture);
    let expected = expected(&fixture);
    let stop = fixture.outside("stop");
    let started = fixture.headwater().via(Mechanism::Namespace).start(&reader(&fixture.shared(), &stop));
    assert!(wait_until(STALL_MAX, || started.daemons().len() == 1));
    std::thread::sleep(Duration::from_millis(300));
    started.supervisors().into_iter().for_each(kill);
    std::thread::sleep(Duration::from_millis(500));
    fs::write(&stop, "").expect("an own directory");
    let session = started.finish();
    assert_right(&session.output, &expected);
}

#[test]
fn the_ends_of_ordinary_sessions_leave_no_mount() {
    needs_mounts!();
    let fixture = Fixture::new("ends");
    fill(&fixture);
    for via in MOUNTED {
        for script in ["exit 3", "kill -9 $$", "sleep 2 >/dev/null 2>&1 & exit 0"] {
            let program = Program::shell(&format!("cat {}/data/0/0/file0; {script}", fixture.shared().display()));
            let headwater: Headwater = fixture.headwater().via(via);
            let session = headwater.run(&program);
            assert!(matches!(session.output.status, 0 | 3 | 137), "{session:?}");
        }
    }
    let own = fixture.outside("").display().to_string();
    let left: Vec<String> =
        headwater_tests::harness::headwater_mounts().into_iter().filter(|line| line.contains(&own)).collect();
    assert_eq!(left, [""; 0]);
}
