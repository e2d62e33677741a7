//! The demonstration: what it needs is prepared here; the program that starts others and measures is in `tests`.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::setup::Purpose;
use crate::shell::{Shell, display};
use crate::{files, headwater, setup, shim};

/// Everything of it lies here: headwater as it is installed, and Python's library.
const DIRECTORY: &str = "target/demo";
const PROGRAMS: &str = "tests/programs/demo";
const BINARIES: [&str; 3] = ["headwater", "counting-fs", "demo"];

/// Prepares and runs it. Nothing is built or installed but what it needs.
pub fn run(shell: &Shell) -> Result<()> {
    println!("The demonstration is prepared in {DIRECTORY}. The first build takes a few minutes.\n");
    setup::run(shell, Purpose::Demo)?;
    let directory = shell.path(DIRECTORY);
    let built = shell.step("build headwater and a slow file server", || build(shell, &directory))?;
    let software = shell.step("copy Python and its library", || copy_python(shell, &directory))?;
    let mut command = shell.command(built.join("demo"));
    let status = command.arg(directory.join("bin/headwater")).arg(software).status();
    let status = status.with_context(|| display(&command, &shell.root))?;
    ensure!(status.success(), "{status}: {}", display(&command, &shell.root));
    Ok(())
}

/// Returns the directory of the programs.
fn build(shell: &Shell, directory: &Path) -> Result<PathBuf> {
    let target = headwater::host(shell)?;
    let mut command = shell.cargo(&["build", "--quiet", "--profile=demo", "--target", &target]);
    command.args(["--package=headwater", "--package=headwater-tests"]);
    shell.run(command.args(BINARIES.iter().flat_map(|name| ["--bin", name])).env("RUSTFLAGS", headwater::STATIC))?;
    let built = shell.path("target").join(target).join("demo");
    files::copy_if_changed(&built.join("headwater"), &directory.join("bin/headwater"))?;
    shim::build_audit(shell, &directory.join("lib"))?;
    Ok(built)
}

/// Returns a directory with Python, its library and the program, as a site has them on a shared file system.
fn copy_python(shell: &Shell, directory: &Path) -> Result<PathBuf> {
    let software = directory.join("software");
    if !software.exists() {
        let partial = directory.join("software.partial");
        if partial.exists() {
            std::fs::remove_dir_all(&partial)?;
        }
        let system = if Path::new("/usr/bin/python3").exists() { "/usr/bin/python3" } else { "python3" };
        shell.run(shell.command(system).arg(shell.path(PROGRAMS).join("copy.py")).arg(&partial))?;
        std::fs::rename(&partial, &software)?;
    }
    let program = software.join("start.py");
    files::copy_if_changed(&shell.path(PROGRAMS).join("start.py"), &program)?;
    // Python compiles modules when it first imports them.
    shell.run(shell.command(software.join("bin/python3")).arg("-I").arg(program))?;
    Ok(software)
}
