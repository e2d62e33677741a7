//! `target/dist`: what a user installs, relocatable.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use crate::shell::Shell;
use crate::system::{Architecture, System};
use crate::{docs, fabric, files, flux, headwater, mpiio, shim, slurm, spawn};

/// Builds everything that a user installs; quick if nothing has changed.
pub fn run(shell: &Shell) -> Result<()> {
    let dist = shell.built("dist");
    shell.step("build headwater", || files::copy_if_changed(&headwater::build(shell)?, &dist.join("bin/headwater")))?;
    shell.step("build the audit library", || {
        let library = shim::build_audit(shell, &shell.built("shim"))?;
        files::copy_if_changed(&library, &dist.join("lib").join(library.file_name().context("a library has a name")?))?;
        let trial = shim::build_trial(shell, &shell.built("shim"))?;
        files::copy_if_changed(&trial, &dist.join("lib/headwater").join(trial.file_name().context("as above")?))
    })?;
    shell.step("build the Slurm plugin", || slurm::dist(shell, &dist))?;
    shell.step("build the Flux plugin", || flux::dist(shell, &dist))?;
    shell.step("build the spawning libraries", || spawn::dist(shell, &dist))?;
    shell.step("build the I/O libraries", || mpiio::dist(shell, &dist))?;
    shell.step("build the libfabric carrier", || fabric::dist(shell, &dist))?;
    shell.step("headers, units, plugins, man pages, completions", || {
        files::copy_tree(&shell.path("abi/include"), &dist.join("include"))?;
        files::copy_tree(&shell.path("integrations/systemd"), &dist.join("lib/systemd/system"))?;
        files::copy_tree(&shell.path("integrations/tmpfiles"), &dist.join("share/headwater/tmpfiles.d"))?;
        files::copy_tree(&shell.path("integrations/grafana"), &dist.join("share/headwater/grafana"))?;
        files::copy_tree(&shell.path("integrations/launch"), &dist.join("share/headwater/launch"))?;
        files::copy_tree(&shell.path("integrations/guard"), &dist.join("share/headwater/guard"))?;
        files::copy_if_changed(&shell.path("packaging/install.sh"), &dist.join("install.sh"))?;
        let module = format!("share/modulefiles/headwater/{}.lua", env!("CARGO_PKG_VERSION"));
        files::copy_if_changed(&shell.path("packaging/headwater.lua"), &dist.join(module))?;
        docs::install(shell, &dist.join("share/doc/headwater"))?;
        docs::manual::install(shell, &dist.join("share/man/man3"))?;
        generate(shell, &dist)
    })
}

/// Installs `target/dist` to `prefix`.
pub fn install(shell: &Shell, prefix: &Path) -> Result<()> {
    run(shell)?;
    let (prefix, script) = (std::path::absolute(prefix)?, shell.built("dist").join("install.sh"));
    print!("{}", shell.run(shell.command("sh").arg(script).arg("--prefix").arg(prefix))?);
    Ok(())
}

fn generate(shell: &Shell, dist: &Path) -> Result<()> {
    let mut headwater = dist.join("bin/headwater");
    if let System::Released(architecture) = shell.system
        && architecture != Architecture::here()?
    {
        headwater = headwater::build(&Shell { system: System::Here, ..shell.clone() })?;
    }
    let stamp = shell.built("dist.generated");
    if files::modified(&stamp) >= files::modified(&headwater) && dist.join("share/man/man1").exists() {
        return Ok(());
    }
    let generated = shell.built("generated");
    if generated.exists() {
        std::fs::remove_dir_all(&generated)?;
    }
    for what in ["man", "completions"] {
        let directory = generated.join(what);
        std::fs::create_dir_all(&directory)?;
        shell.run(shell.command(&headwater).args(["generate", what]).arg(&directory))?;
        let mut written = 0;
        for entry in std::fs::read_dir(&directory)? {
            let path = entry?.path();
            let name = path.file_name().and_then(|n| n.to_str()).context("generated names are plain")?;
            files::copy_if_changed(&path, &dist.join("share").join(destination(name)?))?;
            written += 1;
        }
        ensure!(written > 0, "`headwater generate {what}` wrote nothing");
    }
    std::fs::write(stamp, "")?;
    Ok(())
}

/// The path of a generated file below `share`, where shells and man search for it.
fn destination(name: &str) -> Result<PathBuf> {
    Ok(match name.rsplit_once('.') {
        Some((_, section)) if section.len() == 1 => format!("man/man{section}/{name}").into(),
        Some((command, "bash")) => format!("bash-completion/completions/{command}").into(),
        Some((_, "fish")) => format!("fish/vendor_completions.d/{name}").into(),
        None if name.starts_with('_') => format!("zsh/site-functions/{name}").into(),
        _ => bail!("`{name}` is neither a man page nor a completion of bash, zsh or fish"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_files_are_copied_where_they_are_searched_for() {
        let check = |name: &str, expected: &str| assert_eq!(destination(name).unwrap(), Path::new(expected));
        check("headwater-run.1", "man/man1/headwater-run.1");
        check("headwater.bash", "bash-completion/completions/headwater");
        check("_headwater", "zsh/site-functions/_headwater");
        check("headwater.fish", "fish/vendor_completions.d/headwater.fish");
        assert!(destination("headwater.txt").is_err());
    }
}
