//! Installs, uses and removes each package of a release in a fresh system.

use std::path::Path;

use anyhow::{Result, ensure};

use super::packages::Names;
use crate::roots::{Contents, Root};
use crate::shell::Shell;
use crate::system::Architecture;

/// The oldest and the newest stable Debian that debootstrap can make: of glibc 2.31 and 2.41.
const SYSTEMS: [Contents; 2] = [system("bullseye-packages", "bullseye"), system("trixie-packages", "trixie")];
const SCRIPTS: &str = "packaging/tests";
/// Each script of it tries one way to install.
const TRIALS: &[&str] = &["archive", "deb", "rpm", "wheel"];

const fn system(name: &'static str, suite: &'static str) -> Contents {
    let packages = &["ca-certificates", "lmod", "procps", "python3-venv", "rpm", "xz-utils"];
    Contents { name, suite, architecture: None, foreign: None, packages }
}

/// Tries the packages of this machine's architecture in each system, as root.
pub fn run(shell: &Shell) -> Result<()> {
    let names = Names::new(shell, Architecture::here()?);
    for path in names.all() {
        ensure!(path.exists(), "{} is missing: cargo xtask release", path.display());
    }
    let (files, scripts) = (shell.path("target/releases"), shell.path(SCRIPTS));
    for system in SYSTEMS {
        let mut root = Root::of(shell, system)?;
        root.shown = vec![files.clone(), scripts.clone()];
        root.is_unchanging = true;
        for trial in TRIALS {
            let name = format!("{trial} on {}", system.suite);
            let mut command = root.command("env", Path::new("/"));
            command.args(["LC_ALL=C.UTF-8", "sh", "-eu"]).arg(scripts.join(format!("{trial}.sh"))).arg(&files);
            let output = shell.step(&name, || shell.run(&mut command))?;
            ensure!(output.contains("removed"), "{name}: the script did not end with a removal\n{output}");
        }
    }
    Ok(())
}
