//! What a job writes below the scope is on the original at once, and the other nodes see it.

use headwater_tests::harness::{Fixture, Mechanism, Output, Program};

fn prepare(fixture: &Fixture) {
    for name in ["existing", "removed", "timed", "short", "appended", "old-dir/inner"] {
        fixture.file(&format!("pkg/{name}"), format!("first {name}\n"), 0o644);
    }
    std::fs::create_dir(fixture.outside("meeting")).expect("an own directory");
}

fn sorted(output: &Output) -> Vec<&str> {
    let mut lines: Vec<&str> = output.stdout.lines().collect();
    lines.sort_unstable();
    lines
}

pub fn one_node_writes_and_another_reads(via: Mechanism) {
    let plain_fixture = Fixture::new("plainwrite");
    prepare(&plain_fixture);
    let app = |fixture: &Fixture| fixture.build("exchange.c", "bin/exchange", &[]);
    let command = |fixture: &Fixture| {
        format!("{} {} {}", app(fixture).display(), fixture.path("pkg").display(), fixture.outside("meeting").display())
    };
    let both = command(&plain_fixture);
    let plain = Program::shell(&format!("{both} 0 & {both} 1; wait")).run();
    assert!(plain.stdout.contains("1 cache cached text"), "{plain:?}");

    let fixture = Fixture::new("write");
    prepare(&fixture);
    let program = Program::new(app(&fixture)).args([fixture.path("pkg"), fixture.outside("meeting")]);
    let session = fixture.headwater().via(via).on(2, 1).run(&program);
    assert_eq!(sorted(&session.output), sorted(&plain), "with Headwater (left) and without (right)");
    assert_eq!(session.output.status, 0);
}

pub fn a_process_sees_what_it_and_its_children_write(via: Mechanism) {
    let fixture = Fixture::new("ownwrite");
    fixture.file("pkg/a", "a\n", 0o644);
    fixture.file("pkg/d/e", "e\n", 0o644);
    let pkg = fixture.path("pkg").display().to_string();
    let steps = [
        "cat a d/e; ls",
        "echo b > b; cat b; ls",
        "echo more >> a; cat a",
        "mv a c; cat a; cat c; ls",
        "mkdir -p x/y; echo z > x/y/z; cat x/y/z; ls x x/y",
        "ln -s x link; cat link/y/z; rm link; cat link/y/z",
        "mv d f; cat d/e; cat f/e; ls",
        "rm -r f x; ls; ls x; test -e f || echo gone",
        "chmod 600 c; stat -c '%a %s' c; touch -d @1000 c; stat -c %Y c; truncate -s 2 c; cat c",
        "cp c copy; sed -i s/m/M/ copy; cat copy; ls; rm c copy b; ls -A",
    ];
    let script = format!("cd {pkg}; {}", steps.join("; "));
    let save = format!("rm -rf {0}.saved; cp -a {0} {0}.saved", pkg);
    let restore = format!("rm -rf {0}; cp -a {0}.saved {0}", pkg);
    Program::shell(&save).run();
    let plain = Program::shell(&script).run();
    assert!(plain.stdout.contains("gone"), "{plain:?}");
    Program::shell(&restore).run();
    fixture.headwater().via(via).run(&Program::shell(&script)).output.assert_same(&plain);
}

pub fn modules_that_a_program_compiles_are_used(via: Mechanism) {
    let fixture = Fixture::new("pycache");
    fixture.file("site/made.py", "value = 1\n", 0o644);
    let script = "import made, os, sys; print(made.value, os.path.exists(made.__cached__)); \
                  sys.stdout.flush(); os.execv(sys.executable, [sys.executable, '-v', '-c', 'import made']) if len(sys.argv) > 1 else None";
    let program = Program::new("python3")
        .args(["-c", script])
        .env("PYTHONDONTWRITEBYTECODE", "")
        .env("PYTHONPATH", fixture.path("site"));
    let session = fixture.headwater().via(via).run(&program.clone());
    assert_eq!(session.output.stdout, "1 True\n", "{:?}", session.output);
    let cache = fixture.path("site/__pycache__");
    assert_eq!(std::fs::read_dir(&cache).expect("Python made it").count(), 1);
    std::fs::remove_dir_all(&cache).expect("an own directory");
    let session = fixture.headwater().via(via).run(&program.arg("again"));
    assert!(
        session.output.stderr.contains("code object from"),
        "the second process uses the cache: {:?}",
        session.output
    );
}
