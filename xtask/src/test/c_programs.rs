//! The tests that are C programs.

use anyhow::{Result, ensure};

use super::c_tests::CTests;
use super::report::Tally;
use crate::{fabric, files, flux, mpiio, shim, side_by_side, slurm, spawn};

/// Part of the C library since glibc 2.34.
const LIBRARIES: [&str; 2] = ["-ldl", "-lpthread"];

/// Compiles and runs all that need no MPI. Each C file in the `tests` of `shim/audit`, `integrations/slurm`,
/// `integrations/flux`, `integrations/fabric` and `spawn` that begins with a line `/* sources: a.c b.c */` is a program
/// of its own, linked with these sources; of those of the carrier, those that need libfabric only where it is. The core
/// of the I/O library has stand-ins for an MPI.
pub fn run(tests: &CTests<'_>) -> Result<Tally> {
    let mut tally = run_in(tests, shim::AUDIT_SOURCES, shim::AUDIT_TESTS)?;
    tally.add(run_in(tests, slurm::SOURCES, slurm::TESTS)?);
    tally.add(run_in(tests, flux::SOURCES, flux::TESTS)?);
    tally.add(run_in(tests, fabric::SOURCES, fabric::TESTS)?);
    tally.add(run_in(tests, spawn::SOURCES, spawn::TESTS)?);
    tally.add(mpiio::test_core(tests)?);
    Ok(tally)
}

/// They are compiled side by side, and run one after another.
fn run_in(c_tests: &CTests<'_>, sources_in: &str, tests_in: &str) -> Result<Tally> {
    let (shell, directory) = (c_tests.shell, c_tests.directory());
    let mut tally = Tally::default();
    std::fs::create_dir_all(&directory)?;
    let mut tests = Vec::new();
    for source in files::with_extensions(&shell.path(tests_in), &["c"])? {
        let text = std::fs::read_to_string(&source)?;
        let Some(sources) = linked_sources(&text) else { continue };
        let name = source.file_stem().expect("a source has a name").to_string_lossy().into_owned();
        let needs_fabric = sources.contains(&fabric::NEEDS_LIBFABRIC);
        let libraries = match needs_fabric {
            // A root has none.
            true if c_tests.root.is_some() => None,
            true => fabric::libraries(shell)?,
            false => Some(vec![]),
        };
        let Some(libraries) = libraries else {
            tally.add(Tally::skipped(format!("{name}: libfabric is missing")));
            continue;
        };
        let mut args = vec![source.strip_prefix(&shell.root)?.display().to_string()];
        args.extend(sources.iter().map(|name| format!("{sources_in}/{name}")));
        args.extend(libraries);
        args.extend(LIBRARIES.map(str::to_owned));
        tests.push((name, args));
    }
    let compiled = side_by_side::map(&tests, |(name, args)| {
        let mut command = c_tests.compiler();
        command.arg(format!("-I{sources_in}")).arg(format!("-I{}", shim::AUDIT_TESTS));
        shell.run(command.arg("-o").arg(directory.join(name)).args(args))
    });
    for ((name, _), compiled) in tests.iter().zip(compiled) {
        tally.add(match compiled {
            Ok(_) => c_tests.run(name, &directory.join(name), None)?,
            Err(error) => {
                Tally { output: format!("{error:#}\n"), ..Tally::failed(format!("{name}: does not compile")) }
            }
        });
    }
    ensure!(tally != Tally::default(), "{tests_in} contains no C tests");
    Ok(tally)
}

fn linked_sources(text: &str) -> Option<Vec<&str>> {
    let list = text.lines().find_map(|line| line.strip_prefix("/* sources:"))?;
    Some(list.split("*/").next()?.split_whitespace().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_of_c_tests() {
        assert_eq!(linked_sources("/* sources: a.c b.c */\nint x;"), Some(vec!["a.c", "b.c"]));
        assert_eq!(linked_sources("/* sources: */\n"), Some(vec![]));
        assert_eq!(linked_sources("int x;\n"), None);
    }
}
