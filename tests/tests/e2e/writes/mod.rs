//! A job's writes below the scope reach the source at once; the other nodes see them, and so does a process that has
//! the file open.

mod appends;
mod others;

use std::io::Write;
use std::path::Path;

use headwater_tests::harness::{self, Fixture, Mechanism, Output, Program, is_root, user, wait_until};

pub use self::appends::{
    a_file_that_only_grows, a_growing_file_is_read_to_its_end_under_a_lock, records_of_several_nodes_stay_whole,
};
pub use self::others::{
    a_process_reads_what_it_writes, a_program_that_is_made_can_be_executed,
    access_control_lists_are_those_of_the_source_file, changes_by_number_are_seen, random_changes_are_seen_by_all,
    what_is_open_stays_the_same_file,
};

/// Opens a file by each call, has another process change it by each call, and prints what each shows once it shows
/// anything new, or after ten seconds.
const READER: &str = r#"
import mmap, os, subprocess, sys, time
path = sys.argv[1]
stream = open(path, "rb")
fd = os.open(path, os.O_RDONLY)
shared = mmap.mmap(fd, 8000, mmap.MAP_SHARED, mmap.PROT_READ)
print(stream.read(6), os.pread(fd, 6, 0), shared[4990:4996])

def other(code):
    subprocess.run([sys.executable, "-c", "import os, sys; path = sys.argv[1]; " + code, path], check=True)

def soon(what, show, expected):
    deadline = time.time() + 10
    while show() != expected and time.time() < deadline:
        time.sleep(0.005)
    print(what, show(), flush=True)

other("fd = os.open(path, os.O_WRONLY); os.pwrite(fd, b'CHANGED', 4990)")
soon("mapped", lambda: shared[4990:4997], b"CHANGED")
soon("pread", lambda: os.pread(fd, 7, 4990), b"CHANGED")
other("open(path, 'ab').write(b'the end')")
soon("size", lambda: os.fstat(fd).st_size, 8007)
soon("appended", lambda: os.pread(fd, 100, 8000), b"the end")
other("os.truncate(path, 5000)")
soon("cut", lambda: (os.fstat(fd).st_size, os.pread(fd, 100, 4997)), (5000, b"aaa"))
original = os.stat(path)
soon("same file", lambda: all(getattr(os.fstat(fd), n) == getattr(original, n) for n in ("st_dev", "st_ino", "st_mode", "st_size", "st_mtime_ns")), True)
other("open(path + '.new', 'w').write('another file'); os.rename(path + '.new', path)")
soon("open", lambda: os.pread(fd, 3, 0), b"aaa")
soon("opened anew", lambda: open(path).read(), "another file")
other("open(path, 'a').write(', longer')")
soon("opened anew", lambda: open(path).read(), "another file, longer")
soon("open still", lambda: os.fstat(fd).st_size, 5000)
"#;

fn prepare(fixture: &Fixture) {
    for name in ["existing", "removed", "timed", "short", "appended", "old-dir/inner"] {
        fixture.file(&format!("pkg/{name}"), format!("first {name}\n"), 0o644);
    }
    std::fs::create_dir(fixture.outside("meeting")).expect("an own directory");
}

fn sorted(output: &Output) -> Vec<&str> {
    let mut lines: Vec<&str> = output.stdout.lines().collect();
    lines.sort_unstable();
    lines
}

pub fn one_node_writes_and_another_reads(via: Mechanism) {
    let plain_fixture = Fixture::new("plainwrite");
    prepare(&plain_fixture);
    let app = |fixture: &Fixture| fixture.build("exchange.c", "bin/exchange", &[]);
    let command = |fixture: &Fixture| {
        format!("{} {} {}", app(fixture).display(), fixture.path("pkg").display(), fixture.outside("meeting").display())
    };
    let both = command(&plain_fixture);
    let plain = Program::shell(&format!("{both} 0 & {both} 1; wait")).run();
    assert!(plain.stdout.contains("1 cache cached text"), "{plain:?}");

    let fixture = Fixture::new("write");
    prepare(&fixture);
    let program = Program::new(app(&fixture)).args([fixture.path("pkg"), fixture.outside("meeting")]);
    let session = fixture.headwater().via(via).on(2, 1).run(&program);
    assert_eq!(sorted(&session.output), sorted(&plain), "with Headwater (left) and without (right)");
    assert_eq!(session.output.status, 0);
}

pub fn a_process_sees_what_it_and_its_children_write(via: Mechanism) {
    let fixture = Fixture::new("ownwrite");
    fixture.file("pkg/a", "a\n", 0o644);
    fixture.file("pkg/d/e", "e\n", 0o644);
    let pkg = fixture.path("pkg").display().to_string();
    let steps = [
        "cat a d/e; ls",
        "echo b > b; cat b; ls",
        "echo more >> a; cat a",
        "mv a c; cat a; cat c; ls",
        "mkdir -p x/y; echo z > x/y/z; cat x/y/z; ls x x/y",
        "ln -s x link; cat link/y/z; rm link; cat link/y/z",
        "mv d f; cat d/e; cat f/e; ls",
        "rm -r f x; ls; ls x; test -e f || echo gone",
        "chmod 600 c; stat -c '%a %s' c; touch -d @1000 c; stat -c %Y c; truncate -s 2 c; cat c",
        "cp c copy; sed -i s/m/M/ copy; cat copy; ls; rm c copy b; ls -A",
    ];
    let script = format!("cd {pkg}; {}", steps.join("; "));
    let save = format!("rm -rf {0}.saved; cp -a {0} {0}.saved", pkg);
    let restore = format!("rm -rf {0}; cp -a {0}.saved {0}", pkg);
    Program::shell(&save).run();
    let plain = Program::shell(&script).run();
    assert!(plain.stdout.contains("gone"), "{plain:?}");
    Program::shell(&restore).run();
    fixture.headwater().via(via).run(&Program::shell(&script)).output.assert_same(&plain);
}

pub fn modules_that_a_program_compiles_are_used(via: Mechanism) {
    let fixture = Fixture::new("pycache");
    fixture.file("site/made.py", "value = 1\n", 0o644);
    let script = "import made, os, sys; print(made.value, os.path.exists(made.__cached__)); \
                  sys.stdout.flush(); os.execv(sys.executable, [sys.executable, '-v', '-c', 'import made']) if len(sys.argv) > 1 else None";
    let program = Program::new("python3")
        .args(["-c", script])
        .env("PYTHONDONTWRITEBYTECODE", "")
        .env("PYTHONPATH", fixture.path("site"));
    let session = fixture.headwater().via(via).run(&program.clone());
    assert_eq!(session.output.stdout, "1 True\n", "{:?}", session.output);
    let cache = fixture.path("site/__pycache__");
    assert_eq!(std::fs::read_dir(&cache).expect("Python made it").count(), 1);
    std::fs::remove_dir_all(&cache).expect("an own directory");
    let session = fixture.headwater().via(via).run(&program.arg("again"));
    assert!(
        session.output.stderr.contains("code object from"),
        "the second process uses the cache: {:?}",
        session.output
    );
}

pub fn what_is_made_in_a_new_directory_is_not_announced(via: Mechanism) {
    const FILES: u64 = 50;
    let fixture = Fixture::new("newdir");
    fixture.file("pkg/known/file", "", 0o644);
    let script = format!(
        "import os, sys; pkg = sys.argv[1]; os.makedirs(pkg + '/known', exist_ok=True); new = f'{{pkg}}/{{os.getpid()}}'; os.mkdir(new)\n\
         for n in range({FILES}):\n    open(f'{{new}}/{{n}}.part', 'w').write('text'); os.rename(f'{{new}}/{{n}}.part', f'{{new}}/{{n}}')\n\
         print(len(os.listdir(new)), os.listdir(pkg + '/known'))"
    );
    let program = Program::new("python3").args(["-c", &script]).arg(fixture.path("pkg"));
    let session = fixture.headwater().via(via).on(2, 1).run(&program);
    assert_eq!((&*session.output.stdout, session.output.status), (&*format!("{FILES} ['file']\n").repeat(2), 0));
    session.assert_served();
    assert!(session.number("overlay.messages") < FILES, "{} messages", session.number("overlay.messages"));
}

pub fn what_is_open_shows_what_others_write(via: Mechanism) {
    let fixture = Fixture::new("following");
    let make = || fixture.file("pkg/file", "a".repeat(8000), 0o644);
    let file = make();
    let program = Program::new("python3").args(["-c", READER]).arg(&file);
    let plain = program.run();
    assert!(plain.stdout.contains("longer"), "{plain:?}");
    for opening in ["no-open", "cached", "passthrough"] {
        std::fs::remove_file(&file).expect("an own file");
        make();
        let session = fixture.headwater().via(via).option(format!("--opening={opening}")).run(&program);
        assert_eq!(
            (session.output.status, &session.output.stdout),
            (0, &plain.stdout),
            "{opening}: {:?}",
            session.output
        );
    }
}

pub fn a_log_is_followed(via: Mechanism) {
    let fixture = Fixture::new("tail");
    let log = fixture.file("pkg/log", "first\n", 0o644);
    // Each line is written when the one before has been shown, so that none is shown with another.
    let script = format!(
        "exec 3< <(exec tail -n +1 -f {log}); tail=$!; read -ru3 line; echo $line; \
         for n in 1 2 3 4 5; do echo line $n >> {log}; read -rt 20 -u3 line && echo shown: $line; done; kill $tail",
        log = log.display()
    );
    let program = Program::new("bash").args(["-c", &script]);
    let plain = program.run();
    assert!(plain.stdout.ends_with("shown: line 5\n"), "{plain:?}");
    std::fs::write(&log, "first\n").expect("an own file");
    fixture.headwater().via(via).run(&program).output.assert_same(&plain);
}

/// Prints each new content of a file until that is the last one.
const STATES: &str = r#"
import sys, time
shown, end = "", time.monotonic() + 60
while shown != "state 4" and time.monotonic() < end:
    with open(sys.argv[1]) as file:
        now = file.read()
    if now != shown:
        shown = now
        print(now, flush=True)
    time.sleep(0.05)
"#;

/// A process outside of the session rewrites a file again and again, each time with the same size and time.
pub fn what_is_rewritten_outside_is_seen(via: Mechanism) {
    let fixture = Fixture::new("rewritten");
    let file = fixture.file("pkg/file", "state 0", 0o644);
    let modified = std::fs::metadata(&file).and_then(|known| known.modified()).expect("an own file");
    let started = fixture.headwater().via(via).start(&Program::new("python3").args(["-c", STATES]).arg(&file));
    for state in 0..5 {
        let is_shown = || started.running.stdout().ends_with(&format!("state {state}\n"));
        assert!(wait_until(std::time::Duration::from_secs(60), is_shown), "{state}: {}", started.running.stdout());
        let mut next = std::fs::File::options().write(true).open(&file).expect("an own file");
        next.write_all(format!("state {}", state + 1).as_bytes()).expect("an own file");
        next.set_modified(modified).expect("an own file");
    }
    assert_eq!(started.finish().output.status, 0);
}

/// A process outside of the session writes it.
pub fn a_log_from_outside_is_followed(via: Mechanism) {
    let follow = |option: &str| {
        let fixture = Fixture::new("tail-outside");
        let log = fixture.file("pkg/log", "first\n", 0o644);
        let shown = fixture.outside("shown");
        let script = format!(
            "exec 3< <(exec tail -n +1 {option} {}); tail=$!; read -ru3 line; echo $line; >{}; \
             read -rt 60 -u3 line && echo shown: $line; kill $tail",
            log.display(),
            shown.display()
        );
        let running = fixture.headwater().via(via).start(&Program::new("bash").args(["-c", &script]));
        assert!(wait_until(std::time::Duration::from_secs(60), || shown.exists()), "the first line is shown");
        // tail has begun to wait.
        std::thread::sleep(std::time::Duration::from_millis(500));
        std::fs::File::options().append(true).open(&log).and_then(|mut log| log.write_all(b"second\n")).expect("own");
        (fixture, running)
    };
    for (_fixture, running) in ["-f", "-F"].map(follow) {
        let output = running.finish().output;
        assert_eq!((output.status, &*output.stdout), (0, "first\nshown: second\n"), "{output:?}");
    }
}

/// Counts in files of all nodes, under each kind of lock, which ends in each of the ways in which it can. Locks of
/// `flock` and of `fcntl` don't exclude each other, so each have a file of their own.
const COUNTER: &str = r#"
import fcntl, os, struct, subprocess, sys
F_OFD_SETLKW = 38
ranges, whole = (os.path.join(sys.argv[1], name) for name in ("ranges", "whole"))
def count(fd):
    value = int(os.pread(fd, 20, 0))
    os.pwrite(fd, b"%08d" % (value + 1), 0)
def ofd(fd, kind):
    fcntl.fcntl(fd, F_OFD_SETLKW, struct.pack("hhqqi4x", kind, 0, 0, 0, 0))
kinds = [
    (ranges, lambda fd: fcntl.lockf(fd, fcntl.LOCK_EX), lambda fd: fcntl.lockf(fd, fcntl.LOCK_UN)),
    (ranges, lambda fd: ofd(fd, fcntl.F_WRLCK), lambda fd: ofd(fd, fcntl.F_UNLCK)),
    (whole, lambda fd: fcntl.flock(fd, fcntl.LOCK_EX), lambda fd: fcntl.flock(fd, fcntl.LOCK_UN)),
]
kept = {path: os.open(path, os.O_RDWR) for path in (ranges, whole)}
for path, take, give in kinds:
    for _ in range(20):
        take(kept[path])
        count(kept[path])
        give(kept[path])
os.close(kept[ranges])
os.close(kept[whole])
for path, take, _ in kinds:
    for _ in range(10):
        fd = os.open(path, os.O_RDWR)
        take(fd)
        count(fd)
        os.close(fd)
    for _ in range(3):
        child = os.fork()
        if child == 0:
            fd = os.open(path, os.O_RDWR)
            take(fd)
            count(fd)
            os._exit(0)
        os.waitpid(child, 0)
# The lock is the shell's descriptor's, and not that of the process that takes it.
SHELL = 'exec 9<>"$1"; flock 9; n=$(cat "$1"); printf %08d $((${n#"${n%%[!0]*}"} + 1)) >"$1"'
for _ in range(3):
    subprocess.run(["sh", "-c", SHELL, "sh", whole], check=True)
"#;

pub fn locks_exclude_the_processes_of_other_nodes(via: Mechanism) {
    let fixture = Fixture::new("locks");
    let files = ["ranges", "whole"].map(|name| fixture.file(&format!("pkg/{name}"), "00000000", 0o644));
    let program = Program::new("python3").args(["-c", COUNTER]).arg(fixture.path("pkg"));
    let session = fixture.headwater().via(via).on(2, 2).run(&program);
    assert_eq!(session.output.status, 0, "{:?}", session.output);
    let counted = files.map(|file| std::fs::read_to_string(file).expect("an own file"));
    // By four processes, with two kinds of locks and with one.
    assert_eq!(counted, [4 * 2 * 33, 4 * (33 + 3)].map(|count| format!("{count:08}")));
}

/// A program that prints what each call about locks does.
const LOCKS: &str = include_str!("../../../programs/changes/locks.py");

pub fn locks_are_those_of_the_source_file(via: Mechanism) {
    let fixture = Fixture::new("locking");
    let program = |directory: &str| {
        std::fs::create_dir_all(fixture.path(directory)).expect("an own directory");
        Program::new("python3").args(["-c", LOCKS]).arg(fixture.path(directory))
    };
    let plain = program("plain").run();
    assert!(plain.status == 0 && plain.stdout.contains("a circle EDEADL"), "{plain:?}");
    fixture.headwater().via(via).run(&program("session")).output.assert_same(&plain);
    if is_root() && via == Mechanism::Namespace {
        let own = Program::new("chown").args(["-R", "1:1"]).arg(fixture.shared()).run();
        assert_eq!(own.status, 0, "{own:?}");
        let user = fixture.commands_of(&user::ORDINARY);
        fixture.headwater().via(via).behind(&user).run(&program("session")).output.assert_same(&plain);
    }
}

pub fn locks_exclude_processes_outside(via: Mechanism) {
    let fixture = Fixture::new("outside");
    let file = fixture.file("pkg/file", "", 0o644);
    let program = Program::new("flock").arg("-n").arg(&file).arg("true");
    let status = || fixture.headwater().via(via).run(&program).output.status;
    let held = std::fs::File::open(&file).expect("an own file");
    held.lock().expect("it is free");
    assert_eq!(status(), 1);
    drop(held);
    assert_eq!(status(), 0);
}

/// A process waits for a lock, in the kernel, when the daemon dies: the next one takes the lock for it.
pub fn a_lock_is_waited_for_beyond_the_daemon(via: Mechanism) {
    let fixture = Fixture::new("beyond");
    let file = fixture.file("pkg/file", "", 0o644);
    let held = std::fs::File::open(&file).expect("an own file");
    held.lock().expect("it is free");
    let waits = "import fcntl, sys; file = open(sys.argv[1], 'r+'); print('waits', flush=True); \
                 fcntl.flock(file, fcntl.LOCK_EX); print('has it')";
    let running = fixture.headwater().via(via).start(&Program::new("python3").args(["-c", waits]).arg(&file));
    let is_waiting = || running.running.stdout() == "waits\n";
    assert!(wait_until(std::time::Duration::from_secs(60), is_waiting), "the program starts");
    // It has begun to wait, or the next daemon gets the request.
    std::thread::sleep(std::time::Duration::from_millis(200));
    running.daemons().into_iter().for_each(harness::kill);
    std::thread::sleep(std::time::Duration::from_millis(200));
    assert_eq!(running.running.stdout(), "waits\n");
    drop(held);
    let output = running.finish().output;
    assert_eq!((output.status, &*output.stdout), (0, "waits\nhas it\n"), "{output:?}");
}

/// A child takes a lock of each kind, returns one when the file `return` exists, and ends with the others when `end`
/// does. Its parent ends later.
const HOLDER: &str = r#"
import fcntl, os, struct, sys, time
place = sys.argv[1]

def wait_for(name):
    while not os.path.exists(os.path.join(sys.argv[2], name)):
        time.sleep(.01)

if os.fork() == 0:
    files = [open(os.path.join(place, name), "r+") for name in ("returned", "whole", "process", "description")]
    fcntl.flock(files[0], fcntl.LOCK_EX)
    fcntl.flock(files[1], fcntl.LOCK_EX)
    fcntl.lockf(files[2], fcntl.LOCK_EX)
    fcntl.fcntl(files[3], 37, struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0))
    print("has them", flush=True)
    wait_for("return")
    fcntl.flock(files[0], fcntl.LOCK_UN)
    print("returned", flush=True)
    wait_for("end")
    os._exit(0)
os.wait()
wait_for("end of all")
"#;

/// Prints of each file whether a lock of its kind excludes this process.
const LOCKED: &str = r#"
import fcntl, os, sys
def is_free(name, lock):
    file = open(os.path.join(sys.argv[1], name), "r+")
    try:
        lock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except OSError:
        return False
kinds = {"returned": fcntl.flock, "whole": fcntl.flock, "process": fcntl.lockf, "description": fcntl.lockf}
print(*(name for name, lock in kinds.items() if not is_free(name, lock)))
"#;

pub fn a_lock_outlives_the_daemon(via: Mechanism) {
    let fixture = Fixture::new("outlives");
    for name in ["returned", "whole", "process", "description"] {
        fixture.file(&format!("pkg/{name}"), "", 0o644);
    }
    let signals = fixture.outside("signals");
    std::fs::create_dir(&signals).expect("an own directory");
    let program = Program::new("python3").args(["-c", HOLDER]).arg(fixture.path("pkg")).arg(&signals);
    let running = fixture.headwater().via(via).start(&program);
    let locked = || Program::new("python3").args(["-c", LOCKED]).arg(fixture.path("pkg")).run().stdout;
    let minute = std::time::Duration::from_secs(60);
    let signal = |name: &str| std::fs::write(signals.join(name), "").expect("an own directory");
    assert!(wait_until(minute, || running.running.stdout() == "has them\n"), "the locks are taken");
    for _ in 0..2 {
        let daemons = running.daemons();
        daemons.iter().copied().for_each(harness::kill);
        assert_eq!(locked(), "returned whole process description\n");
        // Under audit processes lock the files themselves, and a killed daemon has no successor.
        let has_it = || running.daemons().first().is_some_and(|daemon| !daemons.contains(daemon));
        let has_successor = || via == Mechanism::Audit || has_it();
        assert!(wait_until(minute, has_successor), "another daemon takes over");
    }
    signal("return");
    assert!(wait_until(minute, || running.running.stdout() == "has them\nreturned\n"), "a lock is returned");
    assert_eq!(locked(), "whole process description\n");
    signal("end");
    assert!(wait_until(minute, || locked() == "\n"), "the locks end with their holder");
    signal("end of all");
    assert_eq!(running.finish().output.status, 0);
}

/// What a process asks for again and again may come from outside of the session.
pub fn what_is_looked_for_again_is_seen(via: Mechanism) {
    let fixture = Fixture::new("polls");
    let files =
        [("rewritten", "as it was"), ("replaced", "one"), ("grown", "short"), ("removed", ""), ("inbox/.keep", "")];
    (0..60).for_each(|name| drop(fixture.file(&format!("pkg/many/{name}"), "short", 0o644)));
    for (name, text) in files {
        fixture.file(&format!("pkg/{name}"), text, 0o644);
    }
    let at = |name: &str| fixture.path(&format!("pkg/{name}"));
    let write = |name: &str, text: &str| std::fs::write(at(name), text).expect("an own file");
    let rename = |from: &str, to: &str| std::fs::rename(at(from), at(to)).expect("an own file");
    let link = |target: &str| std::os::unix::fs::symlink(target, at("link")).expect("an own directory");
    link("removed");
    std::fs::remove_file(at("inbox/.keep")).expect("an own file");
    let ready = fixture.outside("ready");
    let program = fixture.file("bin/polls.py", include_str!("../../../programs/changes/polls.py"), 0o644);
    let program = Program::new("python3").arg(program).arg(fixture.path("pkg")).arg(&ready);
    let running = fixture.headwater().via(via).on(2, 1).start(&program);
    let is_ready = || ["0", "1"].iter().all(|node| Path::new(&format!("{}{node}", ready.display())).exists());
    assert!(wait_until(std::time::Duration::from_secs(60), is_ready), "both look for changes");
    write("made", "");
    write("new", "here");
    rename("new", "renamed");
    write("rewritten", "as is now");
    write("new", "another");
    rename("new", "replaced");
    write("grown", "is longer");
    std::fs::remove_file(at("removed")).expect("an own file");
    (0..3).for_each(|name| write(&format!("inbox/{name}"), &name.to_string()));
    (0..60).for_each(|name| write(&format!("many/{name}"), "is longer"));
    std::fs::remove_file(at("link")).expect("an own link");
    link("grown");
    let output = running.finish().output;
    let all = "['grown', 'link', 'made', 'many', 'names', 'removed', 'renamed', 'replaced', 'rewritten']";
    assert_eq!((output.status, &*output.stdout), (0, &*format!("[] {all}\n").repeat(2)), "{output:?}");
}

/// Reads a file, waits for a lock that a process outside of the session has, and reads the file by the descriptor that
/// it had before and by a new one.
const BEHIND_A_LOCK: &str = r#"
import fcntl, os, sys
path = sys.argv[1]
first = os.open(path, os.O_RDWR)
print(os.pread(first, 20, 0).decode())
open(path + ".ready", "w").close()
fcntl.flock(first, fcntl.LOCK_EX)
print(os.pread(first, 20, 0).decode(), open(path).read())
"#;

pub fn what_was_changed_under_a_lock_is_seen_behind_it(via: Mechanism) {
    let fixture = Fixture::new("behind");
    let file = fixture.file("pkg/file", "as it was", 0o644);
    let modified = std::fs::metadata(&file).and_then(|known| known.modified()).expect("an own file");
    let held = std::fs::File::options().write(true).open(&file).expect("an own file");
    held.lock().expect("it is free");
    let program = Program::new("python3").args(["-c", BEHIND_A_LOCK]).arg(&file);
    let running = fixture.headwater().via(via).start(&program);
    let is_ready = || fixture.path("pkg/file.ready").exists();
    assert!(wait_until(std::time::Duration::from_secs(60), is_ready), "the program waits for the lock");
    // With the same size and time.
    (&held).write_all(b"is now so").expect("an own file");
    held.set_modified(modified).expect("an own file");
    drop(held);
    let output = running.finish().output;
    assert_eq!((output.status, &*output.stdout), (0, "as it was\nis now so is now so\n"), "{output:?}");
}

/// Counts in files of all nodes, each of which a file, a directory or a link with a fixed name protects. The size of
/// the files stays the same.
const BY_LOCK_FILES: &str = r#"
import os, sys, time
place, node = sys.argv[1], os.environ["HEADWATER_NODE"]
lock, own = os.path.join(place, "lock"), os.path.join(place, "own" + node)
open(own, "w").close()
kinds = {
    "file": (lambda: os.close(os.open(lock, os.O_CREAT | os.O_EXCL | os.O_WRONLY)), os.unlink),
    "directory": (lambda: os.mkdir(lock), os.rmdir),
    "link": (lambda: os.link(own, lock), os.unlink),
}
for kind, (take, give) in kinds.items():
    for _ in range(25):
        while True:
            try:
                take()
                break
            except FileExistsError:
                time.sleep(0.001)
        count = os.path.join(place, kind)
        value = int(open(count).read())
        with open(count, "r+") as file:
            file.write("%08d" % (value + 1))
        give(lock)
    # The next kind's lock has the same name.
    open(os.path.join(place, kind + " done by " + node), "w").close()
    while not all(os.path.exists(os.path.join(place, f"{kind} done by {n}")) for n in range(3)):
        time.sleep(0.001)
"#;

pub fn lock_files_exclude_the_processes_of_other_nodes(via: Mechanism) {
    let fixture = Fixture::new("lockfiles");
    let kinds = ["file", "directory", "link"];
    kinds.iter().for_each(|kind| drop(fixture.file(&format!("pkg/{kind}"), "00000000", 0o644)));
    let program = Program::new("python3").args(["-c", BY_LOCK_FILES]).arg(fixture.path("pkg"));
    let session = fixture.headwater().via(via).on(3, 1).run(&program);
    assert_eq!(session.output.status, 0, "{:?}", session.output);
    for kind in kinds {
        let count = std::fs::read_to_string(fixture.path("pkg").join(kind)).expect("an own file");
        assert_eq!(count, "00000075", "{kind}");
    }
}
