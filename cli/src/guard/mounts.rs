//! Which file systems are watched: network file systems of /proc/self/mountinfo, or those of named directories.
//!
//! Nothing here asks a file system, which may not answer.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

/// The kernel's names of network file systems, with those for people.
const NETWORK: &[(&str, &str)] = &[
    ("nfs", "NFS"),
    ("nfs4", "NFS"),
    ("lustre", "Lustre"),
    ("gpfs", "GPFS"),
    ("beegfs", "BeeGFS"),
    ("ceph", "CephFS"),
    ("cifs", "CIFS"),
    ("smb3", "SMB3"),
    ("afs", "AFS"),
    ("coda", "Coda"),
    ("9p", "9p"),
    ("pvfs2", "OrangeFS"),
    ("panfs", "PanFS"),
    ("wekafs", "WekaFS"),
    ("ocfs2", "OCFS2"),
    ("gfs2", "GFS2"),
    ("fuse", "FUSE"),
];
/// Beginning of the names of FUSE file systems with a type of their own.
const FUSE: &str = "fuse.";
/// FUSE file systems that show what is on this node.
const LOCAL_FUSE: [&str; 7] =
    ["portal", "gvfsd-fuse", "lxcfs", "squashfuse", "squashfuse_ll", "fuse-overlayfs", "headwater"];

/// A mounted file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mounted {
    /// The device's number, `MAJOR:MINOR`: one for each file system, however often it is mounted.
    pub device: String,
    /// Where it is mounted first.
    pub point: PathBuf,
    /// Its type, as people name it.
    pub kind: String,
}

/// Reads the table of mounts of this process's namespace.
///
/// # Errors
/// There is no /proc.
pub fn read() -> Result<Vec<Mounted>> {
    const TABLE: &str = "/proc/self/mountinfo";
    let text = fs::read_to_string(TABLE).with_context(|| format!("{TABLE} can't be read; is /proc mounted?"))?;
    Ok(parse(&text))
}

/// Returns those to be watched: of each named directory its file system, or else all network file systems. One whose
/// device is mounted several times is returned once.
///
/// # Errors
/// A named directory is not there.
pub fn select(mounted: &[Mounted], named: &[PathBuf]) -> Result<Vec<Mounted>> {
    let mut selected: Vec<Mounted> = Vec::new();
    let mut add = |found: &Mounted| {
        if !selected.iter().any(|known| known.device == found.device) {
            selected.push(found.clone());
        }
    };
    for directory in named {
        let shown = directory.display();
        let canonical = directory
            .canonicalize()
            .with_context(|| format!("--mount {shown} is not there; name a directory of a mounted file system"))?;
        ensure!(canonical.is_dir(), "--mount {shown} is not a directory; name one of a mounted file system");
        // Of several mounts at one place, the last is seen.
        let containing = mounted.iter().filter(|found| canonical.starts_with(&found.point));
        let containing = containing.max_by_key(|found| found.point.components().count());
        add(containing.with_context(|| format!("--mount {shown} is on no file system of /proc/self/mountinfo"))?);
    }
    if named.is_empty() {
        mounted.iter().filter(|found| is_network(&found.kind)).for_each(add);
    }
    Ok(selected)
}

fn is_network(kind: &str) -> bool {
    let fuse = kind.strip_prefix(FUSE).is_some_and(|own| !LOCAL_FUSE.contains(&own));
    fuse || NETWORK.iter().any(|(_, shown)| *shown == kind)
}

/// Returns the mounts of a mountinfo table (proc_pid_mountinfo(5)).
fn parse(text: &str) -> Vec<Mounted> {
    text.lines().filter_map(line).collect()
}

fn line(text: &str) -> Option<Mounted> {
    let (mount, file_system) = text.split_once(" - ")?;
    let mut fields = mount.split(' ').skip(2);
    let (device, point) = (fields.next()?, fields.nth(1)?);
    let kind = file_system.split(' ').next()?;
    let shown = NETWORK.iter().find(|(name, _)| *name == kind).map_or(kind, |(_, shown)| shown);
    Some(Mounted { device: device.into(), point: unescaped(point).into(), kind: shown.into() })
}

/// Replaces octal escapes, as of spaces.
fn unescaped(text: &str) -> String {
    let mut parts = text.split('\\');
    let mut whole = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                whole.push(char::from(byte));
                whole += &part[3..];
            }
            None => whole = whole + "\\" + part,
        }
    }
    whole
}

/// Returns the device's number of what is at `point` now, without asking the file system; `None` if nothing is.
pub fn device_at(point: &Path) -> Option<String> {
    use rustix::fs::{AtFlags, CWD, StatxFlags, statx};
    let flags = AtFlags::STATX_DONT_SYNC | AtFlags::NO_AUTOMOUNT;
    let found = statx(CWD, point, flags, StatxFlags::TYPE).ok()?;
    Some(format!("{}:{}", found.stx_dev_major, found.stx_dev_minor))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
30 22 0:21 / /proc rw shared:5 - proc proc rw
41 22 0:45 / /sw rw,relatime shared:9 master:2 - nfs4 io01:/sw rw,vers=4.2
42 22 0:45 /conda /opt/conda\\040old ro - nfs4 io01:/sw rw,vers=4.2
43 22 0:50 / /home rw - lustre mds@tcp:/home rw
44 22 0:51 / /gl rw - fuse.glusterfs io02:/gl rw
45 22 0:52 / /run/user/0/doc rw - fuse.portal portal rw
46 22 0:53 / /run/x rw - tmpfs tmpfs rw
broken line
";

    #[test]
    fn network_file_systems_are_watched_once() {
        let mounted = parse(TABLE);
        assert_eq!(mounted.len(), 8);
        let points = |named: &[PathBuf]| -> Vec<String> {
            let selected = select(&mounted, named).unwrap();
            selected.iter().map(|found| format!("{} {}", found.point.display(), found.kind)).collect()
        };
        assert_eq!(points(&[]), ["/sw NFS", "/home Lustre", "/gl fuse.glusterfs"]);
        assert_eq!(points(&["/proc/self".into(), "/".into(), "/usr".into()]), ["/proc proc", "/ ext4"]);
        assert_eq!(mounted[3].point, Path::new("/opt/conda old"));
    }

    #[test]
    fn named_directories_must_be_there() {
        let mounted = parse(TABLE);
        for (named, why) in [("/nonexistent", "is not there"), ("/proc/self/stat", "is not a directory")] {
            let error = format!("{:#}", select(&mounted, &[named.into()]).unwrap_err());
            assert!(error.contains(why) && error.contains("name "), "{error}");
        }
    }

    #[test]
    fn a_device_is_the_tables() {
        let mounted = read().unwrap();
        let proc = mounted.iter().find(|found| found.point == Path::new("/proc")).unwrap();
        assert_eq!(device_at(Path::new("/proc")), Some(proc.device.clone()));
        assert_eq!(device_at(Path::new("/nonexistent")), None);
    }
}
