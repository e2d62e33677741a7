//! One request to a daemon, over its control socket. It returns an answer or an error in bounded time.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use headwater_daemon::protocol::{Answer, CONTROL_LINE_BYTES_MAX, CONTROL_VERSION, Command, Request, Response};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};

/// Timeout of a silent daemon. A working daemon sends a line each second.
const SILENCE_MAX: Duration = Duration::from_secs(5);

/// Sends a request to the daemon at `socket`; waits while the daemon reports that it works on it.
pub fn ask(socket: &Path, command: Command) -> Result<Answer> {
    ask_within(socket, command, SILENCE_MAX)
        .with_context(|| format!("the request to the daemon at {} failed", socket.display()))
}

fn ask_within(socket: &Path, command: Command, silence_max: Duration) -> Result<Answer> {
    let mut stream = connect(socket, silence_max)?;
    let mut request = serde_json::to_vec(&Request { version: CONTROL_VERSION, command })?;
    ensure!(request.len() < CONTROL_LINE_BYTES_MAX, "the request is too long; name fewer paths at once");
    request.push(b'\n');
    stream.write_all(&request).map_err(explain(silence_max))?;
    let mut received = Vec::new();
    loop {
        let line = read_line(&mut stream, &mut received, silence_max)?;
        let response: Response = serde_json::from_slice(&line)
            .context("its answer is not of this version; use the session's own headwater")?;
        match response.answer {
            Answer::Pending => {}
            Answer::Error(why) => bail!("{why}"),
            answer => return Ok(answer),
        }
    }
}

/// Connects; no operation on the connection blocks for longer than `silence_max`.
fn connect(path: &Path, silence_max: Duration) -> Result<UnixStream> {
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    // This limits the connection, too.
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, Some(silence_max))?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?).map_err(|error| explain(silence_max)(error.into()))?;
    let peer = sockopt::socket_peercred(&socket)?;
    let user = rustix::process::geteuid();
    ensure!(peer.uid == user || peer.uid.is_root() || user.is_root(), "the socket belongs to another user");
    Ok(socket.into())
}

fn read_line(stream: &mut UnixStream, received: &mut Vec<u8>, silence_max: Duration) -> Result<Vec<u8>> {
    let deadline = Instant::now() + silence_max;
    let mut buffer = [0; 16 << 10];
    loop {
        if let Some(end) = received.iter().position(|&b| b == b'\n') {
            let rest = received.split_off(end + 1);
            return Ok(std::mem::replace(received, rest));
        }
        ensure!(received.len() <= CONTROL_LINE_BYTES_MAX, "it answers without end; end the session and start it again");
        let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut buffer) {
            Ok(0) => bail!("it ended before it answered; see the session's messages, or try again"),
            Ok(bytes) if Instant::now() < deadline => received.extend_from_slice(&buffer[..bytes]),
            Ok(_) => return Err(explain(silence_max)(io::ErrorKind::TimedOut.into())),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(explain(silence_max)(error)),
        }
    }
}

/// Returns a message for an error of the socket.
fn explain(silence_max: Duration) -> impl Fn(io::Error) -> anyhow::Error {
    move |error| match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => anyhow::anyhow!(
            "it has been silent for {} s; its processes use the source files. If it stays silent, end the session",
            silence_max.as_secs_f64()
        ),
        io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound => {
            anyhow::anyhow!("no daemon listens there ({error}); the session may have just ended")
        }
        _ => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;
    use std::path::PathBuf;
    use std::thread;
    use tempfile::TempDir;

    /// Sends a request to a daemon that behaves as `serve`; returns the error.
    fn check(serve: impl FnOnce(UnixStream) + Send + 'static) -> String {
        let (_directory, path, listener) = listen();
        let server = thread::spawn(move || serve(listener.accept().unwrap().0));
        let error = ask_within(&path, Command::Stats, Duration::from_millis(300)).unwrap_err();
        server.join().unwrap();
        format!("{error:#}")
    }

    fn listen() -> (TempDir, PathBuf, UnixListener) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("control");
        let listener = UnixListener::bind(&path).unwrap();
        (directory, path, listener)
    }

    fn drain(mut stream: UnixStream) {
        let _ = io::copy(&mut stream, &mut io::sink());
    }

    #[test]
    fn any_listener_yields_an_answer_in_bounded_time() {
        assert!(check(drain).contains("silent for 0.3 s"));
        // The request may find no peer, or be thrown away, or get no answer.
        let gone = check(drop);
        assert!(["before it answered", "reset", "Broken pipe"].iter().any(|why| gone.contains(why)), "{gone}");
        let dribbling = check(|mut stream| {
            while stream.write_all(b"x").is_ok() {
                thread::sleep(Duration::from_millis(20));
            }
        });
        assert!(dribbling.contains("silent for"), "{dribbling}");
        let endless = check(|mut stream| while stream.write_all(&[b'x'; 1 << 16]).is_ok() {});
        assert!(endless.contains("without end") || endless.contains("silent for"), "{endless}");
        let nonsense = check(|mut stream| {
            stream.write_all(b"{\"version\":7}\n").unwrap();
            drain(stream);
        });
        assert!(nonsense.contains("not of this version"), "{nonsense}");
        let refused = check(|mut stream| {
            stream.write_all(b"{\"version\":1,\"answer\":{\"error\":\"no such thing\"}}\n").unwrap();
            drain(stream);
        });
        assert!(refused.contains("no such thing"), "{refused}");
    }

    #[test]
    fn pending_answers_are_waited_for() {
        let (_directory, path, listener) = listen();
        let server = thread::spawn(move || {
            let mut stream = listener.accept().unwrap().0;
            for _ in 0..4 {
                thread::sleep(Duration::from_millis(150));
                stream.write_all(b"{\"version\":1,\"answer\":\"pending\"}\n").unwrap();
            }
            stream
                .write_all(b"{\"version\":1,\"answer\":{\"refreshed\":{\"generation\":2,\"changed\":1,\"files\":3}}}\n")
                .unwrap();
        });
        let answer = ask_within(&path, Command::Refresh(Vec::new()), Duration::from_millis(400)).unwrap();
        server.join().unwrap();
        assert!(matches!(answer, Answer::Refreshed(refreshed) if refreshed.generation == 2));
    }

    #[test]
    fn a_missing_daemon_is_reported() {
        let (directory, path, listener) = listen();
        drop(listener);
        let error = format!("{:#}", ask(&path, Command::Stats).unwrap_err());
        assert!(error.contains("no daemon listens there") && error.contains("control"), "{error}");
        let error = format!("{:#}", ask(&directory.path().join("x"), Command::Stats).unwrap_err());
        assert!(error.contains("no daemon listens there"), "{error}");
        let full = UnixListener::bind(directory.path().join("full")).unwrap();
        let waiting: Vec<_> =
            std::iter::from_fn(|| connect(&directory.path().join("full"), Duration::from_millis(50)).ok())
                .take(10_000)
                .collect();
        assert!(waiting.len() < 10_000, "a queue without a reader fills up");
        drop(full);
    }
}
