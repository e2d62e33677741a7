//! Writing in a namespace: it reaches the source at once, and all processes of the node see it.

use std::fs;

use headwater_tests::harness::{Fixture, Mechanism, Program};

use headwater_tests::needs_mounts;

/// Runs the script in a copy of the tree without Headwater and in the tree with it, and compares its output and its
/// files.
pub(crate) fn check(fill: impl Fn(&Fixture), script: &str) {
    let (plain, ours) = (Fixture::new("wplain"), Fixture::new("wns"));
    fill(&plain);
    fill(&ours);
    let program = |fixture: &Fixture| {
        Program::new("sh")
            .args(["-c", &format!("cd \"$0/tree\" && {{ {script}; }}")])
            .arg(fixture.shared())
            .env("LC_ALL", "C")
    };
    let expected = program(&plain).run();
    let session = ours.headwater().via(Mechanism::Namespace).run(&program(&ours));
    let without_root = |text: &str, fixture: &Fixture| text.replace(&fixture.shared().display().to_string(), "SHARED");
    assert_eq!(without_root(&session.output.stdout, &ours), without_root(&expected.stdout, &plain), "{session:?}");
    assert_eq!(without_root(&session.output.stderr, &ours), without_root(&expected.stderr, &plain));
    assert_eq!(session.output.status, expected.status);
    session.assert_served();
    let left = |fixture: &Fixture| {
        let script =
            "cd \"$0\" && find . -printf '%p %y %s %m %n %l\\n' | sort; find . -type f | sort | xargs -r cksum";
        Program::new("sh").args(["-c", script]).arg(fixture.shared()).run()
    };
    left(&ours).assert_same(&left(&plain));
}

fn some(fixture: &Fixture) {
    for n in 0..5 {
        fixture.file(&format!("tree/file{n}"), format!("content {n}\n"), 0o644);
        fixture.file(&format!("tree/dir/sub/file{n}"), format!("inner {n}\n"), 0o640);
    }
    fixture.link("dir/sub", "tree/link");
}

#[test]
fn a_shells_everyday_changes() {
    needs_mounts!();
    check(
        some,
        "cat file0 link/file1; ls; echo new > new; cat new; ls; echo more >> file0; cat file0; mv file1 moved; \
         cat file1; cat moved; mkdir -p a/b/c; echo deep > a/b/c/deep; cat a/b/c/deep; ln -s a/b l; cat l/c/deep; \
         rm l; ls l; mv dir renamed; cat dir/sub/file0; cat renamed/sub/file0; ls renamed/sub; ln file2 hard; \
         stat -c %h file2; rm -r renamed a; ls -R; chmod 600 file3; stat -c '%a %s' file3; touch -d @1000 file3; \
         stat -c %Y file3; truncate -s 3 file3; cat file3; : > file4; wc -c file4; mkfifo fifo; test -p fifo && echo fifo",
    );
}

#[test]
fn appending_truncating_and_both_ends_open() {
    needs_mounts!();
    check(
        some,
        "exec 3>> file0 4< file0; echo one >&3; echo two >> file0; echo three >&3; cat <&4; cat file0; \
         exec 5<> file1; echo XY >&5; cat <&5; cat file1; exec 6> file2; echo fresh >&6; cat file2; \
         dd if=/dev/zero of=file3 bs=1 count=3 seek=2 conv=notrunc status=none; od -c file3; \
         rm file4; exec 7> file4; echo again >&7; cat file4; rm file4; echo gone >&7; ls",
    );
}

#[test]
fn what_was_cached_before_a_change_is_not_shown_after() {
    needs_mounts!();
    check(
        some,
        "for n in 1 2 3; do cat file0; ls -l file0 | wc -l; stat -c %s file0; echo $n > file0; done; cat file0; \
         test -e absent || echo absent; echo x > absent; cat absent; ls; rm absent; test -e absent || echo absent; \
         readlink link; rm link; ln -s elsewhere link; readlink link; mv file1 file2; cat file2; stat -c %s file2; \
         for n in 1 2 3; do echo $n > tmp; mv tmp file3; cat file3; done; ls dir/sub; rmdir dir 2>&1; ls dir",
    );
}

#[test]
fn tools_that_write_trees() {
    needs_mounts!();
    check(
        some,
        "tar cf all.tar dir file*; mkdir t; tar xf all.tar -C t; diff -r dir t/dir && echo alike; cp -a dir copy; \
         diff -r dir copy && echo alike; sed -i s/content/CONTENT/ file*; cat file*; sort -o file0 file0; \
         find . -name 'file*' -newer link | wc -l; find . -type f -delete; find . | sort",
    );
    if headwater_tests::harness::has_program("git") {
        check(
            some,
            "export GIT_CONFIG_GLOBAL=/dev/null GIT_AUTHOR_DATE='1 +0000' GIT_COMMITTER_DATE='1 +0000'; \
             git -c init.defaultBranch=m init -q . && git add . && git -c user.name=a -c user.email=b commit -qm one && \
             git rev-parse HEAD; echo x >> file0; git status --short; git checkout -q file0; git status --short; \
             git branch b; git mv file1 file9; git -c user.name=a -c user.email=b commit -qm two; git log --oneline | wc -l; \
             git fsck 2>&1; rm -rf .git",
        );
    }
}

#[test]
fn compiling_in_the_scope() {
    needs_mounts!();
    let fixture = Fixture::new("compile");
    fixture.file("src/one.c", "int one(void) { return 1; }\n", 0o644);
    fixture.file(
        "src/main.c",
        "#include <stdio.h>\nint one(void);\nint main(void) { printf(\"%d\\n\", one()); }\n",
        0o644,
    );
    let script = format!(
        "cd {}/src && for n in 1 2; do cc -c one.c && cc -c main.c && cc -o app main.o one.o && ./app; \
         sed -i 's/return 1/return 2/' one.c; done; ls",
        fixture.shared().display()
    );
    let session = fixture.headwater().via(Mechanism::Namespace).run(&Program::shell(&script));
    assert_eq!(session.output.stdout, "1\n2\napp\nmain.c\nmain.o\none.c\none.o\n", "{:?}", session.output);
    assert!(fs::metadata(fixture.path("src/app")).is_ok());
}

#[test]
fn what_one_node_writes_another_sees() {
    needs_mounts!();
    let fixture = Fixture::new("wnodes");
    fixture.file("dir/file", "old\n", 0o644);
    let meeting = fixture.outside("").display().to_string();
    let script = format!(
        "cd {}; cat dir/file; ls dir; : > {meeting}/ready$HEADWATER_NODE; \
         if test $HEADWATER_NODE = 0; then while ! test -e {meeting}/ready1; do sleep 0.02; done; \
         echo new > dir/file; echo made > dir/made; rm -f dir/none; sleep 1; : > {meeting}/written; \
         else while ! test -e {meeting}/written; do sleep 0.02; done; cat dir/file dir/made; ls dir; fi",
        fixture.shared().display()
    );
    let session = fixture.headwater().via(Mechanism::Namespace).on(2, 1).run(&Program::shell(&script));
    assert_eq!(session.output.stdout.matches("old\n").count(), 2, "{:?}", session.output);
    assert!(session.output.stdout.contains("new\nmade\nfile\nmade\n"), "{:?}", session.output);
}

#[test]
fn excluded_directories_are_those_of_the_source() {
    needs_mounts!();
    let fixture = Fixture::new("excluded");
    fixture.file("in/file", "in\n", 0o644);
    fixture.file("in/out/file", "out\n", 0o644);
    let script = format!(
        "cd {}; cat in/file in/out/file; stat -f -c %T in/file; stat -f -c %T in/out/file; echo x > in/out/new; cat in/out/new",
        fixture.shared().display()
    );
    let headwater = fixture.headwater().via(Mechanism::Namespace).option("--exclude").option(fixture.path("in/out"));
    let session = headwater.run(&Program::shell(&script));
    let types: Vec<&str> = session.output.stdout.lines().skip(2).take(2).collect();
    assert!(types[0].starts_with("fuse") && !types[1].starts_with("fuse"), "{:?}", session.output);
    assert!(session.output.stdout.ends_with("x\n"), "{:?}", session.output);
}
