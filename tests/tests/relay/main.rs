//! Launchers without support for zygotes, with `libheadwater-relay.so`: the programs that they start come from a zygote
//! from the third time on, and nothing else about them changes.

mod slurm;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use headwater_tests::harness::services::environment;
use headwater_tests::harness::{Fixture, Output, Program, has_program, headwater_binary, skipped};

const ATTEMPTS: usize = 4;
/// A shell's status for a command that SIGPIPE has killed.
const KILLED_BY_SIGPIPE: i32 = 128 + 13;

/// A directory with the program `origin`, which prints how it was started.
struct Site {
    fixture: Fixture,
    origin: String,
}

impl Site {
    fn new() -> Site {
        let fixture = Fixture::new("relay");
        let origin = fixture.build("spawn/origin.c", "bin/origin", &[]).display().to_string();
        Site { fixture, origin }
    }

    /// Runs a script in the fixture's directory, in which `$ORIGIN` is the program, which prints its descriptors too:
    /// without the relay, and with it.
    fn both(&self, script: &str) -> (Output, Output) {
        let shell = |script| Program::shell(script).env("ORIGIN", &self.origin).env("ORIGIN_DESCRIPTORS", "1");
        let plain = shell(script).in_dir(self.fixture.shared());
        // The script's own shell is relayed too.
        let relayed = shell(script).env("LD_PRELOAD", library()).in_dir(self.fixture.shared());
        // Hydra's mpiexec dies of SIGPIPE now and then, when ranks end before it has written to them.
        let run = |program: &Program| {
            let output = program.run();
            if output.status == KILLED_BY_SIGPIPE { program.run() } else { output }
        };
        (run(&plain), run(&relayed))
    }

    /// Runs a script with and without the relay. The output must be the same but for the processes' origin, in any
    /// order; at least `zygotes` must come from a zygote. On a busy machine a child that isn't quick enough executes its
    /// program itself, so one run of several must have as many.
    fn check(&self, script: &str, zygotes: usize) {
        let made = (0..ATTEMPTS).map(|_| self.compare(script)).find(|made| *made >= zygotes);
        assert!(made.is_some(), "{script}: in none of {ATTEMPTS} runs do {zygotes} processes come from a zygote");
    }

    /// Returns how many processes came from a zygote.
    fn compare(&self, script: &str) -> usize {
        let (plain, relayed) = self.both(script);
        assert_eq!(relayed.status, plain.status, "{script}: {relayed:?}");
        assert_eq!(relayed.stderr, plain.stderr, "{script}");
        assert_eq!(lines(&relayed, true), lines(&plain, true), "{script}");
        assert!(!plain.stdout.contains("zygote"));
        relayed.stdout.matches("by zygote").count()
    }
}

/// The preloaded libraries.
fn library() -> PathBuf {
    let library = headwater_binary().ancestors().nth(2).map(|prefix| prefix.join("lib/libheadwater-relay.so"));
    library.expect("it is installed")
}

/// How often each line was printed.
fn lines(output: &Output, alike: bool) -> BTreeMap<String, usize> {
    let mut lines = BTreeMap::new();
    for line in output.stdout.lines() {
        let line = if alike { line.replace("by zygote", "by exec") } else { line.to_owned() };
        *lines.entry(line).or_default() += 1;
    }
    lines
}

#[test]
fn xargs() {
    let site = Site::new();
    site.check("seq 1 20 | xargs -n1 $ORIGIN", 18);
    site.check("seq 1 20 | xargs -P4 -n1 $ORIGIN", 18);
    site.check("seq 1 8 | ORIGIN_STATUS=3 xargs -n1 $ORIGIN; echo $?", 6);
}

#[test]
fn make() {
    if !has_program("make") {
        return skipped("make is not installed");
    }
    let site = Site::new();
    let targets: Vec<String> = (0..12).map(|n| format!("t{n}")).collect();
    let makefile = format!("all: {0}\n\t@echo done\n{0}:\n\t@$(ORIGIN) $@\n", targets.join(" "));
    std::fs::write(site.fixture.path("Makefile"), makefile).expect("an own directory");
    site.check("make -s", 10);
    site.check("make -s -j4", 10);
    site.check("ORIGIN_STATUS=2 make -s -k -j4 2>/dev/null; echo $?", 8);
}

/// Makes that share the first one's slots by a pipe, which each passes on.
#[test]
fn make_in_make() {
    if !has_program("make") {
        return skipped("make is not installed");
    }
    let site = Site::new();
    let numbers = "1 2 3 4 5 6 7 8";
    let outer = "all: a b\na b:\n\t@$(MAKE) -s --no-print-directory -f inner N=$@\n";
    site.fixture.file("Makefile", outer, 0o644);
    site.fixture.file("inner", format!("all: {numbers}\n{numbers}:\n\t@$(ORIGIN) $(N)$@\n"), 0o644);
    site.check("make -s -j4", 12);
}

/// GNU parallel starts a shell for each job, which comes from a zygote.
#[test]
fn parallel() {
    let is_gnu = Program::shell("parallel --version 2>/dev/null | grep -q '^GNU'").run().status == 0;
    if !is_gnu {
        return skipped("GNU parallel is not installed");
    }
    let site = Site::new();
    let numbers: Vec<String> = (1..=12).map(|number| number.to_string()).collect();
    let numbers = numbers.join(" ");
    let report = "if grep -q headwater-zygote.so /proc/$$/maps; then echo {} by zygote; else echo {} by exec; fi";
    for shell in ["/bin/bash", "/bin/dash"] {
        let parallel = format!("HOME=$PWD PARALLEL_SHELL={shell} parallel --will-cite");
        site.check(&format!("{parallel} -j4 '{report}' ::: {numbers}"), 10);
        site.check(&format!("{parallel} -k -j4 '$ORIGIN {{}}; exit $(({{}} % 5))' ::: {numbers}; echo $?"), 0);
        site.check(&format!("seq 100 | {parallel} --pipe -N 10 -j3 'cat; {report}' | sort | uniq -c"), 0);
        site.check(&format!("{parallel} -j1 --halt now,fail=1 'exit {{}}' ::: 0 0 0 0 7 0 2>/dev/null; echo $?"), 0);
        site.check(
            &format!("{parallel} --timeout 1 -j2 'sleep {{}}; echo {{}}' ::: 0 0 0 600 2>/dev/null; echo $?"),
            0,
        );
    }
}

#[test]
fn perl() {
    if !has_program("perl") {
        return skipped("perl is not installed");
    }
    let site = Site::new();
    let script = r#"$| = 1; $o = $ENV{ORIGIN};
        for (1..6) { system($o, "list", $_); }
        for (1..6) { system("$o string $_"); }
        for (1..6) { system("$o shell $_; true"); }
        for (1..6) { print `$o ticks $_`; }
        for (1..6) { open(my $f, "-|", $o, "open", $_) or die; print <$f>; close $f; }
        for (1..6) { open(my $f, "|-", "$o into $_ >&2") or die; close $f; }
        for (1..6) { my $p = fork(); if (!$p) { exec $o, "exec", $_; die } waitpid $p, 0; }
        $ENV{ORIGIN_STATUS} = 3; print system("$o status"), "
"; system($o, "x"); print $? >> 8, "
";
        print system("/nowhere"), " ", -e "/nowhere" ? 1 : 0, "
";
        print wait(), "
";"#;
    site.fixture.file("script.pl", script, 0o644);
    site.check("perl script.pl 2>&1", 28);
}

#[test]
fn shells() {
    let site = Site::new();
    for shell in ["bash", "dash"] {
        if !has_program(shell) {
            continue;
        }
        let script = "for i in 1 2 3 4; do $ORIGIN $i; done; (exit 7); echo $?; x=$($ORIGIN inside); echo \"[$x]\"; \
                      $ORIGIN 1 | cat; $ORIGIN 2 | $ORIGIN 3; $ORIGIN 4 & wait; echo $?; cat </dev/null; nowhere; echo $?; \
                      ORIGIN_STATUS=9 $ORIGIN 5; echo $?; cd /; $ORIGIN 6 >/dev/null; echo end";
        site.check(&format!("{shell} -c '{script}' 2>/dev/null"), 6);
        let script = "each() { for i in 1 2 3 4 5; do \"$@\" $i; done; }\n\
                      inside() { x=$($ORIGIN inside $1); echo \"[$x]\"; }; each inside\n\
                      behind() { $ORIGIN behind $1 & }; each behind; wait; echo $?\n\
                      piped() { $ORIGIN piped $1 | tr a a; }; each piped\n\
                      trap 'echo a child' CHLD; $ORIGIN trapped; trap - CHLD\n\
                      exec 5>&1; $ORIGIN five >&5 5>&-; (ulimit -n 40; $ORIGIN limited; ulimit -n)\n\
                      below() { ($ORIGIN below $1; exit 3); echo $?; }; each below\n\
                      (exec $ORIGIN replaced); $ORIGIN & kill -9 $! ; wait $!; echo $?\n";
        site.fixture.file("script.sh", script, 0o644);
        site.check(&format!("ORIGIN_STAY=0 {shell} script.sh 2>/dev/null"), 3);
    }
}

#[test]
fn python() {
    let site = Site::new();
    let script = "import os, subprocess, sys\n\
                  for n in range(6): subprocess.run([sys.argv[1], str(n)], check=True)\n\
                  print(subprocess.run([sys.argv[1], 'captured'], capture_output=True, text=True).stdout.count('captured'))\n\
                  p = subprocess.Popen([sys.argv[1], 'x'], env={**os.environ, 'ORIGIN_STAY': '60000'}, start_new_session=True)\n\
                  p.kill(); print(p.wait())\n\
                  try: subprocess.run(['/nowhere'])\n\
                  except FileNotFoundError as e: print(e)\n\
                  try: os.waitpid(-1, 0)\n\
                  except ChildProcessError as e: print(e)\n";
    std::fs::write(site.fixture.path("script.py"), script).expect("an own directory");
    site.check("python3 -u script.py $ORIGIN", 4);
}

/// A child that waits for its parent before it execs, by a pipe that the parent writes to after fork().
#[test]
fn children_that_wait_for_their_parent() {
    let site = Site::new();
    let waiting = site.fixture.build("spawn/waiting.c", "bin/waiting", &[]);
    site.check(&format!("{} $ORIGIN 12", waiting.display()), 0);
}

/// A child that closes all descriptors before it execs.
#[test]
fn children_that_close_everything() {
    let site = Site::new();
    let closing = site.fixture.build("spawn/waiting.c", "bin/closing", &["-DCLOSE_ALL"]);
    site.check(&format!("{} $ORIGIN 12", closing.display()), 8);
}

/// MPI's local launchers, with a program that needs none of it, and with one that does.
#[test]
fn mpi() {
    let site = Site::new();
    match environment("mpich", &["mpich", "mpi4py"]) {
        Err(reason) => skipped(&reason),
        Ok(directory) => with_mpi(&site, &directory, "mpiexec -n 6"),
    }
    if has_program("mpirun.openmpi") {
        site.check("mpirun.openmpi --allow-run-as-root --oversubscribe -np 6 $ORIGIN rank 2>/dev/null", 0);
    }
}

/// The command that does all this.
#[test]
fn the_command() {
    let site = Site::new();
    let headwater = headwater_binary().display().to_string();
    let run = |script: String| Program::shell(&script).env("ORIGIN", &site.origin).run();
    let from_zygotes = |_| {
        let output = run(format!("seq 1 9 | {headwater} spawn --relay -- xargs -n1 $ORIGIN"));
        assert_eq!((output.status, output.stdout.lines().count()), (0, 9), "{output:?}");
        output.stdout.matches("by zygote").count()
    };
    assert!((0..ATTEMPTS).map(from_zygotes).any(|made| made == 7));
    let output = run(format!("{headwater} spawn --relay -- sh -c 'exit 9'"));
    assert_eq!(output.status, 9, "{output:?}");
    let output = run(format!("{headwater} spawn --relay -- /nowhere/launcher"));
    assert_eq!(output.status, 127);
    assert!(output.stderr.contains("/nowhere/launcher: No such file"), "{output:?}");
    let output = run(format!("{headwater} spawn --relay -n 3 -- true"));
    assert!(output.status == 125 && output.stderr.contains("--relay"), "{output:?}");
}

fn with_mpi(site: &Site, directory: &Path, launcher: &str) {
    let bin = directory.join("bin").display().to_string();
    site.check(&format!("PATH={bin}:$PATH {launcher} $ORIGIN rank"), 0);
    let script = "from mpi4py import MPI; w = MPI.COMM_WORLD; s = w.allreduce(w.rank); w.rank or print(w.size, s)";
    site.check(&format!("PATH={bin}:$PATH {launcher} python3 -c '{script}'"), 0);
}
