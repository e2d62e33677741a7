//! Examines a peer without a link to it.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use headwater_abi::wire::{FRAME_BYTES_MAX, greeting_versions};

use crate::addresses::addresses_of;
use crate::buffer::Buffer;
use crate::noise::{Noise, NoiseError};
use crate::session::{LinkProtection, SessionId, SessionKey};

/// Bytes of a frame's length.
const LENGTH_BYTES: usize = 4;
/// Bytes that a peer sends until it has greeted, at most.
const RECEIVED_BYTES_MAX: usize = 2 << 10;

/// Connects to the daemon at `name`, a host and a port. Returns the release in its greeting: then it has proved the key.
/// Sends no greeting, so the peer has no link afterwards, and keeps those that it has.
///
/// # Errors
/// The cause, for a person, after `timeout` at the latest.
pub fn probe(name: &str, session: SessionId, key: &SessionKey, timeout: Duration) -> Result<String, String> {
    let addresses = addresses_of(name).map_err(|error| format!("its name has no address: {error}"))?;
    let deadline = Instant::now() + timeout;
    let mut failure = String::new();
    for address in addresses {
        match probe_at(address, session, key, deadline) {
            Err((is_last, why)) if !is_last => failure = format!("its address {address} can't be reached: {why}"),
            done => return done.map_err(|(_, why)| why),
        }
    }
    Err(failure)
}

/// Returns whether an error is of this peer, and not only of this address.
fn probe_at(
    address: SocketAddr,
    session: SessionId,
    key: &SessionKey,
    deadline: Instant,
) -> Result<String, (bool, String)> {
    let stream = TcpStream::connect_timeout(&address, left(deadline)).map_err(|error| (false, error.to_string()))?;
    greeting(stream, session, key, deadline).map_err(|why| (true, why))
}

/// Receives the peer's greeting; returns its release.
fn greeting(mut stream: TcpStream, session: SessionId, key: &SessionKey, deadline: Instant) -> Result<String, String> {
    let (mut plain, mut out, mut received) = (Buffer::default(), Buffer::default(), Buffer::default());
    let broken = |error: NoiseError| error.to_string();
    let mut noise = Noise::initiator(session, key, LinkProtection::Encrypt, &mut out).map_err(broken)?;
    stream.write_all(out.data()).map_err(|error| error.to_string())?;
    let mut total = 0;
    loop {
        while let Some(bytes) = noise.record(received.data(), false).map_err(broken)? {
            let record = received.data()[..bytes].to_vec();
            noise.receive(&record, &mut plain, &mut out).map_err(broken)?;
            received.consume(bytes);
        }
        if let Some(release) = release(plain.data())? {
            return Ok(release);
        }
        let bytes = receive(&mut stream, &mut received, deadline).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset if !noise.is_ready() => {
                "it does not prove the key: its key is another, or it serves another directory".into()
            }
            io::ErrorKind::UnexpectedEof => "it closed the connection before it greeted".into(),
            io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => "it accepts connections and does not answer".into(),
            _ => format!("the connection broke: {error}"),
        })?;
        total += bytes;
        if total > RECEIVED_BYTES_MAX {
            return Err("it sends no greeting: another program listens at its address".into());
        }
    }
}

/// Returns the release in a complete greeting.
fn release(plain: &[u8]) -> Result<Option<String>, String> {
    let Some((length, body)) = plain.split_first_chunk::<LENGTH_BYTES>() else { return Ok(None) };
    let bytes = u32::from_le_bytes(*length) as usize;
    let malformed = || "its greeting is of another version".to_owned();
    if bytes > FRAME_BYTES_MAX {
        return Err(malformed());
    }
    let Some(body) = body.get(..bytes) else { return Ok(None) };
    greeting_versions(body).map(|(_, release)| Some(release.into())).ok_or_else(malformed)
}

fn receive(stream: &mut TcpStream, into: &mut Buffer, deadline: Instant) -> io::Result<usize> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        let mut bytes = [0; 512];
        match stream.read(&mut bytes) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => {
                into.put(&bytes[..count]);
                return Ok(count);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Returns the time until the deadline; a moment after it.
fn left(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::thread;

    use headwater_abi::wire::{Message, RELEASE, VERSION};

    const SESSION: SessionId = SessionId(7);

    /// Probes a peer that behaves as `serve`.
    fn check(serve: impl FnOnce(TcpStream) + Send + 'static) -> Result<String, String> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let name = listener.local_addr().unwrap().to_string();
        let peer = thread::spawn(move || serve(listener.accept().unwrap().0));
        let result = probe(&name, SESSION, &SessionKey([1; 32]), Duration::from_millis(500));
        peer.join().unwrap();
        result
    }

    /// Does the handshake with this key, and then sends `plain`.
    fn answer(mut stream: TcpStream, key: u8, plain: &[u8]) {
        let mut noise = Noise::responder(SESSION, &SessionKey([key; 32]), LinkProtection::Encrypt);
        let (mut received, mut out) = (Buffer::default(), Buffer::default());
        while !noise.is_ready() {
            let mut bytes = [0; 64];
            let count = stream.read(&mut bytes).unwrap();
            received.put(&bytes[..count]);
            if let Some(bytes) = noise.record(received.data(), false).unwrap() {
                let record = received.data()[..bytes].to_vec();
                if noise.receive(&record, &mut Buffer::default(), &mut out).is_err() {
                    return;
                }
            }
        }
        noise.send(plain, &mut out).unwrap();
        stream.write_all(out.data()).unwrap();
        let _ = io::copy(&mut stream, &mut io::sink());
    }

    fn hello() -> Vec<u8> {
        let message = Message::Hello {
            version: VERSION,
            release: "9.9".into(),
            session: SESSION.0,
            rank: 0,
            forest: 0,
            is_child: false,
            endpoint: None,
        };
        let body = message.encode();
        [&(body.len() as u32).to_le_bytes()[..], &body].concat()
    }

    #[test]
    fn a_reader_proves_the_key_and_names_its_release() {
        assert_eq!(check(|stream| answer(stream, 1, &hello())), Ok("9.9".into()));
        let other_key = check(|stream| answer(stream, 2, &hello())).unwrap_err();
        assert!(other_key.contains("does not prove the key"), "{other_key}");
        assert_ne!(RELEASE, "9.9");
    }

    #[test]
    fn any_peer_yields_an_answer_in_bounded_time() {
        let refused = |why: &str, serve: fn(TcpStream)| {
            let begun = Instant::now();
            let error = check(serve).unwrap_err();
            assert!(error.contains(why), "{error}");
            assert!(begun.elapsed() < Duration::from_secs(10));
        };
        refused("does not prove the key", drop);
        refused("does not answer", |mut stream| drop(io::copy(&mut stream, &mut io::sink())));
        refused("no Noise", |mut stream| drop(stream.write_all(b"SSH-2.0-OpenSSH_9.6\r\n")));
        refused("another version", |stream| answer(stream, 1, &[0xff; 300]));
        refused("another version", |stream| answer(stream, 1, &[8, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 9, 9, 9, 9]));
        refused("does not answer", |stream| answer(stream, 1, &hello()[..9]));
        // A record of zeros that never ends.
        refused("", |mut stream| while stream.write_all(&[0; 512]).is_ok() {});
        let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        let error = probe(&closed, SESSION, &SessionKey([1; 32]), Duration::from_secs(1)).unwrap_err();
        assert!(error.contains("can't be reached: "), "{error}");
        let error = probe("no-such-host.invalid:1", SESSION, &SessionKey([1; 32]), Duration::from_secs(1)).unwrap_err();
        assert!(error.contains("has no address"), "{error}");
    }
}
