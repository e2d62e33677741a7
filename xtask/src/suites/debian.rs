//! Source packages of Debian: their tests are in no binary package.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::shell::Shell;

/// Debian's keyring, of the package that each Debian has.
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// The unpacked source package `name` of this machine's Debian, in a directory below `into`. The machine's own sources
/// of packages stay as they are.
pub fn source(shell: &Shell, name: &str, into: &Path) -> Result<PathBuf> {
    let unpacked = into.join("source");
    if unpacked.exists() {
        return Ok(unpacked);
    }
    let release = fs::read_to_string("/etc/os-release").context("this is no Debian")?;
    let codename = release.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="));
    let codename = codename.filter(|_| release.contains("\nID=debian")).context("this is no Debian")?;
    let (apt, parts) = (into.join("apt"), into.join("apt/parts"));
    fs::create_dir_all(apt.join("lists/partial"))?;
    fs::create_dir_all(&parts)?;
    // The machine's source of packages.
    let mut known = shell.command("apt-get");
    known.args(["indextargets", "--format", "$(REPO_URI) $(RELEASE)", "Created-By: Packages"]);
    let known = shell.run(&mut known)?;
    let server = known.lines().filter_map(|line| line.split_once(' ')).find(|(_, release)| *release == codename);
    let (server, _) = server.context("apt knows no server of this Debian's packages")?;
    let sources =
        format!("Types: deb-src\nURIs: {server}\nSuites: {codename}\nComponents: main\nSigned-By: {KEYRING}\n");
    fs::write(parts.join("source.sources"), sources)?;
    let get = |args: &[&str]| {
        let mut command = shell.command("apt-get");
        command.current_dir(&apt).arg("-q");
        command
            .args(["-o", "Dir::Etc::SourceList=/dev/null", "-o"])
            .arg(format!("Dir::Etc::SourceParts={}", parts.display()));
        command.arg("-o").arg(format!("Dir::State::Lists={}", apt.join("lists").display())).args(args);
        shell.run(&mut command)
    };
    get(&["update"])?;
    // Binaries may be newer than what this server has the source of.
    get(&["source", "--download-only", &format!("{name}/{codename}")])?;
    let Some(description) = with_extension(&apt, "dsc")? else { bail!("{name}: no source was fetched") };
    let partial = into.join("source.partial");
    let _ = fs::remove_dir_all(&partial);
    shell.run(shell.command("dpkg-source").args(["--no-check", "-x"]).arg(&description).arg(&partial))?;
    fs::rename(&partial, &unpacked)?;
    Ok(unpacked)
}

fn with_extension(directory: &Path, extension: &str) -> Result<Option<PathBuf>> {
    let mut entries = fs::read_dir(directory)?.filter_map(|entry| Some(entry.ok()?.path()));
    Ok(entries.find(|path| path.extension().is_some_and(|e| e == extension)))
}

/// Does `work` unless it has been done in this directory.
pub fn once(directory: &Path, what: &str, work: impl FnOnce() -> Result<()>) -> Result<()> {
    let done = directory.join(format!("{what}.done"));
    if !done.exists() {
        work()?;
        fs::write(&done, "")?;
    }
    Ok(())
}

/// Copies what lies in `from` into `to`, with links resolved, over existing files.
pub fn copy(shell: &Shell, from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<()> {
    fs::create_dir_all(to.as_ref())?;
    shell.run(shell.command("cp").arg("-RLp").arg(from.as_ref().join(".")).arg(to.as_ref()))?;
    Ok(())
}
