//! Names inside a node's directory.
//!
//! Each generation has a directory of its own, `1`, `2` and so on. The link `table` leads to the table
//! of the newest: replacing it is what makes a generation the one that processes start with.

use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// The generation that a session starts with.
pub const GENERATION: u64 = 1;

/// A node's directory, `SESSION/nK`, and what stands in it. Of what each generation has, one
/// generation's is meant: the first, unless another was named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeDir(PathBuf, u64);

impl NodeDir {
    /// The node directory at this path.
    pub fn new(path: impl Into<PathBuf>) -> NodeDir {
        NodeDir(path.into(), GENERATION)
    }

    /// The directory itself.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The socket on which processes ask.
    pub fn socket(&self) -> PathBuf {
        self.0.join("sock")
    }

    /// The same directory with this generation's things.
    pub fn of_generation(&self, generation: u64) -> NodeDir {
        NodeDir(self.0.clone(), generation)
    }

    /// The same directory with the newest generation's things.
    pub fn newest(&self) -> NodeDir {
        let target = std::fs::read_link(self.table_link()).ok();
        let number = target.as_deref().and_then(Path::parent).and_then(Path::to_str).and_then(|text| text.parse().ok());
        self.of_generation(number.unwrap_or(GENERATION))
    }

    /// The generation that is meant.
    pub fn generation(&self) -> u64 {
        self.1
    }

    /// Makes the generation that is meant the newest, at one stroke.
    pub fn publish(&self) -> io::Result<()> {
        let beside = self.0.join("table.new");
        match std::fs::remove_file(&beside) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        symlink(Path::new(&self.1.to_string()).join("table"), &beside)?;
        std::fs::rename(beside, self.table_link())
    }

    /// The link to the newest generation's table, which processes are started with.
    pub fn table_link(&self) -> PathBuf {
        self.0.join("table")
    }

    /// The file with the processes' counters.
    pub fn counters(&self) -> PathBuf {
        self.generation_dir().join("counters")
    }

    /// The socket on which the daemon is asked what it does, and told to clear or refresh.
    pub fn control(&self) -> PathBuf {
        self.0.join("control")
    }

    /// The socket of the daemon's supervisor.
    pub fn supervisor(&self) -> PathBuf {
        self.0.join("supervisor")
    }

    /// Where the node's file system is mounted, unless the user names a place.
    pub fn view(&self) -> PathBuf {
        self.0.join("view")
    }

    /// Where files are that are in use and were renamed or have no record, for a daemon that takes over.
    pub fn moves(&self) -> PathBuf {
        self.0.join("moves")
    }

    /// The directory of the audit shim's copy.
    pub fn library_dir(&self) -> PathBuf {
        self.0.join("lib")
    }

    /// The generation's directory.
    pub fn generation_dir(&self) -> PathBuf {
        self.0.join(self.1.to_string())
    }

    /// The shared table.
    pub fn table(&self) -> PathBuf {
        self.generation_dir().join("table")
    }

    /// The mirror: this prefix and then the original's absolute path.
    pub fn root(&self) -> PathBuf {
        self.generation_dir().join("root")
    }

    /// Where files are that have lost their place in the mirror and are still in use.
    pub fn parked(&self) -> PathBuf {
        self.0.join("parked")
    }

    /// Where files are until they are complete.
    pub fn incoming(&self) -> PathBuf {
        self.0.join("incoming")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_link_tells_the_newest_generation() {
        let directory = tempfile::tempdir().unwrap();
        let dir = NodeDir::new(directory.path());
        assert_eq!(dir.newest(), dir, "there is no link yet");
        for generation in [1, 2, 10] {
            dir.of_generation(generation).publish().unwrap();
            assert_eq!(dir.newest().generation(), generation);
            assert_eq!(dir.newest().table(), directory.path().join(generation.to_string()).join("table"));
            assert_eq!(std::fs::read_link(dir.table_link()).unwrap(), Path::new(&format!("{generation}/table")));
        }
    }
}
