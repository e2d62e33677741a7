//! Python environments with what a launcher's package brings, made at the first use.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::Command;

/// The directory of an environment with these packages of PyPI, under `target/launchers`.
///
/// # Errors
/// Python can't make one, or the packages can't be had.
pub fn environment(name: &str, packages: &[&str]) -> Result<PathBuf, String> {
    let all = crate::workspace().join("target/launchers");
    fs::create_dir_all(&all).map_err(|e| format!("{}: {e}", all.display()))?;
    let directory = all.join(name);
    // Tests run at the same time.
    let lock = File::create(all.join("lock")).map_err(|e| e.to_string())?;
    lock.lock().map_err(|e| e.to_string())?;
    let complete = directory.join("complete");
    if complete.exists() {
        return Ok(directory);
    }
    let mut steps = [Command::new("python3"), Command::new(directory.join("bin/python3"))];
    steps[0].args(["-m", "venv", "--copies", "--clear"]).arg(&directory);
    steps[1].args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]).args(packages);
    for step in &mut steps {
        let output = step.output().map_err(|e| format!("{step:?}: {e}"))?;
        if !output.status.success() {
            return Err(format!("{step:?}: {}", String::from_utf8_lossy(&output.stderr)));
        }
    }
    File::create(complete).map_err(|e| e.to_string())?;
    Ok(directory)
}
