//! A file that is replaced between its first look-up and its first read is the source file as it is by then, by
//! whichever call it is read.

use std::fs;
use std::path::Path;
use std::time::Duration;

use headwater_tests::harness::{Fixture, Mechanism, Program, has_program, skipped, wait_until};

use headwater_tests::needs_mounts;

const PAGE: usize = 4096;

/// Looks all files up, waits until they are replaced, and prints what it reads.
const READER: &str = r#"
import ctypes, importlib, mmap, os, subprocess, sys, time, zlib

def whole(path):
    with open(path, 'rb') as file:
        return file.read()

def steps(path):
    fd = os.open(path, os.O_RDONLY)
    parts = iter(lambda: os.read(fd, 1000), b'')
    return b''.join(parts)

def mapped(path):
    with open(path, 'rb') as file:
        file.read(1)
        size = os.fstat(file.fileno()).st_size
        return bytes(mmap.mmap(file.fileno(), size, prot=mmap.PROT_READ)) if size else b''

def sent(path):
    return subprocess.run(['cat', path], stdout=subprocess.PIPE, check=True).stdout

def library(path):
    return b'%d' % ctypes.CDLL(path).answer()

def program(path):
    return subprocess.run([path], stdout=subprocess.PIPE, check=True).stdout

def module(path):
    sys.path.insert(0, os.path.dirname(path))
    return importlib.import_module(os.path.basename(path)[:-3]).value

methods = {method.__name__: method for method in (whole, steps, mapped, sent, library, program, module)}
shared, outside = sys.argv[1:]
paths = sorted(os.path.join(shared, method, name) for method in methods for name in os.listdir(os.path.join(shared, method)))
for path in paths:
    os.stat(path)
if outside:
    open(os.path.join(outside, 'checked-' + os.environ['HEADWATER_NODE']), 'w').close()
    while not os.path.exists(os.path.join(outside, 'go')):
        time.sleep(0.01)
lines = []
for path in paths:
    method = path.split('/')[-2]
    try:
        read = methods[method](path)
        result = '%d %x' % (len(read), zlib.crc32(read))
    except (OSError, subprocess.CalledProcessError, ImportError) as error:
        result = type(error).__name__
    lines.append('%s %s\n' % (path, result))
os.write(1, ''.join(lines).encode())
"#;

/// The change of a file: its bytes before and after, and whether it is another file then.
const CHANGES: &[(&str, usize, Option<usize>, bool)] = &[
    ("longer", 4, Some(6), true),
    ("much-longer", 4, Some(40 * PAGE), true),
    ("shorter", 6, Some(4), true),
    ("much-shorter", 40 * PAGE + 7, Some(PAGE + 3), true),
    ("as-long", 900, Some(900), true),
    ("page-longer", PAGE, Some(3 * PAGE + 5), true),
    ("pages-longer", 2 * PAGE, Some(2 * PAGE + 1), true),
    ("page-shorter", 3 * PAGE, Some(PAGE), true),
    ("emptied", 5000, Some(0), true),
    ("removed", 100, None, true),
    ("grown", PAGE, Some(5 * PAGE), false),
    ("shrunk", 3 * PAGE, Some(100), false),
];

fn bytes(length: usize, seed: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 7 + at / 251 + seed) as u8).collect()
}

/// Files for each method of reading them.
fn fill(fixture: &Fixture) {
    for method in ["whole", "steps", "mapped", "sent"] {
        for (name, length, ..) in CHANGES {
            fixture.file(&format!("{method}/{name}"), bytes(*length, 1), 0o644);
        }
    }
    fs::create_dir(fixture.path("new")).expect("an own directory");
    for (folder, more) in [("", ""), ("new/", ", -1")] {
        let padding =
            format!("const char padding[] = {{{}1}};\n", "9, ".repeat(if more.is_empty() { 10 } else { 90_000 }));
        let answer = if more.is_empty() { 1 } else { 2 };
        let library = format!("{padding}int answer(void) {{ return {answer}; }}\n");
        let program = format!(
            "#include <stdio.h>\n{padding}int main(void) {{ return printf(\"%d %d\", {answer}, padding[80]) < 0; }}\n"
        );
        for (name, text, flags) in
            [("library/one.so", library, &["-shared", "-fPIC"][..]), ("program/one", program, &[])]
        {
            let source = fixture.outside("source.c");
            fs::write(&source, text).expect("an own directory");
            fs::create_dir_all(fixture.path(&format!("{folder}{name}")).parent().expect("below")).expect("an own one");
            let output = fixture.path(&format!("{folder}{name}"));
            let built = Program::new("cc").args(flags).arg("-o").arg(&output).arg(&source).run();
            assert_eq!(built.status, 0, "{built:?}");
        }
        let text = format!("# {}\nvalue = b'{answer}'\n", "x".repeat(answer * 5000));
        fixture.file(&format!("{folder}module/first_read_one.py"), text, 0o644);
    }
}

/// Replaces the files.
fn change(fixture: &Fixture) {
    for method in ["whole", "steps", "mapped", "sent"] {
        for (name, _, length, is_other) in CHANGES {
            let path = fixture.path(&format!("{method}/{name}"));
            match (length, is_other) {
                (None, _) => fs::remove_file(path).expect("an own file"),
                (Some(length), false) => fs::write(path, bytes(*length, 2)).expect("an own file"),
                (Some(length), true) => {
                    let new = fixture.file("new/file", bytes(*length, 2), 0o644);
                    fs::rename(new, path).expect("an own file");
                }
            }
        }
    }
    for name in ["library/one.so", "program/one", "module/first_read_one.py"] {
        fs::rename(fixture.path(&format!("new/{name}")), fixture.path(name)).expect("an own file");
    }
}

fn check(nodes: usize) {
    if !has_program("cc") || !Path::new("/usr/bin/python3").exists() {
        return skipped("no C compiler or no python3");
    }
    let fixture = Fixture::new("first-read");
    fill(&fixture);
    let reader = |outside: &str| {
        let program = Program::new("/usr/bin/python3").args(["-c", READER]).arg(fixture.shared()).arg(outside);
        program.env("PYTHONDONTWRITEBYTECODE", "1")
    };
    let outside = fixture.outside("signs");
    fs::create_dir(&outside).expect("an own directory");
    let session = fixture.headwater().via(Mechanism::Namespace).on(nodes, 1);
    let session = session.start(&reader(&outside.display().to_string()));
    let checked = || (0..nodes).all(|node| outside.join(format!("checked-{node}")).exists());
    assert!(wait_until(Duration::from_secs(60), checked), "no node has checked");
    change(&fixture);
    fs::write(outside.join("go"), "").expect("an own directory");
    let session = session.finish();
    let plain = reader("").run();
    assert_eq!((plain.status, session.output.status), (0, 0), "{plain:?} {session:?}");
    // A removed file can't be found any more; a reader that has its record can't read it.
    let removed = |line: &&str| !line.contains("/removed ");
    let expected: Vec<&str> = plain.stdout.lines().filter(removed).collect();
    for lines in session.output.stdout.lines().collect::<Vec<_>>().chunks(expected.len() + 4) {
        let (rest, gone): (Vec<&str>, Vec<&str>) = lines.iter().partition(|line| removed(line));
        assert_eq!(rest, expected, "{}", session.messages);
        assert!(gone.iter().all(|line| line.ends_with("Error")), "{gone:?}");
    }
    assert_eq!(session.output.stdout.lines().count(), nodes * (expected.len() + 4));
}

#[test]
fn it_is_the_source_file_as_it_is_then() {
    needs_mounts!();
    check(1);
}

#[test]
fn it_is_so_on_every_node() {
    needs_mounts!();
    check(3);
}
