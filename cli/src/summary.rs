//! The summary of a session, for people and for programs.

use std::fmt;
use std::fs;
use std::path::Path;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use headwater_daemon::{Cached, LargeFiles, Memory, Mount, Report, SharedFs};
use headwater_figures::text::{grouped, size};
use serde::Serialize;

use crate::message::log;
use crate::process::monotonic_us;
use crate::status::{Ending, FAILURE};
use crate::via::{Choice, Mechanism};
use crate::warm::Forked;

/// When the session started, on both clocks.
#[derive(Clone, Copy, Debug)]
pub struct Start {
    instant: Instant,
    unix_ms: u64,
    monotonic_us: u64,
}

/// Milliseconds from the start; `None` for events that did not happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Timeline {
    /// Every daemon was ready.
    pub daemons_ready_ms: Option<f64>,
    /// The first fact or byte was on a node.
    pub first_byte_ms: Option<f64>,
    /// The last file was complete on its last node.
    pub last_file_ms: Option<f64>,
    /// The last process had ended.
    pub program_exit_ms: Option<f64>,
}

/// Traffic between daemons.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Overlay {
    /// Messages that all daemons sent.
    pub messages: u64,
    /// Bytes that all daemons sent.
    pub bytes: u64,
    /// How many of the bytes used libfabric.
    pub fabric_bytes: u64,
    /// Hops from the root to the furthest rank.
    pub depth: u32,
    /// Contents from peers with a wrong digest; they were fetched again from others.
    pub mismatches: u64,
}

/// Look-ups of processes on all nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Clients {
    /// Paths looked up.
    pub lookups: u64,
    /// Look-ups that the table answered at once.
    pub answered_by_table: u64,
    /// Requests to the daemons.
    pub requests: u64,
    /// Paths in the scope for which the source file was used.
    pub fallbacks: u64,
}

/// What was preloaded, on the node that fetched most.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Preloaded {
    /// The list, or the program whose libraries were fetched; `None` without preloading.
    pub from: Option<String>,
    /// Entries of the list.
    pub entries: u64,
    /// Files with fetched content.
    pub files: u64,
    /// Entries whose source files have changed since the recording.
    pub changed: u64,
    /// Entries that could not be fetched.
    pub failed: u64,
}

/// What a session did.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Summary {
    /// Number of nodes.
    pub nodes: u32,
    /// How many of them are servers.
    pub servers: u32,
    /// Number of processes on all nodes.
    pub processes: u32,
    /// How many of them were forked from a zygote.
    pub from_zygotes: u32,
    /// How many that these started were forked from a zygote.
    pub children_from_zygotes: u32,
    /// The exit status.
    pub exit_status: Ending,
    /// How the files reached the program: the mechanism's name, as `--via` has it.
    pub via: String,
    /// The reason for the mechanism.
    pub via_reason: String,
    /// Why the program ran without Headwater, if it did.
    pub off: Option<String>,
    /// Why a node used TCP in place of libfabric, and how many did.
    pub tcp_instead: Option<(String, u32)>,
    /// Why a node's links did without one of the named interfaces, and on how many nodes some did.
    pub interface_failures: Option<(String, u32)>,
    /// Nodes that did not join in time, as far as they are known.
    pub nodes_missing: u32,
    /// Daemons that ended without a report.
    pub daemons_lost: u32,
    /// Nodes whose last report is from before their end, because the batch system has killed their daemons.
    pub reports_interim: u32,
    /// Work on the shared file system, by all readers.
    pub shared_fs: SharedFs,
    /// Traffic between daemons.
    pub overlay: Overlay,
    /// Preloading.
    pub preload: Preloaded,
    /// Look-ups of processes.
    pub clients: Clients,
    /// FUSE requests to the mounts.
    pub mount: Mount,
    /// What the nodes' caches had.
    pub cached: Cached,
    /// Files that are too large to be stored, on the node that knows most of them.
    pub large: LargeFiles,
    /// Nodes that have such files.
    pub large_nodes: u32,
    /// Memory of the node that used most.
    pub memory: Memory,
    /// Milliseconds from the start.
    pub timeline: Timeline,
}

impl Start {
    /// Returns the present time.
    pub fn now() -> Start {
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Start { instant: Instant::now(), unix_ms: unix.as_millis() as u64, monotonic_us: monotonic_us() }
    }

    /// Returns the time by this machine's monotonic clock, in microseconds.
    pub fn monotonic_us(self) -> u64 {
        self.monotonic_us
    }

    /// Returns the time since the epoch, in milliseconds.
    pub fn unix_ms(self) -> u64 {
        self.unix_ms
    }

    /// Returns the milliseconds since then.
    pub fn elapsed_ms(self) -> f64 {
        (self.instant.elapsed().as_secs_f64() * 1e6).round() / 1e3
    }

    /// Returns the milliseconds from the start to a time of another machine's clock; `None` if that clock is wrong.
    fn since(self, unix_ms: u64) -> Option<f64> {
        let ms = unix_ms.checked_sub(self.unix_ms)? as f64;
        (ms <= self.elapsed_ms().ceil()).then_some(ms)
    }
}

impl Summary {
    /// Returns the summary of a program that has not run yet.
    pub fn new(nodes: u32, processes: u32, choice: &Choice) -> Summary {
        Summary {
            nodes,
            processes,
            via: choice.mechanism.name().into(),
            via_reason: choice.reason.clone(),
            off: (choice.mechanism == Mechanism::Off).then(|| choice.reason.clone()),
            ..Summary::default()
        }
    }

    /// Reports an error of the run itself, after the program has ended.
    pub fn fail(&mut self, error: &anyhow::Error) {
        log(format_args!("{error:#}"));
        if self.exit_status == Ending::default() {
            self.exit_status = FAILURE.into();
        }
    }

    /// Adds what zygotes forked.
    pub fn add_forked(&mut self, forked: Forked) {
        self.from_zygotes += forked.ranks;
        self.children_from_zygotes += forked.children;
    }

    /// Adds the daemons' reports; `None` for a lost daemon.
    pub fn add(&mut self, reports: &[Option<Report>], start: Start) {
        for report in reports {
            let Some(report) = report else {
                self.daemons_lost += 1;
                continue;
            };
            self.shared_fs.files_read += report.shared_fs.files_read;
            self.shared_fs.directories_read += report.shared_fs.directories_read;
            self.shared_fs.bytes_read += report.shared_fs.bytes_read;
            self.shared_fs.operations += report.shared_fs.operations;
            self.overlay.messages += report.overlay.messages;
            self.overlay.bytes += report.overlay.bytes;
            self.overlay.fabric_bytes += report.overlay.fabric_bytes;
            if let Some(why) = &report.tcp_instead {
                self.tcp_instead.get_or_insert_with(|| (why.clone(), 0)).1 += 1;
            }
            if let Some(why) = &report.interface_failure {
                self.interface_failures.get_or_insert_with(|| (why.clone(), 0)).1 += 1;
            }
            self.overlay.mismatches += report.overlay.mismatches;
            self.overlay.depth = self.overlay.depth.max(report.depth);
            self.clients.lookups += report.clients.lookups;
            self.clients.answered_by_table += report.clients.answered_by_table;
            self.clients.requests += report.clients.requests;
            self.clients.fallbacks += report.clients.fallbacks;
            self.mount.add(&report.mount);
            let preload = &mut self.preload;
            preload.entries = preload.entries.max(report.preload.entries);
            preload.files = preload.files.max(report.preload.files);
            preload.changed = preload.changed.max(report.preload.changed);
            preload.failed = preload.failed.max(report.preload.failed);
            self.cached.files += report.cached.files;
            self.cached.bytes += report.cached.bytes;
            self.large_nodes += u32::from(report.large.files > 0);
            if report.large.files >= self.large.files {
                self.large = report.large;
            }
            self.memory.store_bytes = self.memory.store_bytes.max(report.memory.store_bytes);
            self.memory.replica_bytes = self.memory.replica_bytes.max(report.memory.replica_bytes);
            self.memory.table_bytes = self.memory.table_bytes.max(report.memory.table_bytes);
            self.memory.daemon_rss_bytes_max = self.memory.daemon_rss_bytes_max.max(report.memory.daemon_rss_bytes_max);
        }
        let times = |time: fn(&Report) -> Option<u64>| {
            reports.iter().flatten().filter_map(time).filter_map(|unix_ms| start.since(unix_ms))
        };
        self.timeline.first_byte_ms = times(|report| report.first_byte_unix_ms).min_by(f64::total_cmp);
        self.timeline.last_file_ms = times(|report| report.last_file_unix_ms).max_by(f64::total_cmp);
    }

    /// Returns the look-ups of processes, or requests of the kernel, that were no operation on the shared file system.
    pub fn saved_operations(&self) -> u64 {
        let asked = self.clients.lookups + self.mount.upcalls;
        asked.saturating_sub(self.shared_fs.operations + self.mount.from_original + self.clients.fallbacks)
    }

    /// Writes the summary as JSON.
    pub fn write_json(&self, file: &Path) -> Result<()> {
        let json = serde_json::to_string_pretty(self)? + "\n";
        fs::write(file, json).with_context(|| format!("the summary can't be written to {}", file.display()))
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let took = self.timeline.program_exit_ms.map_or(String::new(), |ms| format!(", {:.2} s", ms / 1e3));
        let servers = match self.servers {
            0 => String::new(),
            servers => format!(" and {}", count(u64::from(servers), "server", "servers")),
        };
        writeln!(
            f,
            "headwater: {} on {}{servers}{took}",
            count(u64::from(self.processes), "process", "processes"),
            count(u64::from(self.nodes - self.servers), "node", "nodes")
        )?;
        if let Some(why) = &self.off {
            return writeln!(f, "  not used            {why}");
        }
        writeln!(f, "  mechanism           {}: {}", self.via, self.via_reason)?;
        if self.from_zygotes > 0 {
            let (zygotes, all) = (grouped(u64::from(self.from_zygotes)), grouped(u64::from(self.processes)));
            let children = self.children_from_zygotes;
            let children =
                if children > 0 { format!(", {} that these started", grouped(children.into())) } else { String::new() };
            writeln!(f, "  from zygotes        {zygotes} of {all} processes{children}")?;
        }
        let fs = &self.shared_fs;
        writeln!(
            f,
            "  shared file system  {} and {} read once, {} ({})",
            count(fs.files_read, "file", "files"),
            count(fs.directories_read, "directory", "directories"),
            size(fs.bytes_read),
            count(fs.operations, "operation", "operations")
        )?;
        self.fmt_preload(f)?;
        self.fmt_asked(f)?;
        if self.cached.files > 0 {
            let files = count(self.cached.files, "file", "files");
            writeln!(f, "  from caches         {files}, {}", size(self.cached.bytes))?;
        }
        self.fmt_large(f)?;
        writeln!(
            f,
            "  between nodes       {}{} in {}, tree of depth {}",
            size(self.overlay.bytes),
            match self.overlay.fabric_bytes {
                0 => String::new(),
                carried => format!(" ({} over libfabric)", size(carried)),
            },
            count(self.overlay.messages, "message", "messages"),
            self.overlay.depth
        )?;
        writeln!(
            f,
            "  memory on a node    store {}{}, table {}, daemon {}",
            size(self.memory.store_bytes),
            match self.memory.replica_bytes {
                0 => String::new(),
                replicas => format!(" ({} copies for memory domains)", size(replicas)),
            },
            size(self.memory.table_bytes),
            size(self.memory.daemon_rss_bytes_max)
        )?;
        self.fmt_troubles(f)
    }
}

impl Summary {
    fn fmt_preload(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Preloaded { from: Some(from), entries, files, changed, failed } = &self.preload else { return Ok(()) };
        if *entries == 0 {
            return Ok(());
        }
        let entries = count(*entries, "entry", "entries");
        write!(f, "  preloaded           {}, {entries} of {from}", count(*files, "file", "files"))?;
        for (number, what) in [(changed, "changed"), (failed, "not to be had")] {
            if *number > 0 {
                write!(f, ", {} {what}", grouped(*number))?;
            }
        }
        writeln!(f)
    }

    fn fmt_large(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LargeFiles { files, stored_bytes_max, direct_bytes_per_ms, trees_bytes_per_ms } = self.large;
        if files == 0 {
            return Ok(());
        }
        write!(f, "  large files         {} of more than {} ", count(files, "file", "files"), size(stored_bytes_max))?;
        if direct_bytes_per_ms == 0 {
            return writeln!(f, "not stored; processes read the source files");
        }
        let nodes = count(self.large_nodes.into(), "node", "nodes");
        let [direct, trees] = [direct_bytes_per_ms, trees_bytes_per_ms].map(|rate| size(rate * 1000));
        writeln!(f, "read directly on {nodes}: {direct}/s, through the trees {trees}/s")
    }

    /// Writes the look-ups of processes, or the kernel's requests.
    fn fmt_asked(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (clients, mount) = (&self.clients, &self.mount);
        if mount.upcalls > 0 {
            let in_memory = mount.upcalls.saturating_sub(mount.asked + mount.from_original);
            return writeln!(
                f,
                "  kernel              {}, {} answered in memory, {} sent to the daemons, {} to source files",
                count(mount.upcalls, "request", "requests"),
                grouped(in_memory),
                grouped(mount.asked),
                grouped(mount.from_original)
            );
        }
        writeln!(
            f,
            "  processes           {}, {} answered in memory, {} sent to the daemons",
            count(clients.lookups, "look-up", "look-ups"),
            grouped(clients.answered_by_table),
            grouped(clients.requests)
        )?;
        let operations = self.shared_fs.operations;
        if clients.lookups > operations && operations > 0 {
            let times = clients.lookups as f64 / operations as f64;
            writeln!(f, "  saved               {times:.1} look-ups for each operation on the shared file system")?;
        }
        Ok(())
    }

    fn fmt_troubles(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.clients.fallbacks > 0 {
            let times = count(self.clients.fallbacks, "time", "times");
            writeln!(f, "  source files        used {times} instead of a copy")?;
        }
        if let Some((why, nodes)) = &self.tcp_instead {
            let nodes = count(u64::from(*nodes), "node", "nodes");
            writeln!(f, "  transport           TCP in place of libfabric on {nodes}: {why}")?;
        }
        if let Some((why, nodes)) = &self.interface_failures {
            let nodes = count(u64::from(*nodes), "node", "nodes");
            writeln!(f, "  interfaces          links did without one on {nodes}: {why}")?;
        }
        if self.overlay.mismatches > 0 {
            let contents = count(self.overlay.mismatches, "content", "contents");
            writeln!(f, "  damaged             {contents} on the way, fetched again; the messages name the node")?;
        }
        if self.daemons_lost > 0 {
            writeln!(f, "  lost                {}", count(u64::from(self.daemons_lost), "daemon", "daemons"))?;
        }
        if self.reports_interim > 0 {
            let nodes = count(u64::from(self.reports_interim), "node", "nodes");
            writeln!(f, "  interim             {nodes}: the batch system ended the daemons after these numbers")?;
        }
        Ok(())
    }
}

fn count(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", grouped(number), if number == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn choice() -> Choice {
        Choice { mechanism: Mechanism::AUDIT_ALONE, reason: "--via audit".into() }
    }

    fn report() -> Report {
        let mut report = Report { depth: 1, ..Report::default() };
        report.shared_fs =
            SharedFs { files_read: 812, directories_read: 96, bytes_read: 173_000_000, operations: 3410 };
        report.clients.lookups = 45_120;
        report.memory.store_bytes = 5;
        report.last_file_unix_ms = Some(2000);
        report
    }

    #[test]
    fn reports_add_up() {
        let start = Start { instant: Instant::now() - Duration::from_secs(2), unix_ms: 1500, monotonic_us: 0 };
        let mut summary = Summary::new(4, 6, &choice());
        let mut other = report();
        other.memory.store_bytes = 7;
        other.last_file_unix_ms = Some(2500);
        // Its clock goes wrong.
        let mut wrong = Report { depth: 1, ..Report::default() };
        (wrong.first_byte_unix_ms, wrong.last_file_unix_ms) = (Some(3), Some(1 << 50));
        summary.add(&[Some(report()), None, Some(other), Some(wrong)], start);
        assert_eq!((summary.shared_fs.files_read, summary.clients.lookups), (1624, 90_240));
        assert_eq!((summary.memory.store_bytes, summary.overlay.depth, summary.daemons_lost), (7, 1, 1));
        assert_eq!((summary.timeline.last_file_ms, summary.timeline.first_byte_ms), (Some(1000.0), None));
    }

    #[test]
    fn each_field_has_a_line_in_the_reference() {
        let reference = include_str!("../../docs/reference/statistics.md");
        let reference = reference.split("## Living daemons").next().unwrap();
        fn check(reference: &str, fields: &serde_json::Value) {
            for (name, value) in fields.as_object().unwrap() {
                assert!(reference.contains(&format!("`{name}`")), "{name}");
                if value.is_object() {
                    check(reference, value);
                }
            }
        }
        check(reference, &serde_json::to_value(Summary::default()).unwrap());
    }

    #[test]
    fn people_can_read_it() {
        let mut summary = Summary::new(4, 16, &choice());
        summary.add(&[Some(report())], Start::now());
        let text = summary.to_string();
        for expected in [
            "16 processes on 4 nodes",
            "audit: --via audit",
            "812 files and 96 directories read once, 173 MB",
            "13.2 look-ups",
        ] {
            assert!(text.contains(expected), "{text}");
        }
        assert!(!text.contains("source files"));
        assert!(!text.contains("preloaded"));
        summary.preload = Preloaded { from: Some("x.closure".into()), entries: 812, files: 700, changed: 3, failed: 0 };
        let preloaded = "preloaded           700 files, 812 entries of x.closure, 3 changed\n";
        assert!(summary.to_string().contains(preloaded), "{summary}");
        assert!(!summary.to_string().contains("large files"));
        assert!(!summary.to_string().contains("caches"));
        summary.cached = Cached { files: 2000, bytes: 3_000_000 };
        assert!(summary.to_string().contains("from caches         2,000 files, 3.0 MB\n"), "{summary}");
        summary.large = LargeFiles { files: 3, stored_bytes_max: 16 << 20, ..LargeFiles::default() };
        let large = "large files         3 files of more than 17 MB not stored; processes read the source files\n";
        assert!(summary.to_string().contains(large), "{summary}");
        summary.large = LargeFiles { direct_bytes_per_ms: 2_900_000, trees_bytes_per_ms: 310_000, ..summary.large };
        summary.large_nodes = 4;
        let large = "large files         3 files of more than 17 MB read directly on 4 nodes: 2.9 GB/s, through the trees 310 MB/s\n";
        assert!(summary.to_string().contains(large), "{summary}");
        assert!(!summary.to_string().contains("zygotes"));
        summary.from_zygotes = 15;
        assert!(summary.to_string().contains("from zygotes        15 of 16 processes\n"), "{summary}");
        summary.children_from_zygotes = 3;
        assert!(summary.to_string().contains("15 of 16 processes, 3 that these started\n"), "{summary}");
        summary.servers = 1;
        assert!(summary.to_string().contains("16 processes on 3 nodes and 1 server"), "{summary}");
        summary.mount = Mount { upcalls: 3120, asked: 500, from_original: 20, ..Mount::default() };
        let text = summary.to_string();
        let kernel = "3,120 requests, 2,600 answered in memory, 500 sent to the daemons, 20 to source files";
        assert!(text.contains(kernel) && !text.contains("look-ups"), "{text}");
        assert!(Summary::new(1, 1, &Choice::off("why".into())).to_string().contains("not used            why"));
    }

    #[test]
    fn numbers_have_groups() {
        assert_eq!(["0", "999", "1,000", "1,234,567"], [0, 999, 1000, 1_234_567].map(grouped)[..]);
    }
}
