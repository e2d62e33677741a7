//! Packets between a proxy and the owner, with descriptors.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};

/// Limit of descriptors in a packet; the kernel's is 253.
pub const FDS_MAX: usize = 250;
/// Limit of a packet, in bytes.
pub const BYTES_MAX: usize = 8192;

/// A packet of the owner to a proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A zygote is ready, and the rank starts on [`GO`]. The zygote has not imported these modules, each with the
    /// reason.
    Ready(Vec<String>),
    /// The rank has started. The packet has its pidfd.
    Started,
    /// The rank was not started; the reason.
    Refused(String),
    /// The user's options can't be fulfilled; the reason.
    Wrong(String),
    /// The rank was stopped.
    Stopped,
    /// The rank has ended with this exit code.
    Exited(u8),
    /// This signal ended the rank.
    Killed(u8),
}

/// The packet by which a proxy starts its rank.
pub const GO: &[u8] = b"go";

impl Answer {
    /// Encodes the answer.
    pub fn encode(&self) -> Vec<u8> {
        let text =
            |kind: &[u8], text: &str| [kind, &text.as_bytes()[..text.floor_char_boundary(BYTES_MAX - 1)]].concat();
        match self {
            Answer::Ready(left_out) => text(b"r", &left_out.join("\n")),
            Answer::Started => b"s".to_vec(),
            Answer::Refused(why) => text(b"n", why),
            Answer::Wrong(why) => text(b"w", why),
            Answer::Stopped => b"t".to_vec(),
            Answer::Exited(code) => vec![b'e', *code],
            Answer::Killed(signal) => vec![b'k', *signal],
        }
    }

    /// Decodes an answer; `None` if it is malformed.
    pub fn decode(bytes: &[u8]) -> Option<Answer> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match *bytes {
            [b'r', ref lines @ ..] => Some(Answer::Ready(text(lines).lines().map(str::to_owned).collect())),
            [b's'] => Some(Answer::Started),
            [b'n', ref why @ ..] => Some(Answer::Refused(text(why))),
            [b'w', ref why @ ..] => Some(Answer::Wrong(text(why))),
            [b't'] => Some(Answer::Stopped),
            [b'e', code] => Some(Answer::Exited(code)),
            [b'k', signal] => Some(Answer::Killed(signal)),
            _ => None,
        }
    }
}

fn socket() -> io::Result<OwnedFd> {
    Ok(rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

/// Connects to the socket at `path`.
pub fn connect(path: &Path) -> io::Result<OwnedFd> {
    let socket = socket()?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}

/// Listens at `path`, with a queue of `waiting_max` connections.
pub fn listen(path: &Path, waiting_max: i32) -> io::Result<OwnedFd> {
    let socket = socket()?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    rustix::net::listen(&socket, waiting_max)?;
    Ok(socket)
}

/// Sends a packet. `waits`: blocks while the queue is full.
pub fn send(socket: &OwnedFd, bytes: &[u8], fds: &[BorrowedFd], waits: bool) -> io::Result<()> {
    let mut space = vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let flags = if waits { SendFlags::NOSIGNAL } else { SendFlags::NOSIGNAL | SendFlags::DONTWAIT };
    loop {
        match rustix::net::sendmsg(socket, &[IoSlice::new(bytes)], &mut control, flags) {
            Err(Errno::INTR) => {}
            sent => return sent.map(drop).map_err(io::Error::from),
        }
    }
}

/// Receives a packet and its descriptors; `None` if the connection is closed.
pub fn receive(socket: &OwnedFd) -> io::Result<Option<(Vec<u8>, Vec<OwnedFd>)>> {
    let mut space = vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
    let mut bytes = vec![0; BYTES_MAX];
    let (received, mut control) = loop {
        let mut control = RecvAncillaryBuffer::new(&mut space);
        match rustix::net::recvmsg(
            socket.as_fd(),
            &mut [IoSliceMut::new(&mut bytes)],
            &mut control,
            RecvFlags::CMSG_CLOEXEC,
        ) {
            Err(Errno::INTR) => {}
            received => break (received?, control),
        }
    };
    let messages = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(fds) => Some(fds),
        _ => None,
    });
    let fds: Vec<OwnedFd> = messages.flatten().collect();
    if received.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a packet was cut off"));
    }
    bytes.truncate(received.bytes);
    Ok((received.bytes > 0).then_some((bytes, fds)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_decoded_and_nothing_else() {
        let refused = Answer::Refused("it is linked statically".into());
        let ready = [&[][..], &["a: draws", "b: fails"]].map(|left| left.iter().map(|&line| line.to_owned()).collect());
        let others = [Answer::Started, refused, Answer::Wrong("no".into()), Answer::Stopped, Answer::Exited(3)];
        for answer in ready.map(Answer::Ready).into_iter().chain(others).chain([Answer::Killed(9)]) {
            assert_eq!(Answer::decode(&answer.encode()), Some(answer));
        }
        let long = Answer::Refused("é".repeat(BYTES_MAX)).encode();
        assert!(long.len() <= BYTES_MAX && Answer::decode(&long).is_some());
        for garbage in [&b""[..], b"x", b"e", b"e12", b"ss"] {
            assert_eq!(Answer::decode(garbage), None);
        }
    }
}
