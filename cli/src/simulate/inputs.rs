//! The file system and the directories that options of the model name.

use std::fs;

use anyhow::{Context, Result};
use headwater_abi::Path;
use headwater_model::FileSystem;

/// Loads the file system of a name or a file.
///
/// # Errors
/// The file can't be read or is malformed.
pub fn file_system(named: &str) -> Result<FileSystem> {
    let file_system = match FileSystem::named(named) {
        Some(system) => system,
        None => {
            let text = fs::read(named)
                .with_context(|| format!("--fs {named} can't be read; lustre, nfs and gpfs are built in"))?;
            FileSystem::parse(&String::from_utf8_lossy(&text))
        }
    };
    file_system.with_context(|| format!("--fs {named}"))
}

/// Returns the directories of `--shared`.
///
/// # Errors
/// One isn't absolute.
pub fn directories(shared: &[String]) -> Result<Vec<Path>> {
    let directory = |text: &String| {
        let path = Path::new(text.as_bytes());
        path.with_context(|| format!("--shared {text}: give an absolute path"))
    };
    shared.iter().map(directory).collect()
}
