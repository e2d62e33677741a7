//! Programs that write in a namespace while daemons die.

mod site;

use std::process::Stdio;

use rustix::process::{Signal, kill_process};
use site::running::{Running, processes_called};
use site::{Site, eventually, has_namespaces};

/// Runs a Python program in a namespace over `shared`, its working directory. Calls `disturb` once it prints `ready`;
/// returns the output after that.
#[track_caller]
fn run(site: &Site, script: &str, disturb: impl FnOnce()) -> String {
    let script = format!("import os\nos.chdir({:?})\n{script}", site.path("shared"));
    let mut command = site.command(&["--via", "namespace", "--", "python3", "-c", &script]);
    command.env("WORK", site.path("work")).stderr(Stdio::inherit());
    let running = Running::start(command, 1);
    disturb();
    let (status, output) = running.end();
    assert_eq!(status, Some(0), "{output}");
    site.assert_clean();
    output
}

/// Kills the daemon, and waits for another one.
fn replace_daemon(site: &Site) {
    let daemons = || processes_called(site, "daemon");
    for dead in daemons() {
        kill_process(dead, Signal::KILL).unwrap();
        eventually("there is another daemon", || daemons().iter().any(|&pid| pid != dead));
    }
}

#[test]
fn a_renamed_open_file_survives_the_death_of_a_daemon() {
    if !has_namespaces() {
        return;
    }
    let site = Site::new();
    let script = r#"
import time
log = open('log', 'ab', buffering=0); log.write(b'one;')
os.rename('log', 'log.1')
open('log', 'w').write('a new log')
gone = open('gone', 'w+b', buffering=0); gone.write(b'one;'); os.unlink('gone')
open('gone', 'w').write('another')
os.mkdir('d'); held = open('d/f', 'w+b', buffering=0); held.write(b'one;')
os.rename('d', 'e'); os.mkdir('d'); open('d/f', 'w').write('a new file')
same = open('same', 'w+b', buffering=0); same.write(b'one;')
print('ready', flush=True)
while not os.path.exists(os.environ['WORK'] + '/go'): time.sleep(0.01)
for file in log, held, same: file.write(b'two;')
try: print(gone.write(b'two;'))
except OSError as error: print(error.strerror)
for name in 'log', 'log.1', 'e/f', 'd/f', 'gone', 'same': print(name, open(name).read())
"#;
    let output = run(&site, script, || {
        replace_daemon(&site);
        site.write("work/go", "");
    });
    let expected =
        "Stale file handle\nlog a new log\nlog.1 one;two;\ne/f one;two;\nd/f a new file\ngone another\nsame one;two;\n";
    assert_eq!(output, expected);
}

#[test]
fn changes_are_made_once_while_daemons_die() {
    if !has_namespaces() {
        return;
    }
    let site = Site::new();
    let script = r#"
print('ready', flush=True)
log = os.open('log', os.O_WRONLY | os.O_APPEND | os.O_CREAT)
n = 0
while n < 400 or not os.path.exists(os.environ['WORK'] + '/go'):
    os.write(log, b'%d\n' % n)
    os.mkdir('d%d' % n)
    with open('d%d/f' % n, 'x') as f: f.write(str(n))
    os.rename('d%d/f' % n, 'd%d/g' % n)
    os.link('d%d/g' % n, 'd%d/h' % n)
    os.symlink('g', 'd%d/l' % n)
    assert open('d%d/l' % n).read() == str(n)
    for name in 'ghl': os.unlink('d%d/%s' % (n, name))
    os.rmdir('d%d' % n)
    n += 1
lines = open('log').read().split()
print(lines == [str(k) for k in range(n)], sorted(os.listdir('.')))
"#;
    let output = run(&site, script, || {
        for _ in 0..3 {
            replace_daemon(&site);
            std::thread::sleep(std::time::Duration::from_millis(300));
        }
        site.write("work/go", "");
    });
    assert_eq!(output, "True ['log']\n");
}
