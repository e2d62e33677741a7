//! Counts of events in runs.

/// Counts of events in one run, or in several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "named as what they count")]
pub struct Summary {
    pub runs: u64,
    pub nodes: u32,
    /// Requests of processes.
    pub requests: u64,
    /// Those of them that had to succeed.
    pub musts: u64,
    /// Requests that used the source file.
    pub fallbacks: u64,
    /// On the shared file system.
    pub files_opened: u64,
    pub directories_read: u64,
    pub entries_read: u64,
    /// Names examined for all of their directory.
    pub details_read: u64,
    pub messages: u64,
    pub evictions: u64,
    /// Things pushed to children.
    pub pushes: u64,
    /// Names published as further names of a file.
    pub hard_links: u64,
    /// Paths forgotten.
    pub forgotten: u64,
    /// Noticed changes of source files.
    pub changed: u64,
    /// Generations that nodes began.
    pub generations: u64,
    /// Times that wrong content was noticed.
    pub corrupt: u64,
    /// Content that another rank continued.
    pub continued: u64,
    /// Blocks published.
    pub blocks: u64,
    /// Restarted nodes, and those that restored what was published.
    pub restarts: u64,
    pub recoveries: u64,
    /// All faults.
    pub faults: u64,
}

impl std::ops::Add for Summary {
    type Output = Summary;

    fn add(self, other: Summary) -> Summary {
        Summary {
            runs: self.runs + other.runs,
            nodes: self.nodes + other.nodes,
            requests: self.requests + other.requests,
            musts: self.musts + other.musts,
            fallbacks: self.fallbacks + other.fallbacks,
            files_opened: self.files_opened + other.files_opened,
            directories_read: self.directories_read + other.directories_read,
            entries_read: self.entries_read + other.entries_read,
            details_read: self.details_read + other.details_read,
            messages: self.messages + other.messages,
            evictions: self.evictions + other.evictions,
            pushes: self.pushes + other.pushes,
            hard_links: self.hard_links + other.hard_links,
            forgotten: self.forgotten + other.forgotten,
            changed: self.changed + other.changed,
            generations: self.generations + other.generations,
            corrupt: self.corrupt + other.corrupt,
            continued: self.continued + other.continued,
            blocks: self.blocks + other.blocks,
            restarts: self.restarts + other.restarts,
            recoveries: self.recoveries + other.recoveries,
            faults: self.faults + other.faults,
        }
    }
}
