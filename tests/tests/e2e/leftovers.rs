//! However a session ends, nothing of it stays: no process, no file in the store.
//!
//! Each session's end is also checked by the harness, in every test.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use headwater_tests::harness::{
    self, Fixture, Mechanism, Program, Starting, has_program, headwater_binary, is_running, processes_using, skipped,
    wait_until,
};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

fn kill(pid: i32, signal: Signal) {
    kill_process(Pid::from_raw(pid).expect("a process ID is positive"), signal).expect("the process runs");
}

/// A program on each node that has opened a library and now waits.
fn waiting(fixture: &Fixture, nodes: usize) -> Starting {
    fixture.library("lib/libx.so", "x", &[]);
    let app = fixture.build("loader.c", "bin/app", &["-Wl,-rpath,$ORIGIN/../lib"]);
    let pause = format!("pause={}", fixture.outside("reached").display());
    let started = fixture.headwater().on(nodes, 1).start(&Program::new(app).args(["open=libx.so", &pause, "call=x"]));
    let all_opened = || started.running.stdout().matches("open libx.so").count() == nodes;
    assert!(wait_until(Duration::from_secs(20), all_opened), "the programs start");
    started
}

fn programs(fixture: &Fixture) -> Vec<i32> {
    let app = fixture.path("bin/app").display().to_string();
    processes_using(Path::new(&app))
        .into_iter()
        .filter(|(_, line)| line.starts_with(&app))
        .map(|(pid, _)| pid)
        .collect()
}

fn go_on(fixture: &Fixture) {
    std::fs::write(fixture.outside("reached.go"), "").expect("an own directory");
}

#[test]
fn exit_statuses_are_the_programs() {
    let fixture = Fixture::new("status");
    let app = fixture.build("loader.c", "bin/app", &[]);
    for (verb, status) in [("exit=0", 0), ("exit=3", 3), ("exit=255", 255), ("signal=11", 139), ("signal=9", 137)] {
        let session = fixture.headwater().on(2, 2).run(&Program::new(&app).arg(verb));
        assert_eq!(session.output.status, status, "{verb}: {:?}", session.output);
        assert_eq!(session.output.signal, (status > 128 && status < 255).then_some(status - 128), "{verb}");
    }
}

#[test]
fn signals_reach_the_program() {
    for (signal, number) in [(Signal::TERM, 15), (Signal::INT, 2), (Signal::HUP, 1), (Signal::USR1, 10)] {
        let fixture = Fixture::new("signal");
        let started = waiting(&fixture, 2);
        started.running.signal(signal);
        let session = started.finish();
        assert_eq!(session.output.signal, Some(number), "{:?}", session.output);
    }
}

#[test]
fn control_c_on_the_terminal() {
    let fixture = Fixture::new("ctrlc");
    let started = waiting(&fixture, 2);
    started.running.signal_group(Signal::INT);
    let session = started.finish();
    assert_eq!(session.output.signal, Some(2), "{:?}", session.output);
}

/// Runs its arguments on a terminal of their own, types Ctrl-C there once the file named first exists, and prints the
/// output and the exit status.
const TERMINAL: &str = r#"
import os, pty, sys, time
reached, command = sys.argv[1], sys.argv[2:]
pid, terminal = pty.fork()
if pid == 0:
    os.execvp(command[0], command)
while not os.path.exists(reached):
    time.sleep(0.01)
os.write(terminal, b"\x03")
output_bytes = b""
try:
    while chunk := os.read(terminal, 4096):
        output_bytes += chunk
except OSError:
    pass
print(output_bytes.decode().replace("^C", "").replace("\r\n", "\n"), end="")
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"#;

#[test]
fn a_program_that_catches_control_c_ends_as_it_likes() {
    if !has_program("python3") {
        return skipped("python3 is not installed, and makes the terminal");
    }
    let fixture = Fixture::new("catch");
    let reached = fixture.outside("reached").display().to_string();
    let script = format!("trap 'echo caught; exit 7' INT; : > {reached}; while :; do sleep 0.05; done");
    let terminal = ["python3", "-c", TERMINAL, &reached];
    let plain = Program::shell(&script).behind(terminal).run();
    assert_eq!((plain.stdout.as_str(), plain.status), ("caught\n", 7), "{plain:?}");
    std::fs::remove_file(&reached).expect("the program made it");
    let session = fixture.headwater().option("--no-summary").behind(&terminal).run(&Program::shell(&script));
    session.output.assert_same(&plain);
}

#[test]
fn headwater_itself_is_killed() {
    let fixture = Fixture::new("killed");
    let started = waiting(&fixture, 3);
    assert_eq!(started.daemons().len(), 3);
    started.running.signal(Signal::KILL);
    let began = Instant::now();
    let gone = wait_until(Duration::from_secs(5), || started.daemons().is_empty() && programs(&fixture).is_empty());
    assert!(gone, "after {:?}: daemons {:?}, programs {:?}", began.elapsed(), started.daemons(), programs(&fixture));
    let session = started.finish();
    assert_eq!(session.output.status, 137);
}

#[test]
fn a_daemon_is_killed() {
    let fixture = Fixture::new("daemon");
    let started = waiting(&fixture, 3);
    for pid in started.daemons() {
        kill(pid, Signal::KILL);
    }
    go_on(&fixture);
    let session = started.finish();
    assert_eq!(session.output.stdout.matches("x() = x").count(), 3, "{:?}", session.output);
    assert_eq!(session.output.status, 0, "{:?}", session.output);
}

#[test]
fn a_program_is_killed() {
    let fixture = Fixture::new("program");
    let started = waiting(&fixture, 2);
    let programs = programs(&fixture);
    assert_eq!(programs.len(), 2);
    kill(programs[0], Signal::KILL);
    go_on(&fixture);
    let session = started.finish();
    assert_eq!(session.output.status, 137, "{:?}", session.output);
}

/// Two pipes of the caller end with the session, since the child has closed its copies of them.
pub fn a_child_that_stays_behind_does_not_prolong_the_session(via: Mechanism) {
    let fixture = Fixture::new("child");
    let (ended, go) = (fixture.outside("ended"), fixture.outside("go"));
    let child = format!("while ! test -e '{}'; do sleep 0.1; done", go.display());
    let program = Program::shell(&format!("({child}) 5>&- >/dev/null 2>&1 & echo started"));
    let caller = format!("\"$@\" 5>&1 2>&1 | cat; >'{}'", ended.display());
    let started = fixture.headwater().via(via).behind(&["sh", "-c", &caller, "sh"]).start(&program);
    assert!(wait_until(Duration::from_secs(20), || ended.exists()), "the caller does not wait for the child");
    std::fs::write(go, "").expect("an own directory");
    let output = started.finish().output;
    assert!(output.stdout.starts_with("started\n"), "{output:?}");
}

#[test]
fn a_session_of_several_launches_holds_no_pipe_of_its_caller() {
    let fixture = Fixture::new("start");
    let (ended, jobs, session) = (fixture.outside("ended"), fixture.outside("jobs"), fixture.outside("session"));
    let headwater = headwater_binary();
    std::fs::create_dir(&jobs).expect("an own directory");
    let at_jobs = format!("--job-dir {} --store {}", jobs.display(), jobs.display());
    let shared = fixture.shared().display().to_string();
    let start = format!("{} start {at_jobs} --shared {shared} -- /bin/true", headwater.display());
    let caller = format!("{{ {start} >'{}'; }} 5>&1 | cat; >'{}'", session.display(), ended.display());
    let mut caller = std::process::Command::new("sh").args(["-c", &caller]).spawn().expect("there is a shell");
    let is_ended = wait_until(Duration::from_secs(20), || ended.exists());
    let session = std::fs::read_to_string(session).expect("it was made");
    let mut stop = std::process::Command::new(headwater);
    let stopped = stop.args(["stop", session.trim(), "--job-dir"]).arg(&jobs).status().expect("headwater is built");
    caller.wait().expect("an own child");
    assert!(is_ended && stopped.success(), "{stopped:?}");
}

/// A store in which all processes of a session were killed at once.
struct Killed {
    fixture: Fixture,
    store: TempDir,
}

impl Killed {
    fn new(name: &str) -> Killed {
        let fixture = Fixture::new(name);
        let store = tempfile::Builder::new().prefix("hwt-killed-").tempdir_in("/dev/shm");
        let store = store.expect("/dev/shm takes a directory");
        fixture.library("lib/libx.so", "x", &[]);
        let app = fixture.build("loader.c", "bin/app", &["-Wl,-rpath,$ORIGIN/../lib"]);
        let killed = Killed { fixture, store };
        let started = killed.start(&app, "reached");
        let daemons = started.daemons();
        daemons.iter().for_each(|&pid| kill(pid, Signal::KILL));
        started.running.signal_group(Signal::KILL);
        let programs = programs(&killed.fixture);
        // Those that the signal to the group reached may have ended.
        programs.iter().for_each(|&pid| harness::kill(pid));
        drop(started);
        // While the kernel still releases the memory of dead processes, their session is in use.
        let dying = || daemons.iter().chain(&programs).any(|&pid| is_running(pid));
        assert!(wait_until(Duration::from_secs(20), || !dying()), "they end");
        assert_eq!(killed.sessions().len(), 1, "something is left to sweep");
        killed
    }

    fn start(&self, app: &Path, reached: &str) -> Starting {
        let reached = self.fixture.outside(reached);
        let pause = format!("pause={}", reached.display());
        let program = Program::new(app).args(["open=libx.so", &pause]);
        let started = self.fixture.headwater().store(self.store.path()).start(&program);
        assert!(wait_until(Duration::from_secs(20), || reached.exists()), "the program starts");
        started
    }

    fn sessions(&self) -> Vec<PathBuf> {
        let entries = |directory: &Path| std::fs::read_dir(directory).into_iter().flatten().flatten();
        entries(self.store.path()).flat_map(|base| entries(&base.path()).map(|entry| entry.path())).collect()
    }
}

#[test]
fn what_a_killed_session_left_is_swept_by_the_next() {
    let killed = Killed::new("sweep");
    let app = Program::new(killed.fixture.path("bin/app")).args(["open=libx.so", "call=x"]);
    let session = killed.fixture.headwater().store(killed.store.path()).run(&app);
    assert_eq!(session.output.status, 0);
    assert_eq!(killed.sessions().len(), 0);
}

#[test]
fn doctor_reports_and_removes_what_a_killed_session_left() {
    let killed = Killed::new("doctor");
    let doctor = |fix: &[&str]| {
        let doctor = Program::new(headwater_binary()).arg("doctor").args(fix.iter().copied());
        doctor.arg("--store").arg(killed.store.path()).run().stdout
    };
    let left = killed.sessions()[0].display().to_string();
    assert!(doctor(&[]).contains(&format!("1, such as {left}")));
    // Whatever several find at once, what each has reported as removed is removed.
    let printed: Vec<String> = std::thread::scope(|scope| {
        let both: Vec<_> = (0..2).map(|_| scope.spawn(|| doctor(&["--fix"]))).collect();
        both.into_iter().map(|printed| printed.join().expect("it ends")).collect()
    });
    assert_eq!(
        printed.iter().filter(|printed| printed.contains(&format!("the session {left}"))).count(),
        1,
        "{printed:?}"
    );
    assert_eq!(killed.sessions().len(), 0);
}

#[test]
fn systemd_tmpfiles_removes_what_is_dead_and_nothing_else() {
    if !has_program("systemd-tmpfiles") {
        return skipped("no systemd-tmpfiles");
    }
    let killed = Killed::new("tmpfiles");
    let dead = killed.sessions();
    // A new session sweeps dead ones, so these are made as if the next had been there before.
    let aside = killed.store.path().join("aside");
    std::fs::rename(&dead[0], &aside).expect("one's own");
    let started = killed.start(&killed.fixture.path("bin/app"), "reached-again");
    std::fs::rename(&aside, &dead[0]).expect("one's own");
    let rules = headwater_binary().ancestors().nth(2).expect("an installation").join("share/headwater/tmpfiles.d");
    let rules = std::fs::read_to_string(rules.join("headwater.conf")).expect("the rules are installed");
    // At once, and of this store alone.
    let rule = rules.lines().find(|line| line.starts_with("e /dev/shm/")).expect("a rule for RAM disks");
    let rule = rule.replace("/dev/shm", &killed.store.path().display().to_string()).replace(" 1d", " 0");
    let file = killed.fixture.outside("rules.conf");
    std::fs::write(&file, rule + "\n").expect("an own directory");
    let cleaned = Program::new("systemd-tmpfiles").arg("--clean").arg(&file).run();
    assert_eq!(cleaned.status, 0, "{cleaned:?}");
    let left = killed.sessions();
    assert!(left.len() == 1 && left != dead, "{left:?}");
    std::fs::write(killed.fixture.outside("reached-again.go"), "").expect("an own directory");
    let session = started.finish();
    assert_eq!(session.output.status, 0, "{:?}", session.output);
    assert_eq!(killed.sessions().len(), 0);
}

#[test]
fn the_default_store_is_left_clean() {
    let entries = || {
        let names = std::fs::read_dir("/dev/shm").expect("a RAM disk").flatten().map(|entry| entry.path());
        let bases =
            names.filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("headwater-")));
        bases
            .flat_map(|base| std::fs::read_dir(base).into_iter().flatten().flatten())
            .map(|entry| entry.path())
            .collect::<Vec<_>>()
    };
    let before = entries();
    let fixture = Fixture::new("default");
    fixture.library("lib/libx.so", "x", &[]);
    let app = fixture.build("loader.c", "bin/app", &["-Wl,-rpath,$ORIGIN/../lib"]);
    let run =
        [headwater_binary().into_os_string(), "run".into(), "--shared".into(), fixture.shared().into(), "--".into()];
    let output = Program::new(app).args(["open=libx.so", "call=x"]).behind(run).run();
    assert!(output.stdout.contains("x() = x"), "{output:?}");
    let new: Vec<_> = entries().into_iter().filter(|path| !before.contains(path)).collect();
    assert!(new.iter().all(|path| !path.exists()), "{new:?}");
}
