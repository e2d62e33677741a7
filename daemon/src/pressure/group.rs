//! Memory limits of the daemon's control groups, version 2 or 1. A RAM disk's pages count in the writer's group, so a
//! full store can cause other processes of the group to be killed.

use std::path::{Path, PathBuf};

/// File and field names of one version.
#[derive(Debug)]
struct Names {
    /// Files with a limit in bytes.
    bounds: &'static [&'static str],
    used: &'static str,
    /// Fields of `memory.stat` with reclaimable bytes.
    reclaimable: [&'static str; 2],
}

const V2: Names = Names {
    bounds: &["memory.max", "memory.high"],
    used: "memory.current",
    reclaimable: ["inactive_file", "active_file"],
};
const V1: Names = Names {
    bounds: &["memory.limit_in_bytes"],
    used: "memory.usage_in_bytes",
    reclaimable: ["total_inactive_file", "total_active_file"],
};
/// Version 1 shows a missing limit as the largest number of whole pages.
const NO_BOUND_MIN: u64 = 1 << 60;

/// The daemon's group and its ancestors.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    /// The innermost first.
    levels: Vec<(PathBuf, &'static Names)>,
}

impl Groups {
    /// Finds the groups of the process directory `proc`, usually `/proc/self`.
    pub(crate) fn find(proc: &Path) -> Groups {
        let read = |name: &str| std::fs::read_to_string(proc.join(name)).unwrap_or_default();
        let (groups, mounts) = (read("cgroup"), read("mountinfo"));
        let mut levels = Vec::new();
        for line in groups.lines() {
            let mut fields = line.splitn(3, ':').skip(1);
            let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
            let names = match controllers {
                "" => &V2,
                list if list.split(',').any(|controller| controller == "memory") => &V1,
                _ => continue,
            };
            let is_of_version = |mount: &Mount<'_>| match controllers {
                "" => mount.kind == "cgroup2",
                _ => mount.kind == "cgroup" && mount.options.split(',').any(|option| option == "memory"),
            };
            let Some(mount) = mounts.lines().filter_map(Mount::parse).find(is_of_version) else { continue };
            levels.extend(mount.directories(path).into_iter().map(|directory| (directory, names)));
        }
        Groups { levels }
    }

    /// Returns the file with the stalls of the daemon's own group; `None` for the root group, whose stalls are the
    /// machine's.
    pub(crate) fn stall_file(&self) -> Option<PathBuf> {
        let (own, _) = self.levels.iter().find(|(_, names)| names.used == V2.used)?;
        own.join("cgroup.type").exists().then(|| own.join("memory.pressure"))
    }

    /// Returns the bytes that can be allocated before any group reaches its limit; `None` without a limit.
    pub(crate) fn free(&self) -> Option<u64> {
        self.levels.iter().filter_map(|(directory, names)| free(directory, names)).min()
    }
}

fn free(directory: &Path, names: &Names) -> Option<u64> {
    let read = |name: &str| std::fs::read_to_string(directory.join(name)).ok();
    let number = |name: &str| read(name)?.trim().parse::<u64>().ok();
    let bound = names.bounds.iter().filter_map(|name| number(name)).filter(|&bound| bound < NO_BOUND_MIN).min()?;
    let used = number(names.used)?;
    let stat = read("memory.stat").unwrap_or_default();
    let field = |name: &str| {
        let value = |line: &str| line.strip_prefix(name)?.strip_prefix(' ')?.parse::<u64>().ok();
        stat.lines().find_map(value).unwrap_or(0)
    };
    let reclaimable = names.reclaimable.iter().map(|name| field(name)).fold(0, u64::saturating_add);
    Some(bound.saturating_sub(used.saturating_sub(reclaimable)))
}

/// A line of `mountinfo`, see proc(5).
struct Mount<'a> {
    root: &'a str,
    point: &'a str,
    kind: &'a str,
    options: &'a str,
}

impl<'a> Mount<'a> {
    fn parse(line: &'a str) -> Option<Mount<'a>> {
        let (before, after) = line.split_once(" - ")?;
        let mut before = before.split(' ').skip(3);
        let mut after = after.split(' ');
        let (root, point) = (before.next()?, before.next()?);
        Some(Mount { root, point, kind: after.next()?, options: after.nth(1)? })
    }

    /// Returns the directories of the group `path` and its ancestors, as far as they are mounted.
    fn directories(&self, path: &str) -> Vec<PathBuf> {
        let below = Path::new(path).strip_prefix(self.root).unwrap_or(Path::new(""));
        // The path of a group outside of the mount contains `..`.
        let is_seen = below.components().all(|part| matches!(part, std::path::Component::Normal(_)));
        let below = if is_seen { below } else { Path::new("") };
        below.ancestors().map(|below| Path::new(self.point).join(below)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// A directory with a `/proc/self` and its groups.
    struct Site(tempfile::TempDir);

    impl Site {
        fn new(groups: &str, mounts: &[(&str, &str, &str)]) -> Site {
            let site = Site(tempfile::tempdir().unwrap());
            let line = |(root, point, rest): &(&str, &str, &str)| {
                format!("31 23 0:28 {root} {} rw,relatime shared:9 - {rest}\n", site.0.path().join(point).display())
            };
            site.file("cgroup", groups);
            site.file("mountinfo", &mounts.iter().map(line).collect::<String>());
            site
        }

        fn file(&self, name: &str, content: &str) {
            let path = self.0.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }

        fn free(&self) -> Option<u64> {
            Groups::find(self.0.path()).free()
        }
    }

    #[test]
    fn version_2_counts_each_level_without_what_can_be_reclaimed() {
        let site = Site::new("0::/job/step\n", &[("/", "cg", "cgroup2 cgroup2 rw,nsdelegate")]);
        assert_eq!(site.free(), None);
        site.file("cg/job/memory.max", &format!("{}\n", 100 * MIB));
        site.file("cg/job/memory.high", "max\n");
        site.file("cg/job/memory.current", &format!("{}\n", 80 * MIB));
        assert_eq!(site.free(), Some(20 * MIB));
        site.file("cg/job/memory.stat", &format!("anon 1\ninactive_file {}\nactive_file {}\nshmem 7\n", 5 * MIB, MIB));
        assert_eq!(site.free(), Some(26 * MIB));
        site.file("cg/job/step/memory.max", "max\n");
        site.file("cg/job/step/memory.high", &format!("{}\n", 50 * MIB));
        site.file("cg/job/step/memory.current", &format!("{}\n", 60 * MIB));
        assert_eq!(site.free(), Some(0));
        assert_eq!(Groups::find(site.0.path()).stall_file(), None);
        site.file("cg/job/step/cgroup.type", "domain\n");
        assert_eq!(Groups::find(site.0.path()).stall_file(), Some(site.0.path().join("cg/job/step/memory.pressure")));
    }

    #[test]
    fn version_1_is_found_by_its_controller() {
        let groups = "9:name=systemd:/\n4:cpu,memory:/slurm/job\n0::/\n";
        let mounts = [("/", "cpu", "cgroup cgroup rw,cpuset"), ("/slurm", "memory", "cgroup cgroup rw,cpu,memory")];
        let site = Site::new(groups, &mounts);
        site.file("memory/memory.limit_in_bytes", "9223372036854771712\n");
        site.file("memory/memory.usage_in_bytes", "1000\n");
        assert_eq!(site.free(), None, "that is no limit");
        site.file("memory/job/memory.limit_in_bytes", &format!("{}\n", 64 * MIB));
        site.file("memory/job/memory.usage_in_bytes", &format!("{}\n", 60 * MIB));
        site.file("memory/job/memory.stat", &format!("inactive_file 7\ntotal_inactive_file {}\n", 2 * MIB));
        assert_eq!(site.free(), Some(6 * MIB));
    }

    #[test]
    fn what_is_not_seen_bounds_nothing() {
        let check = |groups: &str, mounts: &[(&str, &str, &str)]| assert_eq!(Site::new(groups, mounts).free(), None);
        check("", &[]);
        check("0::/\n", &[("/", "cg", "cgroup2 cgroup2 rw")]);
        check("nonsense\n0::\n::\n", &[("/", "cg", "cgroup2 cgroup2 rw")]);
        assert_eq!(Groups::find(Path::new("/nonexistent")).free(), None);
        let site = Site::new("0::/../other\n", &[("/", "cg", "cgroup2 cgroup2 rw")]);
        site.file("other/memory.max", "1\n");
        site.file("other/memory.current", "1\n");
        assert_eq!(site.free(), None);
    }
}
