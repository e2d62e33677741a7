//! The spawning libraries: how they are compiled.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::shell::Shell;
use crate::{cc, files, side_by_side};

/// The directory of all of it.
pub const SOURCES: &str = "spawn";
/// Its tests.
pub const TESTS: &str = "spawn/tests";
/// The header of callers.
const HEADER: &str = "spawn/include/pspawn.h";
const FLAGS: &[&str] = &[
    "-O2",
    "-g1",
    "-fPIC",
    "-shared",
    "-fvisibility=hidden",
    "-Wl,-z,relro",
    "-Wl,-z,now",
    "-Wl,--build-id",
    "-Wl,--no-undefined",
];

/// A library: its name, the folder of its sources, folders that it shares with others, and more flags.
struct Library {
    name: &'static str,
    folder: &'static str,
    shared: &'static [&'static str],
    flags: &'static [&'static str],
}

const LIBRARIES: [Library; 3] = [
    Library { name: "libheadwater-spawn.so", folder: "src", shared: &["core"], flags: &[] },
    // Its constructor precedes all others, and binds calls anew.
    Library {
        name: "libheadwater-zygote.so",
        folder: "zygote",
        shared: &["core"],
        flags: &["-Wl,-z,initfirst", "-Wl,-z,norelro"],
    },
    Library { name: "libheadwater-relay.so", folder: "relay", shared: &["core", "src"], flags: &[] },
];

/// Compiles the libraries into `target/spawn`, unless nothing has changed, and returns their paths.
pub fn build(shell: &Shell) -> Result<Vec<PathBuf>> {
    let directory = shell.built("spawn");
    side_by_side::map(&LIBRARIES, |library| library.build(shell, &directory)).into_iter().collect()
}

impl Library {
    fn build(&self, shell: &Shell, directory: &Path) -> Result<PathBuf> {
        let folder = Path::new(SOURCES).join(self.folder);
        let mut sources = files::with_extensions(&shell.path(&folder), &["c"])?;
        ensure!(!sources.is_empty(), "{} contains no C files", folder.display());
        for shared in self.shared {
            sources.extend(files::with_extensions(&shell.path(SOURCES).join(shared), &["c"])?);
        }
        let mut command = cc::compiler(shell);
        command.args(FLAGS).args(self.flags);
        command.arg(format!("-Wl,--version-script={}/export.map", folder.display()));
        command.arg(format!("-Wl,-soname,{}", self.name));
        command.args(sources.iter().map(|source| source.strip_prefix(&shell.root).unwrap_or(source)));
        // Before glibc 2.34 these are libraries of their own.
        command.args(["-ldl", "-lpthread"]);
        cc::compile(shell, command, &directory.join(self.name), &[shell.path(SOURCES), shell.path("abi/include")])
    }
}

/// Copies the libraries and the header to where they are installed.
pub fn dist(shell: &Shell, dist: &Path) -> Result<()> {
    for library in build(shell)? {
        files::copy_if_changed(&library, &dist.join("lib").join(library.file_name().context("a library has a name")?))?;
    }
    files::copy_if_changed(&shell.path(HEADER), &dist.join("include/pspawn.h"))?;
    Ok(())
}
