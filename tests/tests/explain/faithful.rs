//! Programs that tracing could break: those that gain privileges, trace others, or have filters of their own.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::{compare, compare_with, compile, headwater, text};

/// An ordinary user.
const USER: u32 = 65534;

fn notes(report: &Value) -> Vec<&str> {
    report["notes"].as_array().unwrap().iter().filter_map(Value::as_str).collect()
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0)
}

#[test]
fn a_set_user_id_program_has_its_privileges() {
    if !is_root() {
        println!("skipped: only root makes files of another user");
        return;
    }
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let source = "#include <stdio.h>\n#include <unistd.h>\n#include <sys/stat.h>\n\
        int main(void) { struct stat s; stat(\"/\", &s); printf(\"%d %d\\n\", geteuid(), getuid()); return 4; }";
    let program = compile(directory.path(), source, "privileged", &[]);
    fs::set_permissions(&program, fs::Permissions::from_mode(0o4755)).unwrap();
    let as_user = |command: &mut Command| {
        command.uid(USER).gid(USER).current_dir("/");
    };
    let mut plain = Command::new(&program);
    as_user(&mut plain);
    if plain.output().unwrap().stdout != b"0 65534\n" {
        println!("skipped: this file system gives no privileges");
        return;
    }
    let script = format!("{0}; echo $?; exec {0}", text(&program));
    let json = directory.path().join("report.json");
    fs::write(&json, "").unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let mut explained = headwater();
    explained.args(["explain", "-q", "--json"]).arg(&json).args(["--", "/bin/sh", "-c", &script]);
    as_user(&mut explained);
    let output = explained.stdin(Stdio::null()).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "0 65534\n4\n0 65534\n", "{output:?}");
    assert_eq!((output.status.code(), &*output.stderr), (Some(4), &b""[..]));
    let report: Value = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
    assert!(notes(&report).iter().any(|note| note.starts_with(text(&program))), "{report:#}");
    // Root keeps privileges of others' files while it is traced, so nothing is left out.
    let report = compare(&["/bin/sh", "-c", text(&program)], |_| {});
    assert!(notes(&report).iter().all(|note| !note.contains("left out")), "{report:#}");
}

const TRACES: &str = "#include <sys/ptrace.h>\n#include <sys/wait.h>\n#include <stdio.h>\n#include <unistd.h>\n\
    #include <signal.h>\n#include <string.h>\n\
    int main(int count, char **arguments) { int attaches = count > 1; pid_t child = fork();\n\
    if (!child) { if (!attaches && ptrace(PTRACE_TRACEME, 0, 0, 0)) _exit(1); raise(SIGSTOP); access(\"/\", 0); _exit(3); }\n\
    int status; waitpid(child, &status, WUNTRACED);\n\
    if (attaches) { if (ptrace(PTRACE_SEIZE, child, 0, 0)) perror(\"seize\"); kill(child, SIGCONT);\n\
    while (waitpid(child, &status, 0) == child && WIFSTOPPED(status)) ptrace(PTRACE_CONT, child, 0, 0); }\n\
    else { printf(\"%d\\n\", WIFSTOPPED(status)); ptrace(PTRACE_CONT, child, 0, 0); waitpid(child, &status, 0); }\n\
    printf(\"%d\\n\", WEXITSTATUS(status)); return 0; }";

#[test]
fn programs_trace_their_children() {
    let directory = tempfile::tempdir().unwrap();
    let program = compile(directory.path(), TRACES, "traces", &[]);
    for arguments in [&[text(&program)][..], &[text(&program), "seize"]] {
        let report = compare_with(&["--exact"], arguments, |_| {});
        assert!(notes(&report).iter().any(|note| note.contains("traces it itself")), "{report:#}");
    }
    // Known tracers need no option.
    for tracer in [&["strace", "-f", "-o", "/dev/null", "/bin/sh", "-c", "/bin/echo traced; exit 5"][..]] {
        if Command::new(tracer[0]).arg("--version").output().is_ok() {
            compare(tracer, |_| {});
        }
    }
}

#[test]
fn a_filter_names_what_it_refuses() {
    if !is_root() {
        println!("skipped: an ordinary user's programs are traced without a filter");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let program = compile(directory.path(), TRACES, "traces", &[]);
    let output = headwater().args(["explain", "-q", "--", text(&program), "seize"]).output().unwrap();
    let lines = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(lines.contains("could not trace another process") && lines.contains("--exact"), "{lines}");
}

#[test]
fn programs_have_filters_of_their_own() {
    let directory = tempfile::tempdir().unwrap();
    let source = "#include <stdio.h>\n#include <errno.h>\n#include <unistd.h>\n#include <stddef.h>\n#include <fcntl.h>\n\
        #include <signal.h>\n#include <sys/prctl.h>\n#include <sys/syscall.h>\n#include <linux/seccomp.h>\n\
        #include <linux/filter.h>\nstatic volatile int caught;\nstatic void handle(int number) { caught++; }\n\
        static void add(int number, unsigned action) { struct sock_filter f[] = {\n\
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),\n\
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1), BPF_STMT(BPF_RET | BPF_K, action),\n\
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)}; struct sock_fprog p = {4, f};\n\
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &p); }\n\
        #define TRY(call) errno = 0, printf(\"%ld %d\\n\", (long)(call) > 0 ? 1L : -1L, errno)\n\
        int main(void) { signal(SIGSYS, handle); prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);\n\
        add(SYS_openat, SECCOMP_RET_ERRNO | EPERM); TRY(open(\"/etc/passwd\", O_RDONLY));\n\
        add(SYS_readlinkat, SECCOMP_RET_TRAP); syscall(SYS_readlinkat, AT_FDCWD, \"/\", 0, 0); printf(\"%d\\n\", caught);\n\
        add(SYS_faccessat, SECCOMP_RET_TRACE); TRY(syscall(SYS_faccessat, AT_FDCWD, \"/\", 0));\n\
        add(SYS_getppid, SECCOMP_RET_TRACE | 77); TRY(syscall(SYS_getppid)); fflush(stdout);\n\
        add(SYS_chdir, SECCOMP_RET_KILL_PROCESS); chdir(\"/\"); return 0; }";
    let program = compile(directory.path(), source, "filters", &["-w"]);
    let source = "#include <sys/prctl.h>\n#include <linux/seccomp.h>\n#include <unistd.h>\n#include <sys/syscall.h>\n\
        int main(void) { int failed = prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);\n\
        write(1, failed ? \"no\\n\" : \"yes\\n\", failed ? 3 : 4); syscall(SYS_exit, 3); }";
    let strict = compile(directory.path(), source, "strict", &["-w"]);
    for options in [&[][..], &["--exact"]] {
        compare_with(options, &[text(&program)], |_| {});
    }
    compare_with(&["--exact"], &[text(&strict)], |_| {});
}

#[test]
fn odd_ends_and_beginnings() {
    let directory = tempfile::tempdir().unwrap();
    let head = "#define _GNU_SOURCE\n#include <pthread.h>\n#include <sched.h>\n#include <signal.h>\n#include <stdio.h>\n\
        #include <stdlib.h>\n#include <string.h>\n#include <unistd.h>\n#include <sys/prctl.h>\n#include <sys/stat.h>\n\
        #include <sys/syscall.h>\n#include <sys/wait.h>\n#include <linux/sched.h>\n";
    let programs: [(&str, &str); 6] = [
        (
            "untraced",
            "int main(void) { for (int i = 0; i < 3; i++) { struct clone_args a; memset(&a, 0, sizeof a);\n\
             a.flags = i == 0 ? CLONE_UNTRACED : i == 1 ? CLONE_UNTRACED | CLONE_VFORK : 0; a.exit_signal = SIGCHLD;\n\
             long child = syscall(SYS_clone3, &a, sizeof a);\n\
             if (!child) { struct stat s; int failed = stat(\"/etc\", &s); execl(\"/bin/true\", \"true\", (char *)0); _exit(7 + failed); }\n\
             int status; waitpid(child, &status, __WALL); printf(\"%d %d\\n\", i, status); }\n\
             int child = syscall(SYS_clone, CLONE_UNTRACED | SIGCHLD, 0, 0, 0, 0);\n\
             if (!child) _exit(access(\"/etc\", 0)); int status; waitpid(child, &status, __WALL); return status; }",
        ),
        (
            "thread_executes",
            "static void *waits(void *none) { for (;;) pause(); }\n\
             static void *executes(void *none) { execl(\"/bin/sh\", \"sh\", \"-c\", \"echo on; exit 7\", (char *)0); return none; }\n\
             int main(void) { pthread_t t; for (int i = 0; i < 4; i++) pthread_create(&t, 0, waits, 0);\n\
             pthread_create(&t, 0, executes, 0); pthread_join(t, 0); return 1; }",
        ),
        (
            "leader_ends",
            "static void *on(void *none) { usleep(50000); access(\"/etc\", 0); puts(\"on\"); exit(6); }\n\
             int main(void) { pthread_t t; pthread_create(&t, 0, on, 0); pthread_exit(0); }",
        ),
        (
            "traps",
            "static volatile int count; static void handle(int number) { count++; }\n\
             int main(void) { signal(SIGTRAP, handle);\n\
             #ifdef __x86_64__\n__asm__(\"int3\");\n#endif\n raise(SIGTRAP); printf(\"%d\\n\", count);\n\
             fflush(stdout); signal(SIGTRAP, SIG_DFL); raise(SIGTRAP); return 0; }",
        ),
        (
            "stops",
            "int main(void) { pid_t child = fork(); if (!child) { raise(SIGSTOP); for (;;) pause(); } int status;\n\
             waitpid(child, &status, WUNTRACED); printf(\"%d %d\\n\", WIFSTOPPED(status), WSTOPSIG(status));\n\
             kill(child, SIGCONT); waitpid(child, &status, WCONTINUED); printf(\"%d\\n\", WIFCONTINUED(status));\n\
             kill(child, SIGTERM); waitpid(child, &status, 0); return WTERMSIG(status); }",
        ),
        (
            "undumpable",
            "int main(void) { prctl(PR_SET_DUMPABLE, 0); struct stat s; printf(\"%d %d\\n\", stat(\"/etc\", &s), prctl(PR_GET_DUMPABLE));\n\
             pid_t child = vfork(); if (!child) { execl(\"/bin/true\", \"true\", (char *)0); _exit(9); } waitpid(child, 0, 0); return 0; }",
        ),
    ];
    for (name, source) in programs {
        let program = compile(directory.path(), &format!("{head}{source}"), name, &["-w", "-pthread"]);
        for options in [&[][..], &["--exact"]] {
            compare_with(options, &[text(&program)], |_| {});
        }
    }
    if Command::new("unshare").args(["-Urm", "true"]).status().is_ok_and(|status| status.success()) {
        compare(&["unshare", "-Urmpf", "--mount-proc", "/bin/sh", "-c", "echo $$; ls /proc/self/ns"], |_| {});
    }
    assert!(Path::new("/bin/true").exists());
}
