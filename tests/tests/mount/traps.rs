//! Mistakes that others' read-only projections made, each with a test of its own.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read};
use std::time::{Duration, Instant};

use headwater_tests::counting_fs::{Caching, Mounted};
use headwater_tests::harness::{
    Fixture, Headwater, Mechanism, Mounting, Program, View, has_program, kill, processor_ticks, skipped, uses,
    wait_until,
};
use headwater_tests::model::{Action, Content, Operation, execute};
use rustix::fs::FileType;
use rustix::io::Errno;

use headwater_tests::{needs_mounts, needs_root};

#[test]
fn a_read_error_is_an_error_and_no_empty_file() {
    needs_root!();
    let fixture = Fixture::new("readerror");
    for name in ["deleted", "denied", "stays"] {
        fixture.file(name, name, 0o644);
    }
    let view = View::of(&fixture.shared());
    let sizes = ["deleted", "denied", "stays"].map(|name| fs::metadata(view.join(name)).expect("there").len());
    assert_eq!(sizes, [7, 6, 5]);
    fs::remove_file(fixture.path("deleted")).expect("an own file");
    let output = Program::new("cat").arg(view.join("deleted")).run();
    assert_ne!(output.status, 0, "a file that vanished after its stat: {output:?}");
    assert_eq!(output.stdout, "");
    assert_eq!(Program::new("cat").arg(view.join("stays")).run().stdout, "stays");
    view.unmount();
}

#[test]
fn writing_fails_and_changes_nothing() {
    needs_mounts!();
    let fixture = Fixture::new("erofs");
    fixture.file("file", "content", 0o666);
    fixture.dir("dir");
    let view = View::of(&fixture.shared());
    let read_only = |error: std::io::Error| assert_eq!(error.kind(), ErrorKind::ReadOnlyFilesystem, "{error}");
    let file = view.join("file");
    read_only(fs::remove_file(&file).expect_err("rm"));
    read_only(fs::rename(&file, view.join("other")).expect_err("mv"));
    read_only(OpenOptions::new().append(true).open(&file).expect_err(">>"));
    read_only(OpenOptions::new().write(true).truncate(true).open(&file).expect_err(">"));
    read_only(OpenOptions::new().read(true).write(true).open(&file).expect_err("r+"));
    read_only(File::create_new(view.join("new")).expect_err("creat"));
    read_only(fs::create_dir(view.join("new")).expect_err("mkdir"));
    read_only(fs::remove_dir(view.join("dir")).expect_err("rmdir"));
    read_only(fs::hard_link(&file, view.join("new")).expect_err("ln"));
    read_only(std::os::unix::fs::symlink("x", view.join("new")).expect_err("ln -s"));
    read_only(fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).expect_err("chmod"));
    read_only(std::os::unix::fs::chown(&file, Some(0), None).expect_err("chown"));
    let xattr = rustix::fs::setxattr(&file, "user.x", b"x", rustix::fs::XattrFlags::empty());
    assert_eq!(xattr, Err(Errno::ROFS));
    let truncated = rustix::fs::open(&file, rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::TRUNC, 0o644.into());
    assert_eq!(truncated.map(drop), Err(Errno::ROFS));
    assert_eq!(fs::read(fixture.path("file")).expect("unchanged"), b"content");
    assert_eq!(fs::read(&file).expect("unchanged"), b"content");
    assert_eq!(fs::read_dir(fixture.shared()).expect("unchanged").count(), 2);
    view.unmount();
}

/// A parent's death must cost its child no more than the moment in which another takes over.
#[test]
fn a_dead_parent_stalls_no_node() {
    needs_mounts!();
    let fixture = Fixture::new("deadparent");
    for n in 0..200 {
        fixture.file(&format!("dir{}/file{n}", n % 10), format!("content {n}\n"), 0o644);
    }
    let reached = fixture.outside("reached");
    // Only the leaf does work; the others block their nodes.
    let script = format!(
        "test $HEADWATER_NODE = 2 || {{ while ! test -e {1}.end; do sleep 0.05; done; exit 0; }}; cat {0}/dir0/*; : > {1}; \
         while ! test -e {1}.go; do sleep 0.05; done; find {0} -type f | sort | xargs cat | cksum; : > {1}.end",
        fixture.shared().display(),
        reached.display()
    );
    let headwater = fixture.headwater().via(Mechanism::Namespace).on(3, 1).option("--fan-out").option("1");
    let started = headwater.start(&Program::shell(&script));
    assert!(wait_until(Duration::from_secs(20), || reached.exists()));
    let mut killed = started.daemons();
    killed.extend(started.supervisors());
    // Rank 1 is between the leaf and the root.
    let parent = started.node_dir(1).display().to_string();
    killed.retain(|pid| uses(*pid, parent.as_ref()));
    assert!(!killed.is_empty(), "rank 1 has processes");
    killed.iter().for_each(|&pid| kill(pid));
    let began = Instant::now();
    fs::write(fixture.outside("reached.go"), "").expect("an own directory");
    let ended = wait_until(Duration::from_secs(20), || fixture.outside("reached.end").exists());
    assert!(ended, "the leaf still waits");
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
    let session = started.finish();
    let plain =
        Program::shell(&format!("find {} -type f | sort | xargs cat | cksum", fixture.shared().display())).run();
    assert!(session.output.stdout.ends_with(&plain.stdout), "{:?}", session.output);
}

#[test]
fn shared_read_only_maps_work() {
    needs_mounts!();
    if !has_program("python3") {
        return skipped("python3 is not installed");
    }
    let fixture = Fixture::new("memmap");
    fixture.file("data", Content::noise(1, 3 << 20).read(0, 3 << 20), 0o644);
    let script = "import mmap, sys, zlib\nf = open(sys.argv[1], 'rb')\n\
                  m = mmap.mmap(f.fileno(), 0, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ)\nprint(zlib.crc32(m))";
    let program = Program::new("python3").args(["-c", script]).arg(fixture.path("data"));
    for via in crate::MOUNTED {
        fixture.headwater().via(via).same(&program);
    }
}

#[test]
fn absolute_links_do_not_leave_the_mount() {
    needs_mounts!();
    let fixture = Fixture::new("leave");
    fixture.file("real/file", "content", 0o644);
    fixture.link(fixture.path("real"), "link");
    let view = View::of(&fixture.shared());
    assert_eq!(fs::canonicalize(view.join("link/file")).expect("it leads there"), view.join("real/file"));
    view.unmount();
}

#[test]
fn links_are_read_from_the_shared_file_system_once_for_all_nodes() {
    needs_mounts!();
    let fixture = Fixture::new("linkonce");
    fixture.file("dir/file", "content\n", 0o644);
    fixture.link("dir", "link");
    let mut mounted = match Mounted::new(&fixture.shared(), 1, Caching::NONE) {
        Ok(mounted) => mounted,
        Err(reason) => return skipped(reason),
    };
    let script = format!("cd {}; for n in 1 2 3; do readlink link; cat link/file; done", mounted.path().display());
    let session = Headwater::new(mounted.path()).via(Mechanism::Namespace).on(4, 2).run(&Program::shell(&script));
    assert_eq!(session.output.stdout.matches("content").count(), 24, "{:?}", session.output);
    let counts = mounted.counts();
    assert_eq!(counts["paths"]["link"]["readlink"], 1, "{counts:#}");
}

#[test]
fn listings_have_types() {
    needs_mounts!();
    let fixture = Fixture::new("dtype");
    fixture.file("file", "", 0o644);
    fixture.dir("dir");
    fixture.link("x", "link");
    let view = View::of(&fixture.shared());
    let dir = rustix::fs::open(view.path(), rustix::fs::OFlags::DIRECTORY, 0.into()).expect("mounted");
    let entries: Vec<_> = rustix::fs::Dir::new(dir).expect("a directory").map(|entry| entry.expect("a name")).collect();
    assert_eq!(entries.len(), 5);
    assert!(entries.iter().all(|entry| entry.file_type() != FileType::Unknown), "{entries:?}");
    view.unmount();
}

#[test]
fn df_shows_room() {
    needs_mounts!();
    let fixture = Fixture::new("df");
    fixture.file("file", "", 0o644);
    let view = View::of(&fixture.shared());
    let output = Program::new("df").args(["--output=size,avail"]).arg(view.path()).run();
    let numbers: Vec<u64> = output.stdout.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    assert!(numbers.len() == 2 && numbers[0] > 0, "{output:?}");
    let inodes = Program::new("df").args(["--output=itotal"]).arg(view.path()).run();
    assert_eq!(inodes.status, 0, "{inodes:?}");
    view.unmount();
}

#[test]
fn a_file_that_grew_is_reported_and_seen_after_a_refresh() {
    needs_mounts!();
    let fixture = Fixture::new("grown");
    fixture.file("file", "short", 0o644);
    let view = View::of(&fixture.shared());
    assert_eq!(fs::read(view.join("file")).expect("there"), b"short");
    fs::write(fixture.path("file"), "much longer now").expect("an own file");
    assert_eq!(fs::read(view.join("file")).expect("there"), b"short", "a session is a snapshot");
    view.refresh();
    assert_eq!(fs::read(view.join("file")).expect("there"), b"much longer now");
    view.unmount();
}

#[test]
fn absent_names_are_remembered_without_limit() {
    needs_mounts!();
    let fixture = Fixture::new("absent");
    fixture.file("dir/file", "", 0o644);
    let view = View::of(&fixture.shared());
    let check = |round: u32| {
        for n in 0..300 {
            let operation = Operation::new(format!("dir/none-{n}"), Action::Stat { follows: true });
            assert_eq!(execute(view.path(), &operation), "error 2", "round {round}");
        }
    };
    check(1);
    let (before, operations) = (view.fuse_requests(), view.operations());
    std::thread::sleep(Duration::from_millis(2500));
    check(2);
    assert_eq!(view.fuse_requests(), before, "before: {operations}; now: {}", view.operations());
    view.unmount();
}

#[test]
fn big_files_are_not_skipped() {
    needs_mounts!();
    let fixture = Fixture::new("bigfile");
    let content = Content::noise(4, 40 << 20);
    fixture.file("library", content.read(0, content.size()), 0o644);
    let mut mounted = match Mounted::new(&fixture.shared(), 1, Caching::NONE) {
        Ok(mounted) => mounted,
        Err(reason) => return skipped(reason),
    };
    let view = View::of(mounted.path());
    for _ in 0..2 {
        let output = Program::new("cksum").arg(view.join("library")).run();
        let plain = Program::new("cksum").arg(fixture.path("library")).run();
        assert_eq!(output.stdout.split(' ').next(), plain.stdout.split(' ').next());
    }
    let counts = mounted.counts();
    assert_eq!(counts["bytes_read"], 40 << 20, "each byte was received once: {counts:#}");
    view.unmount();
}

/// Neither daemon nor supervisor uses the processor without requests.
#[test]
fn waiting_costs_nothing() {
    needs_mounts!();
    let fixture = Fixture::new("idle");
    fixture.file("file", "x", 0o644);
    let view = Mounting::of(&fixture.shared()).mount();
    fs::read(view.join("file")).expect("there");
    let processes: Vec<i32> = view.daemons().into_iter().chain(view.supervisors()).collect();
    assert!(processes.len() >= 2, "{processes:?}");
    let ticks = || -> u64 { processes.iter().map(|&pid| processor_ticks(pid)).sum() };
    let before = ticks();
    std::thread::sleep(Duration::from_secs(3));
    let used = ticks() - before;
    assert!(used <= 6, "{used} hundredths of a second of 3 s");
    view.unmount();
}

#[test]
fn programs_need_no_prefix() {
    needs_mounts!();
    let fixture = Fixture::new("prefix");
    let path = fixture.file("dir/file", "content", 0o644);
    let script = format!("cat {0}; stat -f -c %T {0}", path.display());
    let session = fixture.headwater().via(Mechanism::Namespace).run(&Program::shell(&script));
    assert!(session.output.stdout.starts_with("contentfuse"), "{:?}", session.output);
    let mut plain = String::new();
    File::open(path).and_then(|mut file| file.read_to_string(&mut plain)).expect("the source is as it was");
    assert_eq!(plain, "content");
}
