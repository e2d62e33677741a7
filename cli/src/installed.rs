//! Where Headwater's libraries are installed.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::self_exec;

/// The variable that names the directory of the libraries.
const LIBRARY_DIRECTORY: &str = "HEADWATER_LIBDIR";

/// Returns the path of an installed library.
pub fn find(name: &str) -> Result<PathBuf> {
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

#[cfg(test)]
mod tests {
    use super::*;

    const LIBRARY: &str = "libheadwater-audit.so";

    #[test]
    fn beside_the_executable_and_in_cargos_directory() {
        let check = |executable: &str, expected: &[&str]| {
            let expected: Vec<PathBuf> = expected.iter().map(|e| Path::new(e).join(LIBRARY)).collect();
            assert_eq!(candidates(Path::new(executable), LIBRARY), expected);
        };
        check("/opt/hw/bin/headwater", &["/opt/hw/lib"]);
        check("/src/target/dist/bin/headwater", &["/src/target/dist/lib", "/src/target/dist/lib"]);
        check("/src/target/debug/headwater", &["/src/target/lib", "/src/target/dist/lib"]);
        check("/src/target/x86_64/release/headwater", &["/src/target/x86_64/lib", "/src/target/dist/lib"]);
    }
}
