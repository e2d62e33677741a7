//! Tools that read whole trees, and one file by calls of their own.

use headwater_tests::harness::{Fixture, Mechanism, Program, has_program, skipped};

fn tree(fixture: &Fixture) {
    for n in 0..40 {
        fixture.file(&format!("tree/d{}/file{n}", n % 4), format!("content {n}\n").repeat(n * 20), 0o644);
    }
    fixture.file("tree/tool", "#!/bin/sh\necho tool\n", 0o755);
    fixture.link("d1/file1", "tree/link");
    std::fs::hard_link(fixture.path("tree/tool"), fixture.path("tree/d2/hard")).expect("an own directory");
    // A change within the second of a copy is, for rsync, none.
    let old = format!("find {} -exec touch -h -d '2020-02-02 02:02:02.5' {{}} +", fixture.path("tree").display());
    assert_eq!(Program::shell(&old).run().status, 0);
}

pub fn archives_and_copies(via: Mechanism) {
    let fixture = Fixture::new("archives");
    tree(&fixture);
    let (tree, copy) = (fixture.path("tree").display().to_string(), fixture.outside("copy").display().to_string());
    let script =
        format!("cd {copy} && find . -printf '%p %y %s %m %T@ %n\\n' | sort; find . -type f | sort | xargs cksum");
    let mut scripts = vec![
        format!("tar cf - -C {tree} . | tar xf - -C {copy}; tar cf - -C {tree} . | cksum | wc -l; {script}"),
        format!("cp -a {tree}/. {copy}; {script}"),
        format!(
            "find {tree} -name 'file1*' -size +1k -exec grep -l 'content 1' {{}} + | sort; find {tree} -newer {tree}/link | wc -l"
        ),
        format!("du -b {tree} | sort; diff -r {tree} {tree} && echo alike; wc {tree}/d*/file* | tail -1"),
    ];
    if has_program("rsync") {
        scripts.push(format!("rsync -ac {tree}/ {copy}; rsync -acni {tree}/ {copy}; {script}"));
    }
    for script in scripts {
        // Both runs start with an empty copy.
        let script = format!("rm -rf {copy}; mkdir {copy}; {script}");
        fixture.headwater().via(via).same_output(&Program::shell(&script).env("LC_ALL", "C"));
    }
}

pub fn a_repository_of_git(via: Mechanism) {
    if !has_program("git") {
        return skipped("git is not installed");
    }
    let fixture = Fixture::new("git");
    tree(&fixture);
    let git = "export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1 HOME=/nonexistent; git -c user.name=a -c user.email=b \
               -c safe.directory='*'";
    let dir = fixture.path("tree").display().to_string();
    let made = Program::shell(&format!("cd {dir}; {git} init -q . && {git} add . && {git} commit -qm one")).run();
    assert_eq!(made.status, 0, "{made:?}");
    fixture.file("tree/d1/file1", "changed\n", 0o644);
    fixture.file("tree/untracked", "new\n", 0o644);
    let script = format!(
        "cd {dir}; {git} status --short; {git} diff | cat; {git} log --format=%s; {git} ls-files -s | cksum; \
         {git} fsck 2>&1; {git} show HEAD:d2/file2 | cksum; {git} status"
    );
    // The first status writes the index anew.
    let program = Program::shell(&script);
    program.run();
    fixture.headwater().via(via).same_output(&program);
    fixture.headwater().via(via).same_output(&program.env("GIT_OPTIONAL_LOCKS", "0"));
}

pub fn a_database_of_sqlite(via: Mechanism) {
    if !has_program("sqlite3") {
        return skipped("sqlite3 is not installed");
    }
    let fixture = Fixture::new("sqlite");
    let database = fixture.dir("data").join("base.db");
    let fill = "create table t (n integer primary key, text text); \
                with recursive c(n) as (select 1 union all select n + 1 from c where n < 20000) \
                insert into t select n, hex(n * 7919) from c; create index i on t (text);";
    let made = Program::new("sqlite3").arg(&database).arg(fill).run();
    assert_eq!(made.status, 0, "{made:?}");
    let query =
        "select count(*), sum(n) from t; select n from t where text = hex(7919 * 1234); pragma integrity_check;";
    fixture.headwater().via(via).same_output(&Program::new("sqlite3").arg("-readonly").arg(&database).arg(query));
    fixture.headwater().via(via).same_output(&Program::new("sqlite3").arg(&database).arg(query));
    let immutable = format!("file:{}?immutable=1", database.display());
    fixture.headwater().via(via).same_output(&Program::new("sqlite3").arg(immutable).arg(query));
}
