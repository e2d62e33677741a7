//! The command line of `cargo xtask test`.

use clap::builder::PossibleValuesParser;
use clap::{Args, ValueEnum};

use crate::roots::Tested;

/// The tests of whole programs: of sessions, of spawning and of the I/O library.
pub(super) const ON_TESTS: [&str; 7] =
    ["e2e", "mount", "spawn", "spawn_command", "spawn_python", "warm_ranks", "mpiio"];
/// A directory that can't be, for what programs' runs leave behind: no test is to depend on an earlier one.
pub(super) const NO_CLOSURES: &str = "/dev/null/closures";
/// What the benchmarks are called beside them.
pub(super) const ON_BENCHMARKS: &str = "benchmarks";

fn on_names() -> PossibleValuesParser {
    ON_TESTS.into_iter().chain([ON_BENCHMARKS]).into()
}

/// What to run.
#[derive(Args)]
pub struct Options {
    /// Run this step alone; repeatable.
    #[arg(long, value_name = "STEP")]
    pub(super) only: Vec<Step>,
    /// In the root of this system (as root): the tests of whole programs, of the release as it is installed there;
    /// repeatable. bullseye, bookworm, trixie, sid, arm64, or all.
    #[arg(long, value_name = "SYSTEM", value_parser = systems, conflicts_with_all = ["only", "quick"])]
    pub(super) on: Vec<Systems>,
    /// With --on, these tests alone; repeatable. Benchmarks have the name `benchmarks`.
    #[arg(long = "test", value_name = "NAME", requires = "on", value_parser = on_names())]
    pub(super) tests: Vec<String>,
    /// Leave out what takes minutes: loom, fuzzing and other systems.
    #[arg(long)]
    pub(super) quick: bool,
    /// How long each decoder is fuzzed, in seconds.
    #[arg(long, default_value_t = 25, value_name = "SECONDS")]
    pub(super) fuzz_seconds: u64,
    /// How many seeds are simulated.
    #[arg(long, default_value_t = 2000, value_name = "N")]
    pub(super) seeds: u64,
}

/// What a value of `--on` names.
#[derive(Clone, Debug)]
pub(super) struct Systems(pub(super) Vec<Tested>);

fn systems(name: &str) -> Result<Systems, String> {
    match name {
        "all" => Ok(Systems(Tested::value_variants().to_vec())),
        name => Tested::from_str(name, false).map(|one| Systems(vec![one])),
    }
}

/// The steps, in the order in which they run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Step {
    /// Formatting.
    Fmt,
    /// Compiler and clippy warnings are errors.
    Clippy,
    /// Documentation builds without warnings.
    Doc,
    /// Crate edges, file and function lengths, leftovers.
    Tidy,
    /// The C libraries and headers with all warnings as errors.
    Shim,
    /// The C code's tests under AddressSanitizer and UBSan.
    C,
    /// Unit, integration and documentation tests of every crate.
    Cargo,
    /// Links, command lines and made pages of the documents.
    Docs,
    /// The short form of other people's test suites.
    Suites,
    /// The release in the root of another system; each commit has the next one.
    On,
    /// Every interleaving of the shared table's writer and readers.
    Loom,
    /// Simulated nodes with faults.
    Sim,
    /// Every decoder under libFuzzer.
    Fuzz,
}

impl Step {
    /// Its name on the command line.
    pub(super) fn name(self) -> String {
        self.to_possible_value().expect("no step is hidden").get_name().to_owned()
    }
}
