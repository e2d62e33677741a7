//! The metrics that are one number of a daemon.

use headwater_daemon::stats::NodeStats;

/// Name, meaning and value.
type Number<T> = (&'static str, &'static str, fn(&NodeStats) -> T);

const MS_PER_SECOND: f64 = 1e3;

/// Numbers that fall, too.
pub(super) const GAUGES: [Number<f64>; 22] = [
    ("uptime_seconds", "Time since the daemon started.", |s| s.uptime_ms as f64 / MS_PER_SECOND),
    ("ranks", "Daemons of the session on all machines.", |s| f64::from(s.ranks)),
    ("generation", "The generation that processes which start now get.", |s| s.generation as f64),
    ("generations_kept", "Older generations that processes still use.", |s| s.generations_kept as f64),
    ("settling", "1 while the kernel has not been notified of all changes of a generation.", |s| flag(s.is_settling)),
    ("children_expected", "Nodes that are children of this one while all are alive.", |s| {
        s.links.children_expected as f64
    }),
    ("store_bytes", "Content in the store.", |s| s.bytes.store as f64),
    ("store_limit_bytes", "The most that the store holds now.", |s| s.bytes.store_max as f64),
    ("store_configured_bytes", "The most that the store holds while memory is not short.", |s| {
        s.bytes.store_max_configured as f64
    }),
    ("store_files", "Files with content in the store.", |s| s.holds.files as f64),
    ("known_paths", "Paths of which something is known.", |s| s.holds.entries as f64),
    ("store_memory_bytes", "Memory of the store's files.", |s| s.memory.store as f64),
    ("table_memory_bytes", "Memory of the shared table.", |s| s.memory.table as f64),
    ("resident_memory_bytes", "The daemon's resident set, with the touched part of the table.", |s| {
        s.memory.daemon_rss as f64
    }),
    ("mounted", "1 if the daemon serves a mount.", |s| flag(s.mount.is_some())),
    ("preload_entries", "Entries of the list to preload.", |s| s.preload.entries as f64),
    ("preload_files", "Files of the list of which the content came.", |s| s.preload.files as f64),
    ("preload_changed", "Entries of the list whose source files have changed.", |s| s.preload.changed as f64),
    ("preload_failed", "Entries of the list that could not be had.", |s| s.preload.failed as f64),
    ("preload_ended", "1 when all entries have been fetched or have failed.", |s| flag(s.preload.has_ended)),
    ("tcp_instead_of_libfabric", "1 if links use TCP because libfabric does not work.", |s| {
        flag(s.tcp_instead.is_some())
    }),
    ("interface_failing", "1 if links do without an interface that was named.", |s| {
        flag(s.interface_failure.is_some())
    }),
];

/// Numbers that only grow while the daemon runs.
pub(super) const COUNTERS: [Number<u64>; 16] = [
    ("mount_requests", "Requests of the kernel to the mount.", |s| s.hits.upcalls),
    ("sent_bytes", "Bytes sent to other daemons.", |s| s.bytes.sent),
    ("sent_fabric_bytes", "Bytes sent to other daemons over libfabric.", |s| s.bytes.sent_by_fabric),
    ("received_bytes", "Bytes received from other daemons.", |s| s.bytes.received),
    ("shared_fs_read_bytes", "Content read from the shared file system.", |s| s.shared_fs.bytes_read),
    ("shared_fs_files_read", "Files opened on the shared file system for their content.", |s| s.shared_fs.files_read),
    ("shared_fs_directories_read", "Directories listed on the shared file system.", |s| s.shared_fs.directories_read),
    ("shared_fs_operations", "System calls that can reach the servers of the shared file system.", |s| {
        s.shared_fs.operations
    }),
    ("evictions", "Files that gave way to others in the store.", |s| s.holds.evictions),
    ("damaged_contents", "Contents that arrived damaged and were fetched from other nodes.", |s| s.mismatches),
    ("changed_files", "How often a source file was found changed.", |s| s.changed.count),
    ("client_processes", "Processes that attached to the table.", |s| s.clients.processes),
    ("client_lookups", "Paths that processes of the audit library looked up.", |s| s.clients.lookups),
    ("client_table_answers", "Look-ups of the audit library that the table answered.", |s| s.clients.answered_by_table),
    ("client_requests", "Requests of the audit library to the daemon.", |s| s.clients.requests),
    ("client_fallbacks", "Look-ups of the audit library for which the source file was used.", |s| s.clients.fallbacks),
];

fn flag(is_set: bool) -> f64 {
    f64::from(u8::from(is_set))
}
