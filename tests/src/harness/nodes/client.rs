//! Requests to a node's daemon as the audit library sends them, from a process on the node: a daemon
//! answers no process that it can't see.
//!
//! The process, `asker SOCKET`, answers requests on its standard input, a line each:
//!
//! | request | meaning | reply |
//! |---|---|---|
//! | `one PATH` | all bytes of a file | `done`, or why not |
//! | `all N LIST` | the same of all files that LIST names, a path a line, N at once | `done`, or why not |

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use headwater_abi::client::{REPLY_BYTES, Request, SILENCE_MS_MAX, Status, Want, decode_reply};

use super::running::Nodes;

/// The first generation, which a session starts with.
const GENERATION: u64 = 1;

/// A process on the node that sends requests. Dropped, it ends.
pub struct Asker {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Nodes<'_> {
    /// Starts a process on each node that sends requests to its daemon.
    pub fn askers(&self) -> Vec<Asker> {
        let start = |rank| {
            let mut command = self.node(rank).command(crate::sibling_binary("asker"));
            command.arg(format!("{}/sock", self.dir(rank))).stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut process = command.spawn().expect("nsenter is part of util-linux");
            let input = process.stdin.take().expect("it is a pipe");
            let output = BufReader::new(process.stdout.take().expect("it is a pipe"));
            Asker { process, input, output }
        };
        (0..self.ranks()).map(start).collect()
    }

    /// Waits until each node has what its asker requested, in the order of ranks.
    ///
    /// # Panics
    /// If the source is to be used instead, or a daemon stops answering; with what it wrote.
    pub fn await_requested(&self, askers: &mut [Asker]) {
        for (rank, asker) in askers.iter_mut().enumerate() {
            asker.wait().unwrap_or_else(|problem| panic!("rank {rank}: {problem}\n{}", self.log(rank)));
        }
    }

    /// The copy that a node has of a file, as this process sees it.
    pub fn copy(&self, rank: usize, path: &Path) -> PathBuf {
        self.outside(rank, &format!("{}/{GENERATION}/root{}", self.dir(rank), path.display()))
    }
}

impl Asker {
    /// Has it request a file.
    pub fn request(&mut self, path: &Path) {
        self.send(&format!("one {}", path.display()));
    }

    /// Has it request all files that a list names, so many at once.
    pub fn ask_all(&mut self, at_once: usize, list: &Path) {
        self.send(&format!("all {at_once} {}", list.display()));
    }

    fn send(&mut self, line: &str) {
        writeln!(self.input, "{line}").expect("the asker listens");
    }

    /// Waits until the daemon has what was requested.
    fn wait(&mut self) -> Result<(), String> {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("the asker speaks");
        if line == "done\n" { Ok(()) } else { Err(line) }
    }
}

impl Drop for Asker {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Executes the lines of standard input, as the process on the node.
pub fn serve_asks(socket: &Path) -> io::Result<()> {
    for line in io::stdin().lines() {
        let line = line?;
        let fields: Vec<&str> = line.splitn(3, ' ').collect();
        let outcome = match fields[..] {
            ["one", path] => request(socket, path),
            ["all", at_once, list] => ask_all(socket, at_once.parse().unwrap_or(1), list),
            _ => Err(io::Error::other(format!("what? {line}"))),
        };
        match outcome {
            Ok(()) => println!("done"),
            Err(error) => println!("{line}: {error}"),
        }
    }
    Ok(())
}

fn ask_all(socket: &Path, at_once: usize, list: &str) -> io::Result<()> {
    let text = std::fs::read_to_string(list)?;
    let paths: Vec<&str> = text.lines().collect();
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some(path) = paths.get(next.fetch_add(1, Ordering::Relaxed)) {
            request(socket, path)?;
        }
        Ok(())
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..at_once).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("asking doesn't panic"))
    })
}

/// Requests all bytes of a file, and waits until they are there.
fn request(socket: &Path, path: &str) -> io::Result<()> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(Duration::from_millis(SILENCE_MS_MAX)))?;
    let path = headwater_abi::Path::new(path.as_bytes()).ok_or(io::ErrorKind::InvalidInput)?;
    stream.write_all(&Request { want: Want::WHOLE, generation: GENERATION, path }.encode())?;
    let mut reply = [0; REPLY_BYTES];
    loop {
        stream.read_exact(&mut reply)?;
        match decode_reply(&reply).ok_or(io::ErrorKind::InvalidData)? {
            Status::Pending => {}
            Status::Done => return Ok(()),
            Status::Fallback => return Err(io::Error::other("the source file is to be used")),
        }
    }
}
