//! `--numa-replicas`: processes map their own memory domain's copies, with the same results as without.
//!
//! They run `target/dist/bin/headwater`; `cargo xtask dist` makes it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use headwater_tests::harness::{Fixture, Headwater, Mechanism, Program, is_root, skipped};

/// The kernel's list of memory domains.
const DOMAINS: &str = "/sys/devices/system/node";

/// A program with libraries that it is linked with and others that it opens.
fn prepare(purpose: &str) -> (Fixture, PathBuf) {
    let fixture = Fixture::new(purpose);
    fixture.library("lib/libdep.so", "dep", &[]);
    fixture.library("lib/libx.so", "x", &["-L{shared}/lib", "-ldep", "-Wl,-rpath,$ORIGIN"]);
    fixture.library("lib/liblater.so", "later", &[]);
    fixture.link("lib", "alias");
    fixture.link("liblater.so", "lib/libother.so");
    let link = ["-Wl,--no-as-needed", "-L{shared}/lib", "-lx", "-Wl,-rpath,$ORIGIN/../alias"];
    let app = fixture.build("loader.c", "bin/app", &link);
    (fixture, app)
}

/// The domains with processors, and one of these.
fn domains() -> Vec<(u32, String)> {
    let cpus = |number: u32| fs::read_to_string(format!("{DOMAINS}/node{number}/cpulist")).ok();
    let first = |list: String| Some(list.trim().split(['-', ',']).next()?.to_owned()).filter(|cpu| !cpu.is_empty());
    (0..64).filter_map(|number| Some((number, first(cpus(number)?)?))).collect()
}

/// Sessions on a machine that seems to have a second domain, in which the first copies are; `None` where a process
/// can't be shown that.
fn with_a_second_domain(fixture: &Fixture) -> Option<Headwater> {
    let listed = fixture.outside("domains");
    for (number, free) in [(0, 1 << 28), (1, 1 << 29)] {
        let node = listed.join(format!("node{number}"));
        fs::create_dir_all(&node).expect("an own directory");
        fs::write(node.join("cpulist"), "0-1023\n").expect("an own directory");
        let meminfo = format!("Node {number} MemTotal: {} kB\nNode {number} MemFree: {free} kB\n", 1 << 30);
        fs::write(node.join("meminfo"), meminfo).expect("an own directory");
    }
    let mount = format!("mount --bind {} {DOMAINS} && exec \"$0\" \"$@\"", listed.display());
    let prefix = ["unshare", "-m", "sh", "-c", &mount];
    let can_mount = Command::new(prefix[0]).args(&prefix[1..]).arg("true").output().is_ok_and(|o| o.status.success());
    can_mount.then(|| fixture.headwater().option("--numa-replicas").behind(&prefix))
}

/// Runs `command` until the last line that it printed, in the file `to`, is accepted by `fits`.
fn until(command: &str, fits: &str, to: &Path) -> String {
    format!(
        "tries=0
         until {command} >{} && {fits}; do
             tries=$((tries + 1)); [ $tries -lt 500 ] || exit 9; sleep 0.02
         done\n",
        to.display()
    )
}

#[test]
fn processes_use_copies_of_their_domain_and_see_source_paths() {
    if !is_root() || domains().len() != 1 || domains()[0].0 != 0 {
        return skipped("only root can show a process another domain, on a machine that has one");
    }
    let (fixture, app) = prepare("domains");
    let Some(headwater) = with_a_second_domain(&fixture) else {
        return skipped("nothing can be mounted in a namespace of its own");
    };
    let mapped = fixture.outside("mapped");
    let command = format!("{} open=liblater.so mapped=/shared/", app.display());
    let wait = until(&command, &format!("! grep '^[0-9a-f]*-' {} | grep -qv /root0/", mapped.display()), &mapped);
    let shared = fixture.shared().display().to_string();
    let verbs = [
        "self".into(),
        "execfn".into(),
        "where=dep".into(),
        "objects".into(),
        "links".into(),
        "open=libx.so".into(),
        "origin".into(),
        "open=liblater.so".into(),
        "origin".into(),
        format!("open={shared}/lib/libother.so"),
        format!("open={shared}/alias/liblater.so"),
        format!("open={shared}/bin/../lib/liblater.so"),
        "stat=/proc/self/exe".into(),
        format!("stat={shared}/lib/libx.so"),
        "objects".into(),
        "fork".into(),
        "open=libdep.so".into(),
        format!("exec={}", app.display()),
        "self".into(),
        "objects".into(),
    ];
    let script = format!("[ -z \"$HEADWATER_TABLE\" ] || {{ {wait} }}\n{} {}", app.display(), verbs.join(" "));
    let session = headwater.same(&Program::shell(&script));
    assert!(!session.output.stdout.contains("/dev/shm"), "{:?}", session.output);
    let mapped = fs::read_to_string(mapped).expect("the program has run");
    for name in ["bin/app", "alias/libx.so", "alias/libdep.so", "liblater.so"] {
        let name = name.replace("alias/", "lib/");
        assert!(mapped.lines().any(|line| line.ends_with(&name) && line.contains("/root0/")), "{name}: {mapped}");
    }
    assert!(session.number("memory.replica_bytes") > 0);
}

#[test]
fn pages_are_local_to_the_processs_domain() {
    let domains = domains();
    if domains.len() < 2 {
        return skipped("this machine has one memory domain");
    }
    let (fixture, app) = prepare("local");
    let pages = |number: u32| fixture.outside(&format!("pages.{number}"));
    // A line has the number of pages in each domain: N0=3.
    let wait: String = domains
        .iter()
        .map(|(number, cpu)| {
            let to = pages(*number);
            let command = format!("taskset -c {cpu} {} pages=/shared/lib/", app.display());
            let is_local = format!("! grep -oE ' N[0-9]+=' {} | grep -qv ' N{number}='", to.display());
            until(&command, &is_local, &to)
        })
        .collect();
    let session = fixture.headwater().option("--numa-replicas").run(&Program::shell(&wait));
    assert_eq!(session.output.status, 0, "{:?}", session.output);
    for (number, _) in &domains {
        let pages = fs::read_to_string(pages(*number)).expect("the program has run");
        assert!(pages.contains(&format!(" N{number}=")), "domain {number}: {pages}");
    }
}

#[test]
fn one_domain_or_a_mount_means_no_copies() {
    let (fixture, app) = prepare("none");
    for via in [Mechanism::Audit, Mechanism::Namespace] {
        if let Err(reason) = via.check() {
            skipped(reason);
            continue;
        }
        if via == Mechanism::Audit && domains().len() > 1 {
            skipped("this machine has several memory domains");
            continue;
        }
        let headwater = fixture.headwater().via(via).option("--numa-replicas").option("--verbose");
        let session = headwater.run(&Program::new(&app).arg("objects"));
        let message = match via {
            Mechanism::Audit => "this machine has one memory domain",
            _ => "--numa-replicas does nothing with --via namespace",
        };
        assert!(session.messages.contains(message), "{}", session.messages);
        assert_eq!(session.number("memory.replica_bytes"), 0);
    }
}
