//! Programs started with and without Headwater: what the end-to-end tests and benchmarks share.

pub mod bench;
pub mod counting_fs;
pub mod demo;
pub mod harness;
pub mod model;
pub mod pynamic;

use std::path::PathBuf;

use tempfile::TempDir;

/// A fresh directory, removed when dropped.
pub fn scratch(purpose: &str) -> TempDir {
    let dir = tempfile::Builder::new().prefix(&format!("hwt-{purpose}-")).tempdir();
    dir.expect("the temporary directory takes a new directory")
}

/// A binary of this crate, built beside the running one.
pub fn sibling_binary(name: &str) -> PathBuf {
    let exe = std::env::current_exe().expect("a running program has a file");
    let mut candidates = exe.ancestors().skip(1).take(2).map(|dir| dir.join(name));
    candidates
        .find(|path| path.is_file())
        .unwrap_or_else(|| panic!("{name} is not built: cargo build -p headwater-tests"))
}

/// The directory of the installation that is tested: what `cargo xtask dist` has made, or what HEADWATER_TEST_PREFIX
/// names.
pub fn prefix() -> PathBuf {
    let named = std::env::var_os("HEADWATER_TEST_PREFIX").map(PathBuf::from);
    named.unwrap_or_else(|| workspace().join("target/dist"))
}

/// The workspace's directory.
pub fn workspace() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate lies in the workspace").to_path_buf()
}
