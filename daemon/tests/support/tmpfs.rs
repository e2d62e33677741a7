//! A small file system in memory.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;

/// A mounted tmpfs, unmounted when dropped.
pub struct Tmpfs(PathBuf);

impl Tmpfs {
    /// Mounts one of this size, as mount(8) writes it, or returns the reason why not.
    pub fn mount(at: PathBuf, size: &str) -> Result<Tmpfs, String> {
        if !rustix::process::geteuid().is_root() {
            return Err("needs root to mount tmpfs".to_owned());
        }
        let options = format!("size={size}");
        let mount = Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(&at).output();
        match mount {
            Ok(output) if output.status.success() => Ok(Tmpfs(at)),
            Ok(output) => Err(format!("needs to mount tmpfs: {}", String::from_utf8_lossy(&output.stderr).trim())),
            Err(error) => Err(format!("needs the mount command: {error}")),
        }
    }

    /// Fills the free space with a file of this name.
    pub fn fill(&self, name: &str) {
        let mut file = File::options().append(true).create(true).open(self.0.join(name)).unwrap();
        while file.write(&[1; 4096]).is_ok_and(|bytes| bytes > 0) {}
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        // Lazily, because a table stays mapped in a test until the test's process ends.
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}
