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

/// Descriptors of one packet: the kernel takes 253.
pub const FDS_MAX: usize = 250;
/// Bytes of one packet.
pub const BYTES_MAX: usize = 8192;

/// What the owner says to a proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// There is a zygote: the rank is begun when the proxy says so. These modules it has not imported, and why.
    Ready(Vec<String>),
    /// It has begun. A descriptor of it comes along.
    Started,
    /// It was not begun; why.
    Refused(String),
    /// It can't be begun as the user has asked; why.
    Wrong(String),
    /// It was stopped.
    Stopped,
    /// It has ended with this exit code.
    Exited(u8),
    /// This signal ended it.
    Killed(u8),
}

/// What the proxy says after it was told that there is a zygote.
pub const GO: &[u8] = b"go";

impl Answer {
    /// The packet's bytes.
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

    /// The answer with these bytes; `None` if there is none.
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

/// Connects to who listens there.
pub fn connect(path: &Path) -> io::Result<OwnedFd> {
    let socket = socket()?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}

/// Listens there, for so many that wait.
pub fn listen(path: &Path, waiting_max: i32) -> io::Result<OwnedFd> {
    let socket = socket()?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    rustix::net::listen(&socket, waiting_max)?;
    Ok(socket)
}

/// Sends a packet. With `waits` there may have to be room for it first.
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

/// Receives a packet and its descriptors; `None` at the end.
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
    fn answers_are_understood_and_nothing_else() {
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
