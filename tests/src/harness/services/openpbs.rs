//! OpenPBS on a cluster's nodes.

use std::fs;
use std::path::Path;

use headwater_cluster::Cluster;

use super::{READY_MAX, Services, has_program, succeeds, wait_until};

/// Where it is installed by its own rules. Debian has no package of it.
const EXEC: &str = "/opt/pbs";
/// The path of its configuration on each node.
pub const PBS_CONF: &str = "/run/pbs/pbs.conf";
const SCRIPT: &str = include_str!("openpbs.sh");

/// OpenPBS on all nodes of a cluster; the first one controls.
#[derive(Debug)]
pub struct OpenPbs<'a> {
    cluster: &'a Cluster,
    _services: Services,
}

impl<'a> OpenPbs<'a> {
    /// Starts it and waits until all nodes are free. `directory`: an own one that all nodes see.
    ///
    /// # Errors
    /// It is not installed.
    ///
    /// # Panics
    /// The nodes did not become ready.
    pub fn start(cluster: &'a Cluster, directory: &Path) -> Result<OpenPbs<'a>, String> {
        if !Path::new(EXEC).join("sbin/pbs_server").is_file() || !has_program("psql") {
            return Err(format!("OpenPBS is not installed in {EXEC}, with PostgreSQL"));
        }
        let script = directory.join("openpbs.sh");
        fs::write(&script, SCRIPT).map_err(|e| e.to_string())?;
        let (first, others) = cluster.nodes().split_first().expect("a cluster has nodes");
        let services = Services::start(cluster, |node| {
            let mut command = node.command("sh");
            command.arg(&script).args([EXEC, &first.name]).args(others.iter().map(|node| &node.name));
            command
        })?;
        let pbs = OpenPbs { cluster, _services: services };
        let count = cluster.nodes().len();
        let free = format!(
            "export PBS_CONF_FILE={PBS_CONF}; [ $({EXEC}/bin/pbsnodes -a | grep -c 'state = free') = {count} ]"
        );
        assert!(wait_until(READY_MAX, || succeeds(first, &free)), "OpenPBS's nodes did not become ready");
        Ok(pbs)
    }

    /// Its commands' directory.
    pub fn commands(&self) -> String {
        format!("{EXEC}/bin")
    }
}

impl Drop for OpenPbs<'_> {
    fn drop(&mut self) {
        // Its daemons outlive the shell that started them.
        for node in self.cluster.nodes() {
            succeeds(node, "pkill -KILL pbs_; pkill -KILL postgres");
        }
    }
}
