//! The usual means to copy files to nodes: `scp` and Slurm's `sbcast`.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::Instant;

use headwater_cluster::{Cluster, Node};

use crate::harness::services::{SLURM_CONF, Slurm, Ssh};

/// The path of the tar file on each node, and its contents.
const TARGET: &str = "/dev/shm/copy";

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
    let output = output.expect("nsenter is part of util-linux");
    assert!(output.status.success(), "{script} on {}: {}", node.name, String::from_utf8_lossy(&output.stderr));
    started.elapsed().as_secs_f64()
}

/// `scp` from the first node to each of the others in turn, and `tar` over `ssh`. `Err` has the reason why it can't be
/// measured. `directory`: an own one that all nodes see.
pub(super) fn scp(cluster: &Cluster, directory: &Path, tar: &Path) -> Result<Seconds, String> {
    let ssh = Ssh::start(cluster, directory).map_err(|why| format!("scp: {why}"))?;
    let options = &ssh.options;
    let first = cluster.on(1);
    let others: Vec<&str> = cluster.nodes()[1..].iter().map(|node| node.name.as_str()).collect();
    let others = others.join(" ");
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
    let slurm = Slurm::start(cluster, directory).map_err(|why| format!("sbcast: {why}"))?;
    let (first, count) = (cluster.on(1), cluster.nodes().len());
    let inside = |what: &str| format!("export SLURM_CONF={SLURM_CONF}; salloc -Q -N {count} sh -euc '{what}'");
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
    drop(slurm);
    remove(cluster);
    Ok(Seconds { copying, unpacking })
}

fn remove(cluster: &Cluster) {
    for node in cluster.nodes() {
        shell(node, &format!("rm -rf {TARGET} {TARGET}.tar"));
    }
}
