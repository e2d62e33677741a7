//! Packages of any release of Debian, downloaded and unpacked without root and without a change of the machine's apt.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::roots::mirror;
use crate::shell::Shell;
use crate::system::Architecture;

/// Unpacks these packages of the suite to `to`, which must not exist yet. Directories beside it are used meanwhile.
pub fn unpack(shell: &Shell, suite: &str, architecture: Architecture, packages: &[&str], to: &Path) -> Result<()> {
    let work = to.with_extension("partial");
    if work.exists() {
        std::fs::remove_dir_all(&work)?;
    }
    let apt = Apt::new(shell, work.join("apt"), suite, architecture)?;
    shell.run(apt.command("update").arg("-q"))?;
    let archives = work.join("archives");
    std::fs::create_dir_all(&archives)?;
    shell.run(
        apt.command("download").args(["-q", "-o", "APT::Sandbox::User=root"]).args(packages).current_dir(&archives),
    )?;
    let unpacked = work.join("root");
    for entry in std::fs::read_dir(&archives)? {
        shell.run(shell.command("dpkg-deb").arg("-x").arg(entry?.path()).arg(&unpacked))?;
    }
    lead_inside(&unpacked, &unpacked)?;
    std::fs::rename(&unpacked, to)?;
    std::fs::remove_dir_all(work).context("what was downloaded")
}

/// apt with directories of its own, and the sources of one suite.
struct Apt<'a> {
    shell: &'a Shell,
    options: Vec<String>,
}

impl Apt<'_> {
    fn new<'a>(shell: &'a Shell, directory: PathBuf, suite: &str, architecture: Architecture) -> Result<Apt<'a>> {
        for part in ["state/lists/partial", "cache/archives/partial"] {
            std::fs::create_dir_all(directory.join(part))?;
        }
        let (sources, status) = (directory.join("sources.list"), directory.join("state/status"));
        std::fs::write(&sources, format!("deb {} {suite} main\n", mirror(shell)?))?;
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
            "Acquire::Languages=none".into(),
            // A mirror's index may be past the date until which it states that it is valid.
            "Acquire::Check-Valid-Until=false".into(),
            // Without a network it fails at once.
            "Acquire::Retries=1".into(),
            "Acquire::http::Timeout=10".into(),
            "Acquire::https::Timeout=10".into(),
        ];
        Ok(Apt { shell, options: options.into() })
    }

    fn command(&self, verb: &str) -> Command {
        let mut command = self.shell.command("apt-get");
        // `update` succeeds where an index is missing, unless this is set.
        command.args(["-o", "APT::Update::Error-Mode=any"]);
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
