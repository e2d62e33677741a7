//! Standard input as a lifeline: what starts a daemon also ends it.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, OwnedFd};

use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use zeroize::Zeroizing;

use crate::config::Config;

/// The longest configuration, in bytes: room for a million addresses.
const CONFIG_BYTES_MAX: u64 = 64 << 20;

/// The lifeline.
#[derive(Debug)]
pub(crate) struct Control {
    input: File,
    received: Vec<u8>,
}

/// What the lifeline says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    /// Finish, with a report.
    Stop,
    /// Whoever started the daemon is gone: finish.
    Orphaned,
}

impl Control {
    /// Reads the configuration, waiting for it, and makes the rest of `input` the lifeline.
    pub(crate) fn start(input: OwnedFd) -> io::Result<(Config, Control)> {
        let mut input = File::from(input);
        let mut line = Zeroizing::new(Vec::new());
        let mut buffer = Zeroizing::new([0; 16 << 10]);
        let end = loop {
            let bytes = input.read(&mut buffer[..])?;
            let before = line.len();
            line.extend_from_slice(&buffer[..bytes]);
            if let Some(end) = line[before..].iter().position(|&b| b == b'\n') {
                break before + end;
            }
            if bytes == 0 || line.len() as u64 > CONFIG_BYTES_MAX {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        };
        let config = serde_json::from_slice(&line[..end])?;
        Ok((config, Control { input, received: line[end + 1..].to_vec() }))
    }

    /// A lifeline whose configuration is known.
    pub(crate) fn new(input: OwnedFd) -> Control {
        Control { input: File::from(input), received: Vec::new() }
    }

    /// Has the event loop woken when something is said.
    pub(crate) fn register(&self, registry: &Registry, token: Token) -> io::Result<()> {
        rustix::io::ioctl_fionbio(&self.input, true)?;
        registry.register(&mut SourceFd(&self.input.as_raw_fd()), token, Interest::READABLE)
    }

    /// What has been said since the last call.
    pub(crate) fn command(&mut self) -> Option<Command> {
        let mut buffer = [0; 256];
        loop {
            while let Some(end) = self.received.iter().position(|&b| b == b'\n') {
                let line: Vec<u8> = self.received.drain(..=end).collect();
                if line.trim_ascii() == b"stop" {
                    return Some(Command::Stop);
                }
            }
            match self.input.read(&mut buffer) {
                Ok(0) => return Some(Command::Orphaned),
                Ok(_) if self.received.len() > buffer.len() => return Some(Command::Orphaned),
                Ok(bytes) => self.received.extend_from_slice(&buffer[..bytes]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return None,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Some(Command::Orphaned),
            }
        }
    }
}
