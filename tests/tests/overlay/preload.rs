//! Files that are fetched before the program requests them: from a recorded run, from a list, and from the program
//! itself.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use headwater_tests::counting_fs::{Caching, Mounted};
use headwater_tests::harness::{Fixture, Mechanism, Program, Session, headwater_binary, skipped};
use serde_json::Value;

const NODES: usize = 3;

/// A program that waits for blocks of a file.
const RESIDENT: &str = include_str!("../../programs/resident.py");

/// Waits until every node has fetched all, and becomes the program. `sh -c WAIT sh HEADWATER STORE PROGRAM…`
const WAIT: &str = r#"
headwater=$1 store=$2
shift 2
while env -u LD_AUDIT "$headwater" stats --json --store "$store" | grep -q '"has_ended": *false'; do sleep 0.02; done
exec "$@"
"#;

/// A program, libraries that it is linked with, and one that it opens by itself.
struct Site {
    fixture: Fixture,
    mounted: Mounted,
    store: tempfile::TempDir,
}

impl Site {
    fn new(purpose: &str, ttl_ms: u64) -> Result<Site, String> {
        let fixture = Fixture::new(purpose);
        let rpath = "-Wl,-rpath,$ORIGIN/../a:$ORIGIN/../b";
        fixture.dir("a");
        fixture.library("b/libdep.so", "dep", &[]);
        fixture.library("b/libtop.so", "top", &["-L{shared}/b", "-ldep", rpath]);
        fixture.library("c/libplug.so", "plug", &[]);
        fixture.link("libplug.so", "c/libplug.so.1");
        fixture.file("data/é.txt", "rows\n", 0o644);
        fixture.build("loader.c", "bin/app", &["-Wl,--no-as-needed", "-L{shared}/b", "-ltop", rpath]);
        let mounted = Mounted::new(&fixture.shared(), 1, Caching { ttl_ms, pages: ttl_ms > 0 })?;
        let store = tempfile::Builder::new().prefix("hwt-").tempdir_in("/dev/shm").expect("/dev/shm takes a directory");
        Ok(Site { fixture, mounted, store })
    }

    fn at(&self, name: &str) -> PathBuf {
        self.mounted.path().join(name)
    }

    /// The arguments of the program.
    fn args(&self) -> Vec<String> {
        let at = |name: &str| self.at(name).display().to_string();
        let plug = format!("open={}", at("c/libplug.so.1"));
        vec![at("bin/app"), "call=top".into(), plug, "open=libnope.so".into(), "exec=/bin/cat".into(), at("data/é.txt")]
    }

    fn program(&self) -> Program {
        let args = self.args();
        Program::new(&args[0]).args(&args[1..])
    }

    /// The program, once all is there.
    fn late(&self) -> Program {
        let own = [headwater_binary(), self.store.path().to_path_buf()];
        Program::shell(WAIT).arg("sh").args(own).args(self.args())
    }

    fn record(&self) -> PathBuf {
        let closure = self.fixture.outside("app.closure");
        let (binary, shared, store) = (headwater_binary(), self.mounted.path(), self.store.path());
        let (closure_text, shared, store) = (closure.display(), shared.display(), store.display());
        let options = format!("record -o {closure_text} --via audit --shared {shared} --store {store} --");
        let recording = [binary.to_str().expect("an own path")].into_iter().chain(options.split(' '));
        let recorded = self.program().behind(recording).run();
        assert_eq!((recorded.status, &recorded.stdout), (0, &self.program().run().stdout), "{recorded:?}");
        assert!(recorded.stderr.contains("entries in"), "{recorded:?}");
        closure
    }

    fn run(&mut self, preload: &Path, program: &Program) -> (Session, Value) {
        self.mounted.reset();
        let headwater = headwater_tests::harness::Headwater::new(self.mounted.path()).on(NODES, 1);
        let session = headwater.store(self.store.path()).option("--preload").option(preload).run(program);
        (session, self.mounted.counts())
    }
}

/// Processes write at the same time: only the lines are compared, not their order.
fn lines(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

fn read_once(session: &Session, counts: &Value) {
    for (path, count) in counts["paths"].as_object().expect("counts by path") {
        for kind in ["open", "opendir", "readlink"] {
            assert!(count[kind].as_u64().unwrap_or(0) <= 1, "{kind} of {path}: {counts:#}");
        }
    }
    assert_eq!(counts["total"]["failed_lookup"], 0, "{counts:#}");
    assert_eq!(session.number("clients.fallbacks"), 0, "{:#}", session.summary);
}

#[test]
fn a_recorded_run_asks_for_nothing() {
    let mut site = match Site::new("record", 60_000) {
        Ok(site) => site,
        Err(reason) => return skipped(reason),
    };
    let closure = site.record();
    let text = fs::read_to_string(&closure).expect("it was recorded");
    assert!(text.starts_with("headwater closure 2\n"), "{text}");
    for entry in ["link ", "directory ", "whole ", "data/\\xc3\\xa9.txt"] {
        assert!(text.contains(entry), "{entry} in {text}");
    }
    let plain = site.program().run();
    let late = site.late();
    let (session, counts) = site.run(&closure, &late);
    assert_eq!(lines(&session.output.stdout), lines(&plain.stdout.repeat(NODES)), "{session:#?}");
    assert_eq!(session.messages, "");
    read_once(&session, &counts);
    assert_eq!(session.number("clients.requests"), 0, "{:#}", session.summary);
    assert_eq!(session.number("preload.entries"), text.lines().count() as u64 - 1);
    assert_eq!(session.number("preload.files"), 5, "{:#}", session.summary);
    assert_eq!(session.number("shared_fs.files_read"), 5, "{:#}", session.summary);
}

#[test]
fn what_has_changed_since_is_reported_and_right() {
    let mut site = match Site::new("changed", 0) {
        Ok(site) => site,
        Err(reason) => return skipped(reason),
    };
    let closure = site.record();
    site.fixture.file("data/é.txt", "other rows\n", 0o644);
    let plain = site.program().run();
    assert!(plain.stdout.contains("other rows"), "{plain:?}");
    let late = site.late();
    let (session, counts) = site.run(&closure, &late);
    assert_eq!(lines(&session.output.stdout), lines(&plain.stdout.repeat(NODES)), "{session:#?}");
    read_once(&session, &counts);
    let message = format!("have changed: {}", site.at("data/é.txt").display());
    assert!(
        session.messages.contains(&message) && session.messages.contains("Record the list again"),
        "{}",
        session.messages
    );
    assert_eq!((session.number("preload.changed"), session.number("preload.files")), (1, 4), "{:#}", session.summary);
}

#[test]
fn lists_and_what_is_none() {
    let mut site = match Site::new("list", 60_000) {
        Ok(site) => site,
        Err(reason) => return skipped(reason),
    };
    let (plain, late) = (site.program().run(), site.late());
    let list = site.fixture.outside("list");
    let at = |name: &str| site.at(name).display().to_string();
    let named = ["# mine".into(), at("c/libplug.so.1"), at("data/é.txt"), at("nothing"), "/etc/passwd".into()];
    fs::write(&list, named.join("\n") + "\n").expect("an own directory");
    let (session, counts) = site.run(&list, &late);
    assert_eq!(lines(&session.output.stdout), lines(&plain.stdout.repeat(NODES)), "{session:#?}");
    read_once(&session, &counts);
    assert_eq!((session.number("preload.entries"), session.number("preload.files")), (4, 2), "{:#}", session.summary);
    for (garbage, why) in [
        (&b"headwater closure 2\nwhole /x\n"[..], "line 2 is damaged"),
        (b"headwater closure 1\n", "record it again"),
        (b"\x7fELF\0\0", "neither a closure nor a list"),
    ] {
        fs::write(&list, garbage).expect("an own directory");
        let (session, counts) = site.run(&list, &late);
        assert_eq!(lines(&session.output.stdout), lines(&plain.stdout.repeat(NODES)), "{session:#?}");
        assert!(session.messages.contains(why) && session.messages.contains("warning: "), "{}", session.messages);
        read_once(&session, &counts);
    }
}

#[test]
fn a_programs_libraries_are_found_without_it() {
    let mut site = match Site::new("auto", 60_000) {
        Ok(site) => site,
        Err(reason) => return skipped(reason),
    };
    let (script, shown) = (site.fixture.outside("wait"), site.store.path().display());
    let wait = WAIT.replace(
        "headwater=$1 store=$2\nshift 2",
        &format!("headwater={} store={shown}", headwater_binary().display()),
    );
    fs::write(&script, wait.replace("exec \"$@\"", "")).expect("an own directory");
    let program = Program::new(site.at("bin/app")).arg("exec=/bin/sh").arg(&script);
    for (preload, entries) in [("auto", 3), ("off", 0)] {
        let (session, counts) = site.run(Path::new(preload), &program);
        assert_eq!(session.output.status, 0, "{session:#?}");
        read_once(&session, &counts);
        assert_eq!(session.number("preload.files"), entries, "{:#}", session.summary);
        assert_eq!(session.number("shared_fs.files_read"), 3, "{:#}", session.summary);
    }
}

/// The blocks of a large file are in the kernel's memory before a process reads them, and no others are.
#[test]
fn blocks_are_in_the_kernels_memory() {
    let fixture = Fixture::new("blocks");
    let file = fixture.file("data/large", "", 0o644);
    fs::write(&file, vec![7; 32 << 20]).expect("an own file");
    let now = fs::metadata(&file).expect("an own file");
    let list = fixture.outside("list");
    let version = format!("{} {}.{:09}", now.len(), now.mtime(), now.mtime_nsec());
    let line = format!("blocks {version} 3-4,20 {}", file.display());
    fs::write(&list, format!("headwater closure 2\n{line}\n")).expect("an own directory");
    let program = Program::new("python3").args(["-c", RESIDENT]).arg(&file).args(["3", "4", "20"]);
    for nodes in [1, 2] {
        let headwater = fixture.headwater().via(Mechanism::Namespace).on(nodes, 1);
        let session = headwater.option("--preload").option(&list).run(&program);
        let expected = (3_usize << 20).to_string();
        assert_eq!(lines(&session.output.stdout), vec![expected.as_str(); nodes], "{:?}", session.output);
    }
}

/// Each run leaves what it has used; the next one has it fetched before it asks, but for what has changed.
#[test]
fn the_next_run_fetches_what_the_last_one_used() {
    let mut site = match Site::new("learnt", 0) {
        Ok(site) => site,
        Err(reason) => return skipped(reason),
    };
    let directory = site.fixture.outside("closures");
    let closures = |arguments: &[&str]| {
        let options = ["closures", "--closures", directory.to_str().expect("an own path")];
        Program::new(headwater_binary()).args(options).args(arguments).run()
    };
    let (shared, root) = (site.fixture.shared(), site.mounted.path().to_owned());
    let mounted = &mut site.mounted;
    let mut run = |program: &Program| {
        let headwater = headwater_tests::harness::Headwater::new(mounted.path()).on(NODES, 1);
        mounted.reset();
        let session = headwater.store(site.store.path()).option("--closures").option(&directory).run(program);
        (session, mounted.counts())
    };
    let at = |name: &str| shared.join(name);
    let args = [
        root.join("bin/app").display().to_string(),
        "call=top".into(),
        format!("open={}", root.join("c/libplug.so.1").display()),
        "exec=/bin/cat".into(),
        root.join("data/é.txt").display().to_string(),
    ];
    let program = Program::new(&args[0]).args(&args[1..]);
    let late = Program::shell(WAIT).arg("sh").args([headwater_binary(), site.store.path().to_path_buf()]).args(&args);
    let expected = program.run();
    let (first, _) = run(&program);
    assert_eq!(lines(&first.output.stdout), lines(&expected.stdout.repeat(NODES)), "{:?}", first.output);
    assert_eq!(first.summary["preload"]["from"], args[0].as_str(), "at first, its libraries: {:#}", first.summary);
    let listed = closures(&[]);
    assert!(listed.status == 0 && listed.stdout.contains("app-") && listed.stdout.contains(&args[0]), "{listed:?}");
    assert!(listed.stdout.lines().count() == 2, "{listed:?}");

    let (second, counts) = run(&program);
    assert_eq!(lines(&second.output.stdout), lines(&expected.stdout.repeat(NODES)), "{:?}", second.output);
    let from = second.summary["preload"]["from"].as_str().expect("it was learnt");
    assert!(from.starts_with("an earlier run (app-"), "{from}");
    read_once(&second, &counts);
    assert!(second.number("preload.files") >= 4, "{:#}", second.summary);
    assert_eq!((second.number("preload.changed"), second.number("preload.failed")), (0, 0), "{:#}", second.summary);

    // Another program has a closure of its own.
    let (shell, _) = run(&late);
    assert_eq!(shell.output.status, 0, "{:?}", shell.output);
    assert_eq!(closures(&["list"]).stdout.lines().count(), 3);

    std::fs::write(at("data/é.txt"), "newer rows\n").expect("an own file");
    let changed = program.run();
    let (third, _) = run(&program);
    assert_eq!(lines(&third.output.stdout), lines(&changed.stdout.repeat(NODES)), "{:?}", third.output);
    assert_eq!(third.number("preload.changed"), 1, "{:#}", third.summary);
    assert!(!third.output.stderr.contains("have changed"), "nobody is to record it again: {:?}", third.output);
    let (fourth, _) = run(&program);
    assert_eq!(fourth.number("preload.changed"), 0, "it was learnt anew: {:#}", fourth.summary);

    let name = from.split(['(', ')']).nth(1).expect("it is named");
    let shown = closures(&["show", name]);
    assert!(shown.stdout.contains("libplug.so"), "{shown:?}");
    assert_eq!(closures(&["remove", name]).status, 0);
    assert_eq!(closures(&["show", name]).status, 125, "it is gone");
    assert_eq!((closures(&["remove", "--all"]).status, closures(&[]).stdout.contains("no closures")), (0, true));
}
