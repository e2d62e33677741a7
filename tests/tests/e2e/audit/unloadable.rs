//! Programs that can't load the audit library start without a message.

use std::fs;
use std::time::Duration;

use headwater_tests::harness::{Fixture, Program, headwater_binary, is_root, skipped, wait_until};

/// Runs a script of shell with and without Headwater.
fn check(fixture: &Fixture, script: &str) {
    let program = Program::shell(script);
    let (plain, session) = (program.run(), fixture.headwater().run(&program));
    session.output.assert_same(&plain);
    assert_eq!(plain.status, 0, "{script}: {plain:?}");
}

/// The programs of a shell's that a script executes by each method.
fn programs(fixture: &Fixture) -> String {
    let program = fixture.path("bin/program");
    fs::create_dir_all(program.parent().expect("below")).expect("an own directory");
    fs::copy("/bin/pwd", &program).expect("an own directory");
    let program = program.display().to_string();
    let script = fixture.file("bin/script", format!("#!{program}\n"), 0o755).display().to_string();
    let python = "import os, subprocess, sys; subprocess.run(sys.argv[1:]); os.system(sys.argv[1]); \
                  os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ); os.wait(); os.execv(sys.argv[1], sys.argv[1:])";
    format!("{program} && {script} && python3 -c '{python}' {program} && env {program}")
}

#[test]
fn as_another_user() {
    if !is_root() {
        return skipped("only root becomes another user");
    }
    let fixture = Fixture::new("unloadable-user");
    let programs = programs(&fixture);
    check(&fixture, &format!("setpriv --reuid=65533 --clear-groups sh -c \"{}\"", programs.replace('"', "\\\"")));
}

/// A process that changes its user itself, with and without the right to read what only the first user may.
#[test]
fn by_each_call_as_another_user() {
    if !is_root() {
        return skipped("only root becomes another user");
    }
    let fixture = Fixture::new("unloadable-calls");
    let becomes = fixture.build("audit/becomes.c", "bin/becomes", &[]).display().to_string();
    let inside = fixture.path("bin/true");
    fs::copy("/bin/true", &inside).expect("an own directory");
    for program in [inside, "/bin/true".into()] {
        let program = program.display();
        check(&fixture, &format!("{program}; for how in k d e; do {becomes} $how {program}; done"));
    }
    // It keeps its capabilities until it executes the program.
    let setpriv = "setpriv --reuid 65533 --regid 65533 --clear-groups";
    let program = fixture.path("bin/true").display().to_string();
    check(&fixture, &format!("{program}; {setpriv} {program} && {setpriv} sh -c '{program} && {program}'"));
}

#[test]
fn among_other_mounts() {
    if !is_root() {
        return skipped("only root mounts in a namespace of its own");
    }
    let fixture = Fixture::new("unloadable-mounts");
    let mount = "mount -t tmpfs none /dev/shm";
    check(&fixture, &format!("unshare --mount --propagation private sh -c \"{mount}; {}\"", programs(&fixture)));
}

#[test]
fn for_another_processor() {
    if !cfg!(target_arch = "x86_64") {
        return skipped("the processor has no other mode");
    }
    let fixture = Fixture::new("unloadable-mode");
    let source = headwater_tests::workspace().join("tests/programs/audit/of_32_bits.c");
    let program = fixture.path("of-32-bits");
    let build = Program::new("gcc").args(["-m32", "-nostartfiles", "-nodefaultlibs", "-o"]).arg(&program);
    let built = build.arg(source).arg("-lc").run();
    if built.status != 0 {
        return skipped("gcc builds no programs of 32 bits here");
    }
    let program = program.display().to_string();
    let script = fixture.file("script", format!("#!{program}\n"), 0o755).display().to_string();
    let python = format!("python3 -c 'import os; os.posix_spawn(\"{program}\", [\"p\"], os.environ); os.wait()'");
    check(&fixture, &format!("{program} && {script} && env {program} && {python}"));
    let program = Program::new(program);
    fixture.headwater().run(&program).output.assert_same(&program.run());
}

/// A process that continues when the session has ended executes any program.
#[test]
fn after_the_session() {
    let fixture = Fixture::new("unloadable-later");
    let (out, gone) = (fixture.outside("out"), fixture.outside("gone"));
    assert_eq!(Program::new("mkfifo").arg(&gone).run().status, 0);
    // Nothing is started just as the session ends.
    let all = format!(
        "(read -r _ <{gone}; {}; echo end) >{out} 2>&1 </dev/null &",
        programs(&fixture),
        gone = gone.display(),
        out = out.display()
    );
    let headwater = Program::new(headwater_binary()).args(["run", "--via", "audit", "--shared"]).arg(fixture.shared());
    let output = headwater.args(["--", "bash", "-c", &all]).run();
    assert_eq!(output.status, 0, "{output:?}");
    fs::write(&gone, "").expect("an own directory");
    let printed = || fs::read_to_string(&out).unwrap_or_default();
    assert!(wait_until(Duration::from_secs(60), || printed().ends_with("end\n")), "{}", printed());
    assert!(!printed().contains("ld.so") && printed().lines().count() > 5, "{}", printed());
}
