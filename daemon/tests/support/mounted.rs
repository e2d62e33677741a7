//! A daemon's file system, really mounted.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::Metadata;
use std::os::fd::{AsFd, IntoRawFd, OwnedFd};
use std::os::unix::fs::{DirEntryExt, MetadataExt};
use std::path::{Path, PathBuf};

use headwater_daemon::{Config, LocksConfig, MountConfig};
use headwater_fuse::init::{Locks, Opening, negotiate};
use headwater_fuse::{Device, mount};

/// Threads that serve.
const WORKERS: usize = 4;

/// A mount that is unmounted when dropped.
pub struct Mounted {
    pub at: PathBuf,
}

impl Mounted {
    /// Mounts the tree below `root` at `at` and enters it into `config`; `None` where the machine does not
    /// allow it.
    pub fn new(config: &mut Config, at: &Path, root: &Path, opening: Opening) -> Option<Mounted> {
        Mounted::with(config, at, root, opening, false)
    }

    /// As [`Mounted::new`]; with `is_writable`, writes go to the source file.
    pub fn with(config: &mut Config, at: &Path, root: &Path, opening: Opening, is_writable: bool) -> Option<Mounted> {
        std::fs::create_dir_all(at).unwrap();
        let mounted = Device::open().and_then(|device| {
            let options = mount::Options {
                source: "headwater-test".into(),
                subtype: "headwater".into(),
                is_read_only: !is_writable,
                allows_others: true,
                read_bytes_max: 1 << 20,
            };
            mount::mount(&device, at, &options).map(|()| device)
        });
        let device = match mounted {
            Ok(device) => device,
            Err(error) => {
                println!("skipped: can't mount: {error}");
                return None;
            }
        };
        let mounted = Mounted { at: at.to_owned() };
        let negotiated = negotiate(&device, opening, Locks::InKernel).unwrap();
        let number = |device: &Device| OwnedFd::into_raw_fd(device.as_fd().try_clone_to_owned().unwrap());
        let clones = (1..WORKERS).map(|_| number(&device.clone_queue().unwrap()));
        config.mount = Some(MountConfig {
            locks: LocksConfig::default(),
            root: root.to_str().unwrap().into(),
            mount_point: at.to_owned(),
            devices: clones.chain([number(&device)]).collect(),
            negotiated,
            opening,
            is_writable,
            keeps_links_inside: false,
            is_beside_audit: false,
            other_groups: None,
            hidden: Vec::new(),
        });
        Some(mounted)
    }

    /// A path below the mount.
    pub fn path(&self, name: &str) -> PathBuf {
        self.at.join(name)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = mount::unmount(&self.at, true);
    }
}

/// All visible properties of one name.
#[derive(Debug, PartialEq, Eq)]
pub struct Seen {
    pub stat: String,
    pub link: Option<PathBuf>,
    pub content: Option<Vec<u8>>,
    /// Names with their types and inode numbers from the directory's listing.
    pub names: Option<BTreeMap<OsString, (String, u64)>>,
    pub xattrs: BTreeMap<OsString, Vec<u8>>,
}

/// Everything below `root`, by its path from there.
pub fn check_at(root: &Path) -> BTreeMap<PathBuf, Seen> {
    let mut seen = BTreeMap::new();
    let mut todo = vec![PathBuf::new()];
    while let Some(path) = todo.pop() {
        let full = root.join(&path);
        let metadata = std::fs::symlink_metadata(&full).unwrap_or_else(|error| panic!("{}: {error}", full.display()));
        let kind = metadata.file_type();
        let names = kind.is_dir().then(|| {
            let entries = std::fs::read_dir(&full).unwrap().map(Result::unwrap);
            entries
                .map(|entry| {
                    todo.push(path.join(entry.file_name()));
                    (entry.file_name(), (format!("{:?}", entry.file_type().unwrap()), entry.ino()))
                })
                .collect()
        });
        let content = kind.is_file().then(|| std::fs::read(&full).unwrap());
        let link = kind.is_symlink().then(|| std::fs::read_link(&full).unwrap());
        let has_xattrs = kind.is_file() || kind.is_dir();
        let xattrs = if has_xattrs { xattrs(&full) } else { BTreeMap::new() };
        seen.insert(path, Seen { stat: stat(&metadata), link, content, names, xattrs });
    }
    seen
}

/// Compares two trees, name by name.
pub fn assert_same(source: &Path, view: &Path) {
    let (source, mut view) = (check_at(source), check_at(view));
    for (path, expected) in &source {
        let found = view.remove(path).unwrap_or_else(|| panic!("{} is missing", path.display()));
        assert!(found == *expected, "{}:\n  {found:?}\nis not\n  {expected:?}", path.display());
    }
    assert!(view.is_empty(), "made up: {:?}", view.keys());
}

fn stat(m: &Metadata) -> String {
    format!(
        "mode {:o} links {} owner {}:{} ino {} rdev {} size {} blocks {} mtime {}.{} ctime {}.{} born {:?}",
        m.mode(),
        m.nlink(),
        m.uid(),
        m.gid(),
        m.ino(),
        m.rdev(),
        m.size(),
        m.blocks(),
        m.mtime(),
        m.mtime_nsec(),
        m.ctime(),
        m.ctime_nsec(),
        m.created().ok(),
    )
}

fn xattrs(path: &Path) -> BTreeMap<OsString, Vec<u8>> {
    use std::os::unix::ffi::OsStringExt;
    let mut list = vec![0; 4096];
    let Ok(bytes) = rustix::fs::llistxattr(path, &mut list[..]) else { return BTreeMap::new() };
    let names = list[..bytes].split(|&byte| byte == 0).filter(|name| !name.is_empty());
    names
        .map(|name| {
            let mut value = vec![0; 4096];
            let bytes = rustix::fs::lgetxattr(path, name, &mut value[..]).unwrap();
            value.truncate(bytes);
            (OsString::from_vec(name.to_vec()), value)
        })
        .collect()
}
