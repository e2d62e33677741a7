//! Checks of shared file systems and `ssh`.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::check::Check;
use crate::namespace::Found;

/// Types of file systems that nodes share, as in mount tables. `fuse.` types count, too, except local ones.
const NETWORK_TYPES: &[&str] = &[
    "nfs",
    "nfs4",
    "lustre",
    "gpfs",
    "beegfs",
    "beegfs_nodev",
    "ceph",
    "cifs",
    "smb3",
    "afs",
    "9p",
    "virtiofs",
    "orangefs",
    "pvfs2",
    "panfs",
    "wekafs",
    "ocfs2",
    "gfs2",
    "coda",
    "cvfs",
];
const LOCAL_FUSE_TYPES: &[&str] = &["fuse.headwater", "fuse.gvfsd-fuse", "fuse.portal", "fuse.lxcfs"];
/// Limit of listed file systems.
const LISTED_MAX: usize = 6;
/// The directory of files that ssh accepts only from root or its user, on Debian, Fedora and others.
const SSH_CONFIGURATION: &str = "/etc/ssh/ssh_config.d";

/// Checks for mounted network file systems.
pub fn file_systems() -> Check {
    const NAME: &str = "network file systems";
    // Only the table: a call on a file system without its server would hang.
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let found: Vec<String> = table.lines().filter_map(network_mount).collect();
    match found.len() {
        0 => Check::warning(NAME, "none is mounted", "name the directories that nodes share with --shared"),
        1..=LISTED_MAX => Check::ok(NAME, found.join(", ")),
        more => Check::ok(NAME, format!("{}, and {} more", found[..LISTED_MAX].join(", "), more - LISTED_MAX)),
    }
}

/// Returns the type of the network file system in which a path lies; `None` if it is a local one.
pub fn shared_type(path: &Path) -> Option<String> {
    let path = path.canonicalize().ok()?;
    let table = fs::read_to_string("/proc/self/mountinfo").ok()?;
    // The last of the longest mount points is the one that is seen.
    let mounts = table.lines().filter_map(mounted).filter(|(place, _)| path.starts_with(place));
    let (_, kind) = mounts.max_by_key(|(place, _)| place.len())?;
    is_network(kind).then(|| kind.to_owned())
}

/// Returns the mount point and type in a line of `/proc/self/mountinfo`, if it is a network file system.
fn network_mount(line: &str) -> Option<String> {
    let (place, kind) = mounted(line)?;
    is_network(kind).then(|| format!("{place} ({kind})"))
}

/// Returns the mount point and type in a line of `/proc/self/mountinfo`.
fn mounted(line: &str) -> Option<(&str, &str)> {
    let (mount, file_system) = line.split_once(" - ")?;
    Some((mount.split(' ').nth(4)?, file_system.split(' ').next()?))
}

fn is_network(kind: &str) -> bool {
    let is_fuse = kind.starts_with("fuse.") && !LOCAL_FUSE_TYPES.contains(&kind);
    NETWORK_TYPES.contains(&kind) || is_fuse
}

/// Checks whether `ssh` works in a user namespace, in which root's files belong to `nobody`.
pub fn ssh(found: &Found) -> Check {
    const NAME: &str = "ssh in a namespace";
    if !matches!(found, Found::Usable { needs_user_namespace: true, .. }) {
        return Check::ok(NAME, "not concerned: no user namespace is used");
    }
    match foreign_files(Path::new(SSH_CONFIGURATION)).first() {
        None => Check::ok(NAME, "works"),
        Some(file) => Check::warning(
            NAME,
            format!("refuses {}, which is another user's (\"Bad owner or permissions\")", file.display()),
            "use --via audit for scripts that call ssh, as --via auto does for programs that do",
        ),
    }
}

fn foreign_files(directory: &Path) -> Vec<PathBuf> {
    let own = rustix::process::geteuid().as_raw();
    let files = fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    files.filter(|file| fs::metadata(file).is_ok_and(|m| m.uid() != own)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_mounts_are_recognized_by_their_type() {
        let check = |line: &str, expected: Option<&str>| assert_eq!(network_mount(line).as_deref(), expected, "{line}");
        check("36 35 98:0 / /lustre rw - lustre 10.0.0.1@o2ib:/x rw", Some("/lustre (lustre)"));
        check("36 35 98:0 / /home rw shared:1 master:2 - nfs4 srv:/home rw", Some("/home (nfs4)"));
        check("36 35 98:0 / /cvmfs rw - fuse.cvmfs cvmfs rw", Some("/cvmfs (fuse.cvmfs)"));
        check("36 35 98:0 / /x rw - fuse.headwater headwater rw", None);
        check("36 35 98:0 / / rw - ext4 /dev/vda rw", None);
        check("nonsense", None);
    }

    #[test]
    fn files_of_others_are_found() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("own.conf"), "").unwrap();
        assert!(foreign_files(directory.path()).is_empty());
        assert!(foreign_files(Path::new("/nonexistent")).is_empty());
    }
}
