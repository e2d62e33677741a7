//! The C library and the headers that releases are built against: those of Debian 11, the oldest that Debian carries.
//!
//! Its glibc is 2.31. `release` checks that no file needs a symbol newer than the supported 2.28.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::roots::mirror;
use crate::shell::Shell;
use crate::system::Architecture;

const SUITE: &str = "bullseye";
/// The C library, the kernel's headers, and what the integrations are compiled against.
const PACKAGES: &[&str] = &["libc6", "libc6-dev", "linux-libc-dev", "libslurm-dev", "libfabric1", "libfabric-dev"];

/// Downloads and unpacks it, unless it is there.
pub fn install(shell: &Shell, architecture: Architecture) -> Result<()> {
    let root = shell.path(architecture.sysroot());
    if root.exists() {
        return Ok(());
    }
    let work = root.with_extension("partial");
    if work.exists() {
        std::fs::remove_dir_all(&work)?;
    }
    let apt = Apt::new(shell, work.join("apt"), architecture)?;
    shell.run(apt.command("update").arg("-q"))?;
    let archives = work.join("archives");
    std::fs::create_dir_all(&archives)?;
    shell.run(
        apt.command("download").args(["-q", "-o", "APT::Sandbox::User=root"]).args(PACKAGES).current_dir(&archives),
    )?;
    let unpacked = work.join("root");
    for entry in std::fs::read_dir(&archives)? {
        shell.run(shell.command("dpkg-deb").arg("-x").arg(entry?.path()).arg(&unpacked))?;
    }
    lead_inside(&unpacked, &unpacked)?;
    std::fs::rename(&unpacked, &root)?;
    std::fs::remove_dir_all(work).context("what was downloaded")
}

/// apt with directories of its own, and the sources of one suite.
struct Apt<'a> {
    shell: &'a Shell,
    options: Vec<String>,
}

impl Apt<'_> {
    fn new(shell: &Shell, directory: PathBuf, architecture: Architecture) -> Result<Apt<'_>> {
        for part in ["state/lists/partial", "cache/archives/partial"] {
            std::fs::create_dir_all(directory.join(part))?;
        }
        let (sources, status) = (directory.join("sources.list"), directory.join("state/status"));
        std::fs::write(&sources, format!("deb {} {SUITE} main\n", mirror(shell)?))?;
        std::fs::write(&status, "")?;
        let name = architecture.debian();
        let options = [
            format!("Dir::Etc::sourcelist={}", sources.display()),
            "Dir::Etc::sourceparts=/nonexistent".into(),
            format!("Dir::State={}", directory.join("state").display()),
            format!("Dir::State::status={}", status.display()),
            format!("Dir::Cache={}", directory.join("cache").display()),
            format!("APT::Architecture={name}"),
            format!("APT::Architectures::={name}"),
        ];
        Ok(Apt { shell, options: options.into() })
    }

    fn command(&self, verb: &str) -> std::process::Command {
        let mut command = self.shell.command("apt-get");
        command.args(self.options.iter().flat_map(|option| ["-o", option])).arg(verb);
        command
    }
}

/// Makes absolute links relative, since they mean files below `root`.
fn lead_inside(root: &Path, directory: &Path) -> Result<()> {
    for entry in std::fs::read_dir(directory)? {
        let (entry, kind) = entry.and_then(|entry| Ok((entry.path(), entry.file_type()?)))?;
        if kind.is_dir() {
            lead_inside(root, &entry)?;
        } else if kind.is_symlink()
            && let Ok(target) = std::fs::read_link(&entry)?.strip_prefix("/")
        {
            let up = directory.strip_prefix(root)?.components().map(|_| "..").collect::<PathBuf>();
            ensure!(!target.as_os_str().is_empty(), "{} leads to the root", entry.display());
            std::fs::remove_file(&entry)?;
            std::os::unix::fs::symlink(up.join(target), &entry)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absolute_links_lead_inside() {
        let root = tempfile::tempdir().unwrap();
        let library = root.path().join("usr/lib");
        std::fs::create_dir_all(&library).unwrap();
        std::fs::create_dir(root.path().join("lib")).unwrap();
        std::fs::write(root.path().join("lib/libdl.so.2"), "here").unwrap();
        std::os::unix::fs::symlink("/lib/libdl.so.2", library.join("libdl.so")).unwrap();
        std::os::unix::fs::symlink("libdl.so", library.join("same.so")).unwrap();
        lead_inside(root.path(), root.path()).unwrap();
        assert_eq!(std::fs::read_link(library.join("libdl.so")).unwrap(), Path::new("../../lib/libdl.so.2"));
        assert_eq!(std::fs::read_to_string(library.join("same.so")).unwrap(), "here");
    }
}
