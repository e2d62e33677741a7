//! Attaching a process of a job to its node agent. The node's first process starts the agent.

use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use super::messages::Answer;
use crate::self_exec;
use crate::session::directory;
use crate::session::store;

/// Timeout of the node agent's answer.
const ANSWER_MAX: Duration = Duration::from_secs(60);
/// The longest answer. It contains a few paths.
const ANSWER_BYTES_MAX: u64 = 64 << 10;
/// How long other processes than the node's first wait before they start the agent themselves.
const OTHERS_WAIT: Duration = Duration::from_secs(2);
/// How long a process tries to reach the agent.
const REACH_MAX: Duration = Duration::from_secs(10);
/// Pause between two attempts.
const RETRY: Duration = Duration::from_millis(4);

/// Connects to the node agent of `job`, a job file. With `is_first` this process starts a missing agent at once. A name
/// without a directory is that of a session whose agents a tool starts (`abi/include/headwater-launch.h`).
///
/// # Errors
/// The reason why the process uses the source files.
pub fn attach(job: &Path, store: Option<&Path>, is_first: bool) -> Result<Answer, String> {
    let name = job.file_name().ok_or("the job file has no name")?.to_string_lossy().into_owned();
    let started = Instant::now();
    let mut has_started = job == Path::new(&name);
    loop {
        if let Some(stream) = store::candidates(store).iter().find_map(|store| connect(store, &name)) {
            return answer(stream);
        }
        if !has_started && (is_first || started.elapsed() >= OTHERS_WAIT) {
            has_started = true;
            start(job, store)?;
        } else if started.elapsed() >= REACH_MAX {
            return Err("the node agent of the job can't be reached".into());
        } else {
            thread::sleep(RETRY);
        }
    }
}

/// Prefix of the agent's standard output if it can't serve; the reason follows. Otherwise the output is the path of
/// its socket.
pub const FAILED: &str = "failed: ";

/// Returns the socket of an agent of the session `name` that runs already.
pub fn existing(store: Option<&Path>, name: &str) -> Option<PathBuf> {
    let sockets = |store: &PathBuf| directory::base_directories(store).into_iter().map(|base| socket(&base.join(name)));
    store::candidates(store).iter().flat_map(sockets).find(|socket| socket.exists())
}

/// Returns the path of the node agent's socket in the session's directory.
pub fn socket(session: &Path) -> PathBuf {
    session.join("join")
}

fn connect(store: &Path, name: &str) -> Option<UnixStream> {
    let bases = directory::base_directories(store);
    bases.iter().find_map(|base| UnixStream::connect(socket(&base.join(name))).ok())
}

/// Starts the node agent as a background process. Another process may have started it meanwhile.
fn start(job: &Path, store: Option<&Path>) -> Result<(), String> {
    let mut command = self_exec::command();
    command.arg("node").arg(job).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    if let Some(store) = store {
        command.arg("--store").arg(store);
    }
    let failed = |error: io::Error| format!("the node agent can't be started: {error}");
    let mut starter = command.spawn().map_err(failed)?;
    let mut output_text = String::new();
    let output = starter.stdout.take();
    output.map(|output| output.take(4096).read_to_string(&mut output_text)).transpose().map_err(failed)?;
    // The agent itself is a child of this process.
    let status = starter.wait().map_err(failed)?;
    match output_text.trim_end().strip_prefix(FAILED) {
        Some(why) => Err(why.to_owned()),
        None if !status.success() => Err(format!("the node agent can't be started: {status}")),
        None => Ok(()),
    }
}

fn answer(stream: UnixStream) -> Result<Answer, String> {
    let failed = |error: io::Error| format!("the node agent does not answer: {error}");
    stream.set_read_timeout(Some(ANSWER_MAX)).map_err(failed)?;
    let mut answer = Vec::new();
    stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer).map_err(failed)?;
    Answer::decode(&answer).ok_or_else(|| String::from("the node agent has ended"))
}
