//! The keeper of a RAM disk: a process by whose descriptor, `/proc/PID/fd/N`, others reach it.
//!
//! It holds no secrets, so all processes of its user may inspect it. The kernel frees the disk after the keeper and the
//! daemons have ended.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Stdio};

use anyhow::{Context, Result, ensure};

use crate::options::inner::KeepOptions;
use crate::{process, self_exec};

/// A disk's keeper. It ends when this is dropped.
#[derive(Debug)]
pub struct Keeper {
    process: Child,
    lifeline: Option<ChildStdin>,
    root: PathBuf,
}

impl Keeper {
    /// Starts a keeper of the disk with this root directory.
    ///
    /// # Errors
    /// It can't be started, or `/proc` does not show its descriptor.
    pub fn start(root: BorrowedFd<'_>) -> Result<Keeper> {
        let number = root.as_raw_fd();
        let mut command = self_exec::command();
        command.args(["keep", &number.to_string()]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = process::spawn_with(&mut command, &[root]).context("headwater can't start itself")?;
        let (lifeline, output) = (process.stdin.take(), process.stdout.take());
        let path = PathBuf::from(format!("/proc/{}/fd/{number}", process.id()));
        let keeper = Keeper { process, lifeline, root: path };
        // It writes a byte once it is ready.
        let bytes = output
            .context("it has no standard output")?
            .read(&mut [0; 1])
            .context("its standard output can't be read")?;
        ensure!(bytes == 1, "the keeper of the RAM disk has ended");
        let (seen, is) = (std::fs::metadata(keeper.root.join("."))?, rustix::fs::fstat(root)?);
        ensure!((seen.dev(), seen.ino()) == (is.st_dev, is.st_ino), "/proc does not show the keeper's descriptors");
        Ok(keeper)
    }

    /// Returns the path of the disk's root.
    pub fn root(&self) -> &PathBuf {
        &self.root
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        drop(self.lifeline.take());
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// `headwater keep`: holds the descriptor until standard input ends.
///
/// # Errors
/// Standard output or input fails.
pub fn keep(options: &KeepOptions) -> Result<u8> {
    let _ = std::env::set_current_dir("/");
    // A signal to the node's processes must not end the keeper before them.
    let _ = rustix::process::setsid();
    process::close_but(options.root);
    io::stdout().write_all(b"\n")?;
    io::stdout().flush()?;
    let null: OwnedFd = std::fs::File::options().write(true).open("/dev/null")?.into();
    rustix::stdio::dup2_stdout(null.as_fd())?;
    io::copy(&mut io::stdin().lock(), &mut io::sink())?;
    Ok(0)
}
