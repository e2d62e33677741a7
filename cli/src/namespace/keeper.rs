//! The keeper of a RAM disk: a process in whose descriptors others find it, `/proc/PID/fd/N`.
//!
//! It knows nothing and does nothing, so that everybody of its user may look at it. The disk goes when it has gone
//! and the daemons have.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Stdio};

use anyhow::{Context, Result, ensure};
use rustix::io::FdFlags;

use crate::options::inner::KeepOptions;
use crate::{process, self_exec};

/// A disk's keeper, which ends with this.
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
    /// It can't be started, or `/proc` does not show what it has.
    pub fn start(root: BorrowedFd<'_>) -> Result<Keeper> {
        let number = root.as_raw_fd();
        let mut command = self_exec::command();
        command.args(["keep", &number.to_string()]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        // Nothing else is started meanwhile, so that the keeper alone inherits it.
        rustix::io::fcntl_setfd(root, FdFlags::empty())?;
        let spawned = command.spawn();
        rustix::io::fcntl_setfd(root, FdFlags::CLOEXEC)?;
        let mut process = spawned.context("headwater can't start itself")?;
        let (lifeline, output) = (process.stdin.take(), process.stdout.take());
        let path = PathBuf::from(format!("/proc/{}/fd/{number}", process.id()));
        let keeper = Keeper { process, lifeline, root: path };
        // It says something once it is what others see.
        let bytes = output.context("it has no standard output")?.read(&mut [0; 1]).context("it says nothing")?;
        ensure!(bytes == 1, "the keeper of the RAM disk has ended");
        let (seen, is) = (std::fs::metadata(keeper.root.join("."))?, rustix::fs::fstat(root)?);
        ensure!((seen.dev(), seen.ino()) == (is.st_dev, is.st_ino), "/proc does not show the keeper's descriptors");
        Ok(keeper)
    }

    /// Where processes find the disk's root.
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

/// `headwater keep`: has the descriptor until standard input ends.
///
/// # Errors
/// Standard output or input fails.
pub fn keep(options: &KeepOptions) -> Result<u8> {
    let _ = std::env::set_current_dir("/");
    // What ends the node's processes is no reason to end before them.
    let _ = rustix::process::setsid();
    process::close_but(options.root);
    io::stdout().write_all(b"\n")?;
    io::stdout().flush()?;
    let null: OwnedFd = std::fs::File::options().write(true).open("/dev/null")?.into();
    rustix::stdio::dup2_stdout(null.as_fd())?;
    io::copy(&mut io::stdin().lock(), &mut io::sink())?;
    Ok(0)
}
