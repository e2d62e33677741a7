//! Enters a node's namespaces.

use std::env;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use anyhow::{Context, Result};
use headwater_supervisor::client;
use rustix::fs::{Mode, OFlags};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// Moves this process, which has one thread, into the namespaces of the supervisor at `socket`. The working directory
/// is opened again by its path; if that fails, it stays.
///
/// # Errors
/// The supervisor is gone or refuses, or the kernel refuses.
pub fn enter(socket: &Path) -> Result<()> {
    let namespaces = client::namespaces(socket)?;
    let path = env::current_dir();
    let directory = rustix::fs::open(".", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
    // The user namespace grants the rights to enter the mount namespace.
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
