//! stress-ng's stressors of files, each for some seconds, with their results verified. The program is copied, and its
//! temporary files are in the scope.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::debian;
use super::outcomes::{FAILED, Outcomes, PASSED, SKIPPED};
use crate::shell::{Finished, Shell};

/// Those of the class `filesystem`, and others that work on files or map them. Left out is what changes the machine:
/// mounts, quotas, network.
const STRESSORS: &[&str] = &[
    "access",
    "aio",
    "chattr",
    "chdir",
    "chmod",
    "chown",
    "chroot",
    "copy-file",
    "dentry",
    "dir",
    "dirdeep",
    "dirmany",
    "dnotify",
    "dup",
    "env",
    "exec",
    "eventfd",
    "fallocate",
    "fanotify",
    "fcntl",
    "fiemap",
    "file-ioctl",
    "filename",
    "flock",
    "fork",
    "fpunch",
    "fsize",
    "fstat",
    "full",
    "getdent",
    "handle",
    "hdd",
    "inode-flags",
    "inotify",
    "io",
    "iomix",
    "lease",
    "link",
    "locka",
    "lockf",
    "lockofd",
    "madvise",
    "mincore",
    "mknod",
    "mmap",
    "mmapaddr",
    "mmapfork",
    "mmaphuge",
    "mmapmany",
    "mremap",
    "msync",
    "munmap",
    "null",
    "open",
    "pidfd",
    "pipe",
    "pkey",
    "procfs",
    "readahead",
    "remap",
    "rename",
    "resources",
    "revio",
    "seek",
    "sendfile",
    "sigsegv",
    "splice",
    "symlink",
    "sync-file",
    "tee",
    "touch",
    "tmpfs",
    "unshare",
    "utime",
    "vfork",
    "vm-splice",
    "xattr",
    "zombie",
];
/// Quick ones of each kind.
pub const SHORT: &[&str] = &["access", "flock", "link", "rename"];
const SECONDS: &str = "1";

/// The exit status of stress-ng if a stressor can't do its work on this machine.
const NOT_POSSIBLE: [i32; 2] = [3, 4];

pub fn prepare(_shell: &Shell, directory: &Path) -> Result<()> {
    debian::once(directory, "stress-ng", || {
        fs::copy("/usr/bin/stress-ng", directory.join("stress-ng")).context("the package stress-ng is missing")?;
        Ok(())
    })
}

pub fn units(_directory: &Path) -> Result<Vec<String>> {
    Ok(STRESSORS.iter().map(|&stressor| stressor.to_owned()).collect())
}

pub fn command(shell: &Shell, directory: &Path, unit: &str) -> Command {
    let mut command = shell.command(directory.join("stress-ng"));
    command.arg(format!("--{unit}")).args(["2", "--verify", "--timeout", SECONDS, "--temp-path"]);
    command.arg(directory.join("tmp")).current_dir(directory);
    command
}

pub fn outcomes(_directory: &Path, unit: &str, finished: &Finished) -> Outcomes {
    let skips = finished.output.contains("skipping stressor") || finished.output.contains("stressor will be skipped");
    let outcome = match finished.status.code() {
        Some(0) if finished.output.contains("stress-ng: fail:") => FAILED,
        Some(0) if skips => SKIPPED,
        Some(0) => PASSED,
        Some(status) if NOT_POSSIBLE.contains(&status) => SKIPPED,
        _ => FAILED,
    };
    Outcomes::from([(unit.to_owned(), outcome.to_owned())])
}
