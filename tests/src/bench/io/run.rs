//! One run of an acceptance program, in one of the variants that are compared.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use super::mpi::{Hosts, Mpi};
use crate::harness::headwater_binary;

/// The longest run, in seconds.
const SECONDS_MAX: &str = "900";
/// The longest row of `rows`, in bytes.
const ROW_BYTES_MAX: u64 = 64 << 10;

/// A variant of running a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Variant {
    /// As it is.
    Plain,
    /// With the library.
    Library,
    /// With the library, which carries out each exchange at once.
    AtOnce,
    /// Its twin, with MPI-IO by hand.
    Twin,
}

/// Programs, each with a pattern of reading and one of writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Program {
    /// Scatter and gather.
    Rows,
    /// Send and receive.
    Blocks,
    /// The same in three dimensions.
    Cubes,
    /// A broadcast, without writing.
    Broadcast,
}

impl Program {
    /// Those that read and write.
    pub(super) const BOTH: [Program; 2] = [Program::Rows, Program::Blocks];
    /// Those of one, two and three dimensions.
    pub(super) const DIMENSIONS: [Program; 3] = [Program::Rows, Program::Blocks, Program::Cubes];

    /// Its source, below `tests/programs`.
    pub(super) fn source(self) -> &'static str {
        match self {
            Program::Rows => "mpiio/c/rows.c",
            Program::Blocks | Program::Cubes => "mpiio/c/blocks.c",
            Program::Broadcast => "mpiio/c/broadcast.c",
        }
    }

    /// Its patterns: of reading, and of writing.
    pub(super) fn patterns(self) -> [&'static str; 2] {
        match self {
            Program::Rows => ["read+scatter", "gather+write"],
            Program::Blocks | Program::Cubes => ["read+send", "receive+write"],
            Program::Broadcast => ["read+bcast", "-"],
        }
    }

    /// Of the matrix that it reads.
    pub(super) fn dimensions(self) -> usize {
        match self {
            Program::Rows | Program::Broadcast => 1,
            Program::Blocks => 2,
            Program::Cubes => 3,
        }
    }

    /// Bytes of the file that it reads.
    pub(super) fn file_bytes(self, bytes: u64, steps: u64) -> u64 {
        if self == Program::Rows { bytes * steps } else { bytes }
    }

    /// Lines of the matrix that `blocks` reads.
    pub(super) fn lines(self, bytes: u64) -> u64 {
        let columns = 1 << ((bytes / 8).ilog2() / 2);
        bytes / 8 / columns
    }

    /// The options for so many bytes at a step.
    fn options(self, bytes: u64, ranks: u64) -> Vec<String> {
        let number = |name: &str, value: u64| [name.to_owned(), value.to_string()];
        match self {
            Program::Rows => {
                let row = (bytes / ranks).min(ROW_BYTES_MAX);
                [number("--rows", bytes / row), number("--row-bytes", row)].concat()
            }
            Program::Blocks => {
                // A matrix of doubles, as square as powers of two are.
                let lines = self.lines(bytes);
                [number("--rows", lines), number("--columns", bytes / 8 / lines)].concat()
            }
            Program::Cubes => {
                let planes = 1 << ((bytes / 8).ilog2() / 3);
                let rows = 1 << ((bytes / 8 / planes).ilog2() / 2);
                let columns = bytes / 8 / planes / rows;
                [number("--planes", planes), number("--rows", rows), number("--columns", columns)].concat()
            }
            Program::Broadcast => number("--bytes", bytes).into(),
        }
    }
}

/// The program.
#[derive(Clone, Debug)]
pub(super) struct Job<'a> {
    pub(super) mpi: &'a Mpi,
    pub(super) program: Program,
    pub(super) binary: &'a Path,
    pub(super) bytes: u64,
    pub(super) steps: u64,
    pub(super) ranks: usize,
    pub(super) hosts: Option<&'a Hosts>,
    /// The directory of its files.
    pub(super) directory: &'a Path,
    /// On every node's own disk, or shared: the report.
    pub(super) report: &'a Path,
}

/// The results.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Times {
    /// Seconds of reading and of writing.
    pub(super) seconds: [f64; 2],
    pub(super) checksum: String,
    /// Operations that the ranks did together.
    pub(super) transformed: u64,
}

/// The installed library, if it has a part for this MPI.
pub(super) fn library(mpi: &Mpi) -> Option<PathBuf> {
    let library = headwater_binary().parent()?.parent()?.join("lib/libheadwater-mpiio.so");
    let part = library.with_file_name("headwater").join(format!("mpiio-{}.so", mpi.name));
    (library.is_file() && part.is_file()).then_some(library)
}

impl Job<'_> {
    /// Runs it. `start` makes a command where the launcher is to run.
    pub(super) fn run(&self, variant: Variant, start: &dyn Fn(&str) -> Command) -> Result<Times, String> {
        let _ = fs::remove_file(self.report);
        let output = self.command(variant, start).output().map_err(|error| error.to_string())?;
        let (printed, complaint) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        let mut times = output.status.success().then(|| parse(&printed)).flatten().ok_or_else(|| {
            format!(
                "{} with {}, {variant:?}: {}\n{printed}{complaint}",
                self.binary.display(),
                self.mpi.name,
                output.status
            )
        })?;
        times.transformed = transformed(&fs::read_to_string(self.report).unwrap_or_default());
        Ok(times)
    }

    fn command(&self, variant: Variant, start: &dyn Fn(&str) -> Command) -> Command {
        let mut command = start("timeout");
        Mpi::prepare(&mut command);
        command.args(["-k", "5", SECONDS_MAX]).args(self.mpi.args(self.ranks, self.hosts)).stdin(Stdio::null());
        if let (Variant::Library | Variant::AtOnce, Some(library)) = (variant, library(self.mpi)) {
            // Not for the launcher, nor by it: none passes all variables on to other nodes.
            command.arg("env").arg(format!("LD_PRELOAD={}", library.display()));
            command.args(["HEADWATER_IO=auto", "HEADWATER_IO_EVERYWHERE=yes"]);
            command.args((variant == Variant::AtOnce).then_some("HEADWATER_IO_MODEL=at-once"));
            command.arg(format!("HEADWATER_IO_REPORT={}", self.report.display()));
        }
        command.arg(self.binary).arg("--in").arg(self.directory.join("in"));
        command.arg("--out").arg(self.directory.join("out")).args(["--steps", &self.steps.to_string()]);
        command.args(self.program.options(self.bytes, self.ranks as u64));
        command.args((variant == Variant::Twin).then_some("--twin"));
        command
    }
}

/// The line `checksum=… read_s=… write_s=…`.
fn parse(printed: &str) -> Option<Times> {
    let value = |name: &str| printed.split_whitespace().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
    let seconds = |name| value(name)?.parse::<f64>().ok();
    Some(Times {
        seconds: [seconds("read_s")?, seconds("write_s")?],
        checksum: value("checksum")?.into(),
        transformed: 0,
    })
}

pub(super) fn transformed(report: &str) -> u64 {
    let lines = report.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines.filter_map(|line| line["transformed"].as_u64()).sum()
}

/// Makes a file of so many bytes that no file system stores as less.
pub(super) fn fill(file: &Path, bytes: u64) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", file.display());
    let mut state = bytes | 1;
    let block: Vec<u8> = std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    })
    .take(1 << 20)
    .collect();
    let mut out = fs::File::create(file).map_err(failed)?;
    let mut left = bytes;
    while left > 0 {
        let size = left.min(block.len() as u64);
        std::io::Write::write_all(&mut out, &block[..size as usize]).map_err(failed)?;
        left -= size;
    }
    out.sync_all().map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_of_programs_and_reports() {
        let times = parse("note\nchecksum=0f read_s=0.250000 write_s=1.5\n").unwrap();
        assert_eq!(times, Times { seconds: [0.25, 1.5], checksum: "0f".into(), transformed: 0 });
        assert_eq!(parse("checksum=0f read_s=x write_s=1"), None);
        assert_eq!(transformed("{\"transformed\": 3}\nelse\n{\"transformed\": 4}\n{}"), 7);
    }

    #[test]
    fn sizes_are_as_requested() {
        for program in Program::DIMENSIONS {
            for bytes in (10..=30).map(|power| 1_u64 << power) {
                let options = program.options(bytes, 4);
                let values: Vec<u64> = options.iter().skip(1).step_by(2).map(|value| value.parse().unwrap()).collect();
                let unit = if program == Program::Rows { 1 } else { 8 };
                assert_eq!(values.iter().product::<u64>() * unit, bytes, "{options:?}");
                assert_eq!(values[0] % 4, 0, "{options:?}");
            }
        }
    }
}
