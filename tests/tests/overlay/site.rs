//! Sixteen nodes that see one shared file system, and a program that reads from it for a while.

use std::cell::RefCell;
use std::path::PathBuf;
use std::time::Duration;

use headwater_cluster::{Cluster, Options};
use headwater_tests::counting_fs::{Caching, Mounted};
use headwater_tests::harness::nodes::{self, Nodes, Plan};
use headwater_tests::harness::{Fixture, Output, Program, Running, has_program, skipped, wait_until};
use serde_json::Value;

/// Nodes of a site.
pub const NODES: usize = 16;
/// Modules that the program imports.
const MODULES: usize = 120;
/// Bytes of the file that it reads at the end.
const DATA_BYTES: usize = 6 << 20;
/// How much longer the file system takes for each file that is opened, so that a session lasts.
const OPEN_DELAY: Duration = Duration::from_millis(4);
/// How long a program may take in spite of everything that happens.
const PROGRAM_MAX: Duration = Duration::from_secs(100);
/// How long a session may take to read a part of what it will read.
const PROGRESS_MAX: Duration = Duration::from_secs(60);

/// Imports all modules, checks a file, and prints the results.
const SCRIPT: &str = "
import importlib, sys, zlib
values = [importlib.import_module(f'pkg.d{n % 8}.m{n}').value for n in range(int(sys.argv[1]))]
with open(sys.argv[2], 'rb') as file: data = file.read()
print(sum(values), len(data), zlib.crc32(data))
try: import pkg.nothing
except ImportError as error: print(error)
";

/// A cluster, and what its nodes share. Its fields end in this order.
pub struct Site {
    pub cluster: Cluster,
    mounted: RefCell<Mounted>,
    shared: PathBuf,
    _fixture: Fixture,
}

impl Site {
    /// `None`, with the reason on standard output, where there can't be one.
    pub fn new() -> Option<Site> {
        if !has_program("python3") {
            skipped("python3 is not installed");
            return None;
        }
        let fixture = Fixture::new("overlay");
        fixture.file("pkg/__init__.py", "", 0o644);
        for number in 0..MODULES {
            fixture.file(&format!("pkg/d{}/__init__.py", number % 8), "", 0o644);
            fixture.file(&format!("pkg/d{}/m{number}.py", number % 8), format!("value = {number} ** 3\n"), 0o644);
        }
        // No two pieces of it are alike.
        let data: Vec<u8> =
            (0..DATA_BYTES as u32 / 4).flat_map(|n| n.wrapping_mul(0x9e37_79b1).to_le_bytes()).collect();
        fixture.file("data", data, 0o644);
        let caching = Caching { ttl_ms: 600_000, pages: true };
        let mut mounted = Mounted::new(&fixture.shared(), 1, caching).map_err(skipped).ok()?;
        mounted.set_delay("open", OPEN_DELAY);
        // Nodes have directories such as /tmp for themselves, and the project may lie below one.
        let shares = vec![mounted.scratch().to_path_buf(), nodes::project().to_path_buf()];
        match Cluster::up(NODES, &Options { shares, ..Options::default() }) {
            Ok(cluster) => {
                let shared = mounted.path().to_path_buf();
                Some(Site { cluster, mounted: mounted.into(), shared, _fixture: fixture })
            }
            Err(reason) if headwater_cluster::check().is_err() => {
                skipped(reason);
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// The daemons' default configuration.
    pub fn plan(&self) -> Plan {
        Plan::of(&[&self.shared])
    }

    /// The program.
    pub fn program(&self) -> Program {
        let data = self.shared.join("data");
        let program = Program::new("python3").args(["-c", SCRIPT, &MODULES.to_string()]).arg(data);
        program.env("PYTHONPATH", &self.shared).env("PYTHONDONTWRITEBYTECODE", "1")
    }

    /// Its output without Headwater. Afterwards nothing has been counted.
    pub fn expected(&self) -> Output {
        let output = self.program().run();
        assert_eq!(output.status, 0, "{output:?}");
        self.reset();
        output
    }

    /// The operations on the shared file system since the last reset.
    pub fn counts(&self) -> Value {
        self.mounted.borrow_mut().counts()
    }

    /// Counts anew.
    pub fn reset(&self) {
        self.mounted.borrow_mut().reset();
    }

    /// Waits until this share of the files has been opened since the last reset.
    pub fn await_progress(&self, share: f64) {
        let opens = (share * (MODULES + 10) as f64) as u64;
        let has_arrived = wait_until(PROGRESS_MAX, || self.counts()["total"]["open"].as_u64() >= Some(opens));
        assert!(has_arrived, "{} after {PROGRESS_MAX:?}", self.counts()["total"]);
    }
}

/// Starts the program on these ranks' nodes.
pub fn start(nodes: &Nodes, ranks: impl IntoIterator<Item = usize>, program: &Program) -> Vec<(usize, Running)> {
    ranks.into_iter().map(|rank| (rank, nodes.program(rank, program).start())).collect()
}

/// Checks that all programs end with the same output as without Headwater.
pub fn finish(running: Vec<(usize, Running)>, expected: &Output) {
    for (rank, running) in running {
        let output = running.finish_within(PROGRAM_MAX);
        assert_eq!(output, *expected, "on rank {rank}");
    }
}
