//! GlusterFS on a cluster: the last node serves a volume from memory and counts its operations, and the others mount
//! it, all at the same path.
//!
//! Everything is in the nodes' own RAM disks and namespaces, so it ends with the cluster.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use headwater_cluster::{Cluster, Node, Rate};

use super::READY_MAX;
use crate::harness::{has_program, wait_until};

/// The volume's path on each node.
pub const VOLUME: &str = "/var/tmp/volume";
const NAME: &str = "gv";
const BRICK: &str = "/var/tmp/brick";
/// The client's own caches. Only the kernel's are left, as on a file system without such.
const CACHES: [&str; 7] =
    ["quick-read", "open-behind", "io-cache", "read-ahead", "stat-prefetch", "readdir-ahead", "write-behind"];
/// The configuration of the management daemon, in a directory of the node's own.
const START: &str = "
mkdir -p /var/tmp/glusterd /var/tmp/log /var/tmp/brick /var/tmp/volume
mount -n --bind /var/tmp/glusterd /var/lib/glusterd
mount -n --bind /var/tmp/log /var/log/glusterfs
cat >/var/tmp/glusterd.vol <<X
volume management
    type mgmt/glusterd
    option working-directory /var/lib/glusterd
    option transport-type socket
    option transport.socket.listen-port 24007
    option ping-timeout 0
    option event-threads 1
end-volume
X
# Every process of every node has its libraries open at the server.
ulimit -n $(cat /proc/sys/fs/nr_open) 2>/dev/null || ulimit -n $(ulimit -H -n)
glusterd --volfile=/var/tmp/glusterd.vol --log-level=WARNING
";

/// The server's speed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Server {
    /// As fast as it can be.
    Quick,
    /// One thread, which takes so many microseconds longer for each look-up, opening and reading.
    SlowMetadata {
        /// How much longer.
        delay_us: u32,
    },
    /// The server's link has this rate.
    SlowLink(Rate),
}

/// The server's operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Names looked up.
    pub lookups: u64,
    /// Files opened.
    pub opens: u64,
    /// Reads of files.
    pub reads: u64,
    /// Directories opened.
    pub directory_opens: u64,
    /// Reads of directories.
    pub directory_reads: u64,
    /// Bytes read of files.
    pub bytes: u64,
}

impl Counts {
    /// From what `gluster volume profile … info cumulative` prints: a table with the number of calls and the
    /// call's name as its last columns.
    fn parse(text: &str) -> Result<Counts, String> {
        let mut counts = Counts::default();
        for line in text.lines() {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let number = |word: &str| word.parse::<u64>().map_err(|e| format!("gluster's profile, `{line}`: {e}"));
            match fields[..] {
                ["Data", "Read:", bytes, "bytes"] => counts.bytes = number(bytes)?,
                [.., "ns" | "us", calls, call] => match call {
                    "LOOKUP" => counts.lookups = number(calls)?,
                    "OPEN" => counts.opens = number(calls)?,
                    "READ" => counts.reads = number(calls)?,
                    "OPENDIR" => counts.directory_opens = number(calls)?,
                    "READDIR" | "READDIRP" => counts.directory_reads += number(calls)?,
                    _ => {}
                },
                _ => {}
            }
        }
        match text.contains("Cumulative Stats") {
            true => Ok(counts),
            false => Err(format!("gluster's profile is another than expected: {text}")),
        }
    }
}

/// A volume, and its server.
#[derive(Debug)]
pub struct Gluster<'a> {
    cluster: &'a Cluster,
    server: &'a Node,
}

impl<'a> Gluster<'a> {
    /// Starts a quick server on the cluster's last node. The volume is empty and not mounted.
    ///
    /// # Errors
    /// A package is not installed, or a step of starting failed.
    pub fn start(cluster: &'a Cluster) -> Result<Gluster<'a>, String> {
        let is_there = |name: &&str| has_program(name) || Path::new("/usr/sbin").join(name).is_file();
        if let Some(missing) = ["glusterd", "glusterfsd", "gluster", "glusterfs"].iter().find(|name| !is_there(name)) {
            return Err(format!("{missing} is not installed (packages glusterfs-server, glusterfs-client)"));
        }
        let server = cluster.nodes().last().expect("a cluster has nodes");
        let gluster = Gluster { cluster, server };
        shell(server, START)?;
        if !wait_until(READY_MAX, || gluster.administer("pool list").is_ok()) {
            return Err(format!("glusterd on {} does not answer", server.name));
        }
        gluster.administer(&format!("volume create {NAME} {}:{BRICK} force", server.name))?;
        let off: Vec<String> = CACHES.iter().map(|cache| format!("performance.{cache} off")).collect();
        gluster.administer(&format!("volume set {NAME} {}", off.join(" ")))?;
        gluster.administer(&format!("volume start {NAME}"))?;
        gluster.administer(&format!("volume profile {NAME} start"))?;
        Ok(gluster)
    }

    /// Makes the server like this. No node may have the volume mounted.
    ///
    /// # Errors
    /// The output of gluster, or of the kernel.
    pub fn set(&self, kind: Server) -> Result<(), String> {
        shell(self.server, "tc qdisc del dev eth0 root 2>/dev/null || :")?;
        self.administer(&format!("volume stop {NAME}"))?;
        for option in ["debug.delay-gen", "performance.io-thread-count"] {
            self.administer(&format!("volume reset {NAME} {option}"))?;
        }
        match kind {
            Server::Quick => {}
            Server::SlowMetadata { delay_us } => {
                let options = format!(
                    "debug.delay-gen posix delay-gen.delay-duration {delay_us} delay-gen.delay-percentage 100 \
                     delay-gen.enable lookup,open,read performance.io-thread-count 1"
                );
                self.administer(&format!("volume set {NAME} {options}"))?;
            }
            Server::SlowLink(rate) => {
                let burst = rate.burst_bytes();
                shell(self.server, &format!("tc qdisc add dev eth0 root tbf rate {rate} burst {burst} latency 50ms"))?;
            }
        }
        self.administer(&format!("volume start {NAME}")).map(drop)
    }

    /// Copies what is in these directories into the volume, into directories of the same names.
    ///
    /// # Errors
    /// What could not be copied.
    pub fn fill(&self, directories: &[PathBuf]) -> Result<(), String> {
        self.mount_on(self.server)?;
        let copied = directories.iter().try_for_each(|directory| {
            shell(self.server, &format!("cp -a --sparse=always '{}' {VOLUME}/", directory.display())).map(drop)
        });
        unmount_on(self.server)?;
        copied
    }

    /// Removes all that is in the volume.
    ///
    /// # Errors
    /// What could not be removed.
    pub fn clear(&self) -> Result<(), String> {
        self.mount_on(self.server)?;
        let removed = shell(self.server, &format!("find {VOLUME} -mindepth 1 -delete")).map(drop);
        unmount_on(self.server)?;
        removed
    }

    /// Mounts it on the first `nodes` nodes, anew: nothing is cached there.
    ///
    /// # Errors
    /// Which node could not mount it, and why.
    pub fn mount(&self, nodes: usize) -> Result<(), String> {
        self.unmount()?;
        let nodes = &self.cluster.nodes()[..nodes];
        on_all(nodes, |node| self.mount_on(node))
    }

    /// Unmounts it wherever it is mounted.
    ///
    /// # Errors
    /// Which node could not.
    pub fn unmount(&self) -> Result<(), String> {
        on_all(self.cluster.nodes(), unmount_on)
    }

    /// Starts counting anew.
    ///
    /// # Errors
    /// What gluster complained of.
    pub fn reset(&self) -> Result<(), String> {
        self.administer(&format!("volume profile {NAME} info clear")).map(drop)
    }

    /// The server's operations since then.
    ///
    /// # Errors
    /// The output of gluster.
    pub fn counts(&self) -> Result<Counts, String> {
        Counts::parse(&self.administer(&format!("volume profile {NAME} info cumulative"))?)
    }

    fn administer(&self, command: &str) -> Result<String, String> {
        shell(self.server, &format!("gluster --mode=script --log-file=/var/tmp/gluster.log {command}"))
    }

    fn mount_on(&self, node: &Node) -> Result<(), String> {
        let server = &self.server.name;
        let client = format!("glusterfs --volfile-server={server} --volfile-id={NAME} --log-file=/var/tmp/client.log");
        // It is there before it can be used.
        shell(node, &format!("mkdir -p {VOLUME}; {client} {VOLUME}; ls {VOLUME} >/dev/null; mountpoint -q {VOLUME}"))
            .map(drop)
    }
}

fn unmount_on(node: &Node) -> Result<(), String> {
    shell(node, &format!("while mountpoint -q {VOLUME}; do umount -n -l {VOLUME}; done")).map(drop)
}

/// Does it on all of these nodes at once; the first error.
fn on_all(nodes: &[Node], work: impl Fn(&Node) -> Result<(), String> + Sync) -> Result<(), String> {
    std::thread::scope(|scope| {
        let started: Vec<_> = nodes.iter().map(|node| scope.spawn(|| work(node))).collect();
        started.into_iter().try_for_each(|thread| thread.join().expect("it returns its errors"))
    })
}

/// The output of a shell's commands on a node, all of which must succeed.
fn shell(node: &Node, script: &str) -> Result<String, String> {
    let mut command = node.command("sh");
    command.env("PATH", format!("/usr/sbin:/sbin:{}", std::env::var("PATH").unwrap_or_default()));
    let output = command.args(["-euc", script]).stdin(Stdio::null()).output().map_err(|e| e.to_string())?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_string();
    match output.status.success() {
        true => Ok(text(&output.stdout)),
        false => Err(format!(
            "{} on {}: {} {} {}",
            script.trim(),
            node.name,
            output.status,
            text(&output.stdout),
            text(&output.stderr)
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_a_profile() {
        let text = "Brick: node003:/var/tmp/brick\n-----\nCumulative Stats:\n   Block Size:  4096b+ 8192b+ \n No. of Reads: 3 4\n\
                    %-latency   Avg-latency   Min-Latency   Max-Latency   No. of calls         Fop\n\
                    ---------   -----------   -----------   -----------   ------------        ----\n\
                    0.00       0.00 us       0.00 us       0.00 us              2     RELEASE\n\
                    16.10  52104.10 ns   20010.00 ns  101000.00 ns             12      LOOKUP\n\
                    83.90    152.10 us      20.01 us     101.00 us              7        READ\n\
                    0.10     152.10 us      20.01 us     101.00 us              3    READDIRP\n\n\
                    Duration: 3 seconds\n   Data Read: 5120 bytes\nData Written: 0 bytes\n";
        let expected = Counts { lookups: 12, reads: 7, directory_reads: 3, bytes: 5120, ..Counts::default() };
        assert_eq!(Counts::parse(text), Ok(expected));
        assert!(Counts::parse("volume is not started").is_err());
        assert!(Counts::parse(&text.replace(" 12 ", " x ")).is_err());
    }
}
