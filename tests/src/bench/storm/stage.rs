//! The cluster that everything runs on: nodes with Slurm, one more that serves the volume, and memory with
//! the same files.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use headwater_cluster::{Cluster, Options, Rate};
use serde_json::Value;

use super::software::variables;
use crate::harness::headwater_binary;
use crate::harness::services::gluster::{Counts, Gluster, VOLUME};
use crate::harness::services::{SLURM_CONF, Slurm};

/// How long one start may take.
const START_SECONDS_MAX: u32 = 1200;
/// Of a node's own RAM disks, memory is taken as it is used.
const RAM_DISK_MIB: u32 = 4096;

/// How a program is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Variant {
    /// From the volume.
    Plain,
    /// From the volume, with Headwater, which is installed on the nodes.
    Headwater,
    /// The same, with what the program uses written down by a run before.
    Recorded,
    /// The same with Headwater's own files on the volume.
    OwnFilesToo,
    /// The same in a session whose nodes have served a launch.
    Session,
    /// From memory.
    Floor,
}

impl Variant {
    /// Its name in the results.
    pub(super) fn name(self) -> &'static str {
        match self {
            Variant::Plain => "plain",
            Variant::Headwater => "headwater",
            Variant::Recorded => "headwater-recorded",
            Variant::OwnFilesToo => "headwater-own-files-too",
            Variant::Session => "headwater-session",
            Variant::Floor => "floor",
        }
    }
}

/// One start of a program on some nodes.
pub(super) struct Start<'a> {
    pub(super) variant: Variant,
    pub(super) nodes: usize,
    pub(super) processes: usize,
    /// More options of `srun`.
    pub(super) srun: &'a [&'a str],
    /// Its arguments, by the directory below which its files are.
    pub(super) args: &'a dyn Fn(&Path) -> Vec<String>,
}

/// The results.
#[derive(Clone, Debug)]
pub(super) struct Measured {
    /// From starting the launcher to its end.
    pub(super) seconds: f64,
    /// Of all processors of the machine, whatever it did meanwhile.
    pub(super) cpu_seconds: f64,
    /// The server's operations.
    pub(super) counts: Counts,
    /// The program's output.
    pub(super) stdout: String,
    /// Requests that were served from the source, of those that Headwater was to answer.
    pub(super) fallbacks: u64,
}

/// A cluster of which the last node serves and runs no program.
pub(super) struct Stage<'a> {
    pub(super) cluster: &'a Cluster,
    pub(super) gluster: Gluster<'a>,
    /// A directory in memory with the volume's contents, that all nodes see: one copy for all.
    pub(super) memory: PathBuf,
    jobs: PathBuf,
    _slurm: Slurm<'a>,
}

/// Nodes whose links have this rate, and a server.
pub(super) fn cluster(nodes: usize, rate: Option<Rate>) -> Result<Cluster, String> {
    let shares = vec![crate::workspace()];
    let options = Options { rate, ram_disk_mib: RAM_DISK_MIB, shares, ..Options::default() };
    Cluster::up(nodes + 1, &options).map_err(|e| e.to_string())
}

impl<'a> Stage<'a> {
    /// Starts the services, and fills the volume and the memory, a file system at `directory`, with these
    /// directories and with Headwater.
    pub(super) fn set(cluster: &'a Cluster, directory: &Path, directories: &[PathBuf]) -> Result<Stage<'a>, String> {
        let memory = directory.join("memory");
        let jobs = directory.join("jobs");
        let text = |e: std::io::Error| format!("{}: {e}", directory.display());
        [&memory, &jobs].into_iter().try_for_each(fs::create_dir_all).map_err(text)?;
        for directory in directories {
            let mut command = Command::new("cp");
            command.args(["-a", "--sparse=always", "--update"]).arg(directory).arg(&memory);
            let output = command.output().map_err(text)?;
            if !output.status.success() {
                return Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr)));
            }
        }
        let slurm = directory.join("slurm");
        let _ = fs::remove_dir_all(&slurm);
        fs::create_dir_all(&slurm).map_err(text)?;
        let slurm = Slurm::start(cluster, &slurm)?;
        let gluster = Gluster::start(cluster)?;
        let installed = headwater_binary().ancestors().nth(2).map(Path::to_path_buf);
        let installed = installed.ok_or("the headwater command has no directory")?;
        let all: Vec<PathBuf> = directories.iter().cloned().chain([installed]).collect();
        gluster.fill(&all)?;
        Ok(Stage { cluster, gluster, memory, jobs, _slurm: slurm })
    }

    /// Starts a program once, with nothing cached on the nodes, and waits for its end.
    pub(super) fn start(&self, start: &Start) -> Result<Measured, String> {
        self.gluster.mount(start.nodes)?;
        let root = if start.variant == Variant::Floor { &self.memory } else { Path::new(VOLUME) };
        let args = self.launch(start, root);
        self.measure(&args, root)
    }

    /// Writes down what a program uses, for [`Variant::Recorded`].
    pub(super) fn record(&self, args: &dyn Fn(&Path) -> Vec<String>) -> Result<(), String> {
        self.gluster.mount(1)?;
        let closure = self.closure().display().to_string();
        let mut record = vec![headwater_binary().display().to_string(), "record".into(), "-o".into(), closure];
        record.extend(["--shared", VOLUME, "--no-summary", "--"].map(String::from));
        record.extend(args(Path::new(VOLUME)));
        self.measure(&record, Path::new(VOLUME)).map(drop)
    }

    fn closure(&self) -> PathBuf {
        self.jobs.join("closure")
    }

    /// Starts a program again, with what the nodes have cached, by Headwater in this session.
    pub(super) fn start_again(&self, start: &Start, session: &str) -> Result<Measured, String> {
        let mut args = self.launch(start, Path::new(VOLUME));
        if start.variant == Variant::Session {
            let mut own = self.own("run", &headwater_binary(), &self.jobs);
            own.extend(["--no-summary", "--session", session, "--"].map(String::from));
            args.splice(0..0, own);
        }
        self.measure(&args, Path::new(VOLUME))
    }

    /// Makes a session, calls `use_it` with its name, and ends it.
    pub(super) fn in_session(&self, use_it: impl FnOnce(&str) -> Result<(), String>) -> Result<(), String> {
        let headwater = |args: Vec<String>| {
            let output = self.cluster.on(1).command("env").args(args).output().map_err(|e| e.to_string())?;
            match output.status.success() {
                true => Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned()),
                false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
            }
        };
        let mut start = self.own("start", &headwater_binary(), &self.jobs);
        start.extend(["--shared", VOLUME, "--", "/bin/true"].map(String::from));
        let session = headwater(start)?;
        let used = use_it(&session);
        let mut stop = self.own("stop", &headwater_binary(), &self.jobs);
        stop.push(session);
        used.and(headwater(stop).map(drop))
    }

    /// The first arguments of one of Headwater's commands.
    fn own(&self, command: &str, binary: &Path, jobs: &Path) -> Vec<String> {
        let shown = |path: &Path| path.display().to_string();
        vec![shown(binary), command.into(), "--job-dir".into(), shown(jobs)]
    }

    /// The launcher's command, which begins with Headwater's if that is to serve.
    fn launch(&self, start: &Start, root: &Path) -> Vec<String> {
        let server = &self.cluster.nodes().last().expect("a server").name;
        let installed = headwater_binary();
        let own = installed.ancestors().nth(2).and_then(Path::file_name).expect("it lies in a directory");
        let on_volume = Path::new(VOLUME).join(own);
        let run = |binary: PathBuf, jobs: &Path| {
            let mut args = self.own("run", &binary, jobs);
            let summary = self.summary().display().to_string();
            args.extend(["--shared", VOLUME, "--no-summary", "--summary-json", &summary, "--"].map(String::from));
            args
        };
        let mut args = match start.variant {
            Variant::Plain | Variant::Floor | Variant::Session => Vec::new(),
            Variant::Headwater => run(installed, &self.jobs),
            Variant::Recorded => {
                let mut args = run(installed, &self.jobs);
                args.splice(2..2, ["--preload".into(), self.closure().display().to_string()]);
                args
            }
            Variant::OwnFilesToo => run(on_volume.join("bin/headwater"), &on_volume),
        };
        let (nodes, processes) = (start.nodes, start.processes);
        args.extend(["srun".into(), format!("-N{nodes}"), format!("--ntasks-per-node={processes}")]);
        args.extend([format!("--exclude={server}")]);
        args.extend(start.srun.iter().map(ToString::to_string));
        args.extend((start.args)(root));
        args
    }

    /// Runs a command on the first node and measures it.
    pub(super) fn measure(&self, args: &[String], root: &Path) -> Result<Measured, String> {
        self.gluster.reset()?;
        let _ = fs::remove_file(self.summary());
        let mut command = self.cluster.on(1).command("timeout");
        command.args(["--kill-after=5", &START_SECONDS_MAX.to_string()]).args(args).stdin(Stdio::null());
        command.envs(variables(root)).env("SLURM_CONF", SLURM_CONF).env_remove("LD_LIBRARY_PATH"); // cargo's
        let busy = busy_seconds();
        let started = Instant::now();
        let output = command.output().map_err(|e| e.to_string())?;
        let seconds = started.elapsed().as_secs_f64();
        let cpu_seconds = busy_seconds() - busy;
        let counts = self.gluster.counts()?;
        let stderr = String::from_utf8_lossy(&output.stderr);
        if !output.status.success() {
            return Err(format!("{}: {}: {}", args.join(" "), output.status, stderr.trim()));
        }
        if !stderr.trim().is_empty() {
            println!("    printed: {}", stderr.trim());
        }
        let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
        let summary = fs::read_to_string(self.summary()).unwrap_or_default();
        let summary: Value = serde_json::from_str(&summary).unwrap_or_default();
        let count = |part: &str, name: &str| summary[part][name].as_u64().unwrap_or(0);
        let fallbacks = count("clients", "fallbacks") + count("mount", "from_original");
        Ok(Measured { seconds, cpu_seconds, counts, stdout, fallbacks })
    }

    /// The path of Headwater's summary.
    fn summary(&self) -> PathBuf {
        self.jobs.join("summary.json")
    }
}

/// Seconds that the machine's processors have worked since it was started.
fn busy_seconds() -> f64 {
    const TICKS_PER_SECOND: f64 = 100.0;
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    // user, nice, system, idle, waiting, interrupts, soft interrupts
    let ticks = stat.lines().next().unwrap_or_default().split_whitespace().skip(1).take(7).enumerate();
    let busy = ticks.filter(|(column, _)| ![3, 4].contains(column)).filter_map(|(_, word)| word.parse::<f64>().ok());
    busy.sum::<f64>() / TICKS_PER_SECOND
}
