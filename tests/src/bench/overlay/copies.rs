//! What is used today to bring files to nodes: `scp` and Slurm's `sbcast`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use headwater_cluster::{Cluster, Node};

use crate::harness::{has_program, wait_until};

/// How long services may take to be there.
const READY_MAX: Duration = Duration::from_secs(30);
/// Where the tar file goes on each node, and what is in it.
const TARGET: &str = "/dev/shm/copy";
const SLURM_SCRIPT: &str = include_str!("slurm.sh");

/// Processes that serve a cluster's nodes until this is dropped.
pub(super) struct Services(Vec<Child>);

impl Drop for Services {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Seconds that copying a tar file to all nodes took, and then unpacking it there.
#[derive(Debug)]
pub(super) struct Seconds {
    pub(super) copying: f64,
    pub(super) unpacking: f64,
}

/// Runs a shell's commands on a node; they must succeed.
pub(super) fn shell(node: &Node, script: &str) -> f64 {
    let started = Instant::now();
    let output = node.command("sh").args(["-euc", script]).stdin(Stdio::null()).output();
    let output = output.expect("nsenter comes with util-linux");
    assert!(output.status.success(), "{script} on {}: {}", node.name, String::from_utf8_lossy(&output.stderr));
    started.elapsed().as_secs_f64()
}

fn is_running(node: &Node, script: &str) -> bool {
    let mut command = node.command("sh");
    command.args(["-c", script]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// `scp` from the first node to each of the others in turn, and `tar` over `ssh`. `Err` says why it can't
/// be measured. `directory`: an own one that all nodes see.
pub(super) fn scp(cluster: &Cluster, directory: &Path, tar: &Path) -> Result<Seconds, String> {
    // It stands where users don't look for programs.
    let server = Path::new("/usr/sbin/sshd");
    if !server.is_file() || !has_program("scp") {
        return Err("scp: sshd is not installed (package openssh-server)".into());
    }
    let key = |name: &str| -> Result<PathBuf, String> {
        let path = directory.join(name);
        let mut command = Command::new("ssh-keygen");
        let output = command.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(&path).output();
        output.map_err(|e| format!("scp: ssh-keygen: {e}"))?;
        Ok(path)
    };
    let (host_key, user_key) = (key("host")?, key("user")?);
    let config = format!(
        "HostKey {}\nAuthorizedKeysFile {}.pub\nStrictModes no\nUsePAM no\nUseDNS no\nPermitRootLogin yes\n\
         PidFile none\nSubsystem sftp internal-sftp\n",
        host_key.display(),
        user_key.display()
    );
    fs::write(directory.join("sshd_config"), config).map_err(|e| e.to_string())?;
    let start = |node: &Node| {
        let script = format!("mkdir -p /run/sshd; exec {} -D -f {}/sshd_config", server.display(), directory.display());
        node.command("sh").args(["-c", &script]).stdin(Stdio::null()).stderr(Stdio::null()).spawn()
    };
    let services: Result<Vec<Child>, _> = cluster.nodes().iter().map(start).collect();
    let _services = Services(services.map_err(|e| e.to_string())?);
    let options = format!(
        "-q -i {} -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null",
        user_key.display()
    );
    let first = cluster.on(1);
    let others: Vec<&str> = cluster.nodes()[1..].iter().map(|node| node.name.as_str()).collect();
    let others = others.join(" ");
    for node in &cluster.nodes()[1..] {
        let script = format!("ssh {options} root@{} true", node.name);
        if !wait_until(READY_MAX, || is_running(first, &script)) {
            return Err(format!("scp: no connection to {}", node.name));
        }
    }
    let copy = format!("for node in {others}; do scp {options} {} root@$node:{TARGET}.tar; done", tar.display());
    let copying = shell(first, &copy);
    let unpack = format!(
        "for node in {others}; do ssh {options} root@$node 'mkdir {TARGET} && tar xf {TARGET}.tar -C {TARGET}' & all=\"${{all-}} $!\"; done; \
         for one in $all; do wait $one; done"
    );
    let unpacking = shell(first, &unpack);
    remove(cluster);
    Ok(Seconds { copying, unpacking })
}

/// `sbcast` from the first node to all, and `tar` by `srun`.
pub(super) fn sbcast(cluster: &Cluster, directory: &Path, tar: &Path) -> Result<Seconds, String> {
    let programs = ["munged", "slurmctld", "slurmd", "sbcast", "srun", "salloc"];
    let is_there = |name: &&str| has_program(name) || Path::new("/usr/sbin").join(name).is_file();
    if let Some(missing) = programs.iter().find(|name| !is_there(name)) {
        let packages = "munge, slurmd, slurmctld, slurm-client";
        return Err(format!("sbcast: {missing} is not installed (packages {packages})"));
    }
    let key = directory.join("munge.key");
    fs::write(&key, super::noise(128, 7)).map_err(|e| e.to_string())?;
    fs::set_permissions(&key, fs::Permissions::from_mode(0o400)).map_err(|e| e.to_string())?;
    let script = directory.join("slurm.sh");
    fs::write(&script, SLURM_SCRIPT).map_err(|e| e.to_string())?;
    let count = cluster.nodes().len();
    let start = |node: &Node| {
        let mut command = node.command("sh");
        command.arg(&script).arg(directory).args([&format!("node[001-{count:03}]"), "node001"]);
        command.env("PATH", format!("/usr/sbin:{}", std::env::var("PATH").unwrap_or_default()));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()
    };
    let services: Result<Vec<Child>, _> = cluster.nodes().iter().map(start).collect();
    let _services = Services(services.map_err(|e| e.to_string())?);
    let first = cluster.on(1);
    let idle = format!("export SLURM_CONF=/var/tmp/slurm.conf; [ \"$(sinfo -h -t idle -o %D)\" = {count} ]");
    if !wait_until(READY_MAX, || is_running(first, &idle)) {
        end_slurm(cluster);
        return Err("sbcast: Slurm's nodes did not become ready".into());
    }
    let inside = |what: &str| format!("export SLURM_CONF=/var/tmp/slurm.conf; salloc -Q -N {count} sh -euc '{what}'");
    // The allocation is a part of neither.
    let timed = |what: &str| {
        let file = directory.join("seconds");
        let script = format!("start=$(date +%s.%N); {what}; echo \"$start $(date +%s.%N)\" >{}", file.display());
        shell(first, &inside(&script));
        let text = fs::read_to_string(&file).expect("the script wrote it");
        let times: Vec<f64> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        times[1] - times[0]
    };
    let copying = timed(&format!("sbcast -f {} {TARGET}.tar", tar.display()));
    let unpacking = timed(&format!("srun -N {count} sh -c \"mkdir {TARGET} && tar xf {TARGET}.tar -C {TARGET}\""));
    end_slurm(cluster);
    remove(cluster);
    Ok(Seconds { copying, unpacking })
}

/// Its daemons outlive the shell that started them.
fn end_slurm(cluster: &Cluster) {
    for node in cluster.nodes() {
        let _ = is_running(node, "pkill -KILL slurmctld; pkill -KILL slurmd; pkill -KILL munged");
    }
}

fn remove(cluster: &Cluster) {
    for node in cluster.nodes() {
        shell(node, &format!("rm -rf {TARGET} {TARGET}.tar"));
    }
}
