//! The C compiler, with the options of every C file of the repository.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::files;
use crate::shell::{Shell, display};

/// Language and warnings, for every C file of the repository.
const C_FLAGS: &[&str] = &["-std=c11", "-Wall", "-Wextra", "-Werror", "-Iabi/include", "-Ispawn/include"];

/// Returns a compiler command with the flags of all C files.
pub fn compiler(shell: &Shell) -> Command {
    let (program, arguments) = shell.system.compiler(&shell.root);
    let mut command = shell.command(program);
    command.args(arguments).args(C_FLAGS);
    command
}

/// Runs the compiler for `made`, unless neither its arguments nor these trees have changed. Returns the path of `made`.
pub fn compile(shell: &Shell, mut command: Command, made: &Path, trees: &[PathBuf]) -> Result<PathBuf> {
    let directory = made.parent().context("a library lies in a directory")?;
    std::fs::create_dir_all(directory)?;
    let stamp = made.with_extension("stamp");
    let newest = files::newest(trees)?;
    let built_from = format!("{}\n{newest:?}\n", display(&command, &shell.root));
    if !(made.exists() && std::fs::read_to_string(&stamp).is_ok_and(|old| old == built_from)) {
        let partial = files::partial(made);
        shell.run(command.arg("-o").arg(&partial))?;
        std::fs::rename(partial, made)?;
        std::fs::write(stamp, built_from)?;
    }
    Ok(made.to_owned())
}
