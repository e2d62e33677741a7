//! Which file systems are shared between nodes.

use std::path::Path;

/// `f_type` of the file systems that nodes share, with their names. FUSE counts: most of its mounts on HPC
/// sites are network file systems (GlusterFS, CernVM-FS, DAOS), and serving others costs little.
const NETWORK: &[(u64, &str)] = &[
    (0x6969, "NFS"),
    (0x0bd0_0bd0, "Lustre"),
    (0x4750_4653, "GPFS"),
    (0x1983_0326, "BeeGFS"),
    (0x00c3_6400, "CephFS"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "SMB2"),
    (0x0000_517b, "SMB"),
    (0x5346_414f, "AFS"),
    (0x6b41_4653, "AFS"),
    (0x7375_7245, "Coda"),
    (0x0102_1997, "9p"),
    (0x2003_0528, "OrangeFS"),
    (0xaad7_aaea, "PanFS"),
    (0x6573_5546, "FUSE"),
    (0x1803_1977, "WekaFS"),
    (0x7461_636f, "OCFS2"),
    (0x0116_1970, "GFS2"),
    (0xbeef_dead, "StorNext"),
    (0x0131_11a8, "Ibrix"),
];

/// Returns the name of the network file system of `path`; `None` if it is local or fails.
pub fn network_file_system(path: &Path) -> Option<&'static str> {
    let f_type = rustix::fs::statfs(path).ok()?.f_type as u64 & 0xffff_ffff;
    NETWORK.iter().find(|(magic, _)| *magic == f_type).map(|(_, name)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_file_systems_are_not_shared() {
        assert_eq!(network_file_system(Path::new("/proc")), None);
        assert_eq!(network_file_system(Path::new("/dev/shm")), None);
        assert_eq!(network_file_system(Path::new("/nonexistent")), None);
    }
}
