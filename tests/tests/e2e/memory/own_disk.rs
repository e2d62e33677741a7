//! The store on a RAM disk of the session's own: what others share is theirs.

use std::path::Path;

use headwater_tests::harness::{Fixture, Mechanism, Program, has_program, is_root, skipped, user};

const PYTHON: &str = "/usr/bin/python3";

/// Runs what follows where `/dev/shm` has so many bytes, as mount(8) writes them.
fn with_shared_memory(size: &str) -> [String; 7] {
    let script = format!("mount -t tmpfs -o size={size},mode=1777 tmpfs /dev/shm && exec \"$@\"");
    ["unshare", "--mount", "--propagation", "private", "sh", "-c", &script].map(str::to_owned)
}

/// The arguments above, and the shell's own name.
fn behind(size: &str, user: &[&str]) -> Vec<String> {
    let mut args = with_shared_memory(size).to_vec();
    args.push("sh".into());
    args.extend(user.iter().map(|word| (*word).to_owned()));
    args
}

/// A tenth of a usual job: a hundred megabytes are read, and then most of the shared memory is written, through a
/// mapping.
fn job(fixture: &Fixture, shared_mib: u32) -> Program {
    for number in 0..10u8 {
        fixture.file(&format!("data/{number}"), vec![number; 10 << 20], 0o644);
    }
    let script = format!(
        "import glob, mmap\n\
         print(sum(len(open(f, 'rb').read()) for f in glob.glob('{}/*')))\n\
         with open('/dev/shm/hwt-shared', 'w+b') as f:\n\
         \x20   f.truncate({shared_mib} << 20)\n\
         \x20   m = mmap.mmap(f.fileno(), 0)\n\
         \x20   for at in range(0, len(m), 4096): m[at] = 1\n\
         print('written')",
        fixture.path("data").display()
    );
    Program::new(PYTHON).args(["-c", &script])
}

fn others_have_their_memory(via: Mechanism, user: &[&str]) {
    if !is_root() {
        return skipped("a small /dev/shm needs root to mount it");
    }
    // One that every user may run.
    if !Path::new(PYTHON).exists() {
        return skipped("needs /usr/bin/python3");
    }
    let fixture = Fixture::new("shm");
    for (size, shared_mib) in [("60m", 40), ("64m", 56)] {
        let headwater = fixture.headwater().via(via).behind(&behind(size, user)).store_of_its_own();
        let session = headwater.same_output(&job(&fixture, shared_mib));
        assert_eq!((session.output.status, &*session.messages), (0, ""), "{:?}", session.output);
    }
}

#[test]
fn a_job_has_its_shared_memory_by_audit() {
    others_have_their_memory(Mechanism::Audit, &[]);
}

#[test]
fn a_job_has_its_shared_memory_by_namespace() {
    others_have_their_memory(Mechanism::Namespace, &[]);
}

#[test]
fn an_ordinary_users_job_has_its_shared_memory() {
    let probe = Program::new("unshare").args(["--user", "--mount", "true"]).behind(user::ORDINARY).run();
    if probe.status != 0 {
        return skipped("ordinary users may not make user namespaces");
    }
    others_have_their_memory(Mechanism::Audit, &user::ORDINARY);
}

/// Copies have the source files' names, and the kernel's names for them resolve to the source.
#[test]
fn names_are_those_of_the_source() {
    let fixture = Fixture::new("disk-names");
    fixture.file("data/f", "content\n", 0o644);
    let script = format!(
        "exec 3<{0}/f; cat <&3; readlink /proc/self/fd/3; realpath /proc/self/fd/3; cat /proc/self/fd/3",
        fixture.path("data").display()
    );
    fixture.headwater().store_of_its_own().same(&Program::new("sh").args(["-c", &script]));
    let app = fixture.build("loader.c", "bin/app", &["-Wl,-rpath,$ORIGIN/../lib"]);
    fixture.library("lib/libx.so", "x", &[]);
    fixture.headwater().store_of_its_own().same(&Program::new(app).args(["open=libx.so", "call=x", "objects"]));
}

/// Open files stay open, and all else is read from the source.
#[test]
fn a_keeper_that_is_killed_takes_nothing_along() {
    if !has_program("pgrep") {
        return skipped("needs pgrep");
    }
    let fixture = Fixture::new("keeper");
    for name in ["f", "g"] {
        fixture.file(&format!("data/{name}"), format!("{name}\n").repeat(10_000), 0o644);
    }
    fixture.library("lib/libx.so", "x", &[]);
    fixture.build("loader.c", "bin/app", &["-Wl,-rpath,$ORIGIN/../lib"]);
    let script = format!(
        "cd {0}; exec 3<data/f; bin/app open=libx.so call=x; cksum data/f\n\
         for keeper in $(pgrep -P $PPID -f '^headwater keep'); do kill -9 $keeper; done\n\
         cksum <&3; cksum data/f data/g; bin/app open=libx.so call=x; ls data",
        fixture.path("").display()
    );
    let session = fixture.headwater().store_of_its_own().same_output(&Program::new("sh").args(["-c", &script]));
    assert_eq!(session.output.status, 0, "{:?}", session.output);
}

/// The supervisor has the disk, and passes it to the next daemon.
#[test]
fn a_daemon_that_is_killed_is_followed_by_one_on_the_same_disk() {
    if !has_program("pgrep") {
        return skipped("needs pgrep");
    }
    let fixture = Fixture::new("disk-daemon");
    for name in ["f", "g"] {
        fixture.file(&format!("data/{name}"), format!("{name}\n").repeat(10_000), 0o644);
    }
    let script = format!(
        "cd {0}; exec 3<f; cksum f\n\
         for owner in $(pgrep -P $PPID -f '^headwater supervise'); do\n\
         for daemon in $(pgrep -P $owner -f '^headwater daemon'); do kill -9 $daemon; done; done\n\
         cksum <&3; cksum f g; ls",
        fixture.path("data").display()
    );
    let headwater = fixture.headwater().via(Mechanism::Namespace).store_of_its_own();
    let session = headwater.same_output(&Program::new("sh").args(["-c", &script]));
    assert_eq!(session.output.status, 0, "{:?}", session.output);
}
