//! Starting programs: permissions and their exact errors, scripts, interpreters, search along PATH.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use headwater_tests::harness::{Fixture, Mechanism, Program, is_root, skipped, user};

/// `bin` with one of every kind of file that can or can't be started, and `app`, which tries them.
fn fixture() -> (Fixture, Program) {
    let fixture = Fixture::new("exec");
    let tool = fs::read(fixture.build("tool.c", "bin/tool", &[])).expect("just built");
    let bin = fixture.path("bin").display().to_string();
    let file = |name: &str, content: &[u8], mode: u32| drop(fixture.file(&format!("bin/{name}"), content, mode));
    let script = |name: &str, line: &str| file(name, format!("{line}\necho script $0 \"$@\"\n").as_bytes(), 0o755);
    script("script", "#!/bin/sh");
    script("script-option", &format!("#!  {bin}/tool  an option "));
    script("script-nested", &format!("#!{bin}/script"));
    script("script-bad", "#!/no/such/interpreter");
    script("script-none", "#!");
    script("script-crlf", "#!/bin/sh\r");
    script("script-env", "#!/usr/bin/env tool");
    script("script-dir", &format!("#!{bin}"));
    script("script-long", &format!("#!/bin/sh {}", "x".repeat(300)));
    file("readable", &tool, 0o444);
    file("executable", &tool, 0o111);
    file("unreadable", b"#!/bin/sh\necho unreadable\n", 0o311);
    file("neither", &tool, 0o000);
    file("text", b"echo text $0\n", 0o755);
    file("empty", b"", 0o755);
    file("truncated", b"\x7fELF\nexit 3\n", 0o755);
    file("directory/tool", &tool, 0o755);
    file("first/shadowed", &tool, 0o644);
    file("second/shadowed", &tool, 0o755);
    fixture.link("directory/../tool", "bin/link");
    fixture.link("nowhere", "bin/dangling");
    fixture.link("loop", "bin/loop");
    let app = fixture.build("exec.c", "app", &[]);
    (fixture, Program::new(app).arg(bin))
}

pub fn every_file_by_every_exec_call(via: Mechanism) {
    let (fixture, program) = fixture();
    fixture.headwater().via(via).same_output(&program);
}

pub fn every_file_by_every_exec_call_for_an_ordinary_user(via: Mechanism) {
    if !is_root() {
        return skipped("another user's permissions need root");
    }
    let (fixture, program) = fixture();
    if via.is_mounted() {
        // An ordinary user's daemon can't read what its user may execute and not read.
        for name in ["executable", "unreadable"] {
            fs::set_permissions(fixture.path("bin").join(name), fs::Permissions::from_mode(0o755))
                .expect("an own file");
        }
    }
    fixture.headwater().via(via).behind(&fixture.commands_of(&user::ORDINARY)).same_output(&program);
}

pub fn the_program_itself_may_be_anything(via: Mechanism) {
    let (fixture, _) = fixture();
    for name in ["tool", "script", "script-option", "script-nested", "executable", "link"] {
        fixture.headwater().via(via).same_output(&Program::new(fixture.path("bin").join(name)).args(["a", "", "b c"]));
    }
}

#[test]
fn what_cannot_be_started_has_a_shells_status() {
    let (fixture, _) = fixture();
    for (name, status) in
        [("absent", 127), ("readable", 126), ("directory", 126), ("script-bad", 127), ("dangling", 127)]
    {
        let session = fixture.headwater().run(&Program::new(fixture.path("bin").join(name)));
        assert_eq!(session.output.status, status, "{name}: {:?}", session.output);
        assert!(session.messages.contains(name), "the message names the program: {session:?}");
    }
    assert_eq!(fixture.headwater().run(&Program::new("no-such-program-anywhere")).output.status, 127);
}

#[test]
fn set_user_id_programs_run_as_their_owner() {
    if !is_root() {
        return skipped("a set-user-ID program needs root to make it");
    }
    let fixture = Fixture::new("setuid");
    let tool = fixture.build("tool.c", "bin/tool", &[]);
    fs::set_permissions(&tool, fs::Permissions::from_mode(0o4755)).expect("an own file");
    let app = fixture.build("loader.c", "bin/app", &[]);
    let start = ["exec", "vfork", "spawn"].map(|verb| format!("{verb}={}", tool.display()));
    let program = Program::new(app).args(start.iter().flat_map(|verb| [verb.as_str(), "x"]));
    let session = fixture.headwater().behind(&user::NOBODY).same_output(&program);
    assert_eq!(session.output.stdout.matches("euid 0").count(), 3, "{:?}", session.output);
    let direct = fixture.headwater().behind(&user::NOBODY).same_output(&Program::new(&tool).behind(["env"]));
    assert!(direct.output.stdout.contains("uid 65534 euid 0"), "{:?}", direct.output);
}

pub fn what_may_not_be_opened_stays_so(via: Mechanism) {
    if !is_root() {
        return skipped("another user's permissions need root");
    }
    let fixture = Fixture::new("eacces");
    fixture.library("lib/libx.so", "x", &[]);
    fixture.library("closed/libx.so", "closed", &[]);
    fixture.library("listless/libx.so", "listless", &[]);
    fixture.file("lib/plain", "plain", 0o600);
    fs::set_permissions(fixture.path("lib/libx.so"), fs::Permissions::from_mode(0o700)).expect("an own file");
    fs::set_permissions(fixture.path("closed"), fs::Permissions::from_mode(0o700)).expect("an own directory");
    fs::set_permissions(fixture.path("listless"), fs::Permissions::from_mode(0o711)).expect("an own directory");
    let app = Program::new(fixture.build("loader.c", "bin/app", &[]));
    let paths = ["lib/libx.so", "closed/libx.so", "closed/none.so", "listless/libx.so", "listless/none.so"];
    let verbs = paths.map(|path| format!("open={}", fixture.path(path).display()));
    let cat = format!(
        "cat {0}/lib/plain {0}/closed/x {0}/listless/libx.so | cksum; ls {0}/listless {0}/closed",
        fixture.shared().display()
    );
    fixture
        .headwater()
        .via(via)
        .behind(&fixture.commands_of(&user::ORDINARY))
        .same_output(&app.args(verbs).args(["call=x", "objects"]));
    fixture.headwater().via(via).behind(&fixture.commands_of(&user::ORDINARY)).same_output(&Program::shell(&cat));
}

/// A script whose interpreter is a script whose interpreter is a program of the scope, and each of them starts the next
/// by another call.
pub fn a_chain_of_interpreters(via: Mechanism) {
    let fixture = Fixture::new("chain");
    let tool = fixture.build("tool.c", "bin/tool", &[]).display().to_string();
    let inner = fixture.file("bin/inner", format!("#!{tool} inner option\n"), 0o755).display().to_string();
    let outer = fixture.file("bin/outer", format!("#!{inner}\n"), 0o755).display().to_string();
    fixture.file(
        "bin/starter",
        format!("#!/bin/sh\n\"{outer}\" a; env -i \"{outer}\" b; (exec {inner} c); exec {tool} d\n"),
        0o755,
    );
    fixture.link("starter", "bin/alias");
    for name in ["inner", "outer", "starter", "alias"] {
        fixture.headwater().via(via).same_output(&Program::new(fixture.path("bin").join(name)).args(["x", "y z"]));
    }
    fixture.headwater().via(via).same_output(&Program::new("bin/alias").in_dir(fixture.shared()));
}
