//! Nodes that see one shared file system, and a program for them.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::time::Duration;

use headwater_cluster::{Cluster, Node, Options};
use headwater_tests::counting_fs::{Caching, Mounted};
use headwater_tests::harness::nodes::project;
use headwater_tests::harness::services::{output_of, succeeds};
use headwater_tests::harness::{Fixture, Output, Program, Running, has_program, headwater_binary, skipped, wait_until};
use serde_json::Value;

/// Nodes of a site, where a test doesn't need others.
pub const NODES: usize = 4;
/// Modules that the program imports.
const MODULES: usize = 20;
/// How long a launcher may take.
const LAUNCH_MAX: Duration = Duration::from_secs(90);
/// How long something of Headwater's may be there after a launcher has ended.
const LEFT_MAX: Duration = Duration::from_secs(5);

/// Headwater's mounts that a node sees. Those of this machine were copied when the cluster was made, and may vanish.
const MOUNTS: &str = "grep headwater /proc/mounts";

const SCRIPT: &str = "
import importlib, os, sys
values = [importlib.import_module(f'pkg.m{n}').value for n in range(int(sys.argv[1]))]
os.write(1, f'{sum(values)} {importlib.import_module(\"pkg.m0\").__file__}\\n'.encode())
";

/// A cluster, and what its nodes share. Its fields end in this order.
pub struct Site {
    pub cluster: Cluster,
    mounted: RefCell<Mounted>,
    shared: PathBuf,
    mounts_before: String,
    fixture: Fixture,
}

impl Site {
    /// One of four nodes; `None`, with the reason on standard output, where there can't be one.
    pub fn new() -> Option<Site> {
        Site::of(NODES)
    }

    /// The same of so many nodes.
    pub fn of(nodes: usize) -> Option<Site> {
        Site::with_interfaces(nodes, 1)
    }

    /// The same with so many interfaces of each node.
    pub fn with_interfaces(nodes: usize, interfaces: usize) -> Option<Site> {
        if !has_program("python3") {
            skipped("python3 is not installed");
            return None;
        }
        let fixture = Fixture::new("launchers");
        fixture.file("pkg/__init__.py", "", 0o644);
        for number in 0..MODULES {
            fixture.file(&format!("pkg/m{number}.py"), format!("value = {number} ** 3\n"), 0o644);
        }
        let mounted =
            Mounted::new(&fixture.shared(), 1, Caching { ttl_ms: 600_000, pages: true }).map_err(skipped).ok()?;
        let shares = vec![mounted.scratch().to_path_buf(), project().to_path_buf(), fixture.outside("")];
        match Cluster::up(nodes, &Options { interfaces, shares, ..Options::default() }) {
            Ok(cluster) => {
                let shared = mounted.path().to_path_buf();
                let mounts_before = output_of(cluster.on(1), MOUNTS);
                Some(Site { cluster, mounted: mounted.into(), shared, mounts_before, fixture })
            }
            Err(reason) if headwater_cluster::check().is_err() => {
                skipped(reason);
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// A directory that all nodes see, for what services and jobs need.
    pub fn directory(&self, name: &str) -> PathBuf {
        let directory = self.fixture.outside(name);
        std::fs::create_dir_all(&directory).expect("an own directory");
        directory
    }

    /// The directory of the shared file system.
    pub fn shared(&self) -> &Path {
        &self.shared
    }

    /// The arguments of the program.
    pub fn program(&self) -> Vec<String> {
        ["python3", "-c", SCRIPT, &MODULES.to_string()].map(String::from).to_vec()
    }

    /// The arguments of the program, with the variables that it needs, for launchers that pass none on.
    pub fn program_with_variables(&self) -> Vec<String> {
        let path = format!("PYTHONPATH={}", self.shared.display());
        let variables = ["/usr/bin/env".into(), path, "PYTHONDONTWRITEBYTECODE=1".into()];
        variables.into_iter().chain(self.program()).collect()
    }

    /// Runs a command on the first node, plainly.
    pub fn plain(&self, args: &[String]) -> Output {
        self.on_first(args).run()
    }

    /// The same with `headwater run` before it; the output, and the summary.
    pub fn served(&self, options: &[&str], args: &[String]) -> (Output, Value) {
        let file = self.directory("jobs").join("summary.json");
        let file = file.display().to_string();
        let options: Vec<&str> = ["--summary-json", &file].into_iter().chain(options.iter().copied()).collect();
        let output = self.run(&options, args);
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        let summary = serde_json::from_str(&text).unwrap_or(Value::Null);
        self.assert_clean();
        (output, summary)
    }

    /// `headwater run` with such options.
    pub fn run(&self, options: &[&str], args: &[String]) -> Output {
        self.headwater("run", options, args)
    }

    /// Starts a session of several launches; its name.
    pub fn start(&self, options: &[&str]) -> String {
        let output = self.headwater("start", options, &self.program());
        assert_eq!(output.status, 0, "{output:?}");
        output.stdout.trim().to_owned()
    }

    /// Stops it. Returns its output.
    pub fn stop(&self, session: &str) -> Output {
        let jobs = self.directory("jobs").display().to_string();
        let binary = headwater_binary().display().to_string();
        self.on_first(&[&binary, "stop", "--job-dir", &jobs, session].map(String::from)).run()
    }

    /// The same, which continues.
    pub fn begin(&self, options: &[&str], args: &[String]) -> Running {
        self.program_of("run", options, args).start()
    }

    fn headwater(&self, subcommand: &str, options: &[&str], args: &[String]) -> Output {
        self.program_of(subcommand, options, args).start().finish_within(LAUNCH_MAX)
    }

    fn program_of(&self, subcommand: &str, options: &[&str], args: &[String]) -> Program {
        let mut all: Vec<String> = vec![headwater_binary().display().to_string(), subcommand.into()];
        all.extend(["--shared", &self.shared.display().to_string()].map(String::from));
        all.extend(["--job-dir", &self.directory("jobs").display().to_string()].map(String::from));
        all.extend(options.iter().map(|option| option.to_string()));
        all.push("--".into());
        all.extend_from_slice(args);
        self.on_first(&all)
    }

    /// A command on the first node.
    pub fn on_first(&self, args: &[String]) -> Program {
        let command = self.node().command(&args[0]);
        let program = Program::new(command.get_program()).args(command.get_args()).args(&args[1..]);
        program
            .env("PYTHONPATH", &self.shared)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            // Or a line is two writes, between which a launcher may print another process's.
            .env("PYTHONUNBUFFERED", "")
            .env("SLURM_CONF", "/var/tmp/slurm.conf")
    }

    fn node(&self) -> &Node {
        self.cluster.on(1)
    }

    /// Nothing of Headwater's is left on any node that lives.
    pub fn assert_clean(&self) {
        for node in self.cluster.nodes().iter().filter(|node| node.is_alive()) {
            let is_clean = || {
                succeeds(node, "[ -z \"$(ls -d /dev/shm/headwater-* 2>/dev/null)\" ]")
                    && output_of(node, MOUNTS).lines().all(|mount| self.mounts_before.contains(mount))
                    && succeeds(node, "! grep -l headwater /proc/[0-9]*/comm")
            };
            let left =
                || output_of(node, "ls -d /dev/shm/headwater-*/*; grep headwater /proc/mounts; ps -eo pid,ppid,args");
            assert!(wait_until(LEFT_MAX, is_clean), "something is left on {}: {}", node.name, left());
        }
        let jobs: Vec<_> = std::fs::read_dir(self.directory("jobs")).expect("an own directory").flatten().collect();
        assert!(jobs.iter().all(|job| job.path().extension().is_some()), "{jobs:?}");
    }

    /// The arguments of a launcher's command with the program.
    pub fn args(&self, launcher: &str) -> Vec<String> {
        launcher.split(' ').map(String::from).chain(self.program()).collect()
    }

    /// Drops what was cached of the shared file system.
    pub fn forget(&self) {
        self.mounted.borrow_mut().reset();
    }

    /// Files and directories that were opened, and directories that were read, more than once. PRRTE's own daemons
    /// open the shared directory on each node, with Headwater or without, and read nothing there. A directory's end
    /// is found by a second reading.
    pub fn repeated(&self) -> Vec<String> {
        let counts = self.mounted.borrow_mut().counts();
        let paths = counts["paths"].as_object().expect("counts by path");
        let is_repeated = |path: &str, counts: &Value| {
            let count = |kind: &str| counts[kind].as_u64().unwrap_or(0);
            count("open") > 1 || count("readdir") > 2 || !path.is_empty() && count("opendir") > 1
        };
        let repeated = paths.iter().filter(|(path, counts)| is_repeated(path, counts));
        repeated.map(|(path, counts)| format!("{path}: {counts}")).collect()
    }

    /// Checks that a launcher's command does the same with Headwater, on so many nodes, and reads files once.
    pub fn check(&self, launcher: &str, nodes: u64) {
        self.check_args(&self.args(launcher), nodes);
    }

    /// The same of a whole command.
    pub fn check_args(&self, args: &[String], nodes: u64) {
        let launcher = &args[..args.len().min(4)].join(" ");
        let expected = self.plain(args);
        assert_eq!(expected.status, 0, "{expected:?}");
        let (output, _) = self.run_once(&[], args, nodes);
        assert_eq!(in_any_order(output), in_any_order(expected), "{launcher}");
        let counts = self.mounted.borrow_mut().counts();
        assert_eq!(counts["total"]["failed_lookup"], 0, "absent names were looked up: {launcher}: {counts:#}");
    }

    /// Checks the output of the site's program on so many nodes, with one process on each, without a run to compare it
    /// with. Returns the summary.
    pub fn check_output(&self, options: &[&str], args: &[String], nodes: usize) -> Value {
        let (output, summary) = self.run_once(options, args, nodes as u64);
        let line = format!("36100 {}/pkg/m0.py", self.shared.display());
        assert_eq!(output.stdout.lines().collect::<Vec<_>>(), vec![line; nodes], "{output:?}");
        assert!(output.status == 0 && !output.stderr.contains("headwater"), "{output:?}");
        summary
    }

    /// Runs it on so many nodes, which read files once.
    fn run_once(&self, options: &[&str], args: &[String], nodes: u64) -> (Output, Value) {
        let launcher = &args[..args.len().min(4)].join(" ");
        self.forget();
        let (output, summary) = self.served(options, args);
        assert_eq!(summary["nodes"], nodes, "{launcher}: {summary}\n{output:?}");
        assert_eq!(self.repeated(), [""; 0], "{launcher}: {summary}");
        (output, summary)
    }
}

/// Processes write their lines in any order, and launchers sometimes a note of their own.
pub fn in_any_order(mut output: Output) -> Output {
    for stream in [&mut output.stdout, &mut output.stderr] {
        let mut lines: Vec<&str> = stream.lines().filter(|line| !is_launchers(line)).collect();
        lines.sort_unstable();
        *stream = lines.join("\n");
    }
    output
}

fn is_launchers(line: &str) -> bool {
    ["[node", "srun: job "].iter().any(|start| line.starts_with(start))
}
