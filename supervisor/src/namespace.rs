//! Messages between the supervisor and the process that creates a namespace.
//!
//! The supervisor starts `headwater namespace` with a socket as standard input. Each message is one packet of JSON,
//! with descriptors:
//!
//! 1. to the child: [`Task`];
//! 2. from the child: [`Progress::Mounted`] with the device, the mount namespace and, if there is one, the
//!    user namespace, in this order;
//! 3. to the child, once the device is served: [`Serving`];
//! 4. from the child: [`Progress::Bound`], after which it reads blocks of large files ahead, and ends.
//!
//! [`Progress::Failed`] may replace either of the child's messages.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The longest message, in bytes.
const MESSAGE_BYTES_MAX: usize = 256 << 10;
/// The most descriptors beside a message.
const DESCRIPTORS_MAX: usize = 4;

/// The child's task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// The mount point, an empty directory. The file system shows all of `/`.
    pub view: PathBuf,
    /// The mount's source, as the mount table shows it.
    pub source: String,
    /// Make a user namespace as well.
    pub has_user_namespace: bool,
    /// Other users may enter.
    pub allows_others: bool,
    /// The largest READ, in bytes.
    pub read_bytes_max: u32,
    /// Included (`true`) and excluded directories; the longest match decides.
    pub scope: Vec<(bool, String)>,
}

/// To the child: the device is served, so the view is accessible.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Serving {
    /// False if it can't be served: then the child must end.
    pub is_served: bool,
    /// What the programs will probably read of large files, as lines of a closure.
    pub blocks: Vec<String>,
}

/// A message of the child.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Progress {
    /// The file system is mounted; its descriptors are attached.
    Mounted,
    /// The view is bound over every included directory.
    Bound,
    /// The task failed: cause and next step, for the user.
    Failed(String),
}

/// One end of the socket.
#[derive(Debug)]
pub struct Channel(OwnedFd);

impl Channel {
    /// Creates two connected ends, both closed on `exec`.
    pub fn pair() -> io::Result<(Channel, OwnedFd)> {
        let (own, other) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        Ok((Channel(own), other))
    }

    /// Returns the child's end: a duplicate of its standard input.
    pub fn of_stdin() -> io::Result<Channel> {
        Ok(Channel(io::stdin().as_fd().try_clone_to_owned()?))
    }

    /// Sends a message with descriptors.
    ///
    /// # Errors
    /// The socket's, such as that the other side has ended.
    pub fn send(&self, message: &impl Serialize, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        let packet = serde_json::to_vec(message)?;
        send_with_descriptors(self.0.as_fd(), &packet, descriptors)
    }

    /// Waits for the next message and its descriptors.
    ///
    /// # Errors
    /// [`io::ErrorKind::UnexpectedEof`] if the other side has ended, [`io::ErrorKind::InvalidData`] for an invalid
    /// message.
    pub fn receive<T: DeserializeOwned>(&self) -> io::Result<(T, Vec<OwnedFd>)> {
        let mut packet = vec![0; MESSAGE_BYTES_MAX];
        let (bytes, descriptors) = receive_with_descriptors(self.0.as_fd(), &mut packet)?;
        if bytes == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok((serde_json::from_slice(&packet[..bytes])?, descriptors))
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Sends bytes and descriptors in one message.
pub(crate) fn send_with_descriptors(
    socket: BorrowedFd<'_>,
    bytes: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let sent = sendmsg(socket, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL)?;
    if sent == bytes.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
}

/// Receives bytes, 0 at the end, and their descriptors, which are closed on `exec`.
pub(crate) fn receive_with_descriptors(socket: BorrowedFd<'_>, bytes: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = loop {
        match recvmsg(socket, &mut [IoSliceMut::new(bytes)], &mut control, RecvFlags::CMSG_CLOEXEC) {
            Err(rustix::io::Errno::INTR) => {}
            result => break result?.bytes,
        }
    };
    let rights = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(rights) => Some(rights),
        _ => None,
    });
    Ok((received, rights.flatten().collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_and_descriptors_arrive_together() {
        let (own, other) = Channel::pair().unwrap();
        let other = Channel(other);
        let (read, write) = rustix::pipe::pipe().unwrap();
        own.send(&Progress::Mounted, &[read.as_fd(), write.as_fd()]).unwrap();
        own.send(&Progress::Failed("no".into()), &[]).unwrap();
        let (progress, descriptors) = other.receive::<Progress>().unwrap();
        assert_eq!((progress, descriptors.len()), (Progress::Mounted, 2));
        rustix::io::write(&descriptors[1], b"x").unwrap();
        assert_eq!(rustix::io::read(&read, &mut [0u8; 8][..]).unwrap(), 1);
        assert_eq!(other.receive::<Progress>().unwrap().0, Progress::Failed("no".into()));
        drop(own);
        assert_eq!(other.receive::<Progress>().unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn something_else_is_an_error() {
        let (own, other) = Channel::pair().unwrap();
        own.send(&7, &[]).unwrap();
        assert!(Channel(other).receive::<Progress>().is_err());
    }
}
