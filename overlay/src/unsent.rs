//! Limits the unsent bytes of a socket.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Limits the unsent bytes that a socket accepts (`TCP_NOTSENT_LOWAT`). The default is some megabytes, which take
/// seconds on a slow shared link.
pub(crate) fn limit(socket: &impl AsFd, bytes: u32) -> io::Result<()> {
    let fd = socket.as_fd().as_raw_fd();
    let length = size_of::<u32>() as libc::socklen_t;
    // SAFETY: the kernel reads `length` bytes of `bytes`, which lives for as long as the call.
    let result =
        unsafe { libc::setsockopt(fd, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, (&raw const bytes).cast(), length) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_socket_buffers_little_that_the_peer_does_not_read() {
        let taken = |bytes: Option<u32>| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let mut socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let _peer = listener.accept().unwrap();
            if let Some(bytes) = bytes {
                limit(&socket, bytes).unwrap();
            }
            socket.set_nonblocking(true).unwrap();
            std::iter::from_fn(|| socket.write(&[0; 4096]).ok()).sum::<usize>()
        };
        let (limited, unlimited) = (taken(Some(16 << 10)), taken(None));
        assert!(limited + (64 << 10) < unlimited, "{limited} of {unlimited}");
    }
}
