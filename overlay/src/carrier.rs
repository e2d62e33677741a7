//! The program `headwater-fabric`, this daemon's child, which carries links over libfabric.
//!
//! On its end of a socket it announces the name of its endpoint, or why it has none, and receives orders. It ends with
//! this process or with the socket. Each order comes with one end of a stream (see `integrations/fabric/wire.h`).

use std::io::{self, IoSlice, Read};
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use headwater_abi::wire::{ENDPOINT_NAME_BYTES_MAX, Endpoint};
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType, sendmsg, socketpair,
};
use rustix::rand::{GetRandomFlags, getrandom};
use thiserror::Error;

use crate::session::Fabric;

/// How long it may take to announce its endpoint.
const START_MAX: Duration = Duration::from_secs(3);
/// The longest announcement: a letter, a length, the names of the provider and the endpoint.
const ANNOUNCEMENT_BYTES_MAX: usize = 2 + 255 + ENDPOINT_NAME_BYTES_MAX;

/// Why there is no carrier.
#[derive(Debug, Error)]
pub(crate) enum CarrierError {
    #[error("{0} can't be started: {1}. `headwater doctor` on the node reports more")]
    Start(String, io::Error),
    #[error("{0} ended at once; on the node, `ldd {0}` shows whether libfabric is there")]
    Ended(String),
    #[error("{0} has no endpoint after {s} s; FI_LOG_LEVEL=warn reports why", s = START_MAX.as_secs())]
    Late(String),
    #[error("{0}; `headwater doctor` on the node lists the providers")]
    Refused(String),
    #[error("{0} is of another version; install it with this version of headwater")]
    Unclear(String),
}

/// A carrier with an endpoint. Dropping it ends it and all of its streams.
#[derive(Debug)]
pub(crate) struct Carrier {
    process: Child,
    control: UnixStream,
    name: Vec<u8>,
}

impl Carrier {
    /// Starts it and waits for its announcement.
    pub(crate) fn start(fabric: &Fabric) -> Result<Carrier, CarrierError> {
        let program = fabric.carrier.display().to_string();
        let failed = |error: io::Error| CarrierError::Start(program.clone(), error);
        let (control, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
            .map_err(io::Error::from)
            .map_err(failed)?;
        let mut command = Command::new(&fabric.carrier);
        command.args(&fabric.provider).stdin(Stdio::from(theirs)).stdout(Stdio::null()).current_dir("/");
        let process = command.spawn().map_err(failed)?;
        // The command still has the other end.
        drop(command);
        let mut carrier = Carrier { process, control: control.into(), name: Vec::new() };
        carrier.name = carrier.receive_name(&program)?;
        tracing::info!(program, "links use libfabric if both ends have it");
        Ok(carrier)
    }

    fn receive_name(&mut self, program: &str) -> Result<Vec<u8>, CarrierError> {
        let mut announcement = [0; ANNOUNCEMENT_BYTES_MAX];
        let announced =
            self.control.set_read_timeout(Some(START_MAX)).and_then(|()| self.control.read(&mut announcement));
        match announced {
            Ok(0) => Err(CarrierError::Ended(program.into())),
            Ok(bytes) => parse_announcement(&announcement[..bytes], program),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(CarrierError::Late(program.into())),
            Err(error) => Err(CarrierError::Start(program.into(), error)),
        }
    }

    /// Returns true while it runs.
    pub(crate) fn is_alive(&mut self) -> bool {
        matches!(self.process.try_wait(), Ok(None))
    }

    /// Returns an endpoint for one link; `None` without random numbers.
    pub(crate) fn offer(&self) -> Option<Endpoint> {
        let mut number = [0; 8];
        let drawn = getrandom(&mut number, GetRandomFlags::empty()).ok()?;
        (drawn == number.len()).then(|| Endpoint { link: u64::from_le_bytes(number), name: self.name.clone() })
    }

    /// Orders a link between the offered endpoint `own` and the peer's. Returns its stream.
    pub(crate) fn carry(&mut self, own: &Endpoint, peer: &Endpoint) -> io::Result<mio::net::UnixStream> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let order = [b"L", &own.link.to_le_bytes()[..], &peer.link.to_le_bytes(), &peer.name].concat();
        let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut room);
        let theirs = [theirs.as_fd()];
        assert!(ancillary.push(SendAncillaryMessage::ScmRights(&theirs)), "there is room for one descriptor");
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        sendmsg(&self.control, &[IoSlice::new(&order)], &mut ancillary, flags)?;
        Ok(mio::net::UnixStream::from_std(ours))
    }
}

impl Drop for Carrier {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Parses an announcement: see `carry` in `integrations/fabric/carrier.h`.
fn parse_announcement(announcement: &[u8], program: &str) -> Result<Vec<u8>, CarrierError> {
    let name = match announcement {
        [b'E', why @ ..] => return Err(CarrierError::Refused(String::from_utf8_lossy(why).into_owned())),
        [b'N', length, rest @ ..] => rest.get(usize::from(*length)..),
        _ => None,
    };
    let name = name.filter(|name| (1..=ENDPOINT_NAME_BYTES_MAX).contains(&name.len()));
    name.map(<[u8]>::to_vec).ok_or_else(|| CarrierError::Unclear(program.into()))
}

/// Checks that a parsed name has a length that peers accept.
#[cfg(fuzzing)]
pub fn fuzz(announcement: &[u8]) {
    if let Ok(name) = parse_announcement(announcement, "carrier") {
        assert!(announcement.ends_with(&name) && (1..=ENDPOINT_NAME_BYTES_MAX).contains(&name.len()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn carriers_announce_names_or_reasons() {
        assert_eq!(parse_announcement(b"N\x03tcpname", "x").unwrap(), b"name");
        let why = parse_announcement(b"Eno provider", "x").unwrap_err().to_string();
        assert!(why.starts_with("no provider;"), "{why}");
        let long = [b"N\0".as_slice(), &[0; ENDPOINT_NAME_BYTES_MAX + 1]].concat();
        for garbage in [&b""[..], b"N", b"N\x03tcp", b"X\0name", &long] {
            assert!(matches!(parse_announcement(garbage, "x"), Err(CarrierError::Unclear(_))), "{garbage:?}");
        }
    }

    #[test]
    fn a_program_that_is_none_is_named() {
        let start = |carrier: &str| {
            let fabric = Fabric { carrier: carrier.into(), provider: None };
            Carrier::start(&fabric).unwrap_err()
        };
        assert!(matches!(start("/nonexistent/headwater-fabric"), CarrierError::Start(..)));
        assert!(matches!(start("/bin/true"), CarrierError::Ended(_)));
    }
}
