//! Tests of the core without an MPI, under the sanitizers: all of it is linked, with stand-ins for MPI's calls. Those in
//! which pages matter run with larger ones, too.

use anyhow::{Result, ensure};

use super::build::{CALLS, FLOORS, PRETENDING, SOURCES, sources};
use crate::test::{CTests, Tally};
use crate::{cc, files};

/// The tests, each a program.
const TESTS: &str = "mpiio/tests/core";
/// Stand-ins for an MPI's header, and for the headers that are generated from it.
const STAND_INS: &str = "mpiio/tests/stand";
/// The variable by which a test build takes pages for larger ones, and the sizes that kernels of aarch64 have.
const PAGE_BYTES: &str = "HEADWATER_TEST_PAGE_BYTES";
const LARGER_PAGES: [&str; 2] = ["16384", "65536"];
/// What a test mentions in which pages matter.
const PAGES_MATTER: &str = "hwio_page_bytes";

/// Compiles the core, unless nothing has changed, and runs each C file in `mpiio/tests/core` with it.
pub fn run(tests: &CTests<'_>) -> Result<Tally> {
    let (shell, directory) = (tests.shell, tests.directory().join("mpiio"));
    let compiler = || {
        let mut command = tests.compiler();
        command.args(PRETENDING).args(["-D_GNU_SOURCE", "-include", "real.h"]);
        command.args([STAND_INS, CALLS, SOURCES].map(|folder| format!("-I{folder}")));
        command
    };
    let mut whole = compiler();
    whole.args(["-r", "-nostdlib"]);
    for folder in FLOORS.into_iter().chain([STAND_INS]) {
        whole.args(sources(shell, folder)?);
    }
    let trees: Vec<_> = FLOORS.into_iter().chain([CALLS, STAND_INS]).map(|folder| shell.path(folder)).collect();
    let core = cc::compile(shell, whole, &directory.join("core.o"), &trees)?;
    let mut tally = Tally::default();
    for source in files::with_extensions(&shell.path(TESTS), &["c"])? {
        let name = source.file_stem().expect("a source has a name").to_string_lossy().into_owned();
        let program = directory.join(&name);
        let mut command = compiler();
        command.arg("-o").arg(&program).arg(format!("{TESTS}/{name}.c")).arg(&core);
        shell.run(command.args(["-ldl", "-lpthread", "-lm"]))?;
        tally.add(tests.run(&format!("{SOURCES} {name}"), &program, None)?);
        let larger = if std::fs::read_to_string(&source)?.contains(PAGES_MATTER) { &LARGER_PAGES[..] } else { &[] };
        for bytes in larger {
            let shown = format!("{SOURCES} {name}, pages of {bytes} bytes");
            tally.add(tests.run(&shown, &program, Some((PAGE_BYTES, bytes)))?);
        }
    }
    ensure!(tally != Tally::default(), "{TESTS} contains no C tests");
    Ok(tally)
}
