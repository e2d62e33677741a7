//! Readers of a mount don't notice the death or replacement of its daemon.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::site::{eventually, text};
use crate::view::{View, content};
use headwater_supervisor::client::{Request, ask};
use rustix::fs::Advice;
use rustix::process::{Signal, kill_process};

/// Limit of an operation's duration while daemons are replaced.
const STALL_MAX: Duration = Duration::from_secs(2);

/// Readers of a view, and their observations.
#[derive(Default)]
struct Readers {
    stop: AtomicBool,
    reads: AtomicU64,
    longest_us: AtomicU64,
}

impl Readers {
    /// Reads `files` files repeatedly in several threads, without the kernel's cache, while `meanwhile` runs. Panics on
    /// wrong contents.
    fn during(view: &View, files: usize, threads: usize, meanwhile: impl FnOnce(&Readers)) -> Readers {
        let readers = Readers::default();
        std::thread::scope(|scope| {
            let work: Vec<_> = (0..threads)
                .map(|thread| {
                    scope.spawn({
                        let readers = &readers;
                        move || readers.read(view, files, thread)
                    })
                })
                .collect();
            meanwhile(&readers);
            readers.stop.store(true, Ordering::Relaxed);
            work.into_iter().for_each(|thread| thread.join().unwrap());
        });
        readers
    }

    fn read(&self, view: &View, files: usize, thread: usize) {
        for round in 0usize.. {
            // Each thread starts at another file, so that only some reads are the first of their file.
            for step in 0..files {
                if self.stop.load(Ordering::Relaxed) {
                    return;
                }
                let number = (step * 7 + thread * 131 + round) % files;
                let started = Instant::now();
                let read = read_anew(&view.file(number)).unwrap_or_else(|error| panic!("file {number}: {error}"));
                let took = started.elapsed().as_micros() as u64;
                assert!(read == content(number), "file {number} is wrong");
                self.longest_us.fetch_max(took, Ordering::Relaxed);
                self.reads.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    fn check(&self, what: &str) {
        let (reads, longest) = (self.reads.load(Ordering::Relaxed), self.longest());
        println!("{what}: {reads} reads, the longest {longest:?}");
        assert!(longest < STALL_MAX, "{longest:?}");
        assert!(reads > 0);
    }

    fn longest(&self) -> Duration {
        Duration::from_micros(self.longest_us.load(Ordering::Relaxed))
    }
}

/// Reads a file, and drops its pages from the kernel's cache.
fn read_anew(path: &Path) -> io::Result<Vec<u8>> {
    let (mut file, mut read) = (File::open(path)?, Vec::new());
    file.read_to_end(&mut read)?;
    rustix::fs::fadvise(&file, 0, None, Advice::DontNeed)?;
    Ok(read)
}

/// Reads a number from the environment: these tests are benchmarks, too.
fn setting(name: &str, default: usize) -> usize {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Waits for the daemon after `earlier`, and for its first answer.
fn next_daemon(view: &View, earlier: Option<u32>) -> u32 {
    let mut daemon = None;
    eventually("another daemon is there", || {
        daemon = view.status().daemon;
        daemon.is_some() && daemon != earlier
    });
    daemon.unwrap()
}

#[test]
fn killed_daemons_go_unnoticed() {
    let (kills, files) = (setting("HEADWATER_TEST_KILLS", 6), setting("HEADWATER_TEST_FILES", 1500));
    let Some(view) = View::mounted(files, &[]) else { return };
    let readers = Readers::during(&view, files, 4, |readers| {
        let mut daemon = None;
        for kill in 0..kills {
            daemon = Some(next_daemon(&view, daemon));
            let reads = readers.reads.load(Ordering::Relaxed);
            eventually("it serves", || readers.reads.load(Ordering::Relaxed) > reads);
            // At different moments of its work.
            std::thread::sleep(Duration::from_millis(250 + kill as u64 * 37 % 200));
            view.kill("daemon");
        }
        next_daemon(&view, daemon);
    });
    readers.check(&format!("{kills} kills"));
    assert_eq!(view.status().starts, kills as u64 + 1);
    view.check(0..files);
    view.end();
}

#[test]
fn killed_daemons_of_a_tree_go_unnoticed() {
    let Some(view) = View::prepare(600, &["--nodes", "3", "--fan-out", "1"]) else { return };
    view.mount();
    let leaf = View::at(&view, "mnt/n2");
    let readers = Readers::during(&leaf, 600, 2, |_| {
        for round in 0..3 {
            std::thread::sleep(Duration::from_millis(300 + round * 50));
            view.kill("daemon");
            eventually("all daemons are there", || view.processes("daemon").len() == 3);
        }
    });
    readers.check("3 kills of all daemons of a tree");
    drop(leaf);
    view.end();
}

#[test]
fn a_program_in_a_namespace_survives_its_daemon_and_its_supervisor() {
    for victim in ["daemon", "supervise"] {
        let Some(view) = View::prepare(1200, &[]) else { return };
        let script = format!("for round in 1 2 3; do cat {}/d*/f* | cksum; done", view.path("shared").display());
        let mut run = view.headwater("run");
        // It reads only after its processes have been seen, however long that takes.
        let waiting = format!("echo runs; read seen; {script}");
        run.args(["--via", "namespace", "--shared"]).arg(view.path("shared")).args(["--", "sh", "-c", &waiting]);
        run.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut program = run.spawn().unwrap();
        let mut runs = [0; 5];
        program.stdout.as_mut().unwrap().read_exact(&mut runs).unwrap();
        assert!(!view.processes("supervise").is_empty(), "{}", text(&program.wait_with_output().unwrap().stderr));
        writeln!(program.stdin.take().unwrap(), "seen").unwrap();
        for _ in 0..3 {
            std::thread::sleep(Duration::from_millis(60));
            view.kill(victim);
        }
        let output = program.wait_with_output().unwrap();
        let expected = Command::new("sh").args(["-c", &script]).output().unwrap();
        assert_eq!(text(&output.stdout), text(&expected.stdout), "{victim}: {}", text(&output.stderr));
        view.assert_gone();
    }
}

/// Copies this project's executable in another process. A child of another thread could inherit a write descriptor of
/// this process, and the file could not be executed until that is closed.
fn install(binary: &Path) {
    let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_headwater")).arg(binary).status().unwrap();
    assert!(copied.success(), "{}", binary.display());
}

#[test]
fn a_replaced_executable_takes_over_under_load() {
    let Some(mut view) = View::prepare(800, &[]) else { return };
    let binary = view.path("headwater");
    install(&binary);
    view.use_binary(binary.clone());
    view.mount();
    let first = view.status().daemon;
    let readers = Readers::during(&view, 800, 2, |_| {
        std::thread::sleep(Duration::from_millis(300));
        // As a package manager does it: a new file under the old name.
        let new = view.path("new");
        install(&new);
        fs::rename(&new, &binary).unwrap();
        ask(&view.node(0).supervisor(), Request::Restart).unwrap();
        let second = next_daemon(&view, first);
        assert_eq!(fs::read_link(format!("/proc/{second}/exe")).unwrap(), binary);
        let supervisor = view.processes("supervise")[0];
        kill_process(supervisor, Signal::USR1).unwrap();
        next_daemon(&view, Some(second));
    });
    readers.check("two upgrades");
    view.end();
}

#[test]
fn a_broken_replacement_is_not_used() {
    let Some(mut view) = View::prepare(50, &[]) else { return };
    let binary = view.path("headwater");
    install(&binary);
    view.use_binary(binary.clone());
    view.mount();
    view.check(0..10);
    let (first, new) = (view.status().daemon, view.path("new"));
    fs::write(&new, "#!/bin/sh\nexit 1\n").unwrap();
    fs::set_permissions(&new, fs::Permissions::from_mode(0o755)).unwrap();
    fs::rename(&new, &binary).unwrap();
    view.kill("daemon");
    view.check(0..50);
    next_daemon(&view, first);
    view.use_binary(env!("CARGO_BIN_EXE_headwater").into());
    view.end();
}

#[test]
fn without_a_daemon_the_supervisor_serves_the_source_files() {
    let Some(view) = View::mounted(300, &[]) else { return };
    view.check(0..100);
    // No daemon can start without this file.
    let session = view.node(0).path().parent().unwrap().to_owned();
    fs::rename(session.join("lock"), session.join("hidden")).unwrap();
    let readers = Readers::during(&view, 300, 2, |_| {
        view.kill("daemon");
        eventually("the supervisor serves", || view.status().daemon.is_none());
        std::thread::sleep(Duration::from_millis(200));
    });
    readers.check("no daemon");
    view.check(0..300);
    assert!(fs::read(view.mount_point().join("d0/none")).is_err());
    assert_eq!(fs::read_dir(view.mount_point().join("d2")).unwrap().count(), 100);
    fs::rename(session.join("hidden"), session.join("lock")).unwrap();
    view.end();
}
