//! Pressure stall information: the time lost to waiting for memory (the kernel's `Documentation/accounting/psi.rst`).

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};

/// The kernel's alarm: 200 ms of waiting within two seconds. Shorter windows need a privilege.
const TRIGGER: &[u8] = b"some 200000 2000000\0";

/// The file of one group, or of the machine.
#[derive(Debug)]
pub(crate) struct Stall {
    file: File,
}

impl Stall {
    /// Opens the file, and wakes the event loop by `token` on alarms if this user may request them. `None` if the
    /// kernel has no such information.
    pub(crate) fn open(path: &Path, registry: &Registry, token: Token) -> Option<Stall> {
        match Stall::with_trigger(path, registry, token) {
            Ok(stall) => Some(stall),
            Err(error) => {
                tracing::debug!(path = %path.display(), %error, "the kernel sends no alarms when memory is short");
                let stall = Stall { file: File::open(path).ok()? };
                // If it is switched off at boot, the file exists but can't be read.
                stall.percent().map(|_| stall)
            }
        }
    }

    fn with_trigger(path: &Path, registry: &Registry, token: Token) -> io::Result<Stall> {
        let mut file = File::options().read(true).write(true).custom_flags(libc::O_NONBLOCK).open(path)?;
        file.write_all(TRIGGER)?;
        registry.register(&mut SourceFd(&file.as_raw_fd()), token, Interest::PRIORITY)?;
        Ok(Stall { file })
    }

    /// Returns the percentage of the last ten seconds in which a task waited.
    pub(crate) fn percent(&self) -> Option<f32> {
        let mut text = [0; 256];
        let bytes = self.file.read_at(&mut text, 0).ok()?;
        percent(std::str::from_utf8(&text[..bytes]).ok()?)
    }
}

fn percent(text: &str) -> Option<f32> {
    let some = text.lines().find_map(|line| line.strip_prefix("some "))?;
    some.split_whitespace().find_map(|field| field.strip_prefix("avg10="))?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_ten_seconds_are_read() {
        let text = "some avg10=12.34 avg60=1.00 avg300=0.00 total=1\nfull avg10=5.00 avg60=0.00 avg300=0.00 total=1\n";
        assert_eq!(percent(text), Some(12.34));
        for odd in ["", "full avg10=5.00", "some avg60=1.00", "some avg10=x"] {
            assert_eq!(percent(odd), None, "{odd}");
        }
    }

    #[test]
    fn the_machines_file_is_read_if_there_is_one() {
        let poll = mio::Poll::new().unwrap();
        let Some(stall) = Stall::open(Path::new("/proc/pressure/memory"), poll.registry(), Token(1)) else {
            return eprintln!("skipped: this kernel counts no stalls");
        };
        assert!((0.0..=100.0).contains(&stall.percent().unwrap()));
        assert!(Stall::open(Path::new("/nonexistent"), poll.registry(), Token(2)).is_none());
    }
}
