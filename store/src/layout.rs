//! Paths in a node's directory.
//!
//! Each generation has a directory of its own, `1`, `2` and so on. The link `table` leads to the newest table;
//! replacing it publishes a generation to processes that start.

use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// A session's first generation.
pub const GENERATION: u64 = 1;

/// A node's directory, `SESSION/nK`, and the paths in it. Paths of a generation are those of the first, unless another
/// one was selected.
///
/// Content may be on the session's own disk, at the same path below the disk's root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeDir {
    path: PathBuf,
    generation: u64,
    disk: Option<DiskRoots>,
}

/// The paths of a disk's root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskRoots {
    /// For the daemon.
    pub own: PathBuf,
    /// For the node's processes.
    pub shown: PathBuf,
}

impl NodeDir {
    /// Returns the node directory at this path.
    pub fn new(path: impl Into<PathBuf>) -> NodeDir {
        NodeDir { path: path.into(), generation: GENERATION, disk: None }
    }

    /// Returns the same with content on a disk.
    pub fn on_disk(self, disk: DiskRoots) -> NodeDir {
        NodeDir { disk: Some(disk), ..self }
    }

    /// Returns the path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The socket for processes' requests.
    pub fn socket(&self) -> PathBuf {
        self.path.join("sock")
    }

    /// Selects this generation.
    pub fn of_generation(&self, generation: u64) -> NodeDir {
        NodeDir { generation, ..self.clone() }
    }

    /// Selects the newest generation.
    pub fn newest(&self) -> NodeDir {
        let target = std::fs::read_link(self.table_link()).ok();
        let number = target.as_deref().and_then(Path::parent).and_then(Path::to_str).and_then(|text| text.parse().ok());
        self.of_generation(number.unwrap_or(GENERATION))
    }

    /// Returns the selected generation.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Atomically publishes the selected generation as the newest.
    pub fn publish(&self) -> io::Result<()> {
        let beside = self.path.join("table.new");
        ignore_absent(std::fs::remove_file(&beside))?;
        symlink(Path::new(&self.generation.to_string()).join("table"), &beside)?;
        std::fs::rename(beside, self.table_link())
    }

    /// The link to the newest generation's table, which processes start with.
    pub fn table_link(&self) -> PathBuf {
        self.path.join("table")
    }

    /// The file with the processes' counters.
    pub fn counters(&self) -> PathBuf {
        self.generation_dir().join("counters")
    }

    /// The control socket.
    pub fn control(&self) -> PathBuf {
        self.path.join("control")
    }

    /// The socket of the daemon's supervisor.
    pub fn supervisor(&self) -> PathBuf {
        self.path.join("supervisor")
    }

    /// The default mount point of the node's file system.
    pub fn view(&self) -> PathBuf {
        self.path.join("view")
    }

    /// The journal of renamed and removed files that are in use, for a successor.
    pub fn moves(&self) -> PathBuf {
        self.path.join("moves")
    }

    /// The directory of the audit shim's copy.
    pub fn library_dir(&self) -> PathBuf {
        self.path.join("lib")
    }

    /// The generation's directory.
    pub fn generation_dir(&self) -> PathBuf {
        self.path.join(self.generation.to_string())
    }

    /// The generation's directory for content; without a disk, the same.
    pub fn content_dir(&self) -> PathBuf {
        self.content(&self.generation.to_string())
    }

    /// Removes both directories of the generation.
    pub fn remove_generation(&self) -> io::Result<()> {
        let content = ignore_absent(std::fs::remove_dir_all(self.content_dir()));
        match &self.disk {
            Some(_) => std::fs::remove_dir_all(self.generation_dir()).and(content),
            None => content,
        }
    }

    fn content(&self, name: &str) -> PathBuf {
        match &self.disk {
            Some(disk) => below(&disk.own, &self.path.join(name)),
            None => self.path.join(name),
        }
    }

    /// Returns the path of a file in the mirror as the node's processes see it.
    pub fn shown(&self, file: &Path) -> PathBuf {
        let rest = self.disk.as_ref().and_then(|disk| Some((disk, file.strip_prefix(&disk.own).ok()?)));
        rest.map_or_else(|| file.to_owned(), |(disk, rest)| disk.shown.join(rest))
    }

    /// The shared table.
    pub fn table(&self) -> PathBuf {
        self.generation_dir().join("table")
    }

    /// The mirror: this prefix, then a file's original path.
    pub fn root(&self) -> PathBuf {
        self.content_dir().join("root")
    }

    /// Copies that have lost their names in the mirror and are still in use.
    pub fn parked(&self) -> PathBuf {
        self.content("parked")
    }

    /// Files that are incomplete.
    pub fn incoming(&self) -> PathBuf {
        self.content("incoming")
    }
}

/// Turns the error for an absent file into success.
pub fn ignore_absent<T: Default>(result: io::Result<T>) -> io::Result<T> {
    result.or_else(|error| if error.kind() == io::ErrorKind::NotFound { Ok(T::default()) } else { Err(error) })
}

fn below(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_link_names_the_newest_generation() {
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

    #[test]
    fn content_lies_on_the_disk_and_all_else_does_not() {
        let roots = DiskRoots { own: "/proc/self/fd/7".into(), shown: "/proc/42/fd/3".into() };
        let dir = NodeDir::new("/s/n0").on_disk(roots).of_generation(2);
        assert_eq!((dir.table(), dir.socket()), ("/s/n0/2/table".into(), "/s/n0/sock".into()));
        assert_eq!(
            (dir.root(), dir.incoming()),
            ("/proc/self/fd/7/s/n0/2/root".into(), "/proc/self/fd/7/s/n0/incoming".into())
        );
        assert_eq!(dir.shown(&dir.root()), Path::new("/proc/42/fd/3/s/n0/2/root"));
        let dir = NodeDir::new("/s/n0");
        assert_eq!((dir.root(), dir.shown(&dir.root())), ("/s/n0/1/root".into(), "/s/n0/1/root".into()));
    }
}
