//! Ranks of an MPI program, which find each other by descriptors from the launcher.

use headwater_tests::harness::services::environment;
use headwater_tests::harness::{Fixture, Output, Program, headwater_binary, skipped};

use crate::fixture;

/// Rank 0 reads a file of 8 MB and scatters it; each prints what it has received, twice over.
const SCATTER: &str = "
import os, sys, zlib
from mpi4py import MPI
world = MPI.COMM_WORLD
part = bytearray((8 << 20) // world.size)
whole = bytearray(8 << 20) if world.rank == 0 else None
for step in range(2):
    if world.rank == 0:
        with open(sys.argv[1], 'rb', buffering=0) as file:
            assert file.readinto(whole) == len(whole)
    world.Scatter([whole, MPI.BYTE] if world.rank == 0 else None, [part, MPI.BYTE])
    os.write(1, f'{step} {world.rank}: {zlib.crc32(part)}\\n'.encode())
";

/// Sums the ranks, and prints the sum.
const SCRIPT: &str = "
import os
from mpi4py import MPI
world = MPI.COMM_WORLD
total = world.allreduce(world.rank)
os.write(1, f'{world.rank} of {world.size}: {total}\\n'.encode())
";

/// Four ranks of a script, by MPICH's launcher.
struct Hydra {
    fixture: Fixture,
    program: Program,
}

impl Hydra {
    fn new(script: &str, arguments: &[&str]) -> Option<Hydra> {
        let fixture = fixture()?;
        let mpich = match environment("mpich", &["mpich", "mpi4py"]) {
            Ok(mpich) => mpich,
            Err(reason) => {
                skipped(reason);
                return None;
            }
        };
        let python = mpich.join("bin/python3");
        let args = [python.as_os_str(), "-c".as_ref(), script.as_ref()];
        let program = Program::new(mpich.join("bin/mpiexec")).args(["-launcher", "fork", "-n", "4"]).args(args);
        let program = program.args(arguments).env("PYTHONDONTWRITEBYTECODE", "1");
        Some(Hydra { fixture, program })
    }

    fn plain(&self) -> Output {
        let output = self.program.run();
        assert_eq!(output.status, 0, "{output:?}");
        output
    }

    /// With ranks from zygotes that have imported this; how many were.
    fn warm(&self, imports: &str, options: &[&str]) -> (Output, u64) {
        let text = |name: &str| self.fixture.outside(name).display().to_string();
        let (binary, shared) = (headwater_binary().display().to_string(), self.fixture.shared().display().to_string());
        let (summary, jobs) = (text("summary.json"), text("jobs"));
        let run =
            [&*binary, "run", "--via", "audit", "--shared", &shared, "--job-dir", &jobs, "--summary-json", &summary];
        let args = [&run[..], options, &["--warm-imports", imports, "--"]].concat();
        let output = self.program.clone().behind(&args).run();
        let summary = std::fs::read_to_string(&summary).expect("it was written");
        let summary: serde_json::Value = serde_json::from_str(&summary).expect("JSON");
        (output, summary["from_zygotes"].as_u64().expect("a number"))
    }
}

fn sorted(output: &Output) -> Vec<&str> {
    let mut lines: Vec<&str> = output.stdout.lines().collect();
    lines.sort_unstable();
    lines
}

#[test]
fn ranks_of_hydra() {
    let Some(hydra) = Hydra::new(SCRIPT, &[]) else { return };
    let expected = hydra.plain();
    for (imports, zygotes, reason) in [("mpi4py", 4, ""), ("mpi4py.MPI", 0, "is not forked from a zygote: ")] {
        let (output, from_zygotes) = hydra.warm(imports, &[]);
        assert_eq!((sorted(&output), output.status), (sorted(&expected), 0), "{imports}: {output:?}");
        assert_eq!(from_zygotes, zygotes, "{imports}: {output:?}");
        assert!(output.stderr.contains(reason), "{imports}: {output:?}");
    }
}

/// The first rank, which comes from a zygote, knows nothing of the others.
#[test]
fn others_than_the_first_rank_report_that_they_are_executed() {
    let Some(mut hydra) = Hydra::new("import os; os.write(1, b'warm\\n')", &[]) else { return };
    hydra.program = hydra.program.args([":", "-n", "2", "/bin/echo", "executed"]);
    let expected = hydra.plain();
    let (output, from_zygotes) = hydra.warm("json", &[]);
    assert_eq!((sorted(&output), output.status), (sorted(&expected), 0), "{output:?}");
    assert_eq!(from_zygotes, 4, "{output:?}");
    let lines: Vec<&str> = output.stderr.lines().filter(|line| line.contains(" is not forked from a zygote")).collect();
    assert!(matches!(lines[..], [line] if line.starts_with("headwater: warning: /bin/echo ")), "{output:?}");
}

/// The zygote has the I/O library, too, and its ranks call MPI_Init.
#[test]
fn warm_ranks_read_their_own_parts() {
    let Some(fixture) = fixture() else { return };
    let input = fixture.outside("in");
    std::fs::write(&input, (0..8u32 << 20).map(|i| (i.wrapping_mul(i) >> 7) as u8).collect::<Vec<u8>>())
        .expect("there is room");
    let Some(mut hydra) = Hydra::new(SCATTER, &[&input.display().to_string()]) else { return };
    let expected = hydra.plain();
    hydra.program = hydra.program.env("HEADWATER_IO_MODEL", "always");
    let report = fixture.outside("report");
    let (output, from_zygotes) = hydra.warm("mpi4py", &["--io", "auto", "--io-report", &report.display().to_string()]);
    assert_eq!((sorted(&output), output.status), (sorted(&expected), 0), "{output:?}");
    assert_eq!(from_zygotes, 4, "{output:?}");
    let report = std::fs::read_to_string(&report).unwrap_or_default();
    // An interpreter that compiles itself may come by another way the second time.
    let lines = report.lines().filter(|line| line.contains("read+scatter"));
    let lines = lines.map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"));
    assert_eq!(lines.filter_map(|line| line["transformed"].as_u64()).sum::<u64>(), 2, "{report} {output:?}");
}
