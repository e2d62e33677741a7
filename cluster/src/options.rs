//! Options of a cluster.

use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::links::{Delay, Rate};

/// Limit of a cluster's nodes.
pub const NODES_MAX: usize = 250;

/// Limit of a node's interfaces.
pub const INTERFACES_MAX: usize = 4;

/// Where each node has a RAM disk of its own.
pub const RAM_DISKS: [&str; 4] = ["/run", "/tmp", "/var/tmp", "/dev/shm"];

/// Options of a cluster.
#[derive(Clone, Debug)]
pub struct Options {
    /// The limit of each link, in each direction; `None`: unlimited.
    pub rate: Option<Rate>,
    /// The added delay of a packet from node to node.
    pub delay: Option<Delay>,
    /// The interfaces of each node, each with a link of its own: `eth0` and so on.
    pub interfaces: usize,
    /// The size of each RAM disk. Memory is taken as it is used.
    pub ram_disk_mib: u32,
    /// Directories below RAM disks that every node sees nevertheless, under their path.
    pub shares: Vec<PathBuf>,
}

impl Default for Options {
    fn default() -> Options {
        Options { rate: None, delay: None, interfaces: 1, ram_disk_mib: 1024, shares: Vec::new() }
    }
}

/// Returns the directories of `shares` that a RAM disk would hide, as the kernel names them.
pub(crate) fn hidden_shares(shares: &[PathBuf]) -> Result<Vec<PathBuf>, Error> {
    let mut hidden = Vec::new();
    for share in shares {
        let invalid = |problem: String| Error::Invalid { what: "share", value: share.display().to_string(), problem };
        let path = share.canonicalize().map_err(|error| invalid(error.to_string()))?;
        if !path.is_dir() {
            return Err(invalid("expected a directory".to_owned()));
        }
        if path.to_str().is_none_or(|text| text.contains('\n')) {
            return Err(invalid("expected a name in UTF-8 without line breaks".to_owned()));
        }
        if RAM_DISKS.iter().any(|disk| Path::new(disk).starts_with(&path)) {
            return Err(invalid(format!("a directory above or at a RAM disk ({})", RAM_DISKS.join(", "))));
        }
        if RAM_DISKS.iter().any(|disk| path.starts_with(disk)) {
            hidden.push(path);
        }
    }
    Ok(hidden)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_share(share: &str, expected: Option<&[&str]>) {
        let expected = expected.map(|paths| paths.iter().map(PathBuf::from).collect::<Vec<_>>());
        assert_eq!(hidden_shares(&[share.into()]).ok(), expected, "{share}");
    }

    #[test]
    fn only_what_is_hidden_is_bound() {
        let below = tempfile::tempdir_in("/tmp").unwrap();
        let path = below.path().canonicalize().unwrap();
        let path = path.to_str().unwrap();
        check_share(path, Some(&[path]));
        check_share("/usr", Some(&[]));
        for wrong in ["/", "/tmp", "/dev", "/nowhere", "/etc/passwd"] {
            check_share(wrong, None);
        }
    }
}
