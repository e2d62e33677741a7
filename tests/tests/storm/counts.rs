//! A server's operations for a launch: one process's files, however many nodes and processes there are.

use std::path::Path;

use headwater_cluster::{Cluster, Options};
use headwater_tests::harness::services::gluster::{Counts, Gluster};
use headwater_tests::harness::services::{SLURM_CONF, Slurm};
use headwater_tests::harness::{Fixture, headwater_binary, nodes, skipped};

const NODES: usize = 4;
const MODULES: usize = 60;
/// The directories on the volume.
const SOFTWARE: &str = "/var/tmp/volume/shared";
const INSTALLED: &str = "/var/tmp/volume/installed";
/// How long a launch may take, in seconds.
const LAUNCH_SECONDS_MAX: &str = "60";

/// A program with libraries that reads some of a directory's files, in order and in none.
fn fill(fixture: &Fixture) -> String {
    let rpath = "-Wl,-rpath,$ORIGIN/../lib";
    fixture.library("lib/libl0.so", "zero", &[]);
    fixture.library("lib/libl1.so", "one", &["-L{shared}/lib", "-ll0", rpath]);
    fixture.build("loader.c", "bin/app", &["-Wl,--no-as-needed", "-L{shared}/lib", "-ll0", "-ll1", rpath]);
    for number in 0..MODULES {
        fixture.file(&format!("ordered/m{number:02}"), format!("value = {number}\n"), 0o644);
        fixture.file(&format!("scattered/m{number:02}"), format!("value = {number}\n"), 0o644);
    }
    let ordered = (0..MODULES).filter(|number| number % 3 != 1).map(|number| format!("ordered/m{number:02}"));
    let scattered = (0..MODULES / 2).map(|number| format!("scattered/m{:02}", number * 37 % MODULES));
    let files: Vec<String> = ordered.chain(scattered).collect();
    format!("cd {SOFTWARE}; bin/app call=l1; cat {} | cksum", files.join(" "))
}

struct Launches<'a> {
    cluster: &'a Cluster,
    gluster: &'a Gluster<'a>,
    program: &'a str,
    /// Its output.
    printed: String,
}

impl Launches<'_> {
    /// The program's output on the first of so many nodes behind these arguments, and the server's counts.
    fn run(&self, nodes: usize, args: &[&str]) -> (String, Counts) {
        self.gluster.mount(nodes).unwrap();
        self.gluster.reset().unwrap();
        let mut command = self.cluster.on(1).command("timeout");
        command.args(["--kill-after=5", LAUNCH_SECONDS_MAX]).args(args).args(["sh", "-c", self.program]);
        command.env("SLURM_CONF", SLURM_CONF).env_remove("LD_LIBRARY_PATH"); // cargo's
        let output = command.output().unwrap();
        let counts = self.gluster.counts().unwrap();
        assert!(output.status.success(), "{args:?}: {output:?}");
        (String::from_utf8(output.stdout).unwrap(), counts)
    }

    /// The same by `headwater run` and `srun`; the output is that of as many processes.
    fn served(
        &self,
        [binary, jobs]: [&Path; 2],
        via: &str,
        (nodes, processes): (usize, usize),
        srun: &[&str],
    ) -> Counts {
        let [binary, jobs] = [binary, jobs].map(|path| path.display().to_string());
        let run =
            [&binary, "run", "--no-summary", "--via", via, "--shared", SOFTWARE, "--job-dir", &jobs, "--", "srun"];
        let exclude = format!("--exclude=node{:03}", NODES + 1);
        let shape = [format!("-N{nodes}"), format!("--ntasks-per-node={processes}")];
        let args = [&run[..], srun, &[&exclude, &shape[0], &shape[1]]].concat();
        let (printed, counts) = self.run(nodes, &args);
        let mut lines: Vec<&str> = printed.lines().collect();
        lines.sort_unstable();
        let mut expected: Vec<&str> = self.printed.lines().flat_map(|line| vec![line; nodes * processes]).collect();
        expected.sort_unstable();
        assert_eq!(lines, expected, "{args:?}");
        counts
    }
}

#[test]
fn the_server_is_asked_for_one_processs_files() {
    if let Err(reason) = headwater_cluster::check() {
        return skipped(reason);
    }
    let fixture = Fixture::new("counts");
    let program = fill(&fixture);
    let shares = vec![nodes::project().to_path_buf(), fixture.outside("")];
    let cluster = Cluster::up(NODES + 1, &Options { shares, ..Options::default() }).unwrap();
    let directory = |name| {
        let path = fixture.outside(name);
        std::fs::create_dir_all(&path).unwrap();
        path
    };
    let is_missing = |reason: &String| reason.contains("is not installed");
    let _slurm = match Slurm::start(&cluster, &directory("slurm")) {
        Err(reason) if is_missing(&reason) => return skipped(reason),
        started => started.unwrap(),
    };
    let gluster = match Gluster::start(&cluster) {
        Err(reason) if is_missing(&reason) => return skipped(reason),
        started => started.unwrap(),
    };
    let installed = directory("installed");
    let prefix = headwater_binary().ancestors().nth(2).unwrap().to_path_buf();
    for name in ["bin/headwater", "lib/libheadwater-audit.so"] {
        std::fs::create_dir(installed.join(name).parent().unwrap()).unwrap();
        std::fs::copy(prefix.join(name), installed.join(name)).unwrap();
    }
    gluster.fill(&[fixture.shared(), installed]).unwrap();
    let mut launches = Launches { cluster: &cluster, gluster: &gluster, program: &program, printed: String::new() };
    let (printed, plain) = launches.run(1, &[]);
    launches.printed = printed;
    let (jobs, binary) = (directory("jobs"), headwater_binary());
    let first = launches.served([&binary, &jobs], "namespace", (1, 1), &[]);
    assert_eq!(first.opens, plain.opens, "{first:?}, of one process alone: {plain:?}");
    let most = launches.served([&binary, &jobs], "namespace", (NODES, 4), &[]);
    assert_eq!((most.opens, most.bytes), (first.opens, first.bytes), "{most:?}, of one: {first:?}");

    // Its own files on the volume too: where `headwater run` is, the program and its copy; on each node the
    // program for each process, its copy, and the job file.
    let own = [&Path::new(INSTALLED).join("bin/headwater"), Path::new(INSTALLED)];
    for (nodes, processes) in [(1, 1), (1, 4), (NODES, 1), (NODES, 4)] {
        let counts = launches.served(own, "namespace", (nodes, processes), &[]);
        let expected = 2 + nodes * (processes + 2);
        assert_eq!((counts.opens - plain.opens) as usize, expected, "{nodes} nodes of {processes}: {counts:?}");
    }
    // The audit library is read once a node.
    let counts = launches.served(own, "audit", (NODES, 4), &[]);
    assert_eq!((counts.opens - plain.opens) as usize, 2 + NODES * (4 + 3), "{counts:?}");
    // Where the launcher sends the program, it is the job file alone, and once the program for the launcher.
    let counts = launches.served(own, "namespace", (NODES, 4), &["--bcast=/tmp/headwater"]);
    assert_eq!((counts.opens - plain.opens) as usize, 2 + 1 + NODES, "{counts:?}");
}
