//! Ranks that are forked from a process of their node which has done the program's start.
//!
//! They run `target/dist/bin/headwater`; `cargo xtask dist` makes it.

mod children;
mod ends;
mod launchers;
mod likeness;
mod random;
mod refusals;

use std::fs;
use std::path::PathBuf;

use headwater_tests::harness::{Fixture, Headwater, Mechanism, Program, Session, skipped};

/// An interpreter that can be a zygote: others of that name may be scripts.
const PYTHON: &str = "/usr/bin/python3";

/// A directory with the tests' programs; `None`, with the reason on standard output, where they can't run.
fn fixture() -> Option<Fixture> {
    if !PathBuf::from(PYTHON).is_file() {
        skipped(format!("{PYTHON} is not installed"));
        return None;
    }
    let fixture = Fixture::new("warm");
    let programs = headwater_tests::workspace().join("tests/tests/warm_ranks/programs");
    for entry in fs::read_dir(programs).expect("it is in the repository").flatten() {
        let name = entry.file_name().into_string().expect("a plain name");
        fixture.file(&name, fs::read(entry.path()).expect("a file"), 0o644);
    }
    Some(fixture)
}

/// One of the programs, or code after `-c`.
fn python(fixture: &Fixture, args: &[&str]) -> Program {
    let args = args.iter().map(|word| match word.ends_with(".py") {
        true => fixture.path(word).display().to_string(),
        false => (*word).to_owned(),
    });
    let path = fixture.shared();
    Program::new(PYTHON).args(args).env("PYTHONPATH", path).env("PYTHONDONTWRITEBYTECODE", "1")
}

/// Sessions whose ranks come from zygotes that have imported these.
fn warm(fixture: &Fixture, imports: &str) -> Headwater {
    fixture.headwater().option("--ranks-from").option("zygote").option("--warm-imports").option(imports)
}

/// The mechanisms that this machine has.
fn mechanisms() -> Vec<Mechanism> {
    let (usable, unusable): (Vec<_>, Vec<_>) =
        [Mechanism::Audit, Mechanism::Namespace].into_iter().partition(|via| via.check().is_ok());
    unusable.into_iter().filter_map(|via| via.check().err()).for_each(skipped);
    usable
}

/// How many ranks came from zygotes.
fn from_zygotes(session: &Session) -> u64 {
    session.number("from_zygotes")
}
