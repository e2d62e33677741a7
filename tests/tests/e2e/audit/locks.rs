//! A lock that one process has of a file in the scope excludes others, and its owner reads what they write.

use headwater_tests::harness::{Fixture, Program, has_program, skipped};

/// Runs the program without Headwater and with it, each on a new file.
fn check(fixture: &Fixture, make: impl Fn(), program: &Program) {
    make();
    let plain = program.run();
    make();
    let session = fixture.headwater().run(program);
    session.output.assert_same(&plain);
    session.assert_served();
}

#[test]
fn locks_are_held_on_the_original() {
    let fixture = Fixture::new("locks");
    let app = fixture.build("audit/locks.c", "bin/locks", &[]);
    let make = || drop(fixture.file("data", "first\nand more\n", 0o644));
    check(&fixture, make, &Program::new(app).arg(fixture.path("data")));
}

#[test]
fn a_database_that_is_read_shows_what_another_process_writes() {
    if !has_program("python3") {
        return skipped("python3 is not installed");
    }
    let fixture = Fixture::new("database");
    let base = fixture.path("base.db");
    let make = || {
        let _ = std::fs::remove_file(&base);
        let script = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute('create table t (n)'); \
                      c.execute('insert into t values (1)'); c.commit()";
        assert_eq!(Program::new("python3").args(["-c", script]).arg(&base).run().status, 0);
    };
    let script = "
import sqlite3, subprocess, sys
write = '''import sqlite3, sys
c = sqlite3.connect(sys.argv[1], timeout=0.1)
try: c.execute('insert into t values (2)'); c.commit(); print('written')
except Exception as e: print(e)'''
c = sqlite3.connect('file:%s?mode=ro' % sys.argv[1], uri=True, timeout=0.1, isolation_level=None)
rows = lambda: c.execute('select count(*) from t').fetchone()
other = lambda: print(subprocess.run([sys.executable, '-c', write, sys.argv[1]], capture_output=True, text=True).stdout)
print(rows()); other(); print(rows())
c.execute('begin'); print(rows()); other(); c.execute('commit'); other(); print(rows())";
    check(&fixture, make, &Program::new("python3").args(["-c", script]).arg(&base));
}
