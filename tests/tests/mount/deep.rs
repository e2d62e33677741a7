//! Files deeper than the longest path: programs reach them by relative steps.

use std::fs;
use std::time::Duration;

use headwater_tests::harness::{Fixture, Mechanism, Program, has_program, kill, skipped, wait_until};

use crate::writing::check;
use headwater_tests::needs_mounts;

/// Descends so many directories with long names, which it makes.
const DOWN: &str = r#"
import os, sys
def down(levels, letter='n'):
    for _ in range(levels):
        os.makedirs(letter * 200, exist_ok=True)
        os.chdir(letter * 200)
"#;

/// How deep trees are: 6 KB.
const LEVELS: u32 = 30;

fn run_in(fixture: &Fixture, script: &str) {
    let made = Program::new("python3").args(["-c", &format!("{DOWN}{script}")]).in_dir(fixture.path("tree")).run();
    assert_eq!(made.status, 0, "{made:?}");
}

/// A tree that is there before the session.
fn deep(fixture: &Fixture) {
    fixture.file("tree/file", "not deep\n", 0o644);
    let script = format!(
        "down({LEVELS}); open('leaf', 'w').write('leaf\\n'); os.symlink('leaf', 'link'); os.mkdir('dir'); \
         open('dir/inner', 'w').write('inner\\n')"
    );
    run_in(fixture, &script);
}

fn checked(body: &str) {
    check(deep, &format!("python3 -c \"{DOWN}{body}\""));
}

#[test]
fn reading() {
    needs_mounts!();
    if !has_program("python3") {
        return skipped("python3 is not installed");
    }
    checked(&format!(
        "
down({LEVELS})
print(open('leaf').read(), os.stat('leaf').st_size, os.readlink('link'), sorted(os.listdir('.')), os.path.isdir('dir'))
print(open('dir/inner').read(), os.path.exists('absent'), os.path.exists('dir/absent'), os.access('leaf', os.W_OK))
try: print(len(os.getcwd()) > 4096)
except OSError as error: print(error.strerror)
try: open('m' * 256)
except OSError as error: print(error.strerror)
os.chdir('..'); print(os.listdir('.') == ['n' * 200])"
    ));
}

#[test]
fn changing() {
    needs_mounts!();
    if !has_program("python3") {
        return skipped("python3 is not installed");
    }
    checked(&format!(
        "
down({LEVELS})
open('leaf', 'a').write('more\\n'); print(open('leaf').read())
open('new', 'w').write('new\\n'); os.link('new', 'hard'); print(os.stat('new').st_nlink); os.rename('new', 'dir/moved')
print(open('dir/moved').read(), sorted(os.listdir('.')), sorted(os.listdir('dir')))
opened = open('hard'); os.unlink('hard'); print(opened.read(), os.fstat(opened.fileno()).st_nlink)
os.rename('dir', 'renamed'); print(open('renamed/inner').read()); os.chmod('renamed', 0o700)
os.symlink('renamed/inner', 'second'); print(open('second').read()); os.truncate('leaf', 3); print(open('leaf').read())
down({LEVELS}, 'o'); open('lower', 'w').write('lower\\n'); print(open('lower').read())
for _ in range({LEVELS}): os.chdir('..')
print(sorted(os.listdir('.')) == ['leaf', 'link', 'o' * 200, 'renamed', 'second'])
for _ in range({LEVELS}): os.chdir('..')
os.mkdir('top'); os.rename('n' * 200, 'top/m'); os.chdir('top/m'); down({LEVELS} - 1); print(open('leaf').read())"
    ));
}

#[test]
fn tools() {
    needs_mounts!();
    if !has_program("python3") {
        return skipped("python3 is not installed");
    }
    check(deep, "find . -type f | wc -lc; find . -name leaf -execdir cat '{}' ';'; rm -rf n*; echo $?; ls");
    check(
        deep,
        "tar cf all.tar n* && mkdir out && tar xf all.tar -C out; echo $?; find out | wc -lc; \
         python3 -c 'import os, shutil; os.chdir(\"out\"); shutil.rmtree(os.listdir(\".\")[0])'; echo $?; ls out; \
         rm -rf n* all.tar out",
    );
}

#[test]
fn a_daemon_dies_while_a_program_is_there() {
    needs_mounts!();
    if !has_program("python3") {
        return skipped("python3 is not installed");
    }
    let fixture = Fixture::new("deepdies");
    deep(&fixture);
    let (reached, goes_on) = (fixture.outside("reached"), fixture.outside("continues"));
    let script = format!(
        "{DOWN}
import time
down({LEVELS}); opened = open('leaf'); new = open('new', 'w'); new.write('new\\n'); new.flush()
open(sys.argv[1], 'w').close()
while not os.path.exists(sys.argv[2]): time.sleep(0.02)
new.write('more\\n'); new.close(); print(opened.read(), open('new').read(), sorted(os.listdir('.')), open('dir/inner').read())"
    );
    let program = Program::new("python3").args(["-c", &script]).arg(&reached).arg(&goes_on);
    let program = program.in_dir(fixture.path("tree"));
    let started = fixture.headwater().via(Mechanism::Namespace).start(&program);
    let timeout = Duration::from_secs(20);
    assert!(wait_until(timeout, || reached.exists()), "the program gets there");
    let daemons = started.daemons();
    daemons.iter().for_each(|&pid| kill(pid));
    assert!(wait_until(timeout, || started.daemons().iter().any(|pid| !daemons.contains(pid))), "there is another");
    fs::write(&goes_on, "").expect("an own directory");
    let session = started.finish();
    assert_eq!(session.output.stdout, "leaf\n new\nmore\n ['dir', 'leaf', 'link', 'new'] inner\n\n", "{session:?}");
}
