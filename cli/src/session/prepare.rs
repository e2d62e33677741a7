//! Prepares a node's directory before its daemon starts, with a mount point for its view or a local copy of the audit
//! library.

use std::env;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use headwater_store::layout::NodeDir;

use crate::rendezvous::messages::NodeAccess;
use crate::self_exec;
use crate::via::Mechanism;

/// The audit library's file name.
pub const AUDIT_LIBRARY: &str = "libheadwater-audit.so";
/// The variable that names the directory of the libraries.
const LIBRARY_DIRECTORY: &str = "HEADWATER_LIBDIR";

/// Reads the installed audit library, if processes need it.
pub fn read_library(mechanism: Mechanism) -> Result<Vec<u8>> {
    if mechanism != Mechanism::Audit {
        return Ok(Vec::new());
    }
    let library = find_audit_library()?;
    fs::read(&library).with_context(|| format!("{} can't be read", library.display()))
}

/// Returns the path of the installed audit library.
pub fn find_audit_library() -> Result<PathBuf> {
    find_installed(AUDIT_LIBRARY)
}

/// Returns the path of a file that is installed beside the audit library.
pub fn find_installed(name: &str) -> Result<PathBuf> {
    let executable = self_exec::installed().context("/proc/self/exe can't be read")?;
    let candidates = match env::var_os(LIBRARY_DIRECTORY).filter(|d| !d.is_empty()) {
        Some(directory) => vec![PathBuf::from(directory).join(name)],
        None => candidates(&executable, name),
    };
    candidates.iter().find(|c| c.is_file()).cloned().with_context(|| {
        let searched = candidates.iter().map(|c| c.display().to_string()).collect::<Vec<_>>().join(", ");
        format!(
            "{name} is missing (searched: {searched}). Build it with `cargo xtask dist`, or name its directory \
             in {LIBRARY_DIRECTORY}"
        )
    })
}

/// Returns the file's possible paths for this executable: as installed, and as built by cargo.
fn candidates(executable: &Path, name: &str) -> Vec<PathBuf> {
    let installed = executable.parent().and_then(Path::parent).map(|prefix| prefix.join("lib").join(name));
    let target = executable.ancestors().skip(1).take(4).find(|a| a.ends_with("target"));
    installed.into_iter().chain(target.map(|t| t.join("dist/lib").join(name))).collect()
}

/// Makes a node's directory for a mechanism; returns how processes find its daemon.
pub fn prepare(node: &NodeDir, mechanism: Mechanism, library: &[u8], scope: &[(bool, String)]) -> Result<NodeAccess> {
    if mechanism == Mechanism::Audit {
        return Ok(NodeAccess::Audit { library: prepare_audit(node, library)?, table: node.table_link() });
    }
    make_private(&[node.path(), &node.view()])?;
    Ok(match mechanism {
        Mechanism::Mount => NodeAccess::Mount { view: node.view(), scope: scope.to_vec() },
        _ => NodeAccess::Enter { supervisor: node.supervisor() },
    })
}

/// Makes a node's directory with a copy of the library; returns the copy's path.
fn prepare_audit(node: &NodeDir, library: &[u8]) -> Result<PathBuf> {
    make_private(&[node.path(), &node.library_dir()])?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beside_the_executable_and_in_cargos_directory() {
        let check = |executable: &str, expected: &[&str]| {
            let expected: Vec<PathBuf> = expected.iter().map(|e| Path::new(e).join(AUDIT_LIBRARY)).collect();
            assert_eq!(candidates(Path::new(executable), AUDIT_LIBRARY), expected);
        };
        check("/opt/hw/bin/headwater", &["/opt/hw/lib"]);
        check("/src/target/dist/bin/headwater", &["/src/target/dist/lib", "/src/target/dist/lib"]);
        check("/src/target/debug/headwater", &["/src/target/lib", "/src/target/dist/lib"]);
        check("/src/target/x86_64/release/headwater", &["/src/target/x86_64/lib", "/src/target/dist/lib"]);
    }
}
