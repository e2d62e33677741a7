//! How many operations a file system's client has sent to its servers, where the kernel counts them: NFS.

use std::fs;
use std::path::Path;

/// The statistics of NFS mounts.
const TABLE: &str = "/proc/self/mountstats";
/// NFS operations that look up, examine or open files and directories; reads and writes of content are left out.
const METADATA: [&str; 20] = [
    "GETATTR",
    "SETATTR",
    "LOOKUP",
    "LOOKUPP",
    "ACCESS",
    "READLINK",
    "CREATE",
    "MKDIR",
    "SYMLINK",
    "MKNOD",
    "REMOVE",
    "RMDIR",
    "RENAME",
    "LINK",
    "READDIR",
    "READDIRPLUS",
    "OPEN",
    "OPEN_NOATTR",
    "OPEN_CONFIRM",
    "CLOSE",
];

/// Returns the operations on metadata since the file system at `point` was mounted; `None` if it does not count them.
pub fn operations(point: &Path) -> Option<u64> {
    parse(&fs::read_to_string(TABLE).ok()?, point)
}

/// Returns the operations in a table of statistics, of the last mount at `point`.
fn parse(table: &str, point: &Path) -> Option<u64> {
    let is_it = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let [_, _, "mounted", "on", at, "with", "fstype", kind, ..] = words[..] else { return false };
        Path::new(at) == point && kind.starts_with("nfs")
    };
    let lines: Vec<&str> = table.lines().collect();
    let start = lines.iter().rposition(|line| is_it(line))?;
    let own = lines[start + 1..].iter().take_while(|line| !line.starts_with("device "));
    let counts = own.skip_while(|line| line.trim() != "per-op statistics").skip(1).filter_map(|line| {
        let (name, numbers) = line.trim().split_once(": ")?;
        let count: u64 = numbers.split(' ').next()?.parse().ok()?;
        METADATA.contains(&name).then_some(count)
    });
    Some(counts.sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines as Linux writes them (net/sunrpc/stats.c, fs/nfs/super.c).
    const STATISTICS: &str = "\
device proc mounted on /proc with fstype proc
device io01:/sw mounted on /sw with fstype nfs4 statvers=1.1
\topts:\trw,vers=4.2,rsize=1048576
\tage:\t13968
\tcaps:\tcaps=0xfff7,wtmult=512
\tevents:\t52 226 0 0 1 13 398 0 0 331 0 47 0 0 77 0 0 77 0 0 0
\tbytes:\t1207640230 0 0 0 1210214218 0 295483 0
\tRPC iostats version: 1.1  p/v: 100003/4 (nfs)
\txprt:\ttcp 832 0 1 0 11 6428 6428 0 12154 0 24 26 5726
\tper-op statistics
\t        NULL: 1 1 0 44 24 0 0 0 0
\t        READ: 1298 1298 0 207680 1210292152 6 79386 79407 0
\t        OPEN: 77 77 0 9000 9000 0 1 1 0
\t     GETATTR: 100 100 0 12800 24000 0 11 12 2
\t      ACCESS: 23 23 0 12800 24000 0 11 12 0
\t       CLOSE: 50 50 0 1 1 0 1 1 0

device io01:/home mounted on /home with fstype nfs statvers=1.1
\tper-op statistics
\t     GETATTR: 7 7 0 1 1 0 1 1
";

    #[test]
    fn operations_on_metadata_are_counted() {
        let of = |point| parse(STATISTICS, Path::new(point));
        assert_eq!((of("/sw"), of("/home"), of("/proc"), of("/none")), (Some(250), Some(7), None, None));
    }
}
