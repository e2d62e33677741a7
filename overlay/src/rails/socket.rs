//! Sockets that listen and connect on one interface.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, listen, socket_with, sockopt};

use super::interface::Interface;

/// Connections that the kernel queues before the daemon takes the listener over.
const WAITING_MAX: i32 = 128;

/// Listens on an interface, at this port or, if it is zero, at any.
pub fn listen_on(interface: &Interface, port: u16) -> io::Result<TcpListener> {
    let address = SocketAddr::new(interface.address, port);
    let socket = socket_with(family(address), SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    keep_to(&socket, &interface.name);
    bind(&socket, &address)?;
    listen(&socket, WAITING_MAX)?;
    Ok(socket.into())
}

/// Begins a connection from an interface, or from the one that the system's routes choose.
pub(super) fn connect_from(interface: Option<&Interface>, address: SocketAddr) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(family(address), SocketType::STREAM, flags, None)?;
    if let Some(interface) = interface {
        keep_to(&socket, &interface.name);
        bind(&socket, &SocketAddr::new(interface.address, 0))?;
    }
    match connect(&socket, &address) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
        Err(error) => Err(error.into()),
    }
}

fn family(address: SocketAddr) -> AddressFamily {
    if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 }
}

/// Has a socket use this interface alone (`SO_BINDTODEVICE`), where the system lets users do that. It matters where
/// several interfaces are on one network: the socket's address alone does not choose among them.
fn keep_to(socket: &impl AsFd, interface: &str) {
    let fd = socket.as_fd().as_raw_fd();
    let length = interface.len() as libc::socklen_t;
    // SAFETY: the kernel reads `length` bytes of `interface`, which lives for as long as the call.
    let result =
        unsafe { libc::setsockopt(fd, libc::SOL_SOCKET, libc::SO_BINDTODEVICE, interface.as_ptr().cast(), length) };
    if result != 0 {
        tracing::debug!(interface, error = %io::Error::last_os_error(), "the routes choose a socket's interface");
    }
}
