//! Counts of events in runs.

macro_rules! summary {
    ($($(#[$doc:meta])* $count:ident: $type:ty,)+) => {
        /// Counts of events in one run, or in several.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[allow(missing_docs, reason = "named as what they count")]
        pub struct Summary {
            $($(#[$doc])* pub $count: $type,)+
        }

        impl std::ops::Add for Summary {
            type Output = Summary;

            fn add(self, other: Summary) -> Summary {
                Summary { $($count: self.$count + other.$count,)+ }
            }
        }
    };
}

summary! {
    runs: u64,
    nodes: u32,
    /// Requests of processes.
    requests: u64,
    /// Those of them that had to succeed.
    musts: u64,
    /// Requests that used the source file.
    fallbacks: u64,
    /// On the shared file system.
    files_opened: u64,
    directories_read: u64,
    entries_read: u64,
    /// Names examined for all of their directory.
    details_read: u64,
    messages: u64,
    evictions: u64,
    /// Things pushed to children.
    pushes: u64,
    /// Names published as further names of a file.
    hard_links: u64,
    /// Files that were left to processes.
    direct: u64,
    /// Files that processes read in their node's mount.
    in_mount: u64,
    /// Paths forgotten.
    forgotten: u64,
    /// Noticed changes of source files.
    changed: u64,
    /// Generations that nodes began.
    generations: u64,
    /// Times that wrong content was noticed.
    corrupt: u64,
    /// Content that another rank continued.
    continued: u64,
    /// Blocks published.
    blocks: u64,
    /// Restarted nodes, and those that restored what was published.
    restarts: u64,
    recoveries: u64,
    /// All faults.
    faults: u64,
}
