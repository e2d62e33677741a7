//! Packages of an installation tree; a script in `packaging/` makes each kind with the tools of its system.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::files;
use crate::shell::Shell;
use crate::system::Architecture;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The released files of an architecture.
pub struct Names {
    directory: PathBuf,
    architecture: Architecture,
}

impl Names {
    pub fn new(shell: &Shell, architecture: Architecture) -> Names {
        Names { directory: shell.path("target/releases"), architecture }
    }

    /// The directory inside the archive, and the archive's name without its extension.
    pub fn stem(&self) -> String {
        format!("headwater-{VERSION}-{}", self.architecture.name())
    }

    pub fn archive(&self) -> PathBuf {
        self.directory.join(format!("{}.tar.xz", self.stem()))
    }

    pub fn deb(&self) -> PathBuf {
        self.directory.join(format!("headwater_{VERSION}-1_{}.deb", self.architecture.debian()))
    }

    pub fn rpm(&self) -> PathBuf {
        self.directory.join(format!("headwater-{VERSION}-1.{}.rpm", self.architecture.name()))
    }

    pub fn wheel(&self) -> PathBuf {
        let platform = format!("manylinux_2_28_{}", self.architecture.name());
        self.directory.join(format!("headwater-{VERSION}-py3-none-{platform}.whl"))
    }

    pub fn all(&self) -> [PathBuf; 4] {
        [self.archive(), self.deb(), self.rpm(), self.wheel()]
    }
}

/// Makes the package of Debian, that of RHEL and SLES, the wheel, and Spack's recipe for the archives that are there.
pub fn build(shell: &Shell, architecture: Architecture, dist: &Path) -> Result<()> {
    let names = Names::new(shell, architecture);
    let staged = |name: &str| stage(shell, dist, &shell.built(name));
    let (debian, name) = (architecture.debian(), architecture.name());
    shell.step("package for Debian", || script(shell, "deb", &staged("deb")?, debian, &names.deb()))?;
    shell.step("package for RHEL and SLES", || script(shell, "rpm", &staged("rpm")?, name, &names.rpm()))?;
    shell.step("wheel", || script(shell, "wheel", dist, name, &names.wheel()))?;
    let mut recipe = shell.command("sh");
    recipe
        .args(["packaging/spack/build.sh", "target/releases", VERSION])
        .arg(names.directory.join("spack_repo/headwater"));
    shell.step("Spack repository", || shell.run(&mut recipe).map(drop))
}

fn script(shell: &Shell, kind: &str, tree: &Path, architecture: &str, made: &Path) -> Result<()> {
    let mut script = shell.command("sh");
    script.arg(format!("packaging/{kind}/build.sh")).arg(tree).args([VERSION, architecture]).arg(made);
    shell.run(script.env("SOURCE_DATE_EPOCH", epoch(shell)?)).map(drop)
}

/// The time that files in packages have: that of the commit, unless the variable of reproducible builds sets another.
fn epoch(shell: &Shell) -> Result<String> {
    if let Ok(epoch) = std::env::var("SOURCE_DATE_EPOCH") {
        return Ok(epoch);
    }
    let time = shell.run(shell.command("git").args(["log", "-1", "--format=%ct"]));
    Ok(time.context("this is no clone: set SOURCE_DATE_EPOCH to the release's time")?.trim().to_owned())
}

/// Makes the file tree that a system's packages install: below /usr and /etc. Returns its path.
fn stage(shell: &Shell, dist: &Path, root: &Path) -> Result<PathBuf> {
    if root.exists() {
        std::fs::remove_dir_all(root)?;
    }
    let usr = root.join("usr");
    files::copy_tree(dist, &usr)?;
    std::fs::remove_file(usr.join("install.sh"))?;
    files::copy_if_changed(&shell.path("packaging/site.conf"), &root.join("etc/headwater/site.conf"))?;
    let compress = ["-type", "f", "-exec", "gzip", "-9n", "{}", "+"];
    shell.run(shell.command("find").arg(usr.join("share/man")).args(compress))?;
    shell.run(shell.command("chmod").args(["-R", "u=rwX,go=rX"]).arg(root))?;
    Ok(root.to_owned())
}
