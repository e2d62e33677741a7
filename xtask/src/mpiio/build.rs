//! How the front and the variants of the I/O library are generated and compiled.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use super::front;
use super::header;
use super::mpis::{self, Found};
use super::table::{self, Function};
use super::wrappers::{Hand, Variant};
use crate::shell::Shell;
use crate::{cc, files, side_by_side};

/// The directory of all of it.
pub const SOURCES: &str = "mpiio";
/// The sources of the preloaded library.
pub const FRONT: &str = "mpiio/front";
/// The core: its floors, from the lowest to the highest. Each calls only itself and those before it.
pub const FLOORS: [&str; 5] = ["mpiio/base", "mpiio/memory", "mpiio/mpi", "mpiio/transfer", "mpiio/intercept"];
pub(super) const TRACE: [&str; 1] = ["mpiio/tests/trace"];
/// The tables, and the headers that are generated from them.
pub const CALLS: &str = "mpiio/calls";
/// The library that is preloaded.
pub(super) const LIBRARY: &str = "libheadwater-mpiio.so";
/// The directory of variants, beside it.
const VARIANTS: &str = "headwater";

const FLAGS: &[&str] = &[
    "-D_GNU_SOURCE",
    "-O2",
    "-g1",
    "-fPIC",
    "-shared",
    "-fvisibility=hidden",
    "-ftls-model=initial-exec",
    "-Impiio",
    "-Impiio/calls",
    "-Wl,-z,relro",
    "-Wl,-z,now",
    "-Wl,-z,nodelete",
    "-Wl,--build-id",
    "-Wl,--no-undefined",
];

/// Lets the core end the program where a signal's handler does what it may not.
const CHECKED: &[&str] = &["-DHWIO_CHECK_HANDLERS"];
/// Lets tests have larger pages than the kernel's.
pub(super) const PRETENDING: &[&str] = &["-DHWIO_PRETEND_PAGES"];
/// A library that is preloaded beside it, and sees allocations.
const HANDLERS: &str = "mpiio/tests/handlers";

/// The functions on which the library interposes.
pub(super) struct Tables {
    pub(super) mpi: Vec<Function>,
    pub(super) libc: Vec<Function>,
}

impl Tables {
    pub(super) fn read(shell: &Shell) -> Result<Tables> {
        let read = |name: &str| {
            let path = shell.path(CALLS).join(name);
            let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
            table::parse(&text).with_context(|| format!("{CALLS}/{name}"))
        };
        let (mpi, mut libc) = (read("mpi.txt")?, read("libc.txt")?);
        for function in &mut libc {
            function.is_hand = function.before.is_empty() && function.same_as.is_none();
        }
        libc.extend(read("kernel.txt")?);
        Ok(Tables { mpi, libc })
    }
}

/// The built files.
pub struct Built {
    /// The front.
    pub front: PathBuf,
    /// The variants.
    pub variants: Vec<PathBuf>,
    /// Which variants are missing, and why.
    pub notes: Vec<String>,
}

/// Compiles the front and a variant for each MPI that is there into `target/mpiio`, unless nothing has changed.
pub fn build(shell: &Shell) -> Result<Built> {
    let (found, notes) = mpis::find(shell)?;
    build_into(shell, &shell.built("mpiio"), &found, (&FLOORS, Hand::Core, &[]), notes)
}

/// Compiles the same into `target/mpiio-checked`, for tests. Returns the front's path.
pub fn build_checked(shell: &Shell) -> Result<PathBuf> {
    let directory = shell.path("target/mpiio-checked");
    let (found, notes) = mpis::find(shell)?;
    let flags = [CHECKED, PRETENDING].concat();
    let built = build_into(shell, &directory, &found, (&FLOORS, Hand::Core, &flags), notes)?;
    let mut command = cc::compiler(shell);
    command.args(FLAGS).arg("-fno-builtin").args(sources(shell, HANDLERS)?);
    cc::compile(shell, command, &directory.join("libheadwater-handlers.so"), &[shell.path(HANDLERS)])?;
    Ok(built.front)
}

/// Compiles the front and the variants of `found` with the sources in the folders of `core`.
pub(super) fn build_into(
    shell: &Shell,
    directory: &Path,
    found: &[Found],
    (core, hand, flags): (&[&str], Hand, &[&str]),
    notes: Vec<String>,
) -> Result<Built> {
    let tables = Tables::read(shell)?;
    let front = build_front(shell, directory, &tables)?;
    let variants = side_by_side::map(found, |one| build_variant(shell, directory, &tables, one, (core, hand, flags)));
    let variants = variants.into_iter().collect::<Result<_>>()?;
    Ok(Built { front, variants, notes })
}

fn build_front(shell: &Shell, directory: &Path, tables: &Tables) -> Result<PathBuf> {
    let generated = directory.join("generated/front");
    write_if_changed(&generated.join("stubs.c"), &front::stubs(&tables.mpi, &tables.libc))?;
    write_if_changed(&generated.join("slots.h"), &front::slots(&tables.mpi, &tables.libc))?;
    let mut command = cc::compiler(shell);
    command.args(FLAGS).arg(format!("-I{FRONT}")).arg(format!("-I{}", generated.display()));
    command.arg(format!("-Wl,-soname,{LIBRARY}"));
    command.args(sources(shell, FRONT)?).arg(generated.join("stubs.c")).args(["-ldl", "-lpthread"]);
    cc::compile(shell, command, &directory.join(LIBRARY), &[shell.path(FRONT), shell.path(CALLS), generated])
}

fn build_variant(
    shell: &Shell,
    directory: &Path,
    tables: &Tables,
    found: &Found,
    (core, hand, flags): (&[&str], Hand, &[&str]),
) -> Result<PathBuf> {
    let name = found.mpi.name;
    let generated = directory.join("generated").join(name);
    let (header, globals) = (preprocess(shell, found, "-P")?, preprocess(shell, found, "-dM")?);
    let (header, globals) = (header::functions(&header), header::globals(&globals));
    ensure!(header.len() > 300, "mpi.h of {name} declares {} functions", header.len());
    let variant = Variant::new(found.mpi.target, (&header, &globals), &tables.mpi, &tables.libc, hand)?;
    write_if_changed(&generated.join("real.h"), &variant.real())?;
    write_if_changed(&generated.join("wrappers.c"), &variant.wrappers()?)?;
    let mut command = cc::compiler(shell);
    command.args(FLAGS).args(flags).arg(format!("-I{}", generated.display()));
    for include in &found.includes {
        command.arg("-isystem").arg(include);
    }
    // MPICH's MPI_STATUSES_IGNORE is an address at which, as gcc sees, there is no status.
    command.arg("-Wno-stringop-overflow");
    // The stand-ins for the library's constants must be known wherever mpi.h is.
    command.args(["-include", "real.h"]).arg(format!("-Wl,-soname,mpiio-{name}.so"));
    for folder in core {
        command.args(sources(shell, folder)?);
    }
    command.arg(generated.join("wrappers.c")).args(["-ldl", "-lpthread", "-lm"]);
    let made = directory.join(VARIANTS).join(format!("mpiio-{name}.so"));
    let trees = [vec![generated, shell.path(CALLS)], core.iter().map(|folder| shell.path(folder)).collect()].concat();
    cc::compile(shell, command, &made, &trees)
}

/// The preprocessor's output for mpi.h.
fn preprocess(shell: &Shell, found: &Found, option: &str) -> Result<String> {
    let (program, arguments) = shell.system.compiler(&shell.root);
    let mut command = shell.command(program);
    command.args(arguments).args(["-E", option, "-x", "c", "-include", "mpi.h", "/dev/null"]);
    command.args(found.includes.iter().map(|include| format!("-I{}", include.display())));
    shell.run(&mut command)
}

/// Returns the C files in `folder`.
pub(super) fn sources(shell: &Shell, folder: &str) -> Result<Vec<PathBuf>> {
    let sources = files::with_extensions(&shell.path(folder), &["c"])?;
    ensure!(!sources.is_empty(), "{folder} contains no C files");
    Ok(sources.iter().map(|source| source.strip_prefix(&shell.root).unwrap_or(source).to_owned()).collect())
}

fn write_if_changed(path: &Path, text: &str) -> Result<()> {
    if std::fs::read_to_string(path).is_ok_and(|old| old == text) {
        return Ok(());
    }
    std::fs::create_dir_all(path.parent().context("a file lies in a directory")?)?;
    std::fs::write(path, text).with_context(|| path.display().to_string())
}

/// Copies the front and the variants to where they are installed.
pub fn dist(shell: &Shell, dist: &Path) -> Result<()> {
    let built = build(shell)?;
    for note in &built.notes {
        println!("  note   {note}");
    }
    let library = dist.join("lib");
    files::copy_if_changed(&built.front, &library.join(LIBRARY))?;
    for variant in &built.variants {
        let name = variant.file_name().context("a library has a name")?;
        files::copy_if_changed(variant, &library.join(VARIANTS).join(name))?;
    }
    Ok(())
}
