//! Builds a release a second time, in another directory, and compares.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;

use crate::files;
use crate::shell::Shell;
use crate::system::Architecture;

/// A directory whose name has another length than the repository's.
const COPY: &str = "target/reproduced/in-another-directory";
/// What is downloaded, not built.
const DOWNLOADED: &[&str] = &["target/sysroot", "target/mpi"];

/// Builds the releases of these architectures in `target/releases` again, from a copy of the sources.
///
/// # Errors
/// A file differs from that in `target/releases`.
pub fn check(shell: &Shell, architectures: &[Architecture], build: impl FnOnce(&Shell) -> Result<()>) -> Result<()> {
    let copy = Shell { root: shell.path(COPY), ..shell.clone() };
    shell.step("copy of the sources", || copy_sources(shell, &copy.root))?;
    build(&copy)?;
    let others = Architecture::value_variants().iter().filter(|other| !architectures.contains(other));
    let others: Vec<&str> = others.map(|other| other.name()).collect();
    let different = compare(&shell.path("target/releases"), &copy.path("target/releases"), &others)?;
    let different: Vec<_> = different.iter().map(|path| path.display().to_string()).collect();
    ensure!(different.is_empty(), "two builds differ (the second one is in {COPY}):\n{}", different.join("\n"));
    println!("two builds in different directories are the same bytes");
    std::fs::remove_dir_all(&copy.root).context("the copy")
}

fn copy_sources(shell: &Shell, to: &Path) -> Result<()> {
    if to.exists() {
        std::fs::remove_dir_all(to)?;
    }
    let listed = ["ls-files", "--cached", "--others", "--exclude-standard", "--deduplicate"];
    for name in shell.run(shell.command("git").args(listed))?.lines() {
        // One that is deleted and not yet committed is listed, too.
        if shell.path(name).exists() {
            files::copy_if_changed(&shell.path(name), &to.join(name))?;
        }
    }
    for name in DOWNLOADED.iter().filter(|name| shell.path(name).exists()) {
        let into = to.join(name);
        std::fs::create_dir_all(into.parent().context("a path of several names")?)?;
        shell.run(shell.command("cp").arg("-a").arg(shell.path(name)).arg(into))?;
    }
    // In which a command for another architecture is built.
    Ok(std::os::unix::fs::symlink(shell.path("target/roots"), to.join("target/roots"))?)
}

/// The paths, below both, of files that only one has or that differ. What was built on the way, and releases of `others`
/// that were left by earlier builds, are not compared.
fn compare(first: &Path, second: &Path, others: &[&str]) -> Result<BTreeSet<PathBuf>> {
    let is_others =
        |path: &Path| path.iter().next().is_some_and(|name| others.iter().any(|o| name.to_string_lossy().contains(o)));
    let released = |root: &Path| -> Result<BTreeSet<PathBuf>> {
        let all = files::all(root)?.into_iter().filter_map(|path| path.strip_prefix(root).map(Path::to_owned).ok());
        // Beside the packages, the tree that all are made of, which shows the file at fault.
        let is_released = |path: &PathBuf| path.iter().count() == 1 || path.iter().nth(1) == Some("dist".as_ref());
        Ok(all.filter(|path| is_released(path) && !is_others(path)).collect())
    };
    let all = released(first)?.union(&released(second)?).cloned().collect::<Vec<_>>();
    ensure!(!all.is_empty(), "{} contains no release", first.display());
    let is_same = |path: &PathBuf| match (std::fs::read(first.join(path)), std::fs::read(second.join(path))) {
        (Ok(one), Ok(other)) => one == other,
        _ => false,
    };
    Ok(all.into_iter().filter(|path| !is_same(path)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_found() {
        let directory = tempfile::tempdir().unwrap();
        let (first, second) = (directory.path().join("1"), directory.path().join("2"));
        for root in [&first, &second] {
            std::fs::create_dir_all(root.join("x86_64/dist/bin")).unwrap();
            std::fs::create_dir_all(root.join("x86_64/spawn")).unwrap();
            std::fs::write(root.join("x86_64/dist/bin/same"), "a").unwrap();
            std::fs::write(root.join("x86_64/dist/bin/other"), root.display().to_string()).unwrap();
            std::fs::write(root.join("x86_64/spawn/stamp"), root.display().to_string()).unwrap();
        }
        std::fs::write(second.join("new.deb"), "").unwrap();
        std::fs::write(first.join("headwater-aarch64.tar.xz"), "").unwrap();
        let expected = ["new.deb", "x86_64/dist/bin/other"].map(PathBuf::from);
        assert_eq!(compare(&first, &second, &["aarch64"]).unwrap().into_iter().collect::<Vec<_>>(), expected);
        assert!(compare(directory.path(), directory.path(), &[]).is_err());
    }
}
