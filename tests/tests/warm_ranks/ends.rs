//! How ranks end, what signals they receive, and what is left when something is killed.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use headwater_tests::harness::{Fixture, Starting, is_running, kill, processes_using, wait_until};
use rustix::process::Signal;

use crate::{fixture, from_zygotes, mechanisms, python, warm};

/// How long something may take that takes milliseconds.
const SOON: Duration = Duration::from_secs(20);

#[test]
fn exit_codes_and_signals_are_passed() {
    let Some(fixture) = fixture() else { return };
    for (script, status) in [
        ("import os; os._exit(int(os.environ['HEADWATER_RANK']) * 20)", 60),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", 139),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", 137),
        ("import os, signal; os.kill(os.getpid(), signal.SIGRTMIN + 3)", 128 + 37),
        // The interpreter writes a text and its line's end apart, so that those of two ranks would mix.
        ("import os; raise SystemExit('over' if os.environ['HEADWATER_RANK'] == '0' else 1)", 1),
    ] {
        let program = python(&fixture, &["-c", script]);
        let exec = fixture.headwater().on(1, 4).run(&program);
        let zygote = warm(&fixture, "json").on(1, 4).run(&program);
        assert_eq!((from_zygotes(&zygote), zygote.messages.as_str()), (4, ""), "{script}");
        assert_eq!((exec.output.status, zygote.output.status), (status, status), "{script}");
        zygote.output.assert_same(&exec.output);
    }
}

/// Four ranks that wait.
struct Waiting {
    session: Starting,
    ranks: Vec<i32>,
    owner: i32,
    over: PathBuf,
}

impl Waiting {
    fn start(fixture: &Fixture) -> Waiting {
        let over = fixture.outside("over");
        let _ = fs::remove_file(&over);
        let program = python(fixture, &["waits.py", &over.display().to_string()]);
        let session = warm(fixture, "json").on(1, 4).start(&program);
        let lines = || -> Vec<Vec<i32>> {
            let text = session.running.stdout();
            let numbers = |line: &str| line.split(' ').skip(1).filter_map(|word| word.parse().ok()).collect();
            text.lines().filter(|line| line.starts_with("rank ")).map(numbers).collect()
        };
        assert!(wait_until(SOON, || lines().len() == 4), "{}", session.running.stdout());
        let lines = lines();
        let (ranks, owner) = (lines.iter().map(|line| line[1]).collect(), lines[0][2]);
        if lines.iter().any(|line| line[2] != owner) {
            fs::write(&over, "").expect("an own directory");
            panic!("they have one parent: {lines:?}\n{:#?}", session.finish());
        }
        assert_eq!(comm(owner), "headwater-warm");
        Waiting { session, ranks, owner, over }
    }

    /// The processes that the launcher started.
    fn proxies(&self) -> Vec<i32> {
        let all = processes_using(self.session.store());
        all.into_iter().filter(|(_, line)| line.contains("headwater exec ")).map(|(pid, _)| pid).collect()
    }

    /// The owner's other children.
    fn zygotes(&self) -> Vec<i32> {
        let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", self.owner)).unwrap_or_default();
        let all = children.split_whitespace().filter_map(|pid| pid.parse().ok());
        all.filter(|pid| !self.ranks.contains(pid)).collect()
    }

    fn prints(&self, start: &str, count: usize) {
        let printed = || self.session.running.stdout().lines().filter(|line| line.starts_with(start)).count();
        assert!(wait_until(SOON, || printed() == count), "{start}: {}", self.session.running.stdout());
    }
}

fn comm(pid: i32) -> String {
    fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim().to_owned()
}

fn is_stopped(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, after)| after.starts_with('T'))
}

#[test]
fn signals_arrive_once() {
    let Some(fixture) = fixture() else { return };
    let waiting = Waiting::start(&fixture);
    for count in 1..=3 {
        waiting.session.running.signal(Signal::USR1);
        // The next is sent when this one has arrived: the kernel queues one of a kind.
        for rank in 0..4 {
            waiting.prints(&format!("usr1 {rank} {count}"), 1);
        }
    }
    waiting.session.running.signal(Signal::TERM);
    for rank in 0..4 {
        waiting.prints(&format!("term {rank} 3"), 1);
    }
    let session = waiting.session.finish();
    assert_eq!((session.output.status, session.messages.as_str()), (7, ""));
}

#[test]
fn ranks_stop_and_go_on() {
    let Some(fixture) = fixture() else { return };
    let waiting = Waiting::start(&fixture);
    let proxies = waiting.proxies();
    let run = waiting.session.running.pid().as_raw_nonzero().get();
    let all = || waiting.ranks.iter().chain(&proxies).copied().chain([run]);
    waiting.session.running.signal(Signal::TSTP);
    assert!(wait_until(SOON, || all().all(is_stopped)), "not all have stopped");
    waiting.session.running.signal(Signal::CONT);
    assert!(wait_until(SOON, || !all().any(is_stopped)), "some are still stopped");
    fs::write(&waiting.over, "").expect("an own directory");
    assert_eq!(waiting.session.finish().output.status, 0);
}

#[test]
fn killed_ranks_and_proxies_end_each_other() {
    let Some(fixture) = fixture() else { return };
    let waiting = Waiting::start(&fixture);
    let proxies = waiting.proxies();
    assert_eq!(proxies.len(), 4);
    kill(proxies[0]);
    let gone = || waiting.ranks.iter().filter(|&&rank| !is_running(rank)).count();
    assert!(wait_until(SOON, || gone() == 1), "a killed proxy's rank runs on");
    fs::write(&waiting.over, "").expect("an own directory");
    let session = waiting.session.finish();
    assert_eq!((session.output.status, session.messages.as_str()), (137, ""));
}

#[test]
fn the_owner_takes_its_ranks_along() {
    let Some(fixture) = fixture() else { return };
    let waiting = Waiting::start(&fixture);
    let zygotes = waiting.zygotes();
    assert_eq!(zygotes.len(), 1);
    kill(waiting.owner);
    let all = || waiting.ranks.iter().chain(&zygotes);
    assert!(wait_until(SOON, || !all().any(|&pid| is_running(pid))), "what the owner had made runs on");
    let session = waiting.session.finish();
    assert_eq!(session.output.status, 137);
    assert!(session.messages.contains("was killed. The rank is killed too"), "{}", session.messages);
}

#[test]
fn ranks_outlive_their_zygote() {
    let Some(fixture) = fixture() else { return };
    let waiting = Waiting::start(&fixture);
    waiting.zygotes().into_iter().for_each(kill);
    waiting.session.running.signal(Signal::USR1);
    waiting.prints("usr1", 4);
    fs::write(&waiting.over, "").expect("an own directory");
    let session = waiting.session.finish();
    assert_eq!((session.output.status, session.messages.as_str()), (0, ""));
}

#[test]
fn nothing_is_left_of_a_killed_command() {
    let Some(fixture) = fixture() else { return };
    let waiting = Waiting::start(&fixture);
    let all: Vec<i32> = waiting.ranks.iter().copied().chain(waiting.zygotes()).chain([waiting.owner]).collect();
    waiting.session.running.signal(Signal::KILL);
    assert!(wait_until(SOON, || !all.iter().any(|&pid| is_running(pid))), "something runs on");
    // The remains of a killed session in the store are removed by the next one.
    assert!(wait_until(SOON, || processes_using(waiting.session.store()).is_empty()), "something runs on");
}

#[test]
fn ranks_that_have_not_begun_do_so_after_all() {
    let Some(fixture) = fixture() else { return };
    for via in mechanisms() {
        let directory = fixture.outside(via.name());
        fs::create_dir(&directory).expect("an own directory");
        let program = python(&fixture, &["-c", "import os; os.write(1, b'here\\n')"]);
        let session = warm(&fixture, "slow").via(via).on(1, 4).start(&program.env("SLOW_DIRECTORY", &directory));
        assert!(wait_until(SOON, || directory.join("importing").exists()), "nothing is imported");
        let owners = || -> Vec<i32> {
            let all = processes_using(session.store()).into_iter().map(|(pid, _)| pid);
            all.filter(|&pid| comm(pid) == "headwater-warm").collect()
        };
        assert_eq!(owners().len(), 1, "one process has the zygotes");
        kill(owners()[0]);
        fs::write(directory.join("go"), "").expect("an own directory");
        let session = session.finish();
        assert_eq!((session.output.status, session.output.stdout.as_str()), (0, "here\nhere\nhere\nhere\n"));
    }
}
