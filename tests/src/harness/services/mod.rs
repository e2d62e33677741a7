//! Services by which programs are started on a cluster's nodes: Slurm, or ssh.

mod environments;
pub mod gluster;
pub mod openpbs;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use headwater_cluster::{Cluster, Node};

use super::{has_program, wait_until};

pub use environments::environment;

/// How long services may take to be there.
const READY_MAX: Duration = Duration::from_secs(30);
const SLURM_SCRIPT: &str = include_str!("slurm.sh");
/// Control groups of version 1 by which Slurm finds a step's processes.
const FREEZER: &str = "/sys/fs/cgroup/freezer";
/// The path of Slurm's configuration on each node.
pub const SLURM_CONF: &str = "/var/tmp/slurm.conf";

/// Processes that serve a cluster's nodes until this is dropped.
#[derive(Debug)]
struct Services(Vec<Child>);

impl Services {
    fn start(cluster: &Cluster, command: impl Fn(&Node) -> Command) -> Result<Services, String> {
        let quiet = |node: &Node| {
            let mut command = command(node);
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()
        };
        let started: Result<Vec<Child>, _> = cluster.nodes().iter().map(quiet).collect();
        started.map(Services).map_err(|error| error.to_string())
    }
}

impl Drop for Services {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Slurm on all nodes of a cluster; the first one controls.
#[derive(Debug)]
pub struct Slurm<'a> {
    cluster: &'a Cluster,
    /// Its control groups are its own: nodes of other clusters have the same names.
    has_groups: bool,
    _services: Services,
}

impl<'a> Slurm<'a> {
    /// Starts it and waits until all nodes are idle. `directory`: an own one that all nodes see.
    ///
    /// # Errors
    /// A package is not installed, or the nodes did not become ready.
    pub fn start(cluster: &'a Cluster, directory: &Path) -> Result<Slurm<'a>, String> {
        Slurm::start_with(cluster, directory, None, "linuxproc")
    }

    /// The same, where Slurm kills what is left of a step once its tasks have ended. Only one at a time.
    ///
    /// # Errors
    /// Those of [`Slurm::start`], and there are no control groups of version 1.
    pub fn start_that_kills(cluster: &'a Cluster, directory: &Path) -> Result<Slurm<'a>, String> {
        if !Path::new(FREEZER).is_dir() {
            return Err(format!("{FREEZER}, control groups of version 1, is not mounted"));
        }
        Slurm::start_with(cluster, directory, None, "cgroup")
    }

    /// The same with a library that is preloaded into `slurmd`.
    ///
    /// # Errors
    /// Those of [`Slurm::start`].
    pub fn start_preloaded(cluster: &'a Cluster, directory: &Path, library: &Path) -> Result<Slurm<'a>, String> {
        Slurm::start_with(cluster, directory, Some(library), "linuxproc")
    }

    fn start_with(
        cluster: &'a Cluster,
        directory: &Path,
        library: Option<&Path>,
        tracked_by: &str,
    ) -> Result<Slurm<'a>, String> {
        let programs = ["munged", "slurmctld", "slurmd", "sbcast", "srun", "salloc"];
        let is_there = |name: &&str| has_program(name) || Path::new("/usr/sbin").join(name).is_file();
        if let Some(missing) = programs.iter().find(|name| !is_there(name)) {
            return Err(format!("{missing} is not installed (packages munge, slurmd, slurmctld, slurm-client)"));
        }
        let key = directory.join("munge.key");
        let random: Vec<u8> = (0..128u32).map(|n| (n.wrapping_mul(0x9e37_79b1) >> 13) as u8).collect();
        fs::write(&key, random).map_err(|e| e.to_string())?;
        fs::set_permissions(&key, fs::Permissions::from_mode(0o400)).map_err(|e| e.to_string())?;
        let script = directory.join("slurm.sh");
        fs::write(&script, SLURM_SCRIPT).map_err(|e| e.to_string())?;
        let count = cluster.nodes().len();
        let services = Services::start(cluster, |node| {
            let mut command = node.command("sh");
            command.arg(&script).arg(directory).args([&format!("node[001-{count:03}]"), "node001"]).args(library);
            command.env("TRACKED_BY", tracked_by);
            command.env("PATH", format!("/usr/sbin:{}", std::env::var("PATH").unwrap_or_default()));
            command
        })?;
        let slurm = Slurm { cluster, has_groups: tracked_by == "cgroup", _services: services };
        let idle = format!("export SLURM_CONF={SLURM_CONF}; [ \"$(sinfo -h -t idle -o %D)\" = {count} ]");
        match wait_until(READY_MAX, || succeeds(cluster.on(1), &idle)) {
            true => Ok(slurm),
            false => Err("Slurm's nodes did not become ready".into()),
        }
    }
}

impl Drop for Slurm<'_> {
    fn drop(&mut self) {
        // Its daemons outlive the shell that started them.
        for node in self.cluster.nodes() {
            succeeds(node, "pkill -KILL slurmctld; pkill -KILL slurmd; pkill -KILL munged");
            if self.has_groups {
                // The kernel keeps these.
                succeeds(node, &format!("find {FREEZER}/slurm_$(hostname) -depth -type d -exec rmdir {{}} +"));
            }
        }
    }
}

/// `sshd` on all nodes of a cluster, and a key to them.
#[derive(Debug)]
pub struct Ssh {
    /// Options of `ssh` and `scp`.
    pub options: String,
    /// A command that is `ssh` with these options.
    pub agent: PathBuf,
    _services: Services,
}

impl Ssh {
    /// Starts it and waits until the first node can reach the others. `directory`: an own one that all nodes see.
    ///
    /// # Errors
    /// A package is not installed, or a node can't be reached.
    pub fn start(cluster: &Cluster, directory: &Path) -> Result<Ssh, String> {
        // Its directory is not in a user's PATH.
        let server = Path::new("/usr/sbin/sshd");
        if !server.is_file() || !has_program("scp") {
            return Err("sshd is not installed (package openssh-server)".into());
        }
        let key = |name: &str| -> Result<PathBuf, String> {
            let path = directory.join(name);
            let mut command = Command::new("ssh-keygen");
            let output = command.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(&path).output();
            output.map(|_| path).map_err(|e| format!("ssh-keygen: {e}"))
        };
        let (host_key, user_key) = (key("host")?, key("user")?);
        let config = format!(
            "HostKey {}\nAuthorizedKeysFile {}.pub\nStrictModes no\nUsePAM no\nUseDNS no\nPermitRootLogin yes\n\
             PidFile none\nSubsystem sftp internal-sftp\nSetEnv HOME={}\n",
            host_key.display(),
            user_key.display(),
            // Not what this machine's user has a shell do at each start.
            directory.display()
        );
        fs::write(directory.join("sshd_config"), config).map_err(|e| e.to_string())?;
        let script = format!("mkdir -p /run/sshd; exec {} -D -f {}/sshd_config", server.display(), directory.display());
        let services = Services::start(cluster, |node| {
            let mut command = node.command("sh");
            command.args(["-c", &script]);
            command
        })?;
        let options = format!(
            "-q -i {} -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null",
            user_key.display()
        );
        for node in &cluster.nodes()[1..] {
            let script = format!("ssh {options} root@{} true", node.name);
            if !wait_until(READY_MAX, || succeeds(cluster.on(1), &script)) {
                return Err(format!("no connection to {}", node.name));
            }
        }
        let agent = directory.join("agent");
        fs::write(&agent, format!("#!/bin/sh\nexec ssh {options} \"$@\"\n")).map_err(|e| e.to_string())?;
        fs::set_permissions(&agent, fs::Permissions::from_mode(0o755)).map_err(|e| e.to_string())?;
        Ok(Ssh { options, agent, _services: services })
    }
}

/// Whether a shell's commands succeed on a node.
pub fn succeeds(node: &Node, script: &str) -> bool {
    let mut command = node.command("sh");
    command.args(["-c", script]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// The output of a shell's commands on a node.
pub fn output_of(node: &Node, script: &str) -> String {
    let mut command = node.command("sh");
    let output = command.args(["-c", script]).stdin(Stdio::null()).output();
    output.map_or_else(|error| error.to_string(), |output| String::from_utf8_lossy(&output.stdout).into_owned())
}
