//! Standard input as a lifeline: the starter of a daemon also ends it.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, OwnedFd};

use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use serde::de::DeserializeOwned;
use zeroize::Zeroizing;

/// The longest configuration, in bytes: room for a million addresses.
const CONFIG_BYTES_MAX: u64 = 64 << 20;
/// The longest command line.
const LINE_BYTES_MAX: usize = 256;

/// The lifeline.
#[derive(Debug)]
pub struct Control {
    /// `None` once it has ended, if `owner` is there.
    input: Option<File>,
    received: Vec<u8>,
    /// A pipe that closes when the session's owner ends, if the process at `input` may end before.
    owner: Option<File>,
}

/// A command on the lifeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Finish, with a report.
    Stop,
    /// End at once, and leave all to a successor.
    HandOver,
    /// Continue when the starter ends.
    Detach,
    /// The starter has ended: finish.
    Orphaned,
}

impl Control {
    /// Waits for the configuration and returns it; the rest of `input` becomes the lifeline.
    pub fn start<T: DeserializeOwned>(input: OwnedFd) -> io::Result<(T, Control)> {
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
        Ok((config, Control { input: Some(input), received: line[end + 1..].to_vec(), owner: None }))
    }

    /// Creates a lifeline after the configuration.
    pub fn new(input: OwnedFd) -> Control {
        Control { input: Some(File::from(input)), received: Vec::new(), owner: None }
    }

    /// Delays [`Command::Orphaned`] until `owner` has ended as well.
    pub fn owned_by(self, owner: OwnedFd) -> Control {
        Control { owner: Some(File::from(owner)), ..self }
    }

    /// Registers the lifeline's files with the event loop.
    pub fn register(&self, registry: &Registry, token: Token) -> io::Result<()> {
        for file in self.files() {
            rustix::io::ioctl_fionbio(file, true)?;
            registry.register(&mut SourceFd(&file.as_raw_fd()), token, Interest::READABLE)?;
        }
        Ok(())
    }

    /// Returns the files to watch.
    pub fn files(&self) -> impl Iterator<Item = &File> {
        self.input.iter().chain(&self.owner)
    }

    /// Returns the next command, if there is one. The files must not block.
    pub fn command(&mut self) -> Option<Command> {
        while let Some(input) = &mut self.input {
            if let Some(command) = next_line(&mut self.received) {
                return Some(command);
            }
            match receive(input, &mut self.received) {
                Ok(true) => {}
                Ok(false) => break,
                Err(_) if self.owner.is_none() => return Some(Command::Orphaned),
                Err(_) => self.input = None,
            }
        }
        // While `input` is open, the process at its other end watches the owner.
        let owner = self.owner.as_mut().filter(|_| self.input.is_none())?;
        // Nothing is ever written into the pipe.
        receive(owner, &mut Vec::new()).is_err().then_some(Command::Orphaned)
    }
}

/// Reads once. Returns false if there is nothing now; fails at the end.
fn receive(file: &mut File, received: &mut Vec<u8>) -> io::Result<bool> {
    let mut buffer = [0; LINE_BYTES_MAX];
    match file.read(&mut buffer) {
        Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
        Ok(_) if received.len() > LINE_BYTES_MAX => Err(io::ErrorKind::InvalidData.into()),
        Ok(bytes) => {
            received.extend_from_slice(&buffer[..bytes]);
            Ok(true)
        }
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => receive(file, received),
        Err(error) => Err(error),
    }
}

/// Returns the next known command.
fn next_line(received: &mut Vec<u8>) -> Option<Command> {
    while let Some(end) = received.iter().position(|&b| b == b'\n') {
        let line: Vec<u8> = received.drain(..=end).collect();
        match line.trim_ascii() {
            b"stop" => return Some(Command::Stop),
            b"hand over" => return Some(Command::HandOver),
            b"detach" => return Some(Command::Detach),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn pipe() -> (OwnedFd, File) {
        let (read, write) = rustix::pipe::pipe().unwrap();
        rustix::io::ioctl_fionbio(&read, true).unwrap();
        (read, write.into())
    }

    #[test]
    fn lines_and_the_end_are_commands() {
        let (read, mut write) = pipe();
        let mut control = Control::new(read);
        assert_eq!(control.command(), None);
        write.write_all(b"nonsense\nstop\nhand o").unwrap();
        assert_eq!((control.command(), control.command()), (Some(Command::Stop), None));
        write.write_all(b"ver\n").unwrap();
        drop(write);
        assert_eq!((control.command(), control.command()), (Some(Command::HandOver), Some(Command::Orphaned)));
    }

    #[test]
    fn with_an_owner_the_end_of_both_counts() {
        for owner_first in [false, true] {
            let ((read, write), (owner_read, owner_write)) = (pipe(), pipe());
            let mut control = Control::new(read).owned_by(owner_read);
            let (first, second) = if owner_first { (owner_write, write) } else { (write, owner_write) };
            drop(first);
            assert_eq!(control.command(), None);
            drop(second);
            assert_eq!(control.command(), Some(Command::Orphaned));
        }
    }
}
