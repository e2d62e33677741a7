//! The file systems of the scope. The kernel shows one device for all of them, so a file's number alone must distinguish
//! it from all others: programs take two files of one device and one number for one.

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::RwLock;

use headwater_abi::Path;
use headwater_fuse::mount::unescape;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// The mounts of this process's namespace: proc_pid_mountinfo(5).
const MOUNTS: &str = "/proc/self/mountinfo";
/// The type of the own mounts, which show what lies below them.
const OWN_TYPE: &[u8] = b"fuse.headwater";

/// The mounts that have a part of the scope.
pub(crate) struct FileSystems {
    /// Directories that are shown with all below; the numbers of the first one's file system are shown as they are.
    roots: Vec<Path>,
    mounts: RwLock<Vec<Mount>>,
    /// Becomes readable when there are others.
    changes: Option<File>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Mount {
    point: Path,
    /// What distinguishes its file system's numbers; `None` if they are shown as they are.
    key: Option<u64>,
}

impl FileSystems {
    /// Returns those of the directories that are shown.
    pub(crate) fn of(roots: Vec<Path>) -> FileSystems {
        let changes = File::open(MOUNTS).ok();
        let mounts = RwLock::new(read(&roots));
        FileSystems { roots, mounts, changes }
    }

    /// Returns the shown inode number for one of the file system that has `path`. A directory may be a new mount's.
    pub(crate) fn ino(&self, path: &Path, is_directory: bool, ino: u64) -> u64 {
        if is_directory && self.have_changed() {
            let mounts = read(&self.roots);
            *self.mounts.write().expect("no holder panics") = mounts;
        }
        let mounts = self.mounts.read().expect("no holder panics");
        // Deeper ones come first.
        let mount = mounts.iter().find(|mount| path.is_within(&mount.point));
        mount.and_then(|mount| mount.key).map_or(ino, |key| mixed(key, ino))
    }

    fn have_changed(&self) -> bool {
        let Some(changes) = &self.changes else { return false };
        let mut fds = [PollFd::new(changes, PollFlags::PRI)];
        poll(&mut fds, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
    }
}

fn read(roots: &[Path]) -> Vec<Mount> {
    fs::read(MOUNTS).map(|table| relevant(roots, &table)).unwrap_or_default()
}

/// Returns the mounts that contain one of the directories or lie within one, the deepest first. Empty if all are of one
/// file system.
fn relevant(roots: &[Path], table: &[u8]) -> Vec<Mount> {
    // A later line lies above an earlier one of the same place.
    let mut all: Vec<(Path, &[u8])> = table.split(|&byte| byte == b'\n').filter_map(parse).collect();
    all.reverse();
    all.sort_by_key(|(point, _)| std::cmp::Reverse(point.as_bytes().len()));
    let holder = |root: &Path| all.iter().position(|(point, _)| root.is_within(point));
    let Some(base) = roots.first().and_then(holder) else { return Vec::new() };
    let holders: Vec<usize> = roots.iter().filter_map(holder).collect();
    let is_relevant = |at: usize, point: &Path| holders.contains(&at) || roots.iter().any(|root| point.is_within(root));
    // Nodes have the same mounts by other numbers: the key is that of a place.
    let place = |device: &[u8]| all.iter().filter(|(_, of)| *of == device).map(|(point, _)| point.as_bytes()).min();
    let mounts = all.iter().enumerate().filter(|(at, (point, _))| is_relevant(*at, point));
    let mounts = mounts.map(|(_, (point, device))| Mount {
        point: point.clone(),
        key: place(device).filter(|_| *device != all[base].1).map(|place| {
            let mut hasher = DefaultHasher::new();
            place.hash(&mut hasher);
            hasher.finish()
        }),
    });
    let mounts: Vec<Mount> = mounts.collect();
    if mounts.iter().all(|mount| mount.key.is_none()) { Vec::new() } else { mounts }
}

/// Returns a line's mount point and device.
fn parse(line: &[u8]) -> Option<(Path, &[u8])> {
    let mut fields = line.split(|&byte| byte == b' ');
    let device = fields.nth(2)?;
    let point = Path::new(&unescape(fields.nth(1)?))?;
    let is_own = fields.skip_while(|field| *field != b"-").nth(1)? == OWN_TYPE;
    (!is_own).then_some((point, device))
}

/// Returns different numbers for different ones of a file system, which other file systems' don't equal but by a chance
/// of 2⁻⁶⁴ for each pair. Never 0, by which a listing marks a removed name. Source: the finalizer of SplitMix64 (Steele,
/// Lea and Flood, OOPSLA'14).
fn mixed(key: u64, ino: u64) -> u64 {
    let mut z = key ^ ino;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z ^ (z >> 31)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> Path {
        Path::new(text.as_bytes()).unwrap()
    }

    const TABLE: &[u8] = b"\
        22 1 8:1 / / rw - ext4 /dev/a rw\n\
        30 22 0:43 / /lustre rw - lustre mgs:/l rw\n\
        31 30 0:299 / /lustre/nested rw - nfs s:/n rw\n\
        32 22 0:51 /x /pro\\040jects rw - nfs s:/p rw\n\
        33 22 0:43 /sw /sw rw - lustre mgs:/l rw\n\
        34 30 0:60 / /lustre/sw ro - fuse.headwater headwater ro\n";

    fn shown(roots: &[&str], at: &str, ino: u64) -> u64 {
        let roots: Vec<Path> = roots.iter().map(|root| path(root)).collect();
        let mounts = RwLock::new(relevant(&roots, TABLE));
        FileSystems { roots, mounts, changes: None }.ino(&path(at), true, ino)
    }

    #[test]
    fn files_of_several_file_systems_have_numbers_of_their_own() {
        let roots = ["/lustre/sw", "/pro jects/a"];
        assert_eq!(shown(&roots, "/lustre/sw/x", 7), 7);
        let other = shown(&roots, "/pro jects/a/x", 7);
        assert_ne!(other, 7);
        assert_eq!(shown(&roots, "/pro jects/a/y", 7), other, "a hard link");
        assert_ne!(shown(&roots, "/pro jects/a/x", 8), other);
        // What is mounted within, too.
        let nested = shown(&["/lustre"], "/lustre/nested/x", 7);
        assert_ne!(nested, 7);
        assert_eq!(shown(&["/lustre"], "/lustre/x", 7), 7);
        assert_eq!(shown(&["/pro jects/a", "/lustre"], "/pro jects/a/x", 7), 7);
    }

    #[test]
    fn a_file_system_that_is_mounted_twice_is_one() {
        assert_eq!(shown(&["/lustre/sw", "/sw"], "/sw/x", 7), 7);
        let roots = ["/pro jects", "/lustre", "/sw"];
        assert_eq!(shown(&roots, "/sw/x", 7), shown(&roots, "/lustre/x", 7));
        assert_ne!(shown(&roots, "/sw/x", 7), 7);
    }

    #[test]
    fn nothing_changes_on_one_file_system_or_without_a_table() {
        let roots = [path("/lustre/sw"), path("/lustre/a")];
        assert_eq!(relevant(&roots, TABLE), []);
        assert_eq!(relevant(&roots, b"garbage\n1 2 3\n"), []);
        assert_eq!(relevant(&[], TABLE), []);
    }

    #[test]
    fn numbers_stay_different_and_are_never_zero() {
        let mut all: Vec<u64> = (0..10_000).map(|ino| mixed(5, ino)).collect();
        assert!(!all.contains(&0));
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 10_000);
        assert_ne!(mixed(5, 5), 0);
    }
}
