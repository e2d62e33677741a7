//! Going into a node's namespaces.

use std::env;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use anyhow::{Context, Result};
use headwater_supervisor::client;
use rustix::fs::{Mode, OFlags};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// Moves this process, which has one thread, into the namespaces that the supervisor at `socket`
/// keeps. The working directory is found again by its path; where that is not to be had, it stays
/// the directory that it was.
///
/// # Errors
/// The supervisor is gone or refuses, or the kernel does.
pub fn enter(socket: &Path) -> Result<()> {
    let namespaces = client::namespaces(socket)?;
    let path = env::current_dir();
    let directory = rustix::fs::open(".", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
    // With the rights that being in the user namespace gives, the mount namespace can be entered.
    if let Some(user) = namespaces.user {
        join(&user, LinkNameSpaceType::User).context("the user namespace can't be entered")?;
    }
    join(&namespaces.mount, LinkNameSpaceType::Mount).context("the mount namespace can't be entered")?;
    let has_returned = path.is_ok_and(|path| env::set_current_dir(path).is_ok());
    if let (false, Ok(directory)) = (has_returned, directory) {
        rustix::process::fchdir(directory).context("the working directory can't be entered again")?;
    }
    Ok(())
}

fn join(namespace: &OwnedFd, kind: LinkNameSpaceType) -> rustix::io::Result<()> {
    move_into_link_name_space(namespace.as_fd(), Some(kind))
}
