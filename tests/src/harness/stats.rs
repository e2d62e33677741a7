//! The output of `headwater stats --json`, added up over the nodes.

use serde_json::Value;

/// Operations whose answers the kernel does not cache: `find` queries the type of the file system, Python at each open
/// whether it has opened a terminal.
const NEVER_REMEMBERED: [&str; 2] = ["ioctl", "statfs"];

/// Operations that always reach the source.
const OF_SOURCES: [&str; 3] = ["getxattr", "listxattr", "statfs"];

/// FUSE requests, but for those that the kernel repeats on any file system.
pub fn fuse_requests(stats: &Value) -> u64 {
    let all: u64 = nodes(stats).map(|node| number(&node["hits"]["upcalls"])).sum();
    all - of_operations(stats, &NEVER_REMEMBERED, "count")
}

/// Requests for pages, of files or of listings, which a kernel may drop at any time.
const OF_PAGES: [&str; 3] = ["read", "readdir", "readdirplus"];

/// Requests for pages; [`fuse_requests`] counts them, too.
pub fn page_requests(stats: &Value) -> u64 {
    of_operations(stats, &OF_PAGES, "count")
}

/// Requests that were served from the source though the node should have served them.
pub fn from_original(stats: &Value) -> u64 {
    let all: u64 = nodes(stats).map(|node| number(&node["hits"]["original"])).sum();
    all - of_operations(stats, &OF_SOURCES, "from_original")
}

/// How often each operation was answered, as a line of text.
pub fn operations(stats: &Value) -> String {
    let all = nodes(stats).flat_map(|node| node["operations"].as_array().into_iter().flatten());
    let shown = all.map(|operation| format!("{} {}", operation["name"].as_str().unwrap_or("?"), operation["count"]));
    shown.collect::<Vec<_>>().join(", ")
}

fn nodes(stats: &Value) -> impl Iterator<Item = &Value> {
    let nodes = stats["nodes"].as_object().unwrap_or_else(|| panic!("no nodes in {stats:#}"));
    nodes.values()
}

fn of_operations(stats: &Value, names: &[&str], what: &str) -> u64 {
    let operations = nodes(stats).flat_map(|node| node["operations"].as_array().into_iter().flatten());
    let counted = operations.filter(|operation| names.iter().any(|name| operation["name"] == *name));
    counted.map(|operation| number(&operation[what])).sum()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("a number is expected, not {value}"))
}
