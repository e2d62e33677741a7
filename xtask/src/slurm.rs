//! The Slurm plugin: it is built where Slurm's headers are.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::shell::Shell;
use crate::{cc, files};

/// The plugin's sources.
pub const SOURCES: &str = "integrations/slurm";
/// Its tests.
pub const TESTS: &str = "integrations/slurm/tests";
/// The source that needs Slurm's headers.
const PLUGIN: &str = "headwater-spank.c";
/// Slurm's functions are bound when they are called: not every process that loads it has all of them.
const FLAGS: &[&str] = &["-O2", "-g1", "-fPIC", "-shared", "-fvisibility=hidden", "-Wl,-z,relro", "-Wl,--build-id"];

/// Compiles `headwater_spank.so` into `directory`, and returns its path; `None` without Slurm's headers.
pub fn build(shell: &Shell, directory: &Path) -> Result<Option<PathBuf>> {
    let mut probe = cc::compiler(shell);
    probe.args(["-fsyntax-only", "-x", "c", "-include", "slurm/spank.h", "/dev/null"]);
    if !shell.capture(&mut probe)?.status.success() {
        return Ok(None);
    }
    std::fs::create_dir_all(directory)?;
    let library = directory.join("headwater_spank.so");
    let partial = files::partial(&library);
    let mut command = cc::compiler(shell);
    command.args(FLAGS).arg("-o").arg(&partial);
    command.args(sources(shell)?.iter().map(|source| source.strip_prefix(&shell.root).unwrap_or(source)));
    shell.run(&mut command)?;
    std::fs::rename(partial, &library)?;
    Ok(Some(library))
}

fn sources(shell: &Shell) -> Result<Vec<PathBuf>> {
    let mut sources = files::with_extensions(&shell.path(SOURCES), &["c"])?;
    sources.retain(|source| !source.starts_with(shell.path(TESTS)));
    Ok(sources)
}

/// Copies the plugin, if it can be built, and an example of its configuration to where they are installed.
pub fn dist(shell: &Shell, dist: &Path) -> Result<()> {
    let example = "plugstack.conf.example";
    files::copy_if_changed(&shell.path(SOURCES).join(example), &dist.join("share/headwater").join(example))?;
    let Some(library) = build(shell, &shell.built("slurm"))? else {
        println!("  note   {PLUGIN} is not built: slurm/spank.h is missing (package libslurm-dev)");
        return Ok(());
    };
    let name = library.file_name().context("a library has a name")?;
    files::copy_if_changed(&library, &dist.join("lib/slurm").join(name))
}
