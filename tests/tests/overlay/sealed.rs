//! Sealed runs: what was sealed is run, whatever its times, and anything else is an error.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output};

use headwater_tests::harness::{Fixture, Mechanism, headwater_binary, skipped};

const NODES: usize = 3;
/// Larger than what is fetched as a whole.
const LARGE_BYTES: usize = 20 << 20;
const SCRIPT: &str =
    "cat $1/lib/settings\ntail -c 4 $1/data/large\n[ -z \"$2\" ] || cat \"$1/$2\"\n[ -z \"$3\" ] || eval \"$3\"\n";
const FAILURE: i32 = 125;
/// Kills the daemons, or their supervisors with them: what else `headwater run` has started.
const KILL: &str = "for p in $(pgrep -P $PPID -x headwater); do kill -9 $p; done; sleep 0.3";

struct Site {
    fixture: Fixture,
    via: Mechanism,
}

impl Site {
    fn new(purpose: &str, via: Mechanism) -> Site {
        let fixture = Fixture::new(purpose);
        fixture.file("lib/settings", "one\n", 0o644);
        fixture.file("lib/other", "two\n", 0o644);
        fixture.file("data/large", vec![b'x'; LARGE_BYTES], 0o644);
        fixture.file("bin/start", SCRIPT, 0o755);
        Site { fixture, via }
    }

    fn seal(&self) -> PathBuf {
        self.fixture.outside("app.seal")
    }

    /// Runs a command of `headwater`, with a home directory of its own.
    fn headwater(&self, arguments: &[&str]) -> Output {
        let home = self.fixture.outside("home");
        let mut command = Command::new(headwater_binary());
        command.args(arguments).env("HOME", home).env_remove("XDG_CONFIG_HOME").env_remove("HEADWATER_CLOSURES");
        command.output().expect("headwater is built")
    }

    /// Runs the script by `command`, with arguments.
    fn start(&self, command: &[&str], arguments: &[&str]) -> Output {
        let (shared, start) = (self.fixture.shared(), self.fixture.path("bin/start"));
        let [shared, start] = [&shared, &start].map(|path| path.to_str().expect("an own path"));
        let options = ["--via", self.via.name(), "--shared", shared, "--", "/bin/sh", start, shared];
        self.headwater(&[command, &options, arguments].concat())
    }

    fn run(&self, options: &[&str], arguments: &[&str]) -> Output {
        let (nodes, seal) = (NODES.to_string(), self.seal());
        let sealed = ["run", "--nodes", &nodes, "--sealed", seal.to_str().expect("an own path")];
        self.start(&[&sealed, options].concat(), arguments)
    }

    fn make_seal(&self) {
        let (closure, seal) = (self.fixture.outside("app.closure"), self.seal());
        let [closure, seal] = [&closure, &seal].map(|path| path.to_str().expect("an own path"));
        let recorded = self.start(&["record", "-o", closure], &[]);
        assert!(recorded.status.success(), "{recorded:?}");
        let sealed = self.headwater(&["seal", "--whole", "-o", seal, closure]);
        assert!(sealed.status.success(), "{sealed:?}");
        assert!(String::from_utf8_lossy(&sealed.stdout).contains("signed by"), "{sealed:?}");
    }

    fn runs(&self) {
        let output = self.run(&[], &[]);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && !stderr.contains("is not"), "{output:?}");
        assert_eq!(output.stdout.len(), "one\nxxxx".len() * NODES, "{output:?}");
    }

    /// The run fails for this reason; `starts`: only after the program has run.
    fn refuses(&self, output: &Output, why: &str, starts: bool) {
        assert_eq!(output.status.code(), Some(FAILURE), "{output:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains(why), "{why}: {output:?}");
        assert_eq!(!output.stdout.is_empty(), starts, "{output:?}");
    }
}

fn check(via: Mechanism) {
    if let Err(reason) = via.check() {
        return skipped(reason);
    }
    let site = Site::new("sealed", via);
    site.make_seal();
    site.runs();
    // The same bytes at another time, as after a copy.
    let (settings, large) = (site.fixture.path("lib/settings"), site.fixture.path("data/large"));
    fs::write(&settings, "one\n").unwrap();
    site.runs();
    // Another name in a directory alone changes nothing.
    site.fixture.file("lib/added", "three\n", 0o644);
    let noted = site.run(&[], &[]);
    assert!(noted.status.success() && String::from_utf8_lossy(&noted.stderr).contains("lib: added"), "{noted:?}");
    site.refuses(&site.run(&[], &["lib/added"]), "lib/added was used, and is not sealed", true);
    site.refuses(&site.run(&[], &["lib/other"]), "lib/other was used, and is not sealed", true);
    let gone = site.start(&["run", "--sealed", site.seal().to_str().unwrap()], &["lib/other", "rm $1/lib/other"]);
    site.refuses(&gone, "lib/other was used, and is not sealed", true);
    site.fixture.file("lib/other", "two\n", 0o644);
    site.refuses(&site.run(&[], &["", KILL]), "3 of 3 nodes don't know all that was used", true);
    let change = format!("sleep 0.1; echo two >{}", large.display());
    site.refuses(&site.run(&[], &["", &change]), "data/large changed while the program ran", true);
    site.refuses(&site.run(&[], &[]), "data/large has another content", false);
    let mut file = fs::File::create(&large).unwrap();
    file.write_all(&vec![b'x'; LARGE_BYTES]).unwrap();
    site.runs();
    fs::remove_file(&settings).unwrap();
    site.refuses(&site.run(&[], &[]), "lib/settings is missing", false);
}

#[test]
fn only_what_was_sealed_by_audit() {
    check(Mechanism::Audit);
}

#[test]
fn only_what_was_sealed_by_namespace() {
    check(Mechanism::Namespace);
}

#[test]
fn only_by_those_who_are_accepted() {
    let site = Site::new("signers", Mechanism::Audit);
    site.make_seal();
    let seal = fs::read_to_string(site.seal()).unwrap();
    let signer = seal.lines().last().unwrap().split(' ').nth(1).unwrap().to_owned();
    // The seal of another user.
    fs::remove_dir_all(site.fixture.outside("home")).unwrap();
    site.refuses(&site.run(&[], &[]), &format!("signed by {signer}, which you have not accepted"), false);
    let signers = site.fixture.outside("signers");
    fs::write(&signers, format!("{signer} our operators\n")).unwrap();
    let accepted = site.run(&["--signers", signers.to_str().unwrap()], &[]);
    assert!(accepted.status.success(), "{accepted:?}");
    fs::write(site.seal(), seal.replacen("whole ", "library ", 1)).unwrap();
    site.refuses(&site.run(&["--signers", signers.to_str().unwrap()], &[]), "is not a seal", false);
    fs::write(site.seal(), seal.replacen("# ", "# my ", 1)).unwrap();
    site.refuses(&site.run(&["--signers", signers.to_str().unwrap()], &[]), "changed after it had been signed", false);
}

#[test]
fn large_files_in_part() {
    if let Err(reason) = Mechanism::Namespace.check() {
        return skipped(reason);
    }
    let mut site = Site::new("parts", Mechanism::Namespace);
    let (closure, seal) = (site.fixture.outside("app.closure"), site.seal());
    let [closure, seal] = [&closure, &seal].map(|path| path.to_str().expect("an own path"));
    assert!(site.start(&["record", "-o", closure], &[]).status.success());
    assert!(site.headwater(&["seal", "-o", seal, closure]).status.success());
    site.runs();
    site.via = Mechanism::Audit;
    site.refuses(&site.run(&[], &[]), "data/large was used beyond what is sealed of it", true);
}

#[test]
fn sessions_of_several_launches_are_not_sealed() {
    let mut command = Command::new(headwater_binary());
    let output = command.arg("start").env("HEADWATER_SEALED", "a.seal").output().expect("headwater is built");
    assert_eq!(output.status.code(), Some(FAILURE), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("can't be sealed"), "{output:?}");
    let site = Site::new("recorded", Mechanism::Audit);
    let closure = site.fixture.outside("app.closure");
    let sealed = ["record", "-o", closure.to_str().unwrap(), "--sealed", "a.seal"];
    site.refuses(&site.start(&sealed, &[]), "a sealed run is not recorded", false);
}

#[test]
fn never_without_headwater() {
    let site = Site::new("served", Mechanism::Audit);
    site.make_seal();
    let seal = site.seal();
    let sealed = ["run", "--sealed", seal.to_str().unwrap(), "--via", "off", "--", "/bin/echo", "x"];
    site.refuses(&site.headwater(&sealed), "a sealed run needs Headwater", false);
}
