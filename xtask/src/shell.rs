//! Running programs: one line per step with its time, the whole output only if the step fails.

use std::fmt::Write as _;
use std::io::{IsTerminal, PipeReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::system::System;

/// How long output is awaited after a program has ended.
const LEFTOVER_WAIT_MAX: Duration = Duration::from_secs(2);

/// The exit status of `timeout` if it had to end the program.
const TIMEOUT_STATUS: i32 = 124;

/// The directories, and how much is printed.
#[derive(Clone, Debug)]
pub struct Shell {
    /// The repository's root; every program runs there.
    pub root: PathBuf,
    /// Print what programs print while they run.
    pub verbose: bool,
    /// What is built for.
    pub system: System,
}

/// How a program ended and everything that it wrote, standard error included.
#[derive(Debug)]
pub struct Finished {
    /// Its exit status.
    pub status: ExitStatus,
    /// Its output, both streams in their order.
    pub output: String,
}

impl Shell {
    /// A shell at the root of the repository that this program was built from.
    pub fn new(verbose: bool) -> Shell {
        let manifest =
            std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from);
        let root = manifest.parent().expect("xtask lies in the repository").to_path_buf();
        Shell { root, verbose, system: System::Here }
    }

    /// `root/path`.
    pub fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        self.root.join(path)
    }

    /// The path of something that is built for the system.
    pub fn built(&self, name: &str) -> PathBuf {
        self.root.join(self.system.directory()).join(name)
    }

    /// A command that runs in the repository's root.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command.current_dir(&self.root);
        command
    }

    /// The same cargo that runs this program, without the settings of that run.
    pub fn cargo(&self, arguments: &[&str]) -> Command {
        let mut command = self.command(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        // Everything is below target/, whatever the machine's settings are.
        command.env_remove("CARGO_TARGET_DIR").env_remove("CARGO_BUILD_TARGET_DIR").env_remove("CARGO_BUILD_TARGET");
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
                command.env_remove(&name);
            }
        }
        command.args(arguments);
        command
    }

    /// Runs `command` to its end and returns its output.
    pub fn capture(&self, command: &mut Command) -> Result<Finished> {
        let (reader, writer) = std::io::pipe()?;
        command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer);
        let spawned = command.spawn();
        let shown = display(command, &self.root);
        // The command has the write ends; without this the pipe would never end.
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = spawned.with_context(|| format!("cannot start `{shown}`"))?;
        let output = Arc::new(Mutex::new(Vec::new()));
        let collector = std::thread::spawn({
            let (output, verbose) = (output.clone(), self.verbose);
            move || collect(reader, &output, verbose)
        });
        let status = child.wait()?;
        // A child that the program left behind may have the pipe open for ever.
        let deadline = Instant::now() + LEFTOVER_WAIT_MAX;
        while !collector.is_finished() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
        let output = String::from_utf8_lossy(&output.lock().expect("the collector does not panic")).into_owned();
        Ok(Finished { status, output })
    }

    /// Runs `command` to its end, which is forced after `seconds_max`, for everything that it has started too; it also
    /// ends if this program ends.
    pub fn capture_limited(&self, command: &Command, seconds_max: u64) -> Result<Finished> {
        let mut limited = self.command("setpriv");
        limited.args(["--pdeathsig=TERM", "timeout", "--kill-after=10", &seconds_max.to_string()]);
        limited.arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => limited.env(name, value),
                None => limited.env_remove(name),
            };
        }
        let mut finished = self.capture(&mut limited)?;
        if finished.status.code() == Some(TIMEOUT_STATUS) {
            let _ = writeln!(finished.output, "ended after {seconds_max} s, the most that it may take");
        }
        Ok(finished)
    }

    /// Runs `command`; its failure is an error with its output and how to repeat it.
    pub fn run(&self, command: &mut Command) -> Result<String> {
        let finished = self.capture(command)?;
        if finished.status.success() {
            return Ok(finished.output);
        }
        let output = if self.verbose { "" } else { finished.output.trim_end() };
        bail!("{output}\n{}\nrepeat: {}", finished.status, display(command, &self.root));
    }

    /// Does `work` as a step: a line with its name and time, whether it succeeds or not.
    pub fn step<T>(&self, name: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let start = self.begin(name);
        let result = work();
        self.end(name, start, result.is_ok());
        result
    }

    /// Shows progress on a terminal.
    pub fn begin(&self, name: &str) -> Instant {
        if std::io::stdout().is_terminal() && !self.verbose {
            print!("  …      {name}\r");
            std::io::stdout().flush().ok();
        }
        Instant::now()
    }

    /// Prints the line of what began at `start`.
    pub fn end(&self, name: &str, start: Instant, ok: bool) {
        let mark = if ok { "ok" } else { "FAILED" };
        println!("  {mark:<6} {name:<44} {:>8}", seconds(start.elapsed()));
    }
}

fn collect(mut reader: PipeReader, output: &Mutex<Vec<u8>>, verbose: bool) {
    let mut buffer = [0; 1 << 16];
    while let Ok(bytes @ 1..) = reader.read(&mut buffer) {
        output.lock().expect("nothing panics with the lock").extend_from_slice(&buffer[..bytes]);
        if verbose {
            std::io::stderr().write_all(&buffer[..bytes]).ok();
        }
    }
}

/// A duration as people read it.
pub fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}

/// The command as it can be typed into a shell in `root`.
pub fn display(command: &Command, root: &Path) -> String {
    let mut line = String::new();
    if let Some(directory) = command.get_current_dir().filter(|d| *d != root) {
        let _ = write!(line, "cd {} && ", quote(&relative(directory, root)));
    }
    for (name, value) in command.get_envs().filter_map(|(n, v)| v.map(|v| (n, v))) {
        let _ = write!(line, "{}={} ", name.to_string_lossy(), quote(&value.to_string_lossy()));
    }
    let program = Path::new(command.get_program());
    let program =
        if program.file_name().is_some_and(|n| n == "cargo") { "cargo".into() } else { relative(program, root) };
    line.push_str(&quote(&program));
    for argument in command.get_args() {
        let _ = write!(line, " {}", quote(&argument.to_string_lossy()));
    }
    line
}

fn relative(path: &Path, root: &Path) -> String {
    path.strip_prefix(root).unwrap_or(path).to_string_lossy().into_owned()
}

fn quote(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    if !text.is_empty() && text.chars().all(plain) { text.into() } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell() -> Shell {
        Shell { root: "/".into(), ..Shell::new(false) }
    }

    #[test]
    fn output_of_both_streams_stays_in_order() {
        let mut command = shell().command("/bin/sh");
        command.args(["-c", "echo one; echo two >&2; echo three; exit 3"]);
        let finished = shell().capture(&mut command).unwrap();
        assert_eq!(finished.output, "one\ntwo\nthree\n");
        assert_eq!(finished.status.code(), Some(3));
    }

    #[test]
    fn failure_names_the_command() {
        let mut command = shell().command("/bin/sh");
        command.args(["-c", "echo why; exit 1"]).env("HEADWATER_X", "a b");
        let error = shell().run(&mut command).unwrap_err().to_string();
        assert!(
            error.contains("why") && error.contains("repeat: HEADWATER_X='a b' bin/sh -c 'echo why; exit 1'"),
            "{error}"
        );
    }

    #[test]
    fn what_hangs_is_ended() {
        let mut command = shell().command("/bin/sh");
        command.args(["-c", "echo $HEADWATER_X; sleep 1000 & wait"]).env("HEADWATER_X", "y");
        let start = Instant::now();
        let finished = shell().capture_limited(&command, 1).unwrap();
        assert!(!finished.status.success() && start.elapsed() < Duration::from_secs(100));
        assert!(finished.output.starts_with("y\nended after 1 s"), "{}", finished.output);
    }

    #[test]
    fn a_missing_program_is_named() {
        let error = shell().run(&mut shell().command("/nonexistent/program")).unwrap_err();
        assert!(format!("{error:#}").contains("nonexistent/program"), "{error:#}");
    }
}
