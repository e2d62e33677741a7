//! `--follow-fork no`: the program is served, and what it starts in other processes is not.

use headwater_tests::harness::{Fixture, Headwater, Mechanism, Program, headwater_binary, no_second_namespace};

/// Prints whether this process is audited, and by what it was started.
const CHILD: &str = r#"case "$LD_AUDIT" in *headwater-audit*) echo "$1 audited" ;; *) echo "$1 plain" ;; esac"#;

fn fixture() -> (Fixture, String) {
    let fixture = Fixture::new("follow");
    fixture.file("data", "data\n", 0o644);
    let child = fixture.file("bin/child", format!("#!/bin/sh\n{CHILD}\n"), 0o755).display().to_string();
    (fixture, child)
}

fn run(headwater: Headwater, program: &Program) -> String {
    let session = headwater.run(program);
    assert_eq!((session.output.status, session.messages.as_str()), (0, ""), "{:?}", session.output);
    session.assert_served();
    session.output.stdout
}

#[test]
fn children_run_without_headwater_however_they_are_started() {
    let (fixture, child) = fixture();
    let python = format!(
        r#"
import os, subprocess, sys
child = {child:?}
bin, name = os.path.split(child)
os.environ["PATH"] = bin + ":" + os.environ["PATH"]
subprocess.run([child, "subprocess"])
subprocess.run([name, "search"])
subprocess.run([child, "vfork"], close_fds=False)
os.waitpid(os.posix_spawn(child, [child, "posix_spawn"], os.environ), 0)
os.waitpid(os.posix_spawnp(name, [name, "posix_spawnp"], os.environ), 0)
for call, argument in ((os.execv, child), (os.execvp, name)):
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        open({data:?}).read()
        call(argument, [argument, call.__name__])
    os.waitpid(pid, 0)
fd = os.open("/bin/sh", os.O_RDONLY)
pid = os.fork()
if pid == 0:
    os.execve(fd, ["sh", child, "fexecve"], os.environ)
os.waitpid(pid, 0)
os.execv(child, [child, "itself"])
"#,
        data = fixture.path("data").display().to_string(),
    );
    let program = Program::new("python3").args(["-c", &python]);
    let starts =
        ["subprocess", "search", "vfork", "posix_spawn", "posix_spawnp", "execv", "execvp", "fexecve", "itself"];
    let expected = |are_audited: bool| -> String {
        let is_audited = |start: &str| are_audited || start == "itself";
        starts
            .iter()
            .map(|start| format!("{start} {}\n", if is_audited(start) { "audited" } else { "plain" }))
            .collect()
    };
    assert_eq!(run(fixture.headwater(), &program), expected(true));
    let unfollowed = fixture.headwater().option("--follow-fork").option("no");
    assert_eq!(run(unfollowed, &program), expected(false));
}

#[test]
fn what_libc_starts_runs_without_headwater() {
    let (fixture, child) = fixture();
    let data = fixture.path("data").display().to_string();
    let python = format!(
        "import os; open({data:?}).read(); os.system({child:?} + ' system'); print(os.popen({child:?} + ' popen').read())"
    );
    let unfollowed = fixture.headwater().option("--follow-fork").option("no");
    let stdout = run(unfollowed, &Program::new("python3").args(["-c", &python]));
    assert_eq!(stdout, "system plain\npopen plain\n\n");
}

/// What a child writes into the scope is seen, though the child announces nothing.
#[test]
fn what_children_change_is_seen() {
    let (fixture, _) = fixture();
    let data = fixture.path("data").display().to_string();
    let script =
        format!("cat {data}; read line <{data}; echo $line; sh -c 'echo new >{data}'; read line <{data}; echo $line");
    let unfollowed = fixture.headwater().option("--follow-fork").option("no");
    assert_eq!(run(unfollowed, &Program::shell(&script)), "data\ndata\nnew\n");
}

#[test]
fn mechanisms_that_all_processes_see_are_refused() {
    let (fixture, _) = fixture();
    for via in ["namespace", "mount"] {
        let run = Program::new(headwater_binary()).args(["run", "--follow-fork", "no", "--via", via, "--shared"]);
        let refused = run.arg(fixture.shared()).args(["--", "true"]).run();
        assert_eq!(refused.status, 125, "{refused:?}");
        assert!(refused.stderr.contains("--follow-fork no needs audit") && refused.stderr.contains("--via audit"));
    }
    let run = Program::new(headwater_binary()).args(["run", "--follow-fork", "no", "--verbose", "--shared"]);
    let auto = run.arg(fixture.shared()).args(["--", "true"]).run();
    // An old loader's audit has to be asked for.
    let (via, why) = match no_second_namespace(Mechanism::Audit) {
        None => ("via audit: --follow-fork no needs audit", ""),
        Some(_) => ("via off: this system's loader", "--follow-fork no needs audit"),
    };
    assert!(auto.stderr.contains(via) && auto.stderr.contains(why), "{auto:?}");
}
