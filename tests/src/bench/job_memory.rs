//! The memory of a job on one node, as its control group counts it: processes, files that the kernel has read for them,
//! stores and daemons.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::torch::environment;
use super::{Report, Table};
use crate::harness::{Fixture, Headwater, Mechanism, MemoryGroup, Program, wait_until};
use crate::model::Content;

/// Processes of the job.
const PROCESSES: usize = 8;
const FILE_BYTES: u64 = 1 << 30;
/// How long all of them may take until they have what they want.
const READY_MAX: Duration = Duration::from_secs(600);
const WAYS: [(&str, Option<Mechanism>, &[&str]); 5] = [
    ("plain", None, &[]),
    ("namespace", Some(Mechanism::Namespace), &[]),
    ("namespace, all stored", Some(Mechanism::Namespace), &["--stored-file-max", "1T", "--store-max", "6G"]),
    ("audit", Some(Mechanism::Audit), &[]),
    ("audit, all stored", Some(Mechanism::Audit), &["--stored-file-max", "1T", "--store-max", "6G"]),
];
/// Does what its first argument says, creates a file in the directory of the second, and waits for `go` there.
const SCRIPT: &str = "
import mmap, os, sys, time
if sys.argv[1] == 'torch':
    import torch
else:
    with open(sys.argv[1], 'rb') as file: bytes = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
    sum(bytes[at] for at in range(0, len(bytes), mmap.PAGESIZE))
open(os.path.join(sys.argv[2], str(os.getpid())), 'w').close()
while not os.path.exists(os.path.join(sys.argv[2], 'go')): time.sleep(0.1)
";

pub(super) fn run(report: &mut Report) {
    report.heading(&format!("Memory of a job with {PROCESSES} processes on a node"));
    report.line(
        "MB of a control group in which nothing else runs, when all processes have what they want; the kernel has cached \
         no file before. `Pss` is what the processes map, each page divided by those that map it.\n",
    );
    let mut table = Table::new(["", "", "all", "over plain", "anonymous", "files", "shared memory", "Pss"]);
    let large = Fixture::new("jobmemory");
    let file = large.file("large", Content::noise(1, FILE_BYTES).read(0, FILE_BYTES), 0o644);
    let python = PathBuf::from("python3");
    let read =
        Job { what: "1 GiB, mapped and read", python, shared: large.shared(), argument: file.display().to_string() };
    let mut jobs = vec![read];
    match environment() {
        Ok(environment) => jobs.push(Job {
            what: "import torch",
            python: environment.join("bin/python3"),
            shared: environment,
            argument: "torch".into(),
        }),
        Err(reason) => report.line(format!("skipped import torch: {reason}\n")),
    }
    for job in &jobs {
        let mut plain = None;
        for (way, via, options) in WAYS {
            let usage = match job.usage(via, options) {
                Ok(usage) => usage,
                Err(reason) => return report.line(format!("skipped: {reason}")),
            };
            let all = usage.all() as f64;
            let mb = |bytes: u64| format!("{:.0}", bytes as f64 / 1e6);
            let ratio = format!("{:.2}", all / *plain.get_or_insert(all));
            let parts = [usage.anonymous, usage.files, usage.shared, usage.pss].map(mb);
            let cells = [job.what.to_owned(), way.to_owned(), mb(usage.all()), ratio];
            table.row(cells.into_iter().chain(parts));
        }
    }
    report.table(&table);
}

/// What all processes do.
struct Job {
    what: &'static str,
    python: PathBuf,
    shared: PathBuf,
    argument: String,
}

/// Bytes of a control group.
struct Usage {
    anonymous: u64,
    /// Pages of files, without shared memory.
    files: u64,
    shared: u64,
    /// What the processes map.
    pss: u64,
}

impl Job {
    /// Runs the job in a group of its own.
    fn usage(&self, via: Option<Mechanism>, options: &[&str]) -> Result<Usage, String> {
        let group = MemoryGroup::new("job", u64::MAX >> 1)?;
        let scratch = crate::scratch("jobmemory");
        let ready = scratch.path().join("ready");
        fs::create_dir(&ready).map_err(|error| format!("{}: {error}", ready.display()))?;
        drop_caches()?;
        let enter = [
            "sh".into(),
            "-c".into(),
            format!("echo $$ > {} && exec \"$@\"", group.processes().display()),
            "sh".into(),
        ];
        let program = Program::new(&self.python).args(["-c", SCRIPT]).arg(&self.argument).arg(&ready);
        let each = format!("for n in $(seq {PROCESSES}); do \"$@\" & done; wait");
        let program = program.behind(["sh", "-c", &each, "sh"]).env("PYTHONDONTWRITEBYTECODE", "1");
        let go = || fs::write(ready.join("go"), "").expect("an own directory");
        let Some(via) = via else {
            let running = program.behind(&enter).start();
            let usage = self.measure(&group, &ready);
            go();
            assert_eq!(running.finish().status, 0);
            return usage;
        };
        let closures = format!("--closures={}", scratch.path().join("closures").display());
        let headwater = Headwater::new(&self.shared).via(via).behind(&enter).store_of_its_own().option(closures);
        let headwater = options.iter().fold(headwater, |headwater, option| headwater.option(*option));
        let running = headwater.start(&program);
        let usage = self.measure(&group, &ready);
        go();
        assert_eq!(running.finish().output.status, 0);
        usage
    }

    fn measure(&self, group: &MemoryGroup, ready: &Path) -> Result<Usage, String> {
        let count = || fs::read_dir(ready).map_or(0, Iterator::count) >= PROCESSES;
        if !wait_until(READY_MAX, count) {
            return Err(format!("{} takes more than {READY_MAX:?}", self.what));
        }
        let [anonymous, cached, shared] = group.usage()?;
        Ok(Usage { anonymous, files: cached.saturating_sub(shared), shared, pss: group.pss() })
    }
}

impl Usage {
    fn all(&self) -> u64 {
        self.anonymous + self.files + self.shared
    }
}

/// Has the kernel give up the pages of files, so that the group is charged for those that it uses.
fn drop_caches() -> Result<(), String> {
    rustix::fs::sync();
    fs::write("/proc/sys/vm/drop_caches", "3")
        .map_err(|error| format!("the kernel's cached files can't be dropped: {error}"))
}
