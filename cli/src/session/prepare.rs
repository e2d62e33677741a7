//! Prepares a node's directory before its daemon starts, with a mount point for its view or a local copy of the audit
//! library.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use headwater_store::layout::NodeDir;

use crate::installed;
use crate::rendezvous::messages::NodeAccess;
use crate::via::Mechanism;

/// The audit library's file name.
pub const AUDIT_LIBRARY: &str = "libheadwater-audit.so";

/// Reads the installed audit library, if processes need it.
pub fn read_library(mechanism: Mechanism) -> Result<Vec<u8>> {
    if !mechanism.is_audit() {
        return Ok(Vec::new());
    }
    let library = find_audit_library()?;
    fs::read(&library).with_context(|| format!("{} can't be read", library.display()))
}

/// Returns the path of the installed audit library.
pub fn find_audit_library() -> Result<PathBuf> {
    installed::find(AUDIT_LIBRARY)
}

/// Makes a node's directory for a mechanism; returns how processes find its daemon.
pub fn prepare(node: &NodeDir, mechanism: Mechanism, library: &[u8], scope: &[(bool, String)]) -> Result<NodeAccess> {
    if let Mechanism::Audit { has_mount } = mechanism {
        let view = has_mount.then(|| node.view());
        let directories: Vec<&Path> = [node.path()].into_iter().chain(view.as_deref()).collect();
        make_private(&directories)?;
        return Ok(NodeAccess::Audit { library: prepare_audit(node, library)?, table: node.table_link() });
    }
    make_private(&[node.path(), &node.view()])?;
    Ok(match mechanism {
        Mechanism::Mount => NodeAccess::Mount { view: node.view(), scope: scope.to_vec() },
        _ => NodeAccess::Enter { supervisor: node.supervisor() },
    })
}

/// Puts a copy of the library into a node's directory; returns the copy's path.
fn prepare_audit(node: &NodeDir, library: &[u8]) -> Result<PathBuf> {
    make_private(&[&node.library_dir()])?;
    let path = node.library_dir().join(AUDIT_LIBRARY);
    let file = OpenOptions::new().write(true).create_new(true).mode(0o500).open(&path);
    file.and_then(|mut f| f.write_all(library)).with_context(|| {
        format!("{} can't be written: choose another directory with --store, or make room there", path.display())
    })?;
    Ok(path)
}

/// Makes a node's directory.
pub fn prepare_mount(node: &NodeDir) -> Result<()> {
    make_private(&[node.path()])
}

fn make_private(directories: &[&Path]) -> Result<()> {
    let mut private = fs::DirBuilder::new();
    private.mode(0o700);
    for directory in directories {
        private.create(directory).with_context(|| format!("{} can't be made", directory.display()))?;
    }
    Ok(())
}
