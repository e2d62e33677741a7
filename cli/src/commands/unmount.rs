//! `headwater unmount`: ends a mount and its session.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use headwater_fuse::mount::{Mounted, mounted};
use headwater_supervisor::client::{AskError, Refusal, Request, ask};
use rustix::io::Errno;

use crate::mount::options::UnmountOptions;
use crate::namespace::SUBTYPE;
use crate::session::mounts::{node_with, wait_until_gone};
use crate::session::stale_mounts::remove_stale_mounts;

/// Limit of processes that a message names.
const USERS_NAMED_MAX: usize = 5;

/// Unmounts, and waits until nothing is left; returns the exit status.
///
/// # Errors
/// Nothing of Headwater is mounted there, or it is in use.
pub fn unmount(options: &UnmountOptions) -> Result<u8> {
    remove_stale_mounts();
    let mount_point = absolute(&options.mount_point)?;
    let mounts = mounts_of(&mount_point)?;
    for mount in &mounts {
        let mount_point = mount.mount_point.as_path();
        let requested = match node_with(&mount.source, options.store.as_deref()) {
            Some(node) => ask(&node.supervisor(), if options.lazy { Request::Detach } else { Request::Stop }).map(drop),
            None => Err(AskError::Io(std::io::ErrorKind::NotFound.into())),
        };
        match requested {
            Ok(()) => {}
            Err(AskError::Refused(Refusal::Busy)) => return Err(busy(mount_point)),
            // Without a supervisor, the kernel unmounts and thereby ends the daemon.
            Err(AskError::Io(_)) => by_hand(mount_point, options.lazy)?,
            Err(error) => bail!("{} can't be unmounted: {error}", mount_point.display()),
        }
        wait_until_gone(mount_point)?;
    }
    Ok(0)
}

/// Resolves links of the path, except in the last name: a failing mount must not be accessed.
fn absolute(path: &Path) -> Result<PathBuf> {
    let shown = path.display();
    let path = std::path::absolute(path).with_context(|| format!("{shown} is not a path"))?;
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Ok(path) };
    let parent = parent.canonicalize().with_context(|| format!("there is no {shown}"))?;
    let joined = parent.join(name);
    // A link to the mount point is followed; the mount's own root is never one.
    Ok(fs::read_link(&joined).map(|target| parent.join(target)).unwrap_or(joined))
}

/// Returns the mounts at a directory, or those of a session's nodes in it.
fn mounts_of(mount_point: &Path) -> Result<Vec<Mounted>> {
    let all = mounted(SUBTYPE).context("the mount table can't be read")?;
    let whole = all.into_iter().filter(|mount| mount.root == Path::new("/"));
    let (here, others): (Vec<_>, Vec<_>) = whole.partition(|mount| mount.mount_point == mount_point);
    if !here.is_empty() {
        return Ok(here);
    }
    let nodes: Vec<Mounted> = others.into_iter().filter(|mount| is_node(mount, mount_point)).collect();
    if nodes.is_empty() {
        bail!("no Headwater mount is at {}. `findmnt -t fuse.{SUBTYPE}` lists the mounts", mount_point.display());
    }
    Ok(nodes)
}

fn is_node(mount: &Mounted, mount_point: &Path) -> bool {
    let node = mount.source.rsplit('/').next();
    mount.mount_point.parent() == Some(mount_point)
        && mount.mount_point.file_name().and_then(|name| name.to_str()) == node
}

fn by_hand(mount_point: &Path, lazy: bool) -> Result<()> {
    match headwater_fuse::mount::unmount(mount_point, lazy) {
        Err(error) if error.raw_os_error() == Some(Errno::BUSY.raw_os_error()) => Err(busy(mount_point)),
        result => result.with_context(|| format!("{} can't be unmounted", mount_point.display())),
    }
}

fn busy(mount_point: &Path) -> anyhow::Error {
    let shown = mount_point.display();
    let users = users(mount_point);
    let by = match users.len() {
        0 => String::new(),
        named if named <= USERS_NAMED_MAX => format!(" by {}", users.join(", ")),
        all => format!(" by {} and {} others", users[..USERS_NAMED_MAX].join(", "), all - USERS_NAMED_MAX),
    };
    anyhow!(
        "{shown} is in use{by}. End these processes, or detach it with `headwater unmount --lazy {shown}`: open files \
         stay readable"
    )
}

/// Returns the processes that use a mount by a directory, an open file or a mapping: `name (pid)`. Processes that this
/// user may not examine are missing.
fn users(mount_point: &Path) -> Vec<String> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let using = pids.filter(|pid| uses(&PathBuf::from(format!("/proc/{pid}")), mount_point));
    using
        .map(|pid| {
            let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            format!("{} ({pid})", name.trim_end())
        })
        .collect()
}

fn uses(process: &Path, mount_point: &Path) -> bool {
    let leads = |link: PathBuf| fs::read_link(link).is_ok_and(|target| target.starts_with(mount_point));
    let open = fs::read_dir(process.join("fd")).into_iter().flatten().flatten().map(|entry| entry.path());
    let maps = || fs::read_to_string(process.join("maps")).unwrap_or_default();
    ["cwd", "root", "exe"].iter().map(|name| process.join(name)).chain(open).any(leads)
        || maps()
            .lines()
            .filter_map(|line| line.find('/').map(|at| &line[at..]))
            .any(|file| Path::new(file).starts_with(mount_point))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_in_a_directory_are_named() {
        let directory = tempfile::tempdir().unwrap();
        let mount_point = directory.path().canonicalize().unwrap();
        assert_eq!(users(&mount_point), [""; 0]);
        fs::write(mount_point.join("f"), "x").unwrap();
        let file = fs::File::open(mount_point.join("f")).unwrap();
        let users = users(&mount_point);
        assert!(users.len() == 1 && users[0].ends_with(&format!("({})", std::process::id())), "{users:?}");
        drop(file);
    }

    #[test]
    fn nodes_are_recognized_by_their_directory_and_source() {
        let mount = |at: &str, source: &str| Mounted {
            mount_point: at.into(),
            source: source.into(),
            subtype: SUBTYPE.into(),
            root: "/".into(),
        };
        let check = |at: &str, source: &str| is_node(&mount(at, source), Path::new("/m"));
        assert!(check("/m/n1", "headwater:0123456789abcdef/n1"));
        assert!(!check("/m/n1", "headwater:0123456789abcdef/n2"));
        assert!(!check("/m/x/n1", "headwater:0123456789abcdef/n1"));
    }
}
