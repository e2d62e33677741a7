//! One command: how it is started, and its results.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::FileExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

/// How long a program may take before the test fails.
pub(super) const TIME_MAX: Duration = Duration::from_secs(60);

/// How many differing lines a failure shows of each kind.
const LINES_MAX: usize = 30;
/// Limit of the wait for a program that is busy.
const BUSY_MAX: Duration = Duration::from_secs(5);

/// A program with its arguments and environment.
#[derive(Clone, Debug)]
pub struct Program {
    argv: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    dir: Option<PathBuf>,
}

/// A program's output, and its status as in a shell.
#[derive(Clone, PartialEq, Eq)]
pub struct Output {
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
    /// The exit status, 128 + n for signal n.
    pub status: i32,
    /// The signal that ended it.
    pub signal: Option<i32>,
}

impl std::fmt::Debug for Output {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "status {}, signal {:?}\n--- stdout\n{}--- stderr\n{}",
            self.status, self.signal, self.stdout, self.stderr
        )
    }
}

impl Output {
    /// Panics with the lines in which they differ, if they do.
    pub fn assert_same(&self, plain: &Output) {
        if self == plain {
            return;
        }
        let ends = |output: &Output| (output.status, output.signal);
        let mut report = format!("status and signal {:?} with Headwater, {:?} without\n", ends(self), ends(plain));
        for (name, ours, theirs) in [("stdout", &self.stdout, &plain.stdout), ("stderr", &self.stderr, &plain.stderr)] {
            for (sign, from, other) in [('+', ours, theirs), ('-', theirs, ours)] {
                let known: HashSet<&str> = other.lines().collect();
                let only = from.lines().filter(|line| !known.contains(line)).take(LINES_MAX);
                only.for_each(|line| report.push_str(&format!("{name} {sign} {line:.600}\n")));
            }
        }
        panic!("lines with Headwater alone (+) and without it alone (-):\n{report}");
    }
}

impl Program {
    /// A program by its path or name.
    pub fn new(file: impl AsRef<OsStr>) -> Program {
        Program { argv: vec![file.as_ref().into()], env: Vec::new(), dir: None }
    }

    /// `sh -c SCRIPT`.
    pub fn shell(script: &str) -> Program {
        Program::new("/bin/sh").arg("-c").arg(script)
    }

    /// One more argument.
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Program {
        self.argv.push(argument.as_ref().into());
        self
    }

    /// More arguments.
    pub fn args<S: AsRef<OsStr>>(self, arguments: impl IntoIterator<Item = S>) -> Program {
        arguments.into_iter().fold(self, Program::arg)
    }

    /// An environment variable.
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Program {
        self.env.push((name.into(), value.as_ref().into()));
        self
    }

    /// The working directory; without it the one for temporary files.
    pub fn in_dir(mut self, dir: impl AsRef<Path>) -> Program {
        self.dir = Some(dir.as_ref().into());
        self
    }

    /// The same, started through `prefix`.
    pub fn behind<S: AsRef<OsStr>>(&self, prefix: impl IntoIterator<Item = S>) -> Program {
        let mut argv: Vec<OsString> = prefix.into_iter().map(|s| s.as_ref().into()).collect();
        argv.extend(self.argv.iter().cloned());
        Program { argv, ..self.clone() }
    }

    /// The same with `to` instead of `from` in its file, arguments, variables and directory.
    pub fn replaced(&self, from: &Path, to: &Path) -> Program {
        let replace = |text: &OsString| OsString::from_vec(replaced(text.as_bytes(), from, to));
        Program {
            argv: self.argv.iter().map(replace).collect(),
            env: self.env.iter().map(|(name, value)| (name.clone(), replace(value))).collect(),
            dir: self.dir.as_ref().map(|dir| replace(&dir.clone().into_os_string()).into()),
        }
    }

    /// The same, with its directory as the first argument after `prefix` instead of being started there.
    pub(super) fn behind_with_dir(&self, prefix: &[OsString]) -> Program {
        let dir = self.dir.clone().unwrap_or_else(std::env::temp_dir);
        let started = Program { dir: None, ..self.clone() };
        started.behind(prefix.iter().cloned().chain([dir.into_os_string()]))
    }

    /// Starts it in a process group of its own, its output redirected to files.
    pub fn start(&self) -> Running {
        let scratch = || tempfile::tempfile().expect("the temporary directory takes a file");
        let (stdout, stderr) = (scratch(), scratch());
        let copy = |file: &File| file.try_clone().expect("descriptors are left");
        let mut command = Command::new(&self.argv[0]);
        command
            .args(&self.argv[1..])
            .env_remove("LD_LIBRARY_PATH") // cargo's
            .env_remove("PYTHONUNBUFFERED") // it takes the output of several ranks apart
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(copy(&stdout))
            .stderr(copy(&stderr))
            .current_dir(self.dir.clone().unwrap_or_else(std::env::temp_dir))
            .process_group(0);
        let child = spawn(&mut command).unwrap_or_else(|e| panic!("{:?} can't be started: {e}", self.argv[0]));
        Running { child, stdout, stderr, what: format!("{:?}", self.argv) }
    }

    /// Runs it to its end.
    pub fn run(&self) -> Output {
        self.start().finish()
    }
}

/// A started program. Dropped before its end, its process group is killed.
pub struct Running {
    child: Child,
    stdout: File,
    stderr: File,
    what: String,
}

impl Running {
    /// The process that was started, which leads its group.
    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Sends a signal to the whole group, as a terminal does.
    pub fn signal_group(&self, signal: Signal) {
        let _ = kill_process_group(self.pid(), signal);
    }

    /// Sends a signal to the process alone.
    pub fn signal(&self, signal: Signal) {
        let _ = rustix::process::kill_process(self.pid(), signal);
    }

    /// Its standard output so far.
    pub fn stdout(&self) -> String {
        text(&self.stdout)
    }

    /// Waits for its end. A program that takes too long is killed, and the test fails.
    pub fn finish(self) -> Output {
        self.finish_within(TIME_MAX)
    }

    /// As [`Running::finish`], with another limit.
    pub fn finish_within(mut self, time_max: Duration) -> Output {
        let deadline = Instant::now() + time_max;
        let mut pause = Duration::from_micros(500);
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("a child can be waited for") {
                break status;
            }
            if Instant::now() > deadline {
                self.signal_group(Signal::KILL);
                let _ = self.child.wait();
                let (stdout, stderr) = (text(&self.stdout), text(&self.stderr));
                panic!("{} did not end within {time_max:?}\n--- stdout\n{stdout}--- stderr\n{stderr}", self.what);
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(10));
        };
        Output {
            stdout: text(&self.stdout),
            stderr: text(&self.stderr),
            status: shell_status(status),
            signal: status.signal(),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.signal_group(Signal::KILL);
            let _ = self.child.wait();
        }
    }
}

/// `text` with every `from` replaced by `to`.
fn replaced(text: &[u8], from: &Path, to: &Path) -> Vec<u8> {
    let (from, to) = (from.as_os_str().as_bytes(), to.as_os_str().as_bytes());
    let (mut result, mut rest) = (Vec::new(), text);
    while let Some(at) = rest.windows(from.len()).position(|window| window == from) {
        result.extend_from_slice(&rest[..at]);
        result.extend_from_slice(to);
        rest = &rest[at + from.len()..];
    }
    result.extend_from_slice(rest);
    result
}

fn shell_status(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}

/// Reads a whole file. Its offset, which the program writes at, does not change.
fn text(file: &File) -> String {
    let bytes = file.metadata().expect("an open file").len() as usize;
    let mut content = vec![0; bytes];
    file.read_exact_at(&mut content, 0).expect("a scratch file can be read");
    String::from_utf8_lossy(&content).into_owned()
}

/// Spawns a process. A program that the test has just written is busy while a child that another thread has forked, and
/// that has not executed yet, holds the descriptor.
fn spawn(command: &mut Command) -> io::Result<Child> {
    let deadline = Instant::now() + BUSY_MAX;
    loop {
        match command.spawn() {
            Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy && Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(10));
            }
            other => return other,
        }
    }
}
