//! Notifies the service manager (sd_notify(3)).

use std::env;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::message::log;

/// The longest status in bytes; systemd shows one line.
const STATUS_BYTES_MAX: usize = 512;

/// Returns whether a service manager waits for messages.
pub fn is_wanted() -> bool {
    env::var_os("NOTIFY_SOCKET").is_some()
}

/// Reports that the service is up, with its status.
pub fn ready(status: &str) {
    send(&format!("READY=1\n{}", line(status)));
}

/// Reports the service's status, which `systemctl status` shows.
pub fn status(status: &str) {
    send(&line(status));
}

fn line(status: &str) -> String {
    let one_line: String = status.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let end = one_line.floor_char_boundary(STATUS_BYTES_MAX);
    format!("STATUS={}", &one_line[..end])
}

/// Sends a message to the service manager, if NOTIFY_SOCKET names one. The first failure is reported.
fn send(message: &str) {
    static HAS_WARNED: AtomicBool = AtomicBool::new(false);
    let Some(name) = env::var_os("NOTIFY_SOCKET") else { return };
    let address = match name.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(&name),
    };
    let sent = address.and_then(|address| UnixDatagram::unbound()?.send_to_addr(message.as_bytes(), &address));
    if let Err(error) = sent
        && !HAS_WARNED.swap(true, Ordering::Relaxed)
    {
        log(format_args!("warning: the service manager at {} can't be notified: {error}", name.display()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_one_short_line() {
        assert_eq!(line("no reader:\nREADY=1"), "STATUS=no reader: READY=1");
        let long = line(&"é".repeat(STATUS_BYTES_MAX));
        assert_eq!(long.len(), "STATUS=".len() + STATUS_BYTES_MAX);
    }
}
