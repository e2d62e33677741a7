//! Changes by programs that are not audited are seen by processes that start after them.

use std::os::unix::fs::PermissionsExt;

use headwater_tests::harness::{Fixture, Program, has_program, is_root, skipped};

/// The initial files, and the command that reads them all, so that the session knows all of it.
fn prepare(fixture: &Fixture) -> String {
    for name in ["overwritten", "longer", "replaced", "removed", "moved", "mode", "v1/text", "v2/text"] {
        fixture.file(&format!("pkg/{name}"), format!("first {name}\n"), 0o666);
    }
    let permissions = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(fixture.path("pkg"), permissions).expect("an own directory");
    fixture.link("v1", "pkg/current");
    "for f in new overwritten longer replaced removed current/text made/inner moved there; do \
       test -e $f && echo $f exists; cat $f; done 2>&1; ls . made 2>&1; stat -c '%a %s' mode overwritten; \
       readlink current; readlink -f current/text; echo *"
        .into()
}

/// Runs `script` in the directory without Headwater and with it, each from the same start.
fn check(fixture: &Fixture, script: &str) {
    let pkg = fixture.path("pkg").display().to_string();
    let again = |to: &str, from: &str| drop(Program::shell(&format!("rm -rf {to}; cp -a {from} {to}")).run());
    let program = Program::shell(&format!("cd {pkg}; {script}"));
    let saved = format!("{pkg}.saved");
    if !std::path::Path::new(&saved).exists() {
        again(&saved, &pkg);
    }
    again(&pkg, &saved);
    let plain = program.run();
    again(&pkg, &saved);
    let session = fixture.headwater().run(&program);
    session.output.assert_same(&plain);
    session.assert_served();
}

#[test]
fn what_they_change_is_seen_however_they_are_started() {
    let fixture = Fixture::new("unaudited");
    let script = prepare(&fixture);
    let writer = fixture.build("audit/writer.c", "bin/writer", &["-static"]).display().to_string();
    let dynamic = fixture.build("audit/writer.c", "bin/dynamic", &[]).display().to_string();
    fixture.file("bin/interpreted", format!("#!{writer}\n"), 0o755);
    let mut commands = vec![
        format!("{writer} ."),
        format!("cp {writer} ../../writer; ../../writer ."),
        // The interpreter's last argument is the script, which is no directory.
        format!("{dir}/interpreted; {writer} .", dir = fixture.path("bin").display()),
        format!("env -u LD_AUDIT {dynamic} ."),
        format!("env -i {dynamic} ."),
        format!("env -i sh -c '{dynamic} .'"),
        format!("LD_AUDIT=/none.so {dynamic} . 2> /dev/null"),
        format!("sh -c 'exec {writer} .'"),
    ];
    if is_root() {
        // Another user's loader complains of the audit library, which it can't read.
        let unprivileged = "setpriv --reuid=65534 --regid=65534 --clear-groups";
        commands.push(format!("{unprivileged} {dynamic} . 2> /dev/null"));
    }
    if has_program("python3") {
        for call in [
            format!("subprocess.run(['{writer}', '.'])"),
            format!("subprocess.run(['{dynamic}', '.'], env={{}})"),
            format!("os.waitpid(os.posix_spawn('{writer}', ['w', '.'], os.environ), 0)"),
            format!("os.waitpid(os.posix_spawnp('{dynamic}', ['w', '.'], {{}}), 0)"),
            format!("os.system('{writer} .')"),
            format!("os.environ.pop('LD_AUDIT', 0), os.system('{dynamic} .')"),
            format!("os.execl('{writer}', 'w', '.')"),
            "os.geteuid() or os.setuid(65534); os.rename('v2', 'new'); open('longer', 'a').write('x')".into(),
        ] {
            commands.push(format!("python3 -c \"import os, subprocess; {call}\""));
        }
    }
    for command in commands {
        check(&fixture, &format!("{script}; {command}; {script}; ./new"));
    }
}

#[test]
fn what_a_running_process_reads_afterwards_is_new() {
    let fixture = Fixture::new("unauditedrun");
    let script = prepare(&fixture);
    let writer = fixture.build("audit/writer.c", "bin/writer", &["-static"]).display().to_string();
    let python = format!(
        "import os, subprocess\\nfor i in 0, 1:\\n print(sorted(os.listdir('.')), open('overwritten').read(), \
         open('current/text').read(), os.path.exists('new'), os.stat('longer').st_size, os.path.realpath('current'), \
         [e.name for e in os.scandir('.') if e.is_dir()].sort(), os.access('removed', os.R_OK), flush=True)\\n \
         subprocess.run(['{writer}', '.']) if i == 0 else None"
    );
    check(&fixture, &format!("{script}; printf \"{python}\" | python3 -; {script}"));
}

#[test]
fn what_is_open_follows_them_at_the_next_check() {
    if !has_program("python3") {
        return skipped("python3 is not installed");
    }
    let fixture = Fixture::new("unauditedopen");
    prepare(&fixture);
    let script = "
import mmap, os, subprocess, sys, time
write = lambda: subprocess.run(['sh', '-c', 'echo more >> longer; printf FIRST | dd of=mode conv=notrunc 2> /dev/null'], env={})
if sys.argv[1] == 'waits':
    tail = subprocess.Popen(['tail', '-n', '+1', '-f', 'longer'], stdout=subprocess.PIPE)
    print(tail.stdout.readline()); write(); print(tail.stdout.readline(), flush=True); tail.kill()
else:
    file, fd = open('longer'), os.open('mode', os.O_RDONLY)
    shared = mmap.mmap(fd, 0, mmap.MAP_SHARED, mmap.PROT_READ)
    print(file.read(), os.pread(fd, 5, 0), shared[:5], flush=True); write()
    print(os.stat('longer').st_size, os.stat('mode').st_size)
    seen, until = '', time.monotonic() + 20
    while time.monotonic() < until and not (seen and shared[:5] == b'FIRST'):
        seen += file.read()
    print(seen, os.pread(fd, 5, 0), shared[:5], os.fstat(file.fileno()).st_size)";
    fixture.file("bin/opened.py", script, 0o644);
    let script = fixture.path("bin/opened.py").display().to_string();
    for command in ["checks", "waits"] {
        check(&fixture, &format!("python3 {script} {command}"));
    }
}

#[test]
fn libraries_that_they_make_are_found() {
    let fixture = Fixture::new("unauditedlib");
    let writer = "env -u LD_AUDIT cp";
    fixture.library("lib/libmade.so", "made", &[]);
    fixture.library("lib/libold.so", "old", &[]);
    fixture.library("lib/libnew.so", "new", &["-Wl,-soname,libold.so", "-Dnew=old"]);
    fixture.dir("pkg/lib");
    let lib = fixture.path("lib").display().to_string();
    let load = |name: &str, function: &str| {
        format!(
            "LD_LIBRARY_PATH=lib python3 -c \"import ctypes; f = ctypes.CDLL('{name}').{function}; \
             f.restype = ctypes.c_char_p; print(f())\" 2>&1 | tail -n 1"
        )
    };
    std::fs::copy(fixture.path("lib/libold.so"), fixture.path("pkg/lib/libold.so")).expect("an own file");
    let both = format!("{}; {}", load("libmade.so", "made"), load("libold.so", "old"));
    let renewed = format!("{writer} {lib}/libnew.so lib/next && env -u LD_AUDIT mv lib/next lib/libold.so");
    check(&fixture, &format!("{both}; {writer} {lib}/libmade.so lib; {renewed}; {both}"));
}

#[test]
fn a_core_file_is_seen() {
    let pattern = std::fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap_or_default();
    if pattern.starts_with(['|', '/']) {
        return skipped("core files go elsewhere on this machine");
    }
    let fixture = Fixture::new("core");
    prepare(&fixture);
    check(
        &fixture,
        "ls; ls core* 2> /dev/null | wc -l; ulimit -c 100; sh -c 'kill -SEGV $$' 2> /dev/null; ls core* | wc -l",
    );
}

/// As `docs/guide/transparency.md` describes.
#[test]
fn what_a_programs_own_instructions_write_is_not_seen() {
    let fixture = Fixture::new("raw");
    prepare(&fixture);
    let raw = fixture.build("audit/raw.c", "bin/raw", &[]).display().to_string();
    let script = "test -e made && echo made; ls | grep -c made";
    let program = Program::shell(&format!("cd {}; {script}; {raw} made; {script}", fixture.path("pkg").display()));
    let session = fixture.headwater().run(&program);
    assert_eq!(session.output.stdout, "0\n0\n", "{:?}", session.output);
    assert!(fixture.path("pkg/made").exists());
    assert_eq!(fixture.headwater().run(&program).output.stdout, "made\n1\nmade\n1\n", "a later session sees it");
}
