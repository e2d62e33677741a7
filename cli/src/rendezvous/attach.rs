//! A process of a job comes to its node: the first one starts the node's part of the job.

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

/// How long a process waits for its node, at most.
const ANSWER_MAX: Duration = Duration::from_secs(60);
/// The longest answer: some paths.
const ANSWER_BYTES_MAX: u64 = 64 << 10;
/// How long processes but the node's first wait until they start the node's part themselves.
const OTHERS_WAIT: Duration = Duration::from_secs(2);
/// How long they try to reach it.
const REACH_MAX: Duration = Duration::from_secs(10);
/// How often.
const RETRY: Duration = Duration::from_millis(4);

/// Comes to the node's part of the job whose file this is. `is_first`: other processes of the node leave it to
/// this one to start that.
///
/// # Errors
/// Why the process is to use the originals.
pub fn attach(job: &Path, store: Option<&Path>, is_first: bool) -> Result<Answer, String> {
    let name = job.file_name().ok_or("the job file has no name")?.to_string_lossy().into_owned();
    let started = Instant::now();
    let mut has_started = false;
    loop {
        if let Some(stream) = store::candidates(store).iter().find_map(|store| connect(store, &name)) {
            return answer(stream);
        }
        if !has_started && (is_first || started.elapsed() >= OTHERS_WAIT) {
            has_started = true;
            start(job, store)?;
        } else if started.elapsed() >= REACH_MAX {
            return Err("the node's part of the job can't be reached".into());
        } else {
            thread::sleep(RETRY);
        }
    }
}

/// What a node's part says first on its standard output if it can't be reached; the reason follows. Otherwise
/// it says where its socket is.
pub const FAILED: &str = "failed: ";

/// The socket of the node's part of a session, in the session's directory.
pub fn socket(session: &Path) -> PathBuf {
    session.join("join")
}

fn connect(store: &Path, name: &str) -> Option<UnixStream> {
    let bases = directory::base_directories(store);
    bases.iter().find_map(|base| UnixStream::connect(socket(&base.join(name))).ok())
}

/// Starts the node's part, which goes on by itself. Another process may have done so meanwhile.
fn start(job: &Path, store: Option<&Path>) -> Result<(), String> {
    let mut command = self_exec::command();
    command.arg("node").arg(job).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    if let Some(store) = store {
        command.arg("--store").arg(store);
    }
    let failed = |error: io::Error| format!("the node's part of the job can't be started: {error}");
    let mut starter = command.spawn().map_err(failed)?;
    let mut output_text = String::new();
    let output = starter.stdout.take();
    output.map(|output| output.take(4096).read_to_string(&mut output_text)).transpose().map_err(failed)?;
    // It has left the other to itself.
    let status = starter.wait().map_err(failed)?;
    match output_text.trim_end().strip_prefix(FAILED) {
        Some(why) => Err(why.to_owned()),
        None if !status.success() => Err(format!("the node's part of the job can't be started: {status}")),
        None => Ok(()),
    }
}

fn answer(stream: UnixStream) -> Result<Answer, String> {
    let failed = |error: io::Error| format!("the node's part of the job does not answer: {error}");
    stream.set_read_timeout(Some(ANSWER_MAX)).map_err(failed)?;
    let mut answer = Vec::new();
    stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer).map_err(failed)?;
    Answer::decode(&answer).ok_or_else(|| String::from("the node's part of the job has ended"))
}
