//! Sockets and FIFOs in the scope: they connect processes that open them by the same file system.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::net::UnixListener;
use std::thread;

use headwater_tests::harness::{Fixture, Mechanism, Program, has_program, skipped};
use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat};

use headwater_tests::needs_mounts;

const CLIENT: &str = r#"
import os, socket, sys, threading
def connect(path):
    client = socket.socket(socket.AF_UNIX)
    try:
        client.connect(path); client.send(b'hello'); return client.recv(10).decode()
    except OSError as error: return error.strerror
os.chdir(sys.argv[1])
print(connect('others/socket'), '|', connect('left-out/socket'))
server = socket.socket(socket.AF_UNIX); server.bind('own'); server.listen()
def serve():
    peer = server.accept()[0]; peer.send(peer.recv(10).upper())
threading.Thread(target=serve, daemon=True).start()
print(connect('own'), os.path.exists('own'))
try: fd = os.open('others/fifo', os.O_WRONLY | os.O_NONBLOCK); print('a process reads')
except OSError as error: print(error.strerror)
os.mkfifo('fifo')
if os.fork() == 0:
    open('fifo', 'w').write('among us'); os._exit(0)
print(open('fifo').read())
open('left-out/fifo', 'w').write('to others'); os.wait()
"#;

#[test]
fn those_of_outside_are_reached_where_a_directory_is_left_out() {
    needs_mounts!();
    if !has_program("python3") {
        return skipped("python3 is not installed");
    }
    let fixture = Fixture::new("special");
    let listeners = ["others", "left-out"].map(|directory| {
        let directory = fixture.dir(directory);
        let made = mknodat(CWD, directory.join("fifo"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0);
        made.expect("an own directory");
        UnixListener::bind(directory.join("socket")).expect("an own directory")
    });
    for listener in listeners {
        thread::spawn(move || {
            while let Ok((mut peer, _)) = listener.accept() {
                let _ = peer.read(&mut [0; 10]).and_then(|_| peer.write_all(b"outside"));
            }
        });
    }
    // A process reads each of the FIFOs all the time.
    let fifo = |directory: &str| {
        let path = fixture.path(directory).join("fifo");
        File::from(rustix::fs::open(path, OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty()).expect("an own file"))
    };
    let (_others, mut left_out) = (fifo("others"), fifo("left-out"));
    let program = Program::new("python3").args(["-c", CLIENT]).arg(fixture.shared());
    let headwater = fixture.headwater().via(Mechanism::Namespace);
    let session = headwater.option("--exclude").option(fixture.path("left-out")).run(&program);
    let expected = "Connection refused | outside\nHELLO True\nNo such device or address\namong us\n";
    assert_eq!(session.output.stdout, expected, "{session:?}");
    assert!(std::fs::symlink_metadata(fixture.path("own")).is_ok(), "it is in the source");
    let mut text = String::new();
    left_out.read_to_string(&mut text).expect("what was written");
    assert_eq!(text, "to others");
}
